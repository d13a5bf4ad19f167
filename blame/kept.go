package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Kept is what became of what was handed over at the site of a pool, as far as a
// trace tells: to give something back while others wait for it is to wake one.
type Kept struct {
	// Given counts what was handed to those who were done with their work while
	// somebody waited at the site all the time, Kept those of them of whom nobody
	// got anything: neither from them, nor from a goroutine that they woke or
	// started, or that woke them.
	Given, Kept int
	// Users is how many requests are under way at the end of the recording, for half of
	// the time since the last hand-over or longer, and wait at the site neither themselves nor
	// in goroutines that they wait for: they may hold what others wait for.
	Users int
	// Others is how many other goroutines of the program may hold it: they are there at the end of the recording, not
	// by a request that began when somebody waited in vain, and wait neither at the site nor where theirs return to.
	Others int
	// Never is set if nothing was handed over in all of the recording.
	Never bool
}

// Nobody reports whether nobody is known who may still hold something.
func (k Kept) Nobody() bool { return k.Users == 0 && k.Others == 0 }

// lastGiven returns when something was handed over at a site for the last time, the start of the recording
// if it was not within that.
func (a *Attribution) lastGiven(site SiteID) timeline.Time {
	if rs := a.releases[site]; len(rs) > 0 {
		return rs[len(rs)-1].at
	}
	return a.t.Start
}

// Vain returns how many waits began at a site after the last hand-over there, and for how
// long since somebody waited, in nanoseconds.
func (a *Attribution) Vain(site SiteID) (n int, dry timeline.Time) {
	last := a.lastGiven(site)
	spans := a.waitedAt(site, last, func(g timeline.GID, i int, s timeline.Segment) {
		if s.Start > last && !a.goesOn(g, i, site) {
			n++
		}
	})
	return n, timeline.Overlap(spans, last, a.t.End)
}

// Kept returns what became of what was handed over at a site.
func (a *Attribution) Kept(site SiteID) (k Kept) {
	rs, last := a.releases[site], a.lastGiven(site)
	spans := a.waitedAt(site, a.t.Start-1, func(timeline.GID, int, timeline.Segment) {})
	by := map[timeline.GID][]timeline.Time{}
	for _, r := range rs {
		h := r.waker
		by[h] = append(by[h], r.at)
	}
	for _, r := range rs {
		done, wakes := a.use(r, site, by)
		if done == 0 || timeline.Overlap(spans, r.at, done) < done-r.at {
			continue
		}
		k.Given++
		if !wakes {
			k.Kept++
		}
	}
	k.Users = a.users(site, last+(a.t.End-last)/2)
	since := last // while nobody waits, what is given back and taken is not seen
	if n := len(spans); n > 0 {
		since = max(last, spans[n-1].Start)
	}
	k.Others = a.others(site, since)
	k.Never = len(rs) == 0
	return k
}

// others counts the goroutines that carry no request and may hold something of a pool for which somebody waits since an instant in
// vain: all of the program, but for those who wait there, too, or, idle, where they get their work one by one, and for what requests
// started that began after it.
func (a *Attribution) others(site SiteID, since timeline.Time) (n int) {
	given := a.releases[site]
	gives, fetches, returns := map[string]bool{}, map[string]bool{}, map[string]bool{} // by root
	for _, r := range given {
		gives[a.t.Gs[r.waker].Root()] = true
	}
	for g := range a.t.Gs {
		me, home := &a.t.Gs[g], false
		for _, s := range me.Waits() {
			back := a.f.Returns(timeline.GID(g), s)
			if home && back {
				returns[me.Root()] = true
			}
			if home = home || back; s.Stack != 0 && a.samePool(a.siteOf(s.Stack), site) {
				fetches[me.Root()] = fetches[me.Root()] || home
			}
		}
	}
	idle := func(g timeline.GID, s timeline.Segment) bool {
		root := a.t.Gs[g].Root()
		if !a.f.Returns(g, s) || !returns[root] {
			return false
		}
		if s.Reason == timeline.ReasonNetwork && !a.f.Entry(g) { // who reads what somebody asked for may give back what that one took
			return len(given) > 0 && !gives[root]
		}
		job, asks := fetches[root] // for each piece of work, or once for all of them
		return job || !asks
	}
	for g := range a.t.Gs {
		g, me := timeline.GID(g), &a.t.Gs[g]
		if me.Died || me.Len() == 0 || me.System || me.Observer || a.f.RequestAt(g, a.t.End) >= 0 || a.bornSince(g, since) {
			continue
		}
		i := me.Len() - 1
		s := me.Seg(i)
		waits := s.Kind == timeline.Waiting
		if waits && s.Start <= a.t.Start && len(given) > 0 { // since when there was something
			continue
		}
		for ; i > 0 && s.Stack == 0; s = me.Seg(i) {
			i--
		}
		frames := a.t.Stacks.Frames(s.Stack)
		if _, app := request.AppFrame(frames); len(frames) > 0 && !app || slices.ContainsFunc(frames, request.Observes) || waits && slices.ContainsFunc(frames, inAccept) {
			continue
		}
		if !waits || !idle(g, s) && !a.standsAt(g, site, a.t.Start, maxHands) {
			n++
		}
	}
	return n
}

