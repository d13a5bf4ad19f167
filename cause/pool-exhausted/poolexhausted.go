// Package poolexhausted is the cause pool-exhausted.
package poolexhausted

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "pool-exhausted", Title: "pool exhausted", Rank: 400, Layer: cause.Client, Unwanted: true,
	What:       "All connections, workers or permits of a pool are in use; requests wait until another one gives one back.",
	MustHold:   "waits that other requests end by giving back what they used, or waits at a known pool, or for goroutines that one starts for each, some at a time, or that are started for one task and stay for others; several holders at a time. Their holds are not longer than usual; or, if they are, no peer became slow: whoever holds it carries no request and sleeps, computes or calls what the waiters do not, or makes calls that always take it so long, or many in a row that take hardly longer than at other times. Or waits that a deadline ends, after which who waited gives back what others wait for: it kept that",
	MustNot:    "one holder at a time; holds in the tail longer than usual (then it is what the holders do); news: who brings it never waits there, and tells all who do at once",
	LookAlikes: []string{"lock-held-across-wait", "pool-leak", "slow-dependency"},
	Fix: []string{
		"give the pool as many items as the load needs: rate x time of use (Little's law), plus bursts",
		"use an item for less time: do not hold it while doing something else",
		"bound what may queue for it, and shed the rest early",
	},
	Verify: "double the pool in an interleaved A/B: p99 and this share fall together, and the dependency does not get slower",
	Judge:  judge,
}

// record is how to learn how many items are in use, and since when.
const record = "the pool's own statistics (in use, wait count), or a user task around each use"

func judge(c *cause.Case) *cause.Judgement {
	l := c.Pools()
	if j := keeping(c, l); j != nil {
		return j
	}
	switch {
	case len(l.Keys) == 0:
		if d := c.Dispatch(); d != nil && d.AtWork >= cause.ManyHolders {
			return dispatched(c, d)
		}
		return vain(c)
	case c.TooLittle(l.Keys):
		return &cause.Judgement{Keys: l.Keys}
	}
	q, at := c.A.Queue(l.Site), l.Site
	if c.PlaceOf(at) == nil { // a goroutine of the library's waits for them
		at, _ = cause.TopBy(c, l.Keys, func(k blame.Key) blame.SiteID { return k.First.Site })
	}
	j := &cause.Judgement{
		Keys: l.Keys, Where: c.PlaceOf(at), Alike: []string{"slow-dependency"}, Record: record,
		Subject: fmt.Sprintf("they wait in %s for a pool of which everything is in use", c.SiteName(at)),
	}
	if q.Waits == 0 {
		j.Evidence = []cause.Evidence{neverReturned(c, l.Site, q)}
	} else {
		j.Evidence = returned(c, l, q)
		lent(c, l, q, j)
	}
	if c.A.Streams(l.Site) {
		j.Subject = fmt.Sprintf("they wait in %s for a stream of a connection of which all are in use", c.SiteName(at))
		j.Fix = []string{"let the peer take as many calls at a time as the load needs (its limit of concurrent streams), or spread them over several connections"}
	}
	if out := c.TimedOut(l.Keys); out > 0 {
		e := cause.Evidence{
			Text:  fmt.Sprintf("%s of that time are waits that a deadline or a cancellation ended before anything was given back to them", cause.Pct(out)),
			Holds: cause.Yes, Number: out,
		}
		if out >= inVain && q.Waits > 0 && hardlyAnswered(c, l.Site) && hardlyUsed(c, l.Site) { // what is given back may be another pool's, of the same code
			e.Text += fmt.Sprintf(": %d of them, beside %d that were served", q.Cancelled, q.Waits)
			e.Holds, e.Decides = cause.Unknown, true
			e.Alike, e.Record = []string{"pool-leak"}, record+": if as many stay in use when nobody calls, they leak"
		}
		j.Evidence = append(j.Evidence, e)
	}
	return j
}

// dispatched judges a dispatcher that lets some work at a time.
func dispatched(c *cause.Case, d *cause.Dispatch) *cause.Judgement {
	return &cause.Judgement{
		Keys: d.Keys, Where: c.PlaceOf(d.Site),
		Subject:  fmt.Sprintf("they wait in %s until one of as many as may work at a time is done", c.SiteName(d.Site)),
		Evidence: d.Evidence(c), Alike: []string{"slow-dependency"}, Record: record,
		Fix: []string{"let more work at a time: the limit of the semaphore, the number of workers"},
	}
}

