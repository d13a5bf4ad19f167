package demo

import (
	"os"
	"syscall"
	"time"
)

// sign is the fault: it asks the device for each piece by itself. Every call is
// long enough for the runtime to give the P to another request, which then does the
// same; one call for all pieces would take no longer.
func (v *vault) sign(pieces int) error {
	answers := syscall.NsecToTimespec(int64(100 * time.Microsecond))
	for range pieces {
		wait := answers
		err := syscall.Nanosleep(&wait, &wait)
		for err == syscall.EINTR { // the runtime's signals end it early
			err = syscall.Nanosleep(&wait, &wait)
		}
		if err != nil {
			return os.NewSyscallError("nanosleep", err)
		}
	}
	return nil
}
