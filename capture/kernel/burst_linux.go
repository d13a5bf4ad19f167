//go:build amd64 || arm64

package kernel

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/whylate/whylate/capture/kernel/events"
)

// burst is a set of probes that counts in the kernel, and that goes when it has taken its
// share. It is of the goroutine that reads, but for due, detach and over.
type burst interface {
	name() string
	// attach lets the programs run.
	attach() error
	// due tells whether they have to go, if they run.
	due() bool
	// detach removes the programs, so that nothing more is counted. It may be called again.
	detach() error
	// over tells whether that was begun.
	over() bool
	// read takes what the programs have told, before and after detach.
	read() error
	// result adds what was counted until now.
	result(*events.After) error
	// programs are those of which the kernel says what they took.
	programs() []program
	// close frees everything. It may be called again.
	close() error
}

// links let the programs of a burst run, until somebody removes them. Any goroutine may use
// them.
type links struct {
	mu   sync.Mutex
	list []link.Link  // in the order in which they are closed
	from atomic.Int64 // when they began, and ended; 0 before that
	to   atomic.Int64
	err  error
}

// begin takes the instant before the first of them.
func (l *links) begin() { l.from.Store(monotonic()) }

// add takes another one, which is to be closed before the others.
func (l *links) add(x link.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append([]link.Link{x}, l.list...)
}

// ask does something while the programs run, and not otherwise.
func (l *links) ask(due func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list != nil && due()
}

// detach closes them, which takes a while, and returns the error of that each time.
func (l *links) detach() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list != nil {
		l.to.Store(monotonic())
		for _, x := range l.list {
			l.err = errors.Join(l.err, x.Close())
		}
		l.list = nil
	}
	return l.err
}

// over tells whether they go, or have gone.
func (l *links) over() bool { return l.to.Load() != 0 }

// gone tells whether they have gone; as long as they go it waits.
func (l *links) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list == nil && l.over()
}

// span is from when to when they were there, until now if they are.
func (l *links) span() (from, to int64) {
	from = l.from.Load()
	if from == 0 {
		from = l.until()
		return from, from
	}
	return from, l.until()
}

// until is when they ended, or now.
func (l *links) until() int64 {
	if to := l.to.Load(); to != 0 {
		return to
	}
	return monotonic()
}

// guard removes bursts that have taken their share, whatever keeps the goroutine that reads:
// a disk that is slow must not keep probes in the process. It measures what programs take,
// and returns the CPU time that it took itself when told to end.
func (r *Recorder) guard(end <-chan struct{}) (cpu int64) {
	from := threadCPU()
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-end:
			return threadCPU() - from
		case <-t.C:
		}
		r.probes.meter.tick()
		for _, b := range r.all {
			if b.due() {
				_ = b.detach() // who concludes gets the error
			}
		}
	}
}

// look reads what the bursts have told, and ends those that are over, or all now.
func (r *Recorder) look(now bool) {
	left := r.bursts[:0]
	for _, b := range r.bursts {
		err := b.read()
		if !now && !b.over() && err == nil {
			left = append(left, b)
			continue
		}
		r.conclude(b, err)
	}
	clear(r.bursts[len(left):])
	r.bursts = left
}

// conclude ends a burst and keeps what it counted. The stretches are worth having without
// it.
func (r *Recorder) conclude(b burst, err error) {
	if gone := b.detach(); err == nil {
		err = gone
	}
	if err == nil {
		err = b.read()
	}
	if err == nil {
		err = b.result(&r.counted)
	}
	cost := r.probes.meter.cost(b.programs()) // which forgets them
	if err == nil {
		r.counted.Programs = append(r.counted.Programs, cost...)
	}
	if err = errors.Join(err, b.close()); err != nil {
		r.counted.Missing = append(r.counted.Missing, events.Missing{Probes: b.name(), Why: err.Error()})
	}
}
