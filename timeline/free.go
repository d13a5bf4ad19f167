package timeline

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/whylate/whylate/gotrace"
)

// Interval is a stretch of time in which a condition holds.
type Interval struct{ Start, End Time }

// findFree computes when a P was idle.
func (t *Timeline) findFree() {
	what := make([]Activity, len(t.Procs))
	for p := range what {
		what[p] = Go
	}
	free, workers, late := 0, 0, 0 // how many Ps are, and how many of these run GC workers, or have a thread without a CPU
	var idle, marking, awake merged
	for p, s := range t.stints() {
		was := what[p]
		free += one(s.What.Free()) - one(was.Free())
		workers += one(s.What == GCIdle) - one(was == GCIdle)
		late += one(s.What == Late) - one(was == Late)
		what[p] = s.What
		idle.set(s.Start, free > 0)
		marking.set(s.Start, free > 0 && free == workers)
		awake.set(s.Start, free > late)
	}
	t.idle, t.marking, t.awake = idle.end(t.End), marking.end(t.End), awake.end(t.End)
}

// merged collects the intervals in which a condition holds.
type merged struct {
	spans []Interval
	on    bool
}

func (m *merged) set(at Time, on bool) {
	n := len(m.spans)
	switch {
	case on == m.on:
		return
	case on && n > 0 && m.spans[n-1].End == at: // it goes on
	case on:
		m.spans = append(m.spans, Interval{Start: at})
	case m.spans[n-1].Start == at: // it did not last
		m.spans = m.spans[:n-1]
	default:
		m.spans[n-1].End = at
	}
	m.on = on
}

func (m *merged) end(at Time) []Interval {
	m.set(at, false)
	return m.spans
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Union orders intervals by time and returns them in the same memory, those that touch each other as one.
func Union(spans []Interval) []Interval {
	slices.SortFunc(spans, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	return out
}

// IdleSpans returns the intervals in which at least one P was idle (see
// [Activity.Free]), in order of time and apart. The slice belongs to the Timeline.
func (t *Timeline) IdleSpans() []Interval { return t.idle }

// Idle returns for how long in [a, b] at least one P was idle.
func (t *Timeline) Idle(a, b Time) Time { return Covered(t.idle, a, b) }

// Covered is [Overlap] for intervals.
func Covered(in []Interval, a, b Time) (sum Time) {
	for i := sort.Search(len(in), func(i int) bool { return in[i].End > a }); i < len(in) && in[i].Start < b; i++ {
		sum += min(b, in[i].End) - max(a, in[i].Start)
	}
	return sum
}

// LastIdle returns the last instant not after at, at which some P was idle, or
// the start of the trace when there is none.
func (t *Timeline) LastIdle(at Time) Time {
	i := sort.Search(len(t.idle), func(i int) bool { return t.idle[i].Start > at }) - 1
	if i < 0 {
		return t.Start
	}
	return min(at, t.idle[i].End)
}

// Backlog returns since when, at the instant at, no P was idle while somebody
// was always runnable. It is never after at.
func (t *Timeline) Backlog(at Time) Time {
	from := t.LastIdle(at)
	i := sort.Search(len(t.queued), func(i int) bool { return t.queued[i].Start > at }) - 1
	if i < 0 || t.queued[i].End < at {
		return at
	}
	return max(from, t.queued[i].Start)
}

// LastPoll returns the last instant not after at, at which the network is known
// to have been polled: a P was idle, with a thread that had a CPU if sysmon had to poll, or the
// poller delivered to somebody. What was
// ready then has been delivered then (the poller takes 128 at a time). What happened
// within PollBatch before at is the end of the wait itself: a P that ran out of work
// polls, and delivers; and so is what happened within a [Coincidence], in a wait that
// began at from.
func (t *Timeline) LastPoll(from, at Time) Time {
	last := t.lastFree(t.idle, from, at)
	if since, ok := t.notPolled(at); ok && last > since {
		last = max(t.LastIdle(since), t.lastFree(t.awake, from, at))
	}
	i := sort.Search(len(t.Polls), func(i int) bool { return t.Polls[i] > at-PollBatch }) - 1
	if i >= 0 && t.Polls[i] > last {
		last = t.Polls[i]
	}
	return last
}

// Coincidence is the part of a stretch without an idle P, after which no more than that
// a reply comes, or a timer is run, by accident: it would in one of 16 cases. Who has the
// Ps for long mostly has the CPUs, too. Then a thread that waits for the network outside
// of Go, and so lets no other poll, gets none before a P is idle, nor does a peer on the
// same host; and who looks for timers first takes what is ready. What follows is how long
// they take then: maxCoincidence at most, about the time slice of a thread, because who had
// the CPUs keeps nobody from them afterwards.
const (
	Coincidence    = 16
	maxCoincidence = Time(3e6)
)

// LastTimers returns the last instant not after at, at which the due timers of P p are
// known to have been run: a thread let go of a P because there was nothing to do, and so
// had looked for the timers of all, or p took up a goroutine, before which it runs its own.
// An idle-priority GC worker looks for goroutines and at the network, but not for timers,
// and who finds a goroutine does not look for the timers of other Ps (source:
// runtime.pollWork, runtime.findRunnable). The wait for the timer began at from. What
// happened within PollBatch before at is the end of the wait itself. A P that is not known
// (-1) took up nothing. (Sysmon polls the network, but runs no timers.)
func (t *Timeline) LastTimers(p int16, from, at Time) Time {
	last := t.lastFree(t.parked, from, at)
	k, ok := t.proc(p)
	if !ok {
		return last
	}
	ss := &t.Procs[k].stints
	for i := min(ss.ending(at-PollBatch), ss.n-1); i >= 0; i-- {
		s := ss.at(i)
		if s.Start > at-PollBatch {
			continue
		}
		if s.Start <= last {
			break
		}
		if s.G != NoG && (i == 0 || ss.at(i-1).G != s.G) {
			return s.Start
		}
	}
	return last
}

// lastFree is the last instant not after at in one of spans, in which some P is idle and
// had not just run out of work, or the start of the trace: for less than PollBatch, or,
// since from, for less than a Coincidence of a time, before it, for which none had been.
func (t *Timeline) lastFree(spans []Interval, from, at Time) Time {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].Start > at-PollBatch }) - 1
	for j, n := i, 0; j >= 0 && n < maxFlickers && spans[j].Start > max(from, at-maxCoincidence); j, n = j-1, n+1 {
		busy := spans[j].Start - t.Start
		if j > 0 {
			busy = spans[j].Start - spans[j-1].End
		}
		if at-spans[j].Start <= busy/Coincidence {
			i = j - 1
			break
		}
	}
	if i < 0 {
		return t.Start
	}
	return min(at, spans[i].End)
}

