// Package faninstraggler is the cause fan-in-straggler.
package faninstraggler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "fan-in-straggler", Title: "straggler in a fan-in", Rank: 430, Layer: cause.Code, Varies: true,
	What:       "A request starts several pieces of work at once and waits for all of them: it is as late as the last one. Each is seldom late, but of many one often is.",
	MustHold:   "a wait for several goroutines that the request set to work, of which all but one were done long before; each time it is another one",
	MustNot:    "all of them late together; always the same one; the same call late where nobody waits for several; a lock, a pool or a P that the late one waits for",
	LookAlikes: []string{"slow-dependency", "timer-wait", "expensive-request", "pool-exhausted", "single-worker"},
	Fix: []string{
		"hedge: when one is later than the usual p95, ask a second time and take the first answer",
		"answer without the last one after a deadline, and cancel it",
		"fewer, equally large pieces: every one more is one more chance to be late",
	},
	Verify: "hedge the named work, or answer without its last part, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

const (
	// alone is the part of what requests wait longer that has to be a wait for the
	// last one alone: with less, most of it stays when that one is as fast as the
	// one before it.
	alone = 0.5
	// extreme is the part of the slow requests' mean wait for the last one alone from
	// which on a request counts as a case.
	extreme = 0.5
)

// gathering is where requests wait for several goroutines that they set to work.
type gathering struct {
	c    *cause.Case
	site blame.SiteID
	keys []blame.KeyID
	own  map[blame.KeyID]bool // the set of keys
	// ns is the excess of the waits, alone the part of it for the last one alone.
	ns, alone float64
	// cases counts the requests that waited long for the last one alone; of is for
	// how many goroutines, on average, and usual the part of the cases in which the
	// same one was the last.
	cases     int
	of, usual float64
}

func judge(c *cause.Case) *cause.Judgement {
	var top *gathering
	var late []*gathering
	for _, g := range gatherings(c) {
		if top == nil || g.ns > top.ns {
			top = g
		}
		if g.late() == cause.Yes {
			late = append(late, g)
		}
	}
	if top == nil {
		return nil
	}
	if len(late) == 0 {
		late = []*gathering{top}
	} else {
		top = slices.MaxFunc(late, func(x, y *gathering) int { return cmp.Compare(x.ns, y.ns) })
	}
	var keys []blame.KeyID
	for _, g := range late {
		keys = append(keys, g.keys...)
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); c.TooLittle(keys) {
		return &cause.Judgement{Keys: keys}
	}
	did, _ := cause.TopBy(c, keys, func(k blame.Key) work { return work{k.Kind, k.Class, top.stands(k)} })
	where := c.PlaceOf(did.site)
	if did.kind == blame.CPU {
		where = c.ClassPlace(did.class)
	}
	j := &cause.Judgement{
		Keys: keys, Where: where,
		Subject: fmt.Sprintf("they wait in %s for the last of %.0f goroutines, not always the same one (%s in %s)", c.SiteName(top.site), top.of, did.kind, cause.PlaceName(where)),
		Alike:   []string{"host-contention"}, Record: cause.RecordHost,
	}
	j.With(top.aloneEvidence(), top.changes(did.kind))
	if e := elsewhere(c, keys, did.kind, where); e.Holds == cause.No {
		j.With(e)
	}
	if did.kind == blame.CPU {
		j.Alike = cause.OffCPUCauses
		j.With(c.RunnerCPU(did.class))
	} else {
		j.With(c.Punctual("the last one", keys))
	}
	return j.With(c.OtherEndpoint()...)
}

// work is what a goroutine did, and where it stood.
type work struct {
	kind  blame.LeafKind
	class blame.ClassID
	site  blame.SiteID
}

// apart is the part of what stragglers take from which on the same call is slow by itself, if it takes that where nobody
// waits for several.
const apart = 0.2

// elsewhere says whether the same call makes requests late that wait for it alone, too: then it is slow, whoever waits for it.
func elsewhere(c *cause.Case, keys []blame.KeyID, kind blame.LeafKind, where *cause.Place) cause.Evidence {
	if where == nil || kind == blame.CPU {
		return cause.Evidence{Holds: cause.Yes}
	}
	var ns float64
	for id, k := range c.A.Keys {
		if k.Kind != kind || k.Flags&blame.Ahead != 0 || c.NS[id] == 0 {
			continue
		}
		if p := c.PlaceOf(k.Site); p != nil && *p == *where {
			if _, gathered := slices.BinarySearch(keys, blame.KeyID(id)); !gathered {
				ns += c.NS[id]
			}
		}
	}
	part := ns / max(1, c.Sum(keys))
	return cause.Evidence{
		Text:  fmt.Sprintf("requests that wait for %s alone are late by it, too: by %s on average over all slow ones, beside %s for the last of several", cause.PlaceName(where), cause.Ms(ns), cause.Ms(c.Sum(keys))),
		Holds: cause.Of(part < apart), Decides: true, Number: part,
	}
}

// stands returns where the program's own code stood while one of the awaited spent
// a piece: on the leaf's stack, or where it waited for the leaf's goroutine.
func (g *gathering) stands(k blame.Key) blame.SiteID {
	for _, s := range []blame.SiteID{k.Site, k.Last.Site} {
		if s != g.site && g.c.PlaceOf(s) != nil {
			return s
		}
	}
	return g.site
}

