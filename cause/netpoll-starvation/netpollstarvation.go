// Package netpollstarvation is the cause netpoll-starvation.
package netpollstarvation

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "netpoll-starvation", Title: "network poller starved", Rank: 500, Layer: cause.Scheduler, Computes: true, Unwanted: true,
	What:       "It looks like a slow dependency, but the reply was in: all Ps were busy, so nobody polled the network or ran the goroutine that waited for it.",
	MustHold:   "network waits that end after the last instant at which a P was idle or the network polled, more of them than waits for a P; somebody held the Ps",
	MustNot:    "idle Ps during the wait",
	LookAlikes: []string{"slow-dependency", "cpu-hog", "goroutine-flood", "overload"},
	Fix: []string{
		"bound how many background goroutines run at once to GOMAXPROCS-1, in chunks of at most 100 us",
		"move the background work to a process of its own, or lower its threads' priority",
		"spread ticks of many goroutines over time",
	},
	Verify: "pause the background work in an interleaved A/B: p99 and this share fall together, while the dependency's own latency stays",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	w := c.Winner()
	if w != cause.Hog && w != cause.Flood && w != cause.Own {
		return nil
	}
	j := c.Starved(w, cause.Reply)
	if j != nil {
		j.Subject = fmt.Sprintf("replies waited unread while %s held all Ps: nobody polled the network", c.Culprit(j.Where))
	}
	return j
}
