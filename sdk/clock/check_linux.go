package clock

import (
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// systemClock returns a function that reads the monotonic clock by system call.
func systemClock() func() {
	ts := new(syscall.Timespec)
	return func() {
		syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(ts)), 0)
	}
}

// source returns the name of the kernel's clock source.
func source() string {
	name, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err != nil || len(name) > 64 {
		return ""
	}
	return strings.TrimSpace(string(name))
}
