package blame

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// The structure that tells queues apart; ratios of the waits at one site.
const (
	// PeerRatio: above it, the waits at a site are ended by other requests, which
	// give back what they used.
	PeerRatio = 0.5
	// ChildRatio: above it, they are ended by the waiters' own children.
	ChildRatio = 0.5
	// OneWorker: above it, one goroutine ends them.
	OneWorker = 0.9
	// ManyWaiters: from it on, one release to all who wait serves many.
	ManyWaiters = 2
)

// Queue is what the waits at one site have in common: who ends them.
type Queue struct {
	// Waits counts the waits there that a goroutine ended, Cancelled those that
	// the cancellation or the deadline of a context did, Timers the others.
	Waits, Cancelled, Timers int
	// Peers is the part of Waits that a goroutine ended which carried a request.
	Peers float64
	// Wakers is how many different goroutines ended waits, and Busiest the part
	// of Waits that the busiest of them ended, which is Worker.
	Wakers  int
	Busiest float64
	Worker  timeline.GID
	// Children is the part of Waits ended by a goroutine that the waiter, or its
	// own children, gave birth to, or others that were started for the same request.
	Children float64
	// Finalizers is the part of Waits that a goroutine ended which runs finalizers or
	// cleanups, or one that such a goroutine gave birth to.
	Finalizers float64
	// Together is how many waits one release to all ends, as who waits there sees
	// it: releases that end more count more. 0 if most waits end otherwise.
	Together float64
	// Calls is how many such releases there are.
	Calls int
	// Messages is the part of Waits that are those of messages until somebody takes them,
	// see [timeline.Timeline.Await].
	Messages float64
}

// exchange is a goroutine, and a site at which others wait to send it something.
type exchange struct {
	g    timeline.GID
	site SiteID
}

// Answers reports whether a goroutine ends waits in receives of such goroutines as wait at a site to send: whoever
// sends it work there then waits for its answer.
func (a *Attribution) Answers(g timeline.GID, site SiteID) bool {
	key := exchange{g, site}
	if is, ok := a.answersTo[key]; ok {
		return is
	}
	if a.answered == nil {
		a.answered, a.answersTo = a.receives(), map[exchange]bool{}
	}
	is := slices.ContainsFunc(a.releases[site], func(r release) bool { return a.answered[answer{g, a.classAt(r.g, r.at-1)}] })
	a.answersTo[key] = is
	return is
}

// answer is that a goroutine ends a wait to receive of one of a class.
type answer struct {
	by   timeline.GID
	whom ClassID
}

// receives returns who ended waits of whom in requests to receive.
func (a *Attribution) receives() map[answer]bool {
	out := map[answer]bool{}
	for i := range a.f.Requests {
		for _, p := range a.f.Requests[i].Parts {
			me := &a.t.Gs[p.G]
			if me.Message { // it waits to be taken
				continue
			}
			for _, x := range me.SegsFrom(me.SegmentAt(p.Start + 1)) {
				if x.Start >= p.End {
					break
				}
				if x.Kind == timeline.Waiting && x.Waker != timeline.NoG && (x.Reason == timeline.ReasonChanReceive || x.Reason == timeline.ReasonSelect && !a.HandsOver(a.siteOf(x.Stack))) {
					out[answer{x.Waker, a.classAt(p.G, x.End-1)}] = true
				}
			}
		}
	}
	return out
}

// maxHands bounds over how many goroutines work is followed to the one that does it.
const maxHands = 4

// TakesWork reports whether a goroutine works for others, rather than does the same again
// and again whoever waits for it: requests hand it something, directly or through others, in
// that they end its waits for work or it ends theirs to send; or it does not only wait at
// one place, for the time. Who waits for a peer works for others, too, unless it does so when its time has come, and then
// tells all who wait at once: it looks for news.
func (a *Attribution) TakesWork(g timeline.GID) bool {
	if is, ok := a.takesWork[g]; ok {
		return is
	}
	if a.takesWork == nil {
		a.takesWork = map[timeline.GID]bool{}
	}
	takes, at := a.reached(g, maxHands, 0, map[timeline.GID]bool{}), SiteID(0)
	var timed, all timeline.Time
	for _, s := range a.t.Gs[g].Waits() {
		all += s.End - s.Start
		if s.Waker == timeline.NoG && (s.Reason == timeline.ReasonSleep || s.Reason == timeline.ReasonSelect || s.Reason == timeline.ReasonChanReceive) {
			timed += s.End - s.Start
		}
	}
	news := 2*timed >= all && a.tellsAll(g)
	for _, s := range a.t.Gs[g].Waits() {
		switch s.Reason {
		case timeline.ReasonNetwork:
			takes = takes || !news
		case timeline.ReasonSleep, timeline.ReasonChanReceive, timeline.ReasonSelect, timeline.ReasonCond:
			if site := a.siteOf(s.Stack); site != 0 {
				takes = takes || at != 0 && at != site
				at = site
			}
		}
	}
	a.takesWork[g] = takes
	return takes
}

// tellsAll reports whether most of whom a goroutine wakes, but for those who wait for its locks, it tells something at once, by closing a channel
// or by a broadcast: nobody gets an answer of his own.
func (a *Attribution) tellsAll(g timeline.GID) bool {
	all, told := 0, 0
	for i := range a.t.Gs[g].Wakes() {
		w := &a.t.Gs[g].Wakes()[i]
		f := a.t.Stacks.Frames(w.Stack)
		if w.Birth() || slices.ContainsFunc(f, func(x gotrace.Frame) bool {
			return strings.HasSuffix(x.Func, "Unlock") && strings.HasPrefix(x.Func, "sync.")
		}) {
			continue
		}
		all++
		if len(f) > 0 && (closes(f) || slices.ContainsFunc(f, func(x gotrace.Frame) bool { return x.Func == "sync.(*Cond).Broadcast" })) {
			told++
		}
	}
	return 2*told > all
}

// reached reports whether what requests do gets to a goroutine through so many others. What is given back to it at a
// pool, or at a site that is given, is nothing to do.
func (a *Attribution) reached(g timeline.GID, others int, pool SiteID, seen map[timeline.GID]bool) bool {
	seen[g] = true
	from := func(h timeline.GID) bool {
		switch {
		case h < 0 || seen[h]:
			return false
		case a.f.Entry(h) || a.f.Entry(a.t.Gs[h].Creator):
			return true
		}
		return others > 0 && a.reached(h, others-1, pool, seen)
	}
	me := &a.t.Gs[g]
	for _, s := range me.Waits() {
		switch s.Reason {
		case timeline.ReasonChanReceive, timeline.ReasonSelect, timeline.ReasonCond:
			if !a.cancelled(s) && !a.lends(s.Stack, pool) && from(s.Waker) {
				return true
			}
		}
	}
	for _, w := range me.Wakes() {
		who := &a.t.Gs[w.Whom()]
		if k := who.SegmentAt(w.Time); k < who.Len() && !w.Birth() {
			if s := who.Seg(k); s.Waker == g && s.Reason == timeline.ReasonChanSend && from(w.Whom()) {
				return true
			}
		}
	}
	return false
}

// lends reports whether a stack waits at a known pool, for a permit, or at a site.
func (a *Attribution) lends(stack gotrace.StackID, pool SiteID) bool {
	site := a.siteOf(stack)
	if site == 0 {
		return false
	}
	kind := a.Sites[site].Kind
	return kind == SitePool || kind == SitePermit || a.Place(site) == a.Place(pool)
}

