package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// lateBin is the stretch of time of which LateWakeup takes the longest wait, a longer one where
// there would be more than maxLateBins: a damaged time makes a trace last years.
const (
	lateBin     = timeline.Time(100e6)
	maxLateBins = 1 << 20
)

// LateWakeup returns, in nanoseconds, the 99th percentile over tenths of a
// second of the longest time that a goroutine was runnable while a P was idle.
// Where threads get a CPU when they want one it is well below a millisecond.
func (a *Attribution) LateWakeup() float64 {
	a.findLate()
	return float64(a.late)
}

// LateIn returns, in nanoseconds, the longest time that a goroutine was runnable while a P
// was idle, in the tenths of a second that some spans touch, and in which part of these
// there was one at all.
func (a *Attribution) LateIn(spans []timeline.Span) (longest, often float64) {
	a.findLate()
	seen, all, next, every := 0, 0, timeline.Time(0), a.lateStretch()
	for _, s := range spans {
		from, to := max(next, (max(s.Start, a.t.Start)-a.t.Start)/every), (min(s.End, a.t.End)-a.t.Start)/every
		for bin := from; bin <= to && int(bin) < len(a.lateBins); bin++ {
			all++
			if d := a.lateBins[bin]; d > 0 {
				seen++
				longest = max(longest, float64(d))
			}
		}
		next = max(next, to+1)
	}
	return longest, float64(seen) / float64(max(1, all))
}

// lateStretch is how long the stretches of lateBins are, in nanoseconds.
func (a *Attribution) lateStretch() timeline.Time { return max(lateBin, a.t.Duration()/maxLateBins) }

func (a *Attribution) findLate() {
	if a.late >= 0 {
		return
	}
	every := a.lateStretch()
	longest := make([]int64, int(a.t.Duration()/every)+1)
	for g := range a.t.Gs {
		for _, s := range a.t.Gs[g].Segs() {
			if s.Kind != timeline.Runnable {
				continue
			}
			most := &longest[(s.Start-a.t.Start)/every]
			if int64(s.End-s.Start) <= *most { // it is looked at closely only if it may be longer
				continue
			}
			d := int64(a.t.Idle(s.Start, s.End))
			if d <= *most {
				continue
			}
			d -= int64(a.t.Passed(s.P, s.Start, s.End))
			for _, kept := range a.t.Kept(s.P, s.Start, s.End) {
				d -= int64(kept)
			}
			*most = max(*most, d)
		}
	}
	a.lateBins = longest
	longest = slices.Clone(longest)
	slices.Sort(longest)
	a.late = longest[int(0.99*float64(len(longest)-1))]
}

// WaitStats describes the waits at a site.
type WaitStats struct {
	// Timers were ended by no goroutine, Answered by one; those of who was home, until there was work
	// for him, are not among the latter.
	Timers, Answered int
	// Low and High are the quartiles of the timers' lengths, in nanoseconds.
	Low, High int64
}

// Waits returns what is known of the waits at a site.
func (a *Attribution) Waits(site SiteID) WaitStats {
	w := WaitStats{Timers: len(a.timers[site])}
	for _, r := range a.releases[site] {
		if !a.f.Home(r.g, a.t.Gs[r.g].Seg(int(r.seg))) {
			w.Answered++
		}
	}
	w.Low, w.High = a.quartiles(site)
	return w
}

// quartiles returns those of the lengths of the waits at a site that a timer ended, 0 if there are none.
func (a *Attribution) quartiles(site SiteID) (low, high int64) {
	if lengths := a.timerLengths(site); len(lengths) > 0 {
		low, high = lengths[len(lengths)/4], lengths[len(lengths)*3/4]
	}
	return low, high
}

// Started returns what is known of the waits at a site of which some are ended by goroutines
// that a timer started, as time.AfterFunc does: those it counts as Timers, and others that a
// goroutine ended as Answered.
func (a *Attribution) Started(site SiteID) WaitStats {
	var w WaitStats
	var lengths []int64
	for _, r := range a.releases[site] {
		by := &a.t.Gs[r.waker]
		if !by.Born || by.Creator != timeline.NoG || a.finalizes(r.waker) {
			w.Answered++
			continue
		}
		lengths = append(lengths, int64(r.at-a.t.Gs[r.g].Seg(int(r.seg)).Start))
	}
	if w.Timers = len(lengths); w.Timers > 0 {
		slices.Sort(lengths)
		w.Low, w.High = lengths[w.Timers/4], lengths[w.Timers*3/4]
	}
	return w
}

