// Package slowdependency is the cause slow-dependency.
package slowdependency

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-dependency", Title: "slow dependency", Rank: 600, Layer: cause.Network, Varies: true,
	What:       "A peer that the request calls over the network answers late.",
	MustHold:   "waits for the network that ended while a P was idle or the network had been polled; threads run when they should; concentrated on one call",
	MustNot:    "all Ps busy at the end of the wait; retransmissions; threads kept from the CPU, also those of a peer on this machine; slow requests wait for as many rounds of one worker as typical ones, and no longer ones: they had just missed one; answers that are late only while others connect to the peer again and again",
	LookAlikes: []string{"netpoll-starvation", "tcp-loss", "pool-exhausted", "host-contention", "slow-dns", "retry-storm", "slow-client"},
	Fix: []string{
		"look at the peer: its own p99 for these calls, its slow log",
		"a deadline below the SLO, and a fall-back",
		"hedge: send a second request after the usual p95 and take the first answer",
	},
	Verify: "answer these calls from a stub or a cache in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// failsAt is the part of the usual time of a call below which many in a row may be one call that fails, made
// again and again: who asks for one item after the other asks for the same kind of thing each time.
const failsAt = 0.5

func judge(c *cause.Case) *cause.Judgement {
	keys := c.PeerWaits()
	if len(keys) == 0 {
		return nil
	}
	site, most := cause.TopBy(c, keys, c.CallSite)
	where, called := c.Caller(site, keys, c.CallSite)
	at := c.SiteName(site)
	if where != nil {
		at = cause.PlaceName(where)
	}
	if called != "" {
		called = ", called by " + called
	}
	network := c.Sum(keys)
	there := min(1, most/max(network, 1)) // typical requests may wait longer elsewhere
	told := c.Told(keys)
	ev := []cause.Evidence{
		{
			Text:  fmt.Sprintf("%s of these waits are in %s%s", cause.Pct(there), at, called),
			Holds: cause.Of(there >= 0.5), Number: there,
		},
		told.Asked(c.Punctual("the peer", keys)),
	}
	ev = append(ev, c.Connected()...)
	ev = append(ev, c.RunningOnCPU()...)
	if e, _, ok := c.PeersStarved(keys); ok && e.Number > 0.1 {
		e.Decides = e.Holds == cause.Unknown
		ev = append(ev, e)
	}
	vain := c.Free(c.Unconnected)
	nobody := 2*c.Sum(vain) > network
	if !told.Slow && !nobody {
		ev = append(ev, c.FirstAnswers(keys)...)
	}
	if e, doubt := c.AskedWithin(keys); doubt {
		ev = append(ev, e)
	}
	ev = append(ev, c.AllAtOnce()...)
	ev = append(ev, c.JustMissed(keys)...)
	ev = append(ev, c.OtherEndpoint()...)
	timedOut := c.Free(func(k blame.Key) bool {
		return k.Kind == blame.Network && k.Flags&blame.TimedOut != 0
	})
	if s := c.Share(timedOut); s > 0.1 {
		ev = append(ev, cause.Evidence{Text: fmt.Sprintf("%s of the excess are waits that a deadline or a cancellation ended", cause.Pct(s)), Holds: cause.Yes, Number: s})
	}
	subject, fix := fmt.Sprintf("they wait in %s for %s", at, told.Peer), told.Fix
	if nobody {
		subject = fmt.Sprintf("they wait in %s for a connection to a peer that does not answer", at)
		ev = append(ev, cause.Evidence{
			Text:  fmt.Sprintf("%s of it is connecting that came to nothing before a deadline, or the recording, ended it: nobody is there, or takes no more connections, or the way to it loses them", cause.Pct(min(1, c.Sum(vain)/max(network, 1)))),
			Holds: cause.Unknown, Decides: true, Number: min(1, c.Sum(vain)/max(network, 1)),
			Alike: []string{"tcp-loss"}, Record: "whether the peer's machine is there and what its queue of connections is like (ss -lt, nstat TcpExtListenOverflows)",
		})
	}
	if by, brought := c.A.Brought(site); brought && !nobody {
		subject = fmt.Sprintf("they wait in %s for what other requests bring", at)
		who := "requests that end these waits"
		if by != "" {
			subject = fmt.Sprintf("they wait in %s for what requests of %s bring", at, by)
			who = "requests of " + by + ", which end these waits,"
		}
		ev = append(ev, cause.Evidence{
			Text:  who + " come when the waits have long begun, do not wait there themselves and are short: nobody in the process has what is waited for",
			Holds: cause.Yes,
		})
		fix = append([]string{"look at whoever sends these requests: how long it takes to do what it was asked, and how many there are to do so"}, fix...)
	}
	if c.Contrast == cause.TailContrast && !told.Slow {
		if r := c.Repeated(site); r.Many(network) && (r.Usual > 0 || r.NS >= failsAt*r.UsualNS) { // elsewhere they may be for more
			times, there := r.Calls, ""
			if r.Usual > 0 {
				times, there = r.Calls/r.Usual, fmt.Sprintf("typical ones %.1f times; a call takes them %s, and %s is usual: it is not the peer that is slower", r.Usual, cause.Ms(r.NS), cause.Ms(r.UsualNS))
				subject += fmt.Sprintf(", %.1f times each where typical requests do so %.1f times", r.Calls, r.Usual)
			} else {
				subject += fmt.Sprintf(", %.1f times each", r.Calls)
				there = fmt.Sprintf("typical ones never; a call takes them %s, and %s is usual elsewhere: it is how many they are", cause.Ms(r.NS), cause.Ms(r.UsualNS))
			}
			fix = append([]string{"ask once for all that a request needs, by a list, a join, a pipeline or a batch, instead of once for each item"}, fix...)
			ev = append(ev, cause.Evidence{
				Text:  fmt.Sprintf("slow requests ask %.1f times there, one call after the other, %s", r.Calls, there),
				Holds: cause.Yes, Number: times,
			})
			if r.NS < failsAt*r.UsualNS {
				ev = append(ev, cause.Evidence{
					Text:  "so much faster may be calls for less, or calls that fail at once and are made again",
					Holds: cause.Unknown, Decides: true, Number: r.NS / r.UsualNS,
					Alike: []string{"retry-storm"}, Record: "whether these calls fail: the peer's log, or counts of its errors",
				})
			}
		}
	}
	return &cause.Judgement{
		Keys: keys, Where: where, Via: c.Via(keys),
		Subject:  subject,
		Evidence: append(ev, told.Evidence...), Fix: fix,
		Alike: []string{"host-contention"}, Record: cause.RecordHost,
	}
}
