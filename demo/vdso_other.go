//go:build !(linux && amd64)

package demo

import (
	"errors"
	"os/exec"
)

func startWithoutVDSO(*exec.Cmd) error {
	return errors.New("the vDSO can be hidden on Linux on amd64 only")
}
