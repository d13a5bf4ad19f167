package timeline

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// Activity is what a P does.
type Activity uint8

// The activities. Only the first three leave the P free for other work.
const (
	// Idle: no goroutine, nothing to do; parked or spinning.
	Idle Activity = iota
	// GCIdle: an idle-priority GC worker, which gives way to any goroutine that is
	// not in another P's queue (see Timeline.Passed).
	GCIdle
	// Late: something was there to run, but the thread did not get to it.
	Late
	// Scheduler: picking work, running timers, polling the network.
	Scheduler
	// Go: a goroutine runs.
	Go
	// Assist: a goroutine runs for the GC.
	Assist
	// GCWorker: a dedicated or fractional GC worker.
	GCWorker
	// Suspending: a GC worker that waits for a goroutine to stop which runs on another P.
	// Who keeps this P, too, is that goroutine.
	Suspending
	// InSyscall: held by a goroutine in a system call, until somebody takes it.
	InSyscall
	// Stopped: no goroutine because the world is stopped.
	Stopped
	// Gone: GOMAXPROCS is too low for the P to exist.
	Gone
)

// Free reports whether a P that does this could take a goroutine at once.
func (a Activity) Free() bool { return a <= Late }

// Stint is a stretch of time in which a P did one thing.
type Stint struct {
	Start, End Time
	G          GID // the goroutine that held the P, or NoG
	What       Activity
}

// Proc is what one P did. Its stints are contiguous.
type Proc struct {
	ID gotrace.ProcID
	// Threads are the threads that had it, in order of time.
	Threads []Held

	stints stints
}

// Len returns the number of its stints.
func (p *Proc) Len() int { return p.stints.n }

// Stint returns its stint i, from 0 to Len()-1.
func (p *Proc) Stint(i int) Stint { return p.stints.at(i) }

// Ending returns the index of its first stint that ends after an instant, Len() if none does.
func (p *Proc) Ending(after Time) int { return p.stints.ending(after) }

// Stints yields its stints, in order of time, with their indices.
func (p *Proc) Stints() iter.Seq2[int, Stint] {
	return func(yield func(int, Stint) bool) {
		for i := range p.Len() {
			if !yield(i, p.Stint(i)) {
				return
			}
		}
	}
}

// Held is since when a thread has a P.
type Held struct {
	From Time
	M    gotrace.ThreadID
}

// ThreadOn returns which thread had P p at an instant, [gotrace.NoThread] if that is
// not known. A P that is idle has none: then it is the last that had it.
func (t *Timeline) ThreadOn(p int16, at Time) gotrace.ThreadID {
	k, ok := t.proc(p)
	if !ok {
		return gotrace.NoThread
	}
	held := t.Procs[k].Threads
	i := sort.Search(len(held), func(i int) bool { return held[i].From > at }) - 1
	if i < 0 {
		return gotrace.NoThread
	}
	return held[i].M
}

// had notes that a thread has the P.
func (p *procState) had(m gotrace.ThreadID, at Time) {
	if n := len(p.proc.Threads); m != gotrace.NoThread && (n == 0 || p.proc.Threads[n-1].M != m) {
		p.proc.Threads = append(p.proc.Threads, Held{at, m})
	}
}

// LateMin is the shortest time without any event, between something being ready
// for a P and the P running it, that is blamed on the thread not being on a
// CPU. Picking a goroutine takes the scheduler 1 to 10 us.
const LateMin Time = 100e3

// maxProcs bounds the P ids taken from a trace (an int16 in Segment); the
// runtime itself has no limit below it that matters.
const maxProcs = math.MaxInt16

// maxResizes bounds the changes of GOMAXPROCS that are taken from a trace, each of
// which stops the world, and maxGone how often Ps may go and come back by them
// together; later ones are ignored.
const maxResizes, maxGone = 1024, 1 << 17