// keeping judges waits that come to nothing because who has something of a pool waits for more of it, and gives it back only when
// its time is up.
func keeping(c *cause.Case, l *cause.Locks) *cause.Judgement {
	vain := c.Free(func(k blame.Key) bool { return k.Kind == blame.Awaited && k.Flags&blame.TimedOut != 0 })
	site := l.Site
	if c.Sum(vain) > c.Sum(l.Keys) {
		site, _ = cause.TopBy(c, vain, func(k blame.Key) blame.SiteID { return k.Site })
	}
	if site == 0 {
		return nil
	}
	waits, gave, keeps := c.A.Keeping(site)
	if !keeps {
		return nil
	}
	keys := slices.Clone(l.Keys)
	for _, id := range vain {
		if c.A.SameQueue(c.Key(id).Site, site) && !slices.Contains(keys, id) {
			keys = append(keys, id)
		}
	}
	return &cause.Judgement{
		Keys: keys, Where: c.PlaceOf(site),
		Subject: fmt.Sprintf("they wait in %s for more of a pool while they keep what they have of it, until their time is up", c.SiteName(site)),
		Evidence: []cause.Evidence{{
			Text: fmt.Sprintf("of %d waits in %s that a deadline or a cancellation ended, after %d the same request gave something back that others waited for: it had kept that while it waited",
				waits, c.SiteName(site), gave),
			Holds: cause.Yes, Decides: true, Number: float64(gave) / float64(waits),
		}},
		Fix: []string{
			"take all that is needed in one go, or give back what one has before one waits for more",
			"if each is another thing, a row or an account, take them in the same order everywhere",
		},
	}
}

// inVain is the part of the time from which on waits that are not served are all that matters.
const inVain = 0.9

// hardly is how many times as often alarms must end waits as anybody else for these to say nothing.
const hardly = 10

// vain judges waits for a condition in which requests only look, now and then, whether their time is
// out, or for a receive that nothing but a deadline ends from some time on, before which nobody waited there: they
// may be for what others were to give back, or for news that there is none of.
func vain(c *cause.Case) *cause.Judgement {
	alarmed := c.Free(func(k blame.Key) bool {
		return k.Kind == blame.Awaited && c.A.Alarmed(k.Site) && hardlyAnswered(c, k.Site)
	})
	keys := alarmed
	if len(keys) == 0 {
		keys = c.Free(func(k blame.Key) bool {
			return k.Kind == blame.Awaited && k.Flags&(blame.TimedOut|blame.Self) == blame.TimedOut|blame.Self && hardlyAnswered(c, k.Site) && c.RanOut(k.Site)
		})
	}
	if len(keys) == 0 {
		return nil
	}
	site, _ := cause.TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.Site })
	q := c.A.Queue(site)
	e := cause.Evidence{
		Text:  fmt.Sprintf("%d waits in %s were ended by alarms, after most of which the same one waits again, and %d by anybody else", q.Cancelled, c.SiteName(site), q.Waits),
		Holds: cause.Unknown, Decides: true, Number: float64(q.Cancelled),
		Alike:  []string{"pool-leak", "timer-wait"},
		Record: record + ": if as many stay in use when nobody calls, they leak",
	}
	if len(alarmed) == 0 {
		e.Text = fmt.Sprintf("%d waits in %s were ended by a deadline or a cancellation, and %d by anybody else; before the first of them no request waited there, since then most do: something ran out", q.Cancelled, c.SiteName(site), q.Waits)
		e.Alike = []string{"pool-leak"}
	}
	return &cause.Judgement{
		Keys: keys, Where: c.PlaceOf(site),
		Subject:  fmt.Sprintf("they wait in %s until their time is out", c.SiteName(site)),
		Evidence: []cause.Evidence{e},
	}
}

// hardlyAnswered reports whether hardly any wait at a site was ended but by a deadline.
func hardlyAnswered(c *cause.Case, site blame.SiteID) bool {
	q := c.A.Queue(site)
	return hardly*q.Waits <= q.Cancelled
}

// used is the part of the recording in which what is given back must have been in use, at the least, if it is a pool that is too
// small: at any time all of one of its items is.
const used = 0.1

// hardlyUsed reports whether what was given back to who waited at a site can only have been in use for a small part of the recording.
func hardlyUsed(c *cause.Case, site blame.SiteID) bool {
	usual := float64(c.A.Holds(site).Usual)
	if usual <= 0 {
		usual = c.UsuallyTook()
	}
	return float64(c.A.Queue(site).Waits)*usual < used*float64(c.A.Timeline().Duration())
}

// neverReturned is the evidence where no release was seen: the pool may be too
// small for uses that outlast the recording, or nobody gives anything back.
func neverReturned(c *cause.Case, site blame.SiteID, q *blame.Queue) cause.Evidence {
	return cause.Evidence{
		Text:  fmt.Sprintf("nobody gave anything back in %s in the whole recording: %d waits there ran into a time-out, none was served", c.SiteName(site), q.Cancelled+q.Timers),
		Holds: cause.Unknown, Decides: true,
		Alike:  []string{"pool-leak"},
		Record: record + ": if as many stay in use when nobody calls, they leak",
	}
}

