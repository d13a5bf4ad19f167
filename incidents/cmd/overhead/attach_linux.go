package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/whylate/whylate/capture/kernel"
	"github.com/whylate/whylate/load"
)

const (
	// mostHeld bounds how long a recorder of attach lives, at random: some end while they
	// begin, or while they count readings of the clock.
	mostHeld = 40 * time.Millisecond
	// chunk is how long each of the loads lasts that follow each other.
	chunk = 2 * time.Second
	// left is how long the kernel may take to free programs.
	left = 10 * time.Second
)

// attach begins and ends recorders of a service under load, and kills others, and says
// what became of the requests, and of the programs in the kernel.
func attach(s service, rate float64, rounds, kills int) error {
	before, err := programs()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var loads []load.Result
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			r, err := load.Run(context.Background(), load.Config{Targets: []load.Target{{URL: s.url}}, Rate: rate, Duration: chunk, Seed: uint64(len(loads))})
			loads = append(loads, r)
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for range rounds {
		r, err := kernel.Start(s.pid, kernel.Options{W: io.Discard, Sets: all, Func: named})
		if err != nil {
			return err
		}
		time.Sleep(rand.N(mostHeld))
		if _, err := r.Stop(); err != nil {
			return err
		}
	}
	for range kills {
		if err := kill(s.pid); err != nil {
			return err
		}
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	offered, answered := 0, 0
	for _, r := range loads {
		offered += r.Offered
		for _, e := range r.Endpoints {
			answered += e.Status[200]
		}
	}
	after, err := programs()
	for until := time.Now().Add(left); err == nil && after > before && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		after, err = programs()
	}
	fmt.Printf("%d recordings begun and ended, %d recorders killed: %d of %d requests were answered, %d programs are left in the kernel\n",
		rounds, kills, answered, offered, after-before)
	if err == nil && (answered != offered || after > before) {
		err = errors.New("requests were lost, or programs are left")
	}
	return err
}

// kill begins a recorder in another process and kills it.
func kill(pid int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(self, "record", fmt.Sprint(pid))
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var said string
	_, err = fmt.Fscanln(out, &said)
	time.Sleep(rand.N(mostHeld))
	err = errors.Join(err, c.Process.Kill())
	_ = c.Wait() // killed: the status says so
	return err
}

// record records a process until it is killed.
func record(pid string) error {
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		return err
	}
	if _, err := kernel.Start(n, kernel.Options{W: io.Discard, Sets: all, Func: named}); err != nil {
		return err
	}
	fmt.Println("records")
	select {}
}

// programs is how many of our programs are in the kernel.
func programs() (n int, err error) {
	for id := ebpf.ProgramID(0); ; {
		id, err = ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return 0, err
		}
		info, err := p.Info()
		if err := errors.Join(err, p.Close()); err != nil {
			return 0, err
		}
		if strings.HasPrefix(info.Name, "whylate_") {
			n++
		}
	}
}