// mostAnnouncers is how many of those who end waits at a site are asked whether they announce something, and leastAnnouncers how many
// have to: of fewer, who work from one queue that is never empty, chance may have it look so.
const mostAnnouncers, leastAnnouncers = 32, 8

// Announced reports whether the waits at a site end with what a goroutine tells whoever
// happens to be there, or each of several what it has news of: none of them takes work, and the waits do not go one after the other, as
// those do who wait for their turn. Such a wait does not depend on others that wait.
func (a *Attribution) Announced(site SiteID) bool {
	if is, ok := a.announced[site]; ok {
		return is
	}
	if a.announced == nil {
		a.announced = map[SiteID]bool{}
	}
	a.announced[site] = a.announces(site)
	return a.announced[site]
}

func (a *Attribution) announces(site SiteID) bool {
	tells := func(g timeline.GID) bool { return !a.TakesWork(g) && !a.inTurn(site, g) }
	q := a.Queue(site)
	switch {
	case q.Busiest > OneWorker:
		return tells(q.Worker)
	case q.Peers > 0, q.Children > 0:
		return false
	}
	rs, asked := a.releases[site], map[timeline.GID]bool{}
	for i := 0; i < len(rs) && len(asked) < mostAnnouncers; i++ {
		if g := rs[i].waker; !asked[g] {
			if asked[g] = true; !tells(g) {
				return false
			}
		}
	}
	return len(asked) >= leastAnnouncers
}

// fills reports whether who waits at a hop sends to one consumer, from whom it wants no answer: what it waits for is room.
func (a *Attribution) fills(h Hop) bool {
	if h.Reason != timeline.ReasonChanSend || a.Sites[h.Site].Kind != SiteOther {
		return false
	}
	if is, ok := a.full[h.Site]; ok {
		return is
	}
	q, by := a.Queue(h.Site), map[timeline.GID]bool{}
	is := q.Busiest > OneWorker && q.Children <= ChildRatio && (q.Peers <= PeerRatio || a.Feeds(h.Site))
	for _, r := range a.releases[h.Site] {
		if !is {
			break
		}
		if by[r.g] {
			continue
		}
		by[r.g] = true
		is = !a.answersOf(q.Worker, r.g)
	}
	if a.full == nil {
		a.full = map[SiteID]bool{}
	}
	a.full[h.Site] = is
	return is
}

// answersOf reports whether a goroutine ends waits of another one to receive, but for where that waits for work.
func (a *Attribution) answersOf(g, whom timeline.GID) bool {
	for _, s := range a.t.Gs[whom].Waits() {
		if s.Waker == g && (s.Reason == timeline.ReasonChanReceive || s.Reason == timeline.ReasonSelect) && !a.f.Home(whom, s) {
			return true
		}
	}
	return false
}

// Feeds reports whether who waits at a site sends to somebody who waits for that at other times: from the same line waits
// are ended, too. Who ends a wait there takes what it is sent, and gives back nothing.
func (a *Attribution) Feeds(site SiteID) bool {
	if is, ok := a.feeds[site]; ok {
		return is
	}
	a.findEnds()
	is := false
	for from := range a.endedBy {
		is = is || a.Place(from) == a.Place(site)
	}
	if a.feeds == nil {
		a.feeds = map[SiteID]bool{}
	}
	a.feeds[site] = is
	return is
}

// HandsOver reports whether who waits at a site in a select sends there: a trace does not say which of a select's cases
// it is. Who ends such a wait receives. If that is in a select, too, then where whoever ends most of them waits for work
// itself: there it is woken by who stands at the site, or by nobody, as for a time. (Where it would wait to answer, only
// who asked can take the answer.) Who then waits for an answer asks.
func (a *Attribution) HandsOver(site SiteID) bool {
	if is, ok := a.hands[site]; ok {
		return is
	}
	sends, receives := 0, 0
	for _, r := range a.releases[site] {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		if s.Reason != timeline.ReasonSelect {
			continue
		}
		switch a.channelOp(s.WakerStack) {
		case timeline.ReasonChanReceive:
			sends++
		case timeline.ReasonChanSend:
			receives++
		}
	}
	if q := a.Queue(site); q.Waits > 0 && sends+receives == 0 {
		wait, end := map[gotrace.Frame]int{}, map[gotrace.Frame]int{} // where they wait, and where it ends their waits
		for _, r := range a.releases[site] {
			if s := a.t.Gs[r.g].Seg(int(r.seg)); r.waker == q.Worker {
				wait[a.line(s.Stack)]++
				end[a.line(s.WakerStack)]++
			}
		}
		for _, s := range a.t.Gs[q.Worker].Waits() {
			from := s.Waker != timeline.NoG && wait[a.line(s.WakerStack)] > 0
			switch {
			case s.Reason != timeline.ReasonSelect || a.cancelled(s):
			case from && a.f.Home(q.Worker, s), s.Waker == timeline.NoG && end[a.line(s.Stack)] > 0:
				sends++
			case from:
				receives++
			}
		}
	}
	if a.hands == nil {
		a.hands = map[SiteID]bool{}
	}
	a.hands[site] = sends > receives && !a.asksThere(site)
	return a.hands[site]
}

// asksThere reports whether most who wait at a site wait for somebody else's answer after that: what they hand over there is
// a question, be it that another one answers.
func (a *Attribution) asksThere(site SiteID) bool {
	asked := 0
	for _, r := range a.releases[site] {
		me, end := &a.t.Gs[r.g], a.t.End
		q := a.f.RequestAt(r.g, r.at-1)
		if q >= 0 {
			end = a.f.Requests[q].End()
		}
		for i := int(r.seg) + 1; i < min(me.Len(), int(r.seg)+maxAfter); i++ {
			s := me.Seg(i)
			if s.Start >= end || q < 0 && s.Kind == timeline.Waiting && a.f.Home(r.g, s) {
				break
			}
			if s.Kind != timeline.Waiting {
				continue
			}
			if answer := s.Reason == timeline.ReasonChanReceive || s.Reason == timeline.ReasonSelect || s.Reason == timeline.ReasonCond; answer && s.Waker != timeline.NoG && a.siteOf(s.Stack) != site && !a.cancelled(s) {
				asked++
				break
			}
		}
	}
	return 2*asked > len(a.releases[site])
}

// maxAfter bounds how many segments behind a wait are looked at for what it was about.
const maxAfter = 32

// line is the innermost frame of a stack outside the runtime.
func (a *Attribution) line(s gotrace.StackID) gotrace.Frame {
	for _, f := range a.t.Stacks.Frames(s) {
		if !runtimeFrame(f.Func) {
			f.PC = 0 // a line is enough, and stacks of waits and wake-ups need not agree on it
			return f
		}
	}
	return gotrace.Frame{}
}

