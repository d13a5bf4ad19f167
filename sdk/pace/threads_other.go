//go:build !linux

package pace

import "errors"

// threads cannot be lowered here: other systems have priorities of threads, but not for who is not privileged, or not
// as strict.
type threads struct{ nice bool }

type thread struct{}

func (threads) try() error { return errors.ErrUnsupported }

func (threads) lower(*thread) error { return errors.ErrUnsupported }

func (threads) raise(*thread) error { return nil }

func onMainThread() bool { return false }

func (*thread) lowered() bool { return false }

func (*thread) cpu(now int64) int64 { return now }

func (*thread) sleeps() (sleeps, known bool) { return false, false }
