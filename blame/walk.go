package blame

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/timeline"
)

// Guards switches the rules of attribution that protect against known wrong
// answers. Everything on is the only setting for real use; tests switch single
// ones off to show that a golden case fails without them.
type Guards struct {
	NoIdlePoll    bool // network waits are never split into poll-blind parts
	NoBacklog     bool // runnable waits are blamed on the wait's own interval only
	NoWakerIdle   bool // a waker's idleness counts as what the waiter waited for
	NoTimeout     bool // waits ended by a deadline belong to the timer
	NoCover       bool // earlier releasers of a site never cover for a later one
	NoInFlight    bool // requests in flight are ignored
	NoArrival     bool // no time before the wake-up is estimated
	NoStitch      bool // connections within the process count as remote
	NoOnlyRelease bool // the only releaser of a mutex is not trusted to have held it
	NoPassing     bool // a P with an idle-priority GC worker takes what is in the queues of other Ps
}

// maxSteps bounds the segments visited for one request. What is left when it is
// used up is unresolved; typical requests need 10, a queue of 127 needs 4,000.
const maxSteps = 2_000_000

// maxTotal bounds the segments visited for all requests together, a minute or
// so of work; later requests are unresolved then.
const maxTotal = 500_000_000

// maxDepth bounds the chain of wakers followed, far above what the rule "a
// goroutine occurs once per instant" allows in practice; it protects the stack.
const maxDepth = 100_000

// walker attributes one request.
type walker struct {
	a     *Attribution
	acc   *tally
	steps int
	total int // of the requests before this one
	depth int
	exec  []timeline.Time
	buf   timeline.Scratch
	parts []int64
	// g carries the part of the request that is attributed; the request began at
	// begun, and g reads it from its client if reads is set; library is set if a
	// library does so that is known.
	g              timeline.GID
	begun          timeline.Time
	reads, library bool
	// portions are those of the fan-ins, scratch those of the request; fresh is scratch
	// space of pieces, slab where these go.
	portions, scratch []portion
	fresh             []int32
	slab              []Piece
	// ends is the end of that part, fanIns are the waits for one of several children;
	// gathering is within how many of them the walk is, each of which apart sums up.
	ends      timeline.Time
	fanIns    []fanIn
	gathering int
	apart     [maxNested]tally
	// nested is the time that the holder being walked itself spent waiting at
	// the site it will release, wanted for how long threads wanted a CPU; queues are the holds that the request waited for.
	nested, wanted timeline.Time
	queues         queueing
	// outside and squares are the sums behind Attributed.Outside; asked is the last wait
	// for the network of the goroutine being walked.
	outside, squares float64
	asked            asked
	peer             Stretch
	// waiters are the goroutines whose waits are being replaced by what they
	// awaited in vain.
	waiters []timeline.GID
	// way is where it was, nil if nobody asks.
	way *way
	// personal is set by what depends on more than once knows of; open is how many of these are
	// under way, spare are tallies that they used.
	personal bool
	open     int
	spare    []*tally
}

// asked is a wait of a goroutine for what a peer answers, until an instant: also the
// waits before it since the goroutine last wrote something, together ns long.
type asked struct {
	until timeline.Time
	ns    float64
}

// where is the way from the request to the goroutine being walked.
type where struct {
	hops
	flags Flags
	depth int
	// back is how many of depth lead from a holder to the one before it: these do not lie
	// within each other.
	back int
	// own is set where all waits on the way were for goroutines born for the request.
	own bool
	// piped is set where the request handed its work to workers, and what it waits for are those that hand it on to them.
	piped bool
}

// through returns the way on by one more hop.
func (at *where) through(h Hop) where {
	next := *at
	next.own, next.piped = false, false
	if next.first.Site == 0 {
		next.first = h
	}
	next.last = h
	return next
}

func (w *walker) add(at *where, k Key, ns timeline.Time) {
	if ns <= 0 {
		return
	}
	k.Flags |= at.flags
	if at.depth == 0 {
		k.Flags |= Self
	}
	n := w.a.numbers.of(&at.hops, &k)
	w.acc.add(n, int64(ns))
	w.way.given(n, ns)
	if slices.Contains(queues[:], k.Off) {
		w.wanted += ns
	}
	if k.Kind == Network || k.Kind == Syscall || k.Kind == Cgo {
		w.outside += float64(ns)
		w.squares += float64(ns) * float64(ns)
	}
}

// walk gives each piece of what g did in [from, to] to exactly one leaf. While the process was
// made to stop nobody did anything, whatever it waited for.
func (w *walker) walk(at *where, g timeline.GID, from, to timeline.Time) {
	s := w.a.suspended
	for i := sort.Search(len(s), func(i int) bool { return s[i].ToNS > int64(from) }); i < len(s) && s[i].FromNS < int64(to); i++ {
		begun, end := max(from, timeline.Time(s[i].FromNS)), min(to, timeline.Time(s[i].ToNS))
		w.awake(at, g, from, begun)
		done := w.step(at, g, -1, begun, end)
		w.add(at, Key{Kind: Suspended}, end-begun)
		done()
		from = end
	}
	w.awake(at, g, from, to)
}

// awake is walk for a time in which the process was not made to stop.
//
// It terminates because a goroutine that waits through an interval wakes nobody
// in it: along the recursion every goroutine waits throughout the current
// interval and the next one runs at its end, so none occurs twice.
func (w *walker) awake(at *where, g timeline.GID, from, to timeline.Time) {
	if to <= from {
		return
	}
	w.depth = max(w.depth, at.depth)
	before := w.asked
	w.asked = asked{}
	defer func() { w.asked = before }()
	me := &w.a.t.Gs[g]
	if me.Len() == 0 || at.depth > maxDepth || w.steps > maxSteps || w.total > maxTotal {
		w.personal = true // where it stopped depends on the way
		w.unresolved(at, g, from, to)
		return
	}
	if born := me.Start(); from < born {
		w.beforeBirth(at, g, from, min(to, born))
		from = born
	}
	i := me.SegmentAt(from + 1)
	again := w.again(at, g)
	if again && me.SegmentAt(to) >= i+chunk/2 {
		w.once(at, stay{g, from, to}, func() { w.segments(at, g, i, from, to, again) })
		return
	}
	w.segments(at, g, i, from, to, again)
}

// segments is awake from segment i of g on, which is the first that ends after from.
func (w *walker) segments(at *where, g timeline.GID, i int, from, to timeline.Time, again bool) {
	me := &w.a.t.Gs[g]
	for ; i < me.Len() && from < to; i++ {
		last := i + chunk - 1
		if again && i%chunk == 0 && last < me.Len() && w.asked == (asked{}) && me.Seg(i).Start == from && me.Seg(last).End <= to {
			w.once(at, stay{g, timeline.Time(i), wholeChunk}, func() {
				for j := i; j <= last; j++ {
					from = w.segment(at, g, j, from, to)
				}
			})
			i, from = last, me.Seg(last).End
			continue
		}
		from = w.segment(at, g, i, from, to)
	}
	w.unresolved(at, g, from, to)
}

