package cause

import (
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/timeline"
)

// HostView is what the host's evidence says about a case; nil if there is none.
// The trace's clock on Linux is CLOCK_MONOTONIC, the host evidence's too.
type HostView struct {
	*host.Recording
	// Whole, Tail and Rest are the usage over the part of the recording that the
	// trace covers, over the slow requests, and over the time without one.
	Whole, Tail, Rest host.Usage
}

// onHost aligns the host's evidence with a case.
func (c *Case) onHost(r *host.Recording) {
	if r == nil || len(r.Samples) < 2 {
		return
	}
	t := c.A.Timeline()
	h := &HostView{Recording: r}
	tail := c.tailSpans()
	h.Whole = r.Over([]host.Span{{From: int64(t.Start), To: int64(t.End)}})
	if h.Whole.WallNS == 0 {
		return // another clock
	}
	h.Tail = r.Over(hostSpans(tail))
	h.Rest = r.Over(hostSpans(outside(tail, t.Start, t.End)))
	c.Host = h
}

func hostSpans(spans []timeline.Span) []host.Span {
	out := make([]host.Span, len(spans))
	for i, s := range spans {
		out[i] = host.Span{From: int64(s.Start), To: int64(s.End)}
	}
	return out
}

// outside returns the parts of [from, to] that spans, in order, do not cover.
func outside(spans []timeline.Span, from, to timeline.Time) (out []timeline.Span) {
	for _, s := range spans {
		if s.Start > from {
			out = append(out, timeline.Span{Start: from, End: min(s.Start, to)})
		}
		from = max(from, s.End)
	}
	if from < to {
		out = append(out, timeline.Span{Start: from, End: to})
	}
	return out
}

// Delayed returns the part of the time in which threads wanted a CPU, during the
// slow requests, in which they waited for one.
func (h *HostView) Delayed() float64 {
	return h.Tail.DelayNS / max(1, h.Tail.DelayNS+h.Tail.RunNS)
}
