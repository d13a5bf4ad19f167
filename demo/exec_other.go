//go:build !linux

package demo

// closeOnExec needs /proc; elsewhere Go marks at least what it opens itself.
func closeOnExec() {}

// raisePriority is about threads, whose priorities Linux alone has.
func raisePriority() error { return errLinux }

// goFirst is about scheduling classes, which are Linux's.
func goFirst() error { return errLinux }
