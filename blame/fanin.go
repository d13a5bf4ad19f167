package blame

import (
	"sort"

	"github.com/whylate/whylate/timeline"
)

// A request that waits for several children is as late as the last one. Without
// what delayed that one it would still wait for the others: the slack between
// them bounds what can be saved.

// FanIn is a wait of a request for one child while it waits for another one too.
type FanIn struct {
	// Pieces are what the wait was attributed to, Other is what the other child
	// did in the wait until it was done.
	Pieces, Other []Piece
	// Slack is, in nanoseconds, how long before the end of the wait the other child
	// was done; 0 if it was not.
	Slack int64
}

// maxFanIns bounds the fan-ins kept for a request, maxSiblings the children that
// are looked at for one: a request with more of either waits for so many that one
// more or less of them changes little.
const maxFanIns, maxSiblings = 64, 256

// fanIn is a FanIn in the making.
type fanIn struct {
	wait, other map[Key]int64
	slack       timeline.Time
}

// rival returns the other child that bounds what the wait s of the request's
// goroutine g can save: the one that g waits for last at the same place, or else
// the one that was done last before the wait ended, and when that was. NoG if s
// is no wait for one of several children.
func (w *walker) rival(g timeline.GID, s *timeline.Segment, from, to timeline.Time) (timeline.GID, timeline.Time) {
	t := w.a.t
	if h := &t.Gs[s.Waker]; h.Creator != g || !h.Born || h.Start() < w.begun {
		return timeline.NoG, 0
	}
	if last := w.lastAwaited(g, s, from); last != s.Waker {
		return last, to
	}
	best, done := timeline.NoG, from
	wakes := t.Gs[g].Wakes
	before := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time > s.Start })
	for i := before - 1; i >= max(0, before-maxSiblings) && wakes[i].Time >= w.begun; i-- {
		w.steps++
		c := &t.Gs[wakes[i].Whom]
		if end := c.End(); wakes[i].Birth && wakes[i].Whom != s.Waker && c.Died && end > done && end < to {
			best, done = wakes[i].Whom, end
		}
	}
	return best, done
}

// lastAwaited returns the last child that g waits for at the place of its wait s
// among those that are at work since from.
func (w *walker) lastAwaited(g timeline.GID, s *timeline.Segment, from timeline.Time) timeline.GID {
	t := w.a.t
	last, site := s.Waker, w.a.siteOf(s.Stack)
	me := &t.Gs[g]
	first := me.SegmentAt(s.End) + 1
	for i := first; i < min(len(me.Segs), first+maxSiblings) && me.Segs[i].End <= w.ends; i++ {
		w.steps++
		x := &me.Segs[i]
		if x.Kind != timeline.Waiting || x.Waker == timeline.NoG || w.a.siteOf(x.Stack) != site {
			continue
		}
		if h := &t.Gs[x.Waker]; h.Creator != g || !h.Born || h.Start() > from {
			break
		}
		last = x.Waker
	}
	return last
}

// forOneOf replaces the wait s of the request's goroutine g, which is for one of
// several children, like any other, and remembers what a rival that was done at
// an instant did meanwhile.
func (w *walker) forOneOf(at *where, g timeline.GID, s *timeline.Segment, from, to timeline.Time, rival timeline.GID, done timeline.Time) {
	all := w.acc
	f := fanIn{wait: map[Key]int64{}, other: map[Key]int64{}, slack: to - done}
	w.acc = f.wait
	w.waker(at, g, s, from, to)
	for k, ns := range f.wait {
		all[k] += ns
	}
	kept := *w
	w.acc = f.other
	next := w.a.queueAt(at, Hop{Site: w.a.siteOf(s.Stack), WakerSite: w.a.siteOf(s.WakerStack), Waker: w.a.classAt(rival, done), Reason: s.Reason})
	next.depth++
	w.walk(&next, rival, from, done)
	w.acc = all
	w.nested, w.hold, w.held, w.holders, w.depth = kept.nested, kept.hold, kept.held, kept.holders, kept.depth
	w.fanIns = append(w.fanIns, f)
}

// bound returns, by column, the nanoseconds of a request's pieces that do not go
// away with the column, because the request would wait for another child; sum and
// other are scratch space of a column each, zero before and after.
func (r *Attributed) bound(cols Columns, sum, other []float64) (out []cell) {
	for _, f := range r.FanIns {
		for _, p := range f.Pieces {
			sum[cols[p.Key]] += float64(p.NS)
		}
		for _, p := range f.Other {
			other[cols[p.Key]] += float64(p.NS)
		}
		for _, p := range f.Pieces {
			c := cols[p.Key]
			if over := sum[c] - other[c] - float64(f.Slack); over > 0 {
				out = append(out, cell{c, over})
			}
			sum[c] = 0
		}
		for _, p := range f.Other {
			other[cols[p.Key]] = 0
		}
	}
	return out
}