// Keyed returns of how much of the time in which who waits at a site is behind others of whoever then serves him that is by
// somebody with a queue of its own, from 0 to 1; ahead is that time in nanoseconds, of those who serve most. Those who serve
// from one queue are never idle when somebody comes into it who has to wait. So two of which one often has nothing to do when
// somebody comes who waits for the other one have a queue each, and who has none in common with any other has its own.
func (a *Attribution) Keyed(site SiteID) (own float64, ahead int64) {
	if k, ok := a.keyed[site]; ok {
		return k.own, k.ahead
	}
	type server struct {
		last  timeline.Time // it ended a wait there
		ahead timeline.Time
		idle  [maxAsked]timeline.Time // of each of the servers, while somebody waited behind others of this one
	}
	most := a.mostServing(site)
	servers := make([]server, len(most))
	for _, r := range a.releases[site] {
		i := slices.Index(most, r.waker)
		if i < 0 {
			continue
		}
		me := &servers[i]
		from, before := a.t.Gs[r.g].Seg(int(r.seg)).Start, me.last
		if me.last = r.at; before <= from || before >= r.at {
			continue
		}
		me.ahead += before - from
		for j, g := range most { // who is idle when somebody comes, and of his queue, takes what he brings
			if j != i && a.idleAt(g, from) && a.idleAt(g, from+woken) {
				me.idle[j] += before - from
			}
		}
	}
	var k keyed
	var alone timeline.Time
	for i, x := range servers {
		k.ahead += int64(x.ahead)
		shares := false
		for j := range servers {
			shares = shares || j != i && float64(x.idle[j]) < oftenIdle*float64(x.ahead)
		}
		if !shares {
			alone += x.ahead
		}
	}
	k.own = float64(alone) / float64(max(1, k.ahead))
	if a.keyed == nil {
		a.keyed = map[SiteID]keyed{}
	}
	a.keyed[site] = k
	return k.own, k.ahead
}

// maxSpans bounds how many waits that end after a request began are asked whether they span that.
const maxSpans = 64

// Joined counts the requests that begin while others of their endpoint wait at a site, and those of them that wait there, too. One of
// which nothing was seen in its handler may be of any endpoint.
func (a *Attribution) Joined(site SiteID) (waited, all int) {
	any, waits, waiting := []timeline.Span{}, map[int][]timeline.Span{}, map[int]bool{} // of all, by endpoint; by request
	for _, r := range a.releases[site] {
		if q := a.f.RequestAt(r.g, r.at-1); q >= 0 {
			s, e := timeline.Span{Start: a.t.Gs[r.g].Seg(int(r.seg)).Start, End: r.at}, a.f.Requests[q].Endpoint
			any, waits[e], waiting[q] = append(any, s), append(waits[e], s), true
		}
	}
	for q := range a.f.Requests {
		r := &a.f.Requests[q]
		among := waits[r.Endpoint]
		if r.Unseen || r.Guessed {
			among = any
		}
		// They are in order of their ends: the first that ends behind the request's start is the first that may span it.
		first := sort.Search(len(among), func(i int) bool { return among[i].End > r.Start() })
		for _, s := range among[first:min(len(among), first+maxSpans)] {
			if s.Start < r.Start() {
				all++
				if waiting[q] {
					waited++
				}
				break
			}
		}
	}
	return waited, all
}

// woken is longer than it takes that who is idle is woken by what somebody brings, in nanoseconds.
const woken = timeline.Time(10e3)

// idleAt reports whether a goroutine has nothing to do at an instant.
func (a *Attribution) idleAt(g timeline.GID, at timeline.Time) bool {
	me := &a.t.Gs[g]
	i := me.SegmentAt(at)
	return i < me.Len() && me.Seg(i).Kind == timeline.Waiting && a.f.Home(g, me.Seg(i))
}

// mostServing returns those who end most waits at a site, maxAsked of them at most.
func (a *Attribution) mostServing(site SiteID) []timeline.GID {
	count := map[timeline.GID]int{}
	for _, r := range a.releases[site] {
		count[r.waker]++
	}
	most := slices.SortedFunc(maps.Keys(count), func(g, h timeline.GID) int {
		return cmp.Or(cmp.Compare(count[h], count[g]), cmp.Compare(g, h))
	})
	return most[:min(len(most), maxAsked)]
}

// keyed is what Keyed returns.
type keyed struct {
	own   float64
	ahead int64
}

// oftenIdle is the part of the time in which somebody waits for one goroutine in which another one that has nothing to do is
// not of the same queue: none of one queue has time for that, but for what a wake-up takes.
const oftenIdle = 0.1

// maxAsked bounds how many goroutines are asked whether they have nothing to do.
const maxAsked = 16

// closes reports whether who stood on a stack and woke somebody closed a channel: of that a trace has no frame of the runtime's, as it has
// of all else that wakes.
func closes(frames []gotrace.Frame) bool {
	if len(frames) == 0 {
		return false
	}
	f := frames[0].Func
	return f == "runtime.closechan" || !strings.HasPrefix(f, "sync.") && !strings.HasPrefix(f, "internal/sync.") && !runtimeFrame(f)
}

// channelOp returns what whoever stood on a stack did with a channel, or ReasonNone if it was a select, or nothing.
func (a *Attribution) channelOp(s gotrace.StackID) timeline.Reason {
	for _, f := range a.t.Stacks.Frames(s) {
		switch f.Func {
		case "runtime.chanrecv1", "runtime.chanrecv2", "runtime.selectnbrecv":
			return timeline.ReasonChanReceive
		case "runtime.chansend1", "runtime.selectnbsend", "runtime.closechan":
			return timeline.ReasonChanSend
		}
		if !strings.HasPrefix(f.Func, "runtime.") {
			break
		}
	}
	return timeline.ReasonNone
}

// TakesNoWork reports whether a class has goroutines, and none of them carries requests or
// takes work.
func (a *Attribution) TakesNoWork(class ClassID) bool {
	any := false
	for g := range a.t.Gs {
		id := timeline.GID(g)
		if a.t.Gs[g].Len() == 0 || a.classAt(id, a.t.Gs[g].End()) != class {
			continue
		}
		if any = true; a.f.Entry(id) || a.TakesWork(id) {
			return false
		}
	}
	return any
}

// Bystander reports whether goroutines of a class that end waits at a site carry no requests
// and take no work.
func (a *Attribution) Bystander(site SiteID, class ClassID) bool {
	for _, r := range a.releases[site] {
		if a.classAt(r.waker, r.at) == class {
			return !a.f.Entry(r.waker) && !a.TakesWork(r.waker)
		}
	}
	return false
}

// ForNoRequest reports whether goroutines of a class end waits at a site, and none of them
// carries requests, or was started by one that does.
func (a *Attribution) ForNoRequest(site SiteID, class ClassID) bool {
	any := false
	for _, r := range a.releases[site] {
		if a.classAt(r.waker, r.at) != class {
			continue
		}
		if any = true; a.f.Entry(r.waker) || a.bornForRequest(r.waker) {
			return false
		}
	}
	return any
}

// Enders returns the goroutines that end waits at a site.
func (a *Attribution) Enders(site SiteID) map[timeline.GID]bool {
	by := map[timeline.GID]bool{}
	for _, r := range a.releases[site] {
		by[r.waker] = true
	}
	return by
}