// bornSince reports whether a goroutine was started after an instant, by a request that began after it, too.
func (a *Attribution) bornSince(g timeline.GID, at timeline.Time) bool {
	me := &a.t.Gs[g]
	if !me.Born || me.Start() <= at {
		return false
	}
	q := a.f.RequestAt(me.Creator, me.Start())
	return q >= 0 && a.f.Requests[q].Start() > at
}

// users counts the requests that are under way at the end of the recording, since before an instant, and wait at a site neither
// themselves nor in goroutines that they wait for.
func (a *Attribution) users(site SiteID, before timeline.Time) (n int) {
	for i := range a.f.Requests {
		r := &a.f.Requests[i]
		g := r.Parts[len(r.Parts)-1].G
		if r.InFlight && r.Start() < before && a.t.Gs[g].Len() > 0 && !a.standsAt(g, site, r.Start(), maxHands) {
			n++
		}
	}
	return n
}

// mostBirths bounds how many of the goroutines that one has started last are asked where they stand.
const mostBirths = 64

// standsAt reports whether a goroutine waits at a site when the recording ends, or waits for others, of which one to which it gave birth
// since an instant does, or waits for such ones itself, so many generations on.
func (a *Attribution) standsAt(g timeline.GID, site SiteID, since timeline.Time, on int) bool {
	me := &a.t.Gs[g]
	if me.Died || me.Len() == 0 {
		return false
	}
	last := me.Seg(me.Len() - 1)
	if last.Kind != timeline.Waiting {
		return false
	}
	at := a.siteOf(last.Stack)
	switch {
	case a.samePool(at, site):
		return true
	case on == 0 || a.Sites[at].Kind != SiteGroup && !a.permitLike(Hop{Reason: last.Reason}):
		return false
	}
	wakes := me.Wakes()
	for i, n := len(wakes)-1, 0; i >= 0 && wakes[i].Time >= since && n < mostBirths; i, n = i-1, n+1 {
		if wakes[i].Birth() && a.standsAt(wakes[i].Whom(), site, since, on-1) {
			return true
		}
	}
	return false
}

// samePool reports whether two sites are one, or call the same function of a library for an item of
// a pool, or are the same line of the program, reached on two ways: for what is known, the same is waited
// for there.
func (a *Attribution) samePool(x, y SiteID) bool { return x == y || a.Place(x) == a.Place(y) }

// spot is what sites have in common at which the same is waited for.
type spot struct {
	kind           SiteKind
	call, function string
	line           int
}

// Place returns one site for all at which the same is waited for, or done: those where the same function
// of a library is called for an item of a pool, and those at the same line of the program.
func (a *Attribution) Place(site SiteID) SiteID {
	s := &a.Sites[site]
	at := spot{kind: s.Kind, call: s.Call}
	switch {
	case s.Kind == SitePool:
	case s.App:
		at.function, at.line = s.Func, s.Line
	default:
		return site
	}
	one, ok := a.spots[at]
	if !ok {
		if a.spots == nil {
			a.spots = map[spot]SiteID{}
		}
		one = site
		a.spots[at] = one
	}
	return one
}

