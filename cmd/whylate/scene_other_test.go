//go:build !linux

package main

import "net"

func full(s scene) string {
	s.Skip("only on Linux the test can mount a small disk")
	return ""
}

func (s scene) share(net.Listener) {
	s.Skip("only on Linux it is told which sockets a process has")
}
