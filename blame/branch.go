package blame

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/timeline"
)

// branch is one of two ways that requests of an endpoint go, at random: those that ask a peer at a place, as ones that miss a cache
// do. The others ask none. An endpoint beyond those of request.Found is the branch at its index behind them.
type branch struct {
	endpoint int
	site     SiteID // see Place
}

const (
	// Of an endpoint's requests branchPart at least go each way: of fewer it is not usual to do so.
	branchPart = 0.15
	// Those that ask alternate with others, in order of time, branchRuns times as often as by chance, at least: at times at which
	// something happens, such as that a cache is emptied, they come one after the other.
	branchRuns = 0.6
	// What they ask for takes branchExplains of what they typically take longer, at least: else it may be for something else that
	// took long before that they ask, as who is tired of waiting does.
	branchExplains = 0.5
	// maxBranches bounds them for each role.
	maxBranches = 8
	// mostGiveUp is the part of those that ask that may give up waiting for something.
	mostGiveUp = 0.1
)

// givesUp reports whether a request waits in vain for something.
func (a *Attribution) givesUp(r *Attributed) bool {
	return slices.ContainsFunc(r.Pieces, func(x Piece) bool { return a.Keys[x.Key].Flags&(TimedOut|Expired) != 0 })
}

// asksPeers returns at which places a request waits for peers itself, or goroutines do that it starts and waits for, and how long.
func (a *Attribution) asksPeers(r *Attributed) map[SiteID]timeline.Time {
	var out map[SiteID]timeline.Time
	for _, x := range r.Pieces {
		k := &a.Keys[x.Key]
		site := k.Site
		switch {
		case k.Kind != Network || k.Queue.Site != 0 || k.Flags&Inbound != 0:
			continue
		case a.isCall(k.First):
			site = k.First.Site
		case k.First.Site != 0 && a.Queue(k.First.Site).Children <= ChildRatio:
			continue // whoever it waits for asks
		case k.First.Site != 0:
			if a.isCall(k.Last) {
				site = k.Last.Site
			}
		case k.Flags&Self == 0:
			continue
		}
		switch s := &a.Sites[site]; {
		case site == 0 || s.Write || s.Kind == SiteDial || s.Kind == SiteDNS || s.Kind == SiteInbound || s.Kind == SitePool || s.Dial || s.Connect:
			continue
		}
		if out == nil {
			out = map[SiteID]timeline.Time{}
		}
		out[a.Place(site)] += timeline.Time(x.NS)
	}
	return out
}

// isCall reports whether a hop is a wait for whoever reads an outgoing connection.
func (a *Attribution) isCall(h Hop) bool {
	return h.Site != 0 && (a.Sites[h.Site].Kind == SiteCall || a.NetworkHome(h.Waker))
}

// findBranches tells requests that ask a peer from others of their endpoint, where that is as usual as not to.
func (a *Attribution) findBranches() {
	a.endpoints = make([]int, len(a.Requests))
	type group struct{ role, endpoint int }
	members, asks := map[group][]int{}, make([]map[SiteID]timeline.Time, len(a.Requests))
	var order []group
	for i := range a.Requests {
		r := &a.f.Requests[a.Requests[i].Request]
		a.endpoints[i] = r.Endpoint
		if r.InFlight {
			continue
		}
		g := group{r.Role, r.Endpoint}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g], asks[i] = append(members[g], i), a.asksPeers(&a.Requests[i])
	}
	many := map[int]int{} // branches of a role
	for _, g := range order {
		for many[g.role] < maxBranches {
			site, ok := a.splits(members[g], asks)
			if !ok {
				break
			}
			many[g.role]++
			endpoint := len(a.f.Endpoints) + len(a.branches)
			a.branches = append(a.branches, branch{g.endpoint, site})
			members[g] = slices.DeleteFunc(members[g], func(i int) bool {
				_, is := asks[i][site]
				if is {
					a.endpoints[i] = endpoint
				}
				return is
			})
		}
	}
}

