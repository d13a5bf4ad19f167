package timeline

import (
	"iter"
	"slices"
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
	snaps []snapshot
	first snapshot
}

// change is a P's change of class, after ns after the one before it. What does not fit in there
// stands before it, in units of 1<<32 ns with the P -1.
type change struct {
	after uint32
	p     int16
	class ClassID
}

// snapshot is the state before some changes.
type snapshot struct {
	at    Time      // of the first of them
	sum   []Time    // by class, up to at
	class []ClassID // by P, at at
	next  []change
}

// snapEvery is how many changes lie between snapshots: a query replays at most
// twice as many, a snapshot costs 8 bytes per class.
const snapEvery = 256

// Occupancy indexes the timeline's P time. class gives the class of a goroutine
// at the instant it begins to hold a P, from ClassGoroutines to n-1.
func (t *Timeline) Occupancy(n int, class func(g GID, at Time) ClassID) *Occupancy {
	o := &Occupancy{}
	o.first = snapshot{at: t.Start, sum: make([]Time, n), class: make([]ClassID, len(t.Procs))}
	now := snapshot{at: t.Start, sum: make([]Time, n), class: make([]ClassID, len(t.Procs))}
	var next *[]change
	for p, s := range t.stints() {
		k := ClassIdle
		switch s.What {
		case Scheduler:
			k = ClassScheduler
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
		if now.class[p] == k {
			continue
		}
		after := s.Start - now.at
		now.advance(s.Start)
		if next == nil || len(*next) >= snapEvery {
			o.snaps = append(o.snaps, snapshot{now.at, slices.Clone(now.sum), slices.Clone(now.class), make([]change, 0, snapEvery)})
			next, after = &o.snaps[len(o.snaps)-1].next, 0
		}
		if far := uint32(after >> 32); far > 0 {
			*next = append(*next, change{far, -1, 0})
		}
		*next = append(*next, change{uint32(after), int16(p), k})
		now.class[p] = k
	}
	return o
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

// advance accounts for the time up to at.
func (s *snapshot) advance(at Time) {
	d := at - s.at
	if d <= 0 {
		return
	}
	for _, c := range s.class {
		s.sum[c] += d
	}
	s.at = at
}

// Executed adds to out, by class, the P time of [a, b]; out has one element for
// every class. P time of n Ps adds up to n times the interval. buf is scratch
// space to be reused between calls, or nil.
func (o *Occupancy) Executed(a, b Time, out []Time, buf *Scratch) {
	if b <= a {
		return
	}
	if buf == nil {
		buf = &Scratch{}
	}
	o.cumulative(b, out, +1, buf)
	o.cumulative(a, out, -1, buf)
}

// Scratch is space that Executed reuses between calls of one goroutine.
type Scratch struct{ s snapshot }

func (o *Occupancy) cumulative(at Time, out []Time, sign Time, buf *Scratch) {
	k := sort.Search(len(o.snaps), func(i int) bool { return o.snaps[i].at > at }) - 1
	from := &o.first // before the first change every P is idle
	if k >= 0 {
		from = &o.snaps[k]
	}
	s := &buf.s
	s.at = from.at
	s.sum = append(s.sum[:0], from.sum...)
	s.class = append(s.class[:0], from.class...)
	then := from.at
	for _, c := range from.next {
		if c.p < 0 {
			then += Time(c.after) << 32
			continue
		}
		if then += Time(c.after); then > at {
			break
		}
		s.advance(then)
		s.class[c.p] = c.class
	}
	s.advance(at)
	for c, d := range s.sum {
		out[c] += sign * d
	}
}