// resize is a change of GOMAXPROCS.
type resize struct {
	at    Time
	procs int
}

// resized notes what GOMAXPROCS is from an instant on.
func (b *builder) resized(at Time, procs int) {
	b.t.GOMAXPROCS = max(b.t.GOMAXPROCS, procs)
	n := len(b.resizes)
	if n < maxResizes && (n == 0 || b.resizes[n-1].procs != procs) {
		b.resizes = append(b.resizes, resize{at, procs})
	}
}

// procState is the open stint of a P.
type procState struct {
	proc  Proc
	since Time
	g     GID
	what  Activity
	// emitted are the first and last instants of the open Scheduler stint at
	// which the P made a goroutine runnable without running one.
	emitFirst, emitLast Time
	// leftBy is the thread that last let it go by its own will, at left; unused is
	// set while nobody has run since a thread took it.
	leftBy gotrace.ThreadID
	left   Time
	unused bool
	// parked is since when it has had no thread for lack of work, as far as is known; never
	// if it has one.
	parked Time
}

func (p *procState) put(end Time, g GID, what Activity) {
	if end <= p.since {
		return
	}
	p.proc.stints.add(end, g, what)
	p.since = end
}

// split ends the open stint and goes on with the same goroutine in another activity.
func (p *procState) split(at Time, what Activity) {
	p.put(at, p.g, p.what)
	p.what = what
}

// set ends the open stint, which is not a Scheduler one, and begins another.
func (p *procState) set(at Time, g GID, what Activity) {
	p.put(at, p.g, p.what)
	p.g, p.what, p.emitFirst, p.emitLast = g, what, 0, 0
}

// endScheduler ends an open Scheduler stint at which next became (or nobody)
// runnable at ready. A P without a goroutine is idle until something is there
// for it to do: the goroutine that it starts next, or goroutines that it makes
// runnable itself by running timers and polling the network. From then on it is
// busy with scheduling; if that takes long and nothing is heard of it, its
// thread was not on a CPU.
func (p *procState) endScheduler(at, ready Time) {
	if p.what != Scheduler {
		return
	}
	if ready == never { // it parks: nothing was left to do after the last emission
		if p.emitFirst != 0 {
			p.put(p.emitFirst, NoG, Idle)
			p.put(p.emitLast, NoG, Scheduler)
		}
		p.put(at, NoG, Idle)
	} else {
		begin, active := max(ready, p.since), max(ready, p.since, p.emitLast)
		if p.emitFirst != 0 {
			begin = min(begin, p.emitFirst)
		}
		p.put(min(begin, at), NoG, Idle)
		if at-active > LateMin {
			p.put(active, NoG, Scheduler)
			p.put(at, NoG, Late)
		}
		p.put(at, NoG, Scheduler)
	}
	p.what, p.g = Scheduler, NoG
}

// sharedSince is since when, at an instant, somebody has been runnable all the time in the queue of
// all Ps: there a P looks that has nobody in its own, and what it starts may have left that
// queue and come back meanwhile. It is never if the queue has been empty.
func (b *builder) sharedSince(at Time) Time {
	n := len(b.shared.spans)
	if n == 0 || !b.shared.on && b.shared.spans[n-1].End < at {
		return never
	}
	return b.shared.spans[n-1].Start
}

// known returns a P, nil if nothing was seen of it.
func (b *builder) known(id gotrace.ProcID) *procState {
	if id < 0 || int(id) >= len(b.procs) {
		return nil
	}
	return b.procs[id]
}

// p returns a P, nil if there can be none.
func (b *builder) p(id gotrace.ProcID) *procState {
	p := b.known(id)
	if p == nil {
		if id < 0 || id > maxProcs {
			return nil
		}
		if n := int(id) + 1 - len(b.procs); n > 0 {
			b.procs = append(b.procs, make([]*procState, n)...)
		}
		p = &procState{proc: Proc{ID: id, stints: stints{from: b.t.Start}}, since: b.t.Start, g: NoG, leftBy: gotrace.NoThread, parked: b.t.Start}
		b.procs[id] = p
	}
	return p
}

