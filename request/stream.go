package request

import (
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// streams reports whether a part of a request sends its answer over time, as
// server-sent events and watches do: the same place writes to the client again
// LongPoll or more after its first write, and in between g reads nothing from
// the network, as one that makes calls would. Who waits most of that time until the
// client takes what there is sends no slower than the client reads: that is one answer.
func (d *finder) streams(p Part) bool {
	g := &d.t.Gs[p.G]
	type sending struct{ since, waited timeline.Time }
	first := map[gotrace.StackID]sending{}
	var full timeline.Time // the socket was, so far
	for _, s := range g.SegsFrom(d.segmentFrom(p.G, p.Start)) {
		if s.Start >= p.End {
			break
		}
		if s.Stack == 0 {
			continue
		}
		in := d.c.of(s.Stack)
		switch {
		case s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNetwork && in.op == opRead:
			clear(first)
		case s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNetwork && in.op == opWrite:
			full += s.End - s.Start
		case s.Kind == timeline.Syscall && in.op == opWrite && in.client == 0, in.flags&frameWritten != 0:
			if at, ok := first[s.Stack]; !ok {
				first[s.Stack] = sending{s.Start, full}
			} else if d := s.Start - at.since; d >= LongPoll && 2*(full-at.waited) < d {
				return true
			}
		}
	}
	return false
}
