package clock

import (
	"encoding/binary"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Clocks of the kernel, linux/include/uapi/linux/time.h.
const (
	monotonic       = 1
	monotonicCoarse = 6
)

// deepest is how much of the stack the kernel's code may take: half of what
// readClock has for it. Linux 6.18 takes 32 bytes.
const deepest = 400

// readClock calls the kernel's function fn and returns the clock id in nanoseconds, -1 if
// the kernel knows none.
func readClock(fn uintptr, id int64) int64

// readCoarse reads monotonicCoarse by calling coarse, which the kernel has to know.
func readCoarse() (sec, nsec int64)

// coarse is what readCoarse calls. It is set before latest is, once.
var coarse uintptr

// depth returns how many bytes of stack fn takes to read the clock id.
func depth(fn uintptr, id int64) int64

// find returns the kernel's function that reads a clock without a system call, 0 if
// there is none that may be called on a goroutine's stack.
func find() uintptr {
	fn := function()
	if fn == 0 {
		return 0
	}
	for _, id := range []int64{monotonic, monotonicCoarse} {
		if d := depth(fn, id); d < 0 || d > deepest || readClock(fn, id) <= 0 {
			return 0
		}
	}
	return fn
}

// function returns where __vdso_clock_gettime is in this process, 0 if it is not.
// Not that of the runtime: it is not for others, and 0 where only the runtime was not told.
func function() uintptr {
	base := mapped()
	if base == 0 {
		return 0
	}
	// Through the kernel, so that a wrong address is an error.
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0
	}
	defer mem.Close()
	image := make([]byte, 64<<10)
	n, err := io.ReadFull(io.NewSectionReader(mem, int64(base), int64(len(image))), image)
	if n == 0 && err != nil {
		return 0
	}
	offset := symbol(image[:n], "__vdso_clock_gettime")
	if offset == 0 {
		return 0
	}
	return uintptr(base + offset)
}

// symbol returns how far a function is from the beginning of a vDSO's image (a shared
// object, ELF64, little-endian, whole in memory), 0 if it does not define it.
func symbol(image []byte, name string) uint64 {
	const (
		load       = 1  // PT_LOAD
		dynamic    = 11 // SHT_DYNSYM
		symbolSize = 24
	)
	at := func(offset, size uint64) []byte {
		if offset > uint64(len(image)) || size > uint64(len(image))-offset {
			return make([]byte, min(size, 64))
		}
		return image[offset : offset+size]
	}
	u16 := func(offset uint64) uint64 { return uint64(binary.LittleEndian.Uint16(at(offset, 2))) }
	u32 := func(offset uint64) uint64 { return uint64(binary.LittleEndian.Uint32(at(offset, 4))) }
	u64 := func(offset uint64) uint64 { return binary.LittleEndian.Uint64(at(offset, 8)) }
	if string(at(0, 6)) != "\x7fELF\x02\x01" {
		return 0
	}
	var linked uint64 // the address that the image was linked for
	for i, p := uint64(0), u64(32); i < u16(56); i, p = i+1, p+u16(54) {
		if u32(p) == load {
			linked = u64(p+16) - u64(p+8)
			break
		}
	}
	sections, size := u64(40), u16(58)
	for i := uint64(0); i < u16(60); i++ {
		s := sections + i*size
		if u32(s+4) != dynamic {
			continue
		}
		names := u64(sections + u32(s+40)*size + 24)
		first, length := u64(s+24), u64(s+32)
		for j := uint64(0); j < min(length/symbolSize, 1024); j++ {
			y := first + j*symbolSize
			if string(at(names+u32(y), uint64(len(name))+1)) == name+"\x00" && u16(y+6) != 0 {
				return u64(y+8) - linked
			}
		}
	}
	return 0
}

// resolution returns the distance of two ticks.
func resolution() time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETRES, monotonicCoarse, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
