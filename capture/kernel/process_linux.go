//go:build amd64 || arm64

package kernel

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
)

// initialPIDs is the inode of the initial pid namespace: PROC_PID_INIT_INO in the
// kernel's include/linux/proc_ns.h.
const initialPIDs = 0xEFFFFFFC

// checkNamespace makes sure that the kernel calls processes what we call them.
func checkNamespace(file string) error {
	fi, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Ino != initialPIDs {
		return fmt.Errorf("%w: this process is in a pid namespace of its own, as in a container, where processes have other numbers than in the kernel: run it on the host, or with the host's pid namespace (docker run --pid=host, hostPID: true)", ErrUnsupported)
	}
	return nil
}

// checkProcess makes sure that there is a process pid, and that it is not a thread of one.
func checkProcess(pid int) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, unix.ESRCH)
	}
	for line := range strings.Lines(string(b)) {
		if group, ok := strings.CutPrefix(line, "Tgid:"); ok {
			if group = strings.TrimSpace(group); group != strconv.Itoa(pid) {
				return fmt.Errorf("%d is a thread of process %s: %w", pid, group, unix.ESRCH)
			}
		}
	}
	return nil
}

// header describes the recording of a process that begins now, with sets of probes.
func header(pid int, sets []string) events.Header {
	h := events.Header{PID: pid, Recorder: os.Getpid(), Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), StartNS: monotonic(), Probes: sets}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &cpus); err == nil { // of more than 1024 CPUs it knows nothing
		h.CPUs = cpus.Count()
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return h
}

// monotonic is the time on CLOCK_MONOTONIC in ns.
func monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

// threadCPU is the CPU time of the calling thread in ns.
func threadCPU() int64 { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func clock(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// readMemory reads what a process has at an address, all of it or nothing.
func readMemory(pid int, addr uint64, b []byte) bool {
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	return err == nil && n == len(b)
}
