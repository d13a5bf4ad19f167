// Package poolexhausted is the cause pool-exhausted.
package poolexhausted

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "pool-exhausted", Title: "pool exhausted", Rank: 400, Layer: cause.Client,
	What:       "All connections, workers or permits of a pool are in use; requests wait until another one gives one back.",
	MustHold:   "waits that other requests end by giving back what they used, or waits at a known pool; several holders at a time, whose holds are not longer than usual",
	MustNot:    "one holder at a time; holds in the tail longer than usual (then it is what the holders do)",
	LookAlikes: []string{"lock-held-across-wait", "pool-leak", "slow-dependency"},
	Fix: []string{
		"give the pool as many items as the load needs: rate x time of use (Little's law), plus bursts",
		"use an item for less time: do not hold it while doing something else",
		"bound what may queue for it, and shed the rest early",
	},
	Verify: "double the pool in an interleaved A/B: p99 and this share fall together, and the dependency does not get slower",
	Judge:  judge,
}

// usual says whether the tail's holds are as long as usual; unknown where no hold
// could be measured.
func usual(tail, median float64) cause.Truth {
	if median == 0 {
		return cause.Unknown
	}
	return cause.Of(tail <= cause.GrownHold*median)
}

func judge(c *cause.Case) *cause.Judgement {
	l := c.Pools()
	if len(l.Keys) == 0 {
		return nil
	}
	q := c.A.Queue(l.Site)
	site := c.A.Sites[l.Site]
	known := site.Kind == blame.SitePool || site.Kind == blame.SitePermit
	tail := c.MeanHold(l.Keys)
	holds := cause.Evidence{
		Text:    fmt.Sprintf("the holders used it for %s; %s is usual", cause.Ms(tail), cause.Ms(float64(q.Hold))),
		Holds:   usual(tail, float64(q.Hold)),
		Decides: true, Number: tail / max(float64(q.Hold), 1),
	}
	ev := []cause.Evidence{
		{
			Text:    fmt.Sprintf("requests wait in %s until another request gives back: %s of %d waits there, by %d different goroutines", c.SiteName(l.Site), cause.Pct(q.Peers), q.Waits, q.Wakers),
			Holds:   cause.Of(known || q.Peers > cause.PeerRatio || q.Wakers > 1),
			Decides: true, Number: q.Peers,
		},
		{
			Text:  fmt.Sprintf("%.1f holders at a time", q.Holders),
			Holds: cause.Of(known || q.Holders >= cause.ManyHolders), Decides: !known && q.Holders > 0, Number: q.Holders,
		},
		holds,
	}
	return &cause.Judgement{
		Keys: l.Keys, Where: c.PlaceOf(l.Site), Evidence: ev,
		Alike: []string{"slow-dependency"}, Record: "the pool's own statistics (in use, wait count), or a user task around each use",
		Subject: fmt.Sprintf("they wait in %s for a pool of which everything is in use", c.SiteName(l.Site)),
	}
}
