package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/whylate/whylate/load"
)

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestStopEndsEveryProcess(t *testing.T) {
	s, _ := Lookup("slow-dependency")
	r := start(t, s, RunOptions{Duration: time.Hour})
	var pids []int
	for _, c := range r.children {
		pids = append(pids, c.cmd.Process.Pid)
	}
	if len(pids) != 2 || pids[1] != r.PID {
		t.Fatalf("processes %v, service %d", pids, r.PID)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if _, err := r.Load(); !errors.Is(err, context.Canceled) {
		t.Errorf("the load ended with %v", err)
	}
}

func TestAChildLeaves(t *testing.T) {
	for name, ask := range map[string]func(*child){
		"when its standard input ends": func(c *child) { c.stdin.Close() },
		"on SIGTERM":                   func(c *child) { c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Default(), RunOptions{Duration: time.Hour})
			for _, c := range r.children {
				ask(c)
				<-c.exited // bounded by the time-out of the test binary
				if c.exit != nil {
					t.Errorf("process %d: %v", c.cmd.Process.Pid, c.exit)
				}
			}
			if _, err := r.Load(); !errors.Is(err, load.ErrTargetDown) || !strings.Contains(err.Error(), "ended") {
				t.Errorf("the load ended with %v", err)
			}
		})
	}
}

func TestAChildInheritsOnlyItsStandardStreams(t *testing.T) {
	// A descriptor without close-on-exec, as a shell may leave one to us.
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	s, _ := Lookup("steady")
	r := start(t, s, RunOptions{Duration: time.Second})
	dir := fmt.Sprintf("/proc/%d/fd/", r.PID)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(dir + e.Name())
		if err != nil || len(e.Name()) == 1 && e.Name() <= "2" {
			continue // closed meanwhile, or a standard stream
		}
		if target == os.DevNull || strings.HasPrefix(target, "pipe:") {
			t.Errorf("descriptor %s is %s", e.Name(), target)
		}
	}
}

func TestChildrenEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := Lookup("steady")
	r, err := Run(ctx, s, RunOptions{Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, c := range r.children {
		<-c.exited
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if errors.As(r.children[0].exit, &exit) {
		t.Errorf("the child was killed: %v", exit)
	}
}
