package blame

import (
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// survey is what is collected of all segments in one go: there are millions, and reading
// them takes longer than what is done about one.
type survey struct {
	a       *Attribution
	carried *request.Forward
	bursts  []pile[int64] // by class
	// releases and timers are by site, cancelled are the waits that a cancellation ended.
	releases  []pile[release]
	timers    []pile[int64]
	cancelled pile[release]
	alarms    map[SiteID]alarms
	// stacks are what goroutines did, by stack; waits are those on which somebody waited,
	// calls those of system calls that did not end, in the order in which they came up.
	stacks       []did
	waits, calls []gotrace.StackID
	// writes are the starts of socket writes, wakes the wake-ups by the network.
	writes, wakes times
}

// alarms are waits for a condition that an alarm ended: all of them, and those after which the waiter
// waits for it again.
type alarms struct{ all, again int }

// leastAlarms is how many alarms at a site are needed to tell that they end no wait for good.
const leastAlarms = 10

// did is what goroutines did at a stack.
type did uint8

const (
	stood did = 1 << iota
	waited
	waitedSync // for timeline.ReasonSync
)

// burst is what a goroutine ran since its last wait, from an instant on.
type burst struct {
	from  timeline.Time
	ran   int64
	class ClassID // of the one before
}

// survey goes through all segments, and makes their sites.
func (a *Attribution) survey() *survey {
	v := &survey{
		a: a, carried: a.f.Forward(), bursts: make([]pile[int64], len(a.Classes)), stacks: make([]did, a.t.Stacks.Len()),
		writes: newTimes(len(a.t.Gs)), wakes: newTimes(len(a.t.Gs)),
	}
	for g := range a.t.Gs {
		me := &a.t.Gs[g]
		var b burst
		switches := 0
		for i, s := range me.Segs() {
			v.stacks[s.Stack] |= stood
			switch s.Kind {
			case timeline.Running:
				if b.ran == 0 {
					b.from = s.Start
				}
				b.ran += int64(s.End - s.Start)
			case timeline.Runnable:
				if s.Reason == timeline.ReasonSwitch {
					switches++
				}
			case timeline.Waiting:
				v.burst(timeline.GID(g), &b)
				v.wait(timeline.GID(g), i, s)
			case timeline.Syscall:
				v.call(s)
			}
		}
		v.burst(timeline.GID(g), &b)
		v.writes.end()
		v.wakes.end()
		a.switchesOf(timeline.GID(g), switches)
	}
	v.vain()
	for _, stacks := range [][]gotrace.StackID{v.waits, v.calls} {
		for _, s := range stacks {
			a.siteOf(s)
		}
	}
	return v
}

// burst ends one of g.
func (v *survey) burst(g timeline.GID, b *burst) {
	if b.ran == 0 {
		return
	}
	c := v.a.classIn(g, b.from, v.carried)
	v.a.Classes[c].Ran += b.ran
	v.bursts[c].add(b.ran)
	if c != b.class {
		v.a.Classes[c].Members++
		b.class = c
	}
	b.ran = 0
}

// wait is segment i of g.
func (v *survey) wait(g timeline.GID, i int, s timeline.Segment) {
	a, at := v.a, &v.stacks[s.Stack]
	if *at&waited == 0 {
		*at |= waited
		v.waits = append(v.waits, s.Stack)
	}
	if s.Reason == timeline.ReasonSync {
		*at |= waitedSync
	}
	switch {
	case s.Waker != timeline.NoG && s.Reason != timeline.ReasonNetwork:
		site, r := a.siteOf(s.Stack), release{s.End, s.Waker, g, int32(i)}
		if s.Reason == timeline.ReasonCond && !a.Sites[a.siteOf(s.WakerStack)].Cancel && a.alarm(s) {
			v.alarm(r, site)
		}
		if a.cancelled(s) {
			a.cancels[site]++
			v.cancelled.add(r)
			return
		}
		grow(&v.releases, site).add(r)
	case s.End < a.t.End && s.Reason != timeline.ReasonNone:
		grow(&v.timers, a.siteOf(s.Stack)).add(int64(s.End - s.Start))
		if s.Reason == timeline.ReasonNetwork && s.Waker == timeline.NoG {
			v.wakes.at = append(v.wakes.at, s.End)
		}
	}
}

// alarm notes that an alarm ended a wait at a site.
func (v *survey) alarm(r release, site SiteID) {
	if v.alarms == nil {
		v.alarms = map[SiteID]alarms{}
	}
	x := v.alarms[site]
	if x.all++; v.a.looksAgain(r, site) {
		x.again++
	}
	v.alarms[site] = x
}

// vain finds the sites at which alarms do not end a wait, but have the waiter look whether its time is
// out, and makes what they ended there waits that were cancelled.
func (v *survey) vain() {
	a := v.a
	for site, x := range v.alarms {
		if x.all < leastAlarms || 2*x.again < x.all {
			continue
		}
		if a.alarmed == nil {
			a.alarmed = map[SiteID]bool{}
		}
		a.alarmed[site] = true
		var left pile[release]
		for _, r := range v.releases[site].all() {
			if a.cancelled(a.t.Gs[r.g].Seg(int(r.seg))) {
				a.cancels[site]++
				v.cancelled.add(r)
			} else {
				left.add(r)
			}
		}
		v.releases[site] = left
	}
}

// call is a system call.
func (v *survey) call(s timeline.Segment) {
	a, writes := v.a, false
	if s.End < a.t.End {
		id := a.siteOf(s.Stack)
		site := &a.Sites[id]
		if writes = site.Write; site.Kind.sleeps() {
			grow(&v.timers, id).add(int64(s.End - s.Start))
		}
	} else {
		v.calls, writes = append(v.calls, s.Stack), socketWrite(a.t.Stacks.Frames(s.Stack))
	}
	if writes {
		v.writes.at = append(v.writes.at, s.Start)
	}
}

// grow returns the pile of a site.
func grow[T any](piles *[]pile[T], site SiteID) *pile[T] {
	if n := int(site) + 1 - len(*piles); n > 0 {
		*piles = append(*piles, make([]pile[T], n)...)
	}
	return &(*piles)[site]
}
