//go:build !linux

package host

import "context"

// Recorder samples one process; on this system there is none.
type Recorder struct{}

// Start fails with ErrUnsupported.
func Start(context.Context, int, Options) (*Recorder, error) { return nil, ErrUnsupported }

// Stop fails with ErrUnsupported.
func (*Recorder) Stop() (After, error) { return After{}, ErrUnsupported }

// Describe fails with ErrUnsupported.
func Describe(int) (Description, error) { return Description{}, ErrUnsupported }

// Same fails with ErrUnsupported.
func Same(int, string, []int) error { return ErrUnsupported }

// ListenerPID fails with ErrUnsupported.
func ListenerPID(string) (int, error) { return 0, ErrUnsupported }

// SameThreads fails with ErrUnsupported.
func SameThreads(int, []int) error { return ErrUnsupported }

// OnlyListenerPID fails with ErrUnsupported.
func OnlyListenerPID(string) (int, error) { return 0, ErrUnsupported }

// Listeners fails with ErrUnsupported.
func Listeners(int) ([]string, error) { return nil, ErrUnsupported }