// segment attributes segment i of g as far as it lies in [from, to], and returns its end there.
func (w *walker) segment(at *where, g timeline.GID, i int, from, to timeline.Time) timeline.Time {
	me := &w.a.t.Gs[g]
	s := me.Seg(i)
	w.steps++
	if s.Start > from { // evicted or lost
		w.unresolved(at, g, from, min(to, s.Start))
		from = s.Start
	}
	end := min(to, s.End)
	if end <= from {
		return from
	}
	done := w.step(at, g, i, from, end)
	switch s.Kind {
	case timeline.Running:
		w.running(at, g, i, from, end)
	case timeline.Runnable:
		k := Key{}
		if i > 0 && me.Seg(i-1).Kind == timeline.Syscall {
			k.Flags |= LostP
		}
		if w.a.switched(g, i) {
			k.Flags |= Switched
		}
		w.runnable(at, k, g, i, from, end)
	case timeline.Syscall:
		k := Key{Kind: Syscall, Class: w.a.classAt(g, s.Start), Site: w.a.siteOf(s.Stack)}
		switch site := &w.a.Sites[k.Site]; {
		case site.C != "":
			k.Kind = Cgo
		case site.Kind.sleeps():
			k.Kind = Timer
		}
		rest := end - from
		if parts, ok := w.a.parts(g, i, from, end); ok {
			rest = w.off(at, k, rest, &parts, queues[:]...)
			rest = w.off(at, k, rest, &parts, events.Faulted, events.Blocked)
			switch k.Kind {
			case Cgo:
				rest = w.off(at, k, rest, &parts, events.Slept)
			case Syscall:
				rest = w.off(at, k, rest, &parts, events.OnCPU, events.Slept)
			}
		}
		w.add(at, k, rest)
	case timeline.Waiting:
		w.waiting(at, g, s, from, end)
	}
	done()
	return end
}

// beforeBirth handles the time before g existed: its creator's, if it has one.
func (w *walker) beforeBirth(at *where, g timeline.GID, from, to timeline.Time) {
	me := &w.a.t.Gs[g]
	defer w.step(at, g, -1, from, to)()
	switch {
	case !me.Born: // older than the recording
		w.add(at, Key{Kind: Unresolved}, to-from)
	case w.a.finalizes(g): // its creator is whoever had the first finalizer of all
		w.add(at, Key{Kind: Uncollected, Class: w.a.classAt(g, to)}, to-from)
	case me.Creator == timeline.NoG: // time.AfterFunc
		w.add(at, Key{Kind: Timer, Class: w.a.classAt(g, to)}, to-from)
	default:
		next := *at
		next.own = false
		next.flags |= Birth
		next.depth++
		w.walk(&next, me.Creator, from, to)
	}
}

// running splits executed time, of segment i of g: GC assists first, then stops that g
// itself caused, then what its thread was not on a CPU for, then g's own code.
func (w *walker) running(at *where, g timeline.GID, i int, from, to timeline.Time) {
	me := &w.a.t.Gs[g]
	s := me.Seg(i)
	class := w.a.classAt(g, from)
	assist := timeline.Overlap(w.a.t.Assists(g), from, to)
	w.collected(at, Key{Kind: Assist, Class: class}, assist, from, to)
	rest := to - from - assist
	for i := w.a.stwAfter(from); i < len(w.a.t.STW) && w.a.t.STW[i].Start < to && rest > 0; i++ {
		if s := &w.a.t.STW[i]; s.G == g {
			d := max(0, min(rest, min(to, s.End)-max(from, s.Start))) // stops overlap in damaged traces
			w.stopped(at, Key{Class: class}, s, d)
			rest -= d
		}
	}
	silent := min(rest, timeline.Overlap(w.a.t.Silences, from, to))
	if parts, ok := w.a.parts(g, i, from, to); ok {
		k := Key{Kind: CPU, Class: class}
		rest = w.off(at, k, rest, &parts, queues[:]...)
		rest = w.off(at, k, rest, &parts, events.Faulted, events.Blocked, events.Slept)
		silent = min(silent, rest, timeline.Time(parts[events.Unknown]))
	} else if w.a.descheduled(g, s) {
		silent = rest
	}
	w.add(at, Key{Kind: CPU, Class: class, Flags: Silent}, silent)
	clock := w.sampled(at, w.a.clocks, g, from, to, rest-silent)
	w.add(at, Key{Kind: CPU, Class: class, Flags: Clock}, clock)
	growth := w.sampled(at, w.a.growths, g, from, to, rest-silent)
	w.add(at, Key{Kind: CPU, Class: class, Flags: Growth}, growth)
	sweep := w.sampled(at, w.a.sweepings, g, from, to, rest-silent)
	w.collected(at, Key{Kind: Assist, Class: class}, sweep, from, to)
	w.add(at, Key{Kind: CPU, Class: class}, rest-silent-clock-growth-sweep)
}

// stopped adds d of the stop-the-world s.
func (w *walker) stopped(at *where, k Key, s *timeline.Span, d timeline.Time) {
	k.Kind, k.Reason = STW, w.a.reason(s.Name)
	if strings.HasPrefix(s.Name, "GC ") {
		w.collected(at, k, d, s.Start, s.End)
		return
	}
	w.add(at, k, d)
}

// whilePaused adds what of [from, to] a quota stopped the process for, in which nobody does what is waited for, as k, and calls rest for
// the others.
func (w *walker) whilePaused(at *where, k Key, from, to timeline.Time, rest func(from, to timeline.Time)) {
	if w.a.watch != nil {
		k.Off = events.Stopped
		for _, p := range w.a.watch.PausesIn(int64(from), int64(to)) {
			begun, end := max(from, timeline.Time(p.FromNS)), min(to, timeline.Time(p.ToNS))
			rest(from, begun)
			w.add(at, k, end-begun)
			from = end
		}
	}
	rest(from, to)
}

// forCollector handles a wait for the collector. Who finds its work done waits for others who do, and
// these, one after the other, for a P (gcMarkDone holds a semaphore): what of that lies behind the end
// of its phase, while mostly all Ps are busy, is a wait behind what they execute.
func (w *walker) forCollector(at *where, k Key, s timeline.Segment, from, to timeline.Time) {
	t := w.a.t
	if s.Reason != timeline.ReasonGC || s.Waker == timeline.NoG || t.Gs[s.Waker].System {
		w.collected(at, k, to-from, from, to)
		return
	}
	for i := sort.Search(len(t.GC), func(i int) bool { return t.GC[i].End > from }); from < to; i++ {
		w.steps++
		next, end := to, to // of the next phase
		if i < len(t.GC) {
			next, end = max(from, min(to, t.GC[i].Start)), min(to, t.GC[i].End)
		}
		if 2*t.Idle(from, next) > next-from {
			w.collected(at, k, next-from, from, next)
		} else {
			w.behind(at, Key{Flags: k.Flags}, from, next, from, next)
		}
		w.collected(at, k, end-next, next, end)
		from = end
	}
}