// Standing returns how many of the goroutines that end waits at a site, and have not done so since they last waited there or for
// work, wait at a place at a time, on average over spans, which are in order and do not overlap.
func (a *Attribution) Standing(site, place SiteID, spans []timeline.Span) float64 {
	var in, all timeline.Time
	for _, s := range spans {
		all += s.End - s.Start
	}
	gave := map[timeline.GID][]timeline.Time{}
	for _, r := range a.releases[site] {
		gave[r.waker] = append(gave[r.waker], r.at)
	}
	for g, at := range gave {
		me, since := &a.t.Gs[g], timeline.Time(0) // when it may have got what it has
		for _, x := range me.Waits() {
			there := a.siteOf(x.Stack)
			if a.samePool(there, site) || a.f.Home(g, x) {
				since = x.End
				continue
			}
			if !a.samePool(there, place) {
				continue
			}
			k := sort.Search(len(at), func(k int) bool { return at[k] >= since })
			if k < len(at) && at[k] <= x.Start {
				continue // it has given it back
			}
			in += timeline.Overlap(spans, x.Start, x.End)
		}
	}
	return float64(in) / float64(max(1, all))
}

// HandedWork reports whether a goroutine of a class that ends waits at a site got to do so by what requests do,
// directly or through others.
func (a *Attribution) HandedWork(site SiteID, class ClassID) bool {
	asked := map[timeline.GID]bool{}
	for _, r := range a.releases[site] {
		if asked[r.waker] || a.classAt(r.waker, r.at) != class {
			continue
		}
		asked[r.waker] = true
		if a.reached(r.waker, maxHands, site, map[timeline.GID]bool{}) {
			return true
		}
	}
	return false
}

// inTurn reports whether a goroutine mostly leaves others at a site behind when it ends
// waits there, and then hardly ever such as have waited for longer.
func (a *Attribution) inTurn(site SiteID, by timeline.GID) bool {
	type wait struct {
		start, end timeline.Time
		stint      int // of the goroutine that ended it
	}
	var ws []wait
	for _, r := range a.releases[site] {
		if r.waker == by {
			ws = append(ws, wait{a.t.Gs[r.g].Seg(int(r.seg)).Start, r.at, a.t.Gs[by].SegmentAt(r.at)})
		}
	}
	slices.SortFunc(ws, func(x, y wait) int { return cmp.Compare(x.end, y.end) })
	left, passed := 0, 0
	longest, next := a.t.End, a.t.End // the first start of all later stints, and with this one
	for i := len(ws) - 1; i >= 0; i-- {
		if i+1 < len(ws) && ws[i].stint != ws[i+1].stint {
			longest = next
		}
		next = min(next, ws[i].start)
		if longest < ws[i].end {
			left++
		}
		if longest < ws[i].start {
			passed++
		}
	}
	return 2*left > len(ws) && float64(passed) < (1-OneWorker)*float64(left)
}

// Queue returns what is known of the waits at a site.
func (a *Attribution) Queue(site SiteID) *Queue {
	if q := a.queues[site]; q != nil {
		return q
	}
	q := &Queue{Waits: len(a.releases[site]), Cancelled: a.cancels[site], Timers: len(a.timers[site])}
	a.queues[site] = q
	if q.Waits == 0 {
		return q
	}
	wakers, waits := map[timeline.GID]int{}, map[timeline.GID]bool{}
	for _, r := range a.releases[site] {
		waits[r.g] = true
	}
	peers, children, finalizers, messages := 0, 0, 0, 0
	known := a.Sites[site].Kind == SitePool || a.Sites[site].Kind == SitePermit
	for _, r := range a.releases[site] {
		h := r.waker
		wakers[h]++
		other := a.forAnother(h, r.g, r.at)
		if other || a.f.Entry(h) && a.f.RequestAt(h, r.at) >= 0 {
			peers++
		}
		if a.t.Gs[r.g].Message {
			messages++
		}
		c := a.t.Gs[h].Creator
		if other {
			continue
		}
		if c == r.g || c != timeline.NoG && a.t.Gs[c].Creator == r.g || !waits[h] && (a.kin(r.g, h, r.at) || !known && !waits[c] && a.bornMeanwhile(h, r)) { // who waits there, too, gives back
			children++
		}
		if a.finalizes(h) || a.finalizes(c) {
			finalizers++
		}
	}
	busiest, most := timeline.NoG, 0
	for h, n := range wakers {
		if n > most || n == most && h < busiest {
			busiest, most = h, n
		}
	}
	n := float64(q.Waits)
	q.Peers, q.Children, q.Finalizers = float64(peers)/n, float64(children)/n, float64(finalizers)/n
	q.Messages = float64(messages) / n
	q.Wakers, q.Busiest, q.Worker = len(wakers), float64(most)/n, busiest
	q.Together, q.Calls = a.together(site)
	return q
}

// leastNewsEnds is how many waits must have ended for it to be known that others end them than wait there, gaveAny the part of them
// that those may end who do: of pools of which everything is in use whoever gives back had to wait for it himself at another time. In
// nine recordings of such pools those who wait there ended 0.71 of the waits or all, where requests waited for news of others none.
const leastNewsEnds, gaveAny = 50, 0.05

// longestFrom returns a function that says until when those wait at a site, at the latest, who have begun before an instant.
func (a *Attribution) longestFrom(site SiteID) func(at timeline.Time) timeline.Time {
	type wait struct{ from, until timeline.Time }
	var ws []wait
	for _, r := range a.releases[site] {
		ws = append(ws, wait{a.t.Gs[r.g].Seg(int(r.seg)).Start, r.at})
	}
	slices.SortFunc(ws, func(x, y wait) int { return cmp.Compare(x.from, y.from) })
	for i := 1; i < len(ws); i++ {
		ws[i].until = max(ws[i].until, ws[i-1].until)
	}
	return func(at timeline.Time) timeline.Time {
		i := sort.Search(len(ws), func(i int) bool { return ws[i].from >= at })
		if i == 0 {
			return 0
		}
		return ws[i-1].until
	}
}

// Brings reports whether those that end waits at a site never wait there themselves, and tell all who do at once by closing a channel, so
// that nobody who waits is left: they bring something, and give nothing back.
func (a *Attribution) Brings(site SiteID) bool {
	if is, known := a.onlyBring[site]; known {
		return is
	}
	waits, n := map[timeline.GID]bool{}, 0
	for _, r := range a.releases[site] {
		waits[r.g] = true
	}
	longest := a.longestFrom(site)
	for _, r := range a.releases[site] {
		if waits[r.waker] || longest(r.at) > r.at+batchGap || !closes(a.t.Stacks.Frames(a.t.Gs[r.g].Seg(int(r.seg)).WakerStack)) {
			n++
		}
	}
	all := len(a.releases[site])
	is := a.Sites[site].Kind == SiteOther && all >= leastNewsEnds && float64(n) <= gaveAny*float64(all)
	if a.onlyBring == nil {
		a.onlyBring = map[SiteID]bool{}
	}
	a.onlyBring[site] = is
	return is
}

// forAnother reports whether a goroutine that ends a wait of who started it carries another request: a server starts one for each,
// and waits for a permit before it does.
func (a *Attribution) forAnother(child, waiter timeline.GID, at timeline.Time) bool {
	me := &a.t.Gs[child]
	if !me.Born || me.Creator != waiter || !a.f.Entry(child) {
		return false
	}
	its := a.f.RequestAt(child, me.Start())
	return its >= 0 && its != a.f.RequestAt(waiter, at-1)
}

