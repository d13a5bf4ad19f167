package request

import (
	"sort"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// A middleware with a time-out, such as net/http's TimeoutHandler, runs the handlers below it on a goroutine of
// their own: what routes and handlers there are stands on the stacks of that one. It is known by what these hold,
// handlers that a dispatcher called, and by its birth in a handler.

// maxContinued bounds how many goroutines that were started at one place are looked at until one of them is seen in a handler.
const maxContinued = 1000

// findContinued finds the goroutines that continue requests of others.
func (d *finder) findContinued() {
	asked, is := map[gotrace.StackID]int{}, map[gotrace.StackID]bool{}
	for g := range d.t.Gs {
		gr := &d.t.Gs[g]
		if at := gr.CreatorStack; d.startedByHandler(gr) && !is[at] && asked[at] < maxContinued {
			asked[at]++
			is[at] = d.inHandlers(timeline.GID(g))
		}
	}
	for range maxDispatch { // who only starts another one that is seen there, as where there are two time-outs
		more := false
		for g := range d.t.Gs {
			gr := &d.t.Gs[g]
			if !d.startedByHandler(gr) || !is[gr.CreatorStack] {
				continue
			}
			if by := &d.t.Gs[gr.Creator]; d.startedByHandler(by) && !is[by.CreatorStack] {
				is[by.CreatorStack], more = true, true
			}
		}
		if !more {
			break
		}
	}
	for g := range d.t.Gs {
		if gr := &d.t.Gs[g]; d.startedByHandler(gr) && is[gr.CreatorStack] {
			if d.continued == nil {
				d.continued = map[timeline.GID][]timeline.GID{}
			}
			d.continued[gr.Creator] = append(d.continued[gr.Creator], timeline.GID(g))
		}
	}
	for _, gs := range d.continued {
		sort.Slice(gs, func(i, j int) bool { return d.t.Gs[gs[i]].Start() < d.t.Gs[gs[j]].Start() })
	}
}

func (d *finder) startedByHandler(gr *timeline.Goroutine) bool {
	return gr.Born && gr.Creator != timeline.NoG && d.c.of(gr.CreatorStack).flags&inHandler != 0
}

// inHandlers reports whether a goroutine is seen in a handler that a dispatcher called.
func (d *finder) inHandlers(g timeline.GID) bool {
	gr := &d.t.Gs[g]
	for _, s := range gr.Segs() {
		if s.Kind != timeline.Running && d.c.of(s.Stack).node != 0 {
			return true
		}
	}
	for _, w := range gr.Wakes() {
		if d.c.of(w.Stack).node != 0 {
			return true
		}
	}
	for _, s := range d.samples[g] {
		if d.c.of(s.Stack).node != 0 {
			return true
		}
	}
	return false
}

// continuation returns the goroutine that continues what g does in [from, to], NoG if there is none: g started it and
// waits for it. What it starts and does not wait for, as a copy of the request for somebody else, is another matter.
func (d *finder) continuation(g timeline.GID, from, to timeline.Time) timeline.GID {
	gs := d.continued[g]
	i := sort.Search(len(gs), func(i int) bool { return d.t.Gs[gs[i]].Start() >= from })
	if i == len(gs) || d.t.Gs[gs[i]].Start() > to {
		return timeline.NoG
	}
	me := &d.t.Gs[g]
	for k := max(0, me.SegmentAt(d.t.Gs[gs[i]].Start())); k < me.Len() && me.Seg(k).Start < to; k++ {
		if s := me.Seg(k); s.Kind == timeline.Waiting && s.Waker == gs[i] {
			return gs[i]
		}
	}
	return timeline.NoG
}

// below returns the node of a handler that was reached on another goroutine, which was started at a node.
func (c *classifier) below(start, node int32) int32 {
	if start == 0 || node == 0 {
		return start | node
	}
	return c.descend(c.below(start, c.tree[node].parent), c.tree[node].name)
}
