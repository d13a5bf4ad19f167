// Package breaker is a circuit breaker that opens when a callee's latency tail
// grows, not only when calls fail. It learns what is usual (its p99 and median), tells a change
// from luck by a sequential test, and lets calls through again by permits that expire.
//
//	v, err := breaker.Do(ctx, b, func(ctx context.Context) (Profile, error) { return client.Get(ctx, id) })
//	if errors.Is(err, breaker.ErrOpen) { … }
//
// See the README for when not to use one.
package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whylate/whylate/sdk/internal/delays"
)

// ErrOpen is what a call gets that the breaker does not let through.
var ErrOpen = errors.New("breaker: open")

// State is what a breaker does with calls.
type State uint8

const (
	Closed   State = iota // all are let through
	Open                  // none is
	HalfOpen              // a few are, to see whether the callee is well again
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"closed", "open", "half-open"}[min(s, HalfOpen)]
}

// Reason is why a breaker opened.
type Reason uint8

const (
	None   Reason = iota
	Tail          // more calls than usual are much slower than the usual p99, or failed
	Median        // the usual call is much slower than it was
	Limit         // too many calls are slower than Options.Limit
	Probe         // a call in the half-open state was slow, failed or did not end
)

// String returns the reason's name.
func (r Reason) String() string {
	return [...]string{"none", "tail", "median", "limit", "probe"}[min(r, Probe)]
}

// Change is what Options.OnChange is told.
type Change struct {
	From, To State
	// Reason is why it opened, None otherwise.
	Reason Reason
	// P50 and P99 are what is usual, Slow how long a call may take, as learnt; 0 if nothing is.
	P50, P99, Slow time.Duration
	// Relearns is whether the breaker gave up its baseline, see Options.Forget.
	Relearns bool
}

// Options are those of a breaker. Their zero value is useful.
type Options struct {
	// Factor is how much slower than the usual p99, or the median, a call is that counts as slow.
	// More than 1; 0 is 1.8.
	Factor float64
	// Learn is how many calls make a baseline; until then only Limit opens the breaker. 100 or more;
	// 0 is 500.
	Learn int
	// Limit is a time that no call should need, whatever is usual: it also finds a callee that
	// was slow from the start. When surely more than a twentieth need longer, the
	// breaker opens. 0: there is none.
	Limit time.Duration
	// OpenFor is how long the breaker stays open before it lets calls through to see. It doubles
	// each time that they are slow, up to 16 times as long. 0 is 2 s.
	OpenFor time.Duration
	// Probes is how many calls are let through when it is half-open, 1 to 64; 0 is 5. The first
	// slow one ends it; if the median was the reason, more than half of them have to be slow.
	Probes int
	// ProbeFor is how long such a call may take before its permit expires and it counts as slow.
	// 0 is ten times what counts as slow, at least 1 s.
	ProbeFor time.Duration
	// Forget is when the breaker takes what it sees for usual: it has been opening again and again for
	// so long. Otherwise a callee that has become slower for good is never used again. 0 is
	// 15 min; negative: never.
	Forget time.Duration
	// Failed tells whether an error counts as slow. nil: none does but the panics of Do. An error that
	// does not count, and came back fast, says nothing of how long a good call takes: it is not learnt
	// from, and does not make a half-open breaker closed. Errors that are answers ("not found") belong to
	// Do's values, or Permit.Done gets nil for them.
	Failed func(error) bool
	// BlameScheduler makes late calls count even when this program's own scheduler made its goroutines
	// wait as long meanwhile. Otherwise judgement waits in such a time: the callee was not slow, Go did
	// not run us.
	BlameScheduler bool
	// Now is the clock, for tests in virtual time. nil: the monotonic clock of package time, which is a
	// bubble's own in testing/synctest.
	Now func() time.Time
	// OnChange is called after each change of state, by the goroutine whose call caused it, without a
	// lock: it may use the breaker. Two changes of two goroutines may be told at once and in either order;
	// what the breaker is in now, State says.
	OnChange func(Change)
}

