package doctor

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	sched "github.com/whylate/whylate/capture/kernel"
)

// thisKernel asks the running kernel.
var thisKernel = kernel{clock: readings, adjtimex: adjtimex, packet: packet, bpf: loadProgram, sched: sched.Check}

const clockMonotonic = 1 // CLOCK_MONOTONIC, what time.Since reads

// readings returns what one time.Since and one clock_gettime system call cost, in
// nanoseconds, in rounds that alternate between both, so that whatever else runs
// on the CPU meets both alike.
func readings() (since, raw []float64) {
	const rounds, calls = 201, 16
	base := time.Now()
	var sum time.Duration // of what is read, so that it is read
	for range rounds {
		a := time.Now()
		for range calls {
			sum += time.Since(base)
		}
		b := time.Now()
		var ts syscall.Timespec
		for range calls {
			syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
		}
		sum += time.Duration(ts.Nano())
		since = append(since, float64(b.Sub(a))/calls)
		raw = append(raw, float64(time.Since(b))/calls)
	}
	runtime.KeepAlive(sum)
	return since, raw
}

// adjtimex returns what the kernel knows about its synchronisation.
func adjtimex() (timex, error) {
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	return timex{State: state, Status: int64(t.Status), Offset: int64(t.Offset), MaxErrorUS: int64(t.Maxerror)}, err
}

// packet opens a packet socket of no protocol, which receives nothing.
func packet() error {
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// bpfNumber is bpf(2); package syscall is frozen and lacks it for amd64.
var bpfNumber = map[string]uintptr{"amd64": 321, "arm64": 280}

// The program that loadProgram loads: r0 = 0; exit, in the byte order of the
// architectures above. Variables of the package do not move.
var (
	bpfCode    = [...]uint64{0xb7, 0x95}
	bpfLicence = [...]byte{'G', 'P', 'L', 0}
)

// loadProgram loads a tracing program that does nothing and drops it again: what
// the kernel demands for it (CAP_BPF and CAP_PERFMON, no seccomp filter, no
// lockdown) is what it demands for a useful one.
func loadProgram() error {
	number, ok := bpfNumber[runtime.GOARCH]
	if !ok {
		return syscall.ENOSYS
	}
	const progLoad, tracepoint = 5, 5 // BPF_PROG_LOAD, BPF_PROG_TYPE_TRACEPOINT
	attr := struct {
		kind, count   uint32
		code, licence uint64
		rest          [12]uint64 // log level and so on: zero
	}{kind: tracepoint, count: uint32(len(bpfCode)),
		code: uint64(uintptr(unsafe.Pointer(&bpfCode))), licence: uint64(uintptr(unsafe.Pointer(&bpfLicence)))}
	fd, _, errno := syscall.Syscall(number, progLoad, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return syscall.Close(int(fd))
}
