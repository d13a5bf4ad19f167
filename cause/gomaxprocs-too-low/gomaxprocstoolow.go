// Package gomaxprocstoolow is the cause gomaxprocs-too-low.
package gomaxprocstoolow

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "gomaxprocs-too-low", Title: "GOMAXPROCS too low", Rank: 519, Layer: cause.Scheduler,
	What:       "Goroutines queue for Ps while CPUs that the process may use are idle.",
	MustHold:   "requests queue for a P behind other requests; fewer Ps than CPUs; the machine has idle CPUs meanwhile",
	MustNot:    "a CPU quota that the Ps follow, throttling; somebody else than the requests who holds the Ps",
	LookAlikes: []string{"overload", "cpu-hog", "quota-too-low"},
	Fix: []string{
		"remove the setting of GOMAXPROCS (environment, or runtime.GOMAXPROCS in code): by default there is a P for every CPU",
		"set it to the number of CPUs that the process may use",
	},
	Verify: "raise GOMAXPROCS to the number of CPUs in an interleaved A/B: p99 and this share fall together, the machine's idle time too",
	Judge:  judge,
}

// idle is the part of the machine's CPU time that must have been idle: one CPU
// of a four-CPU machine.
const idle = 0.25

func judge(c *cause.Case) *cause.Judgement {
	if c.Host == nil {
		return cause.Untested
	}
	if c.GOMAXPROCS() >= c.Host.CPUs() {
		return &cause.Judgement{Evidence: []cause.Evidence{{
			Text:  fmt.Sprintf("there is a P for each of the %d CPUs that the process may use", c.Host.CPUs()),
			Holds: cause.No, Decides: true, Number: float64(c.GOMAXPROCS()),
		}}}
	}
	j := c.Starved(cause.Own, cause.Ready)
	if j == nil {
		return nil
	}
	j.Subject = fmt.Sprintf("ready requests queue for one of %d Ps while CPUs are idle", c.GOMAXPROCS())
	j.Where = nil
	free := c.Host.Idle()
	limit := c.ThrottledEvidence()
	limit.Record, limit.Alike = "", nil
	switch t := c.Throttling(); {
	case t != nil: // the Ps follow it, or something else is wrong
		limit.Holds = cause.Of(limit.Holds == cause.No && float64(c.GOMAXPROCS()) < t.Quota)
	case limit.Holds == cause.No:
		limit.Holds = cause.Yes
	default:
		limit.Alike, limit.Record = []string{"overload", "quota-too-low"}, "the quotas of the ancestor cgroups, on the node"
	}
	spare, whose := cause.Of(free >= idle), "their"
	if !c.Host.OwnCPUs() {
		spare, whose = cause.Unknown, "the machine's CPU"
	}
	if !c.Host.Machine {
		spare = cause.Unknown
	}
	return j.With(
		cause.Evidence{
			Text:    fmt.Sprintf("%d Ps, but the process may use %d CPUs, and %s of %s time was idle during slow requests", c.GOMAXPROCS(), c.Host.CPUs(), cause.Pct(free), whose),
			Holds:   spare,
			Decides: true, Number: free,
			Record: "the idle time of the CPUs that the process may use", Alike: []string{"overload"},
		}, limit)
}
