package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThreadsArePreferredAndPutBack(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skip("NOT TESTED:", err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	pid := cmd.Process.Pid
	policy := func() string {
		a, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(a.Policy, a.Priority, a.Nice)
	}
	before := policy()
	if err := prefer(pid, pid); err != nil || policy() != before {
		t.Fatalf("the excepted thread: %v, %s, was %s", err, policy(), before)
	}
	err := prefer(pid, 0)
	if errors.Is(err, unix.EPERM) {
		t.Skip("NOT TESTED: it needs CAP_SYS_NICE, and a share of the real-time budget:", err)
	}
	if err != nil || policy() != "2 1 0" {
		t.Errorf("preferred: %v, %s", err, policy())
	}
	// The only thread is the main one: put back is what it is itself.
	if err := normal(pid); err != nil || policy() != "2 1 0" {
		t.Errorf("put back: %v, %s", err, policy())
	}
	if err := prefer(os.Getpid(), os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if err := normal(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	main, err := unix.SchedGetAttr(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := eachThread(os.Getpid(), 0, func(tid int) error {
		a, err := unix.SchedGetAttr(tid, 0)
		if err == nil && (a.Policy != main.Policy || a.Nice != main.Nice) {
			t.Errorf("thread %d has policy %d and nice %d", tid, a.Policy, a.Nice)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
