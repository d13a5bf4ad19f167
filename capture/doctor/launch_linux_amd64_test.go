package doctor

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// launch starts a command under ptrace, lets meddle change it before its first
// instruction, and lets it go. It needs no right but to trace one's own child.
func launch(c *exec.Cmd, meddle func(pid int) error) error {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return err
	}
	pid := c.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("wait for exec: %v, status %#x", err, status)
	}
	err := meddle(pid)
	return errors.Join(err, syscall.PtraceDetach(pid))
}

// fakeCPUs makes the first sched_getaffinity of a program answer that it may use
// n CPUs, at most 128.
func fakeCPUs(n int) func(pid int) error {
	return func(pid int) error {
		step := func() (r syscall.PtraceRegs, err error) {
			var status syscall.WaitStatus
			if err = syscall.PtraceSyscall(pid, 0); err == nil {
				if _, err = syscall.Wait4(pid, &status, 0, nil); err == nil && !status.Stopped() {
					err = errors.New("it ended before it asked for its CPUs")
				}
			}
			if err == nil {
				err = syscall.PtraceGetRegs(pid, &r)
			}
			return r, err
		}
		for {
			entry, err := step()
			if err != nil {
				return err
			}
			exit, err := step()
			if err != nil {
				return err
			}
			if entry.Orig_rax != syscall.SYS_SCHED_GETAFFINITY {
				continue
			}
			mask := make([]byte, 16)
			for i := range n {
				mask[i/8] |= 1 << (i % 8)
			}
			if _, err := syscall.PtracePokeData(pid, uintptr(entry.Rdx), mask); err != nil {
				return err
			}
			exit.Rax = uint64(len(mask))
			return syscall.PtraceSetRegs(pid, &exit)
		}
	}
}
