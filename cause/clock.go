package cause

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
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
	of := func(s timeline.Sample) bool { return c.InTail(s.Time-1, s.Time) > 0 }
	if requests != nil {
		of = c.sampleOf(requests)
	}
	return c.clockReads(of)
}

// ClockFor counts the samples of goroutines of the kinds that keys are of, while slow requests were under way.
func (c *Case) ClockFor(keys []blame.KeyID) ClockReads {
	of := map[blame.ClassID]bool{}
	for _, id := range keys {
		of[c.Key(id).Class] = true
	}
	return c.clockReads(func(s timeline.Sample) bool {
		return of[c.A.ClassAt(s.G, s.Time)] && c.InTail(s.Time-1, s.Time) > 0
	})
}

// clockReads counts some of the samples.
func (c *Case) clockReads(of func(timeline.Sample) bool) (r ClockReads) {
	t := c.A.Timeline()
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

// CalledClock says whether to read the clock is a system call, by the kernel's own count of
// such calls. ok is false where it was not taken, or says nothing about what the
// samples show.
func (c *Case) CalledClock() (e Evidence, ok bool) {
	r := c.kernel.Readings
	if r == nil {
		return e, false
	}
	in := c.clockReads(func(s timeline.Sample) bool { return int64(s.Time) > r.FromNS && int64(s.Time) <= r.ToNS })
	span := float64(r.ToNS-r.FromNS) / 1e6
	if r.Calls == 0 && in.Samples > 0 { // the runtime itself reads it whenever it schedules
		return Evidence{Text: fmt.Sprintf("to read the clock is no system call here: the kernel counted none in %.0f ms", span), Holds: No, Decides: true}, true
	}
	part := float64(r.NS) / (SamplePeriod * float64(max(1, in.Clock)))
	e = Evidence{
		Text: fmt.Sprintf("in %.0f ms the kernel counted %d system calls that read the clock, %.2f us each without the way there and back, %s of the time of the %d samples that read it then",
			span, r.Calls, float64(r.NS)/1e3/float64(max(1, r.Calls)), Pct(part), in.Clock),
		Decides: true, Number: part,
	}
	switch {
	case in.Clock < clockSamples:
		return byTheRuntime(r, span)
	case part >= clockInKernel:
		e.Holds = Yes
	case part < clockElsewhere:
		e.Holds = No
	default:
		return e, false
	}
	return e, true
}

// byTheRuntime says that to read the clock is a system call because most calls whose stack is known are made by the functions
// that do without where they can. ok is false without stacks, and if most calls are somebody's who makes them himself.
func byTheRuntime(r *events.Readings, span float64) (e Evidence, ok bool) {
	var all, its int64
	name := ""
	for _, c := range r.Callers {
		if len(c.Stack) == 0 {
			continue
		}
		all += c.N
		if blame.IsClock(c.Stack[0]) {
			its += c.N
			name = cmp.Or(name, c.Stack[0])
		}
	}
	if 2*its <= all {
		return e, false
	}
	return Evidence{
		Text:  fmt.Sprintf("in %.0f ms the kernel counted %d system calls that read the clock, most of them by %s, which makes none where it can do without", span, r.Calls, name),
		Holds: Yes, Decides: true, Number: float64(its) / float64(all),
	}, true
}

const (
	// clockInKernel is the part of the CPU time of reading the clock that is spent in the
	// kernel, at least, if it is read by system calls; the rest is the way there and back.
	// Calls that return at once spend 0.35 of the 0.6 us there (capture/kernel, 6.18).
	clockInKernel = 0.1
	// clockElsewhere is the part below which the calls that were counted are others than
	// those that the samples show.
	clockElsewhere = 0.02
	// clockSamples is how many there must be to compare: with four, their time is known to
	// a half, and what it decides between is a factor of ten.
	clockSamples = 4
)

// calls reports whether a function is one in which the runtime enters the kernel for
// Go code (internal/runtime/syscall and syscall, go1.22 to go1.26).
func calls(f string) bool {
	return strings.HasSuffix(f, "runtime/syscall.Syscall6") || strings.HasSuffix(f, "runtime/syscall/linux.Syscall6") || strings.HasPrefix(f, "syscall.") || strings.HasPrefix(f, "runtime/internal/syscall.")
}
