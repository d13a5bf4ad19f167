package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// A wait that a deadline, a cancellation or the end of the recording ended belongs to what was awaited. Who
// that was is told by the waits of the same place that ended otherwise, and by
// whom the waiter had started: a peer, a child, the worker that answers there.

// minAnswers is how many waits at a place one goroutine must have ended to be
// taken for the worker that serves it: a single one tells nothing about others.
const minAnswers = 2

// maxTimeouts bounds how many time-outs, and waits that do not end, lie within each other on one chain.
const maxTimeouts = 64

// gaveUp reports whether a deadline, a cancellation or a timer ended a wait s of g
// for something else.
func (a *Attribution) gaveUp(g timeline.GID, s timeline.Segment) bool {
	switch {
	case s.Reason == timeline.ReasonNetwork:
		return s.Waker != timeline.NoG || a.expired(g, s)
	case a.cancelled(s):
		return true
	case s.Waker != timeline.NoG || s.End >= a.t.End:
		return false
	case s.Reason == timeline.ReasonSleep, s.Reason == timeline.ReasonSystem, s.Reason == timeline.ReasonNone:
		return false
	}
	return a.usuallyAnswered(a.siteOf(s.Stack))
}

// expired reports whether the deadline of a socket ended a wait s of g for the
// network, which no goroutine ended: who was woken because there is something to
// read reads it next.
func (a *Attribution) expired(g timeline.GID, s timeline.Segment) bool {
	waited := a.Sites[a.siteOf(s.Stack)].reads
	if waited == "" {
		return false
	}
	me := &a.t.Gs[g]
	for i := me.SegmentAt(s.End) + 1; i < me.Len(); i++ {
		switch x := me.Seg(i); x.Kind {
		case timeline.Running, timeline.Runnable:
		case timeline.Syscall:
			return a.Sites[a.siteOf(x.Stack)].reads != waited
		default:
			return x.Reason != timeline.ReasonGC && x.Reason != timeline.ReasonGCAssist
		}
	}
	return me.Died
}

// looks are the waits of a goroutine, segments first to last, of which each but the last goes on with what
// the one before waited for, after an alarm. given: somebody gave it that in the last.
type looks struct {
	first, last int
	given       bool
}

// looksFor returns the looks of g from segment i on, a wait at a site that an alarm ended.
func (w *walker) looksFor(g timeline.GID, i int, site SiteID) looks {
	a := w.a
	if l, ok := a.looks[g]; ok && l.first <= i && i < l.last {
		return l
	}
	me, l := &a.t.Gs[g], looks{first: i, last: i}
	for i++; i < me.Len() && w.steps <= maxSteps; i++ {
		w.steps++
		x := me.Seg(i)
		if x.Kind == timeline.Syscall {
			break
		}
		if x.Kind != timeline.Waiting || x.Reason == timeline.ReasonSync { // a condition's lock
			continue
		}
		if x.Stack == 0 || a.siteOf(x.Stack) != site || x.Waker == timeline.NoG {
			break
		}
		l.last = i
		if !a.cancelled(x) {
			l.given = true
			break
		}
	}
	if a.looks == nil {
		a.looks = map[timeline.GID]looks{}
	}
	a.looks[g] = l
	return l
}

// untilGiven handles a wait s of g that an alarm ended, if the waits there that go on with it end
// with somebody who gave g what it waits for: that is what it waited for all the time. It reports
// whether they do.
func (w *walker) untilGiven(at *where, g timeline.GID, s timeline.Segment, from, to timeline.Time) bool {
	a := w.a
	site := a.siteOf(s.Stack)
	if !a.alarmed[site] || a.Sites[a.siteOf(s.WakerStack)].Cancel {
		return false
	}
	me := &a.t.Gs[g]
	l := w.looksFor(g, me.SegmentAt(s.End), site)
	if !l.given {
		return false
	}
	return w.replaced(at, g, me.Seg(l.last), from, to)
}

// replaced walks whoever ended a later wait x of g, for a wait [from, to] that was for the same. It reports whether that can be
// done: see timedOut.
func (w *walker) replaced(at *where, g timeline.GID, x timeline.Segment, from, to timeline.Time) bool {
	if x.Waker == g || slices.Contains(w.waiters, g) || slices.Contains(w.waiters, x.Waker) || len(w.waiters) >= maxTimeouts {
		return false
	}
	w.waiters = append(w.waiters, g)
	w.waker(at, g, x, from, to)
	w.waiters = w.waiters[:len(w.waiters)-1]
	return true
}

// maxIdle bounds how many waits untilHanded looks at.
const maxIdle = 64

// untilHanded handles a wait s of g, a worker, that a timer ended and after which g did nothing but wait there again, until
// somebody handed it something: what g waited for all the time, if not for time, is that. It reports whether it was so.
func (w *walker) untilHanded(at *where, g timeline.GID, s timeline.Segment, from, to timeline.Time) bool {
	a := w.a
	me, site, done := &a.t.Gs[g], a.siteOf(s.Stack), s.End
	for i, n := me.SegmentAt(s.End), 0; i < me.Len() && n < maxIdle; i, n = i+1, n+1 {
		w.steps++
		x := me.Seg(i)
		switch {
		case x.Kind == timeline.Running || x.Kind == timeline.Runnable:
			continue
		case x.Kind != timeline.Waiting || a.siteOf(x.Stack) != site || wakesWithin(me, done, x.Start):
			return false
		case x.Waker == timeline.NoG:
			done = x.End
			continue
		}
		return !a.cancelled(x) && w.replaced(at, g, x, from, to)
	}
	return false
}