// bornMeanwhile reports whether a goroutine that ends a wait, and carries no request, was not there when it began: what it gives
// the waiter it has not had before, as a timer's function that asks for all who came since, unless who started it was let in
// there.
func (a *Attribution) bornMeanwhile(waker timeline.GID, r release) bool {
	me := &a.t.Gs[waker]
	return me.Born && !a.f.Entry(waker) && me.Start() > a.t.Gs[r.g].Seg(int(r.seg)).Start
}

// kin reports whether a goroutine that ends a wait of another one, which is not the request's own, was started for the same
// request: both descend from who carries it, since it began.
func (a *Attribution) kin(waiter, waker timeline.GID, at timeline.Time) bool {
	if !a.t.Gs[waker].Born {
		return false
	}
	for range maxKin {
		if waiter = a.t.Gs[waiter].Creator; waiter < 0 {
			return false
		}
		q := a.f.RequestAt(waiter, at)
		if q < 0 || !a.f.Entry(waiter) {
			continue
		}
		begun := a.f.Requests[q].Start()
		for range maxKin {
			if me := &a.t.Gs[waker]; !me.Born || me.Start() < begun {
				return false
			}
			if waker = a.t.Gs[waker].Creator; waker < 0 {
				return false
			}
			if waker == waiter {
				return true
			}
		}
		return false
	}
	return false
}

// maxKin is how many generations are looked at.
const maxKin = 4

// Connections returns how many connections those who wait at a client library's pool wait
// for: the mean number, at the ends of the waits there, of the goroutines that end them, if
// all of these read connections. Such a one gives its connection back for the request that
// has used it, so that each is in use as long as somebody waits. 0 if others end waits, too.
func (a *Attribution) Connections(site SiteID) float64 {
	if a.Sites[site].Kind != SitePool {
		return 0
	}
	readers := map[timeline.GID]bool{}
	for _, r := range a.releases[site] {
		if _, seen := readers[r.waker]; !seen {
			readers[r.waker] = true
			if !a.reads(r.waker) {
				return 0
			}
		}
	}
	rs := a.releases[site] // in order of time
	until := func(at timeline.Time) int { return sort.Search(len(rs), func(i int) bool { return rs[i].at > at }) }
	sum := 0
	for g := range readers {
		sum += until(a.t.Gs[g].End()) - until(a.t.Gs[g].Start()-1)
	}
	return float64(sum) / float64(max(1, len(rs)))
}

// Streams reports whether those who wait at a site for a permit wait for a stream of a
// connection that many calls share: who reads it gives them back, as answers come in.
func (a *Attribution) Streams(site SiteID) bool {
	if a.Sites[site].Kind != SitePermit {
		return false
	}
	read := 0
	for _, r := range a.releases[site] {
		if a.reads(r.waker) {
			read++
		}
	}
	return 2*read > len(a.releases[site])
}

// reads reports whether g carries no requests, is no part of one that started it, and waits for the network for most of the
// time in which it waits. Who reads a connection that a request has opened goes on when that has ended.
func (a *Attribution) reads(g timeline.GID) bool {
	me := &a.t.Gs[g]
	if a.f.Entry(g) {
		return false
	}
	if me.Creator != timeline.NoG && a.f.Entry(me.Creator) {
		if q := a.f.RequestAt(me.Creator, me.Start()); q >= 0 {
			if r := &a.f.Requests[q]; me.Died && me.End() <= r.End() || !me.Died && r.InFlight {
				return false
			}
		}
	}
	var network, all timeline.Time
	for _, s := range me.Waits() {
		if all += s.End - s.Start; s.Reason == timeline.ReasonNetwork {
			network += s.End - s.Start
		}
	}
	return 2*network > all
}

// Releasers returns the requests, as indexes into request.Found.Requests, in which
// waits at a site were ended.
func (a *Attribution) Releasers(site SiteID) []int {
	var out []int
	for _, r := range a.releases[site] {
		if h := r.waker; a.f.Entry(h) {
			if i := a.f.RequestAt(h, r.at); i >= 0 {
				out = append(out, i)
			}
		}
	}
	return out
}

// together measures Queue.Together and Queue.Calls at a site. A release to all is one
// call, so its wake-ups come from one place while one goroutine runs on. Who waits
// there again at once was not served: it was woken to try again.
func (a *Attribution) together(site SiteID) (together float64, calls int) {
	if a.Sites[site].Kind == SiteOnce {
		return a.initialised(site)
	}
	type call struct {
		by    timeline.GID
		stack gotrace.StackID
		seg   int
	}
	ends := map[call]int{}
	all := 0
	for _, r := range a.releases[site] {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		if a.toAll(s) && !a.waitsAgain(r, site) {
			ends[call{s.Waker, s.WakerStack, a.t.Gs[s.Waker].SegmentAt(r.at)}]++
			all++
		}
	}
	if 2*all <= len(a.releases[site]) {
		return 0, 0
	}
	squares := 0
	for _, n := range ends {
		squares += n * n
	}
	return float64(squares) / float64(all), len(ends)
}

// initialised is together for one-time initialisations: who waits for one is let on by who did it, or by one who
// waited for the same.
func (a *Attribution) initialised(site SiteID) (together float64, times int) {
	type waiter struct {
		of  int // which initialisation
		end timeline.Time
	}
	last := map[timeline.GID]waiter{}
	var ends []int
	for _, r := range a.releases[site] { // in order of time
		w, waited := last[r.waker]
		if s := a.t.Gs[r.g].Seg(int(r.seg)); !waited || w.end <= s.Start {
			w.of = len(ends)
			ends = append(ends, 0)
			last[r.waker] = waiter{w.of, r.at} // of several that it lets on
		}
		ends[w.of]++
		last[r.g] = waiter{w.of, r.at}
	}
	squares := 0
	for _, n := range ends {
		squares += n * n
	}
	return float64(squares) / float64(max(1, len(a.releases[site]))), len(ends)
}

// waitsAgain reports whether the next wait of who was released is at the site again.
func (a *Attribution) waitsAgain(r release, site SiteID) bool {
	me := &a.t.Gs[r.g]
	for i := int(r.seg) + 1; i < me.Len() && i < int(r.seg)+maxUse; i++ {
		if s := me.Seg(i); s.Kind == timeline.Waiting {
			return s.Stack != 0 && a.siteOf(s.Stack) == site
		}
	}
	return false
}

// looksAgain reports whether who was released waits at the site again at once: it did nothing that
// shows but look.
func (a *Attribution) looksAgain(r release, site SiteID) bool {
	me := &a.t.Gs[r.g]
	var ran timeline.Time
	for i := int(r.seg) + 1; i < me.Len() && i <= int(r.seg)+maxAlarm; i++ {
		switch s := me.Seg(i); {
		case s.Kind == timeline.Waiting && s.Reason == timeline.ReasonSync: // the condition's lock
		case s.Kind == timeline.Waiting:
			return s.Stack != 0 && a.siteOf(s.Stack) == site
		case s.Kind == timeline.Syscall, ran > alarmRuns:
			return false
		case s.Kind == timeline.Running:
			ran += s.End - s.Start
		}
	}
	return false
}