// Breaker is a circuit breaker. All its methods may be called by any number of goroutines.
type Breaker struct {
	// What each call reads, and few write. The state is in the lowest two bits of phase; each change adds 4,
	// so that a call which began before one does not count after it. Times are nanoseconds since epoch.
	phase    atomic.Uint32
	slow     atomic.Int32 // bucket from which on a call is slow by one of the tests of the tail
	look     atomic.Int64 // a call that begins from then on is looked at
	end      atomic.Int64 // of the present window
	until    atomic.Int64 // when an open breaker becomes half-open
	counters counters
	epoch    time.Time
	options  Options
	_        [128]byte

	flight flight

	mu       sync.Mutex // guards what follows
	judge    *judge
	sched    *delays.Window // nil: BlameScheduler, or the runtime has none
	window   window
	last     int64 // when the last window ended
	doubled  uint  // times that OpenFor has been doubled
	ill      int64 // when it opened for the first time of this run of opening, 0: not in one
	closed   int64 // when it was closed last
	reason   Reason
	probes   []probe
	good     int // probes that ended well, and
	bad      int // that did not
	given    int
	number   int // of the last permit for a probe
	lost     uint64
	opened   [Probe + 1]uint64
	held     uint64
	relearnt uint64
	changes  []Change // to tell

	rejected atomic.Uint64
}

// New returns a closed breaker.
func New(o Options) (*Breaker, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	epoch := time.Now()
	if o.Now != nil {
		epoch = o.Now()
	}
	b := &Breaker{options: o, epoch: epoch, counters: newCounters(), judge: newJudge(o.Factor, o.Learn, o.Limit), probes: make([]probe, o.Probes)}
	if !o.BlameScheduler {
		b.sched = delays.New("/sched/latencies:seconds")
	}
	b.last = int64(b.since())
	b.end.Store(b.last + int64(interval))
	b.publish()
	return b, nil
}

func (o Options) filled() (Options, error) {
	fill := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Factor == 0 {
		o.Factor = 1.8
	}
	if o.Learn == 0 {
		o.Learn = 500
	}
	if o.Probes == 0 {
		o.Probes = 5
	}
	fill(&o.OpenFor, 2*time.Second)
	fill(&o.Forget, 15*time.Minute)
	switch {
	case !(o.Factor > 1 && o.Factor < 1000):
		return o, fmt.Errorf("breaker: Factor is %v: it has to be more than 1", o.Factor)
	case o.Learn < 100:
		return o, fmt.Errorf("breaker: Learn is %d: less than 100 calls have no p99", o.Learn)
	case o.Probes < 1 || o.Probes > 64:
		return o, fmt.Errorf("breaker: Probes is %d: it has to be 1 to 64", o.Probes)
	case o.Limit < 0 || o.OpenFor < 0 || o.ProbeFor < 0:
		return o, errors.New("breaker: Limit, OpenFor or ProbeFor is negative")
	}
	return o, nil
}

// Permit is the right to make one call. Whoever got it says when the call has ended, once: a closed breaker
// takes a second time for another call. A half-open one does not, and a permit that was lost expires.
// The zero Permit does nothing.
type Permit struct {
	// Three words: the compiler keeps no more of a struct in registers.
	b     *Breaker
	start time.Duration // since Breaker.epoch
	call  call
}

// call is what a permit knows beside the time: the phase it was given in, and the slot of the call
// in flight plus 1, or the number of the probe; 0 if it has none.
type call uint64

func (c call) phase() uint32 { return uint32(c) }
func (c call) slot() int     { return int(c >> 32) }

func newCall(phase uint32, slot int) call { return call(slot)<<32 | call(phase) }

// Allow returns a permit for a call that begins now, or ErrOpen.
func (b *Breaker) Allow() (Permit, error) { return b.allow(b.since()) }

// AllowAt is Allow for callers that know the time already. It has to be the present time: by it
// an open breaker becomes half-open.
func (b *Breaker) AllowAt(now time.Time) (Permit, error) { return b.allow(now.Sub(b.epoch)) }