// collected adds what the garbage collector took, split by who started the cycles
// that lie in [from, to].
func (w *walker) collected(at *where, k Key, ns, from, to timeline.Time) {
	if ns <= 0 {
		return
	}
	var in [timeline.Starters]timeline.Time
	var all timeline.Time
	for s := range in {
		in[s] = timeline.Overlap(w.a.cycles[s], from, to)
		all += in[s]
	}
	rest := ns
	for s := timeline.Paced + 1; s < timeline.Starters && all > 0; s++ {
		k.Starter = s
		d := min(rest, timeline.Time(float64(ns)*float64(in[s])/float64(all)))
		w.add(at, k, d)
		rest -= d
	}
	k.Starter = timeline.Paced
	w.add(at, k, rest)
}

// descheduled reports whether a running segment is one in which the thread cannot
// have been on a CPU: it is so long that the runtime would have preempted it, and
// the CPU profile, which was running, hardly ticked in it. (Assembly is not
// preempted, but it is sampled.)
func (a *Attribution) descheduled(g timeline.GID, s timeline.Segment) bool {
	d := s.End - s.Start
	return d >= timeline.SilenceMin && len(a.t.Samples) > 0 && 2*a.SamplesIn(g, s.Start, s.End) < int(d/samplePeriod)
}

// samplePeriod is the CPU time between two samples of the CPU profile, which
// runtime/pprof takes at 100 Hz.
const samplePeriod = timeline.Time(10e6)

// runnable splits time spent waiting for a P: the world was stopped, a P was
// idle (so the thread was late, or GC workers on the idle Ps passed the queue of P p
// over, or a call kept p), or all Ps executed something. It is segment i of g.
func (w *walker) runnable(at *where, k Key, g timeline.GID, i int, from, to timeline.Time) {
	t := w.a.t
	p := t.Gs[g].Seg(i).P
	idle := t.IdleSpans()
	si, ii := w.a.stwAfter(from), sort.Search(len(idle), func(i int) bool { return idle[i].End > from })
	for from < to {
		w.steps++
		for si < len(t.STW) && t.STW[si].End <= from {
			si++
		}
		for ii < len(idle) && idle[ii].End <= from {
			ii++
		}
		end := to
		switch {
		case si < len(t.STW) && t.STW[si].Start <= from:
			end = min(end, t.STW[si].End)
			w.stopped(at, Key{Flags: k.Flags}, &t.STW[si], end-from)
			from = end
			continue
		case si < len(t.STW):
			end = min(end, t.STW[si].Start)
		}
		if ii < len(idle) && idle[ii].Start <= from {
			end = min(end, idle[ii].End)
			var passed, kept timeline.Time
			if !w.a.guards.NoPassing {
				passed = t.Passed(p, from, end)
				for s, d := range t.Kept(p, from, end) {
					w.add(at, Key{Kind: Behind, Flags: k.Flags, Class: w.a.classAt(s.G, s.Start)}, d)
					kept += d
				}
			}
			w.collected(at, Key{Kind: Behind, Flags: k.Flags, Class: timeline.ClassGCWorker}, passed, from, end)
			parts, _ := w.a.parts(g, i, from, end)
			late := k
			late.Kind = LateWakeup
			rest := w.off(at, late, end-from-passed-kept, &parts, queues[:]...)
			w.late(at, k, from, end, end-from-rest)
		} else {
			if ii < len(idle) {
				end = min(end, idle[ii].Start)
			}
			since := from
			if !w.a.guards.NoBacklog {
				since = min(from, t.Backlog(end))
			}
			w.behind(at, k, from, end, since, end)
		}
		from = end
	}
}

// late adds a wait for a thread although a P was idle, less the part of it that
// has another reason.
func (w *walker) late(at *where, k Key, from, to, other timeline.Time) {
	k.Kind = LateWakeup
	rest := to - from - other
	silent := min(rest, timeline.Overlap(w.a.t.Silences, from, to))
	quiet := k
	quiet.Flags |= Silent
	w.add(at, quiet, silent)
	w.add(at, k, rest-silent)
}

// Executed returns what the Ps executed in spans, by class and without what idled: n Ps execute n times as much as time passes,
// and where spans overlap it counts in each of them.
func (a *Attribution) Executed(spans []timeline.Span) []timeline.Time {
	exec := make([]timeline.Time, len(a.Classes))
	var buf timeline.Scratch
	for _, s := range spans {
		a.occ.Executed(s.Start, s.End, exec, &buf)
	}
	exec[timeline.ClassIdle] = 0
	return exec
}

// behind splits [from, to] by what the Ps executed in [since, until].
func (w *walker) behind(at *where, k Key, from, to, since, until timeline.Time) {
	if to <= from {
		return
	}
	clear(w.exec)
	w.a.occ.Executed(since, until, w.exec, &w.buf)
	w.exec[timeline.ClassIdle] = 0
	k.Kind = Behind
	var total timeline.Time
	for _, d := range w.exec {
		total += d
	}
	if total <= 0 {
		w.add(at, Key{Kind: Unresolved, Flags: k.Flags}, to-from)
		return
	}
	w.parts = split(int64(to-from), w.exec, w.parts)
	off := w.a.keptIn(since, until, total)
	for c, ns := range w.parts {
		if ns == 0 {
			continue
		}
		k.Class = ClassID(c)
		w.behindKept(k, timeline.Time(ns), &off, func(k Key, ns timeline.Time) {
			if k.Class == timeline.ClassGCWorker || k.Class == timeline.ClassGCAssist {
				w.collected(at, k, ns, since, until)
			} else {
				w.add(at, k, ns)
			}
		})
	}
}

// split divides n by weights that are not all zero, by largest remainder: the
// parts add up to n exactly. Ties go to the smaller index. out is reused.
func split(n int64, weights []timeline.Time, out []int64) []int64 {
	out = out[:0]
	var total float64
	for _, x := range weights {
		total += float64(x)
	}
	type rest struct {
		i int
		r float64
	}
	var few [32]rest
	rests := few[:0]
	left := n
	for i, x := range weights {
		if x == 0 {
			out = append(out, 0)
			continue
		}
		exact := float64(n) * float64(x) / total
		whole := int64(exact)
		out = append(out, whole)
		left -= whole
		if x > 0 {
			rests = append(rests, rest{i, exact - float64(whole)})
		}
	}
	slices.SortStableFunc(rests, func(x, y rest) int { return cmp.Compare(y.r, x.r) })
	for i := 0; left > 0; i++ {
		out[rests[i%len(rests)].i]++
		left--
	}
	for i := 0; left < 0; i++ { // rounding of huge values
		if j := rests[i%len(rests)].i; out[j] > 0 {
			out[j]--
			left++
		}
	}
	return out
}

