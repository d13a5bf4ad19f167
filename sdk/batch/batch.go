// Package batch joins the single calls of many goroutines into batches, for callees whose cost is mostly
// that of a call: a lock, a system call, a round trip.
//
//	b, err := batch.New(func(keys []string, rows []Row, errs []error) error { … }, batch.Options{})
//	row, err := b.Do(ctx, "key")
//
// There is no timer by default. A caller that finds nobody at work runs its item at once; those that come
// meanwhile are the next batch. So batches are as large as the callee is slow, and a single caller
// waits for nobody. (A timer of 100 µs does not exist in an idle Go process: its scheduler sleeps in
// epoll_wait, in whole milliseconds.)
//
// The function must not call Do or Close of its own batcher: both would wait for the batch that runs.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

var (
	// ErrClosed is what a call gets after Close.
	ErrClosed = errors.New("batch: closed")
	// ErrFull is what a call gets when Options.MaxQueue items wait.
	ErrFull = errors.New("batch: too many items wait")
)

// PanicError is what each call of a batch gets whose function panicked or ended its goroutine.
type PanicError struct {
	// Value is what it panicked with, nil if it ended its goroutine (or panicked with nil, where GODEBUG has
	// panicnil=1).
	Value any
	// Stack is that of the panic, as debug.Stack returns it.
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "batch: the function ended its goroutine or panicked with nil"
	}
	return fmt.Sprintf("batch: the function panicked: %v", e.Value)
}

// Unwrap returns the error that it panicked with, if it was one.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Priority is that of an item.
type Priority uint8

// An item goes before those of lower priorities that wait, but for places that are kept for
// them: see Options.MaxSize.
const (
	Medium Priority = iota
	High
	Low
	priorities = iota
)

// String returns the priority's name.
func (p Priority) String() string { return [...]string{"medium", "high", "low"}[min(p, Low)] }

// order is that in which items go into a batch.
var order = [priorities]Priority{High, Medium, Low}

// Func does the work of a batch. in are its items; out and errs are as long as in, all zero, and
// for it to fill in: what the caller of an item gets. An error that it returns is that of all
// items whose errs is nil. It must not keep any of the slices. It runs in the goroutine of one of the
// callers, one at a time, and must not call Do or Close of its batcher.
type Func[In, Out any] func(in []In, out []Out, errs []error) error

// Options are those of a batcher. Their zero value is useful.
type Options struct {
	// MaxSize is how many items a batch has at most; 0 is 64. An eighth of them, or one place in each
	// eighth batch, is kept for each lower priority of which items wait. So an item of High waits for the
	// batch that runs and for items of High that came before it, and if these are fewer than three quarters
	// of MaxSize, rounded down, it is in the next one. (Of MaxSize 1 that is none: there, a High that is the
	// first of its own is in the next or the next but one.) One of a lower priority waits for eight batches
	// at most, and for as many for each of its own that came before it.
	MaxSize int
	// MaxWait is how long a batch that is not full waits for more items, and with it the caller that finds
	// nobody at work. 0: not at all, which is nearly always better. In an idle process
	// it is at least a millisecond. Close ends it.
	MaxWait time.Duration
	// MaxQueue is how many items may wait, beside those of the batch that runs; the next call gets
	// ErrFull. 0: as many as there are callers, which all wait anyway.
	MaxQueue int
}

// Batcher joins calls. Its methods may be called by any number of goroutines.
type Batcher[In, Out any] struct {
	fn      Func[In, Out]
	options Options
	waiters sync.Pool // of *waiter[In, Out]

	mu      sync.Mutex
	queues  [priorities]queue[In, Out]
	queued  int
	leading bool // somebody runs a batch, or has been told to
	closed  bool
	idle    chan struct{} // closed when nobody leads any more; made by Close
	more    chan struct{} // tells a leader that waits that the batch is full
	closing chan struct{} // tells it that nobody will come any more
	batches uint          // counts them
	stats   Stats
	turn

	// Of the leader alone.
	until time.Time // when the batch that waits for more items no longer does; zero if none does
	items []In
	outs  []Out
	errs  []error
	batch []*waiter[In, Out]
}

// Stats is what a batcher has done.
type Stats struct {
	Batches, Items uint64
	// Largest is the largest batch.
	Largest int
	// Cancelled items were not run, as their caller gave up before; Full ones got ErrFull.
	Cancelled, Full uint64
	// Panics counts batches.
	Panics uint64
}

// waiter is a call that waits.
type waiter[In, Out any] struct {
	before   *waiter[In, Out] // in its queue, as next
	next     *waiter[In, Out]
	in       In
	out      Out
	err      error
	priority Priority
	state    state     // guarded by Batcher.mu
	probes   bool      // its caller is to try a yield before it returns
	wake     chan bool // of one: true if it is to lead, false if it is done
}