// proc handles a P's change of state.
func (b *builder) proc(ev *gotrace.Event) {
	p := b.p(ev.Proc)
	if p == nil || ev.From == ev.To {
		return
	}
	at := ev.Time
	if ev.From == gotrace.Undetermined {
		at = b.t.Start
	}
	picking := p.what == Scheduler
	p.endScheduler(at, never)
	b.park(p, at, ev.To != gotrace.Running && b.stopping == 0 && (picking || ev.From == gotrace.Undetermined))
	if ev.To == gotrace.Running {
		if ev.From != gotrace.Undetermined {
			p.had(ev.M, at)
		}
		p.unused = true
		p.set(at, NoG, Scheduler)
	} else {
		if b.stopping > 0 {
			b.stopped = at
		}
		p.leftBy, p.left = gotrace.NoThread, at
		if picking && b.stopping == 0 {
			p.leftBy = ev.M
		}
		p.set(at, NoG, Idle)
	}
}

// park notes that a P has no thread any more, because it has no work, or that it has one.
func (b *builder) park(p *procState, at Time, parked bool) {
	if p.parked < at {
		b.t.parked = append(b.t.parked, Interval{p.parked, at})
	}
	if p.parked = never; parked {
		p.parked = at
	}
}

// never is later than any instant of a trace.
const never = Time(math.MaxInt64)

// activity says what a P does while it runs g.
func (b *builder) activity(g GID, c *goState) Activity {
	switch {
	case c.label == "GC (idle)" && !b.o.GCIdleBusy:
		return GCIdle
	case strings.HasPrefix(c.label, "GC ("), b.t.roots[b.at(g).root] == "runtime.gcBgMarkWorker":
		return GCWorker
	case c.assist != 0:
		return Assist
	}
	return Go
}

// occupy carries a goroutine's change of state over to the P it happened on.
// ready is when the goroutine became runnable.
func (b *builder) occupy(g GID, c *goState, ev *gotrace.Event, ready Time) {
	p := b.p(ev.P)
	if p == nil {
		return
	}
	at := ev.Time
	p.had(ev.M, at)
	p.parked = never
	if ev.From == gotrace.Undetermined {
		at = b.t.Start
	}
	switch {
	case ev.To == gotrace.Running && p.g == g && p.what == InSyscall:
		p.split(at, b.activity(g, c))
	case ev.To == gotrace.Running:
		p.endScheduler(at, min(ready, b.sharedSince(at)))
		p.set(at, g, b.activity(g, c))
		p.unused = false
	case ev.To == gotrace.Syscall && ev.From != gotrace.NotExist:
		p.endScheduler(at, ready)
		p.set(at, g, InSyscall)
	case p.g == g && (ev.From == gotrace.Running || ev.From == gotrace.Syscall):
		c.label = ""
		p.set(at, NoG, Scheduler)
	case ev.G == gotrace.NoGoroutine && p.what == Scheduler:
		if p.emitFirst == 0 {
			p.emitFirst = at
		}
		p.emitLast = at
	}
}