// waiting handles a blocked stretch [from, to] of g's segment s.
func (w *walker) waiting(at *where, g timeline.GID, s timeline.Segment, from, to timeline.Time) {
	a := w.a
	me := &a.t.Gs[g]
	k := Key{Class: a.classAt(g, s.Start), Site: a.siteOf(s.Stack)}
	open := s == me.Seg(me.Len()-1) && !me.Died
	if dial := a.dialOf(g, s); dial != timeline.NoG && w.stitches(at) {
		w.dialled(at, dial, s, from, to)
		return
	}
	if from = w.opening(at, g, s, from, to, k); from >= to {
		return
	}
	switch {
	case s.Reason == timeline.ReasonGCAssist || s.Reason == timeline.ReasonGC:
		k.Kind = GCWait
		w.whilePaused(at, k, from, to, func(from, to timeline.Time) { w.forCollector(at, k, s, from, to) })
		return
	case s.Reason == timeline.ReasonNetwork && s.Waker != timeline.NoG:
		k.Kind = Network // a deadline or a close ended it
		k.Flags |= TimedOut | Expired
	case s.Reason == timeline.ReasonNetwork:
		if open {
			k.Flags |= Unended
		} else if !a.guards.NoTimeout && a.expired(g, s) {
			k.Flags |= TimedOut | Expired
		}
		if server, ok := a.stitched.server[g]; ok {
			to = w.served(at, g, s, server, from, to, k)
		} else if q, ok := a.stitched.served[waitID{g, s.End}]; ok && to == s.End {
			r := &a.f.Requests[q].Parts
			to = w.served(at, g, s, (*r)[len(*r)-1].G, from, to, k)
		}
		w.network(at, g, k, s, from, to)
		return
	case a.cancelled(s) && !a.guards.NoTimeout:
		if !w.untilGiven(at, g, s, from, to) {
			w.timedOut(at, g, s, k, from, to)
		}
		return
	case s.Reason == timeline.ReasonSelect && s.Waker == timeline.NoG && at.depth > 0 && w.untilHanded(at, g, s, from, to):
		return
	case s.Reason == timeline.ReasonSelect && !open && k.Site != 0 && (a.collects(at.last.Site) == k.Site || a.collectsFor(g, at.last.Site, k.Site)) && (s.Waker == timeline.NoG || w.inHand(at, g, s, k.Site)):
		if s.Waker == timeline.NoG {
			w.timer(at, g, k, s, from, to)
			return
		}
		k.Kind = Timer
	case s.Waker != timeline.NoG:
		if a.Sites[k.Site].Window {
			w.window(at, g, s, k, from, to)
			return
		}
		from = w.sending(at, g, s, from, to, k)
		if r, ok := a.stitched.replies[waitID{g, s.End}]; ok && w.stitches(at) {
			w.called(at, s, r, from, to, k)
			return
		}
		if at.own && w.gathersHere() {
			if f, ok := w.gathers(g, s, from, to); ok {
				w.forOneOf(at, g, s, from, to, f)
				return
			}
		}
		w.waker(at, g, s, from, to)
		return
	case s.Reason == timeline.ReasonSleep && !open:
		w.timer(at, g, k, s, from, to)
		return
	case open && s.Reason == timeline.ReasonSleep:
		k.Kind = Timer
	case open && (a.Sites[k.Site].Kind == SiteCall || a.repliesAt(k.Site)):
		k.Kind = Network
		k.Flags |= Unended
		if on := *at; at.depth == 0 { // a peer that has not the whole body cannot answer
			on.depth = 1
			to -= w.passedOn(&on, k.Site, from, to)
		}
	case open:
		if w.unended(at, g, k, s, from, to) {
			return
		}
		k.Kind = Open
	case s.Reason == timeline.ReasonSystem && a.finalizes(g):
		k.Kind, k.Site = Uncollected, 0
	case s.Reason == timeline.ReasonSystem || s.Reason == timeline.ReasonNone:
		k.Kind = Unresolved // of a wait that began before the trace nothing may be known
	case !a.guards.NoTimeout && a.usuallyAnswered(k.Site):
		w.timedOut(at, g, s, k, from, to)
		return
	default:
		w.timer(at, g, k, s, from, to)
		return
	}
	w.add(at, k, to-from)
}

// unended replaces a wait of g that has not ended when the recording does by what it is for, if that is known: what other requests
// bring, the goroutine that was started for it, or the one that serves everybody there.
func (w *walker) unended(at *where, g timeline.GID, k Key, s timeline.Segment, from, to timeline.Time) bool {
	a := w.a
	hop := Hop{Site: k.Site, Reason: s.Reason}
	kind := a.Sites[k.Site].Kind
	if kind != SiteOther && kind != SiteGroup || kind == SiteOther && !a.permitLike(hop) {
		return false
	}
	if _, brought := a.Brought(k.Site); brought {
		k.Kind = Network
		k.Flags |= Unended
		w.add(at, k, to-from)
		return true
	}
	w.personal = true // as the end of a time-out, that of the recording orders nobody: see timedOut
	if slices.Contains(w.waiters, g) || len(w.waiters) >= maxTimeouts {
		return false
	}
	h := timeline.NoG
	if a.Queue(k.Site).Children > ChildRatio {
		h = w.child(g, s, k.Site)
	}
	child := h != timeline.NoG
	if !child {
		h = a.onlyServer(k.Site, s.Start)
	}
	if h == timeline.NoG || h == g || slices.Contains(w.waiters, h) {
		return false
	}
	hop.Waker = a.classAt(h, to)
	if !child {
		hop.WakerSite = a.answersFrom(k.Site, h, to)
	}
	next := a.queueAt(at, hop)
	next.depth++
	w.waiters = append(w.waiters, g)
	if child {
		next.own = at.own && w.bears(g, h)
		w.walk(&next, h, from, to)
	} else {
		w.inTurn(&next, s, h, false, from, to)
	}
	w.waiters = w.waiters[:len(w.waiters)-1]
	return true
}

// onlyServer returns the one goroutine that ends the waits at a site, if it has been at work since an instant, NoG if there is none:
// whoever rests would have served, and who has rested since was not what is waited for.
func (a *Attribution) onlyServer(site SiteID, since timeline.Time) timeline.GID {
	q := a.Queue(site)
	if q.Waits < minAnswers || q.Busiest <= OneWorker || q.Children > ChildRatio || a.t.Gs[q.Worker].Died {
		return timeline.NoG
	}
	rested, known := a.rested[q.Worker]
	if !known {
		rested = a.lastRest(q.Worker)
		if a.rested == nil {
			a.rested = map[timeline.GID]timeline.Time{}
		}
		a.rested[q.Worker] = rested
	}
	if rested > since {
		return timeline.NoG
	}
	return q.Worker
}

// lastRest returns when a goroutine came from home for the last time, the end of the recording if it is there.
func (a *Attribution) lastRest(g timeline.GID) timeline.Time {
	me := &a.t.Gs[g]
	for i := me.Len() - 1; i >= 0; i-- {
		if s := me.Seg(i); s.Kind == timeline.Waiting && a.f.Home(g, s) {
			return s.End
		}
	}
	return a.t.Start
}

