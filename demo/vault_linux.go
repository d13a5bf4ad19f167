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
		if err := syscall.Nanosleep(&wait, nil); err != nil {
			return os.NewSyscallError("nanosleep", err)
		}
	}
	return nil
}