// since returns the time since epoch, as exactly as there is: one clock is read where time.Now
// reads two.
func (b *Breaker) since() time.Duration {
	if b.options.Now != nil {
		return b.options.Now().Sub(b.epoch)
	}
	return time.Since(b.epoch)
}

func (b *Breaker) allow(start time.Duration) (Permit, error) {
	phase := b.phase.Load()
	if State(phase&3) != Closed {
		return b.allowProbe(start)
	}
	if int64(start) >= b.look.Load() {
		return Permit{b, start, newCall(phase, b.sample())}, nil
	}
	return Permit{b, start, call(phase)}, nil
}

// sample notes a call in flight, and returns its slot. It looks whether the window is over, too: while
// calls hang, none ends to do so.
func (b *Breaker) sample() int {
	now := int64(b.since())
	b.look.Store(now + lookEvery)
	b.tick(now)
	return b.flight.enter(now)
}

// Done says that the call has ended now, and with which error.
func (p Permit) Done(err error) {
	if p.b != nil {
		p.DoneIn(p.b.since()-p.start, err)
	}
}

// DoneIn is Done for callers that measured the call themselves, or take from its time what was not the
// callee's: waiting for a CPU, for a connection of a pool of their own.
func (p Permit) DoneIn(took time.Duration, err error) {
	b := p.b
	if b == nil {
		return
	}
	if phase := p.call.phase(); b.phase.Load() != phase || err != nil || State(phase&3) != Closed {
		p.doneRarely(took, err)
		return
	}
	if slot := p.call.slot(); slot != 0 {
		b.flight.leave(slot)
	}
	b.counters.of().n[bucket(int64(took))].Add(1)
	b.tick(int64(p.start + took))
}

// doneRarely is the part of DoneIn for calls that failed, were probes or began in another state.
func (p Permit) doneRarely(took time.Duration, err error) {
	b := p.b
	i := bucket(int64(took))
	if err == errPanic || err != nil && b.options.Failed != nil && b.options.Failed(err) {
		i = failed
	}
	if State(p.call.phase()&3) == HalfOpen {
		b.doneProbe(p, i, err)
		return
	}
	if slot := p.call.slot(); slot != 0 {
		b.flight.leave(slot)
	}
	if b.phase.Load() != p.call.phase() {
		return
	}
	switch n := b.counters.of(); {
	case err == nil || int32(i) >= b.slow.Load():
		n.n[i].Add(1)
	case errors.Is(err, context.Canceled):
		return // that it took so long at least is known, and no more
	default:
		n.errors.Add(1)
	}
	b.tick(int64(p.start + took))
}

// Do calls fn if b lets it, and returns ErrOpen otherwise. A panic of fn counts as a failure and goes on.
func Do[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error)) (T, error) {
	p, err := b.Allow()
	if err != nil {
		var none T
		return none, err
	}
	err = errPanic
	defer func() { p.Done(err) }()
	v, e := fn(ctx)
	err = e
	return v, e
}

// DoOr is Do with another way for calls that are not let through: fallback is told why, ErrOpen, or
// the error of fn if Options.Failed counts it. A stale value, a default, another callee: see the
// examples.
func DoOr[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error), fallback func(context.Context, error) (T, error)) (T, error) {
	v, err := Do(ctx, b, fn)
	if err == nil || !errors.Is(err, ErrOpen) && (b.options.Failed == nil || !b.options.Failed(err)) {
		return v, err
	}
	return fallback(ctx, err)
}

// errPanic is the error of a call that did not return.
var errPanic = errors.New("breaker: the call did not return")

// tick ends the window if by a caller's time it is over.
func (b *Breaker) tick(at int64) {
	if at >= b.end.Load() {
		b.endWindow()
	}
}

