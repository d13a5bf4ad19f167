//go:build !linux

package demo

func (v *vault) sign(int) error { return errLinux }
