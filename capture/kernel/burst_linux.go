//go:build amd64 || arm64

package kernel

import (
	"github.com/whylate/whylate/capture/kernel/events"
)

// burst is a set of probes that counts in the kernel, and that goes when it has taken its
// share. It is of one goroutine.
type burst interface {
	name() string
	// look tells whether it is time to end.
	look() (end bool, err error)
	// detach removes the programs, so that nothing more is counted. It may be called again.
	detach() error
	// result adds what was counted until now.
	result(*events.After) error
	// programs are those of which the kernel says what they took.
	programs() []program
	// close frees everything. It may be called again.
	close() error
}

// look ends those bursts for which it is time, or all now.
func (r *Recorder) look(now bool) {
	left := r.bursts[:0]
	for _, b := range r.bursts {
		end, err := b.look()
		if !now && !end && err == nil {
			left = append(left, b)
			continue
		}
		r.conclude(b, err)
	}
	clear(r.bursts[len(left):])
	r.bursts = left
}