// PerActivation returns how many waits at a site its Queue.Worker ends between two of its
// home waits, or of those for more work that its timer ends: about 1 if it serves one by
// one, more if it batches. 0 if nobody ended one.
func (a *Attribution) PerActivation(site SiteID) float64 {
	if len(a.releases[site]) == 0 {
		return 0
	}
	g, collects := a.Queue(site).Worker, a.collects(site)
	var homes []timeline.Time
	for _, s := range a.t.Gs[g].Waits() {
		if a.f.Home(g, s) || collects != 0 && s.Waker == timeline.NoG && a.siteOf(s.Stack) == collects {
			homes = append(homes, s.End)
		}
	}
	wakes, stays, last := 0, 0, -1
	for _, r := range a.releases[site] {
		if r.waker != g {
			continue
		}
		wakes++
		if i := sort.Search(len(homes), func(i int) bool { return homes[i] > r.at }); i != last {
			last = i
			stays++
		}
	}
	return float64(wakes) / float64(max(stays, 1))
}

// collects returns where the Queue.Worker of a site waits for more work until a timer ends that,
// if it ends hardly any wait at the site otherwise: it keeps what it is handed until its time has
// come, and whoever hands it more meanwhile ends its wait, but nobody else's. 0 if it does not.
func (a *Attribution) collects(site SiteID) SiteID {
	if at, ok := a.collectsAt[site]; ok {
		return at
	}
	q, most := a.Queue(site), SiteID(0)
	n := map[SiteID]int{}
	for _, r := range a.releases[site] {
		if r.waker != q.Worker {
			continue
		}
		me := &a.t.Gs[r.waker]
		i := me.SegmentAt(r.at) - 1
		for i >= 0 && me.Seg(i).Kind != timeline.Waiting {
			i--
		}
		if i < 0 || me.Seg(i).Waker != timeline.NoG || me.Seg(i).Reason != timeline.ReasonSelect {
			continue
		}
		at := a.siteOf(me.Seg(i).Stack)
		if n[at]++; n[at] > n[most] {
			most = at
		}
	}
	if float64(n[most]) <= OneWorker*float64(q.Waits) || !a.TakesWork(q.Worker) {
		most = 0
	}
	if a.collectsAt == nil {
		a.collectsAt = map[SiteID]SiteID{}
	}
	a.collectsAt[site] = most
	return most
}

const (
	// leastTimed is how many of its waits a timer must have ended for one of several goroutines to be seen to collect.
	leastTimed = 3
	// mostGiven is the part of them after which it must have given something to those who wait at a site: who looks after something else
	// each time gives nothing.
	mostGiven = 0.9
	// fewSegments is how many segments of a goroutine are gone through each time that it is asked.
	fewSegments = 64
)

// collectsFor reports whether a goroutine, of whatever number, keeps what those who wait at a site hand it at another one until a
// timer ends its wait there, as collects does, or until it has enough: it then gives to those.
func (a *Attribution) collectsFor(g timeline.GID, site, at SiteID) bool {
	key := collector{g, site, at}
	if is, ok := a.collectors[key]; ok {
		return is
	}
	if a.collectors == nil {
		a.collectors = map[collector]bool{}
	}
	n := 0
	for _, s := range a.t.Gs[g].Waits() {
		if s.Waker == timeline.NoG && s.Reason == timeline.ReasonSelect && a.siteOf(s.Stack) == at {
			n++
		}
	}
	if n < leastTimed {
		if a.t.Gs[g].Len() > fewSegments { // else it is as fast to look again, and whoever is started for one thing needs no memory
			a.collectors[key] = false
		}
		return false
	}
	var given []timeline.Time
	waits := map[timeline.GID]bool{}
	for _, r := range a.releases[site] {
		if r.waker == g {
			given = append(given, r.at)
			waits[r.g] = true
		}
	}
	timed, after, woken, handed, last := 0, 0, 0, 0, timeline.Time(0) // last is when a timer ended the wait before, 0 if none did
	for _, s := range a.t.Gs[g].Waits() {
		if a.siteOf(s.Stack) != at || s.Reason != timeline.ReasonSelect {
			continue
		}
		if i := sort.Search(len(given), func(i int) bool { return given[i] >= last }); last != 0 && i < len(given) && given[i] <= s.Start {
			after++
		}
		last = 0
		switch {
		case s.Waker == timeline.NoG:
			timed, last = timed+1, s.End
		case waits[s.Waker]:
			handed++
			fallthrough
		default:
			woken++
		}
	}
	is := timed >= leastTimed && float64(after) >= mostGiven*float64(timed-1) && 2*handed > woken
	a.collectors[key] = is
	return is
}

// Gathers reports whether most waits at a site are ended by goroutines that keep what they are handed there until a timer ends their wait at
// another one, or until they have enough; of several that wait there some may always have enough.
func (a *Attribution) Gathers(site, at SiteID) bool {
	where, ok := a.gathered[site]
	if !ok {
		where = a.gatheredAt(site)
		if a.gathered == nil {
			a.gathered = map[SiteID]SiteID{}
		}
		a.gathered[site] = where
	}
	return where != 0 && where == at
}

// gatheredAt returns where those collect that end most waits at a site, 0 if they do not.
func (a *Attribution) gatheredAt(site SiteID) SiteID {
	by, where := map[timeline.GID]int{}, map[SiteID]int{}
	for _, r := range a.releases[site] {
		by[r.waker]++
	}
	for g, ends := range by {
		if at := a.timedAt(g); at != 0 && a.collectsFor(g, site, at) {
			where[at] += ends
		}
	}
	most := SiteID(0)
	for at, ends := range where {
		if ends > where[most] || ends == where[most] && at < most {
			most = at
		}
	}
	if most == 0 {
		return 0
	}
	n := 0
	for g, ends := range by {
		here, waits := 0, 0
		for _, s := range a.t.Gs[g].Waits() {
			if s.Reason == timeline.ReasonSelect {
				if waits++; a.siteOf(s.Stack) == most {
					here++
				}
			}
		}
		if 2*here > waits {
			n += ends
		}
	}
	if 2*n <= len(a.releases[site]) {
		return 0
	}
	return most
}

// timedAt returns where a timer ended most of a goroutine's waits for one of several things, 0 if it ended none.
func (a *Attribution) timedAt(g timeline.GID) (most SiteID) {
	n := map[SiteID]int{}
	for _, s := range a.t.Gs[g].Waits() {
		if s.Waker == timeline.NoG && s.Reason == timeline.ReasonSelect {
			at := a.siteOf(s.Stack)
			if n[at]++; n[at] > n[most] {
				most = at
			}
		}
	}
	return most
}

// collector is a goroutine, where others wait for it, and where it waits for more.
type collector struct {
	g        timeline.GID
	site, at SiteID
}

// inHand reports whether g, which collects at a site, may have something already when its wait s there begins: it was handed that when
// its wait before ended, and gave it to nobody at the site at which it is waited for since; or its timer might still have ended the
// wait. Who has nothing waits for whom it gets the first from.
func (w *walker) inHand(at *where, g timeline.GID, s timeline.Segment, site SiteID) bool {
	if s.End-s.Start <= w.a.lingers(g, site) { // what it took without a wait is not seen
		return true
	}
	me := &w.a.t.Gs[g]
	for i := me.SegmentAt(s.Start); i >= 0 && w.steps <= maxSteps; i-- {
		w.steps++
		x := me.Seg(i)
		if x.Start >= s.Start || x.Kind != timeline.Waiting || x.Reason != timeline.ReasonSelect && x.Reason != timeline.ReasonChanReceive {
			continue
		}
		switch {
		case x.Waker != timeline.NoG: // the first of a lot may be taken elsewhere
			return !w.gave(g, at.last.Site, x.End, s.Start)
		case w.a.siteOf(x.Stack) == site:
			return false // its timer had ended what was before
		}
	}
	return true // it began before the recording
}

