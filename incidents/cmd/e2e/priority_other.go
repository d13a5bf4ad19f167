//go:build !linux

package main

import "errors"

func prefer(pid, except int) error { return errors.ErrUnsupported }

func normal(pid int) error { return errors.ErrUnsupported }
