package demo

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	_ "unsafe" // for go:linkname
)

// vdsoClock is where the runtime found the vDSO's clock, 0 if it did not.
//
//go:linkname vdsoClock runtime.vdsoClockgettimeSym
var vdsoClock uintptr

const tellsClock = "WHYLATE_TEST_TELL_CLOCK"

func TestTheVDSOIsHiddenFromAServiceOnly(t *testing.T) {
	if os.Getenv(tellsClock) != "" {
		if vdsoClock == 0 {
			os.Stdout.WriteString("hidden\n")
		}
		return
	}
	if vdsoClock == 0 {
		t.Skip("SKIPPED: this process has no vDSO itself")
	}
	for _, hide := range []bool{false, true} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), tellsClock+"=1")
		var out bytes.Buffer
		cmd.Stdout = &out
		start := cmd.Start
		if hide {
			start = func() error { return startWithoutVDSO(cmd) }
		}
		switch err := start(); {
		case errors.Is(err, syscall.EPERM):
			t.Skip("SKIPPED: ptrace is not allowed here")
		case err != nil:
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(out.Bytes(), []byte("hidden")); got != hide {
			t.Errorf("hidden: %v, want %v", got, hide)
		}
	}
}