// returned is the evidence from what the holders gave back.
func returned(c *cause.Case, l *cause.Locks, q *blame.Queue) []cause.Evidence {
	h, kind := c.A.Holds(l.Site), c.A.Sites[l.Site].Kind
	known := kind == blame.SitePool || kind == blame.SitePermit
	who := fmt.Sprintf("requests wait in %s until another request gives back: %s of %d waits there, by %d different goroutines", c.SiteName(l.Site), cause.Pct(q.Peers), q.Waits, q.Wakers)
	number, connections := q.Peers, c.A.Connections(l.Site)
	switch {
	case connections > 0:
		number = 1
		who = fmt.Sprintf("requests wait in %s until another request gives back a connection: %d waits there, each ended by the goroutine that reads the connection, %d different ones", c.SiteName(l.Site), q.Waits, q.Wakers)
	case c.A.Streams(l.Site):
		number = 1
		who = fmt.Sprintf("requests wait in %s until the answer to another call comes in on the same connection: %d waits there", c.SiteName(l.Site), q.Waits)
	case !known && q.Peers <= cause.PeerRatio:
		who = fmt.Sprintf("%d goroutines do what requests wait for in %s, %d times in all", q.Wakers, c.SiteName(l.Site), q.Waits)
	}
	return []cause.Evidence{
		{
			Text:    who,
			Holds:   cause.Of(known || q.Peers > cause.PeerRatio || q.Wakers > 1),
			Decides: true, Number: number,
		},
		several(c, l, h, known, connections),
		holds(c, l, float64(h.Mean)),
	}
}

// lent looks for whoever uses it for no request: where the holders used it for longer than usual, it is not what requests
// do that takes longer. Of what requests hand to workers,
// who carry none, this says nothing.
func lent(c *cause.Case, l *cause.Locks, q *blame.Queue, j *cause.Judgement) {
	used := &j.Evidence[len(j.Evidence)-1]
	kind := c.A.Sites[l.Site].Kind
	if used.Holds == cause.Unknown || c.Slower(l.Keys).Holds() || kind != blame.SitePool && kind != blame.SitePermit && q.Peers <= cause.PeerRatio {
		return
	}
	x := c.Lent(l)
	e := x.Evidence(c.MeanHold(l.Keys))
	if e.Holds != cause.Yes {
		if used.Holds == cause.Yes {
			return
		}
		if usual, often := c.Often(l.Keys, c.MeanHold(l.Keys), float64(c.A.Holds(l.Site).Mean)); often {
			used.Holds = cause.Yes
			used.Text += fmt.Sprintf("; but who holds it waits for a peer many times in a row, and hardly longer each time than anybody does at other times: three quarters of the waits there %s or less", cause.Ms(float64(usual)))
			if x.Holder == nil {
				x.Holder = l.Holder
			}
			if x.Holder != nil {
				j.Where = x.Holder
				j.Subject = fmt.Sprintf("they wait in %s for a pool of which everything is in use while %s holds it for many calls", c.SiteName(l.Site), cause.PlaceName(x.Holder))
			}
			return
		}
		long(c, l, used)
		return
	}
	used.Holds = cause.Yes
	j.Evidence, j.Where = append(j.Evidence, e), x.Holder
	j.Subject = fmt.Sprintf("they wait in %s for a pool of which everything is in use while %s holds it and %s", c.SiteName(l.Site), cause.PlaceName(x.Holder), x.Does())
	j.Fix = []string{"do the slow part before taking anything from the pool, or after giving it back", "give who does so a pool of its own, or let it have only a part of this one"}
}

// long looks for calls of the holders that always take so long: of them there happen to be more where requests queue.
func long(c *cause.Case, l *cause.Locks, used *cause.Evidence) {
	part, least := c.Long(l, c.MeanHold(l.Keys))
	if part < cause.TheirAlone {
		return
	}
	used.Holds = cause.Yes
	used.Text += fmt.Sprintf("; but for %s of that time holders wait for a peer where they always take so long: mostly %s or more", cause.Pct(part), cause.Ms(float64(least)))
	at, _ := cause.TopBy(c, l.Keys, c.CallSite)
	if where, called := c.Caller(at, l.Keys, c.CallSite); called != "" {
		used.Text += fmt.Sprintf(", in %s, called by %s", cause.PlaceName(where), called)
	}
}

