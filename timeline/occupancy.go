package timeline

import (
	"iter"
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
	n, procs int // classes, Ps
	every    int // changes from one snapshot to the next
	at       []Time
	changes  []change // at at
	// A snapshot is the state before the change every*i.
	snapAt []Time
	sums   []Time    // n of each snapshot: by class, up to snapAt
	held   []ClassID // procs of each snapshot: by P, at snapAt
}

// change is a P's change of class.
type change struct {
	p     int16
	class ClassID
}

// snapEvery is how many changes lie between snapshots at least: a query replays as many.
// A snapshot costs 8 bytes per class, so there are as many changes as classes between two.
const snapEvery = 64

// Occupancy indexes the timeline's P time. class gives the class of a goroutine
// at the instant it begins to hold a P, from ClassGoroutines to n-1.
func (t *Timeline) Occupancy(n int, class func(g GID, at Time) ClassID) *Occupancy {
	o := &Occupancy{n: n, procs: len(t.Procs), every: max(snapEvery, n)}
	most := 0
	for p := range t.Procs {
		most += len(t.Procs[p].Stints)
	}
	o.at, o.changes = make([]Time, 0, most), make([]change, 0, most)
	snaps := most/o.every + 1
	o.snapAt, o.sums, o.held = make([]Time, 0, snaps), make([]Time, 0, snaps*n), make([]ClassID, 0, snaps*o.procs)
	sum, now, last := make([]Time, n), o.begin(nil), t.Start
	now.at(t.Start)
	o.snap(t.Start, sum, now) // before the first change every P is idle
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
		last = max(last, s.Start)
		if i := len(o.changes); i > 0 && i%o.every == 0 {
			now.until(last, sum, +1)
			o.snap(last, sum, now)
		}
		c := change{int16(p), k}
		o.at, o.changes = append(o.at, last), append(o.changes, c)
		now.apply(c, last, sum, +1)
	}
	return o
}

func (o *Occupancy) snap(at Time, sum []Time, now *Scratch) {
	o.snapAt = append(o.snapAt, at)
	o.sums = append(o.sums, sum...)
	o.held = append(o.held, now.class...)
}

// stints yields the stints of all Ps, with the index of the P, in order of their
// beginnings.
func (t *Timeline) stints() iter.Seq2[int, *Stint] {
	return func(yield func(int, *Stint) bool) {
		next := make([]int, len(t.Procs))
		type begin struct {
			at Time // of the next stint of P p
			p  int
		}
		var heap []begin
		less := func(x, y begin) bool { return x.at < y.at || x.at == y.at && x.p < y.p }
		down := func(i int) {
			for {
				c := 2*i + 1
				if c >= len(heap) {
					return
				}
				if c+1 < len(heap) && less(heap[c+1], heap[c]) {
					c++
				}
				if !less(heap[c], heap[i]) {
					return
				}
				heap[i], heap[c] = heap[c], heap[i]
				i = c
			}
		}
		for p := range t.Procs {
			if len(t.Procs[p].Stints) > 0 {
				heap = append(heap, begin{t.Procs[p].Stints[0].Start, p})
			}
		}
		for i := len(heap)/2 - 1; i >= 0; i-- {
			down(i)
		}
		for len(heap) > 0 {
			p := heap[0].p
			stints := t.Procs[p].Stints
			if !yield(p, &stints[next[p]]) {
				return
			}
			if next[p]++; next[p] < len(stints) {
				heap[0].at = stints[next[p]].Start
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
		for c, d := range o.sums[from*o.n : (from+1)*o.n] {
			out[c] += o.sums[to*o.n+c] - d
		}
	}
	o.replay(from, a, out, -1, buf)
	o.replay(to, b, out, +1, buf)
}

// before returns the last snapshot not after an instant.
func (o *Occupancy) before(at Time) int {
	return max(0, sort.Search(len(o.snapAt), func(i int) bool { return o.snapAt[i] > at })-1)
}

// replay adds the time from snapshot k to an instant to out.
func (o *Occupancy) replay(k int, at Time, out []Time, sign Time, buf *Scratch) {
	if at <= o.snapAt[k] {
		return
	}
	copy(buf.class, o.held[k*o.procs:])
	buf.at(o.snapAt[k])
	for i := k * o.every; i < len(o.at) && o.at[i] <= at; i++ {
		buf.apply(o.changes[i], o.at[i], out, sign)
	}
	buf.until(at, out, sign)
}