// maxFlickers bounds how many times within a Coincidence a P may be idle for a moment
// before they are taken for what they seem.
const maxFlickers = 64

// proc returns the index in Procs of P p.
func (t *Timeline) proc(p int16) (index int, ok bool) {
	k := sort.Search(len(t.Procs), func(i int) bool { return t.Procs[i].ID >= gotrace.ProcID(p) })
	return k, p >= 0 && k < len(t.Procs) && t.Procs[k].ID == gotrace.ProcID(p)
}

// PollBatch is the longest time from a P running out of work to the last delivery
// of its network poll: 128 goroutines at well under 1 us each.
const PollBatch Time = 50e3

// Passed returns for how long in [a, b] a goroutine in the queue of P p was passed
// over by idle-priority GC workers: every idle P ran one, and p itself did
// something else. Such a worker gives way to a goroutine in its own queue, in the
// queue of all Ps or in the network poller, but it does not look into the queues of
// other Ps, as an idle P does, and while it runs nobody is woken to do so (source:
// runtime.pollWork, runtime.wakep). Where p did nothing because the world was
// stopped, or was in a call (see [Timeline.Kept]), that kept the goroutine waiting.
func (t *Timeline) Passed(p int16, a, b Time) (sum Time) {
	for s, d := range t.marked(p, a, b) {
		if s.What != InSyscall {
			sum += d
		}
	}
	return sum
}

// Marked returns for how long in [a, b] every P that seems idle ran an idle-priority GC
// worker: who waits for a timer waits for these, too.
func (t *Timeline) Marked(a, b Time) Time { return Covered(t.marking, a, b) }

// Kept yields the system calls that kept P p, and for how long in [a, b], while
// every idle P ran an idle-priority GC worker: who is in the queue of p has to wait
// until the call ends or sysmon takes the P.
func (t *Timeline) Kept(p int16, a, b Time) iter.Seq2[Stint, Time] {
	return func(yield func(Stint, Time) bool) {
		for s, d := range t.marked(p, a, b) {
			if s.What == InSyscall && !yield(s, d) {
				return
			}
		}
	}
}

// marked yields the stints in which P p was not free, and for how long in [a, b]
// every idle P ran an idle-priority GC worker meanwhile, if any did.
func (t *Timeline) marked(p int16, a, b Time) iter.Seq2[Stint, Time] {
	return func(yield func(Stint, Time) bool) {
		k, ok := t.proc(p)
		if !ok || b <= a || t.Marked(a, b) == 0 {
			return
		}
		ss := &t.Procs[k].stints
		for i := ss.ending(a); i < ss.n; i++ {
			s := ss.at(i)
			if s.Start >= b {
				return
			}
			if s.What.Free() || s.What == Gone || s.What == Stopped {
				continue
			}
			if d := Covered(t.marking, max(a, s.Start), min(b, s.End)); d > 0 && !yield(s, d) {
				return
			}
		}
	}
}
