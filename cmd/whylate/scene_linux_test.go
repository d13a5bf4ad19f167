package main

import (
	"fmt"
	"net"
	"os/exec"

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

// share gives a socket to another process, too.
func (s scene) share(l net.Listener) {
	s.Helper()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("sleep", "60")
	cmd.Stdin = f // as inetd does
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if err := unix.SetNonblock(int(f.Fd()), true); err != nil { // to hand it over made accept block
		s.Fatal(err)
	}
}
