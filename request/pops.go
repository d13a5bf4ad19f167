package request

import "github.com/whylate/whylate/timeline"

// leastPopped is how long one must be at work, without any call or wait, for there to have been a message.
const leastPopped timeline.Time = 200e3

// popped finds the requests of a program that asks a queue for messages: each is from when a client's call
// that waits for one is answered until the next such call.
func (d *finder) popped() {
	for i := range d.h.of { // messages are behind these
		g, gr := timeline.GID(i), &d.t.Gs[i]
		if gr.System || gr.Observer || d.h.of[i] == nil {
			continue
		}
		role, seg := -1, 0
		start, byNet, did := timeline.Time(-1), false, false
		for k, s := range gr.Blocked() {
			in := d.c.of(s.Stack)
			if in.flags&pops == 0 {
				did = true
				continue
			}
			if role < 0 {
				role = d.roleOf(d.popFunction(s), Function, d.h.of[i].name, keyNone)
				d.carried[g] = true
			}
			waits := s.Kind == timeline.Waiting
			// Who waits for a socket asks again by what it writes: the answer may come in parts.
			if start >= 0 && (in.op == opWrite || waits && !byNet) {
				if did || s.Start-start >= leastPopped { // else there was none, and it asks again
					d.add(role, Request{Parts: d.parts(Part{g, start, s.Start}), ByNetwork: byNet}, d.examine(g, seg, start, s.Start))
				}
				start = -1
			}
			if waits && k+1 < gr.Len() {
				start, byNet, seg, did = s.End, byNetwork(s), k+1, false
			}
		}
	}
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
