package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// Leases are what the connections of a pool were used for for no request, while somebody waited for one.
type Leases struct {
	// Part is which part of what is waited for are such uses: who comes at any time waits longer for long uses, and more
	// often, so that each counts with the square of its length.
	Part float64
	// N is how many there were, Low and High are the quartiles of their lengths, in nanoseconds, and Site is where most
	// of them waited for their answers.
	N         int
	Low, High int64
	Site      SiteID
}

// atOnce is how soon after a connection was given back its reader wakes whoever used it, if it had not before:
// it does nothing in between.
const atOnce timeline.Time = 1e6

// Leases looks at who used the connections that were waited for at a site, each of which is given back by the goroutine
// that reads it (see Connections): who got an answer from that last. A use begins when he waits for it.
func (a *Attribution) Leases(site SiteID) (l Leases) {
	var lengths []int64
	var all, none float64
	at := map[SiteID]int{}
	for _, r := range a.releases[site] {
		user, from, stood := a.answeredBefore(r)
		if user == timeline.NoG {
			continue
		}
		d := r.at - from
		all += float64(d) * float64(d)
		if a.f.RequestAt(user, from) >= 0 {
			continue
		}
		none += float64(d) * float64(d)
		lengths = append(lengths, int64(d))
		at[stood]++
	}
	if l.N = len(lengths); l.N == 0 {
		return l
	}
	slices.Sort(lengths)
	l.Part, l.Low, l.High = none/max(1, all), lengths[l.N/4], lengths[l.N*3/4]
	for s, n := range at {
		if n > at[l.Site] || n == at[l.Site] && s < l.Site {
			l.Site = s
		}
	}
	return l
}

// answeredBefore returns whom the waker of r gave an answer before, or just after it, since when he had waited for that, and where.
func (a *Attribution) answeredBefore(r release) (user timeline.GID, from timeline.Time, at SiteID) {
	ws := a.t.Gs[r.waker].Wakes()
	k := sort.Search(len(ws), func(k int) bool { return ws[k].Time >= r.at })
	for k+1 < len(ws) && ws[k+1].Time == r.at && ws[k].Whom() != r.g {
		k++
	}
	try := func(w *timeline.Wake) bool {
		me := &a.t.Gs[w.Whom()]
		i := me.SegmentAt(w.Time)
		if w.Birth() || w.Whom() == r.g || i >= me.Len() {
			return false
		}
		s := me.Seg(i)
		if s.Kind != timeline.Waiting || s.Waker != r.waker || s.End != w.Time {
			return false
		}
		user, from, at = w.Whom(), s.Start, a.siteOf(s.Stack)
		return true
	}
	if k > 0 && try(&ws[k-1]) || k+1 < len(ws) && ws[k+1].Time-r.at <= atOnce && try(&ws[k+1]) {
		return user, from, at
	}
	return timeline.NoG, 0, 0
}
