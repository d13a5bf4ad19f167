// Package cpuhog is the cause cpu-hog.
package cpuhog

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "cpu-hog", Title: "CPU hog", Rank: 511, Layer: cause.Scheduler, Computes: true,
	What:       "A few goroutines compute for long and hold the Ps. Requests that are ready to run wait for a P. It may be work for few other requests, which is much more than that of those that wait, while the Ps are idle for most of the recording.",
	MustHold:   "all Ps busy while requests are ready; since the backlog began they executed one class with long bursts, which really was on a CPU",
	MustNot:    "an idle P; threads kept from the CPU (then it is the host or the quota)",
	LookAlikes: []string{"host-contention", "gc-workers", "goroutine-flood", "overload", "netpoll-starvation", "late-timer"},
	Fix: []string{
		"bound how many of them run at once to GOMAXPROCS-1, in chunks of at most 100 us",
		"move the computation to a process of its own, or lower its threads' priority",
		"compute less: cache, precompute, sample",
	},
	Verify: "pause the computation in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	j := c.Starved(cause.Hog, cause.Ready)
	if j != nil {
		j.Subject = fmt.Sprintf("ready requests queue for a P behind %s, which computes for long", c.Culprit(j.Where))
		j.Evidence = slices.Concat(j.Evidence, c.StrangeEvidence(c.Processors().Class), c.KeptEvidence())
	}
	return j
}
