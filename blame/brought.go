package blame

import (
	"slices"

	"github.com/whylate/whylate/timeline"
)

const (
	// leastBrought is how many waits at a site must have ended to say that others bring what is waited for there, and
	// broughtPart the part of them, and of their time, that requests must have ended which bring it.
	leastBrought, broughtPart = 10, 0.9
	// bringerHolds is the part of the waits' time in which such requests may have been at work, any of them, and bringerWaits
	// the part of them that may have waited there. Of what has an owner at every instant, as a pool that is full, these are all
	// of the time, and who gives back has waited as often as others.
	bringerHolds, bringerWaits = 0.1, 0.05
)

// Brought reports whether what is waited for at a site is nobody's in the process: other requests, which come when the waits have
// long begun, bring it from outside, as a worker's or a device's answer to what it was asked. The endpoint is that of most of
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

// bringers returns the endpoint of the requests that bring what is waited for at a site, -1 if none do.
func (a *Attribution) bringers(site SiteID) int {
	rs := a.releases[site]
	if len(rs) < leastBrought || a.Sites[site].Kind != SiteOther {
		return -1
	}
	n := 0
	var all, brought timeline.Time
	spans := make([]timeline.Interval, 0, len(rs))
	bringers, waiters := map[int]bool{}, map[int]bool{}
	for _, r := range rs {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		all += s.End - s.Start
		me, q := a.f.RequestAt(r.g, r.at-1), a.f.Bringer(s)
		if me < 0 || q < 0 || !a.f.Requests[q].ByNetwork {
			continue
		}
		waiters[me] = true
		n++
		brought += s.End - s.Start
		bringers[q] = true
		spans = append(spans, timeline.Interval{Start: a.f.Requests[q].Start(), End: r.at})
	}
	if float64(n) < broughtPart*float64(len(rs)) || float64(brought) < broughtPart*float64(all) {
		return -1
	}
	waited := 0
	of := make([]int, len(a.f.Endpoints))
	for q := range bringers {
		of[a.f.Requests[q].Endpoint]++
		if waiters[q] {
			waited++
		}
	}
	if float64(waited) > bringerWaits*float64(len(bringers)) {
		return -1
	}
	spans = timeline.Union(spans)
	var held timeline.Time
	for _, r := range rs {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		held += timeline.Covered(spans, s.Start, s.End)
	}
	if float64(held) > bringerHolds*float64(all) {
		return -1
	}
	return slices.Index(of, slices.Max(of))
}