// timer splits a wait of g for a timer at the instant at which it was due at the
// latest: its site's usual length after its beginning, or the last instant at which
// somebody ran g's timers, whichever is later. From then on it was behind what the Ps
// executed. Where its site's waits are all alike it was due before, and the thread of
// an idle P was late, as far as threads are late in this recording.
func (w *walker) timer(at *where, g timeline.GID, k Key, s timeline.Segment, from, to timeline.Time) {
	k.Kind = Timer
	whole := to == s.End
	to = w.unseen(at, g, s, k, max(from, min(to, s.Start+w.a.nominal(k.Site))), to)
	due, late := to, timeline.Time(0)
	if usual := w.a.nominal(k.Site); usual > 0 && whole && !w.a.guards.NoIdlePoll {
		over := max(from, s.Start+usual)
		due = min(to, max(over, w.a.t.LastTimers(w.a.fellAsleepOn(g, s), s.Start, to)))
		if w.a.constant(k.Site) {
			late = min(w.a.t.Idle(min(due, over+pollGrain), due), timeline.Time(w.a.LateWakeup()))
		}
		if late < timeline.LateMin {
			late = 0
		}
	}
	w.add(at, k, due-late-from)
	k.Flags |= Due
	w.late(at, k, due-late, due, 0)
	marked := w.a.t.Marked(due, to)
	w.collected(at, Key{Kind: Behind, Flags: k.Flags, Class: timeline.ClassGCWorker, Site: k.Site}, marked, due, to)
	w.behind(at, Key{Flags: k.Flags, Site: k.Site}, due+marked, to, due, to)
}

// pollGrain is how late, in nanoseconds, a timer is where all Ps are idle, without any thread being late: whoever waits for the network
// until it is due waits for whole milliseconds, one at least.
// Source: runtime.netpoll of Go 1.22 to 1.26 for Linux.
const pollGrain = timeline.Time(1e6)

// fellAsleepOn returns the P that g ran on before it waited in s: that one has its
// timer. It is -1 if that is not known.
func (a *Attribution) fellAsleepOn(g timeline.GID, s timeline.Segment) int16 {
	me := &a.t.Gs[g]
	if i := me.SegmentAt(s.Start + 1); i > 0 && i < me.Len() && me.Seg(i).Start == s.Start && me.Seg(i-1).Kind == timeline.Running {
		return me.Seg(i - 1).P
	}
	return -1
}

// awaited is the leaf of a wait that a time-out ended at a site.
func (a *Attribution) awaited(site SiteID) LeafKind {
	if s := &a.Sites[site]; s.Kind == SiteCall || s.Kind == SiteDial || s.Asks {
		return Network
	}
	return Awaited
}

// cancelled reports whether a cancellation or an expired deadline of a context
// ended a wait, or an alarm where these only have waiters look at the time. Who waits for the end of a
// context and nothing else (a future that is made of one) waits for whoever ends it, unless that is an alarm.
func (a *Attribution) cancelled(s timeline.Segment) bool {
	if s.Waker == timeline.NoG {
		return false
	}
	switch {
	case a.Sites[a.siteOf(s.WakerStack)].Cancel:
		return s.Reason != timeline.ReasonChanReceive || a.alarm(s)
	case s.Reason == timeline.ReasonCond:
		return a.alarmed[a.siteOf(s.Stack)] && a.alarm(s)
	}
	return false
}

// Alarmed reports whether waits at a site are for a condition that alarms have the waiters look at.
func (a *Attribution) Alarmed(site SiteID) bool { return a.alarmed[site] }

// alarm reports whether a goroutine that carries no requests ended a wait because of the time: a timer
// started it, or ended the last wait of its own, and it did nothing since but wake others.
func (a *Attribution) alarm(s timeline.Segment) bool {
	me := &a.t.Gs[s.Waker]
	if a.f.Entry(s.Waker) {
		return false
	}
	var ran timeline.Time
	last := min(me.SegmentAt(s.End), me.Len()-1)
	for i := last; i >= 0; i-- {
		switch x := me.Seg(i); {
		case x.Kind == timeline.Waiting:
			return x.Waker == timeline.NoG && x.Reason != timeline.ReasonNetwork && x.Reason != timeline.ReasonNone
		case x.Kind == timeline.Syscall, last-i > maxAlarm, ran > alarmRuns:
			return false
		case x.Kind == timeline.Running:
			ran += min(x.End, s.End) - x.Start
		}
	}
	return me.Born && me.Creator == timeline.NoG
}

// maxAlarm bounds the segments of an alarm, alarmRuns how long it runs, in nanoseconds: time to wake
// thousands.
const maxAlarm, alarmRuns = 100, timeline.Time(1e6)

// usuallyAnswered reports whether the waits at a site end by a goroutine at
// least as often as by a timer, or not much less often and before the one time at which timers
// end them: then a timer that ends one is a time-out, and
// the time belongs to what was awaited. Calls of known clients and waits at
// known pools always are.
func (a *Attribution) usuallyAnswered(site SiteID) bool {
	switch a.Sites[site].Kind {
	case SitePool, SitePermit:
		return true
	}
	rs, ts := len(a.releases[site]), len(a.timers[site])
	return a.awaited(site) == Network || rs > 0 && rs >= ts || rs >= minAnswers && answeredPart*rs >= ts && a.timesOut(site)
}

// answeredPart is how many times as often as a goroutine a timer may end waits at a site for it to be a time-out:
// who polls does so more often.
const answeredPart = 4

// sameTime is by which part of it times differ at most that are one, but for one in ten.
const sameTime = 0.05

// timesOut reports whether timers end waits at a site after one time, and goroutines end them before it.
func (a *Attribution) timesOut(site SiteID) bool {
	if out, known := a.timedOut[site]; known {
		return out
	}
	ts := slices.Clone(a.timers[site])
	slices.Sort(ts)
	usual, least, most := ts[len(ts)/2], ts[len(ts)/10], ts[len(ts)-1-len(ts)/10]
	before := 0
	for _, r := range a.releases[site] {
		if s := a.t.Gs[r.g].Seg(int(r.seg)); int64(s.End-s.Start) < usual {
			before++
		}
	}
	out := float64(most-least) <= sameTime*float64(usual) && 10*before >= 9*len(a.releases[site])
	if a.timedOut == nil {
		a.timedOut = map[SiteID]bool{}
	}
	a.timedOut[site] = out
	return out
}

// served replaces a wait for a server in this process by what it did until it
// wrote its answer, and attributes what follows. It returns up to when the wait
// remains to be attributed: from, unless the server did not answer in it.
func (w *walker) served(at *where, g timeline.GID, s timeline.Segment, server timeline.GID, from, to timeline.Time, k Key) timeline.Time {
	wrote := w.a.stitched.lastWrite(server, to)
	if wrote <= from || !w.stitches(at) {
		return to
	}
	next := at.through(Hop{Site: k.Site, Waker: w.a.classAt(server, wrote), Reason: s.Reason})
	next.depth++
	w.walk(&next, server, from, wrote)
	w.network(at, g, k, s, wrote, to)
	return from
}

// called replaces a wait for a call on a multiplexed connection within the process
// by what those who had it did: the reader at the other end, the handler, the
// writer there, and from its write on the reader that ended the wait.
func (w *walker) called(at *where, s timeline.Segment, r reply, from, to timeline.Time, k Key) {
	for _, x := range [...]struct {
		g     timeline.GID
		until timeline.Time
	}{{r.reader, r.begun}, {r.handler, r.put}, {r.writer, r.wrote}, {s.Waker, to}} {
		until := max(from, min(to, x.until))
		next := at.through(Hop{Site: k.Site, Waker: w.a.classAt(x.g, until), Reason: timeline.ReasonNetwork})
		next.depth++
		w.walk(&next, x.g, from, until)
		from = until
	}
}

