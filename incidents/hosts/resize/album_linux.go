package main

import (
	"crypto/rand"
	"fmt"
	"io"
	rnd "math/rand/v2"
	"os"
	"syscall"
	"time"
)

const (
	albumSize = 64 << 20
	// looking is how long a large picture takes, quick the time for one page below
	// which there is no disk under the file.
	looking, quick = 20 * time.Millisecond, 5 * time.Microsecond
)

// album is a file of pictures in the address space.
type album struct {
	file  *os.File
	bytes []byte
	pages int // of a large picture
}

func newAlbum(folder string) (*album, error) {
	f, err := os.CreateTemp(folder, "album-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err := io.CopyN(f, rand.Reader, albumSize); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil { // only clean pages can be evicted
		return nil, err
	}
	a := &album{file: f, pages: 200}
	if a.bytes, err = syscall.Mmap(int(f.Fd()), 0, albumSize, syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if err := syscall.Madvise(a.bytes, syscall.MADV_RANDOM); err != nil { // one fault reads one page
		return nil, os.NewSyscallError("madvise", err)
	}
	begin := time.Now()
	a.look()
	each := time.Since(begin) / time.Duration(a.pages)
	if each < quick {
		return nil, fmt.Errorf("reading a page of a file in %s takes %v only: no disk", folder, each)
	}
	a.pages = min(max(2, int(looking/each)), 5000)
	return a, nil
}

// look reads a large picture, of which nothing is in memory any more, as happens to
// the cold part of a file when memory is short.
func (a *album) look() (sum uint32, _ error) {
	const dontNeed = 4 // POSIX_FADV_DONTNEED, <linux/fadvise.h>
	syscall.Madvise(a.bytes, syscall.MADV_DONTNEED)
	syscall.Syscall6(syscall.SYS_FADVISE64, a.file.Fd(), 0, 0, dontNeed, 0, 0)
	for range a.pages {
		sum += uint32(a.bytes[rnd.IntN(len(a.bytes))])
	}
	return sum, nil
}
