//go:build linux && (amd64 || arm64)

package novdso

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// Entries of the auxiliary vector, <linux/auxvec.h>.
const (
	auxIgnore      = 1
	auxSysinfoEHDR = 33 // where the vDSO is mapped
)

// maxStackWords bounds the search of a new process's stack for its auxiliary
// vector, which follows its arguments and its environment.
const maxStackWords = 1 << 16

// Start starts a command that cannot find the vDSO. It is done to the command alone, by
// its tracer, between exec and the first instruction. After an error there is no process.
func Start(cmd *exec.Cmd) error {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start under ptrace: %w", err)
	}
	err := stopped(cmd.Process.Pid)
	if err == nil {
		err = Hide(cmd.Process.Pid)
	}
	if err == nil {
		err = syscall.PtraceDetach(cmd.Process.Pid)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("hide the vDSO: %w", err), cmd.Process.Kill())
		_ = cmd.Wait() // killed: the status says so
		return err
	}
	return nil
}

// stopped waits until a process that is traced has stopped at its exec.
func stopped(pid int) error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("the process ended with %v instead of stopping", status)
	}
	return nil
}

// Hide erases the vDSO's address from the initial stack of a process that the calling
// thread traces and that has stopped at its exec: argc, arguments, 0, environment, 0,
// pairs of words.
func Hide(pid int) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	at := stackPointer(&regs)
	word := make([]byte, 8)
	// next reads the word at this place and goes on to the one after it.
	next := func() (w uint64, err error) {
		_, err = syscall.PtracePeekData(pid, at, word)
		at += 8
		return binary.LittleEndian.Uint64(word), err
	}
	argc, err := next()
	if err != nil {
		return err
	}
	at += 8 * (uintptr(argc) + 1)
	inPairs := false
	for range maxStackWords {
		w, err := next()
		switch {
		case err != nil:
			return err
		case !inPairs:
			inPairs = w == 0
		case w == auxSysinfoEHDR:
			binary.LittleEndian.PutUint64(word, auxIgnore)
			_, err := syscall.PtracePokeData(pid, at-8, word)
			return err
		case w == 0:
			return errors.New("there is none")
		default:
			at += 8 // the value of this pair
		}
	}
	return errors.New("the stack of the process has no auxiliary vector")
}
