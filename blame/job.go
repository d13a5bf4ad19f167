package blame

import (
	"sort"

	"github.com/whylate/whylate/timeline"
)

// job is a piece of work that one goroutine did for those who waited at a site:
// it ended with the release of one of them at done, and of others until last, if
// the worker serves several at a time. If from is done, it is not known.
type job struct{ from, done, last timeline.Time }

// batchPart is the part of a job's length within which a further release belongs to
// the same job: a worker that has written a batch wakes everybody in it within
// microseconds.
const batchPart = 0.1

// jobs returns, by waker, the pieces of work that ended with releases at a site, in
// order of time.
func (a *Attribution) jobs(site SiteID) map[timeline.GID][]job {
	if w, ok := a.jobsAt[site]; ok {
		return w
	}
	by := map[timeline.GID][]job{}
	for _, r := range a.releases[site] {
		h := a.t.Gs[r.g].Seg(int(r.seg)).Waker
		js := by[h]
		from := timeline.Time(0)
		if n := len(js); n > 0 {
			p := &js[n-1]
			began := p.from
			if began == p.done { // not known
				began = a.t.Gs[h].Start()
			}
			if r.at-p.last < timeline.Time(batchPart*float64(p.done-began)) {
				p.last = r.at
				continue
			}
			from = p.last // what it did before it has given back
		}
		by[h] = append(js, job{a.passed(h, site, r.at, from), r.at, r.at})
	}
	a.jobsAt[site] = by
	return by
}

// ahead is what a worker did for others before it came to a waiter: until until, in
// n pieces of which the longest took so long.
type ahead struct {
	until   timeline.Time
	n       int
	longest timeline.Time
}

// aheadOf returns what the waker h of s did in [from, to] for others who waited at
// the same site, one piece after the other. A lock's holder does nothing for others.
func (a *Attribution) aheadOf(hop Hop, s timeline.Segment, h timeline.GID, from, to timeline.Time) ahead {
	out := ahead{until: from}
	if a.lockLike(hop) || a.passing(hop) {
		return out
	}
	from, to = max(from, s.Start), min(to, s.End)
	js := a.jobs(hop.Site)[h]
	for _, p := range js[sort.Search(len(js), func(i int) bool { return js[i].last > from }):] {
		if p.last >= to { // its own piece, or a later one
			break
		}
		out.longest = max(out.longest, p.last-out.until)
		out.until = p.last
		out.n++
	}
	return out
}