type state uint8

const (
	queued    state = iota
	running         // it is in the batch that runs
	abandoned       // its caller has gone while it was running; whoever runs it forgets it
	leads           // it is in a queue, and its caller is to run the next batch
	done
)

type queue[In, Out any] struct{ first, last *waiter[In, Out] }

func (q *queue[In, Out]) push(w *waiter[In, Out]) {
	w.before, w.next = q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *queue[In, Out]) pop() *waiter[In, Out] {
	w := q.first
	if w != nil {
		q.remove(w)
	}
	return w
}

// remove takes out a waiter that is in the queue.
func (q *queue[In, Out]) remove(w *waiter[In, Out]) {
	if w.before == nil {
		q.first = w.next
	} else {
		w.before.next = w.next
	}
	if w.next == nil {
		q.last = w.before
	} else {
		w.next.before = w.before
	}
	w.before, w.next = nil, nil
}

// count returns how many wait, at most most.
func (q *queue[In, Out]) count(most int) (n int) {
	for w := q.first; w != nil && n < most; w = w.next {
		n++
	}
	return n
}

// New returns a batcher of fn. It starts nothing; Close is for those who want to wait for the end.
func New[In, Out any](fn Func[In, Out], o Options) (*Batcher[In, Out], error) {
	if o.MaxSize == 0 {
		o.MaxSize = 64
	}
	switch {
	case fn == nil:
		return nil, errors.New("batch: no function")
	case o.MaxSize < 1 || o.MaxSize > 1<<20:
		return nil, fmt.Errorf("batch: MaxSize is %d: it has to be 1 to %d", o.MaxSize, 1<<20)
	case o.MaxWait < 0 || o.MaxQueue < 0:
		return nil, errors.New("batch: MaxWait or MaxQueue is negative")
	}
	b := &Batcher[In, Out]{fn: fn, options: o, more: make(chan struct{}, 1), closing: make(chan struct{}),
		items: make([]In, 0, 1), outs: make([]Out, 0, 1), errs: make([]error, 0, 1)} // see alone
	b.turn = turn{gosched: runtime.Gosched, now: time.Now}
	b.waiters.New = func() any { return &waiter[In, Out]{wake: make(chan bool, 1)} }
	return b, nil
}

// Do has an item of Medium priority run in a batch, and returns what came of it. If ctx ends
// first, Do returns its error at once: an item that is not being run then never is, and
// the others of its batch do not notice. It may run the batch itself, and then returns when that is over.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	return b.DoWith(ctx, Medium, in)
}

// DoWith is Do with another priority.
func (b *Batcher[In, Out]) DoWith(ctx context.Context, p Priority, in In) (out Out, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return out, ErrClosed
	}
	if !b.leading && b.options.MaxWait == 0 && !b.yields() {
		b.leading = true
		b.batches++
		b.stats.Batches++
		b.stats.Items++
		b.stats.Largest = max(b.stats.Largest, 1)
		b.mu.Unlock()
		out, err, probes := b.alone(in)
		if probes {
			b.probe()
		}
		return out, err
	}
	if b.options.MaxQueue > 0 && b.queued >= b.options.MaxQueue {
		b.stats.Full++
		b.mu.Unlock()
		return out, ErrFull
	}
	w := b.waiters.Get().(*waiter[In, Out])
	w.in, w.state, w.priority = in, queued, min(p, Low)
	b.queues[w.priority].push(w)
	b.queued++
	if b.queued == b.options.MaxSize && b.options.MaxWait > 0 {
		select {
		case b.more <- struct{}{}:
		default:
		}
	}
	lead := !b.leading || b.takesOver()
	b.leading = true
	b.mu.Unlock()

	for {
		if lead {
			what := b.run(ctx, w)
			if what == gaveUp {
				return out, ctx.Err()
			}
			if what == over {
				break
			}
		}
		if ctx.Done() == nil {
			lead = <-w.wake
		} else {
			select {
			case lead = <-w.wake:
			case <-ctx.Done():
				if b.abandon(w) {
					return out, ctx.Err()
				}
				lead = <-w.wake // it was done meanwhile
			}
		}
		if !lead {
			break
		}
	}
	probes := w.probes
	out, err = w.out, w.err
	b.recycle(w)
	if probes {
		b.probe()
	}
	return out, err
}

// recycle makes a waiter another call's, whose wake is empty.
func (b *Batcher[In, Out]) recycle(w *waiter[In, Out]) {
	var in In
	var out Out
	w.in, w.out, w.err, w.probes = in, out, nil, false
	b.waiters.Put(w)
}

