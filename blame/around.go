package blame

import "github.com/whylate/whylate/timeline"

// Around reports whether a request, by its index in Requests, waits itself at one of some places before it waits at a site for the first
// time, and whether it does so behind that. Both are false if it does not wait at the site itself.
func (a *Attribution) Around(r int, site SiteID, places map[SiteID]bool) (before, behind bool) {
	site = a.Place(site)
	seen := false
	for _, p := range a.f.Requests[a.Requests[r].Request].Parts {
		me := &a.t.Gs[p.G]
		for _, s := range me.SegsFrom(max(0, me.SegmentAt(p.Start+1))) {
			if s.Start >= p.End {
				break
			}
			if s.Kind != timeline.Waiting {
				continue
			}
			switch at := a.siteOf(s.Stack); {
			case a.Place(at) == site:
				seen = true
			case places[at] && seen:
				behind = true
			case places[at]:
				before = true
			}
		}
	}
	return before && seen, behind
}
