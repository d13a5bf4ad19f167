package demo

import (
	"os"
	"strconv"
	"syscall"
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