// splits returns the place at which most time is waited for a peer by some of the requests, at random, that take longer than the
// others for that and else as long. ok is false without such a place.
func (a *Attribution) splits(requests []int, asks []map[SiteID]timeline.Time) (at SiteID, ok bool) {
	var all float64
	type place struct{ weight, ns float64 }
	places := map[SiteID]*place{}
	for _, i := range requests {
		all += a.Weight[i]
		for site, x := range asks[i] {
			if places[site] == nil {
				places[site] = &place{}
			}
			places[site].weight += a.Weight[i]
			places[site].ns += a.Weight[i] * float64(x)
		}
	}
	sites := make([]SiteID, 0, len(places))
	for site, p := range places {
		if p.weight >= branchPart*all && p.weight <= (1-branchPart)*all {
			sites = append(sites, site)
		}
	}
	slices.SortFunc(sites, func(x, y SiteID) int {
		return cmp.Or(cmp.Compare(places[y].ns, places[x].ns), cmp.Compare(x, y))
	})
	for _, site := range sites {
		if a.usualBranch(site, requests, asks) {
			return site, true
		}
	}
	return 0, false
}

// usualBranch reports whether to ask at a place is one of two ways that requests go, and not what happens to some.
func (a *Attribution) usualBranch(site SiteID, requests []int, asks []map[SiteID]timeline.Time) bool {
	requests = slices.Clone(requests)
	start := func(i int) int64 { return int64(a.f.Requests[a.Requests[i].Request].Start()) }
	slices.SortStableFunc(requests, func(i, j int) int { return cmp.Compare(start(i), start(j)) })
	var with, without, took []weighed // what those that ask take and others, and what they wait for the answer
	gaveUp, runs, before, others := 0, 0, false, 0
	for n, i := range requests {
		x, is := asks[i][site]
		if n == 0 || is != before {
			runs++
		}
		before = is
		if !is {
			if len(asks[i]) > 0 {
				others++
			}
			without = append(without, weighed{a.Requests[i].D, a.Weight[i]})
			continue
		}
		with, took = append(with, weighed{a.Requests[i].D, a.Weight[i]}), append(took, weighed{int64(x), a.Weight[i]})
		if a.givesUp(&a.Requests[i]) {
			gaveUp++
		}
	}
	n, m := float64(len(with)), float64(len(without))
	if len(with) < MinEndpoint || len(without) < MinEndpoint || 2*others > len(without) || float64(gaveUp) > mostGiveUp*n || float64(runs) < branchRuns*2*n*m/(n+m) {
		return false
	}
	longer := middle(with) - middle(without)
	return longer > 0 && float64(middle(took)) >= branchExplains*float64(longer)
}

// weighed is a time that stands for several.
type weighed struct {
	ns     int64
	weight float64
}

// middle is the median; it sorts.
func middle(xs []weighed) int64 {
	slices.SortFunc(xs, func(x, y weighed) int { return cmp.Compare(x.ns, y.ns) })
	var all, sum float64
	for _, x := range xs {
		all += x.weight
	}
	for _, x := range xs {
		if sum += x.weight; 2*sum >= all {
			return x.ns
		}
	}
	return 0
}

// EndpointOf returns the endpoint of an attributed request, by its index in Requests: that of request.Found, or, behind those, the
// branch that it goes within it.
func (a *Attribution) EndpointOf(i int) int {
	if a.endpoints == nil {
		return a.f.Requests[a.Requests[i].Request].Endpoint
	}
	return a.endpoints[i]
}

// Endpoint returns the name of an endpoint, and for a branch the place at which its requests ask a peer, 0 for others. It is ""
// without such an endpoint.
func (a *Attribution) Endpoint(e int) (name string, asks SiteID) {
	if k := e - len(a.f.Endpoints); k >= 0 && k < len(a.branches) {
		e, asks = a.branches[k].endpoint, a.branches[k].site
	}
	if e < 0 || e >= len(a.f.Endpoints) {
		return "", 0
	}
	return a.f.Endpoints[e], asks
}
