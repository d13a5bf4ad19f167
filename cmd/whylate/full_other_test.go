//go:build !linux

package main

func full(s scene) string {
	s.Skip("only on Linux the test can mount a small disk")
	return ""
}
