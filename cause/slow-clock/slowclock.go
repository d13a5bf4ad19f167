// Package slowclock is the cause slow-clock.
package slowclock

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-clock", Title: "slow clock", Rank: 305, Layer: cause.Host,
	What:       "time.Now is a system call here, because the kernel's clock source cannot be read from user space or the vDSO is hidden: about a microsecond instead of 50 nanoseconds, and two of them for each call. Code that reads the clock very often becomes slow.",
	MustHold:   "a fifth of the slow requests' CPU samples or more is in time.Now and what it calls, and the kernel counts system calls that read the clock, or else the process spends at least half of that part of its CPU time in the kernel",
	MustNot:    "no such call where they were counted; else another stack full of system calls, that would explain the time in the kernel",
	LookAlikes: []string{"expensive-request", "slow-disk", "slow-cgo"},
	Fix: []string{
		"look at the clock source: /sys/devices/system/clocksource/clocksource0/current_clocksource should be tsc, or the hypervisor's own with a vDSO",
		"a kernel parameter, such as tsc=reliable where the machine's is, or another machine type",
		"read the clock less often: once per request or batch, and pass the time on",
		"check the sandbox: some hide the vDSO from the process",
	},
	Verify: "the same load on a host whose clock source is tsc, or with every second reading left out, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

const (
	// suspect is the part of the slow requests' CPU samples that must be in reading
	// the clock: with a vDSO it needs 15 times as many readings to get there.
	suspect = 0.2
	// kernel is the part of the clock's CPU time that must be found in the kernel. A
	// system call's way there and back counts as the user's.
	kernel = 0.5
	// few samples tell if all of them read the clock: were it half of the time, five of five would be once in 32 times.
	few = 5
	// nearlyAll is the part of the samples that read the clock from which on all that slow requests compute does.
	nearlyAll = 0.8
)

func judge(c *cause.Case) *cause.Judgement {
	keys := c.Free(func(k blame.Key) bool { return k.Kind == blame.CPU && k.Flags&blame.Clock != 0 })
	if len(keys) == 0 {
		return nil
	}
	own, whose := c.Clock(c.Tail), "the slow requests'"
	if own.Samples < cause.MinDoubt { // others compute for them, as a server in the same process does
		own, whose = c.ClockFor(keys), "the goroutines' that computed for them meanwhile"
	}
	part := own.Part(own.Clock)
	if part >= nearlyAll { // what computes without a sample does the same
		keys = cause.Union(keys, c.Free(c.OwnCode))
	}
	name := cause.PlaceName(own.Caller)
	return &cause.Judgement{
		Keys: keys, Where: own.Caller,
		Subject: fmt.Sprintf("they read the clock in %s, and here that is a system call", name),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("of %s %d CPU samples %s read the clock, most of them for %s", whose, own.Samples, cause.Pct(part), name),
				Holds: cause.Of(part >= suspect && own.Samples >= cause.MinDoubt || own.Clock == own.Samples && own.Clock >= few), Decides: true, Number: part,
			},
			called(c),
		},
		Alike: []string{"expensive-request"}, Record: "the system calls that read the clock: as root, on its host",
	}
}

// called says whether to read the clock is a system call, by the kernel's count of such
// calls, or else by the process's time in the kernel.
func called(c *cause.Case) cause.Evidence {
	if e, ok := c.CalledClock(); ok {
		return e
	}
	return inKernel(c)
}

// inKernel says whether the process was in the kernel while it read the clock. The
// time in the kernel is the whole process's, so its samples are compared with it.
func inKernel(c *cause.Case) cause.Evidence {
	all := c.Clock(nil)
	clock, calls := all.Part(all.Clock), all.Part(all.Calls)
	e := cause.Evidence{Decides: true, Number: clock}
	if c.Host == nil || c.Host.Tail.UserNS+c.Host.Tail.SystemNS < cause.MinDoubt*float64(c.Host.Static.TickNS) {
		e.Text = "whether reading the clock is a system call is unknown: no user and system time was recorded while the slow requests were under way"
		return e
	}
	u := c.Host.Tail
	system := u.SystemNS / (u.UserNS + u.SystemNS)
	e.Text = fmt.Sprintf("meanwhile the process spent %s of its CPU time in the kernel; of its samples %s read the clock, %s are in other system calls", cause.Pct(system), cause.Pct(clock), cause.Pct(calls))
	switch {
	case system < kernel*clock:
		e.Holds = cause.No
	case system-calls >= kernel*clock: // even if the other calls are all in the kernel
		e.Holds = cause.Yes
	case calls >= clock:
		e.Holds = cause.No
	}
	return e
}
