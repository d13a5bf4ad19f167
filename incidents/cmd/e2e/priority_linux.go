package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// prefer gives the threads of a process, except one, a CPU whenever they want one:
// they run before all that has a normal priority. Threads that they start inherit
// it. Needs CAP_SYS_NICE.
func prefer(pid, except int) error {
	return schedule(pid, except, unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1})
}

// normal gives the threads of a process the priority of its main thread.
func normal(pid int) error {
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		return err
	}
	return schedule(pid, pid, *attr)
}

func schedule(pid, except int, attr unix.SchedAttr) error {
	return eachThread(pid, except, func(tid int) error { return unix.SchedSetAttr(tid, &attr, 0) })
}

// eachThread is done when it finds no thread that it has not seen: one that was
// started before its parent's turn came is in the next list.
func eachThread(pid, except int, do func(tid int) error) error {
	seen := map[int]bool{except: true}
	for {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		before := len(seen)
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil || seen[tid] {
				continue
			}
			seen[tid] = true
			if err := do(tid); err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
				return fmt.Errorf("the priority of thread %d: %w", tid, err)
			}
		}
		if len(seen) == before {
			return nil
		}
	}
}
