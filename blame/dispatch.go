package blame

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/timeline"
)

// Dispatched is what a goroutine starts others for, which end the waits at a site: a piece of work for each wait, as a dispatcher with
// a semaphore does.
type Dispatched struct {
	// By starts them; it is [timeline.NoG] if nobody starts most of them. Part is the part of the waits that they end.
	By   timeline.GID
	Part float64
	Jobs []Job // in order of their beginning
}

// Job is one of them: from the birth of the goroutine that By started to the end of the wait at the site.
type Job struct{ Begun, Ended timeline.Time }

// maxStarted bounds how many generations a dispatcher may be before who ends a wait.
const maxStarted = 4

// Dispatched returns it. A dispatcher carries no requests, does not wait at the site itself, and was there before the waits began.
func (a *Attribution) Dispatched(site SiteID) Dispatched {
	d := Dispatched{By: timeline.NoG}
	by := map[timeline.GID][]Job{}
	for _, r := range a.releases[site] {
		begun := a.t.Gs[r.g].Seg(int(r.seg)).Start
		g := r.waker
		for range maxStarted {
			me := &a.t.Gs[g]
			if !me.Born || me.Start() <= begun {
				break
			}
			born := me.Start()
			if g = me.Creator; g < 0 || g == r.g || a.f.Entry(g) {
				break
			}
			if who := &a.t.Gs[g]; who.Start() <= begun && !who.System {
				by[g] = append(by[g], Job{born, r.at})
				break
			}
		}
	}
	for g, jobs := range by {
		if n := len(jobs) - len(d.Jobs); n > 0 || n == 0 && g < d.By {
			d.By, d.Jobs = g, jobs
		}
	}
	if len(d.Jobs) == 0 {
		return d
	}
	d.Part = float64(len(d.Jobs)) / float64(len(a.releases[site]))
	slices.SortFunc(d.Jobs, func(x, y Job) int { return cmp.Or(cmp.Compare(x.Begun, y.Begun), cmp.Compare(x.Ended, y.Ended)) })
	return d
}

// HeldBack returns the part of the time for which a dispatcher waits in spans, in order and apart, that ended because a goroutine let
// it go on that it had started, or one of these; it is 0 if it does not wait.
func (a *Attribution) HeldBack(by timeline.GID, spans []timeline.Span) float64 {
	var all, own timeline.Time
	for i, s := range a.t.Gs[by].Blocked() {
		d := timeline.Overlap(spans, s.Start, s.End)
		if s.Kind != timeline.Waiting || d == 0 || i == 0 {
			continue
		}
		all += d
		g := s.Waker
		for n := 0; n < maxStarted && g >= 0 && g != by; n++ {
			if g = a.t.Gs[g].Creator; g == by {
				own += d
			}
		}
	}
	return float64(own) / max(1, float64(all))
}

// AtWork is how many of them are at work on average when one is done in spans, in order and apart, itself with them; it is 0 if none is.
func (d *Dispatched) AtWork(spans []timeline.Span) float64 {
	ends := make([]timeline.Time, len(d.Jobs))
	for i, j := range d.Jobs {
		ends[i] = j.Ended
	}
	slices.Sort(ends)
	sum, begun, n := 0, 0, 0
	for done, at := range ends {
		for begun < len(d.Jobs) && d.Jobs[begun].Begun < at {
			begun++
		}
		if timeline.Overlap(spans, at-1, at) > 0 {
			sum, n = sum+begun-done, n+1
		}
	}
	return float64(sum) / float64(max(1, n))
}

// Starts reports whether a goroutine starts others with a root function.
func (a *Attribution) Starts(by timeline.GID, root string) bool {
	if by < 0 {
		return false
	}
	k := starter{by, root}
	starts, known := a.starts[k]
	if !known {
		starts = slices.ContainsFunc(a.t.Gs[by].Wakes(), func(w timeline.Wake) bool { return w.Birth() && a.Root(w.Whom()) == root })
		if a.starts == nil {
			a.starts = map[starter]bool{}
		}
		a.starts[k] = starts
	}
	return starts
}

// starter is a goroutine, and a root function of others.
type starter struct {
	by   timeline.GID
	root string
}
