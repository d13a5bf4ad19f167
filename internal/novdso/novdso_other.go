//go:build !linux || !(amd64 || arm64)

package novdso

import (
	"errors"
	"os/exec"
)

// Start fails.
func Start(*exec.Cmd) error {
	return errors.New("to hide the vDSO needs Linux on amd64 or arm64")
}
