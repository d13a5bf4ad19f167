// Package pace runs background work so that it does not make the rest of the program late.
//
//	p, err := pace.New(pace.Options{})
//	defer p.Stop(context.Background())
//	p.Go(ctx, func(ctx context.Context) {
//		for rows.Next() && p.Pace(ctx) == nil {
//			compact(rows)
//		}
//	})
//
// Go's scheduler knows no priorities: a goroutine that computes holds its P for up to 10 ms, and while all Ps
// are held nobody looks at the network but once in 10 ms. What the package does about it on Linux:
//
//	      foreground                      background, one permit each
//	┌───────┐   ┌───────┐            ┌───────┐   ┌───────┐
//	│   P   │   │   P   │            │ P     │   │ P     │   GOMAXPROCS is raised by the permits, so that
//	└───┬───┘   └───┬───┘            └───┬───┘   └───┬───┘   the foreground has all Ps that it had before
//	 thread      thread               thread      thread
//	    └─────┬─────┘                 SCHED_IDLE, SCHED_IDLE
//	          │                            │
//	   ┌──────┴────────────────────────────┴──────┐
//	   │ the kernel: whoever is not idle runs now │
//	   └──────────────────────────────────────────┘
//
// A goroutine of the background is locked to a thread of its own, which has the lowest priority that the kernel
// knows: that preempts it within microseconds when a thread of the foreground wakes up, which the runtime cannot.
// Permits bound how many of them hold a P; at the end of a slice a permit goes to who has waited longest.
// Elsewhere, or where threads cannot be lowered, a permit's holder parks each half millisecond, for as long as
// it takes the scheduler to look at the network once.
//
// With Options.Target a controller steers how much the background may run, see control.
package pace

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Errors that callers test.
var (
	// ErrStopped is Go's after Stop was called.
	ErrStopped = errors.New("pace: the pacer is stopped")
	// ErrTooMany is Go's when Options.MaxWorkers are at work.
	ErrTooMany = errors.New("pace: too many functions at work: let fewer do more each, or raise MaxWorkers")
	// ErrNotPaced is Pace's and Blocking's where the context is not that of a function which Go started.
	ErrNotPaced = errors.New("pace: the context is not one that Go gave to its function")
)

// Way is how the background is kept out of the way.
type Way uint8

const (
	// Lowered is by threads with the lowest priority of the kernel, SCHED_IDLE: they run when no other thread of
	// their control group wants the CPU (and a three-hundredth of it otherwise). Linux only.
	Lowered Way = iota
	// Nice is by threads at nice 19, which get a seventieth of a CPU that others want. Linux only.
	Nice
	// Parks is by short parks, on any system. Threads are not touched, nor GOMAXPROCS.
	Parks
)

func (w Way) String() string {
	return [...]string{"lowered threads", "threads at nice 19", "short parks"}[min(w, Parks)]
}

// Raise is when GOMAXPROCS may be raised by the permits.
type Raise uint8

const (
	// RaiseDefault is where the value is the runtime's own choice: who sets another means it.
	RaiseDefault Raise = iota
	// RaiseAlways is also where the program or the environment has set it.
	RaiseAlways
	// RaiseNever leaves it alone; permits are then at most one less than Ps.
	RaiseNever
)

// Limits of Options.
const (
	// minSlice: below it, handing over costs more than a tenth of the work.
	minSlice = 200 * time.Microsecond
	maxSlice = time.Second
	// workers is how many functions may be at work if nothing is said. Each has a thread: the runtime ends
	// programs with more than 10,000.
	workers = 1000
	// minFloor: below it a function rests for minutes after each slice, and counting that overflows.
	minFloor = 0.001
	// maxPermits bounds GOMAXPROCS, which costs memory for each P and time for each stop of the world.
	maxPermits = 1024
)

