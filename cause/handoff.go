package cause

import (
	"iter"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Handoffs is what requests wait for a P that they lost in a system call or in C.
type Handoffs struct {
	// Keys are the free pieces of it, and where calls of requests keep the Ps, of
	// all waits behind requests.
	Keys []blame.KeyID
	// Tail and Typical are its mean per request, in nanoseconds, Calls how many
	// waits after calls a tail request has on average.
	Tail, Typical, Calls float64
	// After and Other are the mean lengths of the tail requests' waits for a P
	// after such a call and for any other reason, in nanoseconds; 0 if none.
	After, Other float64
	// Held is the part of the Ps' time during slow requests, where they had a
	// goroutine, in which it was in a call and kept the P.
	Held float64
}

const (
	// longer is how much longer a request must wait for a P after a call than
	// otherwise, if losing the P is to blame: who merely meets busy Ps waits alike.
	longer = 2
	// mostlyHeld is the part of the Ps' time in calls from which on calls keep
	// requests from the Ps, not what is executed.
	mostlyHeld = 0.5
)

// Lead reports whether requests wait for a P because of calls, their own or others'.
func (h *Handoffs) Lead() bool {
	return len(h.Keys) > 0 && (h.After >= longer*h.Other || h.Kept())
}

// Kept reports whether it is calls that keep the Ps, not what these execute.
func (h *Handoffs) Kept() bool { return h.Held >= mostlyHeld }

// Handoffs sums up the waits for a P after calls.
func (c *Case) Handoffs() *Handoffs {
	h := &Handoffs{Keys: c.Free(func(k blame.Key) bool {
		return k.Flags&blame.LostP != 0 && k.Flags&blame.Silent == 0 && (k.Kind == blame.Behind || k.Kind == blame.LateWakeup)
	})}
	h.Held = c.heldInCalls()
	p := c.Processors()
	kept := h.Kept() && p.Winner == Own
	if len(h.Keys) == 0 && !kept {
		return h
	}
	after, calls, other, others := c.queuedForP(c.Tail)
	afterTypical, _, otherTypical, _ := c.queuedForP(c.Typical)
	h.After, h.Calls = after/max(calls, 1), calls/float64(max(1, len(c.Tail)))
	h.Other = other / max(others, 1)
	if kept {
		// Who waits behind a call waits for its end, or for the runtime to notice it.
		h.Keys = append(h.Keys, without(c.stillFree(p.Claim), h.Keys)...)
		after, afterTypical = after+other, afterTypical+otherTypical
	}
	h.Tail = after / float64(max(1, len(c.Tail)))
	h.Typical = afterTypical / float64(max(1, len(c.Typical)))
	return h
}

// heldInCalls is Handoffs.Held.
func (c *Case) heldInCalls() float64 {
	var held, all timeline.Time
	for s, d := range c.tailStints() {
		all += d
		if s.What == timeline.InSyscall {
			held += d
		}
	}
	return float64(held) / float64(max(all, 1))
}

// Keeper returns the place of the calls that kept the Ps longest during slow requests.
func (c *Case) Keeper() (where *Place) {
	t := c.A.Timeline()
	sums := map[Place]timeline.Time{}
	var most timeline.Time
	for s, d := range c.tailStints() {
		me := &t.Gs[s.G]
		i := me.SegmentAt(s.End)
		if s.What != timeline.InSyscall || i == len(me.Segs) {
			continue
		}
		f, ok := request.AppFrame(t.Stacks.Frames(me.Segs[i].Stack))
		if !ok {
			continue
		}
		at := Place{Function: f.Func, File: f.File, Line: f.Line}
		if sums[at] += d; sums[at] > most {
			most, where = sums[at], &at
		}
	}
	return where
}

// tailStints yields the stints in which the Ps had a goroutine, in its own code or in
// a call, and how long each overlaps slow requests, if it does.
func (c *Case) tailStints() iter.Seq2[*timeline.Stint, timeline.Time] {
	return func(yield func(*timeline.Stint, timeline.Time) bool) {
		spans := c.tailSpans()
		for i := range c.A.Timeline().Procs {
			stints := c.A.Timeline().Procs[i].Stints
			for k := range stints {
				s := &stints[k]
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

// queuedForP returns for how long requests were runnable on their own goroutines,
// after calls and otherwise, and how often, summed over them.
func (c *Case) queuedForP(requests []int) (after, calls, other, others float64) {
	t := c.A.Timeline()
	for _, i := range requests {
		for _, p := range c.A.Found().Requests[c.A.Requests[i].Request].Parts {
			me := &t.Gs[p.G]
			for s := me.SegmentAt(p.Start + 1); s < len(me.Segs) && me.Segs[s].Start < p.End; s++ {
				x := &me.Segs[s]
				switch ns := float64(min(x.End, p.End) - max(x.Start, p.Start)); {
				case x.Kind != timeline.Runnable:
				case s > 0 && me.Segs[s-1].Kind == timeline.Syscall:
					after, calls = after+ns, calls+1
				default:
					other, others = other+ns, others+1
				}
			}
		}
	}
	return after, calls, other, others
}