// Left is what requests took at the site of a pool and left to the end of a context to give
// back.
type Left struct {
	// N is how often somebody who waited got something from a goroutine that did nothing but
	// wait for that end, after the request had ended that started it or that it worked for, or from one that
	// it told or started.
	N int
	// At is where these goroutines waited, By where one was started, 0 if that is not known, or it worked for
	// others, too.
	At map[Leaves]bool
	By gotrace.StackID
}

// Leaves is a class of goroutines that wait for the end of a context at a site.
type Leaves struct {
	Class ClassID
	Site  SiteID
}

// firstWait is the first wait of a goroutine but for those for a lock, zero if there is none.
func firstWait(g *timeline.Goroutine) timeline.Segment {
	for i := range g.Len() {
		if s := g.Seg(i); s.Kind == timeline.Waiting && s.Reason != timeline.ReasonSync {
			return s
		}
	}
	return timeline.Segment{}
}

// Left returns what was left at a site.
func (a *Attribution) Left(site SiteID) Left {
	l := Left{At: map[Leaves]bool{}}
	firsts := map[timeline.GID]timeline.Segment{} // by goroutine
	leaves := func(g timeline.GID, at timeline.Time) bool {
		if g == timeline.NoG || a.f.Entry(g) {
			return false
		}
		me := &a.t.Gs[g]
		wait, known := firsts[g]
		if !known {
			wait = firstWait(me)
			firsts[g] = wait
		}
		by := gotrace.StackID(0)
		switch {
		case ended(wait, at) && a.cancelled(wait) && a.outlived(g, wait.End):
			if me.Born {
				by = me.CreatorStack
			}
		default: // it may have done something else, too
			if wait = a.lastWait(g, at); !ended(wait, at) || !a.cancelled(wait) || !a.neglected(g, wait) {
				return false
			}
		}
		l.N++
		l.At[Leaves{a.classAt(g, wait.Start), a.siteOf(wait.Stack)}] = true
		l.By = max(l.By, by)
		return true
	}
	for _, r := range a.releases[site] {
		me := &a.t.Gs[r.waker]
		switch {
		case leaves(r.waker, r.at), a.f.Entry(r.waker):
		case me.Born && me.Start() > a.t.Gs[r.g].Seg(int(r.seg)).Start: // to make another one in place of what was closed
			leaves(me.Creator, me.Start())
		case !a.ReturnsToNetwork(r.waker):
			leaves(a.toldBy(r.waker, r.at))
		}
	}
	return l
}

// ended reports whether at an instant hardly anything has been done since a wait.
func ended(wait timeline.Segment, at timeline.Time) bool {
	return wait.End != 0 && wait.Start < at && at-wait.End <= wait.End-wait.Start
}

// lastWait is the last wait of a goroutine before an instant but for those for a lock, zero if there is none.
func (a *Attribution) lastWait(g timeline.GID, at timeline.Time) timeline.Segment {
	me := &a.t.Gs[g]
	for i, steps := min(me.SegmentAt(at), me.Len()-1), 0; i >= 0 && steps < maxUse; i, steps = i-1, steps+1 {
		if s := me.Seg(i); s.Kind == timeline.Waiting && s.Reason != timeline.ReasonSync && s.End <= at {
			return s
		}
	}
	return timeline.Segment{}
}

// neglected reports whether most of a wait of a goroutine passes when the request has ended that it worked for:
// in which it last woke somebody before.
func (a *Attribution) neglected(g timeline.GID, wait timeline.Segment) bool {
	ws := a.t.Gs[g].Wakes()
	i := sort.Search(len(ws), func(i int) bool { return ws[i].Time > wait.Start }) - 1
	if i < 0 {
		return false
	}
	q := a.f.RequestAt(ws[i].Whom(), ws[i].Time)
	if q < 0 || a.f.Requests[q].InFlight {
		return false
	}
	end := a.f.Requests[q].End()
	return 2*(wait.End-end) > wait.End-wait.Start
}

