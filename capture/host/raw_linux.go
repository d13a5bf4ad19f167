package host

import (
	"encoding/binary"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a look reads comes out of the kernel's memory within microseconds. So its system calls are
// raw ones, which do not tell Go's scheduler about themselves: an ordinary one wakes the
// runtime's monitor, which then wakes up 60 times in the next milliseconds to see whether the
// call takes long, and that cost as much CPU as half of the looks. The price is that a collection of garbage
// waits for a raw call that does take long, as one of a process with 10,000 threads: 1 ms.

// pread reads a file from its beginning.
func pread(fd int, buf []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// openat opens a file below a folder to be read. The path ends with NUL.
func openat(dir int, path []byte) (int, error) {
	for {
		fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

func closeRaw(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// listNumbers reads what fits into buf of an open folder, from where the descriptor stands, calls do
// with every name that is a number, and returns how many bytes it read: 0 at the end.
func listNumbers(dir int, buf []byte, do func(n int)) (read int, err error) {
	const fixed = 19 // bytes of struct linux_dirent64 before the name
	n, _, errno := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(dir), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	for b := buf[:n]; len(b) > fixed; {
		size := min(int(binary.NativeEndian.Uint16(b[16:])), len(b))
		if number, ok := digits(b[fixed:max(size, fixed)]); ok {
			do(number)
		}
		b = b[max(size, fixed):]
	}
	return int(n), nil
}

// rewind makes the next listing of a folder begin at its beginning.
func rewind(dir int) error {
	_, err := unix.Seek(dir, 0, 0)
	return err
}

// digits is the number that a name that ends with NUL consists of.
func digits(name []byte) (n int, ok bool) {
	for i, c := range name {
		switch {
		case c == 0:
			return n, i > 0
		case c < '0' || c > '9' || n > 1<<30:
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return 0, false
}

// monotonic is CLOCK_MONOTONIC in ns, the clock of Go traces. It never jumps:
// whatever sets the wall clock only changes how fast it runs, by at most 0.05 %.
func monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

// threadCPU is the CPU time of the calling thread in ns; lock the thread before.
func threadCPU() int64 { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// clock reads a clock that every thread has; reading those cannot fail.
func clock(id int32) int64 {
	ns, _ := clockGettime(id)
	return ns
}

func clockGettime(id int32) (int64, error) {
	var t unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		return 0, errno
	}
	return t.Nano(), nil
}

// threadID is the id of the calling thread.
func threadID() int {
	tid, _, _ := unix.RawSyscall(unix.SYS_GETTID, 0, 0, 0)
	return int(tid)
}

// processCPU is the CPU time of all threads of a process in ns, those that ended included.
// The clock's id is made of the process's, see clock_getcpuclockid(3); any process may read it.
func processCPU(pid int) (int64, error) {
	ns, err := clockGettime(int32(^pid<<3 | 2))
	if err == unix.EINVAL { // what the kernel says if there is no such process
		err = unix.ESRCH
	}
	return ns, err
}

// alarm is a clock that wakes a goroutine through the network poller: one thread wakes. A timer of
// the runtime wakes its monitor too, and a goroutine that sleeps in a system call keeps
// that awake.
type alarm struct {
	f     *os.File
	conn  syscall.RawConn
	ring  func(fd uintptr) bool
	set   unix.ItimerSpec // zero once it is set
	times [8]byte         // how often it rang
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	a := &alarm{f: f, conn: conn}
	a.ring = a.rings
	return a, nil
}

// sleep returns whether somebody woke it.
func (a *alarm) sleep(d time.Duration) (woken bool) {
	a.set.Value = unix.NsecToTimespec(int64(max(d, 1)))
	return a.conn.Read(a.ring) != nil
}

// rings sets the clock the first time and returns whether it rang since.
func (a *alarm) rings(fd uintptr) bool {
	if a.set != (unix.ItimerSpec{}) {
		_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&a.set)), 0, 0, 0)
		a.set = unix.ItimerSpec{}
		return false // setting it forgets how often it rang
	}
	n, _, _ := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&a.times)), uintptr(len(a.times)))
	return int(n) == len(a.times)
}

// wake ends the sleep for good. Anybody may call it, also later.
func (a *alarm) wake() { _ = a.f.SetReadDeadline(time.Unix(1, 0)) }

func (a *alarm) close() { a.f.Close() }