// Options are how to pace. The zero value lowers threads and does not steer.
type Options struct {
	// Way is how. Where threads cannot be lowered it is Parks; State tells why.
	Way Way
	// Permits is how many functions run at once, 1 to 1024. 0 is GOMAXPROCS, so that the background may use all
	// that the foreground leaves. It is less where GOMAXPROCS may not be raised.
	Permits int
	// Slice is how long a function runs at most while others wait for a permit: 200 µs to 1 s. 0 is 10 ms. Slices are
	// shorter, to a millisecond, while the foreground wants the CPUs, and where a Target is missed.
	Slice time.Duration
	// Raise is when GOMAXPROCS may be raised.
	Raise Raise
	// Target is the longest that a wake-up of the foreground, or a stop of the world, shall take: 100 µs or more.
	// The background gets less while there are longer ones. 0 does not steer; inside a CPU quota what the
	// background gets is bounded in any case, for threads of low priority spend the quota like others.
	Target time.Duration
	// Floor is the CPU time per time that the background may take whatever the foreground suffers, in cores: 0.001 or
	// more, at most Permits. 0 is a twentieth of a core. Lowered threads get it where the kernel has it left.
	Floor float64
	// MaxWorkers is how many functions may be at work: 0 is 1000, at most 5000.
	MaxWorkers int
}

func (o *Options) complete() error {
	switch {
	case o.Way > Parks:
		return fmt.Errorf("pace: no way %d", o.Way)
	case o.Raise > RaiseNever:
		return fmt.Errorf("pace: no raise %d", o.Raise)
	case o.Permits < 0 || o.Permits > maxPermits:
		return fmt.Errorf("pace: %d permits: it is 1 to %d, or 0 for GOMAXPROCS", o.Permits, maxPermits)
	case o.Slice != 0 && (o.Slice < minSlice || o.Slice > maxSlice):
		return fmt.Errorf("pace: a slice of %v: it is %v to %v, or 0 for the default", o.Slice, minSlice, maxSlice)
	case o.Target < 0 || o.Target != 0 && o.Target < minTarget:
		return fmt.Errorf("pace: a target of %v: it is %v or more, or 0 to not steer", o.Target, minTarget)
	case o.Floor != 0 && !(o.Floor >= minFloor && o.Floor <= maxPermits): // false for NaN
		return fmt.Errorf("pace: a floor of %v cores: it is %v to %d, or 0 for the default", o.Floor, minFloor, maxPermits)
	case o.MaxWorkers < 0 || o.MaxWorkers > 5*workers:
		return fmt.Errorf("pace: %d workers: it is 1 to %d, or 0 for %d", o.MaxWorkers, 5*workers, workers)
	}
	if o.MaxWorkers == 0 {
		o.MaxWorkers = workers
	}
	if o.Floor == 0 {
		o.Floor = 0.05
	}
	return nil
}

// Pacer paces the functions that it was given. Its methods may be called at any time, from any goroutine, unless they
// say otherwise. A nil Pacer paces nothing: Go starts plain goroutines.
type Pacer struct {
	options Options
	way     Way
	lower   threads
	why     string // way is not what was asked for
	permits permits

	longest atomic.Int64 // ns, slices are not longer
	slice   atomic.Int64 // ns, how long a permit is kept while others wait
	nap     atomic.Int64 // ns between parks, 0: none
	rest    atomic.Int64 // ns of rest for each 1024 ns of work
	lowLate atomic.Int64 // ns: a wake-up of the background that took longer is counted
	late    atomic.Int64 // how many
	busy    atomic.Int64 // ns of the background's slices
	turns   atomic.Int64
	lent    atomic.Int64
	failed  atomic.Int64 // threads that could not be lowered

	mu      sync.Mutex
	workers map[*worker]struct{}
	stopped bool
	idle    chan struct{} // closed when stopped and nobody is at work
	steers  bool          // the controller's goroutine was started
	steer   steering

	wake chan struct{} // wakes up the controller that has nobody to steer
	end  chan struct{}
	done chan struct{}
}

// New makes a pacer. It tries whether a thread can be lowered; GOMAXPROCS is raised and the controller started by the
// first Go. The caller ends it with Stop.
func New(o Options) (*Pacer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	p := &Pacer{
		options: o,
		way:     o.Way,
		workers: make(map[*worker]struct{}),
		idle:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		end:     make(chan struct{}),
		done:    make(chan struct{}),
	}
	if p.way != Parks {
		p.lower = threads{nice: p.way == Nice}
		if err := p.lower.try(); err != nil {
			p.way, p.why = Parks, fmt.Sprintf("threads cannot be lowered: %v", err)
		}
	}
	p.steer.init(p)
	return p, nil
}