// wakesWithin reports whether a goroutine wakes somebody in [from, to].
func wakesWithin(g *timeline.Goroutine, from, to timeline.Time) bool {
	wakes := g.Wakes()
	i := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time >= from })
	return i < len(wakes) && wakes[i].Time <= to
}

// timedOut handles a wait of g that ran into a time-out: what was awaited is
// walked over the same interval. What cannot be walked stays a leaf.
func (w *walker) timedOut(at *where, g timeline.GID, s timeline.Segment, k Key, from, to timeline.Time) {
	a := w.a
	k.Kind = a.awaited(k.Site)
	k.Flags |= TimedOut
	if _, brought := a.Brought(k.Site); brought {
		k.Kind = Network
	}
	if k.Kind == Network {
		w.add(at, k, to-from)
		return
	}
	hop := Hop{Site: k.Site, Reason: s.Reason}
	if a.pooled(k.Site) {
		if w.stillHeld(at, g, s, hop, from, to) {
			return
		}
		next := a.queueAt(at, hop)
		if next.queue == hop {
			w.returned(s, k.Site)
		}
		w.add(&next, k, to-from)
		return
	}
	h := w.child(g, s, k.Site)
	serves := h == timeline.NoG
	if serves {
		h = a.worker(k.Site)
		if a.repliesAt(k.Site) {
			k.Kind = Network
		}
	}
	// A time-out does not order goroutines in time as a wake-up does: one may
	// wait, in the end, for another whose wait it ends later. Nobody is walked
	// for a wait of its own.
	circular := h == g || slices.Contains(w.waiters, g) || slices.Contains(w.waiters, h)
	if h == timeline.NoG || circular || len(w.waiters) >= maxTimeouts {
		w.add(at, k, to-from)
		return
	}
	hop.Waker = a.classAt(h, s.End)
	if serves {
		hop.WakerSite = a.answersFrom(k.Site, h, s.End)
	}
	next := a.queueAt(at, hop)
	next.depth++
	next.flags |= TimedOut
	w.waiters = append(w.waiters, g)
	if serves {
		w.worker(&next, at, s, h, k, from, to)
	} else {
		w.walk(&next, h, from, to)
	}
	w.waiters = w.waiters[:len(w.waiters)-1]
}

// stillHeld replaces a wait s of g at a pool, which a deadline ended, by what those did who had what it waited for: whoever gave it
// back next, if that one had it when the time was out, and who had it before. It reports whether that is known.
func (w *walker) stillHeld(at *where, g timeline.GID, s timeline.Segment, hop Hop, from, to timeline.Time) bool {
	a := w.a
	r, ok := a.nextRelease(hop.Site, s.End)
	if !ok || r.waker == g || slices.Contains(w.waiters, r.waker) || slices.Contains(w.waiters, g) || len(w.waiters) >= maxTimeouts {
		return false // nobody is walked for a wait of its own, see timedOut
	}
	seg := a.t.Gs[r.g].Seg(int(r.seg))
	since := a.passed(r.waker, a.siteOf(seg.Stack), r.at, from)
	if since >= to {
		return false
	}
	hop.WakerSite, hop.Waker = a.siteOf(seg.WakerStack), a.classAt(r.waker, seg.End)
	next := a.queueAt(at, hop)
	next.depth++
	next.flags |= TimedOut
	w.waiters = append(w.waiters, g)
	if since > from {
		w.cover(&next, s, hop, from, since)
	}
	w.holder(&next, r.waker, since, ahead{until: to, n: 1, longest: to - since})
	w.waiters = w.waiters[:len(w.waiters)-1]
	return true
}

// nextRelease returns the first release from an instant on of what is waited for at a site, wherever that is waited for.
func (a *Attribution) nextRelease(site SiteID, from timeline.Time) (next release, ok bool) {
	for _, one := range a.sitesOf[a.queueOf(site)] {
		rs := a.releases[one]
		i := sort.Search(len(rs), func(i int) bool { return rs[i].at >= from })
		if i < len(rs) && (!ok || rs[i].at < next.at) {
			next, ok = rs[i], true
		}
	}
	return next, ok
}

// worker walks what a worker h did in [from, to] of the wait s: first, perhaps,
// for others.
func (w *walker) worker(next, at *where, s timeline.Segment, h timeline.GID, k Key, from, to timeline.Time) {
	if others := w.a.aheadOf(next.last, s, h, true, from, to); others.n > 0 {
		ahead := *next
		ahead.flags |= Ahead
		w.atWork(&ahead, at, h, k, from, others.until)
		from = others.until
	}
	w.atWork(next, at, h, k, from, to)
}

