package request

import (
	"sort"

	"github.com/whylate/whylate/timeline"
)

// leastPopped is how long one must be at work, without any call or wait, for there to have been a message.
const leastPopped timeline.Time = 200e3

// popped finds the requests of a program that asks a queue for messages: each is from when a client's call
// that waits for one is answered until the next such call.
func (d *finder) popped() {
	type popped struct {
		start, end timeline.Time
		seg        int
		byNet      bool
	}
	var list []popped
	for i := range d.h.of { // messages are behind these
		g, gr := timeline.GID(i), &d.t.Gs[i]
		if gr.System || gr.Observer || d.h.of[i] == nil {
			continue
		}
		name, seg, handed := "", 0, 0
		list = list[:0]
		start, byNet, did := timeline.Time(-1), false, false
		for k, s := range gr.Blocked() {
			in := d.c.of(s.Stack)
			if in.flags&pops == 0 {
				did = true
				continue
			}
			if name == "" {
				name = d.popFunction(s)
			}
			waits := s.Kind == timeline.Waiting
			// Who waits for a socket asks again by what it writes: the answer may come in parts.
			if start >= 0 && (in.op == opWrite || waits && !byNet) {
				if hands := d.handsOver(g, start, s.Start); hands {
					handed++
				} else if did || s.Start-start >= leastPopped { // else there was none, and it asks again
					list = append(list, popped{start, s.Start, seg, byNet})
				}
				start = -1
			}
			if waits && k+1 < gr.Len() {
				start, byNet, seg, did = s.End, byNetwork(s), k+1, false
			}
		}
		open := start >= 0 && !gr.Died && !d.popping(gr) && (did || gr.End()-start >= leastPopped) && !d.handsOver(g, start, gr.End())
		if len(list) <= handed && !(open && handed == 0) { // it only fetches for others
			continue
		}
		d.carried[g] = true
		role := d.roleOf(name, Function, d.h.of[i].name, keyNone)
		for _, p := range list {
			d.add(role, Request{Parts: d.parts(Part{g, p.start, p.end}), ByNetwork: p.byNet}, d.examine(g, p.seg, p.start, p.end))
		}
		if open {
			d.add(role, Request{Parts: d.parts(Part{g, start, gr.End()}), InFlight: true, ByNetwork: byNet}, d.examine(g, seg, start, gr.End()))
		}
	}
}

// handsOver reports whether g calls somebody who belongs to no library from home in a stretch of time.
func (d *finder) handsOver(g timeline.GID, from, to timeline.Time) bool {
	ws := d.t.Gs[g].Wakes()
	for k := sort.Search(len(ws), func(k int) bool { return ws[k].Time >= from }); k < len(ws) && ws[k].Time <= to; k++ {
		if r := d.h.of[ws[k].Whom()]; r != nil && !ws[k].Birth() && !serves(r.name) && d.atHome(&ws[k]) {
			return true
		}
	}
	return false
}

// popping reports whether a goroutine is in a client's call that waits for a message at the end of the trace.
func (d *finder) popping(gr *timeline.Goroutine) bool {
	last := gr.Seg(gr.Len() - 1)
	return last.Kind != timeline.Running && d.c.of(last.Stack).flags&pops != 0
}

// popFunction is the function of a client that waits for a message in s.
func (d *finder) popFunction(s timeline.Segment) string {
	for _, f := range d.t.Stacks.Frames(s.Stack) {
		if d.c.function(f.Func).flags&pops != 0 {
			return f.Func
		}
	}
	return ""
}
