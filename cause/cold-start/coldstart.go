// Package coldstart is the cause cold-start.
package coldstart

import (
	"cmp"
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "cold-start", Title: "cold start", Rank: 303, Layer: cause.Client,
	What:       "The first use costs: a lazy initialisation, the first connections to a peer, what is prepared for a new client connection. Later requests do not pay for it.",
	MustHold:   "the slow requests run or await a one-time initialisation, make a connection that did not exist yet, or are the first of their own connection",
	MustNot:    "most requests do the same; later requests of the same connections alike; the initialisation is made anew again and again, for many who wait (then it is a cache)",
	LookAlikes: []string{"dial-per-request", "slow-dns", "page-faults", "lock-held-across-wait", "cache-stampede"},
	Fix: []string{
		"do it before the service reports that it is ready: initialise at start, dial and ping the peers",
		"keep it warm: idle connections longer than the pauses between requests",
		"make it cheaper, or split it so that no request pays for all of it",
	},
	Verify: "warm up before taking requests in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// few is the part of all requests that first uses must stay below.
const few = 0.5

// judge tests the kinds of first uses and answers with the largest.
func judge(c *cause.Case) *cause.Judgement {
	var best *cause.Judgement
	for _, j := range []*cause.Judgement{once(c), dials(c), opening(c)} {
		if j != nil && (best == nil || c.Sum(j.Keys) > c.Sum(best.Keys)) {
			best = j
		}
	}
	return best
}

// initialises is the function of package sync below which a one-time initialisation runs.
const initialises = "sync.(*Once).doSlow"

// once judges one-time initialisation by package sync.
func once(c *cause.Case) *cause.Judgement {
	inits := func(s blame.SiteID) bool { return c.A.Sites[s].Once }
	is := func(k blame.Key) bool {
		return (cause.Waits(k) || k.Kind == blame.CPU) && (inits(k.Site) || inits(k.First.Site) || inits(k.Queue.Site))
	}
	keys := c.Free(is)
	inOnce := func(f string) bool { return f == initialises }
	part, samples := c.SampledOn(c.Tail, inOnce)
	usual, n := c.SampledOn(c.Typical, inOnce)
	var computes []blame.KeyID
	if samples >= cause.MinDoubt && part >= 0.5 && (n == 0 || usual < 0.5*part) { // else every request has one of its own
		computes = c.Free(func(k blame.Key) bool { // what runs has no stack of its own
			return k.Kind == blame.CPU && k.Flags&blame.Self != 0 && !is(k)
		})
		if c.Winner() == cause.Heavy { // others wait for a P behind those who initialise
			computes = cause.Union(computes, c.Processors().Claim)
		}
		keys = cause.Union(keys, computes)
	}
	if len(keys) == 0 || c.Renews(keys) {
		return nil
	}
	share, reached := c.Reached(is)
	j := &cause.Judgement{Keys: keys, Where: c.PlaceOfKeys(keys)}
	if j.Where == nil || 2*c.Sum(computes) > c.Sum(keys) {
		j.Where = cmp.Or(c.HottestBelow(initialises), j.Where)
	}
	j.Subject = fmt.Sprintf("they run or await a one-time initialisation in %s", cause.PlaceName(j.Where))
	if reached > 0 && 2*c.Sum(computes) <= c.Sum(keys) { // what computes is not seen there
		j.With(cause.Evidence{
			Text:  fmt.Sprintf("%.0f requests were seen in or waiting for an initialisation by sync.Once, %s of all", reached, cause.Pct(share)),
			Holds: cause.Of(share <= few), Decides: true, Number: share,
		})
	}
	if len(computes) > 0 {
		j.With(cause.Evidence{
			Text:  fmt.Sprintf("%s of the CPU samples of slow requests are in an initialisation by sync.Once, %s of those of typical ones", cause.Pct(part), cause.Pct(usual)),
			Holds: cause.Yes, Decides: true, Number: part,
		})
	}
	return j
}

// dials judges the first connections to a peer.
func dials(c *cause.Case) *cause.Judgement {
	d := c.Dials()
	switch {
	case len(d.Keys) == 0:
		return nil
	case c.TooLittle(d.Keys):
		return &cause.Judgement{Keys: d.Keys}
	}
	return &cause.Judgement{
		Keys: d.Keys, Where: d.Where, Via: d.Via,
		Subject: fmt.Sprintf("they make the first connections in %s", cause.PlaceName(d.Where)),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("%.0f requests connect, %s of all; up to %d were open at a time and needed a connection each", d.Requests, cause.Pct(d.Share), d.Peak),
				Holds: cause.Of(d.Share <= few && d.FirstUses()), Decides: true, Number: d.Requests,
			},
			c.Punctual("connecting", d.Keys),
		},
	}
}

// opening judges what only the first request of each connection pays.
func opening(c *cause.Case) *cause.Judgement {
	o := c.Opening()
	if len(o.Keys) == 0 || o.First < cause.Pattern { // so few share anything by chance
		return nil
	}
	where := c.PlaceOfKeys(o.Keys)
	return &cause.Judgement{
		Keys: o.Keys, Where: where,
		Subject: fmt.Sprintf("they are the first of their connections and pay for that in %s", cause.PlaceName(where)),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("%d connections began in the recording; %s of their first requests spend this time, and hardly any of the %d that follow on them", o.First, cause.Pct(o.Slow), o.Later),
				Holds: cause.Of(o.Slow >= few && o.Later >= o.First), Decides: true, Number: o.Slow,
			},
		},
	}
}