// atWork walks what h did in [from, to], reached by next. Its home waits, and the
// time after its death, stay the leaf k of the waiter at: it was not at work on
// what was awaited.
func (w *walker) atWork(next, at *where, h timeline.GID, k Key, from, to timeline.Time) {
	me := &w.a.t.Gs[h]
	for i := me.SegmentAt(from + 1); i < me.Len() && me.Seg(i).Start < to; i++ {
		x := me.Seg(i)
		w.steps++
		if !w.a.f.Home(h, x) {
			continue
		}
		w.walk(next, h, from, x.Start)
		from = max(from, x.Start)
		end := min(to, x.End)
		w.add(at, k, end-from)
		from = end
	}
	if end := me.End(); me.Died && end < to {
		end = max(from, end)
		w.walk(next, h, from, end)
		w.add(at, k, to-end)
		return
	}
	w.walk(next, h, from, to)
}

// child returns the goroutine that the wait s of g, at a site, was for: one that
// g gave birth to within the request and that was still at work when the time
// was out, or the recording ended. It is of a root function that ends waits at this site; where nothing
// ever did, it was started in the function that waits. Of several it is the one
// that worked longest: the others are done when it is.
func (w *walker) child(g timeline.GID, s timeline.Segment, site SiteID) timeline.GID {
	a := w.a
	w.personal = true
	best := timeline.NoG
	unanswered := len(a.releases[site])+len(a.timers[site]) == 0
	wakes := a.t.Gs[g].Wakes()
	for i := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time >= w.begun }); i < len(wakes) && wakes[i].Time <= s.Start && w.steps <= maxSteps; i++ {
		w.steps++
		if !wakes[i].Birth() {
			continue
		}
		c := wakes[i].Whom()
		me := &a.t.Gs[c]
		if me.Died && me.End() <= s.End {
			continue
		}
		if !a.answers(site, me.Root()) && !(unanswered && a.Sites[a.siteOf(wakes[i].Stack)].Func == a.Sites[site].Func) {
			continue
		}
		if best == timeline.NoG || me.End() > a.t.Gs[best].End() {
			best = c
		}
	}
	return best
}

// answers reports whether goroutines of a root function end waits at a site.
func (a *Attribution) answers(site SiteID, root string) bool {
	roots := a.answerers[site]
	if roots == nil {
		roots = map[string]bool{}
		for _, r := range a.releases[site] {
			roots[a.t.Gs[r.waker].Root()] = true
		}
		a.answerers[site] = roots
	}
	return roots[root]
}

// worker returns the one goroutine that ends the waits at a site by serving
// everybody, NoG if there is none.
func (a *Attribution) worker(site SiteID) timeline.GID {
	if len(a.releases[site]) < minAnswers {
		return timeline.NoG
	}
	if q := a.Queue(site); q.Busiest > OneWorker && q.Children <= ChildRatio && q.Peers <= PeerRatio {
		return q.Worker
	}
	return timeline.NoG
}

// repliesAt reports whether it is mostly replies from a connection for many calls that end the
// waits at a site: who reads it hands them on, and waits for the peer as they do.
func (a *Attribution) repliesAt(site SiteID) bool {
	replies, ok := a.replied[site]
	if !ok {
		rs, n := a.releases[site], 0
		for i := range rs {
			if a.NetworkHome(a.classAt(rs[i].waker, rs[i].at)) {
				n++
			}
		}
		replies = n >= minAnswers && 2*n > len(rs)
		a.replied[site] = replies
	}
	return replies
}

// answersFrom returns where h stood when it ended a wait at a site, the last time
// before an instant or else the first time after it, 0 if it never did.
func (a *Attribution) answersFrom(site SiteID, h timeline.GID, at timeline.Time) SiteID {
	rs := a.releases[site]
	from := sort.Search(len(rs), func(i int) bool { return rs[i].at > at })
	for i := range rs {
		if i < from {
			i = from - 1 - i
		}
		if s := a.t.Gs[rs[i].g].Seg(int(rs[i].seg)); s.Waker == h {
			return a.siteOf(s.WakerStack)
		}
	}
	return 0
}

// pooled reports whether what is awaited at a site is something that others use
// and give back: a connection of a pool, a permit.
func (a *Attribution) pooled(site SiteID) bool {
	switch a.Sites[site].Kind {
	case SitePool, SitePermit:
		return true
	}
	_, brought := a.Brought(site)
	return !brought && len(a.releases[site]) > 0 && a.Queue(site).Peers > PeerRatio
}

// returned measures the holds that ended at a site during a wait s that timed
// out: what was given back meanwhile went to others.
func (w *walker) returned(s timeline.Segment, site SiteID) {
	rs := w.a.releases[site]
	for i := sort.Search(len(rs), func(i int) bool { return rs[i].at > s.Start }); i < len(rs) && rs[i].at <= s.End && w.steps <= maxSteps; i++ {
		w.steps++
		h := rs[i].waker
		if held := rs[i].at - w.a.passed(h, site, rs[i].at, 0); held > 0 {
			w.queues = w.queues.add(Queueing{w.a.Place(site), int64(held), int64(held), 1})
		}
	}
}
