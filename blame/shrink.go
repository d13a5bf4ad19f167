package blame

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/timeline"
)

// Stage is a stretch of a recording, until the instant Until, in which no more than so many items of a pool were in use while
// somebody waited for one: all that there were. Waited is for how long somebody did, in nanoseconds.
type Stage struct {
	Items  int
	Until  timeline.Time
	Waited timeline.Time
}

// stageHolds is how many usual holds long somebody must have waited in a stage, and as long as the longest one at least of those that
// began with a wait, and so are known: where some use an item for longer than others, what is in use meanwhile is not missing.
// stagePart is the part of that time in which as many items as it has were in use, after the first one.
const stageHolds, stagePart = 10, 0.5

// Shrinks returns the stages in which the items of a pool become fewer, for good: as long as somebody waits, all of them are in use, so
// that each number that is not reached again is an item that nobody gave back. A pool that keeps its items has one stage. Users is how
// many requests are under way at the end, since before the last stage, and wait at the site neither themselves nor in goroutines that
// they wait for: they may have the items. There are none where a connection's reader gives back what it reads for.
func (a *Attribution) Shrinks(site SiteID) (stages []Stage, users int) {
	least := stageHolds * timeline.Time(a.Holds(site).Usual)
	if least <= 0 || a.Streams(site) || a.Connections(site) > 0 {
		return nil, 0
	}
	var all []change
	for s := range a.releases {
		if !a.samePool(s, site) {
			continue
		}
		all = append(all, a.holding(s)...)
		js := a.jobs(s)
		for i, g := range js.wakers {
			for _, p := range js.all[js.first[i]:js.first[i+1]] {
				if p.from < p.done && a.letIn(g, p.from, site) {
					least = max(least, p.done-p.from)
				}
			}
		}
	}
	for g := range a.t.Gs {
		for _, s := range a.t.Gs[g].Waits() {
			if s.Stack != 0 && a.samePool(a.siteOf(s.Stack), site) {
				all = append(all, change{s.Start, 0, 1}, change{s.End, 0, -1})
			}
		}
	}
	inTurn(all)
	held, waits := 0, 0
	for _, x := range all {
		held, waits = held+int(x.holds), waits+int(x.waits)
	}
	now, full := Stage{Items: -1}, timeline.Time(0) // full is for how long all of its items are in use
	done := func() {
		if now.Waited >= least && float64(full) >= stagePart*float64(now.Waited) {
			stages = append(stages, now)
		}
	}
	for i := len(all) - 1; i > 0; i-- { // to where more were in use
		held, waits = held-int(all[i].holds), waits-int(all[i].waits)
		d := all[i].at - all[i-1].at
		if waits <= 0 || d == 0 {
			continue
		}
		if held > now.Items {
			done()
			now, full = Stage{Items: held, Until: all[i].at}, 0
		}
		if now.Waited += d; held == now.Items {
			full += d
		}
	}
	if now.Waited >= least { // others may have begun to wait only now and then
		stages = append(stages, now)
	}
	slices.Reverse(stages)
	// Whoever leaks goes on doing so: where requests come and nobody waits any more, for longer than it took from the first item to the
	// last one that is missing, a queue drained.
	if n := len(stages); n > 1 {
		last := stages[n-1].Until
		if a.t.End-last > last-stages[0].Until && a.beganAfter(last) >= leastAfter {
			return stages[:1], 0
		}
	}
	if n := len(stages); n > 1 {
		users = a.users(site, stages[n-2].Until)
	}
	return stages, users
}

// leastAfter is how many requests must begin for it to be known that some still come.
const leastAfter = 10

// beganAfter is how many requests begin after an instant, none if they were not found.
func (a *Attribution) beganAfter(at timeline.Time) (n int) {
	for i := range a.f.Requests {
		if a.f.Requests[i].Start() > at {
			n++
		}
	}
	return n
}

// change is when a hold or a wait begins, or ends.
type change struct {
	at           timeline.Time
	holds, waits int8
}

// letIn reports whether g waited for a pool until an instant.
func (a *Attribution) letIn(g timeline.GID, at timeline.Time, pool SiteID) bool {
	me := &a.t.Gs[g]
	for i := min(me.SegmentAt(at), me.Len()-1); i >= 0 && me.Seg(i).End >= at; i-- {
		if s := me.Seg(i); s.End == at && s.Kind == timeline.Waiting && s.Stack != 0 {
			return a.samePool(a.siteOf(s.Stack), pool)
		}
	}
	return false
}

// holding returns when what is released at a site was held.
func (a *Attribution) holding(site SiteID) (all []change) {
	for _, p := range a.jobs(site).all {
		if p.from < p.done {
			all = append(all, change{p.from, 1, 0}, change{p.done, -1, 0})
		}
	}
	return all
}

// inTurn orders changes.
func inTurn(all []change) {
	slices.SortFunc(all, func(x, y change) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.holds, y.holds), cmp.Compare(x.waits, y.waits))
	})
}
