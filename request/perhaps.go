package request

import (
	"regexp"
	"slices"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

const (
	// leastRounds is how often a goroutine must enter a function for that to look like a piece
	// of work of which it does many.
	leastRounds = 5
	// leastTaken is how many pieces of work there must be for them to count as requests.
	leastTaken = 50
)

// Perhaps returns a function of the program's own that may be what a request is where none was
// found, "" if there is none: goroutines enter it again and again, coming from outside of it, or are
// started for it and then end, and of all such functions they spend the most time below it. What they do at home, and what
// lies inside of another such function, does not count, nor what modules do that the program was
// built with, unless there is nothing of the program's own. If taken is set, they mostly enter it
// with something that others brought: since they left it another goroutine, or the network, has
// ended a wait of theirs, and none has ended by itself, as those for a ticker do. Then it is
// what a consumer of a queue does with a message.
func (f *Found) Perhaps() (function string, taken bool) {
	for id := range f.t.Stacks.Len() {
		if slices.ContainsFunc(f.t.Stacks.Frames(gotrace.StackID(id)), own) {
			return f.perhaps(own)
		}
	}
	return f.perhaps(func(x gotrace.Frame) bool { // it was installed as a module
		return x.Func != "" && !standard(x.Func) && !library(x.Func) && !generated(x.Func)
	})
}

// perhaps is Perhaps for functions that of accepts.
func (f *Found) perhaps(of func(gotrace.Frame) bool) (function string, taken bool) {
	type total struct {
		spent timeline.Time
		rounds
	}
	by, started := map[string]*total{}, map[string]*total{}
	lasting := map[string]int{} // of those that were started, by root function
	for i := range f.t.Gs {
		g := &f.t.Gs[i]
		if g.System || g.Observer {
			continue
		}
		if fn := f.root(g, of); g.Born && fn != "" {
			if started[fn] == nil {
				started[fn] = &total{}
			}
			x := started[fn]
			if x.entered++; f.brought(g) {
				x.brought++
			}
			if !g.Died {
				lasting[fn]++
			}
			for _, s := range g.Blocked() {
				if g.Died || !f.Home(timeline.GID(i), s) { // who ends comes back to no home
					x.spent += s.End - s.Start
				}
			}
		}
		if g.Len() < leastRounds {
			continue
		}
		all := f.rounds(timeline.GID(i), of)
		credited := map[string]bool{}
		for _, s := range g.Blocked() {
			fn := f.outermost(s, of, func(fn string) bool { r := all[fn]; return r != nil && r.entered >= leastRounds })
			if fn == "" || f.Home(timeline.GID(i), s) {
				continue
			}
			if by[fn] == nil {
				by[fn] = &total{}
			}
			by[fn].spent += s.End - s.Start
			if !credited[fn] {
				credited[fn] = true
				by[fn].entered += all[fn].entered
				by[fn].brought += all[fn].brought
			}
		}
	}
	for fn, x := range started {
		if x.entered >= leastTaken && 2*lasting[fn] < x.entered {
			by[fn] = x
		}
	}
	for fn, x := range by {
		if best := by[function]; best == nil || x.spent > best.spent || x.spent == best.spent && fn < function {
			function = fn
		}
	}
	if x := by[function]; x != nil {
		taken = x.entered >= leastTaken && 2*x.brought > x.entered
	}
	return function, taken
}

// maxBefore bounds the segments of who started a goroutine that are looked at.
const maxBefore = 32

// brought reports whether a goroutine was started for something that others brought to who started it:
// the last wait of that, but for locks and the collector, did not end by itself.
func (f *Found) brought(g *timeline.Goroutine) bool {
	if g.Creator == timeline.NoG {
		return false
	}
	c := &f.t.Gs[g.Creator]
	for i, n := c.SegmentAt(g.Start()), 0; i >= 0 && n < maxBefore; i, n = i-1, n+1 {
		if i < c.Len() {
			s := c.Seg(i)
			switch s.Reason {
			case timeline.ReasonSync, timeline.ReasonGC, timeline.ReasonGCAssist:
				continue
			}
			if s.Kind == timeline.Waiting && s.End <= g.Start() {
				return s.Waker != timeline.NoG || byNetwork(s)
			}
		}
	}
	return false
}

// root returns the root function of a goroutine, "" if it was nowhere seen or of does not accept it.
func (f *Found) root(g *timeline.Goroutine, of func(gotrace.Frame) bool) string {
	for _, s := range g.Blocked() {
		if frames := f.t.Stacks.Frames(s.Stack); len(frames) > 0 {
			if last := frames[len(frames)-1]; of(last) {
				return last.Func
			}
			return ""
		}
	}
	return ""
}

// rounds is how often goroutines entered a function, and how often of these with what others
// brought.
type rounds struct {
	entered, brought int
	last             int // event on whose stack it was
}

// rounds counts how often a goroutine entered each function: it is on the stack of an event
// there, and was not on that of the event before which has any that of accepts.
func (f *Found) rounds(g timeline.GID, of func(gotrace.Frame) bool) map[string]*rounds {
	all := map[string]*rounds{}
	event, brought, timed := 1, 0, 0 // the last ones of these
	for _, s := range f.t.Gs[g].Blocked() {
		seen := false
		f.outermost(s, of, func(fn string) bool {
			seen = true
			r := all[fn]
			if r == nil {
				r = &rounds{}
				all[fn] = r
			}
			if r.entered == 0 || r.last < event-1 {
				r.entered++
				if brought > r.last && timed <= r.last {
					r.brought++
				}
			}
			r.last = event
			return false
		})
		if !seen {
			continue
		}
		switch {
		case byNetwork(s):
			brought = event
		case s.Kind != timeline.Waiting:
		case s.Reason == timeline.ReasonSleep:
			timed = event
		case s.Reason == timeline.ReasonChanReceive || s.Reason == timeline.ReasonSelect || s.Reason == timeline.ReasonCond:
			if s.Waker != timeline.NoG {
				brought = event
			} else {
				timed = event
			}
		}
		event++
	}
	return all
}

// outermost returns the outermost function on the stack of an event that of, for its frame, and accept,
// for its name, accept; "" if there is none.
func (f *Found) outermost(s timeline.Segment, of func(gotrace.Frame) bool, accept func(fn string) bool) string {
	frames := f.t.Stacks.Frames(s.Stack)
	for i := len(frames) - 1; i >= 0; i-- {
		if of(frames[i]) && accept(frames[i].Func) {
			return frames[i].Func
		}
	}
	return ""
}

// consumed finds the requests of a program that serves nobody, not even a stream, if it works off
// what others bring. It returns nil if it does not.
func (f *Found) consumed() *Found {
	for _, x := range f.Excluded {
		if x.Name != classObserver {
			return nil
		}
	}
	fn, taken := f.Perhaps()
	if !taken {
		return nil
	}
	c := Find(f.t, Options{Func: regexp.MustCompile("^" + regexp.QuoteMeta(fn) + "$")})
	if len(c.Requests) < leastTaken {
		return nil
	}
	c.Consumer, c.Excluded = fn, f.Excluded
	return c
}