// finish closes everything at the end of the trace.
func (b *builder) finish() {
	t := b.t
	t.End = b.last
	if t.Until == 0 || t.Until > t.End {
		t.Until = t.End
	}
	b.finishGoroutines()
	b.unwrap()
	if b.runnable > 0 {
		t.queued[len(t.queued)-1].End = t.End
	}
	t.shared = b.shared.end(t.End)
	b.heap.size = 0 // what a cycle that goes on finds alive is not known
	for _, s := range b.open {
		s.End = t.End
		b.closeSpan(s)
	}
	byStart := func(s []Span) {
		sort.Slice(s, func(i, j int) bool { return s[i].Start < s[j].Start })
	}
	byStart(t.STW)
	t.STW = apart(t.STW)
	b.finishCycles()
	t.Threads = slices.Sorted(maps.Keys(b.threads))
	for _, task := range b.tasks {
		task.End, task.Open = t.End, true
		t.Tasks = append(t.Tasks, *task)
	}
	for _, r := range b.regions {
		if r.depth > 0 {
			r.task.End, r.task.Open = t.End, true
			t.Regions = append(t.Regions, r.task)
		}
	}
	byEnd := func(s []Task) {
		sort.Slice(s, func(i, j int) bool {
			return s[i].Start < s[j].Start || s[i].Start == s[j].Start && s[i].G < s[j].G
		})
	}
	byEnd(t.Tasks)
	byEnd(t.Regions)
	b.finishThreads()
	b.waitsBegunBefore()
	b.finishProcs()
	b.findUnpolled()
	t.findFree()
}

// finishGoroutines closes the goroutines that are alive, and puts all of them in a row.
func (b *builder) finishGoroutines() {
	t := b.t
	t.Gs = make([]Goroutine, 0, b.n)
	for g := range GID(b.n) {
		me := b.at(g)
		if me.state != 0 {
			b.finishGoroutine(g, b.states[me.state])
			b.release(me)
		}
		t.Gs = append(t.Gs, *me)
	}
	b.gs, b.states = nil, nil
}

func (b *builder) finishGoroutine(g GID, c *goState) {
	t := b.t
	if !c.exists || t.End <= c.since {
		return
	}
	by := int32(c.p)
	if c.kind == Waiting {
		by = int32(NoG)
	}
	b.segment(g, c, t.End, by, what{stack: c.stack, kind: c.kind, reason: c.reason})
	if c.kind == Running && c.assist != 0 {
		t.assists[g] = append(t.assists[g], Span{Start: max(c.assist, c.since), End: t.End, G: g})
	}
}

// finishProcs closes the Ps, adds those that the trace never saw at work, and
// marks what stop-the-world took.
func (b *builder) finishProcs() {
	t := b.t
	for id := range t.GOMAXPROCS {
		b.p(gotrace.ProcID(id))
	}
	b.resizes = b.resizes[:min(len(b.resizes), maxGone/max(1, t.GOMAXPROCS))]
	for _, p := range b.procs {
		if p == nil {
			continue
		}
		b.park(p, t.End, false)
		p.endScheduler(t.End, never)
		p.put(t.End, p.g, p.what)
		if !b.o.StoppedIdle {
			p.proc.stints.mark(t.STW, Stopped, stopped)
		}
		if !b.o.GoneIdle {
			p.proc.stints.mark(b.gone(p.proc.ID), Gone, func(s Stint, _ *Span) bool { return s.G == NoG && s.What.Free() })
		}
		t.Procs = append(t.Procs, p.proc)
	}
	t.findSuspending()
	t.parked = Union(t.parked)
	t.GOMAXPROCS = max(t.GOMAXPROCS, len(t.Procs))
}

// gone returns when GOMAXPROCS was too low for a P to exist. A P that it takes
// away parks as an idle one does, and nothing more is heard of it. What a trace
// says first of GOMAXPROCS has been so from its beginning.
func (b *builder) gone(id gotrace.ProcID) (out []Span) {
	from := b.t.Start
	for i, r := range b.resizes {
		to := b.t.End
		if i+1 < len(b.resizes) {
			to = b.resizes[i+1].at
		}
		if int(id) >= r.procs {
			out = append(out, Span{Start: from, End: to, G: NoG})
		}
		from = to
	}
	return out
}

// stopped reports whether a P did nothing but wait for the end of a stop: it was
// free, or it ran who stopped the world. It looks idle and is not.
func stopped(s Stint, stw *Span) bool {
	return s.G != NoG && s.G == stw.G || s.What.Free() && s.What != GCIdle
}
