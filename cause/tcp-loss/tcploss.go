// Package tcploss is the cause tcp-loss.
package tcploss

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "tcp-loss", Title: "TCP loss", Rank: 304, Layer: cause.Network, Unwanted: true,
	What:       "TCP itself waits: what was sent to a peer got lost on the way and is sent again after 200 ms or more, or after a second while a connection is opened; or a small segment is held back until the peer acknowledges the one before, which it delays by 40 ms.",
	MustHold:   "waits for a peer that take 200 ms, or a second while connecting, or small multiples longer than usual, on a connection of many calls since the first of those held up, and segments that were sent again meanwhile, in numbers that fit; or waits that take 40 ms longer after two writes, on connections with TCP_NODELAY off",
	MustNot:    "waits of all lengths; no segments sent again, or TCP_NODELAY on (then the peer itself takes that long)",
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
	var d *cause.Delayed
	for _, by := range []cause.Delay{cause.Connecting, cause.HoldingBack, cause.Resending} {
		if d = c.Delayed(by); d.Hold() == cause.Yes {
			break
		}
	}
	if len(d.Keys) == 0 {
		return nil
	}
	waits := fmt.Sprintf("%d waits", len(d.Stalls))
	if len(d.Stalls) == 1 {
		waits = "one wait"
	}
	steps := cause.Evidence{
		Text: fmt.Sprintf("%s for a peer took about %s%s longer than usual ones (%s): %s of the time by which slow requests wait longer",
			waits, cause.Ms(d.Step), multiples[d.By], cause.Ms(d.Usual), cause.Pct(d.Part)),
		Holds: d.Hold(), Decides: true, Number: d.Part,
	}
	if steps.Holds == cause.Unknown {
		steps.Alike, steps.Record = []string{"slow-dependency"}, "for longer: the same again and again is no peer that was slow once"
	}
	j := &cause.Judgement{
		Keys: d.Keys, Where: d.Where, Via: d.Via,
		Subject:  fmt.Sprintf("they wait in %s for a peer, as long as TCP waits %s", cause.PlaceName(d.Where), before[d.By]),
		Evidence: []cause.Evidence{steps},
	}
	if steps.Holds == cause.No {
		return j
	}
	switch d.By {
	case cause.HoldingBack:
		j.Fix = []string{"write the message at once (one buffer, or bufio and one Flush), or leave TCP_NODELAY on, as it is in Go unless SetNoDelay(false) is called"}
		held, doubt := c.HeldBack()
		j = j.With(held).With(doubt...).With(cause.Evidence{
			Text:  fmt.Sprintf("%d of these waits followed on two writes or more", d.InParts),
			Holds: cause.Yes, Number: float64(d.InParts),
		})
	default:
		resent := c.Resent(d)
		// Whoever is slow behind the peer's kernel, this one opens connections at once.
		resent.Decides = d.By != cause.Connecting
		if steps.Holds == cause.Unknown && resent.Holds != cause.Yes { // so few are by chance
			j.Evidence[0].Holds = cause.No
			return j
		}
		j = j.With(resent)
	}
	return j.With(c.Punctual("the peer and the way to it", d.Keys))
}

// before is what ends each of the delays, multiples what there are of them.
var (
	before    = [...]string{"before it sends a lost segment again", "before it sends a lost segment again", "for a delayed acknowledgement before it sends the next small segment"}
	multiples = [...]string{", or two or three times that,", ", or two or three times that,", ""}
)
