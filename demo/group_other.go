//go:build !linux

package demo

import "errors"

var errLinux = errors.New("it needs Linux")

func newGroup(float64) (string, error) { return "", errLinux }
func removeGroup(string) error         { return errLinux }
func enterGroup(string) error          { return errLinux }