// gatherings returns where the case's requests wait for several goroutines at once.
func gatherings(c *cause.Case) (out []*gathering) {
	at := map[blame.SiteID]*gathering{}
	for _, r := range c.P.All() {
		for _, f := range c.A.Requests[r].FanIns {
			if g := at[f.Site]; g == nil && f.Last.Of > 0 {
				g = &gathering{c: c, site: f.Site, own: map[blame.KeyID]bool{}}
				at[f.Site] = g
				out = append(out, g)
			}
		}
	}
	for _, r := range c.P.All() {
		for _, f := range c.A.Requests[r].FanIns {
			for _, p := range f.Pieces {
				if g := at[f.Site]; g != nil {
					g.own[p.Key] = true
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(g *gathering) bool { return !g.measure() })
}

// measure fills in what is known of g and reports whether there is anything.
func (g *gathering) measure() bool {
	c := g.c
	free := map[blame.KeyID]bool{}
	for _, id := range c.Free(func(k blame.Key) bool { return g.itself(k) }) {
		free[id] = true
	}
	for id := range g.own {
		if free[id] {
			g.keys = append(g.keys, id)
		} else {
			delete(g.own, id)
		}
	}
	if len(g.keys) == 0 {
		return false
	}
	g.ns = c.ExcessOf(func(r *blame.Attributed) float64 { return float64(g.spent(r.Pieces)) })
	g.alone = c.ExcessOf(func(r *blame.Attributed) float64 {
		ns, _ := g.last(r)
		return float64(ns)
	})
	var tail float64
	for _, r := range c.Tail {
		ns, _ := g.last(&c.A.Requests[r])
		tail += float64(ns) / float64(len(c.Tail))
	}
	if g.ns <= 0 || tail <= 0 {
		return false
	}
	places, workers := map[blame.Member]int{}, map[timeline.GID]int{}
	for _, i := range c.P.All() {
		ns, m := g.last(&c.A.Requests[i])
		if float64(ns) < extreme*tail {
			continue
		}
		g.cases++
		g.of += float64(m.Of)
		if m.Worker != timeline.NoG {
			workers[m.Worker]++
		}
		if m.Function != "" {
			m = blame.Member{Function: m.Function}
		}
		m.Of, m.Worker = 0, timeline.NoG
		places[m]++
	}
	g.of /= float64(g.cases)
	for _, n := range places {
		g.usual = max(g.usual, float64(n)/float64(g.cases))
	}
	for _, n := range workers {
		g.usual = max(g.usual, float64(n)/float64(g.cases))
	}
	return true
}

// itself reports whether a piece is what one of the awaited did, or waited for,
// itself: not in a queue with others, nor for a P or a thread. Who reads a connection's replies for all
// waits for each of them at once.
func (g *gathering) itself(k blame.Key) bool {
	if !cause.Waits(k) && k.Kind != blame.CPU || k.Kind == blame.Open || k.Flags&(blame.Silent|blame.Inbound) != 0 ||
		k.Flags&blame.Ahead != 0 && (k.Kind != blame.Network || g.c.HopKind(k.Queue) != cause.Reader) {
		return false
	}
	for _, h := range []blame.Hop{k.First, k.Queue, k.Last} {
		if h.Site == 0 || h.Site == g.site {
			continue
		}
		if kind := g.c.HopKind(h); kind != cause.Child && kind != cause.Reader {
			return false
		}
	}
	return true
}

// spent returns the time of pieces under keys.
func (g *gathering) spent(pieces []blame.Piece) (ns int64) {
	for _, p := range pieces {
		if g.own[p.Key] {
			ns += p.NS
		}
	}
	return ns
}

// last returns for how long a request waited for the last one alone, and which
// that was, the longest time. Of waits within each other at one place only the longest
// counts: they may be the same time.
func (g *gathering) last(r *blame.Attributed) (ns int64, m blame.Member) {
	longest, within := int64(0), int64(0)
	for _, f := range r.FanIns { // those that are nested are before the one that they are nested in
		if f.Site == g.site && f.Last.Of > 0 {
			d := min(f.Slack, g.spent(f.Pieces))
			if within = max(within, d); d > longest {
				longest, m = d, f.Last
			}
		}
		if !f.Nested {
			ns, within = ns+within, 0
		}
	}
	return ns, m
}

// late says whether requests are late because of one of several, each time another.
func (g *gathering) late() cause.Truth {
	return min(g.aloneEvidence().Holds, g.changes(0).Holds)
}

func (g *gathering) aloneEvidence() cause.Evidence {
	share := g.alone / g.ns
	return cause.Evidence{
		Text: fmt.Sprintf("for %s of the %s that slow requests wait longer there, all others of the %.0f that they started were done: they waited for the last one alone",
			cause.Pct(share), cause.Ms(g.ns), g.of),
		Holds: cause.Of(share >= alone), Decides: true, Number: share,
	}
}

// changes says whether it is each time another one: the commonest is less often
// the last one than half-way between one of n and always. Of few cases the same one
// may be the last by chance.
func (g *gathering) changes(kind blame.LeafKind) cause.Evidence {
	e := cause.Evidence{
		Text:  fmt.Sprintf("%d requests waited long for the last one alone; by the order in which the %.0f are set to work, it was the same one in %s of them", g.cases, g.of, cause.Pct(g.usual)),
		Holds: cause.Of(g.usual < (1+1/g.of)/2), Decides: true, Number: g.usual,
	}
	if e.Holds == cause.No && g.cases < cause.Pattern {
		e.Holds, e.Record = cause.Unknown, "longer: in so few requests the same one may be the last by chance"
		switch kind {
		case blame.CPU:
			e.Alike = []string{"expensive-request"}
		case blame.Timer:
			e.Alike = []string{"timer-wait"}
		default:
			e.Alike = []string{"slow-dependency"}
		}
	}
	return e
}
