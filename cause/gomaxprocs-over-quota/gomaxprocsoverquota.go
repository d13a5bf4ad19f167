// Package gomaxprocsoverquota is the cause gomaxprocs-over-quota.
package gomaxprocsoverquota

import (
	"fmt"
	"strings"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "gomaxprocs-over-quota", Title: "GOMAXPROCS above the CPU quota", Rank: 110, Layer: cause.Host, Unwanted: true,
	What:       "The process has more Ps than its CPU quota feeds: in a burst they use up the quota of a period at once, and the kernel stops every thread until the next. Or it has more Ps than CPUs, and its threads stand in each other's way.",
	MustHold:   "the kernel's throttling counters grew while the slow requests waited, the mean use is far below the quota, and there are more Ps than max(2, quota); or, where the quota takes less than that, more Ps than CPUs and threads that wait for a CPU behind the process's own",
	MustNot:    "demand at the quota; slow requests while nothing is throttled",
	LookAlikes: []string{"quota-too-low", "host-contention"},
	Fix: []string{
		"build with Go 1.25 or newer and go 1.25 in go.mod: GOMAXPROCS then follows the quota",
		"drop explicit settings: GOMAXPROCS in the environment or in code, GODEBUG=containermaxprocs=0",
		"set GOMAXPROCS to the quota, rounded up, if the limit sits on a parent cgroup (a pod), which Go does not look at",
	},
	Verify: "set GOMAXPROCS to the quota, rounded up, in an interleaved A/B: fewer throttled periods, p99 and this share fall together",
	Judge:  judge,
}

// tooMany is how many Ps for every CPU are too many where a quota hardly stops the process. With one
// for every CPU threads only wait for each other after system calls.
const tooMany = 2

func judge(c *cause.Case) *cause.Judgement {
	if c.Host == nil {
		return cause.Untested // host-contention speaks for the three
	}
	j := &cause.Judgement{Keys: c.StoppedByQuota()}
	t, q := c.Throttling(), c.Queue()
	if unused := t == nil || t.Throttled == 0; c.GOMAXPROCS() >= tooMany*c.Host.CPUs() &&
		(unused || c.Watched() && !c.Stopped() && q.Own > q.Quota) {
		return oversubscribed(c, j)
	}
	switch j.With(c.ThrottledEvidence()); {
	case t == nil && !c.Host.Static.Ancestors:
		return cause.Untested
	case t == nil:
		return j
	}
	j.Subject = fmt.Sprintf("bursts on %d Ps used up the quota of %.2g CPUs (cgroup %s), and the kernel stopped the process", c.GOMAXPROCS(), t.Quota, t.Group.Path)
	j.Alike = []string{"quota-too-low"}
	j.Record = "longer: the load's mean decides whether the quota or its use in bursts is to blame"
	use := t.UseEvidence()
	switch {
	case t.ByOthers(), t.Use >= cause.FullUse:
		use.Holds = cause.No
	case t.Use >= cause.BurstyUse:
		use.Holds = cause.Unknown
	}
	if use.Holds == cause.Yes {
		use.Text += ": the bursts used it up"
	}
	return j.With(
		cause.Evidence{
			Text:    fmt.Sprintf("%d Ps, and %d are enough to use the quota", c.GOMAXPROCS(), t.Ps()),
			Holds:   cause.Of(c.GOMAXPROCS() > t.Ps()),
			Decides: true, Number: float64(c.GOMAXPROCS()),
		}, use, why(c))
}

// oversubscribed judges more Ps than CPUs where no quota stops the process, or one that takes less of the slow
// requests than its own threads do.
func oversubscribed(c *cause.Case, j *cause.Judgement) *cause.Judgement {
	d, own := c.Host.Delayed(), c.Host.Crowd().Own
	j.Fix = []string{"leave GOMAXPROCS to the runtime, or set it to the CPUs that the process may use"}
	j.Subject = fmt.Sprintf("%d Ps share %d CPUs, and their threads stand in each other's way", c.GOMAXPROCS(), c.Host.CPUs())
	if q := c.Queue(); c.Watched() {
		kept := q.Own
		j.Keys = c.WantedFrom(events.Crowded)
		if t := c.Throttling(); t == nil || t.Use < cause.BurstyUse { // else what the quota takes is its own
			kept += q.Quota
			j.Keys = append(j.Keys, c.WantedFrom(events.Stopped)...)
		}
		return j.With(q.Evidence(kept), why(c))
	}
	j.Keys = c.OffCPU()
	return j.With(
		cause.Evidence{
			Text:    fmt.Sprintf("threads waited for a CPU in %s of the time in which they wanted one during slow requests", cause.Pct(d)),
			Holds:   cause.Of(d >= cause.DelayedMin),
			Decides: true, Number: d,
		},
		cause.Evidence{
			Text:    fmt.Sprintf("the process itself used %s of the CPUs that it may use", cause.Pct(own)),
			Holds:   cause.Of(own >= 0.5),
			Decides: true, Number: own,
		}, why(c))
}

// why says which setting keeps GOMAXPROCS from following the quota, as far as
// the recording tells.
func why(c *cause.Case) cause.Evidence {
	e := cause.Evidence{Holds: cause.Yes}
	switch env := c.Target.Env; {
	case env["GOMAXPROCS"] != "":
		e.Text = fmt.Sprintf("GOMAXPROCS=%s is set in the environment", env["GOMAXPROCS"])
	case strings.Contains(env["GODEBUG"]+","+c.Target.DefaultGODEBUG, "containermaxprocs=0"):
		e.Text = "GODEBUG has containermaxprocs=0: from the environment, or from a go line below 1.25 in go.mod"
	case c.Target.Go != "":
		e.Text = fmt.Sprintf("built with %s; from 1.25 on GOMAXPROCS follows the quota of the innermost cgroup, unless it is set in code", c.Target.Go)
	default:
		e.Text, e.Holds = "why GOMAXPROCS does not follow the quota is unknown", cause.Unknown
	}
	return e
}
