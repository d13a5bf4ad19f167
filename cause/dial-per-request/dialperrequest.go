// Package dialperrequest is the cause dial-per-request.
package dialperrequest

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "dial-per-request", Title: "dial per request", Rank: 302, Layer: cause.Client, Needless: true,
	What:       "Connections to a peer are not used again: requests that call there connect anew, most of them or again and again, with TCP's and TLS's round trips and the handshake's computation.",
	MustHold:   "waits that connecting or a handshake fills or ends, or for a pool meanwhile, in more than half of all requests, or in more than a fifth of those that wait for answers in the same function, and more often than first uses are, or of connections of which as many as half were closed by this side's pool; then also waits for a P behind the handshakes of others, and for a CPU while connecting, if most of what the process computes is handshakes and a quarter of the machine is idle over the recording",
	MustNot:    "only first uses of connections; name lookups",
	LookAlikes: []string{"slow-dependency", "slow-dns", "cold-start", "pool-exhausted", "host-contention"},
	Fix: []string{
		"share one client; read bodies to the end and close them, so that the connection can be used again",
		"keep as many idle connections as requests run at a time (MaxIdleConnsPerHost, SetMaxIdleConns), for longer than the peer's own time-out leaves them",
		"do not switch off keep-alives",
	},
	Verify: "keep connections in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	d := c.Dials()
	if len(d.Keys) == 0 {
		return nil
	}
	keys := append(slices.Clip(d.Keys), d.Queues...)
	if c.TooLittle(keys) {
		return &cause.Judgement{Keys: keys}
	}
	e := cause.Evidence{
		Text:    fmt.Sprintf("%.0f requests connect, %s of those that wait there; never more than %d were open at a time", d.Requests, cause.Pct(d.There), d.Peak),
		Decides: true, Number: d.There,
		Alike: []string{"slow-dependency"}, Record: "whether connections were used again: httptrace.GotConnInfo, or the pool's own statistics",
	}
	if d.There > 0 {
		e.Record = "who closes connections, and when: packets, or the peer's limits on idle time and on requests for each"
	}
	var discarded []cause.Evidence
	switch {
	case d.Often():
		e.Holds = cause.Yes
	case d.FirstUses():
		e.Holds = cause.No
	default:
		site, _ := cause.TopBy(c, d.Keys, func(k blame.Key) blame.SiteID { return k.Site })
		if n := float64(c.A.Discarded(site)); 2*n >= d.Requests {
			e.Holds = cause.Yes
			discarded = []cause.Evidence{{
				Text:  fmt.Sprintf("%.0f connections were closed by this side: its pool keeps fewer than are in use at a time, or not for long enough, or they could not be used again, since the answer said so, was not read to its end, or broke off", n),
				Holds: cause.Yes, Number: n,
			}}
		}
	}
	punctual := c.Punctual("connecting", d.Keys)
	punctual.Decides = false // that they connect is certain; late threads only add to it
	return &cause.Judgement{
		Keys: keys, Where: d.Where, Via: d.Via,
		Subject: fmt.Sprintf("they connect anew in %s", cause.PlaceName(d.Where)),
		Evidence: slices.Concat([]cause.Evidence{e}, discarded, []cause.Evidence{
			{
				Text:  fmt.Sprintf("%s of the excess are connecting and handshakes, %s of it waits for a P, or a CPU, behind those of other requests", cause.Pct(c.Share(keys)), cause.Pct(d.Queueing/max(d.NS, 1))),
				Holds: cause.Yes, Number: c.Share(keys),
			},
			punctual,
		}),
	}
}
