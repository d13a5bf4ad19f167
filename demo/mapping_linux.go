package demo

import (
	"crypto/rand"
	"io"
	"os"
	"syscall"
)

// mapping is a file of random bytes in the address space.
type mapping struct {
	file  *os.File
	bytes []byte
}

func newMapping(size int) (m mapping, err error) {
	if m.file, err = scratchFile(); err != nil {
		return m, err
	}
	if _, err = io.CopyN(m.file, rand.Reader, int64(size)); err != nil {
		return m, err
	}
	if err = m.file.Sync(); err != nil { // only clean pages can be evicted
		return m, err
	}
	if m.bytes, err = syscall.Mmap(int(m.file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return m, os.NewSyscallError("mmap", err)
	}
	// One fault reads one page.
	return m, os.NewSyscallError("madvise", syscall.Madvise(m.bytes, syscall.MADV_RANDOM))
}

// forget lets go of the pages, here and in the page cache, as happens to the cold
// part of a file when memory is short. It is advice, and has no errors that
// matter.
func (m mapping) forget() {
	const dontNeed = 4 // POSIX_FADV_DONTNEED, <linux/fadvise.h>
	syscall.Madvise(m.bytes, syscall.MADV_DONTNEED)
	syscall.Syscall6(syscall.SYS_FADVISE64, m.file.Fd(), 0, 0, dontNeed, 0, 0)
}
