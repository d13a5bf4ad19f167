package clock

import (
	"encoding/binary"
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

// mapped returns the address of the vDSO's image in this process, 0 if it has none.
func mapped() uint64 {
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return 0
	}
	return header(auxv)
}

// header returns the address of the vDSO's image from an auxiliary vector of 64 bits, 0 if it has none.
func header(auxv []byte) uint64 {
	const sysinfoHeader = 33 // AT_SYSINFO_EHDR
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.NativeEndian.Uint64(auxv) == sysinfoHeader {
			return binary.NativeEndian.Uint64(auxv[8:])
		}
	}
	return 0
}
