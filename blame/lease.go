package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// Leases are the uses of a pool's connections that serve no request and that ended while somebody waited for a connection.
type Leases struct {
	// Part is their part of all uses that ended so, from 0 to 1. Each counts with the square of its length: who comes at any
	// time meets long ones more often, and waits longer for them.
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
	last := map[timeline.GID]timeline.Time{} // a reader gave its connection back
	for _, r := range a.releases[site] {
		before, gave := last[r.waker]
		if !gave {
			before = a.t.Start - 2*atOnce
		}
		last[r.waker] = r.at
		user, from, stood := a.usedBy(r, before)
		d := r.at - from
		if user == timeline.NoG || d <= 0 {
			continue
		}
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

// usedBy returns for whom the connection was used that the waker of r gives back, since when he waited for his answer, and
// where. The reader gives him that before, or, if the answer has no body, just after it; what it gives just after it gave the
// connection back last is of then.
func (a *Attribution) usedBy(r release, before timeline.Time) (user timeline.GID, from timeline.Time, at SiteID) {
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
		if s.Kind != timeline.Waiting || s.Waker != r.waker || s.End != w.Time || s.Start >= r.at {
			return false
		}
		user, from, at = w.Whom(), s.Start, a.siteOf(s.Stack)
		return true
	}
	if k > 0 && ws[k-1].Time > before+atOnce && try(&ws[k-1]) || k+1 < len(ws) && ws[k+1].Time-r.at <= atOnce && try(&ws[k+1]) {
		return user, from, at
	}
	return timeline.NoG, 0, 0
}
