package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// A request that waits for several children is as late as the last one. Without
// what delayed that one it would still wait for the others: the slack between
// them bounds what can be saved.

// FanIn is a wait of a request for one of several goroutines that it set to work.
type FanIn struct {
	// Site is where the request waits.
	Site SiteID
	// Pieces are what the wait was attributed to, Other is what the other child
	// did in the wait until it was done; nothing if all were done before.
	Pieces, Other []Piece
	// Slack is, in nanoseconds, for how much of the end of the wait all other
	// children were done: the whole wait at most, 0 if one was not.
	Slack int64
	// Last is the one that was waited for alone, in the slack.
	Last Member
	// Nested is set if one of the several that another FanIn waits for waited so: its
	// Pieces are part of that one's, which bounds what can be saved. Of a nested one
	// there is no Other.
	Nested bool
}

// Member is one of several goroutines that a request set to work together: which
// of them, as far as a trace tells.
type Member struct {
	// Number is its place in the order in which they were set to work, Of is how
	// many they are; 0 if they are not several, or not all were waited for.
	Number, Of int
	// Function is the program's function that it began with if none of the others
	// did; else "".
	Function string
	// Worker is the goroutine if it works for many requests, NoG if it was born for
	// this one.
	Worker timeline.GID
}

// maxFanIns bounds the fan-ins kept for a request, of which at most half are nested,
// maxSiblings the children that are looked at for one: a request with more of either
// waits for so many that one more or less of them changes little. maxNested is how
// many may lie within each other.
const maxFanIns, maxSiblings, maxNested = 256, 256, 4

// fanIn is a FanIn in the making: rival is the other child that bounds what the
// wait can save, NoG if none does, and was done at an instant.
type fanIn struct {
	site        SiteID
	wait, other []portion
	rival       timeline.GID
	done        timeline.Time
	slack       timeline.Time
	last        Member
	nested      bool
}

// gathersHere reports whether there is room for one more fan-in where the walk is.
func (w *walker) gathersHere() bool {
	if w.gathering == 0 {
		return len(w.fanIns) < maxFanIns
	}
	return w.gathering < maxNested && len(w.fanIns) < maxFanIns/2
}

// gathers reports whether the wait s of g is for one of several goroutines that g
// set to work, and what is known of the others.
func (w *walker) gathers(g timeline.GID, s timeline.Segment, from, to timeline.Time) (f fanIn, ok bool) {
	f = fanIn{site: w.a.siteOf(s.Stack), rival: timeline.NoG, done: from}
	if rival, done := w.rival(g, s, from, to); rival != timeline.NoG {
		f.rival, f.done = rival, done
	}
	all, last := w.siblings(g, s)
	next := sibling{done: -1} // the last one done of the others
	for _, x := range all {
		if x.g != s.Waker && x.done > next.done {
			next = x
		}
	}
	if next.done >= 0 && next.done < to {
		f.last = w.member(all, last)
		if next.worker && next.done > from {
			f.rival, f.done = next.g, next.done
		}
	}
	f.slack = to - f.done
	return f, f.rival != timeline.NoG || f.last.Of > 0
}

// sibling is a goroutine that was set to work at an instant, and when it was done:
// after the end of the recording if that is not known. A worker was not born for it.
type sibling struct {
	g          timeline.GID
	from, done timeline.Time
	worker     bool
}

// siblings returns those whom g set to work together with the one that ended its
// wait s, in order, and which of them that is: they were born, or woken out of
// their home waits, at the same place.
func (w *walker) siblings(g timeline.GID, s timeline.Segment) (all []sibling, last int) {
	wakes := w.a.t.Gs[g].Wakes()
	end := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time > s.Start })
	first := max(end-maxSiblings, sort.Search(len(wakes), func(i int) bool { return wakes[i].Time >= w.begun }))
	set := end - 1
	for set >= first && wakes[set].Whom() != s.Waker {
		set--
	}
	if set < first {
		return nil, 0
	}
	place := w.a.siteOf(wakes[set].Stack)
	for i := first; i < end; i++ {
		w.steps++
		if wakes[i].Birth() != wakes[set].Birth() || w.a.siteOf(wakes[i].Stack) != place {
			continue
		}
		x, ok := w.setToWork(&wakes[i])
		if i == set && !ok {
			return nil, 0
		}
		if i == set {
			last = len(all)
		}
		if ok {
			all = append(all, x)
		}
	}
	return w.together(g, all, last)
}

