package cause

import (
	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/timeline"
)

// Handoffs is what requests wait for a P that they lost in a system call or in C.
type Handoffs struct {
	// Keys are the free pieces of it.
	Keys []blame.KeyID
	// Tail and Typical are its mean per request, in nanoseconds, Calls how many
	// such waits a tail request has on average.
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
	return len(h.Keys) > 0 && (h.After >= longer*h.Other || h.Held >= mostlyHeld)
}

// Handoffs sums up the waits for a P after calls.
func (c *Case) Handoffs() *Handoffs {
	h := &Handoffs{Keys: c.Free(func(k blame.Key) bool {
		return k.Flags&blame.LostP != 0 && k.Flags&blame.Silent == 0 && (k.Kind == blame.Behind || k.Kind == blame.LateWakeup)
	})}
	if len(h.Keys) == 0 {
		return h
	}
	var calls, others float64
	h.Tail, calls, h.Other, others = c.queuedForP(c.Tail)
	h.After, h.Calls = h.Tail/max(calls, 1), calls/float64(max(1, len(c.Tail)))
	h.Other /= max(others, 1)
	h.Tail /= float64(max(1, len(c.Tail)))
	h.Typical, _, _, _ = c.queuedForP(c.Typical)
	h.Typical /= float64(max(1, len(c.Typical)))
	h.Held = c.heldInCalls()
	return h
}

// heldInCalls is Handoffs.Held.
func (c *Case) heldInCalls() float64 {
	var held, all timeline.Time
	spans := c.tailSpans()
	for i := range c.A.Timeline().Procs {
		for _, s := range c.A.Timeline().Procs[i].Stints {
			if s.What != timeline.Go && s.What != timeline.InSyscall {
				continue
			}
			d := timeline.Overlap(spans, s.Start, s.End)
			all += d
			if s.What == timeline.InSyscall {
				held += d
			}
		}
	}
	return float64(held) / float64(max(all, 1))
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
