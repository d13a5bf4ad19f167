// Package cachestampede is the cause cache-stampede.
package cachestampede

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "cache-stampede", Title: "cache stampede", Rank: 415, Layer: cause.Code,
	What:       "Something that is kept for all, most often an entry of a cache, has to be made anew. Whoever needs it meanwhile waits for the one goroutine that makes it: many at once, and all are served at once.",
	MustHold:   "waits that end many at a time, by one result for all (a closed channel, a WaitGroup, singleflight, a sync.Once that is replaced), now and then",
	MustNot:    "typical requests wait there or do it themselves; most slow ones do it while nobody waits; it takes much longer than usual in the tail (then it is what takes longer); one goroutine serves everybody all the time",
	LookAlikes: []string{"single-worker", "lock-held-across-wait", "rwmutex-writer", "slow-dependency", "expensive-request", "cold-start"},
	Fix: []string{
		"serve the old value while the new one is made (stale-while-revalidate), or make it before the old one expires",
		"let entries expire at different times (jitter), so that not all are made anew at once",
		"make it cheaper or in parts, and bound how long others wait for it",
	},
	Verify: "serve the old value meanwhile, A/B interleaved: p99 and this share fall together",
	Judge:  judge,
}

// longer is by how much what slow requests wait for may take longer than is usual.
// Who waits sees long times more often than short ones, in proportion to them: if they
// are exponentially distributed, their mean is then 2/ln 2 = 2.9 times the median.
const longer = 3

// judge claims the waits, and of the requests that do the work themselves what that
// takes: the same entry is missing for both, and both are as late. Where each request
// needs a call of its own, or most slow ones do, and shares it with others only by
// chance, it is the call.
func judge(c *cause.Case) *cause.Judgement {
	w := c.SharedWork()
	if len(w.Keys) == 0 || w.What == blame.Timer && c.A.Announced(w.Site) { // news that comes when its time has come
		return nil
	}
	q := c.A.Queue(w.Site)
	j := &cause.Judgement{
		Keys: append(w.Keys, w.Own...), Where: w.Where,
		Subject: fmt.Sprintf("many wait at once, in %s, for one that does something for all of them (%s in %s)", c.SiteName(w.Site), w.What, cause.PlaceName(w.Where)),
		Evidence: []cause.Evidence{
			{
				Text:    fmt.Sprintf("%.1f waits in %s end at a time, as who waits there sees it; %d in all", q.Together, c.SiteName(w.Site), q.Waits),
				Holds:   cause.Of(q.Together >= blame.ManyWaiters),
				Decides: true, Number: q.Together,
			},
			again(c, w.Site),
			{
				Text:    fmt.Sprintf("%s of the typical requests wait for it or do it themselves", cause.Pct(w.Typical)),
				Holds:   cause.Of(w.Typical < 0.5),
				Decides: true, Number: w.Typical,
			},
			{
				Text:    fmt.Sprintf("of the slow requests that wait for it or do it themselves, %s do it while nobody waits", cause.Pct(w.Alone)),
				Holds:   cause.Of(w.Alone <= 0.5),
				Decides: true, Number: w.Alone,
			},
		},
		Alike: cause.OffCPUCauses, Record: cause.RecordHost,
	}
	if w.What == blame.UnknownHolder {
		j.With(cause.Evidence{
			Text:  "for most of that time nobody is seen to do anything for them: they may wait for news on purpose, as a long poll does",
			Holds: cause.Unknown, Decides: true, Alike: []string{"timer-wait"}, Record: cause.RecordEndpoints,
		})
	}
	if w.Usual > 0 {
		j.With(cause.Evidence{
			Text:    fmt.Sprintf("it takes %s when slow requests wait for it, usually %s", cause.Ms(w.Takes), cause.Ms(w.Usual)),
			Holds:   cause.Of(w.Takes <= longer*w.Usual),
			Decides: true, Number: w.Takes / w.Usual,
		})
	}
	if w.What == blame.CPU {
		j.With(c.RunnerCPU(w.Class))
	}
	return j
}

// fewForOnce is how many wait at a time, as who waits sees it, for a one-time initialisation below which
// several may be first uses of different things.
const fewForOnce = 3

// leastJoined is how many requests must have come while others waited for a one-time initialisation for them to tell whether it is of
// what all need, and mostPassed the part of them that may not have needed it. Of different things each would be what more requests
// need than any other, and those that need the others would pass.
const leastJoined, mostPassed = 5, 0.2

// again says whether it is done now and then: what is done once may be a first use.
func again(c *cause.Case, site blame.SiteID) cause.Evidence {
	q := c.A.Queue(site)
	e := cause.Evidence{
		Text:    fmt.Sprintf("it was done for those who waited %d times in the recording", q.Calls),
		Decides: true, Number: float64(q.Calls), Alike: []string{"cold-start"}, Record: "longer: what comes back is no first use",
	}
	if q.Calls <= 1 {
		return e
	}
	e.Holds = cause.Yes
	if c.A.Sites[site].Kind != blame.SiteOnce || q.Together >= fewForOnce {
		return e
	}
	if waited, all := c.A.Joined(site); all >= leastJoined && float64(all-waited) <= mostPassed*float64(all) {
		e.Text += fmt.Sprintf(", and %d of the %d requests that came meanwhile had to wait, too: it is what they all need", waited, all)
		return e
	}
	e.Holds = cause.Unknown
	e.Text += ": each of them may be the first use of another thing"
	return e
}
