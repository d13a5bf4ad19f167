//go:build linux

// Command reader reads a named pipe that another program writes to, and pauses now
// and then.
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
	pause := flag.Duration("pause", 0, "how long a pause is")
	every := flag.Duration("every", time.Second, "mean time from a pause to the next")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: reader [-pause 0] [-every 1s] PIPE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || *pause < 0 || *every <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	pipe, err := open(flag.Arg(0))
	if err == nil {
		err = read(pipe, *pause, *every)
	}
	fmt.Fprintln(os.Stderr, "reader:", err)
	os.Exit(1)
}

// open waits for a writer. The pipe holds as little as a pipe can, a page, as if more
// were written.
func open(name string) (io.Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	return f, err
}

// read reads until an error, with pauses that are a Poisson process.
func read(pipe io.Reader, pause, every time.Duration) error {
	b := make([]byte, 64<<10)
	for next := time.Now(); ; {
		if _, err := pipe.Read(b); err != nil {
			return err
		}
		if time.Now().Before(next) {
			continue
		}
		time.Sleep(pause)
		next = time.Now().Add(time.Duration(rand.ExpFloat64() * float64(every)))
	}
}
