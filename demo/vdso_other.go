//go:build !linux || !(amd64 || arm64)

package demo

import (
	"fmt"
	"os/exec"
)

// StartWithoutVDSO returns ErrNotPossible.
func StartWithoutVDSO(*exec.Cmd) error {
	return fmt.Errorf("%w: to hide the vDSO needs Linux on amd64 or arm64", ErrNotPossible)
}