// abandon takes a call out whose caller gives up. It is false if the call is done.
func (b *Batcher[In, Out]) abandon(w *waiter[In, Out]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch w.state {
	case done:
		return false
	case running:
		w.state = abandoned // whoever runs it recycles it
		return true
	}
	if w.state == leads {
		<-w.wake
	}
	b.cancel(w, w.state == leads)
	return true
}

// cancel takes a call that waits out, and passes the lead on if it has it.
func (b *Batcher[In, Out]) cancel(w *waiter[In, Out], leads bool) {
	b.queues[w.priority].remove(w)
	b.queued--
	b.stats.Cancelled++
	if leads {
		b.pass(nil)
	}
	b.recycle(w)
}

// pass makes the first of those that wait the next leader, or nobody. It reports whether that is me.
func (b *Batcher[In, Out]) pass(me *waiter[In, Out]) bool {
	for _, p := range order {
		if w := b.queues[p].first; w != nil {
			if w == me {
				return true
			}
			w.state = leads
			w.wake <- true
			return false
		}
	}
	b.leading = false
	b.until = time.Time{}
	if b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
	return false
}

// outcome is what became of a call that led.
type outcome uint8

const (
	again  outcome = iota // it leads once more
	over                  // it is done
	passed                // it waits, and another one leads
	gaveUp                // its context ended before it was run
)

// run runs batches until the call me is done, or has given up, or another one is to lead.
func (b *Batcher[In, Out]) run(ctx context.Context, me *waiter[In, Out]) outcome {
	for {
		if what := b.runOne(ctx, me); what != again {
			return what
		}
	}
}

func (b *Batcher[In, Out]) runOne(ctx context.Context, me *waiter[In, Out]) (what outcome) {
	waited := b.options.MaxWait == 0 || b.wait(ctx)
	b.mu.Lock()
	if !waited {
		b.cancel(me, true)
		b.mu.Unlock()
		return gaveUp
	}
	if b.options.MaxWait == 0 && b.yields() && !b.letOthersRun(me) {
		b.mu.Unlock()
		return passed
	}
	b.take()
	b.mu.Unlock()

	start := b.begin()
	var err error
	returned := false
	defer func() {
		p := ended(recover(), returned)
		what = b.finish(me, start, err, p)
	}()
	n := len(b.batch)
	err = b.fn(b.items[:n:n], b.outs[:n:n], b.errs[:n:n])
	returned = true
	return
}

// alone runs a batch of one item, whose caller leads and has no waiter. New has made room for one.
func (b *Batcher[In, Out]) alone(in In) (out Out, err error, probes bool) {
	b.items, b.outs, b.errs = b.items[:1], b.outs[:1], b.errs[:1]
	b.items[0] = in
	start := b.begin()
	returned := false
	defer func() {
		var p *PanicError
		if !returned {
			p = ended(recover(), false)
		}
		out, err = b.outs[0], b.failure(0, err, p)
		probes = b.afterOne(start, p)
	}()
	err = b.fn(b.items[:1:1], b.outs[:1:1], b.errs[:1:1])
	returned = true
	return
}

// afterOne forgets a batch of one item and passes the lead on.
func (b *Batcher[In, Out]) afterOne(start time.Time, p *PanicError) (probes bool) {
	var in In
	var out Out
	b.items[0], b.outs[0], b.errs[0] = in, out, nil
	b.items, b.outs, b.errs = b.items[:0], b.outs[:0], b.errs[:0]
	b.mu.Lock()
	if b.together = !start.IsZero(); b.together {
		b.took = time.Since(start)
	}
	if p != nil {
		b.stats.Panics++
	} else if b.resume != 0 {
		probes = b.isDue()
	}
	if b.queued == 0 && b.idle == nil {
		b.leading = false
	} else {
		b.pass(nil)
	}
	b.mu.Unlock()
	return probes
}

// ended is what all calls of a batch get whose function panicked with v or ended its goroutine; nil if it returned.
func ended(v any, returned bool) *PanicError {
	if returned {
		return nil
	}
	return &PanicError{v, debug.Stack()}
}

// failure is the error of an item of the batch, whose function returned err or panicked.
func (b *Batcher[In, Out]) failure(i int, err error, p *PanicError) error {
	switch {
	case p != nil:
		return p
	case b.errs[i] != nil:
		return b.errs[i]
	}
	return err
}

// begin returns when a batch begins, if it is one that is measured.
func (b *Batcher[In, Out]) begin() (t time.Time) {
	if b.batches%sampled == 0 {
		t = time.Now()
	}
	return t
}

