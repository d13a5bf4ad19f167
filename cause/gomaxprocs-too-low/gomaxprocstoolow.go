// Package gomaxprocstoolow is the cause gomaxprocs-too-low.
package gomaxprocstoolow

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "gomaxprocs-too-low", Title: "GOMAXPROCS too low", Rank: 519, Layer: cause.Scheduler,
	What:       "Goroutines queue for Ps while CPUs that the process may use are idle, or are left to others without a contest.",
	MustHold:   "requests queue for a P behind other requests; fewer Ps than CPUs; the machine has idle CPUs meanwhile, or others have them and the process's threads hardly waited for those that they could use",
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

// contested is how long the process's threads may wait for a CPU, as a part of how long requests wait
// for a P, where the others' threads have the CPUs that it has no P for: the kernel divides CPUs by
// threads that want them, so that each P more has a part of one. Where they wait longer there is none
// to be had.
const contested = 0.5

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
	spare, whose, left := cause.Of(free >= idle), "their", ""
	others := 1 - free - c.Host.Tail.RunNS/max(1, c.Host.Tail.WallNS)/float64(max(1, c.Host.CPUs()))
	if spare == cause.No && others >= idle && c.Watched() && c.Outrun() < contested*c.Sum(j.Keys) {
		spare = cause.Yes
		left = fmt.Sprintf("; others had the rest, but not in its way: its threads waited for a CPU for %s of a slow request more than of others", cause.Ms(c.Outrun()))
		j.Subject = fmt.Sprintf("ready requests queue for one of %d Ps on %d CPUs", c.GOMAXPROCS(), c.Host.CPUs())
	}
	if !c.Host.OwnCPUs() {
		spare, whose, left = cause.Unknown, "the machine's CPU", ""
	}
	if !c.Host.Machine {
		spare, left = cause.Unknown, ""
	}
	return j.With(
		cause.Evidence{
			Text:    fmt.Sprintf("%d Ps, but the process may use %d CPUs, and %s of %s time was idle during slow requests%s", c.GOMAXPROCS(), c.Host.CPUs(), cause.Pct(free), whose, left),
			Holds:   spare,
			Decides: true, Number: free,
			Record: "the idle time of the CPUs that the process may use", Alike: []string{"overload"},
		}, limit)
}
