// Package goroutineleak is the cause goroutine-leak.
package goroutineleak

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "goroutine-leak", Title: "goroutine leak", Rank: 499, Layer: cause.Code, Computes: true,
	What:       "One place in the code starts goroutines that do not end. Their number grows for as long as the process lives, and what each of them does now and then adds up to more than the Ps can take.",
	MustHold:   "goroutines started at one place outnumber by far those that ended, throughout the recording and up to its end; ready requests queue behind them",
	MustNot:    "births that level off, as of a pool that fills; goroutines that carry requests, or of which each connection has one; a stable number",
	LookAlikes: []string{"goroutine-flood", "cpu-hog", "overload"},
	Fix: []string{
		"end them: give the named go statement a context, and return when it is done",
		"stop tickers and timers, close channels that others receive from, and close response bodies",
		"until then a restart brings the number back; watch /sched/goroutines:goroutines",
	},
	Verify: "the number of goroutines stays level with the fix in an interleaved A/B of some hours: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	sites := c.Growing()
	if len(sites) == 0 {
		return nil
	}
	p := c.Processors()
	site, keys := hurting(c, sites, p)
	if site == nil {
		return nil
	}
	cpu := c.ClassCPU(site.Class) // they are too many, whoever makes them slower
	cpu.Decides = false
	return &cause.Judgement{
		Keys: keys, Where: site.Where,
		Subject: fmt.Sprintf("ready requests queue for a P behind goroutines of %s, which %s starts and nobody ends", c.ClassName(site.Class), cause.PlaceName(site.Where)),
		Evidence: []cause.Evidence{
			{
				Text: fmt.Sprintf("%s started %d goroutines of %s, and %d ended; quarter by quarter their number grew by %d, %d, %d and %d",
					cause.PlaceName(site.Where), site.Born, c.ClassName(site.Class), site.Died, site.Grew[0], site.Grew[1], site.Grew[2], site.Grew[3]),
				Holds: cause.Yes, Decides: true, Number: float64(site.Born - site.Died),
			},
			{
				Text:  fmt.Sprintf("waits for a P behind them take %s of the excess", cause.Pct(c.Share(keys))),
				Holds: cause.Of(c.Sum(keys) > 0), Decides: true, Number: c.Share(keys),
			},
			cpu,
		},
	}
}

// hurting returns the growing site whose goroutines, or timers, hold the Ps most
// while slow requests wait, with what they own.
func hurting(c *cause.Case, sites []cause.Growth, p *cause.Processors) (most *cause.Growth, keys []blame.KeyID) {
	for i := range sites {
		s := &sites[i]
		own := c.Free(func(k blame.Key) bool { return k.Kind == blame.Behind && k.Class == s.Class })
		switch {
		case p.Class == s.Class, p.Class == timeline.ClassScheduler && s.Timers:
			if p.Winner == cause.Flood || p.Winner == cause.Hog {
				own = p.Claim // with the queueing that they cause
			}
		}
		if c.Sum(own) > c.Sum(keys) {
			most, keys = s, own
		}
	}
	return most, keys
}
