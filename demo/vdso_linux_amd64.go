package demo

import (
	"encoding/binary"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// The entries of the auxiliary vector that matter here (linux/auxvec.h).
const (
	atIgnore      = 1
	atSysinfoEHDR = 33 // where the vDSO is
)

// startWithoutVDSO starts a process that cannot find the vDSO, as in some sandboxes:
// every reading of the clock is a system call. At its first instruction the process
// is stopped, and the entry for the vDSO in its auxiliary vector is made one to ignore.
func startWithoutVDSO(cmd *exec.Cmd) error {
	runtime.LockOSThread() // ptrace belongs to the thread that traces
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := hideVDSO(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("hide the vDSO: %w", err)
	}
	return nil
}

func hideVDSO(pid int) error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("the process did not stop when it began: %v", err)
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	var err error
	word := func(at uintptr) (x uint64) {
		var b [8]byte
		if err == nil {
			_, err = syscall.PtracePeekData(pid, at, b[:])
		}
		return binary.NativeEndian.Uint64(b[:])
	}
	// The stack holds argc, argv, 0, environ, 0 and the pairs of the vector, up to a 0.
	at := uintptr(regs.Rsp) + 8*(2+uintptr(word(uintptr(regs.Rsp))))
	for word(at) != 0 {
		at += 8
	}
	for at += 8; word(at) != 0; at += 16 {
		if word(at) == atSysinfoEHDR {
			if _, err := syscall.PtracePokeData(pid, at, binary.NativeEndian.AppendUint64(nil, atIgnore)); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}