// leastTurns is the part of the waits that must say who holds, for those who wait there to
// wait for each other: where each waits for its own, others mean nothing. Of a pool it is
// 0.4 to 0.7 (incidents/hosts/prometheus and store), of answers to each one's own
// requests 0.02 to 0.08 (godis).
const leastTurns = 0.25

// several says whether several hold at a time: by the mean number of holds that are known,
// or more, by who lets in whom. Both are too few where holds begin or end unseen. Connections
// are counted by those who read them.
func several(c *cause.Case, l *cause.Locks, h blame.Holds, known bool, connections float64) cause.Evidence {
	if connections > 0 {
		return cause.Evidence{
			Text:  fmt.Sprintf("%.1f connections at a time are given back there: so many are in use while somebody waits", connections),
			Holds: cause.Yes, Number: connections,
		}
	}
	if q := c.A.Queue(l.Site); !known && q.Peers+q.Finalizers <= cause.PeerRatio && q.Wakers > 1 && q.Busiest <= cause.OneWorker {
		if n := c.A.Crowded(l.Site); n >= cause.ManyHolders {
			return cause.Evidence{Text: fmt.Sprintf("%.1f of them were at work while more than %d waited", n, q.Wakers), Holds: cause.Yes, Number: n}
		}
	}
	text, n, decides := fmt.Sprintf("%.1f holders at a time", h.Holders), h.Holders, h.Holders > 0
	t := c.A.Turns(l.Site)
	tell := t.Decided >= cause.MinDoubt && float64(t.Decided) >= leastTurns*float64(t.Waits)
	if tell && t.Holders > n {
		n, decides = t.Holders, true
		text = fmt.Sprintf("%.1f hold at a time, by who lets in whom in %d waits behind others; by %s of these several do", n, t.Decided, cause.Pct(t.Several))
	}
	if stand := c.AtOnce(l.Site); !known && stand > n {
		n, decides = stand, true
		text = fmt.Sprintf("%.1f at a time wait, while slow requests do for it, where who has it mostly does", n)
	}
	if work := atWork(c, l); !known && work > n {
		n, decides = work, true
		text = fmt.Sprintf("%.1f goroutines are at work whenever one of them, done with another task, takes up one that had waited", n)
	}
	return cause.Evidence{Text: text, Holds: cause.Of(known || n >= cause.ManyHolders || tell && t.Several >= cause.SomeSeveral), Decides: !known && decides, Number: n}
}

// atWork is how many workers are at work when one takes up a task that had waited, of those that are started for one and stay for more;
// 0 where nobody starts any.
func atWork(c *cause.Case, l *cause.Locks) float64 {
	if c.A.Queue(l.Site).Children <= cause.ChildRatio {
		return 0
	}
	return c.A.AtWork(l.Site)
}

// holds says whether the tail's holds are as long as usual; unknown where none
// could be measured.
func holds(c *cause.Case, l *cause.Locks, usual float64) cause.Evidence {
	tail, n := c.MeanHold(l.Keys), c.MeanHolders(l.Keys)
	if c.A.Streams(l.Site) {
		tail, n = c.MeanUse(l.Site)
	}
	if n == 0 && atWork(c, l) >= cause.ManyHolders { // who takes up the next task is none that leaked
		far := 0.0
		for _, id := range l.Keys {
			if c.Key(id).Kind == blame.Network {
				far += c.NS[id]
			}
		}
		return cause.Evidence{
			Text:  fmt.Sprintf("whether tasks took longer than usual meanwhile is unknown; for %s of that time workers waited for peers", cause.Pct(far/max(1, c.Sum(l.Keys)))),
			Holds: cause.Unknown, Decides: 2*far > c.Sum(l.Keys),
			Alike: []string{"slow-dependency"}, Record: record,
		}
	}
	if n == 0 {
		return cause.Evidence{
			Text:  "how long it was held meanwhile is unknown: nothing was given back while the slow requests waited",
			Holds: cause.Unknown, Decides: true,
			Alike: []string{"pool-leak", "slow-dependency"}, Record: record + ": if as many stay in use when nobody calls, they leak",
		}
	}
	e := cause.Evidence{
		Text:    fmt.Sprintf("the holders used it for %s on average, all of the recording for %s", cause.Ms(tail), cause.Ms(usual)),
		Decides: true, Number: tail / max(usual, 1),
	}
	if usual > 0 {
		e.Holds = cause.Of(!c.Grown(l.Keys, tail, usual))
	}
	if e.Holds != cause.Yes {
		return e
	}
	if s := c.Slower(l.Keys); s.Holds() {
		e.Holds = cause.No
		e.Text += fmt.Sprintf("; but %s meanwhile took more than four times what three quarters of them take (%s), in %s of the slow requests", s.What(), cause.Ms(float64(s.Usual)), cause.Pct(s.Part))
	}
	return e
}