// sending replaces a wait for a reply, as long as the call had not been sent, by what its
// connection's writer did. It returns from when the wait remains to be attributed.
func (w *walker) sending(at *where, g timeline.GID, s timeline.Segment, from, to timeline.Time, k Key) timeline.Time {
	writer, until := w.a.unsent(g, s)
	if until = min(until, to); writer == timeline.NoG || until <= from || !w.stitches(at) {
		return from
	}
	next := at.through(Hop{Site: k.Site, Waker: w.a.classAt(writer, until), Reason: s.Reason})
	next.depth++
	w.walk(&next, writer, from, until)
	return until
}

// opening attributes of a wait for a reply the time in which the call waited for a stream of its connection: who has these is not known.
// It returns from when the wait remains to be attributed.
func (w *walker) opening(at *where, g timeline.GID, s timeline.Segment, from, to timeline.Time, k Key) timeline.Time {
	if w.a.Sites[k.Site].Kind != SiteCall {
		return from
	}
	site, until := w.a.unopened(g, s)
	if until = min(until, to); site == 0 || until <= from {
		return from
	}
	first := at.through(Hop{Site: k.Site, Reason: s.Reason})
	next := first.through(Hop{Site: site, Reason: timeline.ReasonCond})
	if next.queue.Site == 0 {
		next.queue = next.last
	}
	w.add(&next, Key{Kind: UnknownHolder, Site: site}, until-from)
	return until
}

// maxStitch bounds how deep in-process connections and dials are followed: unlike wake-ups
// they do not order goroutines in time, so a wrong pair could go round in circles.
const maxStitch = 64

// stitches reports whether they still are.
func (w *walker) stitches(at *where) bool {
	w.personal = true
	return at.depth <= maxStitch
}

// network splits a wait for a peer at the last instant the network was polled:
// what came in later was ready, or not, without anybody knowing.
func (w *walker) network(at *where, g timeline.GID, k Key, s timeline.Segment, from, to timeline.Time) {
	k.Kind = Network
	if w.inbound(at, k.Site, s) {
		k.Flags |= Inbound
		if w.a.Sites[k.Site].Write && w.a.f.Answering(g) {
			k.Flags |= Answer
		}
	}
	w.polled(at, g, k, s, from, w.unseen(at, g, s, k, from, to))
}

// polled is network for a wait k that threads with a CPU would have seen end at to.
func (w *walker) polled(at *where, g timeline.GID, k Key, s timeline.Segment, from, to timeline.Time) {
	polled := to
	if !w.a.guards.NoIdlePoll {
		polled = min(to, max(from, w.a.t.LastPoll(from, min(to, s.End))))
	}
	if d := polled - from - w.passedOn(at, k.Site, from, polled); d > 0 {
		w.add(at, k, d)
		if w.asked.until > 0 && !w.a.Sites[k.Site].Connect && w.a.stitched.lastWrite(g, from) <= w.asked.until {
			w.squares += 2 * w.asked.ns * float64(d) // one wait: a peer that sends on is not held up by who reads late
		} else {
			w.asked.ns = 0
		}
		w.asked = asked{polled, w.asked.ns + float64(d)}
		if k.Flags&(TimedOut|Expired) != 0 { // nobody answered
			w.asked = asked{}
		}
	}
	if polled-from > w.peer.Length() && k.Flags&(Inbound|TimedOut) == 0 && w.a.Sites[k.Site].Kind != SiteInbound {
		w.peer = Stretch{g, k.Site, from, polled}
	}
	k = Key{Flags: k.Flags&^(Inbound|Answer|TimedOut|Expired|Unended) | Blind, Site: k.Site}
	w.behind(at, k, polled, to, polled, to)
}

// window replaces a wait of g for the window of a stream by what its connection's writer did,
// which ended it: where that had nothing that it may send, it is for the peer to take what it
// has got.
func (w *walker) window(at *where, g timeline.GID, s timeline.Segment, k Key, from, to timeline.Time) {
	a := w.a
	k.Kind = Network
	if w.inbound(at, k.Site, s) {
		k.Flags |= Inbound
	}
	next := at.through(Hop{Site: k.Site, WakerSite: a.siteOf(s.WakerStack), Waker: a.classAt(s.Waker, s.End), Reason: s.Reason})
	next.depth++
	writer := &a.t.Gs[s.Waker]
	for i := writer.SegmentAt(from + 1); i < writer.Len() && from < to && w.steps <= maxSteps; i++ {
		w.steps++
		x := writer.Seg(i)
		if x.Kind != timeline.Waiting || x.Reason == timeline.ReasonSync || !a.on(x.Stack, windowIdle) {
			continue
		}
		begun := max(from, min(to, x.Start))
		w.walk(&next, s.Waker, from, begun)
		from = max(begun, min(to, x.End))
		w.polled(at, g, k, x, begun, from)
	}
	w.walk(&next, s.Waker, from, to)
}

// inbound reports whether a wait s for the network is, or may be, for the request's own
// client. The libraries of servers tell by their functions. Elsewhere who has written
// nothing yet still reads its request, and who writes answers, unless a library that
// calls others does.
func (w *walker) inbound(at *where, site SiteID, s timeline.Segment) bool {
	switch x := &w.a.Sites[site]; {
	case x.Kind == SiteInbound:
		return true
	case w.library || x.Client:
		return false
	case x.Write:
		return true
	}
	return at.depth == 0 && w.reads && w.a.stitched.lastWrite(w.g, s.Start) < w.begun
}

// maxPassed bounds among how many goroutines that a request woke last the one is
// looked for that sends on its body.
const maxPassed = 8

// passedOn adds what is another's fault of a request's wait for the answer to a call: a
// proxy's peer cannot answer before it has the whole body, which comes from the
// proxy's own client. It returns how much that is.
func (w *walker) passedOn(at *where, site SiteID, from, to timeline.Time) (all timeline.Time) {
	if at.depth != 1 || w.a.Sites[site].Kind != SiteCall {
		return 0
	}
	wakes := w.a.t.Gs[w.g].Wakes()
	i := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time > from })
	for n := 0; i > 0 && wakes[i-1].Time >= w.begun && n < maxPassed && all == 0; n++ {
		i--
		if wakes[i].Birth() {
			continue
		}
		h := wakes[i].Whom()
		if w.a.f.Entry(h) { // it was let in behind the request, and its client is another one
			continue
		}
		me := &w.a.t.Gs[h]
		for k := me.SegmentAt(from + 1); k < me.Len() && me.Seg(k).Start < to && w.steps <= maxSteps; k++ {
			w.steps++
			s := me.Seg(k)
			if s.Kind != timeline.Waiting || s.Reason != timeline.ReasonNetwork {
				continue
			}
			if site := w.a.siteOf(s.Stack); w.a.Sites[site].Kind == SiteInbound {
				d := min(to, s.End) - max(from, s.Start)
				w.add(at, Key{Kind: Network, Flags: Inbound, Class: w.a.classAt(h, s.Start), Site: site}, d)
				all += d
			}
		}
	}
	return all
}

