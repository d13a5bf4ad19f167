// Package quotatoolow is the cause quota-too-low.
package quotatoolow

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "quota-too-low", Title: "CPU quota too low", Rank: 120, Layer: cause.Host, Unwanted: true,
	What:       "The process needs more CPU than the quota of its cgroup grants: when it is used up, the kernel stops every thread until the next period.",
	MustHold:   "the kernel's throttling counters grew while the slow requests waited; the process uses the quota up, or could not use less at a time with fewer Ps",
	MustNot:    "more Ps than the quota needs, and a mean use far below it (then the bursts are the Ps' doing)",
	LookAlikes: []string{"gomaxprocs-over-quota", "host-contention", "expensive-request", "cpu-hog"},
	Fix: []string{
		"raise the CPU limit of the container (the named cgroup), or remove it and keep the request",
		"use less CPU: start with the functions that the CPU profile names",
		"spread bursts: bound how much work runs at a time",
	},
	Verify: "double the quota in an interleaved A/B: the throttling counters stop growing, p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	if c.Host == nil {
		return cause.Untested // host-contention speaks for the three
	}
	j := &cause.Judgement{
		Keys:    c.StoppedByQuota(),
		Subject: "the CPU quota stopped the process",
	}
	t := c.Throttling()
	switch j.With(c.ThrottledEvidence()); {
	case t == nil && !c.Host.Static.Ancestors:
		return cause.Untested
	case t == nil:
		return j
	}
	j.Subject = fmt.Sprintf("the quota of %.2g CPUs (cgroup %s) was used up, and the kernel stopped the process", t.Quota, t.Group.Path)
	j.Alike = []string{"gomaxprocs-over-quota"}
	j.Record = "longer: the load's mean decides whether the quota or its use in bursts is to blame"
	e := t.UseEvidence()
	if t.ByOthers() {
		j.Subject = fmt.Sprintf("the quota of %.2g CPUs (cgroup %s) was used up, mostly by others in that cgroup, and the kernel stopped the process", t.Quota, t.Group.Path)
		j.Fix = []string{fmt.Sprintf("see who else is in cgroup %s: systemd-cgtop, or cgroup.procs of it and of those below it. A sidecar or a child process that uses the quota wants a limit of its own, or a place outside", t.Group.Path)}
		return j.With(e)
	}
	e.Text += fmt.Sprintf("; %d Ps, by itself Go 1.25 and later has %d for it", c.GOMAXPROCS(), t.Ps())
	if c.GOMAXPROCS() > t.Ps() {
		switch {
		case t.Use < cause.BurstyUse:
			e.Holds = cause.No
		case t.Use < cause.FullUse:
			e.Holds = cause.Unknown
		}
	}
	return j.With(e)
}
