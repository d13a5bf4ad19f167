// Package lane runs callbacks of work that has completed elsewhere, those of high priority first, in
// bounded memory, and tells how long they waited.
//
//	l, err := lane.Start(lane.Options{})
//	defer l.Stop()
//	…
//	err = l.Post(lane.High, func() { reply(result) }) // by whoever has completed it
//
// There are three lanes, each a ring of its own. A worker takes the oldest callback of High, or of Medium if
// there is none, or of Low; but each eighth of all is the oldest of Low, and each eighth the oldest of
// Medium, if there is one. So a callback of High waits for those that run, for those of High before it, and for a
// third as many others as it and these are, rounded up; one of a lower lane waits for eight callbacks at most for
// itself and each of its own lane before it. Nothing bounds how long a callback runs but the callback. One that
// ends its goroutine (runtime.Goexit) ends no worker: another one takes its place.
package lane

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime/debug"
	"sync"
	"time"

	"github.com/whylate/whylate/sdk/batch"
)

var (
	// ErrFull is what Post returns when the lane is full. The callback will not be run.
	ErrFull = errors.New("lane: full")
	// ErrStopped is what Post returns after Stop.
	ErrStopped = errors.New("lane: stopped")
)

// Priority is a lane.
type Priority = batch.Priority

// The lanes.
const (
	High   = batch.High
	Medium = batch.Medium
	Low    = batch.Low
)

var order = [...]Priority{High, Medium, Low}

// Options are those of lanes. Their zero value is useful.
type Options struct {
	// Size is how many callbacks wait in each lane at most: 16 bytes each, allocated by
	// Start. 0 is 1024.
	Size int
	// Workers is how many goroutines run callbacks; 0 is one. With more of them, callbacks of the same lane
	// may overtake each other.
	Workers int
	// OnPanic is told the value and the stack of a callback that panicked, by the worker, which
	// goes on. nil: the panic ends the program, as that of any goroutine does.
	OnPanic func(value any, stack []byte)
}

// Lanes run callbacks. Their methods may be called by any number of goroutines.
type Lanes struct {
	onPanic func(any, []byte)
	epoch   time.Time
	workers sync.WaitGroup

	mu      sync.Mutex
	come    sync.Cond
	rings   [len(order)]ring
	turn    uint
	stopped bool
	waits   [len(order)]Waits
	full    [len(order)]uint64
}

type entry struct {
	fn func()
	at time.Duration // since Lanes.epoch
}

// ring is a queue of bounded length.
type ring struct {
	entries []entry
	first   int
	n       int
}

// Waits is how long callbacks of a lane waited before they were run.
type Waits struct {
	Count uint64
	Max   time.Duration
	// below[i] counts those of less than 2^i ns that were not below 2^(i-1).
	below [64]uint64
}

// Quantile returns a time that a part q (0 to 1) of the callbacks did not wait longer than: it is
// at most twice as long as the shortest such time.
func (w Waits) Quantile(q float64) time.Duration {
	var sum uint64
	for i, n := range w.below {
		if sum += n; n > 0 && float64(sum) >= q*float64(w.Count) {
			return min(time.Duration(1)<<min(i, 62), w.Max)
		}
	}
	return w.Max
}

// Start starts the workers. The caller ends them with Stop.
func Start(o Options) (*Lanes, error) {
	if o.Size == 0 {
		o.Size = 1024
	}
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Size < 1 || o.Size > 1<<24 || o.Workers < 1 || o.Workers > 1<<12 {
		return nil, fmt.Errorf("lane: Size %d and Workers %d: they have to be 1 to %d and 1 to %d", o.Size, o.Workers, 1<<24, 1<<12)
	}
	l := &Lanes{onPanic: o.OnPanic, epoch: time.Now()}
	l.come.L = &l.mu
	for p := range l.rings {
		l.rings[p].entries = make([]entry, o.Size)
	}
	l.workers.Add(o.Workers)
	for w := 0; w < o.Workers; w++ {
		go l.work()
	}
	return l, nil
}

