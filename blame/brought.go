package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

const (
	// leastBrought is how many waits at a site must have ended to say that others bring what is waited for there, and
	// broughtPart the part of them, and of their time, that requests must have ended which bring it.
	leastBrought, broughtPart = 10, 0.9
	// mostBrought is how many of them are looked at.
	mostBrought = 20_000
	// bringerHolds is the part of the waits' time in which such requests may have been at work, any of them, and bringerWaits
	// the part of them that may have waited there. Of what has an owner at every instant, as a pool that is full, these are all
	// of the time, and who gives back has waited as often as others.
	bringerHolds, bringerWaits = 0.1, 0.05
)

// Brought reports whether what is waited for at a site is nobody's in the process: other requests, of another kind, which come when the waits
// have long begun, bring it from outside, as a worker's or a device's answer to what it was asked. The endpoint is that of most of
// them, "" if nothing is known of it.
func (a *Attribution) Brought(site SiteID) (endpoint string, brought bool) {
	e, ok := a.brought[site]
	if !ok {
		if a.brought == nil {
			a.brought = map[SiteID]int{}
		}
		e = a.bringers(site)
		a.brought[site] = e
	}
	if e < 0 {
		return "", false
	}
	return a.f.Endpoints[e], true
}

// bringers returns the endpoint of the requests that bring what is waited for at a site, -1 if none do. Of many waits those in the
// middle of the recording are looked at.
func (a *Attribution) bringers(site SiteID) int {
	rs := a.releases[site]
	if n := len(rs); n > mostBrought {
		rs = rs[(n-mostBrought)/2:][:mostBrought]
	}
	if len(rs) < leastBrought || a.Sites[site].Kind != SiteOther {
		return -1
	}
	waiters, stands := map[int]bool{}, map[timeline.GID]bool{} // the requests that wait there, and the goroutines
	for _, r := range rs {
		if me := a.f.RequestAt(r.g, r.at-1); me >= 0 {
			waiters[me] = true
		}
		stands[r.g] = true
	}
	failed := 0
	var all, brought timeline.Time
	spans := make([]timeline.Interval, 0, len(rs))
	bringers := map[int]bool{}
	for _, r := range rs {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		all += s.End - s.Start
		me, q := a.f.RequestAt(r.g, r.at-1), a.f.Bringer(s)
		if me < 0 || q < 0 || !a.brings(me, q) {
			if failed++; float64(failed) > (1-broughtPart)*float64(len(rs)) {
				return -1
			}
			continue
		}
		brought += s.End - s.Start
		bringers[q] = true
		spans = append(spans, timeline.Interval{Start: a.f.Requests[q].Start(), End: r.at})
	}
	if float64(brought) < broughtPart*float64(all) {
		return -1
	}
	waited, of := 0, make([]int, len(a.f.Endpoints))
	for q := range bringers {
		r := &a.f.Requests[q]
		of[r.Endpoint]++
		// Elsewhere than in a library's server what one request takes another one of the connection may give back.
		if waiters[q] || !a.f.Roles[r.Role].Library() && stands[r.Parts[0].G] {
			waited++
		}
	}
	if float64(waited) > bringerWaits*float64(len(bringers)) {
		return -1
	}
	covers := newCovers(timeline.Union(spans))
	var held timeline.Time
	for _, r := range rs {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		held += covers.until(s.End) - covers.until(s.Start)
	}
	if float64(held) > bringerHolds*float64(all) {
		return -1
	}
	return slices.Index(of, slices.Max(of))
}

// brings reports whether a request can bring something to another one, me: it comes by the network and is of another kind. Those of a
// kind that let each other go meet.
func (a *Attribution) brings(me, q int) bool {
	x, by := &a.f.Requests[me], &a.f.Requests[q]
	return by.ByNetwork && (x.Role != by.Role || x.Endpoint != by.Endpoint)
}

// covers tells how long it was covered by intervals up to an instant.
type covers struct {
	spans []timeline.Interval
	sums  []timeline.Time // of those before each
}

func newCovers(spans []timeline.Interval) covers {
	c := covers{spans: spans, sums: make([]timeline.Time, len(spans)+1)}
	for i, s := range spans {
		c.sums[i+1] = c.sums[i] + s.End - s.Start
	}
	return c
}

func (c covers) until(at timeline.Time) timeline.Time {
	i := sort.Search(len(c.spans), func(i int) bool { return c.spans[i].End > at })
	if i == len(c.spans) {
		return c.sums[i]
	}
	return c.sums[i] + max(0, at-c.spans[i].Start)
}
