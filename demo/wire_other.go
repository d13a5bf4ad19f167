//go:build !linux

package demo

import (
	"net"
	"syscall"
)

// wire is a listener whose connections lose segments.
type wire struct {
	*net.TCPListener
	lost float64
}

func (wire) lose(syscall.Conn, float64) error { return errLinux }