// Overlong describes those of the waits at a site that a timer ended that took at least
// so many nanoseconds, and longer than constant timers there take: how many they are, and between which lengths, in
// nanoseconds, half of the time of all of them lies. n is 0 where constant is false: the
// timers there take any time.
func (a *Attribution) Overlong(site SiteID, least int64) (n int, low, high int64, constant bool) {
	if !a.constant(site) {
		return 0, 0, 0, false
	}
	_, usual := a.quartiles(site)
	least = max(least, longer(usual))
	lengths := a.timerLengths(site)
	lengths = lengths[sort.Search(len(lengths), func(i int) bool { return lengths[i] >= least }):]
	var all, sum int64
	for _, d := range lengths {
		all += d
	}
	for _, d := range lengths {
		if 4*sum <= all {
			low = d
		}
		if 4*sum <= 3*all {
			high = d
		}
		sum += d
	}
	return len(lengths), low, high, true
}

// EndedByNone returns the waits at a site that no goroutine ended, in order of their beginning and without those that were
// open at the end, and the upper quartile of their lengths, in nanoseconds. Of the spans only the times and G are
// set; they belong to the Attribution.
func (a *Attribution) EndedByNone(site SiteID) (waits []timeline.Span, usual int64) {
	_, usual = a.quartiles(site)
	if waits, known := a.endedByNone[site]; known {
		return waits, usual
	}
	for g := range a.t.Gs {
		for _, s := range a.t.Gs[g].Waits() {
			if s.Waker == timeline.NoG && s.End < a.t.End && a.siteOf(s.Stack) == site {
				waits = append(waits, timeline.Span{Start: s.Start, End: s.End, G: timeline.GID(g)})
			}
		}
	}
	waits = inOrder(waits, func(s *timeline.Span) timeline.Time { return s.Start })
	if a.endedByNone == nil {
		a.endedByNone = map[SiteID][]timeline.Span{}
	}
	a.endedByNone[site] = waits
	return waits, usual
}

// Answered returns the waits at a site that a goroutine ended, as EndedByNone does those that none did.
func (a *Attribution) Answered(site SiteID) (waits []timeline.Span, usual int64) {
	if there, known := a.ended[site]; known {
		return there.spans, there.usual
	}
	for _, r := range a.releases[site] {
		s := a.t.Gs[r.g].Seg(int(r.seg))
		waits = append(waits, timeline.Span{Start: s.Start, End: s.End, G: r.g})
	}
	if a.ended == nil {
		a.ended = map[SiteID]spansThere{}
	}
	there := ordered(waits)
	a.ended[site] = there
	return there.spans, there.usual
}

// CallsAt returns the system calls, or calls into C, at a site, as EndedByNone does waits.
func (a *Attribution) CallsAt(site SiteID) (calls []timeline.Span, usual int64) {
	if there, known := a.callsAt[site]; known {
		return there.spans, there.usual
	}
	for g := range a.t.Gs {
		for _, s := range a.t.Gs[g].Blocked() {
			if s.Kind == timeline.Syscall && s.End < a.t.End && a.siteOf(s.Stack) == site {
				calls = append(calls, timeline.Span{Start: s.Start, End: s.End, G: timeline.GID(g)})
			}
		}
	}
	if a.callsAt == nil {
		a.callsAt = map[SiteID]spansThere{}
	}
	there := ordered(calls)
	a.callsAt[site] = there
	return there.spans, there.usual
}

// spansThere are what happened at a site, in order of their beginning, and the upper quartile of their lengths.
type spansThere struct {
	spans []timeline.Span
	usual int64
}

func ordered(spans []timeline.Span) (there spansThere) {
	there.spans = inOrder(spans, func(s *timeline.Span) timeline.Time { return s.Start })
	lengths := make([]int64, len(spans))
	for i, s := range spans {
		lengths[i] = int64(s.End - s.Start)
	}
	if slices.Sort(lengths); len(lengths) > 0 {
		there.usual = lengths[len(lengths)*3/4]
	}
	return there
}

