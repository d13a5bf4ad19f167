package request

import (
	"regexp"

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
// found, "" if there is none: goroutines enter it again and again, coming from outside of it,
// and of all such functions they spend the most time below it. What they do at home, and what
// lies inside of another such function, does not count. If taken is set, they mostly enter it
// with something that others brought: since they left it another goroutine, or the network, has
// ended a wait of theirs, and none has ended by itself, as those for a ticker do. Then it is
// what a consumer of a queue does with a message.
func (f *Found) Perhaps() (function string, taken bool) {
	type total struct {
		spent timeline.Time
		rounds
	}
	by := map[string]*total{}
	for i := range f.t.Gs {
		g := &f.t.Gs[i]
		if g.System || g.Observer || g.Len() < leastRounds {
			continue
		}
		all := f.rounds(timeline.GID(i))
		credited := map[string]bool{}
		for _, s := range g.Blocked() {
			fn := f.outermost(s, func(fn string) bool { r := all[fn]; return r != nil && r.entered >= leastRounds })
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

// rounds is how often goroutines entered a function, and how often of these with what others
// brought.
type rounds struct {
	entered, brought int
	last             int // event on whose stack it was
}

// rounds counts how often a goroutine entered each function: it is on the stack of an event
// there, and was not on that of the event before which has any of the program's own.
func (f *Found) rounds(g timeline.GID) map[string]*rounds {
	all := map[string]*rounds{}
	event, brought, timed := 1, 0, 0 // the last ones of these
	for _, s := range f.t.Gs[g].Blocked() {
		seen := false
		f.outermost(s, func(fn string) bool {
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

// outermost returns the outermost function of the program's own on the stack of an event which
// accept accepts, "" if there is none.
func (f *Found) outermost(s timeline.Segment, accept func(fn string) bool) string {
	frames := f.t.Stacks.Frames(s.Stack)
	for i := len(frames) - 1; i >= 0; i-- {
		if fn := frames[i].Func; fn != "" && !standard(fn) && !library(fn) && !generated(fn) && accept(fn) {
			return fn
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
