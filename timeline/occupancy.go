package timeline

import "sort"

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
	n       int // classes
	changes []change
	snaps   []snapshot
	procs   int
}

// change is a P's change of class.
type change struct {
	at    Time
	p     int16
	class ClassID
}

// snapshot is the state before changes[snapEvery*i].
type snapshot struct {
	at    Time
	sum   []Time    // by class, up to at
	class []ClassID // by P, at at
}

// snapEvery is how many changes lie between snapshots: a query replays at most
// twice as many, a snapshot costs 8 bytes per class.
const snapEvery = 256

// Occupancy indexes the timeline's P time. class gives the class of a goroutine
// at the instant it begins to hold a P, from ClassGoroutines to n-1.
func (t *Timeline) Occupancy(n int, class func(g GID, at Time) ClassID) *Occupancy {
	o := &Occupancy{n: n, procs: len(t.Procs)}
	lists := make([][]change, len(t.Procs))
	for i := range t.Procs {
		lists[i] = make([]change, 0, len(t.Procs[i].Stints))
		for _, s := range t.Procs[i].Stints {
			c := ClassIdle
			switch s.What {
			case Scheduler:
				c = ClassScheduler
			case GCWorker:
				c = ClassGCWorker
			case Assist:
				c = ClassGCAssist
			case Stopped:
				c = ClassStopped
			case Go, InSyscall:
				if s.G != NoG {
					c = class(s.G, s.Start)
				}
			}
			if n := len(lists[i]); n > 0 && lists[i][n-1].class == c {
				continue
			}
			lists[i] = append(lists[i], change{s.Start, int16(i), c})
		}
	}
	o.changes = merge(lists, func(x, y change) bool { return x.at < y.at })
	now := snapshot{at: t.Start, sum: make([]Time, n), class: make([]ClassID, o.procs)}
	for i, c := range o.changes {
		if i%snapEvery == 0 {
			now.advance(c.at)
			o.snaps = append(o.snaps, snapshot{now.at, append([]Time(nil), now.sum...), append([]ClassID(nil), now.class...)})
		}
		now.apply(c)
	}
	return o
}

// merge merges sorted lists into one; equal elements keep the order of the lists.
// The lists are used up.
func merge[T any](lists [][]T, less func(x, y T) bool) []T {
	for len(lists) > 1 {
		var next [][]T
		for i := 0; i < len(lists); i += 2 {
			if i+1 == len(lists) {
				next = append(next, lists[i])
				break
			}
			x, y := lists[i], lists[i+1]
			out := make([]T, 0, len(x)+len(y))
			for len(x) > 0 && len(y) > 0 {
				if less(y[0], x[0]) {
					out, y = append(out, y[0]), y[1:]
				} else {
					out, x = append(out, x[0]), x[1:]
				}
			}
			next = append(next, append(append(out, x...), y...))
		}
		lists = next
	}
	if len(lists) == 0 {
		return nil
	}
	return lists[0]
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

func (s *snapshot) apply(c change) {
	s.advance(c.at)
	s.class[c.p] = c.class
}

// Executed adds to out, by class, the P time of [a, b]; out has one element for
// every class. P time of n Ps adds up to n times the interval. buf is scratch
// space to be reused between calls, or nil.
func (o *Occupancy) Executed(a, b Time, out []Time, buf *Scratch) {
	if b <= a || len(o.snaps) == 0 {
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
	if k < 0 {
		return
	}
	s := &buf.s
	s.at = o.snaps[k].at
	s.sum = append(s.sum[:0], o.snaps[k].sum...)
	s.class = append(s.class[:0], o.snaps[k].class...)
	for i := k * snapEvery; i < len(o.changes) && o.changes[i].at <= at; i++ {
		s.apply(o.changes[i])
	}
	s.advance(at)
	for c, d := range s.sum {
		out[c] += sign * d
	}
}
