package cause

import (
	"fmt"
	"iter"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Handoffs is what requests wait for a P that they lost in a system call or in C.
type Handoffs struct {
	// Keys are the free pieces of it, and where calls keep the Ps, of all waits behind who makes
	// them.
	Keys []blame.KeyID
	// Tail and Typical are what slow and typical requests wait for a P.
	Tail, Typical Queued
	// Held is the part of the Ps' time while slow requests are ready to run, where they had a
	// goroutine, in which it was in a call that kept the P, as holds says: one of whoever is in
	// the way, if it is others. While nobody wants a P, a call keeps it from nobody. If they never
	// are, it is that while slow requests are under way.
	Held float64
	// Others: these are calls of others than requests, which are in the way for longest.
	Others bool
	// Keeper is the place of the calls that kept them longest, nil if unknown.
	Keeper *Place

	lost []blame.KeyID // those of Keys that follow a call
}

// Queued is what requests wait for a P on their own goroutines: means per request.
type Queued struct {
	// After is the time after calls, Other the rest, in nanoseconds; Calls and
	// Others are how many such waits there are.
	After, Other, Calls, Others float64
}

// Each returns the mean lengths of a wait after a call and of any other, in
// nanoseconds; 0 if there is none.
func (q Queued) Each() (after, other float64) {
	if q.Calls > 0 {
		after = q.After / q.Calls
	}
	if q.Others > 0 {
		other = q.Other / q.Others
	}
	return after, other
}

const (
	// longer is how much longer a request must wait for a P after a call than
	// otherwise, if losing the P is to blame: who merely meets busy Ps waits alike.
	longer = 2
	// mostlyHeld is the part of the Ps' time in calls from which on calls keep
	// requests from the Ps, not what is executed.
	mostlyHeld = 0.5
	// retaken is the shortest call that can cost its P: sysmon sleeps for 20 us at
	// the least between two looks at the Ps (source: runtime.sysmon, runtime.retake).
	retaken timeline.Time = 20e3
)

// Lead reports whether requests wait for a P because of calls, their own or others'.
func (h *Handoffs) Lead() bool {
	after, other := h.Tail.Each()
	return len(h.Keys) > 0 && (after >= longer*other || h.Kept())
}

// Kept reports whether it is calls that keep the Ps, not what these execute.
func (h *Handoffs) Kept() bool { return h.Held >= mostlyHeld }

// Because returns, of what requests wait for a P, what calls are to blame for: if
// they keep the Ps all of it, since who waits behind a call waits for its end, or
// for the runtime to notice it. In nanoseconds.
func (h *Handoffs) Because(q Queued) float64 {
	if h.Kept() {
		return q.After + q.Other
	}
	return q.After
}

// Handoffs sums up, once per case, the waits for a P after calls.
func (c *Case) Handoffs() *Handoffs {
	if c.handoffs != nil {
		return c.handoffs
	}
	h := &Handoffs{lost: c.Free(func(k blame.Key) bool {
		return k.Flags&blame.LostP != 0 && k.Flags&blame.Silent == 0 && (k.Kind == blame.Behind || k.Kind == blame.LateWakeup)
	})}
	c.handoffs = h
	h.Keys = h.lost
	p := c.Processors()
	others := p.Winner == Hog || p.Winner == Flood
	h.Held, h.Keeper = c.heldInCalls(func(s timeline.Stint) bool { return !others || c.A.ClassAt(s.G, s.Start) == p.Class })
	if h.Kept() && (p.Winner == Own || others) {
		h.Others = others
		h.Keys = slices.Concat(h.lost, without(c.stillFree(p.Claim), h.lost))
	}
	if len(h.Keys) > 0 {
		h.Tail, h.Typical = c.queuedForP(c.Tail), c.queuedForP(c.Typical)
	}
	return h
}

// KeptEvidence says that who is in the way does not compute but keeps the Ps by calls; none if it does.
func (c *Case) KeptEvidence() []Evidence {
	h := c.Handoffs()
	if !h.Others {
		return nil
	}
	return []Evidence{{
		Text:  fmt.Sprintf("calls keep the Ps for %s of the time in which these have a goroutine", Pct(h.Held)),
		Holds: No, Decides: true, Number: h.Held,
	}}
}

// Lost returns the part of keys that follows calls which cost the P.
func (c *Case) Lost(keys []blame.KeyID) float64 {
	return (c.Sum(keys) - c.Sum(without(keys, c.Handoffs().lost))) / max(c.Sum(keys), 1)
}

// heldInCalls is Handoffs.Held and Handoffs.Keeper, by the stints of some goroutines.
func (c *Case) heldInCalls(of func(s timeline.Stint) bool) (part float64, where *Place) {
	t := c.A.Timeline()
	var held, all, most timeline.Time
	sums, sockets := map[Place]timeline.Time{}, map[gotrace.StackID]bool{}
	for s, d := range c.stints(c.readySpans()) {
		if !of(s) {
			continue
		}
		all += d
		if !holds(s) {
			continue
		}
		stack := c.called(s)
		socket, known := sockets[stack]
		if !known {
			socket = blame.OnSocket(t.Stacks.Frames(stack))
			sockets[stack] = socket
		}
		if socket {
			continue
		}
		held += d
		f, ok := request.AppFrame(t.Stacks.Frames(stack))
		if !ok {
			continue
		}
		at := Place{Function: f.Func, File: f.File, Line: f.Line}
		if sums[at] += d; sums[at] > most {
			most, where = sums[at], &at
		}
	}
	return float64(held) / float64(max(all, 1)), where
}

// keptInCalls reports whether goroutines of a class keep the Ps by calls, and do not compute.
func (c *Case) keptInCalls(class blame.ClassID) bool {
	held, _ := c.heldInCalls(func(s timeline.Stint) bool { return c.A.ClassAt(s.G, s.Start) == class })
	return held >= mostlyHeld
}

// holds reports whether in a stint a call keeps its P from others, unless it is one
// on a socket. Shorter calls than those that can cost the P are work like any other,
// and so are calls on sockets: they do not wait, they take the kernel's CPU time.
func holds(s timeline.Stint) bool {
	return s.What == timeline.InSyscall && s.End-s.Start >= retaken
}

// called returns the stack of the call in a stint, 0 if it is not known.
func (c *Case) called(s timeline.Stint) gotrace.StackID {
	me := &c.A.Timeline().Gs[s.G]
	if i := me.SegmentAt(s.End); i < me.Len() {
		return me.Seg(i).Stack
	}
	return 0
}

// readySpans returns when the slow requests' own goroutines were ready to run, in order; if they never
// were, when slow requests were under way.
func (c *Case) readySpans() []timeline.Span {
	var spans []timeline.Span
	for _, i := range c.Tail {
		for _, x := range c.readyIn(i) {
			spans = append(spans, x.Span)
		}
	}
	if len(spans) == 0 {
		return c.tailSpans()
	}
	return union(spans)
}

// stints yields the stints in which the Ps had a goroutine, in its own code or in
// a call, and how long each overlaps spans, which are in order, if it does.
func (c *Case) stints(spans []timeline.Span) iter.Seq2[timeline.Stint, timeline.Time] {
	return func(yield func(timeline.Stint, timeline.Time) bool) {
		for i := range c.A.Timeline().Procs {
			p := &c.A.Timeline().Procs[i]
			n := 0
			for _, span := range spans {
				for n = max(n, p.Ending(span.Start)); n < p.Len(); n++ {
					s := p.Stint(n)
					if s.Start >= span.End {
						break
					}
					if s.What != timeline.Go && s.What != timeline.InSyscall || s.G == timeline.NoG {
						continue
					}
					if d := timeline.Overlap(spans, s.Start, s.End); d > 0 && !yield(s, d) {
						return
					}
				}
			}
		}
	}
}

// ready is a stretch in which a goroutine was ready to run.
type ready struct {
	timeline.Span
	call bool // it came from a call
}

// readyIn returns when the own goroutines of a request were ready to run.
func (c *Case) readyIn(request int) (out []ready) {
	t := c.A.Timeline()
	for _, p := range c.A.Found().Requests[c.A.Requests[request].Request].Parts {
		me := &t.Gs[p.G]
		for s := me.SegmentAt(p.Start + 1); s < me.Len() && me.Seg(s).Start < p.End; s++ {
			if x := me.Seg(s); x.Kind == timeline.Runnable {
				out = append(out, ready{timeline.Span{Start: max(x.Start, p.Start), End: min(x.End, p.End)}, s > 0 && me.Seg(s-1).Kind == timeline.Syscall})
			}
		}
	}
	return out
}

// queuedForP returns for how long requests were runnable on their own goroutines.
func (c *Case) queuedForP(requests []int) (q Queued) {
	for _, i := range requests {
		for _, x := range c.readyIn(i) {
			switch ns := float64(x.End - x.Start); {
			case x.call:
				q.After, q.Calls = q.After+ns, q.Calls+1
			default:
				q.Other, q.Others = q.Other+ns, q.Others+1
			}
		}
	}
	n := float64(max(1, len(requests)))
	return Queued{After: q.After / n, Other: q.Other / n, Calls: q.Calls / n, Others: q.Others / n}
}