// endWindow judges the window if its time is over. One caller does; the others go on.
func (b *Breaker) endWindow() {
	if !b.mu.TryLock() {
		return
	}
	if now := int64(b.since()); now >= b.end.Load() {
		b.judgeWindow(now)
	}
	b.unlock()
}

// unlock unlocks b and tells the changes.
func (b *Breaker) unlock() {
	changes := b.changes
	b.changes = nil
	b.mu.Unlock()
	if b.options.OnChange != nil {
		for _, c := range changes {
			b.options.OnChange(c)
		}
	}
}

// unscheduled returns the part of the goroutines that waited for a P longer than some nanoseconds, of this process, in
// the last window. It is blind to those that wait for the network while no P polls: their callers know more (Permit.DoneIn).
func (b *Breaker) unscheduled(ns int64) float64 {
	longer, all := b.sched.Longer(time.Duration(ns))
	return float64(longer) / float64(max(all, 1))
}

func (b *Breaker) judgeWindow(now int64) {
	took := time.Duration(now - b.last)
	b.last = now
	b.end.Store(now + int64(interval))
	b.counters.take(&b.window)
	b.window.aged, b.window.overdue = b.flight.older(now, b.judge.age, int64(b.options.Limit))
	var ours func(int64) float64
	if b.sched != nil {
		b.sched.Read()
		ours = b.unscheduled
	}
	if State(b.phase.Load()&3) != Closed {
		return
	}
	why, held := b.judge.observe(&b.window, took, ours)
	if held {
		b.held++
	}
	if b.ill > 0 && now-b.closed > 8*int64(b.options.OpenFor) {
		b.ill, b.doubled = 0, 0 // it has been well for a while
	}
	if why != None {
		b.open(now, why)
	}
	b.publish()
}

// publish makes known from which bucket on a call is slow.
func (b *Breaker) publish() {
	slow := failed
	for _, t := range [...]*test{&b.judge.tail, &b.judge.shoulder, &b.judge.limit} {
		if t.from > 0 {
			slow = min(slow, t.from)
		}
	}
	b.slow.Store(int32(slow))
}

// to changes the state.
func (b *Breaker) to(s State, why Reason) {
	before := b.phase.Load()
	b.phase.Store(before&^3 + 4 | uint32(s))
	c := Change{From: State(before & 3), To: s, Reason: why}
	c.P50, c.P99, c.Slow = b.baseline()
	b.changes = append(b.changes, c)
}

// baseline returns what is usual.
func (b *Breaker) baseline() (p50, p99, slow time.Duration) {
	if b.judge.learnt() {
		p50, p99 = time.Duration(b.judge.base.quantile(0.5)), time.Duration(b.judge.base.quantile(0.99))
		slow = time.Duration(edge(b.judge.tail.from))
	}
	return p50, p99, slow
}

// open opens a closed or half-open breaker.
func (b *Breaker) open(now int64, why Reason) {
	if b.ill == 0 {
		b.ill = max(now, 1)
	}
	b.opened[why]++
	if why != Probe {
		b.reason = why
	}
	b.judge.reset()
	b.until.Store(now + int64(b.options.OpenFor)<<b.doubled)
	b.doubled = min(b.doubled+1, 4)
	b.to(Open, why)
}

// State returns what the breaker does with calls now. An open one may let the next call through.
func (b *Breaker) State() State { return State(b.phase.Load() & 3) }

// Relearn makes the breaker closed and forget what is usual: after a release of the callee,
// say, that is known to be slower.
func (b *Breaker) Relearn() {
	b.mu.Lock()
	b.relearn()
	b.unlock()
}

func (b *Breaker) relearn() {
	b.judge.forget()
	b.relearnt++
	b.ill, b.doubled = 0, 0
	b.close()
	b.changes[len(b.changes)-1].Relearns = true
}

func (b *Breaker) close() {
	b.closed = int64(b.since())
	b.counters.take(&b.window) // what was counted before
	b.flight.clear()
	b.last = b.closed
	b.end.Store(b.last + int64(interval))
	b.judge.reset()
	b.publish()
	b.to(Closed, None)
}
