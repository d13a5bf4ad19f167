// Package latetimer is the cause late-timer.
package latetimer

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "late-timer", Title: "late timer", Rank: 501, Layer: cause.Scheduler, Unwanted: true,
	What: "It looks like a wait on purpose, but the time was over: all Ps were busy, so nobody ran the timer that ends it. " +
		"That a timer of less than a millisecond takes one in an idle process, always, is none of this.",
	MustHold:   "waits that only a timer ends, longer than they usually are at that place, after the last instant at which a P was idle or timers were looked for; more of them than waits for a P; somebody held the Ps",
	MustNot:    "idle Ps when the timer was due; waits that always take as long",
	LookAlikes: []string{"timer-wait", "cpu-hog", "goroutine-flood", "netpoll-starvation", "host-contention"},
	Fix: []string{
		"bound how many background goroutines run at once to GOMAXPROCS-1, in chunks of at most 100 us",
		"move the background work to a process of its own, or lower its threads' priority",
		"wait less often: each wait in a request may be late again",
	},
	Verify: "pause the background work in an interleaved A/B: p99 and this share fall together, while the waits stay as long as they are meant to be",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	w := c.Winner()
	if w != cause.Hog && w != cause.Flood && w != cause.Own {
		return nil
	}
	j := c.Starved(w, cause.Timer)
	if j != nil {
		j.Subject = fmt.Sprintf("timers that they wait for were due while %s held all Ps: nobody ran them", c.Culprit(j.Where))
	}
	return j
}