// setToWork returns the sibling that a wake-up made, if it did: a goroutine that
// carries requests itself, or was not at home, was not woken for this one.
func (w *walker) setToWork(x *timeline.Wake) (sibling, bool) {
	me := &w.a.t.Gs[x.Whom()]
	out := sibling{x.Whom(), x.Time, w.a.t.End + 1, !x.Birth()}
	if x.Birth() {
		if me.Died {
			out.done = me.End()
		}
		return out, true
	}
	i := me.SegmentAt(x.Time)
	if i >= me.Len() || !w.a.f.Home(x.Whom(), me.Seg(i)) || w.a.f.Entry(x.Whom()) {
		return out, false
	}
	for i++; i < me.Len() && w.steps <= maxSteps; i++ {
		w.steps++
		if w.a.f.Home(x.Whom(), me.Seg(i)) {
			out.done = me.Seg(i).Start
			break
		}
	}
	return out, true
}

// together cuts siblings to those that were at work with the last one: g did not
// wait for any of them until all were done, and then went on to the next.
func (w *walker) together(g timeline.GID, all []sibling, last int) ([]sibling, int) {
	begin, busy := 0, timeline.Time(0)
	for i, x := range all {
		if i > 0 && busy <= x.from && w.awaited(g, all[begin:i], all[i-1].from, x.from) {
			if i > last {
				return all[begin:i], last - begin
			}
			begin = i
		}
		busy = max(busy, x.done)
	}
	return all[begin:], last - begin
}

// awaited reports whether one of siblings ended a wait of g between two instants.
func (w *walker) awaited(g timeline.GID, all []sibling, from, to timeline.Time) bool {
	me := &w.a.t.Gs[g]
	for i := me.SegmentAt(from + 1); i < me.Len() && me.Seg(i).End <= to; i++ {
		w.steps++
		x := me.Seg(i)
		if x.Kind == timeline.Waiting && slices.ContainsFunc(all, func(s sibling) bool { return s.g == x.Waker }) {
			return true
		}
	}
	return false
}

// member identifies one of siblings.
func (w *walker) member(all []sibling, i int) Member {
	m := Member{Number: i, Of: len(all), Function: w.function(all[i].g), Worker: timeline.NoG}
	if all[i].worker {
		m.Worker = all[i].g
	}
	for k, x := range all {
		if f := w.function(x.g); k != i && (f == m.Function || f == "") { // what never blocked may be anything
			m.Function = ""
			break
		}
	}
	return m
}

// function returns the outermost function of the program on the stacks of a
// goroutine, "" if it was seen in none.
func (w *walker) function(g timeline.GID) string {
	me := &w.a.t.Gs[g]
	outermost := func(frames []gotrace.Frame) string {
		for i := len(frames) - 1; i >= 0; i-- {
			if f, ok := request.AppFrame(frames[i : i+1]); ok {
				return f.Func
			}
		}
		return ""
	}
	f := outermost([]gotrace.Frame{{Func: me.Root()}})
	for i := 0; i < me.Len() && f == "" && w.steps <= maxSteps; i++ {
		w.steps++
		f = outermost(w.a.t.Stacks.Frames(me.Seg(i).Stack))
	}
	return f
}

