package demo

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// closeOnExec marks every descriptor of this process, so that a child inherits
// nothing but its standard streams: Go marks what it opens itself, but not what
// a shell or a supervisor left open for us.
func closeOnExec() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// raisePriority gives the calling thread the highest priority of the normal
// scheduling class.
func raisePriority() error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20) }

// goFirst puts every thread of this process, and so those they start, into the
// real-time class: it runs whenever it has something to do.
func goFirst() error {
	const fifo = 1                        // SCHED_FIFO, <linux/sched.h>
	lowest := struct{ priority int32 }{1} // struct sched_param
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		_, _, errno := syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(tid), fifo, uintptr(unsafe.Pointer(&lowest)))
		if errno != 0 && errno != syscall.ESRCH {
			return os.NewSyscallError("sched_setscheduler", errno)
		}
	}
	return nil
}
