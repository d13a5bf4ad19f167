//go:build !linux

package main

import "syscall"

func endWithUs() *syscall.SysProcAttr { return nil }

func closeOnExec() {}

func memoryFolder() string { return "" }