// mostLingers is the quantile of the waits that a timer ended that tells how long it lets one wait: now and then it is late.
const mostLingers = 0.95

// lingers is how long a timer lets a goroutine wait at a site: the quantile mostLingers of the waits that it ended.
func (a *Attribution) lingers(g timeline.GID, site SiteID) timeline.Time {
	at := exchange{g, site}
	most, ok := a.lingering[at]
	if ok {
		return most
	}
	var all []timeline.Time
	for _, s := range a.t.Gs[g].Waits() {
		if s.Waker == timeline.NoG && s.Reason == timeline.ReasonSelect && a.siteOf(s.Stack) == site {
			all = append(all, s.End-s.Start)
		}
	}
	if n := len(all); n > 0 {
		slices.Sort(all)
		most = all[n-1]
		if float64(n)*(1-mostLingers) >= 1 {
			most = all[int(mostLingers*float64(n))]
		}
	}
	if a.lingering == nil {
		a.lingering = map[exchange]timeline.Time{}
	}
	a.lingering[at] = most
	return most
}

// gave reports whether a goroutine ended a wait at a site between two instants.
func (w *walker) gave(g timeline.GID, site SiteID, from, to timeline.Time) bool {
	rs := w.a.releases[site]
	for i := sort.Search(len(rs), func(i int) bool { return rs[i].at > from }); i < len(rs) && rs[i].at <= to && w.steps <= maxSteps; i++ {
		w.steps++
		if rs[i].waker == g {
			return true
		}
	}
	return false
}

// Holds say how what is waited for at a site is held: from when a holder passed the site
// itself, or got the request in which it releases, to its release.
type Holds struct {
	// Holders is the mean number of holders at a time, while anybody held; 0 if unknown.
	Holders float64
	// Usual is the median length of a hold, Mean the mean one, in nanoseconds; 0 if unknown.
	Usual, Mean int64
}

// Holds measures the holds that ended with a release at a site.
func (a *Attribution) Holds(site SiteID) (h Holds) {
	if h, ok := a.holdsAt[site]; ok {
		return h
	}
	var spans []job
	var lengths []timeline.Time
	var held []job
	if a.Streams(site) {
		held = a.uses(site)
	} else {
		held = a.kept(site)
	}
	for _, p := range held {
		if p.from < p.done {
			spans = append(spans, p)
			lengths = append(lengths, p.done-p.from)
		}
	}
	slices.SortFunc(spans, func(x, y job) int { return cmp.Compare(x.from, y.from) })
	var sum, any, until timeline.Time
	for i, p := range spans {
		if i == 0 {
			until = p.from
		}
		sum += p.done - p.from
		any += max(0, p.done-max(p.from, until))
		until = max(until, p.done)
	}
	if len(spans) > 0 {
		slices.Sort(lengths)
		h = Holds{float64(sum) / float64(any), int64(lengths[len(lengths)/2]), int64(sum) / int64(len(lengths))}
	}
	if a.holdsAt == nil {
		a.holdsAt = map[SiteID]Holds{}
	}
	a.holdsAt[site] = h
	return h
}

// kept returns the jobs at a site whose beginning is known. Who reads a connection rests in the network until the answer
// is there: it then gives back what was in use since it was last given away. It returns all if none is such.
func (a *Attribution) kept(site SiteID) (out []job) {
	js := a.jobs(site)
	for i, g := range js.wakers {
		mine := js.all[js.first[i]:js.first[i+1]]
		if !a.reads(g) {
			out = append(out, mine...)
			continue
		}
		for k := 1; k < len(mine); k++ {
			if mine[k].from == mine[k-1].last {
				out = append(out, mine[k])
			}
		}
	}
	if len(out) == 0 {
		return js.all
	}
	return out
}

// Crowded is the mean number of holds that were going on at a time while more waited at a site than there are who
// end waits there, 0 if that never was so.
func (a *Attribution) Crowded(site SiteID) float64 {
	all := a.holding(site)
	for _, r := range a.releases[site] {
		all = append(all, change{a.t.Gs[r.g].Seg(int(r.seg)).Start, 0, 1}, change{r.at, 0, -1})
	}
	inTurn(all)
	held, waited, most := 0, 0, a.Queue(site).Wakers
	var sum, any timeline.Time
	for i, x := range all {
		if waited > most && held > 0 {
			d := x.at - all[i-1].at
			sum += d * timeline.Time(held)
			any += d
		}
		held, waited = held+int(x.holds), waited+int(x.waits)
	}
	return float64(sum) / float64(max(any, 1))
}

// uses are the calls that waited at a site for a stream and got one, each from then to its
// answer, which ends the next wait that whoever reads the connection ends; in order of the
// answers. What the reader itself does between two of these says nothing of how long they take.
func (a *Attribution) uses(site SiteID) (out []job) {
	if js, ok := a.usesAt[site]; ok {
		return js
	}
	for _, r := range a.releases[site] {
		me := &a.t.Gs[r.g]
		for i := int(r.seg) + 1; i < me.Len() && i <= int(r.seg)+maxUse; i++ {
			if s := me.Seg(i); s.Kind == timeline.Waiting && s.Waker == r.waker {
				if a.siteOf(s.Stack) != site {
					out = append(out, job{r.at, s.End, s.End})
				}
				break
			}
		}
	}
	slices.SortFunc(out, func(x, y job) int { return cmp.Compare(x.done, y.done) })
	if a.usesAt == nil {
		a.usesAt = map[SiteID][]job{}
	}
	a.usesAt[site] = out
	return out
}

// Used sums up how long, in nanoseconds, streams that are waited for at a site were used by
// those n calls that were answered in [from, to].
func (a *Attribution) Used(site SiteID, from, to timeline.Time) (ns timeline.Time, n int) {
	js := a.uses(site)
	for i := sort.Search(len(js), func(i int) bool { return js[i].done >= from }); i < len(js) && js[i].done <= to; i++ {
		ns += js[i].done - js[i].from
		n++
	}
	return ns, n
}

// Turns say how many hold at a time what is waited for at a site.
type Turns struct {
	// Waits are those there, and wherever else it is waited for the same, that a
	// goroutine ended; of very many the first ones. Decided are those among them whose ends say who holds then:
	// somebody who was let in, and lets in another one later. As long as there is always
	// somebody who waits, nobody gives anything back unseen.
	Waits, Decided int
	// Holders is how many do so at a time, on average, at least. Of a lock it is one; of a
	// pool it grows to as many as it has items while somebody waits without a break. Several is the part of Decided
	// that says there are two or more.
	Holders, Several float64
}

// Turns returns how many hold at a time what is waited for at a site. It goes through
// the waits of its kind, once.
func (a *Attribution) Turns(site SiteID) Turns {
	t, ok := a.turnsAt[site]
	if !ok {
		t = a.turns(a.sameQueue(site))
		if a.turnsAt == nil {
			a.turnsAt = map[SiteID]Turns{}
		}
		a.turnsAt[site] = t
	}
	return t
}