// Go runs a function in the background, in a goroutine of its own that gets a permit first; where threads are lowered
// it stays locked to one, which ends with it. The function gets a context made from ctx, for Pace and for itself
// alone, that is cancelled by Stop. It is always called, if ctx is cancelled before there is a permit without one, so what
// it defers can be relied on. Goroutines that it starts are not paced; programs and threads of C that it starts inherit the
// low priority. A panic is the program's, as with the go statement.
func (p *Pacer) Go(ctx context.Context, fn func(ctx context.Context)) error {
	if p == nil {
		go fn(ctx)
		return nil
	}
	w := newWorker(ctx, p)
	p.mu.Lock()
	switch {
	case p.stopped:
		p.mu.Unlock()
		w.cancel()
		return ErrStopped
	case len(p.workers) >= p.options.MaxWorkers:
		p.mu.Unlock()
		w.cancel()
		return ErrTooMany
	}
	p.workers[w] = struct{}{}
	first := !p.steers
	p.steers = true
	p.mu.Unlock()
	if first {
		go p.steer.run()
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
	go p.run(w, fn)
	return nil
}

// run is a worker's goroutine.
func (p *Pacer) run(w *worker, fn func(context.Context)) {
	if p.way != Parks {
		runtime.LockOSThread()
		if onMainThread() {
			// The main thread would outlive its goroutine, and stay lowered. While it is locked here, the
			// goroutine that is started now has to get another one.
			other := make(chan struct{})
			go func() {
				runtime.LockOSThread()
				close(other)
				p.work(w, fn)
			}()
			<-other
			runtime.UnlockOSThread()
			return
		}
	}
	p.work(w, fn)
}

// work runs the function. Its goroutine is locked to its thread, and never unlocked, where that is lowered: who is not
// privileged cannot raise a thread again, so it has to end.
func (p *Pacer) work(w *worker, fn func(context.Context)) {
	defer p.leave(w)
	if p.way != Parks {
		if err := p.lower.lower(&w.thread); err != nil {
			runtime.UnlockOSThread()
			p.failed.Add(1)
		}
	}
	<-p.steer.began
	_ = w.begin() // the function finds out by its context
	fn(w)
	w.count(now())
	w.rest() // a function that is shorter than a slice pays, too
}

func (p *Pacer) atWork() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.workers)
}

// all returns those at work.
func (p *Pacer) all() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*worker, 0, len(p.workers))
	for w := range p.workers {
		list = append(list, w)
	}
	return list
}

// leave ends a worker, whether its function returned, panicked or ended the goroutine.
func (p *Pacer) leave(w *worker) {
	w.giveUp()
	w.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.workers, w)
	if p.stopped && len(p.workers) == 0 {
		close(p.idle)
	}
}

// Pace is called in each turn of a background function's loop, with the context that Go gave it: about every hundred
// microseconds, and at least once in a millisecond. It takes a nanosecond or two, but when a permit is handed on: then it returns when there
// is one again. Its error is the context's when that is cancelled, and the function has to return soon: from then on it
// has no permit. A context that was made from Go's will do, and costs a few ns more.
//
// With a nil Pacer it only looks at the context.
func (p *Pacer) Pace(ctx context.Context) error {
	switch w := ctx.(type) { // as an if with an assertion this costs more than what the compiler inlines
	case *worker:
		if w.left--; w.left > 0 {
			return nil
		}
	}
	return p.pace(ctx)
}

func (p *Pacer) pace(ctx context.Context) error {
	if w, ok := ctx.(*worker); ok {
		return w.check()
	}
	if p == nil {
		return ctx.Err()
	}
	w, ok := ctx.Value(workerKey{}).(*worker)
	if !ok {
		return ErrNotPaced
	}
	if w.left--; w.left > 0 {
		return ctx.Err()
	}
	if err := w.check(); err != nil {
		return err
	}
	return ctx.Err()
}

// Blocking calls fn, which waits for something: first it rests, as far as the allowance asks for that, and gives the permit
// back, and afterwards it takes one again. Without it others get the permit of a function that waits only when the pacer has seen that it
// does, after up to 0.1 s. Its errors are those of Pace. fn is called in any case, but for ErrNotPaced.
func (p *Pacer) Blocking(ctx context.Context, fn func()) error {
	if p == nil {
		fn()
		return ctx.Err()
	}
	w, ok := ctx.Value(workerKey{}).(*worker)
	if !ok {
		return ErrNotPaced
	}
	w.count(now())
	w.rest()
	w.p.permits.lend(w) // if fn panics, and the function recovers, the next Pace takes one
	fn()
	if err := w.begin(); err != nil {
		return err
	}
	return ctx.Err()
}

