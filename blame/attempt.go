package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// Attempt is one try of a request to get an answer at a site: all its waits there
// until it asks again. To ask is to write to a socket, to start a goroutine, or to
// wake one that writes to sockets or has ended waits at the site; who only looks
// up now and then from waiting makes one attempt.
type Attempt struct {
	Site       SiteID
	Start, End timeline.Time // of its waits
	// TimedOut is set if a deadline, a cancellation or a timer ended it.
	TimedOut bool
	// Pause is where the request slept longest since its attempt before at this
	// site, for Paused in all; 0 if it did not or there is none.
	Pause  SiteID
	Paused timeline.Time
}

// Bounds of one request's attempts: segments visited, attempts kept, and children
// of children looked into. Who calls more often than that waits for more than one
// answer.
const (
	maxAttemptSteps = 100_000
	maxAttempts     = 4096
	maxDescent      = 16
)

// attempts collects a request's attempts.
type attempts struct {
	a     *Attribution
	begun timeline.Time
	all   []Attempt
	last  map[attemptsAt]int // the latest one, an index into all
	slept map[timeline.GID][]pause
	steps int
}

type attemptsAt struct {
	g    timeline.GID
	site SiteID
}

type pause struct {
	site     SiteID
	from, to timeline.Time
}

// Attempts returns what an attributed request, and the children that it waited
// for, tried to get answers to, in the order in which the waits ended; index as in
// Requests. The request's own client, its locks and its pools are no such thing.
func (a *Attribution) Attempts(index int) []Attempt {
	r := &a.f.Requests[a.Requests[index].Request]
	w := attempts{a: a, begun: r.Start(), last: map[attemptsAt]int{}, slept: map[timeline.GID][]pause{}}
	for _, p := range r.Parts {
		w.of(p.G, p.Start, p.End, 0)
	}
	return w.all
}

// of collects those of g that end in (from, to].
func (w *attempts) of(g timeline.GID, from, to timeline.Time, depth int) {
	me := &w.a.t.Gs[g]
	for i := me.SegmentAt(from + 1); i < me.Len() && me.Seg(i).End <= to && w.steps < maxAttemptSteps && len(w.all) < maxAttempts; i++ {
		w.steps++
		s := me.Seg(i)
		site := SiteID(0)
		if s.Stack != 0 {
			site = w.a.siteOf(s.Stack)
		}
		gaveUp := s.Kind == timeline.Waiting && w.a.gaveUp(g, s)
		switch {
		case s.Kind == timeline.Syscall && w.a.Sites[site].Kind.sleeps(), s.Kind == timeline.Waiting && s.Waker == timeline.NoG && s.Reason != timeline.ReasonNetwork && !gaveUp:
			w.slept[g] = append(w.slept[g], pause{site, s.Start, s.End})
		case s.Kind == timeline.Waiting:
			if s.Waker != timeline.NoG && depth < maxDescent {
				if h := &w.a.t.Gs[s.Waker]; h.Born && h.Creator == g && h.Start() >= w.begun {
					w.of(s.Waker, max(from, s.Start), s.End, depth+1)
				}
			}
			if w.a.asks(site, s) {
				w.add(g, s, site, gaveUp)
			}
		}
	}
}

// add adds a wait to the attempt it belongs to.
func (w *attempts) add(g timeline.GID, s timeline.Segment, site SiteID, gaveUp bool) {
	k := attemptsAt{g, site}
	before, ok := w.last[k]
	if ok && !w.asked(g, site, w.all[before].End, s.Start) {
		w.all[before].End, w.all[before].TimedOut = s.End, gaveUp
		return
	}
	x := Attempt{Site: site, Start: s.Start, End: s.End, TimedOut: gaveUp}
	var longest timeline.Time
	for _, p := range slices.Backward(w.slept[g]) {
		w.steps++
		if !ok || p.from < w.all[before].End || w.steps > maxAttemptSteps {
			break
		}
		d := p.to - p.from
		x.Paused += d
		if d > longest {
			x.Pause, longest = p.site, d
		}
	}
	w.last[k] = len(w.all)
	w.all = append(w.all, x)
}

// asked reports whether g asked for an answer at a site in [from, to].
func (w *attempts) asked(g timeline.GID, site SiteID, from, to timeline.Time) bool {
	me := &w.a.t.Gs[g]
	for i := me.SegmentAt(from + 1); i < me.Len() && me.Seg(i).Start < to && w.steps < maxAttemptSteps; i++ {
		w.steps++
		x := me.Seg(i)
		if x.Kind != timeline.Syscall {
			continue
		}
		if site := &w.a.Sites[w.a.siteOf(x.Stack)]; site.Write && site.Kind != SiteInbound { // no part of its own answer
			return true
		}
	}
	wakes := me.Wakes()
	for i := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time >= from }); i < len(wakes) && wakes[i].Time <= to && w.steps < maxAttemptSteps; i++ {
		w.steps++
		h := wakes[i].Whom()
		if wakes[i].Birth() || len(w.a.stitched.writes.of(h)) > 0 || w.a.answers(site, w.a.t.Gs[h].Root()) {
			return true
		}
	}
	return false
}

// asks reports whether a wait s at a site can be for an answer. Who waits at a pool
// until a connection is made asks whom it connects to.
func (a *Attribution) asks(site SiteID, s timeline.Segment) bool {
	if site == 0 {
		return false
	}
	switch a.Sites[site].Kind {
	case SiteInbound, SiteGroup, SiteShared:
		return false // its client, its children, others with the same question
	case SitePool, SitePermit:
		return a.Sites[a.siteOf(s.WakerStack)].Dial
	}
	switch s.Reason {
	case timeline.ReasonNetwork, timeline.ReasonSelect, timeline.ReasonChanReceive:
		return true
	}
	return false
}