// wait waits until a batch is full, or Options.MaxWait is over since its first leader began to, or Close is
// called. It is false if ctx ended first.
func (b *Batcher[In, Out]) wait(ctx context.Context) bool {
	b.mu.Lock()
	full := b.queued >= b.options.MaxSize || b.closed
	select {
	case <-b.more: // of a batch that has run
	default:
	}
	if b.until.IsZero() {
		b.until = time.Now().Add(b.options.MaxWait)
	}
	left := time.Until(b.until)
	b.mu.Unlock()
	if full || left <= 0 {
		return true
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-b.more:
	case <-b.closing:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// kept returns how many places of a batch are kept for a lower priority, if so many wait.
func (b *Batcher[In, Out]) kept(p Priority) int {
	if n := b.options.MaxSize / 8; n > 0 {
		return n
	}
	if turn := b.batches % 8; p == Low && turn == 0 || p == Medium && turn == 4 {
		return 1
	}
	return 0
}

// take makes the next batch of those that wait.
func (b *Batcher[In, Out]) take() {
	b.batches++
	b.until = time.Time{}
	room := min(b.options.MaxSize, b.queued)
	for i, p := range order {
		lower := 0
		for _, q := range order[i+1:] {
			lower += b.queues[q].count(b.kept(q))
		}
		for room > lower {
			w := b.queues[p].pop()
			if w == nil {
				break
			}
			room--
			w.state = running
			b.batch = append(b.batch, w)
		}
	}
	b.queued -= len(b.batch)
	var out Out
	for _, w := range b.batch {
		b.items, b.outs, b.errs = append(b.items, w.in), append(b.outs, out), append(b.errs, nil)
	}
	b.count(len(b.batch))
}

// count counts a batch.
func (b *Batcher[In, Out]) count(items int) {
	b.stats.Batches++
	b.stats.Items += uint64(items)
	b.stats.Largest = max(b.stats.Largest, items)
}

// clear forgets a batch.
func (b *Batcher[In, Out]) clear() {
	clear(b.batch)
	clear(b.items)
	clear(b.outs)
	clear(b.errs)
	b.batch, b.items, b.outs, b.errs = b.batch[:0], b.items[:0], b.outs[:0], b.errs[:0]
}

// finish gives the calls of a batch what came of them, passes the lead on, and says what became of the call me;
// a call whose goroutine ends does not lead again.
func (b *Batcher[In, Out]) finish(me *waiter[In, Out], start time.Time, err error, p *PanicError) outcome {
	mine := false
	b.mu.Lock()
	b.together = len(b.batch) > 1
	if !start.IsZero() {
		b.took = time.Since(start)
		b.together = true
	}
	if p != nil {
		b.stats.Panics++
	}
	n := 0
	for i, w := range b.batch {
		if w.state == abandoned {
			b.recycle(w)
			continue
		}
		w.state, w.out, w.err = done, b.outs[i], b.failure(i, err, p)
		if w == me {
			mine = true
			continue
		}
		b.batch[n] = w
		n++
	}
	b.mu.Unlock()
	for _, w := range b.batch[:n] {
		w.wake <- false
	}
	b.clear()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p != nil && p.Value == nil && !mine {
		b.queues[me.priority].remove(me)
		b.queued--
		mine = true
		me.err = p // for whom panicked with nil, and goes on
	}
	if mine {
		me.probes = p == nil && b.isDue()
		b.pass(nil)
		return over
	}
	me.state = queued // if it is not the next leader it waits, and may be taken out
	if b.pass(me) {
		return again
	}
	return passed
}

// Close ends the batcher: calls from now on get ErrClosed, and no batch waits for more items. It returns when those that were there before have ended.
func (b *Batcher[In, Out]) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.closing)
	}
	if !b.leading {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	<-idle
}

// Stats returns what was done until now.
func (b *Batcher[In, Out]) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Metrics tells the statistics as numbers: batch_batches_total, batch_items_total, batch_largest_items,
// batch_cancelled_total, batch_full_total, batch_panics_total and batch_waiting_items.
func (b *Batcher[In, Out]) Metrics(emit func(name string, value float64)) {
	b.mu.Lock()
	s, waiting := b.stats, b.queued
	b.mu.Unlock()
	emit("batch_batches_total", float64(s.Batches))
	emit("batch_items_total", float64(s.Items))
	emit("batch_largest_items", float64(s.Largest))
	emit("batch_cancelled_total", float64(s.Cancelled))
	emit("batch_full_total", float64(s.Full))
	emit("batch_panics_total", float64(s.Panics))
	emit("batch_waiting_items", float64(waiting))
}
