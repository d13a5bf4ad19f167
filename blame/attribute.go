package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Attribution is the leaves of a recording's requests. It is immutable after
// Attribute, but for its internal caches: use it from one goroutine.
type Attribution struct {
	// Requests are those attributed: all of them, or when there are many, all
	// slow ones and a sample of the others (see Attribute). In order of Request.
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

	keyID       map[Key]KeyID
	siteByStack []SiteID
	siteByKey   map[string]SiteID
	classByKey  map[classKey]ClassID
	reasonID    map[string]uint16
	// releases are the waits at a site that a goroutine ended, by serving or by
	// giving back; cancels counts those that a cancellation ended.
	releases map[SiteID][]release
	// timers are the lengths of the waits at a site that no goroutine ended.
	timers       map[SiteID][]int64
	timersSorted map[SiteID]bool
	stitched     *stitching
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
	answered  map[timeline.GID]int
	answerers map[SiteID]map[string]bool
	cancels   map[SiteID]int
	queues    map[SiteID]*Queue
	jobsAt    map[SiteID]map[timeline.GID][]job
	// finalizers is the cache of Finalizing, by root function.
	finalizers map[string]bool
	// samples are the instants of the goroutines' CPU samples, clocks of those that
	// read the clock, growths of those that make room for more; clockStacks and
	// growthStacks cache which stacks do.
	samples, clocks, growths  map[timeline.GID][]timeline.Time
	clockStacks, growthStacks map[gotrace.StackID]bool
	// cycles are the mark phases by who started them.
	cycles   [timeline.Starters][]timeline.Span
	sections map[heldSection]string
	// explaining is how much work is left for finding sections.
	explaining int
	blocking   map[string]blocking
	// watch is what the kernel told of the threads, nil if nothing; keptOf sums up by P.
	watch  *events.Recording
	keptOf []kept
}

// release is a wake-up of a waiter at a site: the waiter's segment says by whom.
type release struct {
	at  timeline.Time
	g   timeline.GID
	seg int32
}

// Timeline returns the timeline that was attributed.
func (a *Attribution) Timeline() *timeline.Timeline { return a.t }

// Found returns the requests that were attributed.
func (a *Attribution) Found() *request.Found { return a.f }

// Options bound the work of Attribute. The zero value is what a diagnosis uses.
type Options struct {
	// MaxRequests bounds the attributed requests; 0 means 20,000. Above it, the
	// slowest tenth of each role is attributed and a deterministic sample of the rest.
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
		keyID: map[Key]KeyID{}, siteByKey: map[string]SiteID{}, classByKey: map[classKey]ClassID{},
		reasonID: map[string]uint16{"": 0}, releases: map[SiteID][]release{}, timers: map[SiteID][]int64{}, timersSorted: map[SiteID]bool{}, queues: map[SiteID]*Queue{}, jobsAt: map[SiteID]map[timeline.GID][]job{},
		answerers: map[SiteID]map[string]bool{}, cancels: map[SiteID]int{},
		sections: map[heldSection]string{}, explaining: maxExplaining, blocking: map[string]blocking{}, locked: map[timeline.GID]bool{},
		samples: map[timeline.GID][]timeline.Time{}, clocks: map[timeline.GID][]timeline.Time{}, clockStacks: map[gotrace.StackID]bool{},
		growths: map[timeline.GID][]timeline.Time{}, growthStacks: map[gotrace.StackID]bool{},
	}
	for s := range a.cycles {
		a.cycles[s] = t.StartedBy(timeline.Starter(s))
	}
	a.findSamples()
	a.findClasses()
	a.classStats()
	a.findReleases()
	a.findBlocking()
	a.findSwitches()
	a.stitched = a.stitch(!o.Guards.NoStitch)
	a.findKept()
	a.occ = t.Occupancy(len(a.Classes), a.classAt)
	w := a.walker()
	pick, weight := a.pick(o.MaxRequests)
	a.Weight = weight
	for _, i := range pick {
		a.Requests = append(a.Requests, w.request(i))
		a.Depth = max(a.Depth, w.depth)
	}
	return a
}

