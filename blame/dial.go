package blame

import (
	"cmp"
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// Who finds no idle connection in a pool without a limit begins to connect, and takes
// whatever comes first: its own connection, or one that somebody gives back. Such a wait is
// for connecting, whoever ends it, and also if nobody has yet or a deadline did: with a
// connection there already, or made sooner, it would have been none. Where a limit is reached
// nobody connects, and who waits does so for those who use what there is.

// maxBegun bounds among how many goroutines that were woken or born last before a wait the
// one is looked for that connects: between the two are a few unlocks. As many of its first waits
// may be for what it needs to connect.
const maxBegun = 8

// dialOf returns the goroutine that g started to connect just before it began to wait at a
// pool in s, NoG if it did not.
func (a *Attribution) dialOf(g timeline.GID, s timeline.Segment) timeline.GID {
	if s.Reason != timeline.ReasonSelect || a.Sites[a.siteOf(s.Stack)].Kind != SitePool {
		return timeline.NoG
	}
	me := &a.t.Gs[g]
	since := me.Start()
	if i := me.WaitBefore(me.SegmentAt(s.End)); i >= 0 {
		since = me.Seg(i).End
	}
	wakes := me.Wakes()
	end := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time > s.Start })
	for i := end - 1; i >= max(0, end-maxBegun) && wakes[i].Time >= since; i-- {
		if h := wakes[i].Whom(); wakes[i].Birth() && a.dials(a.t.Gs[h].Root()) {
			return h
		}
	}
	return timeline.NoG
}

// dialled replaces a wait at a pool by what the goroutine did that connects for it, timed out
// if who waited gave it up.
func (w *walker) dialled(at *where, dial timeline.GID, s timeline.Segment, from, to timeline.Time) {
	a := w.a
	next := at.through(Hop{Site: a.siteOf(s.Stack), WakerSite: a.connectsAt(dial), Waker: a.classAt(dial, to), Reason: s.Reason})
	next.depth++
	if a.cancelled(s) && !a.guards.NoTimeout {
		next.flags |= TimedOut
	}
	w.walk(&next, dial, from, to)
}

// connectsAt returns a site that says that a goroutine connects: where it was born, or, with
// libraries that tell only there, one of the first at which it waits.
func (a *Attribution) connectsAt(dial timeline.GID) SiteID {
	me := &a.t.Gs[dial]
	born := a.siteOf(me.CreatorStack)
	if a.Sites[born].Dial {
		return born
	}
	waits := 0
	for _, s := range me.Blocked() {
		if at := a.siteOf(s.Stack); a.Sites[at].Dial {
			return at
		}
		if waits++; waits == maxBegun {
			break
		}
	}
	return born
}

// Dialling returns the waits in which goroutines connect, or wait for who does, in order of their beginnings, and how many connections the pools
// that they connect for gave up. It goes through all segments.
func (a *Attribution) Dialling() (waits []Stretch, discarded int) {
	sites := map[SiteID]bool{}
	for g := range a.t.Gs {
		for _, s := range a.t.Gs[g].Waits() {
			if site := a.siteOf(s.Stack); a.Sites[site].Dial {
				waits = append(waits, Stretch{timeline.GID(g), site, s.Start, s.End})
				sites[site] = true
			}
		}
	}
	slices.SortFunc(waits, func(x, y Stretch) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.G, y.G)) })
	for site := range sites {
		discarded = max(discarded, a.Discarded(site))
	}
	return waits, discarded
}