// toldBy returns who ended the last wait of a goroutine before an instant that somebody ended, and when;
// NoG if nobody did.
func (a *Attribution) toldBy(g timeline.GID, at timeline.Time) (by timeline.GID, end timeline.Time) {
	me := &a.t.Gs[g]
	i := me.SegmentAt(at) - 1
	for steps := 0; i >= 0 && steps < maxUse; i, steps = i-1, steps+1 {
		if s := me.Seg(i); s.Kind == timeline.Waiting && s.Waker != timeline.NoG && s.Reason != timeline.ReasonNetwork && s.Reason != timeline.ReasonSync {
			return s.Waker, s.End
		}
	}
	return timeline.NoG, 0
}

// outlived reports whether a goroutine that a request started goes on at an instant when that has ended; if
// it was there when the recording began, whether it is there for longer than any request is.
func (a *Attribution) outlived(g timeline.GID, at timeline.Time) bool {
	me := &a.t.Gs[g]
	if me.Born {
		if me.Creator == timeline.NoG {
			return false
		}
		q := a.f.RequestAt(me.Creator, me.Start())
		return q >= 0 && !a.f.Requests[q].InFlight && a.f.Requests[q].End() < at
	}
	if a.longest == 0 {
		for i := range a.f.Requests {
			a.longest = max(a.longest, a.f.Requests[i].Duration())
		}
	}
	return at-a.t.Start > a.longest
}

