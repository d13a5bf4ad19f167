package timeline

import (
	"iter"
	"math"
	"sort"
)

// ClassID names a class of P time: what the Ps execute is summed by class.
type ClassID uint16

// The classes that every [Occupancy] has; those of goroutines follow.
const (
	ClassIdle ClassID = iota
	ClassScheduler
	ClassGCWorker
	ClassGCAssist
	ClassStopped
	// ClassGoroutines is the first id free for classes of goroutines.
	ClassGoroutines
)

// Occupancy sums what the Ps executed, by class, over any interval. Sums are
// found from snapshots of cumulative vectors: the cost of a query does not
// depend on the length of the interval.
type Occupancy struct {
	procs int
	unit  Time // of change.after
	snaps []snapshot
}

// snapshot is the state at an instant, and what changed between it and the next one.
type snapshot struct {
	at      Time
	sum     []Time    // by class, up to at
	held    []ClassID // by P, at at
	changes []change
}

// change is a P's change of class, some units of time after the snapshot.
type change struct {
	after uint32
	p     int16
	class ClassID
}

// snapEvery is how many changes lie between snapshots: a query replays as many. A snapshot
// costs 8 bytes per class, as a change does, and 2 per P, so there are as many changes as
// classes and a quarter of the Ps at least.
const snapEvery = 64

// maxSpans bounds how often there is a snapshot only because a change is too late for the one
// before: changes are kept to the nanosecond in up to 73 minutes, and more coarsely in a
// longer trace, which a damaged time can make of any.
const maxSpans = 1 << 10

// Occupancy indexes the timeline's P time. class gives the class of a goroutine
// at the instant it begins to hold a P, from ClassGoroutines to n-1.
func (t *Timeline) Occupancy(n int, class func(g GID, at Time) ClassID) *Occupancy {
	var (
		o       = &Occupancy{procs: len(t.Procs), unit: 1 + t.Duration()/(maxSpans<<32)}
		now     = o.begin(nil) // before the first change every P is idle
		ran     = make([]GID, len(t.Procs))
		sum     = make([]Time, n)
		sums    slab[Time]
		held    slab[ClassID]
		changes slab[change]
		open    snapshot
	)
	snap := func(at Time) {
		open = snapshot{at, sums.of(sums.add(sum)), held.of(held.add(now.class)), open.changes[:0]}
	}
	end := func() {
		o.snaps = append(o.snaps, open)
		o.snaps[len(o.snaps)-1].changes = changes.of(changes.add(open.changes))
	}
	for p := range ran {
		ran[p] = NoG
	}
	now.at(t.Start)
	snap(t.Start)
	at := t.Start
	for p, s := range t.stints() {
		k := ClassIdle // also that which waits for what another P does
		switch s.What {
		case Scheduler:
			k = ClassScheduler
			if g := ran[p]; g != NoG && t.yields(g, s.Start) {
				k = now.class[p]
			}
		case GCWorker:
			k = ClassGCWorker
		case Assist:
			k = ClassGCAssist
		case Stopped:
			k = ClassStopped
		case Go, InSyscall:
			if s.G != NoG {
				k = class(s.G, s.Start)
			}
		}
		if ran[p] = NoG; s.What == Go {
			ran[p] = s.G
		}
		if now.class[p] == k {
			continue
		}
		at = max(at, s.Start-(s.Start-t.Start)%o.unit)
		if len(open.changes) >= max(snapEvery, n, o.procs/4) || (at-open.at)/o.unit > math.MaxUint32 {
			end()
			now.until(at, sum, +1)
			snap(at)
		}
		c := change{uint32((at - open.at) / o.unit), int16(p), k}
		open.changes = append(open.changes, c)
		now.apply(c, at, sum, +1)
	}
	end()
	return o
}

// yields reports whether g yields at an instant (runtime.Gosched): looking for who runs next is
// its doing then, as it would go on with nobody else there. In a loop that is most of the time.
func (t *Timeline) yields(g GID, at Time) bool {
	me := &t.Gs[g]
	if !me.yields { // to look for it would be a third of Occupancy
		return false
	}
	i := me.SegmentAt(at + 1)
	if i >= me.Len() {
		return false
	}
	s := me.Seg(i)
	return s.Kind == Runnable && s.Reason == ReasonYield && s.Start == at
}

