// Package acceptqueue is the cause accept-queue.
package acceptqueue

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "accept-queue", Title: "accept queue", Rank: 595, Layer: cause.Network,
	What: "Connections wait in the kernel until the process accepts them, because the goroutine that does is busy with something else, or waits; when their queue is full, clients try again after a second. " +
		"No request's own time contains that: it is looked for where all else is well, where slow requests want a CPU right behind it, and where none is accepted.",
	MustHold:   "connections that are there already when the goroutine that accepts comes back, in bursts after it was away; connections that the kernel sees waiting, or attempts that found no room; or connections in each look of which none is accepted in all of the recording",
	MustNot:    "a goroutine that waits for connections; requests that are late once the process sees them, but for those that all want a CPU then, and where none is accepted; a goroutine that accepts late because it has no CPU itself",
	LookAlikes: []string{"slow-client", "host-contention", "overload", "dial-per-request", "tcp-loss"},
	Fix: []string{
		"accept and nothing else in that loop: handshakes, lookups and log lines belong to the goroutine of the connection",
		"if it waits for a limit on connections: raise it, close idle ones sooner, or refuse at once instead of letting them wait",
		"keep connections alive, so that fewer are accepted; a longer queue (net.core.somaxconn) helps against bursts only",
	},
	Verify: "move that work behind Accept in an interleaved A/B: the clients' p99 falls, and connections wait no more",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	if c.Contrast != cause.BeforeContrast {
		return cause.Untested
	}
	q := c.AcceptQueue()
	if q == nil {
		return nil
	}
	j := &cause.Judgement{Where: q.Where, Subject: "connections wait until they are accepted"}
	if q.Stuck > 0 {
		j.Subject = "connections wait, and none is accepted"
		j.With(cause.Evidence{
			Text:  fmt.Sprintf("in each look %d connections or more waited to be accepted, and none was in all of the recording", q.Stuck),
			Holds: cause.Yes, Decides: true, Number: float64(q.Stuck),
		})
	} else {
		seen := c.QueueSeen(q)
		if seen.Holds == cause.Unknown && q.Runs < cause.Pattern { // a stop of the machine, once
			return nil
		}
		j.With(cause.Evidence{
			Text:  fmt.Sprintf("%d of %d connections had been there for a while when they were accepted, %s on average", q.Found, q.Accepted, cause.Ms(q.Mean)),
			Holds: cause.Of(q.Found > 0 || q.Dropped > 0), Decides: true, Number: float64(q.Found) / float64(q.Accepted),
		}, seen)
	}
	if q.Instead != "" {
		j.Subject += ", while who accepts them waits in " + q.Instead
	}
	if q.Dropped > 0 {
		j.Evidence = append(j.Evidence, cause.Evidence{
			Text:  fmt.Sprintf("%d attempts to connect found the queue full", q.Dropped),
			Holds: cause.Yes, Number: float64(q.Dropped),
		})
	}
	return j
}