// pick chooses the requests to attribute.
func (a *Attribution) pick(limit int) (pick []int, weight []float64) {
	if limit <= 0 {
		limit = 20_000
	}
	n := len(a.f.Requests)
	if n <= limit {
		for i := range a.f.Requests {
			pick, weight = append(pick, i), append(weight, 1)
		}
		return pick, weight
	}
	byRole := map[int][]int{}
	for i := range a.f.Requests {
		r := a.f.Requests[i].Role
		byRole[r] = append(byRole[r], i)
	}
	chosen := map[int]float64{}
	for _, ids := range byRole {
		sort.SliceStable(ids, func(x, y int) bool {
			return a.f.Requests[ids[x]].Duration() > a.f.Requests[ids[y]].Duration()
		})
		slow := len(ids) / 10
		budget := max(1, limit*len(ids)/n-slow)
		step := max(1, (len(ids)-slow+budget-1)/budget)
		for i, id := range ids {
			switch {
			case i < slow:
				chosen[id] = 1
			case (i-slow)%step == 0:
				chosen[id] = float64(min(step, len(ids)-i))
			}
		}
	}
	for i := range a.f.Requests {
		if w, ok := chosen[i]; ok {
			pick, weight = append(pick, i), append(weight, w)
		}
	}
	return pick, weight
}

// request attributes one request.
func (w *walker) request(i int) Attributed {
	r := &w.a.f.Requests[i]
	clear(w.acc)
	w.total += w.steps
	w.steps, w.depth, w.nested, w.hold, w.held, w.holders = 0, 0, 0, 0, 0, 0
	w.outside, w.squares, w.peer = 0, 0, Stretch{}
	role := &w.a.f.Roles[r.Role]
	w.begun, w.reads, w.library = r.Start(), role.Shape == request.Connection, role.Library()
	w.fanIns = w.fanIns[:0]
	for _, p := range r.Parts {
		w.g, w.ends = p.G, p.End
		w.walk(&where{own: true}, p.G, p.Start, p.End)
	}
	out := Attributed{Request: i, D: int64(r.Duration()), Hold: int64(w.hold), Held: int64(w.held), Holders: w.holders, Peer: w.peer, Pieces: w.pieces(w.acc)}
	if w.squares > 0 {
		out.Outside = w.outside * w.outside / w.squares
	}
	for _, f := range w.fanIns {
		out.FanIns = append(out.FanIns, FanIn{Site: f.site, Pieces: w.pieces(f.wait), Other: w.pieces(f.other), Slack: int64(f.slack), Last: f.last})
	}
	return out
}

// pieces returns what was summed up, in order of keys.
func (w *walker) pieces(acc map[Key]int64) []Piece {
	w.keys = w.keys[:0]
	for k := range acc {
		w.keys = append(w.keys, k)
	}
	slices.SortFunc(w.keys, compareKeys) // ids must not depend on the map's order
	out := make([]Piece, 0, len(acc))
	for _, k := range w.keys {
		id, ok := w.a.keyID[k]
		if !ok {
			id = KeyID(len(w.a.Keys))
			w.a.keyID[k] = id
			w.a.Keys = append(w.a.Keys, k)
		}
		out = append(out, Piece{id, acc[k]})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

// findReleases lists, by site, who ended the waits there.
func (a *Attribution) findReleases() {
	for g := range a.t.Gs {
		for i, s := range a.t.Gs[g].Segs() {
			if s.Kind == timeline.Waiting && s.Waker != timeline.NoG && s.Reason != timeline.ReasonNetwork {
				site := a.siteOf(s.Stack)
				a.classAt(s.Waker, s.End)
				if a.cancelled(s) {
					a.cancels[site]++
					continue
				}
				a.releases[site] = append(a.releases[site], release{s.End, timeline.GID(g), int32(i)})
			} else if s.Kind == timeline.Waiting && s.End < a.t.End && s.Reason != timeline.ReasonNone {
				site := a.siteOf(s.Stack)
				a.timers[site] = append(a.timers[site], int64(s.End-s.Start))
			} else if s.Kind == timeline.Syscall && s.End < a.t.End {
				if site := a.siteOf(s.Stack); a.Sites[site].Kind.sleeps() {
					a.timers[site] = append(a.timers[site], int64(s.End-s.Start))
				}
			}
		}
	}
	for _, rs := range a.releases {
		sort.Slice(rs, func(i, j int) bool { return rs[i].at < rs[j].at })
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
