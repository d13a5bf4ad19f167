//go:build linux

// Command drain makes a named pipe and reads whatever is written to it, as a log
// collector does that now and then is busy otherwise.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	pause := flag.Duration("pause", 0, "for how long nothing is read, every now and then")
	every := flag.Duration("every", time.Second, "mean time between two such pauses")
	size := flag.Int("size", 4096, "bytes that the pipe holds")
	flag.Parse()
	if flag.NArg() != 1 || *every <= 0 {
		fmt.Fprintln(os.Stderr, "usage: drain [-pause 60ms] [-every 1s] [-size 4096] PIPE")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, drain(flag.Arg(0), *size, func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(*every)) }, *pause))
	os.Exit(1)
}

// drain returns when it cannot read. Between two pauses it reads for as long as
// between says.
func drain(file string, size int, between func() time.Duration, pause time.Duration) error {
	if err := unix.Mkfifo(file, 0o600); err != nil {
		return fmt.Errorf("making %s: %w", file, err)
	}
	// With a writer of our own, the pipe does not end when the other one leaves.
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := setSize(f, size); err != nil {
		return fmt.Errorf("the size of %s: %w", file, err)
	}
	b := make([]byte, 64<<10)
	for {
		if err := f.SetReadDeadline(time.Now().Add(between())); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(sink{}, struct{ io.Reader }{f}, b); !os.IsTimeout(err) {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		time.Sleep(pause)
	}
}

func setSize(f *os.File, size int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) { _, failed = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	if err != nil {
		return err
	}
	return failed
}

// sink takes everything. Unlike io.Discard it does not read by itself.
type sink struct{}

func (sink) Write(p []byte) (int, error) { return len(p), nil }
