package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// job is a piece of work that one goroutine did for those who waited in a queue:
// it ended with the release of one of them at done, and of others until last, if
// the worker serves several at a time. If from is done, it is not known.
type job struct{ from, done, last timeline.Time }

// batchPart is the part of a job's length within which a further release belongs to
// the same job: a worker that has written a batch wakes everybody in it within
// microseconds.
const batchPart = 0.1

// batchGap bounds that, in nanoseconds: it takes a microsecond to wake one, and some more to make out what it gets. What
// a worker does for longer before the next one is woken it does for that one, however long the job before took.
const batchGap = timeline.Time(100e3)

// jobs are the pieces of work that ended with releases at a site: those of the waker
// wakers[i] are all[first[i]:first[i+1]], in order of time. Wakers are in order.
type jobs struct {
	wakers []timeline.GID
	first  []int32
	all    []job
}

// of returns those of one waker.
func (j *jobs) of(g timeline.GID) []job {
	if i, ok := slices.BinarySearch(j.wakers, g); ok {
		return j.all[j.first[i]:j.first[i+1]]
	}
	return nil
}

// jobs returns the pieces of work that ended with releases at a site.
func (a *Attribution) jobs(site SiteID) *jobs {
	j := a.jobsAt[site]
	if j == nil {
		j = a.jobsOf([]SiteID{site})
		a.jobsAt[site] = j
	}
	return j
}

// jobsFor returns the pieces of work of a goroutine for those who wait at a site, or come to what it does
// on another way: their waits are ended from the same places. Who reads a connection only hands on there
// what came in.
func (a *Attribution) jobsFor(site SiteID, g timeline.GID) []job {
	if a.ReturnsToNetwork(g) {
		return a.jobs(site).of(g)
	}
	return a.jobsOfAll(site).of(g)
}

// jobsOfAll returns the pieces of work for those who wait at a site and at the others of its queue.
func (a *Attribution) jobsOfAll(site SiteID) *jobs {
	one := a.queueOf(site)
	if len(a.sitesOf[one]) < 2 {
		return a.jobs(site)
	}
	j := a.queueJobs[one]
	if j == nil {
		j = a.jobsOf(a.sitesOf[one])
		if a.queueJobs == nil {
			a.queueJobs = map[SiteID]*jobs{}
		}
		a.queueJobs[one] = j
	}
	return j
}

// AtWork returns how many goroutines, each started for a piece of work, are at work at a time for those who wait at a site, or at the
// others of its queue, while somebody waits for his turn: the mean, over all pieces that one took up when he was done with another, of
// how many were under way then. 0 if nobody does two.
func (a *Attribution) AtWork(site SiteID) float64 {
	one := a.queueOf(site)
	if n, known := a.atWork[one]; known {
		return n
	}
	var begins, ends, next []timeline.Time
	js := a.jobsOfAll(site)
	for i := range js.wakers {
		mine := js.all[js.first[i]:js.first[i+1]]
		for k, p := range mine {
			if k > 0 && p.from == mine[k-1].last { // it did not rest before
				next = append(next, p.from)
			}
			from := p.from
			if me := &a.t.Gs[js.wakers[i]]; from == p.done && me.Born {
				from = me.Start()
			}
			if from < p.done {
				begins, ends = append(begins, from), append(ends, p.last)
			}
		}
	}
	slices.Sort(begins)
	slices.Sort(ends)
	slices.Sort(next)
	sum, begun, over := 0, 0, 0
	for _, at := range next { // what ended with the release before does not count as ended yet
		for begun < len(begins) && begins[begun] < at {
			begun++
		}
		for over < len(ends) && ends[over] < at {
			over++
		}
		sum += begun - over
	}
	if a.atWork == nil {
		a.atWork = map[SiteID]float64{}
	}
	a.atWork[one] = float64(sum) / float64(max(1, len(next)))
	return a.atWork[one]
}

// jobsOf returns the pieces of work that ended with releases at some sites.
func (a *Attribution) jobsOf(sites []SiteID) *jobs {
	type waking struct {
		g    timeline.GID
		site SiteID
		at   timeline.Time
	}
	n := 0
	for _, s := range sites {
		n += len(a.releases[s])
	}
	rs := make([]waking, 0, n)
	for _, s := range sites {
		for _, r := range a.releases[s] {
			rs = append(rs, waking{r.waker, s, r.at})
		}
	}
	if len(sites) > 1 {
		rs = inOrder(rs, func(r *waking) timeline.Time { return r.at })
	}
	out := &jobs{all: make([]job, 0, n)}
	for i, r := range inOrder(rs, func(r *waking) timeline.Time { return timeline.Time(r.g) }) {
		n := len(out.all)
		if k := len(out.wakers); i == 0 || out.wakers[k-1] != r.g {
			out.wakers, out.first = append(out.wakers, r.g), append(out.first, int32(n))
		}
		from := timeline.Time(0)
		if n > int(out.first[len(out.first)-1]) {
			p := &out.all[n-1]
			began := p.from
			if began == p.done { // not known
				began = a.t.Gs[r.g].Start()
			}
			if r.at-p.last < min(batchGap, timeline.Time(batchPart*float64(p.done-began))) {
				p.last = r.at
				continue
			}
			from = p.last // what it did before it has given back
		}
		out.all = append(out.all, job{a.passed(r.g, r.site, r.at, from), r.at, r.at})
	}
	out.first = append(out.first, int32(len(out.all)))
	return out
}

// ReturnsToNetwork reports whether what a goroutine waits for when it has nothing to do is the network,
// as far as it is known to come back to one place, or what it waits for most.
func (a *Attribution) ReturnsToNetwork(g timeline.GID) bool {
	is, known := a.toNetwork[g]
	if known {
		return is
	}
	if multiplexed(a.t.Gs[g].Root()) {
		return true
	}
	is = a.reads(g)
	for _, s := range a.t.Gs[g].Waits() {
		if a.f.Returns(g, s) {
			is = s.Reason == timeline.ReasonNetwork
			break
		}
	}
	if a.toNetwork == nil {
		a.toNetwork = map[timeline.GID]bool{}
	}
	a.toNetwork[g] = is
	return is
}

// ahead is what a worker did for others before it came to a waiter: until until, in
// n pieces of which the longest took so long.
type ahead struct {
	until   timeline.Time
	n       int
	longest timeline.Time
}

// aheadOf returns what the waker h of s did in [from, to] for others who waited at
// the same site, one piece after the other. A lock's holder does nothing for others, and who was started for
// what one waits for does not, unless it stays for what others want: then it was not the waiter that it was started for.
func (a *Attribution) aheadOf(hop Hop, s timeline.Segment, h timeline.GID, own bool, from, to timeline.Time) ahead {
	out := ahead{until: from}
	if a.lockLike(hop) || a.passing(hop) && (own || a.forReply(hop)) {
		return out
	}
	from, to = max(from, s.Start), min(to, s.End)
	js := a.jobsFor(hop.Site, h)
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