// turns is [Attribution.Turns] for all sites of a queue.
func (a *Attribution) turns(places map[SiteID]bool) (t Turns) {
	rs := a.releasesAt(places, maxTurns)
	t.Waits = len(rs)
	change := make([]int, len(rs))  // of how many hold, from the end of each wait on
	letIn := map[timeline.GID]int{} // and has not been seen to give back, by index
	for i, r := range rs {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		if i == 0 || s.Start >= rs[i-1].at { // nobody waited for a while
			if len(letIn) > 0 {
				clear(letIn)
			}
		} else if a.waitsAt(rs[i-1], places, r.at) {
			delete(letIn, rs[i-1].g)
		}
		if since, ok := letIn[s.Waker]; ok {
			change[since]++
			change[i]--
			delete(letIn, s.Waker)
		}
		letIn[r.g] = i
	}
	n, sum, several := 0, 0, 0
	for _, d := range change {
		if n += d; n > 0 {
			t.Decided++
			sum += n
		}
		if n > 1 {
			several++
		}
	}
	decided := float64(max(1, t.Decided))
	t.Holders, t.Several = float64(sum)/decided, float64(several)/decided
	return t
}

// maxTurns is about how many waits say how many hold at a time what they were for: of more
// the first ones are asked.
const maxTurns = 1 << 17

// releasesAt returns what was released first at some sites, about so many at most, in order of
// time, goroutine and segment. It belongs to a.
func (a *Attribution) releasesAt(places map[SiteID]bool, most int) (rs []release) {
	n := 0
	var longest []release
	for s := range places {
		n += len(a.releases[s])
		if there := a.releases[s]; len(there) > len(longest) {
			longest = there
		}
	}
	if len(longest) == n {
		return longest[:min(n, most)]
	}
	before := func(s SiteID, end timeline.Time) []release {
		rs := a.releases[s]
		return rs[:sort.Search(len(rs), func(i int) bool { return rs[i].at >= end })]
	}
	end := timeline.Time(math.MaxInt64)
	if n > most {
		end = longest[sort.Search(len(longest)-1, func(i int) bool {
			n := 0
			for s := range places {
				n += len(before(s, longest[i+1].at))
			}
			return n > most
		})].at
	}
	for s := range places {
		rs = append(rs, before(s, end)...)
	}
	rs = inOrder(rs, func(r *release) timeline.Time { return r.at })
	for i, j := 0, 0; i < len(rs); i = j { // those of one instant
		for j = i + 1; j < len(rs) && rs[j].at == rs[i].at; j++ {
		}
		slices.SortFunc(rs[i:j], func(x, y release) int { return cmp.Or(cmp.Compare(x.g, y.g), cmp.Compare(x.seg, y.seg)) })
	}
	return rs
}

// waitsAt reports whether who was released waits again at one of some places before an
// instant: then it was let in in vain.
func (a *Attribution) waitsAt(r release, places map[SiteID]bool, until timeline.Time) bool {
	me := &a.t.Gs[r.g]
	for i := int(r.seg) + 1; i < me.Len() && me.Seg(i).Start < until; i++ {
		if s := me.Seg(i); s.Kind == timeline.Waiting && s.Stack != 0 && places[a.siteOf(s.Stack)] {
			return true
		}
	}
	return false
}

// sameQueue returns the sites at which waits are ended from the same places as at one.
func (a *Attribution) sameQueue(site SiteID) map[SiteID]bool {
	a.findEnds()
	same := map[SiteID]bool{site: true}
	for _, from := range a.endedFrom[site] {
		for _, s := range a.endedBy[from] {
			same[s] = true
		}
	}
	return same
}

// findEnds finds from where waits at each site are ended, and the sites of the waits that are ended from
// each place.
func (a *Attribution) findEnds() {
	if a.endedFrom != nil {
		return
	}
	a.endedFrom, a.endedBy = map[SiteID][]SiteID{}, map[SiteID][]SiteID{}
	for _, site := range slices.Sorted(maps.Keys(a.releases)) {
		seen := map[SiteID]bool{0: true}
		for _, r := range a.releases[site] {
			from := a.siteOf(a.t.Gs[r.g].Seg(int(r.seg)).WakerStack)
			if seen[from] {
				continue
			}
			seen[from] = true
			a.endedFrom[site] = append(a.endedFrom[site], from)
			a.endedBy[from] = append(a.endedBy[from], site)
		}
	}
}

// EndsAt reports whether waits at a site are ended from a place.
func (a *Attribution) EndsAt(site, from SiteID) bool {
	a.findEnds()
	return slices.Contains(a.endedFrom[site], from)
}

// queueOf returns one site, and in a.sitesOf all, of those that have places in common from which waits are
// ended, or each with a third one.
func (a *Attribution) queueOf(site SiteID) SiteID {
	if one, ok := a.queueAtSite[site]; ok {
		return one
	}
	if a.queueAtSite == nil {
		a.queueAtSite, a.sitesOf = map[SiteID]SiteID{}, map[SiteID][]SiteID{}
	}
	a.findEnds()
	a.queueAtSite[site] = site
	all, places := []SiteID{site}, map[SiteID]bool{}
	for i := 0; i < len(all); i++ {
		for _, from := range a.endedFrom[all[i]] {
			if places[from] {
				continue
			}
			places[from] = true
			for _, s := range a.endedBy[from] {
				if _, seen := a.queueAtSite[s]; !seen {
					a.queueAtSite[s] = site
					all = append(all, s)
				}
			}
		}
	}
	slices.Sort(all)
	a.sitesOf[site] = all
	return site
}

// passed returns since when g may have held what it released at a site at the
// instant at, but not before after: the end of its own last wait for it, of its last
// home wait, or its birth if it carries requests or was started to hold it, whichever is last; else
// after, or at itself if that is 0 and nothing is known.
func (a *Attribution) passed(g timeline.GID, site SiteID, at, after timeline.Time) timeline.Time {
	me := &a.t.Gs[g]
	for i := me.SegmentAt(at) - 1; i >= 0; i-- {
		s := me.Seg(i)
		if after > 0 && s.End <= after {
			return after
		}
		if s.Kind == timeline.Waiting && (a.samePool(a.siteOf(s.Stack), site) || a.f.Home(g, s)) {
			return s.End
		}
	}
	if me.Born && (a.f.Entry(g) || a.startedFor(g, site)) {
		return max(after, me.Start())
	}
	if after > 0 {
		return after
	}
	return at
}

// maxAtOnce bounds how many wake-ups at one instant are looked at.
const maxAtOnce = 64

// startedFor reports whether a goroutine was started by a function that waits at a site: who has got what is waited for there
// hands it on to it, as an errgroup with a limit does.
func (a *Attribution) startedFor(g timeline.GID, site SiteID) bool {
	me := &a.t.Gs[g]
	if me.Creator < 0 {
		return false
	}
	ws := a.t.Gs[me.Creator].Wakes()
	first := sort.Search(len(ws), func(i int) bool { return ws[i].Time >= me.Start() })
	for i := first; i < min(len(ws), first+maxAtOnce) && ws[i].Time == me.Start(); i++ {
		if ws[i].Birth() && ws[i].Whom() == g {
			return a.Sites[a.siteOf(ws[i].Stack)].Func == a.Sites[site].Func
		}
	}
	return false
}
