// Package goroutineflood is the cause goroutine-flood.
package goroutineflood

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "goroutine-flood", Title: "goroutine flood", Rank: 510, Layer: cause.Scheduler, Computes: true,
	What:       "Very many goroutines, or timers, become ready at the same time. Each runs shortly, but requests queue behind all of them.",
	MustHold:   "since the backlog began the Ps executed a class of many members with short bursts, or the scheduler with its timers; assists for the garbage collector, if most of them are theirs, are among that",
	MustNot:    "few members with long bursts",
	LookAlikes: []string{"cpu-hog", "overload", "goroutine-leak"},
	Fix: []string{
		"spread the ticks: jitter each goroutine's timer",
		"one ticker and one loop over all items instead of a goroutine and timer for each",
		"bound how many run at once with a semaphore below GOMAXPROCS",
	},
	Verify: "add jitter of one period in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	j := c.Starved(cause.Flood, cause.Ready)
	if j != nil {
		j.Subject = fmt.Sprintf("ready requests queue for a P behind very many goroutines of %s", c.Culprit(j.Where))
		j.Evidence = append(j.Evidence, c.KeptEvidence()...)
	}
	return j
}