// longer is from which length on a timer takes longer than one that usually takes so long.
func longer(usual int64) int64 { return usual + max(usual/constantPart, constantLeast) }

// TimersAt counts the waits at a site that a timer ended and that take longer than most there,
// and those that do not, and of each those in whose middle one of spans, which are in
// order, was going on. Longer is what exceeds the lower quartile by more than constant
// timers differ.
func (a *Attribution) TimersAt(site SiteID, spans []timeline.Span) (long, short Within) {
	lengths := a.timerLengths(site)
	if len(lengths) == 0 {
		return long, short
	}
	least := longer(lengths[len(lengths)/4])
	for g := range a.t.Gs {
		for _, s := range a.t.Gs[g].Waits() {
			if s.Waker != timeline.NoG || s.End >= a.t.End || a.siteOf(s.Stack) != site {
				continue
			}
			w := &short
			if int64(s.End-s.Start) >= least {
				w = &long
			}
			w.All++
			middle := s.Start + (s.End-s.Start)/2
			if k := sort.Search(len(spans), func(k int) bool { return spans[k].End > middle }); k < len(spans) && spans[k].Start <= middle {
				w.In++
			}
		}
	}
	return long, short
}

// Within counts things, and those of them that lie within others.
type Within struct{ All, In int }

// Out is the part that does not lie within others; 0 where there is nothing.
func (w Within) Out() float64 { return float64(w.All-w.In) / float64(max(1, w.All)) }

// timerLengths returns the lengths of the waits at a site that no goroutine
// ended, in order.
func (a *Attribution) timerLengths(site SiteID) []int64 {
	if !a.timersSorted[site] {
		slices.Sort(a.timers[site])
		a.timersSorted[site] = true
	}
	return a.timers[site]
}

// minNominal is how many waits at a site tell its usual length.
const minNominal = 10

// nominal is the length of a site's timers when they are on time: the 5th
// percentile, or 0 where there are too few.
func (a *Attribution) nominal(site SiteID) timeline.Time {
	lengths := a.timerLengths(site)
	if len(lengths) < minNominal {
		return 0
	}
	return timeline.Time(lengths[len(lengths)/20])
}

// constantPart and constantLeast are by how much a site's timers may differ, in their
// middle half, for a longer one to be late: a part of their length, or the resolution
// of a timer in an idle process.
const (
	constantPart  = 10
	constantLeast = int64(1e6)
)

// constant reports whether the timers at a site take about the same time.
func (a *Attribution) constant(site SiteID) bool {
	low, high := a.quartiles(site)
	return high-low <= max(high/constantPart, constantLeast)
}

// CommonestStop returns the index into Reasons of the stop-the-world reason with
// the longest total time among those that keep accepts, 0 if there is none.
func (a *Attribution) CommonestStop(keep func(reason string) bool) uint16 {
	total := map[string]timeline.Time{}
	best := ""
	for _, s := range a.t.STW {
		if keep(s.Name) {
			total[s.Name] += s.End - s.Start
			if total[s.Name] > total[best] || best == "" {
				best = s.Name
			}
		}
	}
	return a.reason(best)
}

// maxLookBack bounds how many segments Written looks at: a message that is written in more
// parts than that is one, too.
const maxLookBack = 64

// Written is how often the goroutine of a wait for a peer wrote to a socket since it last
// read from one, or waited for it.
func (a *Attribution) Written(s Stretch) (n int) {
	me := &a.t.Gs[s.G]
	last := me.SegmentAt(s.From+1) - 1
	for i := last; i >= max(0, last-maxLookBack); i-- {
		x := me.Seg(i)
		switch {
		case x.Kind == timeline.Waiting && x.Reason == timeline.ReasonNetwork:
			return n
		case x.Kind != timeline.Syscall:
		case a.Sites[a.siteOf(x.Stack)].Write:
			n++
		case n > 0 && socketCall(a.t.Stacks.Frames(x.Stack), "internal/poll.(*FD).Read"): // not the attempt before the wait
			return n
		}
	}
	return n
}
