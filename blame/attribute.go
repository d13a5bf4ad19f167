package blame

import (
	"sort"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Attribution is the leaves of a recording's requests. It is immutable after
// Attribute, but for its internal caches: use it from one goroutine.
type Attribution struct {
	// Requests are those attributed: all of them, or when there are many, a sample in which
	// slow ones are many (see Options.MaxRequests). In order of Request.
	Requests []Attributed
	// Weight is how many found requests an attributed one stands for, by index
	// into Requests.
	Weight []float64
	Keys   []Key
	Sites  []Site
	// Classes are indexed by ClassID.
	Classes []Class
	// Reasons are the stop-the-world reasons that Key.Reason indexes.
	Reasons []string
	// Depth is the deepest chain of wakers followed.
	Depth int

	t      *timeline.Timeline
	f      *request.Found
	occ    *timeline.Occupancy
	guards Guards

	numbers     numbers
	memory      memory
	siteByStack []SiteID
	siteByKey   map[string]SiteID
	reasonID    map[string]uint16
	// classOf is the class of each goroutine while it carries no request; carrying, by that
	// class and by endpoint, is what it is while it carries one.
	classOf  []ClassID
	carrying [][]ClassID
	// releases are the waits at a site that a goroutine ended, by serving or by
	// giving back; cancels counts those that a cancellation ended.
	releases map[SiteID][]release
	// timers are the lengths of the waits at a site that no goroutine ended.
	timers       map[SiteID][]int64
	timersSorted map[SiteID]bool
	endedByNone  map[SiteID][]timeline.Span
	callsAt      map[SiteID]spansThere
	ended        map[SiteID]spansThere // see Answered
	stitched     *stitching
	branches     []branch
	endpoints    []int // see EndpointOf
	callers      []int // of the roles, nil before they are asked for
	networkHome  map[ClassID]bool
	serves       map[string]bool
	connects     map[ClassID]bool
	late         int64 // cache of LateWakeup, -1 when not computed
	lateBins     []int64
	// switches is how many waits for a P were for another thread, locked who is
	// locked to one.
	switches  int
	locked    map[timeline.GID]bool
	answered  map[answer]bool
	answersTo map[exchange]bool
	answerers map[SiteID]map[string]bool
	cancels   map[SiteID]int
	// alarmed are the sites at which alarms end no wait for good, nil if there are none.
	alarmed map[SiteID]bool
	// spots are the sites that stand for all at one place, looks where waits that alarms ended were
	// looked at last, by goroutine.
	spots  map[spot]SiteID
	looks  map[timeline.GID]looks
	queues map[SiteID]*Queue
	jobsAt map[SiteID]*jobs
	// endedFrom are the places from which waits at a site are ended, endedBy the sites of waits that are
	// ended from a place.
	endedFrom, endedBy map[SiteID][]SiteID
	// queueAtSite, sitesOf and queueJobs are what queueOf and jobsFor tell.
	queueAtSite map[SiteID]SiteID
	sitesOf     map[SiteID][]SiteID
	queueJobs   map[SiteID]*jobs
	atWork      map[SiteID]float64
	// onlyBring is what Brings tells.
	onlyBring map[SiteID]bool
	longest   timeline.Time // request, 0 before anybody asks
	toNetwork map[timeline.GID]bool
	starts    map[starter]bool
	timedOut  map[SiteID]bool
	holdsAt   map[SiteID]Holds
	turnsAt   map[SiteID]Turns
	busy      float64 // 0 before anybody asks
	usesAt    map[SiteID][]job
	takesWork map[timeline.GID]bool
	announced map[SiteID]bool
	hands     map[SiteID]bool // see HandsOver
	feeds     map[SiteID]bool
	full      map[SiteID]bool // see fills
	keyed     map[SiteID]keyed
	brought   map[SiteID]int // the endpoint, or -1
	rested    map[timeline.GID]timeline.Time
	// replied is the cache of repliesAt.
	replied map[SiteID]bool
	// collectsAt is by site, lingering by who collects and where.
	collectsAt map[SiteID]SiteID
	lingering  map[exchange]timeline.Time
	collectors map[collector]bool
	gathered   map[SiteID]SiteID
	keeping    map[SiteID]keeping // by group, see queueOf
	discarded  map[int]int        // by the library, see discarding
	// handed is the cache of Handed.
	handed map[SiteID]float64
	// finalizers is the cache of Finalizing, by root function.
	finalizers map[string]bool
	// samples are the instants of the goroutines' CPU samples, clocks of those that
	// read the clock, growths of those that make room for more, sweepings of those that sweep;
	// clockStacks, growthStacks and sweepStacks cache which stacks do.
	samples, clocks, growths, sweepings map[timeline.GID][]timeline.Time
	// sampled are the goroutines' CPU samples, by their numbers in the timeline, in order of time.
	sampled                                map[timeline.GID][]int32
	clockStacks, growthStacks, sweepStacks map[gotrace.StackID]bool
	// cycles are the mark phases by who started them.
	cycles   [timeline.Starters][]timeline.Span
	sections map[heldSection]string
	// explainable is how much work is left for finding sections.
	explainable int
	blocking    map[string]blocking
	// watch is what the kernel told of the threads, nil if nothing; keptOf sums up by P.
	watch  *events.Recording
	keptOf []kept
	// suspended is when the whole process was made to stop.
	suspended []events.Suspension
}

// release is a wake-up of a waiter g by a waker: it ended a segment of g.
type release struct {
	at    timeline.Time
	waker timeline.GID
	g     timeline.GID
	seg   int32
}

// Timeline returns the timeline that was attributed.
func (a *Attribution) Timeline() *timeline.Timeline { return a.t }

// Found returns the requests that were attributed.
func (a *Attribution) Found() *request.Found { return a.f }

// Options bound the work of Attribute. The zero value is what a diagnosis uses.
type Options struct {
	// MaxRequests bounds the attributed requests; 0 means 20,000. Above it a deterministic sample
	// is attributed, of which half is of the slowest fiftieth of each role if that is not less.
	MaxRequests int
	Guards      Guards
	// Watch is what the kernel told of the threads, nil if nothing is known.
	Watch *events.Recording
}

// Attribute partitions the time of the requests that were found.
func Attribute(t *timeline.Timeline, f *request.Found, o Options) *Attribution {
	a := &Attribution{
		t: t, f: f, guards: o.Guards, late: -1, watch: o.Watch,
		Sites: make([]Site, 1), Classes: fixedClasses(), Reasons: []string{""},
		siteByKey: map[string]SiteID{},
		reasonID:  map[string]uint16{"": 0}, releases: map[SiteID][]release{}, timers: map[SiteID][]int64{}, timersSorted: map[SiteID]bool{}, queues: map[SiteID]*Queue{}, jobsAt: map[SiteID]*jobs{},
		answerers: map[SiteID]map[string]bool{}, replied: map[SiteID]bool{}, cancels: map[SiteID]int{},
		sections: map[heldSection]string{}, explainable: maxExplaining, blocking: map[string]blocking{}, locked: map[timeline.GID]bool{},
		samples: map[timeline.GID][]timeline.Time{}, sampled: map[timeline.GID][]int32{}, clocks: map[timeline.GID][]timeline.Time{}, clockStacks: map[gotrace.StackID]bool{},
		growths: map[timeline.GID][]timeline.Time{}, growthStacks: map[gotrace.StackID]bool{},
		sweepings: map[timeline.GID][]timeline.Time{}, sweepStacks: map[gotrace.StackID]bool{},
	}
	for s := range a.cycles {
		a.cycles[s] = t.StartedBy(timeline.Starter(s))
	}
	a.findSamples()
	a.findClasses()
	v := a.survey()
	a.classStats(v)
	a.findReleases(v)
	a.findBlocking(v.stacks)
	a.stitched = a.stitch(v, !o.Guards.NoStitch)
	a.findKept()
	if a.watch != nil {
		a.suspended = a.watch.Suspensions()
	}
	forward := f.Forward()
	a.occ = t.Occupancy(len(a.Classes), func(g timeline.GID, at timeline.Time) ClassID { return a.classIn(g, at, forward) })
	w := a.walker()
	pick, weight := a.pick(o.MaxRequests)
	a.Weight, a.Requests = weight, make([]Attributed, 0, len(pick))
	for _, i := range pick {
		a.Requests = append(a.Requests, w.request(i))
		a.Depth = max(a.Depth, w.depth)
	}
	a.findBranches()
	a.memory = memory{}
	return a
}

// strata are which requests of a role are attributed if they are too many: of the slowest, up to a
// part of all, as many as leave a part of what the role may have to the others. The first one
// holds the tail, the last one what is typical.
var strata = [...]struct{ to, leave float64 }{{0.02, 0.5}, {0.1, 0.375}, {1, 0}}

// pick chooses the requests to attribute.
func (a *Attribution) pick(limit int) (pick []int, weight []float64) {
	if limit <= 0 {
		limit = 20_000
	}
	type one struct {
		length  timeline.Time
		request int
	}
	n := 0
	byRole := make([]pile[one], len(a.f.Roles))
	for i := range a.f.Requests {
		if r := &a.f.Requests[i]; !r.Beyond {
			n++
			byRole[r.Role].add(one{r.Duration(), i})
		}
	}
	if n <= limit {
		for i := range a.f.Requests {
			if !a.f.Requests[i].Beyond {
				pick, weight = append(pick, i), append(weight, 1)
			}
		}
		return pick, weight
	}
	chosen := make([]float64, len(a.f.Requests)) // how many each stands for, 0 for none
	for role := range byRole {
		ids := inOrder(byRole[role].all(), func(x *one) timeline.Time { return -x.length })
		left := max(1, limit*len(ids)/n)
		share, from := left, 0
		for _, x := range strata {
			to := int(x.to * float64(len(ids)))
			budget := max(1, left-int(x.leave*float64(share)))
			step := max(1, (to-from+budget-1)/budget)
			for i := from; i < to; i += step {
				chosen[ids[i].request] = float64(min(step, to-i))
				left--
			}
			from = to
		}
	}
	for i, w := range chosen {
		if w > 0 {
			pick, weight = append(pick, i), append(weight, w)
		}
	}
	return pick, weight
}

// request attributes one request.
func (w *walker) request(i int) Attributed {
	r := &w.a.f.Requests[i]
	w.total += w.steps
	w.steps, w.depth, w.nested, w.queues = 0, 0, 0, nil
	w.outside, w.squares, w.peer = 0, 0, Stretch{}
	role := &w.a.f.Roles[r.Role]
	w.begun, w.reads, w.library = r.Start(), role.Shape == request.Connection, role.Library()
	w.fanIns, w.portions = w.fanIns[:0], w.portions[:0]
	for _, p := range r.Parts {
		w.g, w.ends = p.G, p.End
		w.walk(&where{own: true}, p.G, p.Start, p.End)
	}
	w.scratch = w.acc.take(w.scratch[:0])
	out := Attributed{Request: i, D: int64(r.Duration()), Queues: w.queues, Peer: w.peer, Pieces: w.pieces(w.scratch)}
	if w.squares > 0 {
		out.Outside = w.outside * w.outside / w.squares
	}
	for _, f := range w.fanIns {
		out.FanIns = append(out.FanIns, FanIn{Site: f.site, Pieces: w.pieces(f.wait), Other: w.pieces(f.other), Slack: int64(f.slack), Last: f.last, Nested: f.nested})
	}
	return out
}

// findReleases lists, by site, who ended the waits there.
func (a *Attribution) findReleases(v *survey) {
	for site := range v.releases {
		if rs := v.releases[site].all(); len(rs) > 0 {
			a.releases[SiteID(site)] = inOrder(rs, func(r *release) timeline.Time { return r.at })
		}
	}
	for site := range v.timers {
		if ts := v.timers[site].all(); len(ts) > 0 {
			a.timers[SiteID(site)] = ts
		}
	}
}

// stwAfter returns the index of the first stop that ends after at.
func (a *Attribution) stwAfter(at timeline.Time) int {
	return sort.Search(len(a.t.STW), func(i int) bool { return a.t.STW[i].End > at })
}

func (a *Attribution) reason(name string) uint16 {
	id, ok := a.reasonID[name]
	if !ok {
		id = uint16(len(a.Reasons))
		a.reasonID[name] = id
		a.Reasons = append(a.Reasons, name)
	}
	return id
}

// Closure is the result of checking that leaves add up.
type Closure struct {
	Requests int
	// WorstNS is the largest |sum of leaves - duration|: 0, always.
	WorstNS int64
}

// Check verifies that every request's pieces add up to its duration.
func (a *Attribution) Check() Closure {
	c := Closure{Requests: len(a.Requests)}
	for i := range a.Requests {
		d := a.Requests[i].D
		for _, p := range a.Requests[i].Pieces {
			d -= p.NS
		}
		c.WorstNS = max(c.WorstNS, d, -d)
	}
	return c
}
