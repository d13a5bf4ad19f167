package dependencytest

import (
	"os"
	"syscall"
	"testing"
)

// There is nothing that stops a process for a while; no test gets here.
var stopSignal, continueSignal os.Signal = os.Interrupt, os.Interrupt

func unprivileged(testing.TB, string) *syscall.SysProcAttr { return nil }