// Post has fn run by a worker. It never waits: what does not fit into the lane is refused.
func (l *Lanes) Post(p Priority, fn func()) error {
	if fn == nil {
		return errors.New("lane: no callback")
	}
	p = min(p, Low)
	now := time.Since(l.epoch)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.rings[p]
	switch {
	case l.stopped:
		return ErrStopped
	case r.n == len(r.entries):
		l.full[p]++
		return ErrFull
	}
	r.entries[(r.first+r.n)%len(r.entries)] = entry{fn, now}
	r.n++
	l.come.Signal()
	return nil
}

// Stop refuses callbacks from now on, and returns when all that were posted before have been run. It
// must not be called by a callback.
func (l *Lanes) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.come.Broadcast()
	l.mu.Unlock()
	l.workers.Wait()
}

// work runs callbacks until there will be none. If one of them ends its goroutine, a new one goes on.
func (l *Lanes) work() {
	stopped := false
	defer func() {
		if stopped {
			l.workers.Done()
		} else {
			go l.work()
		}
	}()
	for {
		fn := l.next()
		if fn == nil {
			stopped = true
			return
		}
		if stack := l.call(fn); stack != nil {
			l.onPanic(nil, stack)
		}
	}
}

// call runs a callback. It returns the stack of one that panicked with nil, which is known of only when call
// returns: for recover it is the same as runtime.Goexit.
func (l *Lanes) call(fn func()) (ofNil []byte) {
	if l.onPanic != nil {
		returned := false
		defer func() {
			if returned {
				return
			}
			if v := recover(); v != nil {
				l.onPanic(v, debug.Stack())
			} else {
				ofNil = debug.Stack()
			}
		}()
		fn()
		returned = true
		return nil
	}
	fn()
	return nil
}

// next waits for a callback and takes it; nil when there will be none.
func (l *Lanes) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if p, ok := l.choose(); ok {
			return l.take(p)
		}
		if l.stopped {
			return nil
		}
		l.come.Wait()
	}
}

// choose returns the lane whose turn it is, if one has a callback.
func (l *Lanes) choose() (Priority, bool) {
	switch turn := l.turn % 8; {
	case turn == 7 && l.rings[Low].n > 0:
		return Low, true
	case turn == 3 && l.rings[Medium].n > 0:
		return Medium, true
	}
	for _, p := range order {
		if l.rings[p].n > 0 {
			return p, true
		}
	}
	return 0, false
}

func (l *Lanes) take(p Priority) func() {
	l.turn++
	r := &l.rings[p]
	e := r.entries[r.first]
	r.entries[r.first] = entry{}
	r.first = (r.first + 1) % len(r.entries)
	r.n--
	wait := max(0, time.Since(l.epoch)-e.at)
	w := &l.waits[p]
	w.Count++
	w.Max = max(w.Max, wait)
	w.below[bits.Len64(uint64(wait))%64]++
	return e.fn
}

// Waits returns how long callbacks of a lane have waited until now.
func (l *Lanes) Waits(p Priority) Waits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits[min(p, Low)]
}

// Metrics tells, of each lane (high, medium, low): lane_high_waiting_callbacks, lane_high_run_total,
// lane_high_full_total, lane_high_wait_p99_seconds and lane_high_wait_max_seconds.
func (l *Lanes) Metrics(emit func(name string, value float64)) {
	for _, p := range order {
		l.mu.Lock()
		waiting, full, w := l.rings[p].n, l.full[p], l.waits[p]
		l.mu.Unlock()
		name := "lane_" + p.String()
		emit(name+"_waiting_callbacks", float64(waiting))
		emit(name+"_run_total", float64(w.Count))
		emit(name+"_full_total", float64(full))
		emit(name+"_wait_p99_seconds", w.Quantile(0.99).Seconds())
		emit(name+"_wait_max_seconds", w.Max.Seconds())
	}
}