// Stop cancels the contexts of all functions, waits for them to return, and gives GOMAXPROCS back to who had set it:
// the runtime, if that had, else it is what it was. If somebody set another value meanwhile, that stays. Threads of
// low priority end with their functions.
//
// If ctx is cancelled first, GOMAXPROCS is given back nonetheless, the threads of functions that still run are
// raised where the process may do so, and the error tells what is left. To stop a pacer twice does nothing more. A function of
// the pacer must not call it: it would wait for itself.
func (p *Pacer) Stop(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.end)
		if len(p.workers) == 0 {
			close(p.idle)
		}
		if !p.steers {
			close(p.done)
		}
	}
	for w := range p.workers {
		w.cancel()
	}
	p.mu.Unlock()
	<-p.done
	select {
	case <-p.idle:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.workers) == 0 {
		return nil
	}
	err := fmt.Errorf("pace: %d functions have not returned: %w", len(p.workers), ctx.Err())
	for w := range p.workers {
		if raised := p.lower.raise(&w.thread); raised != nil {
			err = fmt.Errorf("%w; a thread stays lowered: %w", err, raised)
			break
		}
	}
	return err
}

// State is what a pacer does now.
type State struct {
	// Way is how it paces, Why the reason where that is not what was asked for, or "".
	Way Way
	Why string
	// Workers is how many functions are at work, Waiting how many of them wait for a permit.
	Workers, Waiting int
	// Permits is how many may run at once; Allowance is the CPU time per time that they may use, in cores. Both are 0 before
	// the first Go.
	Permits   int
	Allowance float64
	Slice     time.Duration
	// Raised is the value to which GOMAXPROCS was raised, for all pacers that do; 0 if this one does not.
	Raised int
	// Used is the time that the background has run, the sum over its goroutines: CPU time where threads are lowered,
	// else between two looks at the clock.
	Used time.Duration
	// Turns is how often a permit was handed on, Lent how often as its holder waited for something else.
	Turns, Lent int64
	// Wakeup is the second longest wake-up by the network in the last tenth of a second, Stop the longest stop
	// of the world: 0 without a Target. Slowed is how often the controller took from the background.
	Wakeup, Stop time.Duration
	Slowed       int64
}

// State tells what the pacer does now.
func (p *Pacer) State() State {
	if p == nil {
		return State{Way: Parks}
	}
	s := State{
		Way:     p.way,
		Why:     p.why,
		Waiting: int(p.permits.waiting.Load()),
		Slice:   time.Duration(p.slice.Load()),
		Used:    time.Duration(p.busy.Load()),
		Turns:   p.turns.Load(),
		Lent:    p.lent.Load(),
	}
	if n := p.failed.Load(); n > 0 {
		s.Why = fmt.Sprintf("%d threads could not be lowered", n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Workers = len(p.workers)
	p.steer.tell(&s)
	return s
}

// Metrics tells the state as numbers:
//
//	pace_workers, pace_waiting               functions at work, and those of them that wait for a permit
//	pace_permits, pace_allowance_cores       how many may run at once, and how much of the time
//	pace_slice_seconds, pace_raised_threads  the slice; State.Raised
//	pace_used_seconds_total                  how long the background ran
//	pace_turns_total, pace_lent_total        permits handed on
//	pace_slowed_total                        how often the controller took from the background
//	pace_wakeup_seconds, pace_stop_seconds   what it saw last, 0 without a target
func (p *Pacer) Metrics(emit func(name string, value float64)) {
	s := p.State()
	emit("pace_workers", float64(s.Workers))
	emit("pace_waiting", float64(s.Waiting))
	emit("pace_permits", float64(s.Permits))
	emit("pace_allowance_cores", s.Allowance)
	emit("pace_slice_seconds", s.Slice.Seconds())
	emit("pace_raised_threads", float64(s.Raised))
	emit("pace_used_seconds_total", s.Used.Seconds())
	emit("pace_turns_total", float64(s.Turns))
	emit("pace_lent_total", float64(s.Lent))
	emit("pace_slowed_total", float64(s.Slowed))
	emit("pace_wakeup_seconds", s.Wakeup.Seconds())
	emit("pace_stop_seconds", s.Stop.Seconds())
}
