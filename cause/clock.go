package cause

import (
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// ClockReads counts CPU profile samples.
type ClockReads struct {
	// Samples are all, Clock those that read the clock, Calls those in other system
	// calls.
	Samples, Clock, Calls int
	// Caller is who reads the clock most, nil if nobody does or the stacks do not say.
	Caller *Place
}

// Part returns n as a part of all samples.
func (r ClockReads) Part(n int) float64 { return float64(n) / float64(max(1, r.Samples)) }

// Clock counts the samples of requests; without any, those of the whole process
// while slow requests were under way.
func (c *Case) Clock(requests []int) (r ClockReads) {
	t := c.A.Timeline()
	of := func(s timeline.Sample) bool { return c.InTail(s.Time-1, s.Time) > 0 }
	if requests != nil {
		of = c.sampleOf(requests)
	}
	callers := map[Place]int{}
	for _, s := range t.Samples {
		if !of(s) {
			continue
		}
		r.Samples++
		frames := t.Stacks.Frames(s.Stack)
		caller, reads := blame.ReadsClock(frames)
		if !reads {
			if len(frames) > 0 && calls(frames[0].Func) {
				r.Calls++
			}
			continue
		}
		r.Clock++
		f, ok := request.AppFrame(caller)
		if !ok {
			continue
		}
		p := Place{Function: f.Func, File: f.File, Line: f.Line}
		if callers[p]++; r.Caller == nil || callers[p] > callers[*r.Caller] {
			r.Caller = &p
		}
	}
	return r
}

// calls reports whether a function is one in which the runtime enters the kernel for
// Go code (internal/runtime/syscall and syscall, go1.22 to go1.26).
func calls(f string) bool {
	return strings.HasSuffix(f, "runtime/syscall.Syscall6") || strings.HasPrefix(f, "syscall.") || strings.HasPrefix(f, "runtime/internal/syscall.")
}
