// Package backpressure is the cause back-pressure.
package backpressure

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "back-pressure", Title: "back-pressure", Rank: 421, Layer: cause.Code,
	What:       "Requests block in sending to a full channel, because its consumer is slower than they are.",
	MustHold:   "waits in a channel send, ended by the slow receiver: of requests, or of a worker that they wait for, whom the receiver does not answer",
	MustNot:    "waits in a receive; receivers that are other requests and never wait for what is sent there (then it is a pool)",
	LookAlikes: []string{"single-worker", "pool-exhausted"},
	Fix: []string{
		"decide what happens when the buffer is full: drop, sample, or answer early instead of blocking",
		"make the consumer faster, or run several of it",
		"a buffer for bursts, if the consumer keeps up on average",
	},
	Verify: "send with a default case (drop and count) in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	l := c.Sends()
	if len(l.Keys) == 0 {
		return nil
	}
	q := c.A.Queue(l.Site)
	where, called := c.PlaceOfKeys(l.Keys), ""
	switch kind, _ := cause.TopBy(c, l.Keys, func(k blame.Key) blame.LeafKind { return k.Kind }); kind {
	case blame.CPU:
		class, _ := cause.TopBy(c, l.Keys, func(k blame.Key) blame.ClassID { return k.Class })
		if computes := c.ClassPlace(class); computes != nil {
			where = computes
		}
	case blame.Network:
		site, _ := cause.TopBy(c, l.Keys, c.CallSite) // of whoever waits for the answer
		if where, called = c.Caller(site, l.Keys, c.CallSite); called != "" {
			called = ", called by " + called
		}
	}
	ev := []cause.Evidence{{
		Text:    fmt.Sprintf("%d channel sends in %s had to wait for the receiver; %s of them ended by its busiest goroutine, %s by other requests", q.Waits, c.SiteName(l.Site), cause.Pct(q.Busiest), cause.Pct(q.Peers)),
		Holds:   cause.Of(q.Peers <= cause.PeerRatio || c.A.Feeds(l.Site)),
		Decides: true, Number: q.Busiest,
	}}
	if l.Waits < 0.5 { // the consumer computes
		ev = append(ev, c.RunnerCPU(c.A.ClassAt(q.Worker, c.A.Timeline().End)))
	}
	consumer := "its consumer spends its time in " + cause.PlaceName(where) + called
	if at := c.PlaceOf(l.Site); where != nil && at != nil && where.Function == at.Function { // the consumer's own code is a library's
		consumer = "its consumer is " + c.ClassName(c.A.ClassAt(q.Worker, c.A.Timeline().End))
	}
	who := "they block"
	if first, _ := cause.TopBy(c, l.Keys, func(k blame.Key) blame.SiteID { return k.First.Site }); first != l.Site {
		who = "who works for them blocks"
	}
	return &cause.Judgement{
		Alike: cause.OffCPUCauses, Record: cause.RecordHost,
		Keys: l.Keys, Where: where, Evidence: ev,
		Subject: fmt.Sprintf("%s in %s sending to a full channel; %s", who, c.SiteName(l.Site), consumer),
	}
}
