package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/internal/need"
)

// full is a folder on a disk with no room for a recording: a file system in memory.
func full(s scene) string {
	s.Helper()
	err := unix.Mount("whylate-test", s.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=16k")
	if err != nil {
		err = fmt.Errorf("a file system of its own cannot be mounted: %w", err)
	}
	need.Feature(s, "disk", err)
	s.Cleanup(func() { unix.Unmount(s.dir, unix.MNT_DETACH) })
	return s.dir
}
