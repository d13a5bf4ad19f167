package load

import (
	"syscall"
	"time"
)

// nanosleep sleeps for about d with the kernel's precision; a signal may end it
// early.
func nanosleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&ts, nil)
}