// waitedAt returns the spans in which somebody waits at a site, of those that do so after an
// instant, and calls each for every wait, a segment of a goroutine.
func (a *Attribution) waitedAt(site SiteID, after timeline.Time, each func(g timeline.GID, i int, s timeline.Segment)) (spans []timeline.Span) {
	var all []timeline.Span
	for g := range a.t.Gs {
		me := &a.t.Gs[g]
		for i, s := range me.SegsFrom(me.SegmentNear(after+1, me.Len()-1)) {
			if s.Kind == timeline.Waiting && s.Stack != 0 && a.siteOf(s.Stack) == site {
				each(timeline.GID(g), i, s)
				all = append(all, timeline.Span{Start: s.Start, End: s.End})
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Start < all[j].Start })
	for _, s := range all {
		if n := len(spans); n > 0 && s.Start <= spans[n-1].End {
			spans[n-1].End = max(spans[n-1].End, s.End)
			continue
		}
		spans = append(spans, s)
	}
	return spans
}

// goesOn reports whether segment i of g, a wait at a site, goes on with the wait there that an
// alarm ended just before.
func (a *Attribution) goesOn(g timeline.GID, i int, site SiteID) bool {
	if !a.alarmed[site] {
		return false
	}
	for i--; i >= 0; i-- {
		switch s := a.t.Gs[g].Seg(i); s.Kind {
		case timeline.Syscall:
			return false
		case timeline.Waiting:
			return s.Reason == timeline.ReasonCond && a.siteOf(s.Stack) == site && a.cancelled(s)
		}
	}
	return false
}

// maxUse bounds the segments, and the wake-ups, of one use that are looked at.
const maxUse = 10_000

// use returns when the waiter of r was done with the work for which it waited at the
// site, 0 if it is not known to be, and whether it, or somebody who had to do with
// it meanwhile, ended a wait there since; by is when each goroutine did.
func (a *Attribution) use(r release, site SiteID, by map[timeline.GID][]timeline.Time) (done timeline.Time, wakes bool) {
	me := &a.t.Gs[r.g]
	met := map[timeline.GID]bool{}
	for i := int(r.seg) + 1; i < me.Len() && i < int(r.seg)+maxUse && done == 0; i++ {
		switch s := me.Seg(i); {
		case s.Kind != timeline.Waiting:
		case a.f.Home(r.g, s):
			done = s.Start
		case s.Stack != 0 && a.siteOf(s.Stack) == site:
			return 0, false // it takes a second one, and may hold the first meanwhile
		case s.Waker != timeline.NoG:
			met[s.Waker] = true
		}
	}
	if done == 0 && me.Died && me.Len() < int(r.seg)+maxUse {
		done = me.End()
	}
	if done == 0 {
		return 0, false
	}
	ws := me.Wakes()
	from := sort.Search(len(ws), func(i int) bool { return ws[i].Time > r.at })
	for i := from; i < len(ws) && i < from+maxUse && ws[i].Time <= done; i++ {
		if ws[i].Birth() && !a.t.Gs[ws[i].Whom()].Died {
			return 0, false // its child may still be at work with it
		}
		met[ws[i].Whom()] = true
	}
	gave := func(h timeline.GID, until timeline.Time) bool {
		at := by[h]
		i := sort.Search(len(at), func(i int) bool { return at[i] > r.at })
		return i < len(at) && at[i] <= until
	}
	for h := range met {
		if h != r.g && gave(h, a.t.End) {
			return done, true
		}
	}
	return done, gave(r.g, done)
}

// discarding are functions below which a pool closes connections that it does not want to keep: one that is given back has no room, or cannot be
// used again, or one is older, or was idle for longer, than it may be. Who connects for the pool, or waits for one of its connections, has a function of
// it on the stack.
// Source: the named packages' own sources (Go 1.22 to 1.26 for the standard library).
var discarding = []struct{ pool, closes []string }{
	{[]string{"database/sql."}, []string{"database/sql.(*driverConn).Close"}},
	{[]string{"net/http.(*Transport).", "net/http.(*persistConn).addTLS"}, []string{
		"net/http.(*persistConn).readLoop.func1", // not where the peer closed it while it was idle
		"net/http.(*Transport).putOrCloseIdleConn", "net/http.(*persistConn).closeConnIfStillIdle",
	}},
	{[]string{"github.com/redis/go-redis/v9/internal/pool."}, []string{
		"github.com/redis/go-redis/v9/internal/pool.(*ConnPool).Put", "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).CloseConn",
	}},
	{[]string{"github.com/go-redis/redis/v8/internal/pool."}, []string{
		"github.com/go-redis/redis/v8/internal/pool.(*ConnPool).Put", "github.com/go-redis/redis/v8/internal/pool.(*ConnPool).CloseConn",
	}},
	{[]string{"github.com/gomodule/redigo/redis."}, []string{"github.com/gomodule/redigo/redis.(*conn).Close"}},
	{[]string{"github.com/jackc/puddle/v2."}, []string{"github.com/jackc/puddle/v2.(*Pool[...]).destroyAcquiredResource"}},
}

// Discarded returns how many connections were closed by the pool of the client library on the stack of a site, as
// it does with those that it does not want to keep. It goes through all segments, once for each library.
func (a *Attribution) Discarded(site SiteID) (n int) {
	for i, row := range discarding {
		if !slices.ContainsFunc(a.t.Stacks.Frames(a.Sites[site].Stack), func(f gotrace.Frame) bool { return hasAny(f.Func, row.pool) }) {
			continue
		}
		closed, ok := a.discarded[i]
		if !ok {
			closed = a.closedBelow(row.closes)
			if a.discarded == nil {
				a.discarded = map[int]int{}
			}
			a.discarded[i] = closed
		}
		n += closed
	}
	return n
}

// closedBelow returns how many connections were closed below one of some functions.
func (a *Attribution) closedBelow(by []string) (n int) {
	discards := make([]bool, a.t.Stacks.Len())
	any := false
	for s := range discards {
		frames := a.t.Stacks.Frames(gotrace.StackID(s))
		on := func(is func(function string) bool) bool {
			return slices.ContainsFunc(frames, func(f gotrace.Frame) bool { return is(f.Func) })
		}
		discards[s] = len(frames) > 0 && frames[0].Func == "syscall.Close" && on(func(f string) bool { return f == "net.(*netFD).Close" }) &&
			on(func(f string) bool { return hasAny(f, by) })
		any = any || discards[s]
	}
	for g := range a.t.Gs {
		if !any {
			break
		}
		for _, s := range a.t.Gs[g].Segs() {
			if s.Kind == timeline.Syscall && discards[s.Stack] {
				n++
			}
		}
	}
	return n
}

// leastKeeping is after how many waits that were given up something must have been given back, and keepingPart after which part of them,
// for who waits to keep what he has meanwhile: who leaks gives nothing back, and what is given back while nobody else waits for it leaves
// no trace (of 1439 that crossed each other's leases 121 gave back something that was missed). Of fewer than leastKeeping, fewKeeping
// at least, it must be mostKeeping.
const (
	leastKeeping, keepingPart = 5, 0.05
	fewKeeping, mostKeeping   = 2, 0.5
)

// soonBack is how much of the wait that it gave up a request may run before it gives back what it had: who then uses something gives that
// back, and may have got it without a wait.
const soonBack = 0.1

// Keeping returns how many waits at a site, or at others that are ended where its are, ended because the time was up, and after how many of
// these the same request at once gave something back that others waited for there: it kept what it had while it waited for more. keeps says
// whether that is what they do.
func (a *Attribution) Keeping(site SiteID) (waits, gave int, keeps bool) {
	group := a.queueOf(site)
	k, ok := a.keeping[group]
	if !ok {
		k.waits, k.gave = a.gaveBack(group)
		if a.keeping == nil {
			a.keeping = map[SiteID]keeping{}
		}
		a.keeping[group] = k
	}
	part := float64(k.gave) / float64(max(1, k.waits))
	return k.waits, k.gave, k.gave >= leastKeeping && part >= keepingPart || k.gave >= fewKeeping && part >= mostKeeping
}

type keeping struct{ waits, gave int }

// SameQueue reports whether waits at two sites are ended from the same places.
func (a *Attribution) SameQueue(x, y SiteID) bool { return x == y || a.queueOf(x) == a.queueOf(y) }

// gaveBack is Keeping for the queue of a group of sites.
func (a *Attribution) gaveBack(group SiteID) (waits, gave int) {
	in := map[SiteID]bool{}
	given := map[timeline.GID][]timeline.Time{}
	for _, x := range a.sitesOf[group] {
		in[x] = true
		for _, r := range a.releases[x] {
			if a.gives(r) {
				given[r.waker] = append(given[r.waker], r.at)
			}
		}
	}
	for _, at := range given {
		slices.Sort(at)
	}
	for i := range a.t.Gs {
		g, me := timeline.GID(i), &a.t.Gs[i]
		var last, ran timeline.Time // when the wait before was given up, 0 if it was not or something else was waited for since; and how long it ran since
		took := timeline.Time(0)    // that wait
		given := given[g]
		for _, s := range me.Segs() {
			if s.Kind == timeline.Running && last != 0 {
				k := sort.Search(len(given), func(k int) bool { return given[k] >= s.Start })
				if k < len(given) && given[k] <= s.End && float64(ran+given[k]-s.Start) <= soonBack*float64(took) {
					if r := a.f.RequestAt(g, last-1); r >= 0 && r == a.f.RequestAt(g, given[k]-1) {
						gave++
					}
					last = 0
				}
				ran += s.End - s.Start
			}
			if s.Kind != timeline.Waiting {
				continue
			}
			if s.Reason != timeline.ReasonSync {
				last = 0
			}
			if in[a.siteOf(s.Stack)] && a.gaveUp(g, s) {
				waits++
				last, ran, took = s.End, 0, s.End-s.Start
			}
		}
	}
	return waits, gave
}

// gives reports whether who ended a wait gave something: not one who wakes others to look, as for a condition, who tells all at once, or who
// lets others pass, below the function in which he waited himself.
func (a *Attribution) gives(r release) bool {
	s := a.t.Gs[r.g].Seg(int(r.seg))
	if s.Reason == timeline.ReasonCond {
		return false
	}
	frames := a.t.Stacks.Frames(s.WakerStack)
	if slices.ContainsFunc(frames, func(f gotrace.Frame) bool { return hasAny(f.Func, request.Permits) || hasAny(f.Func, request.Pools) }) {
		return false
	}
	if !closes(frames) {
		return true
	}
	// A library may have a channel for each who waits, and close that.
	by := request.PackageOf(frames[0].Func)
	return slices.ContainsFunc(request.Permits, func(f string) bool { return request.PackageOf(f) == by })
}