// waker replaces a wait by what its waker did meanwhile.
func (w *walker) waker(at *where, g timeline.GID, s timeline.Segment, from, to timeline.Time) {
	a := w.a
	h := s.Waker
	hop := Hop{Site: a.siteOf(s.Stack), WakerSite: a.siteOf(s.WakerStack), Waker: a.classAt(h, s.End), Reason: s.Reason}
	next := a.queueAt(at, hop)
	next.depth++
	bears := w.bears(g, h)
	next.own = at.own && bears
	if !bears && a.samePool(at.last.Site, hop.Site) || a.t.Gs[g].Message { // a message waits for what others are before it
		next.flags |= Ahead
	}
	if a.Sites[at.last.Site].Kind == SiteRLock && a.Sites[hop.Site].Kind == SiteRWLock {
		next.flags |= Reading // whoever waits in RLock came after the writer: that waits for nobody else
	}
	if next.queue.Site == hop.Site && at.queue.Site != 0 && !a.samePool(at.queue.Site, hop.Site) {
		held, wanted := w.nested+to-from, w.wanted // a worker that waits for a lock does nothing of what it was handed
		defer func() { w.nested = held - (w.wanted - wanted) }()
	}
	since := from
	if !a.guards.NoWakerIdle && !a.t.Gs[g].Message { // who takes a message was at work since it came
		since = max(from, min(to, w.heldSince(s, hop, from)))
	}
	if _, brought := a.Brought(hop.Site); brought {
		if q := a.f.Bringer(s); q >= 0 {
			since = max(from, min(to, a.f.Requests[q].Start()))
		}
		w.add(at, Key{Kind: Network, Class: a.classAt(g, s.Start), Site: hop.Site}, since-from)
	} else if since > from {
		w.cover(&next, s, hop, from, since)
	}
	w.inTurn(&next, s, h, bears, since, to)
}

// inTurn walks what a holder h did in [from, to] of a wait s, reached by at: first, perhaps, for others.
func (w *walker) inTurn(at *where, s timeline.Segment, h timeline.GID, own bool, from, to timeline.Time) {
	if others := w.a.aheadOf(at.last, s, h, own, from, to); others.n > 0 {
		ahead := *at
		ahead.flags |= Ahead
		w.holder(&ahead, h, from, others)
		from = others.until
	}
	w.holder(at, h, from, ahead{until: to, n: 1, longest: to - from})
}

// holder walks what a holder did from an instant on, in one or more pieces of work,
// and measures its holds: that time without its own queueing at the same site, and without that in which threads wanted a CPU.
func (w *walker) holder(at *where, h timeline.GID, from timeline.Time, did ahead) {
	outer, wanted, to := w.nested, w.wanted, did.until
	w.nested = 0
	w.walk(at, h, from, to)
	took := to - from - (w.wanted - wanted)
	queueing := w.a.samePool(at.last.Site, at.queue.Site)
	if queueing {
		held := max(0, took-w.nested)
		w.queues = w.queues.add(Queueing{w.a.Place(at.queue.Site), int64(min(did.longest, held)), int64(held), did.n})
	}
	w.nested = outer
	if queueing && at.flags&Ahead != 0 { // what a holder ahead waits for elsewhere is part of its hold
		w.nested += took
	}
}

// queueAt returns the way on by a hop, which may be the request's queue. A lock that a
// worker waits for is the queue of those who have handed it their work, also where that passes through several stages,
// and so is a full channel into which it sends.
func (a *Attribution) queueAt(at *where, h Hop) where {
	next := at.through(h)
	handed := func() bool { return at.piped || at.last == at.queue && (a.HandedOver(at.queue) || a.toOne(at.queue)) }
	switch {
	case a.passing(h):
	case next.queue.Site == 0, a.samePool(next.queue.Site, h.Site), a.locks(h.Site) && handed(), h.Reason == timeline.ReasonChanSend && handed() && a.fills(h):
		next.queue = h
	case a.Sites[h.Site].Kind == SiteOther && (h.Reason == timeline.ReasonChanReceive || h.Reason == timeline.ReasonSelect || h.Reason == timeline.ReasonCond):
		next.piped = handed()
	}
	return next
}

// locks reports whether a site is one at which a lock is waited for.
func (a *Attribution) locks(site SiteID) bool {
	switch a.Sites[site].Kind {
	case SiteMutex, SiteRLock, SiteRWLock:
		return true
	}
	return false
}

// HandedOver reports whether those who wait at a hop wait for what several workers do for
// them: nobody's children, no requests that give back what they used, and nobody who reads
// connections.
func (a *Attribution) HandedOver(h Hop) bool {
	if h.Site == 0 || a.Sites[h.Site].Kind != SiteOther || !a.permitLike(h) || h.Reason == timeline.ReasonChanSend || a.NetworkHome(h.Waker) {
		return false
	}
	q := a.Queue(h.Site)
	return q.Wakers > 1 && q.Busiest <= OneWorker && q.Peers <= PeerRatio && q.Children <= ChildRatio && q.Together < ManyWaiters
}

// toOne reports whether those who wait at a hop wait for what one worker does for them.
func (a *Attribution) toOne(h Hop) bool {
	if h.Site == 0 || a.Sites[h.Site].Kind != SiteOther || !a.permitLike(h) || h.Reason == timeline.ReasonChanSend || a.NetworkHome(h.Waker) {
		return false
	}
	q := a.Queue(h.Site)
	return q.Busiest > OneWorker && q.Peers <= PeerRatio && q.Children <= ChildRatio
}

// maxHanded bounds the segments of a worker that Handed looks at for one release.
const maxHanded = 100

// Handed is the part of the waits at a site that ends who was woken by the waiter since it last
// ended one there: it got work of the waiter's, and did not only give back what others used.
func (a *Attribution) Handed(site SiteID) float64 {
	if part, ok := a.handed[site]; ok {
		return part
	}
	n, before := 0, map[timeline.GID]timeline.Time{}
	for _, r := range a.releases[site] { // in order of time
		me, from := &a.t.Gs[r.waker], before[r.waker]
		for i, steps := me.SegmentAt(r.at)-1, 0; i >= 0 && me.Seg(i).End > from && steps < maxHanded; i, steps = i-1, steps+1 {
			if s := me.Seg(i); s.Kind == timeline.Waiting && s.Waker == r.g {
				n++
				break
			}
		}
		before[r.waker] = r.at
	}
	part := float64(n) / float64(max(1, len(a.releases[site])))
	if a.handed == nil {
		a.handed = map[SiteID]float64{}
	}
	a.handed[site] = part
	return part
}

