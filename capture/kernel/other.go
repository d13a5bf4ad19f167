//go:build !linux || !(amd64 || arm64)

package kernel

import (
	"fmt"

	"github.com/whylate/whylate/capture/kernel/events"
)

var errOther = fmt.Errorf("%w: needs Linux on amd64 or arm64", ErrUnsupported)

// Recorder records one process; on this system there is none.
type Recorder struct{}

// Start fails with ErrUnsupported.
func Start(int, Options) (*Recorder, error) { return nil, errOther }

// Stop fails with ErrUnsupported.
func (*Recorder) Stop() (events.After, error) { return events.After{}, errOther }

// Begin does nothing.
func (*Recorder) Begin() {}

// Missing are none.
func (*Recorder) Missing() []events.Missing { return nil }

// Header is empty.
func (*Recorder) Header() events.Header { return events.Header{} }

// CPUTime fails with ErrUnsupported.
func CPUTime(int) (int64, error) { return 0, errOther }

// Check fails with ErrUnsupported.
func Check() error { return errOther }
