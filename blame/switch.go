package blame

import (
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// minSwitches is how many waits for another thread a recording, or a goroutine, must
// have for somebody to be locked to one. Without, races in the scheduler look like
// one or two of them in 20,000 waits for a P; a millisecond of them is fifty.
const minSwitches = 50

// switchesOf notes that g waited n times for another thread, and whether it is locked to
// its own.
func (a *Attribution) switchesOf(g timeline.GID, n int) {
	a.switches += n
	if a.t.Gs[g].Bound && n >= minSwitches {
		a.locked[g] = true
	}
}

// switched reports whether g waited for another thread in its segment i: its P had to
// change threads, or who woke it is locked to one and blocked before it ran. It would
// have run there at once; who steals it from that P has to be woken for it.
func (a *Attribution) switched(g timeline.GID, i int) bool {
	me := &a.t.Gs[g]
	s := me.Seg(i)
	if a.switches < minSwitches || s.Kind != timeline.Runnable {
		return false
	}
	if s.Reason == timeline.ReasonSwitch || i == 0 || !a.locked[me.Seg(i-1).Waker] {
		return s.Reason == timeline.ReasonSwitch
	}
	waker := &a.t.Gs[me.Seg(i-1).Waker]
	k := waker.SegmentAt(s.Start)
	return k < waker.Len() && waker.Seg(k).End < s.End
}

// Switches are waits for another thread, of goroutines that are locked to theirs and
// of those that run after one.
type Switches struct {
	// N is how many, NS their time, Prompt that of those which took no longer than it
	// takes to wake a thread that gets a CPU at once (timeline.LateMin).
	N          int
	NS, Prompt int64
	// Locked is who waited longest of those that had a thread of their own all the
	// time, NoG if nobody did.
	Locked timeline.GID
	// Blocked is how often they came from a wait at each stack: Locked, if there is
	// one, else those that carry requests.
	Blocked map[gotrace.StackID]int
}

// SwitchesIn returns the waits for another thread that overlap spans, which must be
// in order of time.
func (a *Attribution) SwitchesIn(spans []timeline.Span) Switches {
	all, best := Switches{Locked: timeline.NoG, Blocked: map[gotrace.StackID]int{}}, Switches{}
	for g := range a.t.Gs {
		own := Switches{Locked: timeline.GID(g), Blocked: map[gotrace.StackID]int{}}
		me := &a.t.Gs[g]
		for i, s := range me.Segs() {
			if !a.switched(timeline.GID(g), i) || timeline.Overlap(spans, s.Start, s.End) == 0 {
				continue
			}
			d := int64(s.End - s.Start)
			own.N++
			own.NS += d
			if s.End-s.Start <= timeline.LateMin {
				own.Prompt += d
			}
			if i > 0 && me.Seg(i-1).Kind == timeline.Waiting {
				from := me.Seg(i - 1).Stack
				own.Blocked[from]++
				if a.f.Entry(own.Locked) {
					all.Blocked[from]++
				}
			}
		}
		all.N, all.NS, all.Prompt = all.N+own.N, all.NS+own.NS, all.Prompt+own.Prompt
		if a.locked[own.Locked] && own.NS > best.NS {
			best = own
		}
	}
	if best.N > 0 {
		all.Locked, all.Blocked = best.Locked, best.Blocked
	}
	return all
}