// passing reports whether a hop is no queue: a wait for one's own children, as by a
// wait group or as most waits there are, for somebody whose result nobody else awaits, or
// for a reply.
func (a *Attribution) passing(h Hop) bool {
	switch a.Sites[h.Site].Kind {
	case SiteGroup, SiteShared:
		return a.Queue(h.Site).Together < ManyWaiters
	case SiteOther:
		return a.forReply(h) || h.Reason != timeline.ReasonSync && a.Queue(h.Site).Children > ChildRatio && a.Queue(h.Site).Together < ManyWaiters
	}
	return a.forReply(h)
}

// forReply reports whether a hop is a wait for a reply.
func (a *Attribution) forReply(h Hop) bool {
	switch a.Sites[h.Site].Kind {
	case SiteCall, SiteDial, SiteDNS:
		return true
	case SiteOther:
		_, brought := a.Brought(h.Site)
		return brought
	}
	return false
}

// heldSince returns since when, at the earliest from, the waker of s is known to
// have worked on what it released: what it did before is not what the waiter
// waited for.
//
// For a lock that is since it last entered the function in which it released,
// and since its last home wait; who is started by a request to do a part of it takes what
// it gives back to a pool itself. For other waits it is since the end of its last
// home wait if that was for the network and the waker carries requests itself:
// it had not yet got the request in which it took what it later gave back.
func (w *walker) heldSince(s timeline.Segment, hop Hop, from timeline.Time) timeline.Time {
	a := w.a
	h := s.Waker
	me := &a.t.Gs[h]
	lock := a.lockLike(hop)
	peer := a.f.Entry(h)
	part := me.Born && me.Creator != timeline.NoG && a.f.Entry(me.Creator) && a.Sites[hop.Site].Kind == SitePool
	if !lock && !peer && !part {
		return from
	}
	if me.Born && me.Start() > from && (lock || (peer || part) && a.permitLike(hop)) {
		from = me.Start()
	}
	function := a.section(s.WakerStack, hop.Site)
	for i := me.SegmentAt(s.End) - 1; i >= 0 && me.Seg(i).End > from && w.steps <= maxSteps; i-- {
		w.steps++
		x := me.Seg(i)
		if x.Kind == timeline.Waiting && a.f.Home(h, x) {
			if lock || x.Reason == timeline.ReasonNetwork && x.Waker == timeline.NoG {
				return x.End
			}
		}
		if lock && function != "" && x.Stack != 0 && x.Kind != timeline.Running && !a.on(x.Stack, function) {
			return x.End
		}
	}
	return from
}

// lockLike reports whether a hop is a wait for something that one goroutine at
// a time holds and that is released on the stack of the holder.
func (a *Attribution) lockLike(h Hop) bool {
	if h.Reason != timeline.ReasonSync {
		return false
	}
	k := a.Sites[h.Site].Kind
	return k != SiteGroup && k != SiteShared
}

// permitLike reports whether a hop is a wait that a peer ends by giving back
// something it used: channel and condition waits between goroutines that carry
// requests.
func (a *Attribution) permitLike(h Hop) bool {
	switch h.Reason {
	case timeline.ReasonChanSend, timeline.ReasonChanReceive, timeline.ReasonSelect, timeline.ReasonCond:
		return true
	}
	return false
}

// cover attributes [from, to] of a wait s whose waker did not yet hold what it
// later released. The last one who released at the same site before that did;
// between the two the holder is unknown.
func (w *walker) cover(at *where, s timeline.Segment, hop Hop, from, to timeline.Time) {
	a := w.a
	r, ok := a.lastRelease(hop.Site, to) // strictly before: each step goes back in time
	if ok && !a.guards.NoCover && r.at > from && at.depth <= maxDepth {
		next, seg := a.before(at, r)
		since := max(from, w.heldSince(seg, Hop{Site: hop.Site, WakerSite: next.last.WakerSite, Waker: next.last.Waker, Reason: seg.Reason}, from))
		w.add(at, Key{Kind: UnknownHolder, Site: hop.Site}, to-r.at)
		if since < r.at {
			w.holder(&next, seg.Waker, since, ahead{until: r.at, n: 1, longest: r.at - since})
		} else {
			since = r.at
		}
		if since > from {
			w.cover(&next, seg, hop, from, since)
		}
		return
	}
	if !ok || r.at <= from {
		// Nobody else released while we waited. An unlock wakes a waiter if
		// there is one, so whoever holds a mutex all that time is our waker.
		if a.Sites[hop.Site].Kind == SiteMutex && !a.guards.NoOnlyRelease && a.soleReleaser(hop.Site, s.Waker) {
			w.walk(at, s.Waker, from, to)
			return
		}
		from = w.passedOver(at, s, hop, from, to)
	}
	w.add(at, Key{Kind: UnknownHolder, Site: hop.Site}, to-from)
}

// lastRelease returns the last release before an instant of what is waited for at a site: of a library's pool wherever that
// is waited for.
func (a *Attribution) lastRelease(site SiteID, before timeline.Time) (last release, ok bool) {
	sites := []SiteID{site}
	if a.Sites[site].Kind == SitePool {
		sites = a.sitesOf[a.queueOf(site)]
	}
	for _, one := range sites {
		rs := a.releases[one]
		i := sort.Search(len(rs), func(i int) bool { return rs[i].at >= before }) - 1
		if i >= 0 && (!ok || rs[i].at > last.at) {
			last, ok = rs[i], true
		}
	}
	return last, ok
}

// passedOver attributes [from, to] of a wait s at a pool that serves who came later before
// who came earlier, as database/sql does: nothing came back to it in that time, or who
// waited would have got it, so whoever gives back next, wherever that was waited for, had it all the
// while. It returns from when on nothing is known of the holders: from, if somebody
// else gives back later than s ends, or got what he gives back later.
//
// It terminates because the wait that ends with that release ends before s does.
func (w *walker) passedOver(at *where, s timeline.Segment, hop Hop, from, to timeline.Time) timeline.Time {
	a := w.a
	if a.Sites[hop.Site].Kind != SitePool || a.guards.NoCover {
		return from
	}
	r, ok := a.nextRelease(hop.Site, to)
	if !ok || r.at >= s.End {
		return from
	}
	next, seg := a.before(at, r)
	if w.heldSince(seg, next.last, from) > from {
		return from
	}
	w.holder(&next, seg.Waker, from, ahead{until: to, n: 1, longest: to - from})
	return to
}

// before returns the way on to the holder that made an earlier or later release at the site
// of the way's last hop, and the wait that it ended: it is walked as if it had released us.
func (a *Attribution) before(at *where, r release) (next where, seg timeline.Segment) {
	next = *at
	next.depth++
	next.back++
	next.flags |= Ahead
	seg = a.t.Gs[r.g].Seg(int(r.seg))
	next.last.WakerSite, next.last.Waker = a.siteOf(seg.WakerStack), a.classAt(seg.Waker, seg.End)
	if next.last.Site == next.queue.Site {
		next.queue = next.last
	}
	return next, seg
}

// soleReleaser reports whether g is the only goroutine that ever released at a site.
func (a *Attribution) soleReleaser(site SiteID, g timeline.GID) bool {
	for _, r := range a.releases[site] {
		if r.waker != g {
			return false
		}
	}
	return true
}