// rival returns the other child that bounds what the wait s of the request's
// goroutine g can save: the one that g waits for last at the same place, or else
// the one that was done last before the wait ended, and when that was. NoG if s
// is no wait for one of several children.
func (w *walker) rival(g timeline.GID, s timeline.Segment, from, to timeline.Time) (timeline.GID, timeline.Time) {
	t := w.a.t
	if !w.bears(g, s.Waker) {
		return timeline.NoG, 0
	}
	if last := w.lastAwaited(g, s, from); last != s.Waker {
		return last, to
	}
	best, done := timeline.NoG, from
	wakes := t.Gs[g].Wakes()
	before := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time > s.Start })
	for i := before - 1; i >= max(0, before-maxSiblings) && wakes[i].Time >= w.begun; i-- {
		w.steps++
		c := &t.Gs[wakes[i].Whom()]
		if end := c.End(); wakes[i].Birth() && wakes[i].Whom() != s.Waker && c.Died && end > done && end < to {
			best, done = wakes[i].Whom(), end
		}
	}
	return best, done
}

// bears reports whether g gave birth to h within the request.
func (w *walker) bears(g, h timeline.GID) bool {
	me := &w.a.t.Gs[h]
	return me.Creator == g && me.Born && me.Start() >= w.begun
}

// lastAwaited returns the last child that g waits for at the place of its wait s
// among those that are at work since from.
func (w *walker) lastAwaited(g timeline.GID, s timeline.Segment, from timeline.Time) timeline.GID {
	t := w.a.t
	last, site := s.Waker, w.a.siteOf(s.Stack)
	me := &t.Gs[g]
	first := me.SegmentAt(s.End) + 1
	for i, x := range me.SegsFrom(min(me.Len(), first)) {
		if i >= first+maxSiblings || x.End > w.ends {
			break
		}
		w.steps++
		if x.Kind != timeline.Waiting || x.Waker == timeline.NoG || w.a.siteOf(x.Stack) != site {
			continue
		}
		if h := &t.Gs[x.Waker]; h.Creator != g || !h.Born || h.Start() > from {
			break
		}
		last = x.Waker
	}
	return last
}

// forOneOf replaces the wait s of g, which gathers, like any other, and remembers
// what the rival did meanwhile, unless the fan-in that this one is nested in does so.
func (w *walker) forOneOf(at *where, g timeline.GID, s timeline.Segment, from, to timeline.Time, f fanIn) {
	all, within := w.acc, w.gathering
	w.acc, w.gathering = &w.apart[within], within+1
	w.waker(at, g, s, from, to)
	f.wait, f.nested = w.takeApart(within), within > 0
	for _, p := range f.wait {
		all.add(p.number, p.ns)
	}
	if f.rival != timeline.NoG && !f.nested {
		kept := *w
		w.queues = slices.Clone(w.queues)
		next := w.a.queueAt(at, Hop{Site: f.site, WakerSite: w.a.siteOf(s.WakerStack), Waker: w.a.classAt(f.rival, f.done), Reason: s.Reason})
		next.depth++
		w.aside(func() { w.walk(&next, f.rival, from, f.done) })
		f.other = w.takeApart(within)
		w.nested, w.wanted, w.queues, w.depth = kept.nested, kept.wanted, kept.queues, kept.depth
		w.outside, w.squares, w.peer = kept.outside, kept.squares, kept.peer
	}
	w.acc, w.gathering = all, within
	w.fanIns = append(w.fanIns, f)
}

// takeApart returns what apart has summed up at a depth, until the next request.
func (w *walker) takeApart(within int) []portion {
	begin := len(w.portions)
	w.portions = w.apart[within].take(w.portions)
	return w.portions[begin:len(w.portions):len(w.portions)]
}

// bound returns, by column, the nanoseconds of a request's pieces that do not go
// away with the column, because the request would wait for another child; sum and
// other are scratch space of a column each, zero before and after.
func (r *Attributed) bound(cols Columns, sum, other []float64) (out []cell) {
	for _, f := range r.FanIns {
		if f.Nested {
			continue
		}
		for _, p := range f.Pieces {
			sum[cols[p.Key]] += float64(p.NS)
		}
		for _, p := range f.Other {
			other[cols[p.Key]] += float64(p.NS)
		}
		for _, p := range f.Pieces {
			c := cols[p.Key]
			if over := sum[c] - other[c] - float64(f.Slack); over > 0 {
				out = append(out, cell{c, over})
			}
			sum[c] = 0
		}
		for _, p := range f.Other {
			other[cols[p.Key]] = 0
		}
	}
	return out
}
