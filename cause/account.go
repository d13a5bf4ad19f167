package cause

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// account is where the time of the process's threads went in some parts of the
// recording, by the trace and by the kernel, in nanoseconds.
type account struct {
	wall float64
	// run is how long goroutines ran, inC how long they were in C, called how long in
	// other system calls, summed over goroutines.
	run, inC, called float64
	// cpu is the CPU time of all threads, stolen what the hypervisor took from all CPUs.
	cpu, stolen float64
}

// accounts returns the account of the time with slow requests and that of the rest. It
// is of whole stretches between two looks at the process's CPU time: nothing is
// interpolated, so trace and kernel count the same time, to a tick of the scheduler.
func (c *Case) accounts() (tail, rest account) {
	h, t := c.Host, c.A.Timeline()
	var in, out []timeline.Span
	last := 0
	for i := range h.Samples {
		a, b := &h.Samples[last], &h.Samples[i]
		if b.RunNS == a.RunNS { // idle, or repeated: where it is costly to read, looks do not read it
			continue
		}
		last = i
		s := timeline.Span{Start: timeline.Time(a.MonoNS), End: timeline.Time(b.MonoNS)}
		if s.Start < t.Start || s.End > t.End {
			continue
		}
		x, spans := &rest, &out
		if timeline.Overlap(c.tailSpans(), s.Start, s.End) > 0 {
			x, spans = &tail, &in
		}
		*spans = append(*spans, s)
		x.wall += float64(s.End - s.Start)
		x.cpu += float64(b.RunNS - a.RunNS)
		x.stolen += float64(b.Machine.StealNS - a.Machine.StealNS)
	}
	inC := map[gotrace.StackID]bool{}
	for g := range t.Gs {
		me := &t.Gs[g]
		for _, s := range me.Segs() {
			var of func(x *account) *float64
			switch s.Kind {
			case timeline.Running:
				of = func(x *account) *float64 { return &x.run }
			case timeline.Syscall:
				c, known := inC[s.Stack]
				if !known {
					c = blame.CalledC(t.Stacks.Frames(s.Stack)) != ""
					inC[s.Stack] = c
				}
				of = func(x *account) *float64 { return &x.called }
				if c {
					of = func(x *account) *float64 { return &x.inC }
				}
			default:
				continue
			}
			*of(&tail) += float64(timeline.Overlap(in, s.Start, s.End))
			*of(&rest) += float64(timeline.Overlap(out, s.Start, s.End))
		}
	}
	return tail, rest
}

// inCMin is the part of the time in C that must be more than at other times, for what
// the CPU time beside it says to be about that.
const inCMin = 0.5

// ComputesInC says whether calls into C were on a CPU while slow requests were under
// way: then the process has CPU time beyond what its goroutines ran. Of both, and of
// the calls, it takes what is more than at other times, for the kernel and the
// scheduler take CPU time too; whatever else grew counts against it. It is Yes or
// Unknown: C that waits and C that is kept from a CPU look the same here.
func (c *Case) ComputesInC() (e Evidence) {
	if c.Host == nil {
		return e
	}
	tail, rest := c.accounts()
	if tail.wall == 0 || rest.wall == 0 {
		return e
	}
	scale := tail.wall / rest.wall
	calls := tail.inC - rest.inC*scale
	cpu := tail.cpu - rest.cpu*scale
	for _, other := range []float64{tail.run - rest.run*scale, tail.called - rest.called*scale, tail.stolen - rest.stolen*scale} {
		cpu -= max(0, other)
	}
	part := cpu / max(calls, 1)
	if calls < inCMin*tail.inC || part < OnCPUMin {
		return e
	}
	return Evidence{
		Text:  fmt.Sprintf("the calls into C were on a CPU for %s of their time (CPU time of the process in which no Go code ran)", Pct(min(1, part))),
		Holds: Yes, Decides: true, Number: part,
	}
}