// stints yields the stints of all Ps, with the index of the P, in order of their
// beginnings.
func (t *Timeline) stints() iter.Seq2[int, Stint] {
	return func(yield func(int, Stint) bool) {
		type next struct {
			Stint
			p, i int
		}
		var heap []next // by beginning, then P
		less := func(i, j int) bool {
			a, b := &heap[i], &heap[j]
			return a.Start < b.Start || a.Start == b.Start && a.p < b.p
		}
		down := func(i int) {
			for {
				c := 2*i + 1
				if c >= len(heap) {
					return
				}
				if c+1 < len(heap) && less(c+1, c) {
					c++
				}
				if !less(c, i) {
					return
				}
				heap[i], heap[c] = heap[c], heap[i]
				i = c
			}
		}
		for p := range t.Procs {
			if ss := &t.Procs[p].stints; ss.n > 0 {
				heap = append(heap, next{ss.at(0), p, 0})
			}
		}
		for i := len(heap)/2 - 1; i >= 0; i-- {
			down(i)
		}
		for len(heap) > 0 {
			s := &heap[0]
			if !yield(s.p, s.Stint) {
				return
			}
			ss := &t.Procs[s.p].stints
			if s.i++; s.i < ss.n {
				s.Stint = ss.at(s.i)
			} else {
				heap[0] = heap[len(heap)-1]
				heap = heap[:len(heap)-1]
			}
			down(0)
		}
	}
}

// Scratch is space that Executed reuses between calls of one goroutine.
type Scratch struct {
	class []ClassID // by P
	since []Time    // by P: the time up to then is accounted for
}

// begin returns scratch space in which every P is idle.
func (o *Occupancy) begin(buf *Scratch) *Scratch {
	if buf == nil {
		buf = &Scratch{}
	}
	if len(buf.class) != o.procs {
		buf.class, buf.since = make([]ClassID, o.procs), make([]Time, o.procs)
	}
	return buf
}

// at says that the time before an instant is accounted for.
func (s *Scratch) at(at Time) {
	for p := range s.since {
		s.since[p] = at
	}
}

// apply adds the time of a P up to its change to sum.
func (s *Scratch) apply(c change, at Time, sum []Time, sign Time) {
	sum[s.class[c.p]] += sign * (at - s.since[c.p])
	s.class[c.p], s.since[c.p] = c.class, at
}

// until adds the time of every P up to an instant to sum.
func (s *Scratch) until(at Time, sum []Time, sign Time) {
	for p, c := range s.class {
		sum[c] += sign * (at - s.since[p])
		s.since[p] = at
	}
}

// Executed adds to out, by class, the P time of [a, b]; out has one element for
// every class. P time of n Ps adds up to n times the interval. buf is scratch
// space to be reused between calls, or nil.
func (o *Occupancy) Executed(a, b Time, out []Time, buf *Scratch) {
	if b <= a {
		return
	}
	buf = o.begin(buf)
	from, to := o.before(a), o.before(b)
	if from != to {
		for c, d := range from.sum {
			out[c] += to.sum[c] - d
		}
	}
	from.replay(a, out, -1, buf, o.unit)
	to.replay(b, out, +1, buf, o.unit)
}

// before returns the last snapshot not after an instant, or the first.
func (o *Occupancy) before(at Time) *snapshot {
	return &o.snaps[max(0, sort.Search(len(o.snaps), func(i int) bool { return o.snaps[i].at > at })-1)]
}

// replay adds the time from the snapshot to an instant to out.
func (s *snapshot) replay(at Time, out []Time, sign Time, buf *Scratch, unit Time) {
	if at <= s.at {
		return
	}
	copy(buf.class, s.held)
	buf.at(s.at)
	for _, c := range s.changes {
		when := s.at + Time(c.after)*unit
		if when > at {
			break
		}
		buf.apply(c, when, out, sign)
	}
	buf.until(at, out, sign)
}
