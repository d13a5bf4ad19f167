// Package tcploss is the cause tcp-loss.
package tcploss

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "tcp-loss", Title: "TCP loss", Rank: 304, Layer: cause.Network,
	What:       "What was sent to a peer got lost on the way, and TCP waits before it sends it again: 200 ms and more in a connection, a second while one is opened.",
	MustHold:   "waits for a peer that take 200 ms, or a second while connecting, or small multiples longer than usual; segments that were sent again meanwhile, in numbers that fit",
	MustNot:    "waits of all lengths; no segments sent again (then the peer itself takes that long)",
	LookAlikes: []string{"slow-dependency", "timer-wait", "dial-per-request", "netpoll-starvation"},
	Fix: []string{
		"find where packets are dropped: counters of interfaces, queues, connection tracking and firewalls on the way, limits on bursts",
		"if opening a connection is what waits: the peer's queue of connections may be full (ListenOverflows in nstat of its machine), or nobody is at that address any more",
		"hedge, or a deadline below 200 ms with one retry on another connection",
	},
	Verify: "take a path without loss, or hedge after the usual p99, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	r := c.Resends(true)
	if asked := c.Resends(false); !r.Hold() && len(asked.Keys) > 0 {
		r = asked
	}
	if len(r.Keys) == 0 {
		return nil
	}
	steps := cause.Evidence{
		Text: fmt.Sprintf("%d waits for a peer took about %s, or two or three times that, longer than usual ones (%s): %s of the time by which slow requests wait longer. So long TCP waits before it sends again",
			len(r.Stalls), cause.Ms(r.Step), cause.Ms(r.Usual), cause.Pct(r.Part)),
		Holds: cause.Of(r.Hold()), Decides: true, Number: r.Part,
	}
	j := &cause.Judgement{
		Keys: r.Keys, Where: r.Where, Via: r.Via,
		Subject:  fmt.Sprintf("they wait in %s for a peer, as long as TCP waits before it sends a lost segment again", cause.PlaceName(r.Where)),
		Evidence: []cause.Evidence{steps},
	}
	if steps.Holds == cause.No {
		return j
	}
	resent := c.Resent(r)
	if r.Connect { // whoever is slow behind the peer's kernel, this one opens connections at once
		resent.Decides = false
	}
	return j.With(resent, c.Punctual("the peer and the way to it", r.NS))
}
