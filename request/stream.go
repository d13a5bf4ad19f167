package request

import (
	"slices"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// streams reports whether a part of a request sends its answer over time, as
// server-sent events and watches do: the same place writes to the client again
// so long or longer after its first write, in between g reads nothing from
// the network, as one that makes calls would, and for most of that time it waits for time or for news. Who
// works for most of it, or waits until the client takes what there is, gives one answer, however long it is.
func (d *finder) streams(p Part, long timeline.Time) bool {
	g := &d.t.Gs[p.G]
	type sending struct{ since, idle timeline.Time }
	first := map[gotrace.StackID]sending{}
	var idle timeline.Time // so far
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
		case s.Kind == timeline.Syscall && in.op == opWrite && in.client == 0, in.flags&frameWritten != 0:
			if at, ok := first[s.Stack]; !ok {
				first[s.Stack] = sending{s.Start, idle}
			} else if d := s.Start - at.since; d >= long && 2*(idle-at.idle) >= d {
				return true
			}
		}
		if idles(s) && in.client == 0 && in.flags&frameWritten == 0 {
			idle += s.End - s.Start
		}
	}
	return false
}

// streamedBefore learns from what g did before it waited for its first request, if that
// began before the trace: it is none, but tells whether its handler streams.
func (d *finder) streamedBefore(g timeline.GID) {
	gr := &d.t.Gs[g]
	if gr.Born {
		return
	}
	end := gr.End()
	for _, s := range gr.Blocked() {
		if s.Stack != 0 && d.c.of(s.Stack).key == keyHTTP {
			end = s.Start
			break
		}
	}
	if p := (Part{g, gr.Start(), end}); end-p.Start >= LongPoll && d.streams(p, LongPoll) {
		d.streamed[d.examine(g, 0, p.Start, end).node]++
		d.pushing = append(d.pushing, p)
	}
}

// dropStreams excludes the requests that would have been known as streams, had they, or
// the trace, not ended too early: what the trace cut within LongPoll, and what sent its
// answer for most of its time, if of its handler more streams are known than others that
// took as long.
func (d *finder) dropStreams() {
	delete(d.streamed, 0) // whose handler is not known
	if len(d.streamed) == 0 {
		return
	}
	durations := map[int32][]timeline.Time{} // of requests that ended, by node
	for i := range d.list {
		if r := &d.list[i]; !r.cut && !r.dropped && d.streamed[r.node] > 0 {
			durations[r.node] = append(durations[r.node], r.Duration())
		}
	}
	for _, ds := range durations {
		slices.Sort(ds)
	}
	for i := range d.list {
		r := &d.list[i]
		took, ds := r.Duration(), durations[r.node]
		shorter, _ := slices.BinarySearch(ds, took)
		if r.dropped || d.streamed[r.node] <= len(ds)-shorter {
			continue
		}
		if sh := d.role[r.Role].Shape; sh == Annotated || sh == Function {
			continue // the user says that it is a request
		}
		if r.cut && took < LongPoll || d.streams(r.Parts[len(r.Parts)-1], took/2) {
			r.dropped = true
			d.pushing = append(d.pushing, r.Parts[len(r.Parts)-1])
			d.exclude(classPush, r.Start())
		}
	}
}

// rolePushes is the role of what streams send where hardly anything else is a request.
const rolePushes = "pushes on streams of net/http"

// pushes finds what streams send: each from when its goroutine had waited at the stream's home, for
// time or for news, until it has written. Before that nothing is known of it. A stream that does not
// come home again may have gone on to send something else: then the last one has been sent when
// it first waits elsewhere.
func (d *finder) pushes() {
	for _, p := range d.pushing {
		home := d.idleIn(p)
		if home == keyNone {
			continue
		}
		gr := &d.t.Gs[p.G]
		from, seg, end, sent := timeline.Time(-1), 0, timeline.Time(-1), timeline.Time(-1)
		push := func(to timeline.Time, open bool) {
			if from >= 0 && to >= from {
				role := d.roleOf(rolePushes, PerRequest, gr.Root(), keyNone)
				d.carried[p.G] = true
				d.add(role, Request{Parts: d.parts(Part{p.G, from, to}), InFlight: open}, d.examine(p.G, seg, from, to))
			}
			from, end, sent = -1, -1, -1
		}
		for i := d.segmentFrom(p.G, p.Start); i < gr.Len() && gr.Seg(i).Start < p.End; i++ {
			s := gr.Seg(i)
			switch in := d.c.of(s.Stack); {
			case s.Stack == 0:
			case s.Kind == timeline.Waiting && in.key == home:
				push(end, false)
				if s.End < p.End {
					from, seg = s.End, i+1
				}
			case s.Kind == timeline.Syscall && in.op == opWrite && in.client == 0, in.flags&frameWritten != 0:
				end = s.End
			case idles(s) && sent < 0:
				sent = end
			}
		}
		if end < 0 && !gr.Died && p.End == gr.End() && p.End-from >= minAtWork {
			push(p.End, true)
		}
		if sent >= 0 {
			end = sent
		}
		push(end, false)
	}
}

// idleIn is the place at which the goroutine of a stream waits longest for time or for news,
// keyNone if there is none.
func (d *finder) idleIn(p Part) (home int32) {
	by := map[int32]timeline.Time{}
	for _, s := range d.t.Gs[p.G].SegsFrom(d.segmentFrom(p.G, p.Start)) {
		if s.Start >= p.End {
			break
		}
		if idles(s) && s.Stack != 0 {
			by[d.c.of(s.Stack).key] += s.End - s.Start
		}
	}
	for k, ns := range by {
		if home == keyNone || ns > by[home] || ns == by[home] && k < home {
			home = k
		}
	}
	return home
}

// idles reports whether a goroutine waits for time or for news.
func idles(s timeline.Segment) bool {
	switch s.Reason {
	case timeline.ReasonSelect, timeline.ReasonChanReceive, timeline.ReasonCond, timeline.ReasonSleep:
		return s.Kind == timeline.Waiting
	}
	return false
}
