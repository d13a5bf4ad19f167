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
// started for it, by whomever, and then end, and of all such functions they spend the most time below it. What they do at home, and what
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
	seen, serves := f.functions(of), make([]bool, len(f.t.Gs))
	if f.Consumer == "" { // else they are what is asked for
		serves = f.servants()
	}
	by, started := map[string]*total{}, map[string]*total{}
	lasting := map[string]int{} // of those that were started, by root function
	for i := range f.t.Gs {
		g := &f.t.Gs[i]
		if g.System || g.Observer || serves[i] {
			continue
		}
		if fn := seen.root(g); g.Born && fn != "" {
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
		all := seen.rounds(g)
		credited := map[int32]bool{}
		for _, s := range g.Blocked() {
			on := seen.at(s.Stack)
			n := slices.IndexFunc(on, func(fn int32) bool { return all[fn].entered >= leastRounds })
			if n < 0 || f.Home(timeline.GID(i), s) {
				continue
			}
			fn := on[n]
			name := seen.names[fn]
			if by[name] == nil {
				by[name] = &total{}
			}
			by[name].spent += s.End - s.Start
			if !credited[fn] {
				credited[fn] = true
				by[name].entered += all[fn].entered
				by[name].brought += all[fn].brought
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

// servants says of goroutines, by number, whether they carry requests, or were started by some that do, or by whom these started: what
// they do is a part of a request.
func (f *Found) servants() []bool {
	in, known := make([]bool, len(f.t.Gs)), make([]bool, len(f.t.Gs))
	for i := range f.Requests {
		for _, p := range f.Requests[i].Parts {
			if int(p.G) < len(in) { // messages are behind them
				in[p.G], known[p.G] = true, true
			}
		}
	}
	var way []timeline.GID
	for i := range f.t.Gs {
		g := timeline.GID(i)
		for way = way[:0]; g >= 0 && int(g) < len(in) && !known[g]; g = f.t.Gs[g].Creator {
			known[g] = true // no goroutine starts itself
			way = append(way, g)
		}
		if g >= 0 && int(g) < len(in) && in[g] {
			for _, x := range way {
				in[x] = true
			}
		}
	}
	return in
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

// root returns what a goroutine was started for: the outermost of its functions that are of the program's own, which is its root
// unless a library started it, "" if there is none.
func (x *functions) root(g *timeline.Goroutine) string {
	if serves(g.Root()) {
		return ""
	}
	for _, s := range g.Blocked() {
		if on := x.at(s.Stack); len(on) > 0 {
			return x.names[on[0]]
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

// functions are those on the stacks of a trace that are looked at.
type functions struct {
	names []string
	on    [][]int32 // by stack, the outermost first, by number
	// all are the rounds of one goroutine, by function, and entered those that it entered.
	all     []rounds
	entered []int32
}

// functions returns those whose frames of accepts. A stack is looked at once, however many events have it.
func (f *Found) functions(of func(gotrace.Frame) bool) *functions {
	x := &functions{on: make([][]int32, f.t.Stacks.Len())}
	number := map[string]int32{}
	for id := range x.on {
		for _, frame := range slices.Backward(f.t.Stacks.Frames(gotrace.StackID(id))) {
			if !of(frame) {
				continue
			}
			fn, known := number[frame.Func]
			if !known {
				fn = int32(len(x.names))
				number[frame.Func] = fn
				x.names = append(x.names, frame.Func)
			}
			x.on[id] = append(x.on[id], fn)
		}
	}
	x.all = make([]rounds, len(x.names))
	return x
}

// at are those on a stack.
func (x *functions) at(stack gotrace.StackID) []int32 {
	if int(stack) >= len(x.on) {
		return nil
	}
	return x.on[stack]
}

// rounds counts how often a goroutine entered each function: it is on the stack of an event
// there, and was not on that of the event before which has any. It is valid until the next call.
func (x *functions) rounds(g *timeline.Goroutine) []rounds {
	for _, fn := range x.entered {
		x.all[fn] = rounds{}
	}
	x.entered = x.entered[:0]
	event, brought, timed := 1, 0, 0 // the last ones of these
	for _, s := range g.Blocked() {
		on := x.at(s.Stack)
		for _, fn := range on {
			r := &x.all[fn]
			if r.entered == 0 {
				x.entered = append(x.entered, fn)
			}
			if r.entered == 0 || r.last < event-1 {
				r.entered++
				if brought > r.last && timed <= r.last {
					r.brought++
				}
			}
			r.last = event
		}
		if len(on) == 0 {
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
	return x.all
}

// consumed finds the requests of a program that serves hardly anybody, not even a stream, if it works off
// what others bring. It returns nil if it does not. Messages of f are not valid afterwards, unless nil is returned.
func (f *Found) consumed() *Found {
	for _, x := range f.Excluded {
		if x.Name != classObserver {
			return nil
		}
	}
	for i := range f.Requests {
		if sh := f.Roles[f.Requests[i].Role].Shape; sh == Annotated || sh == Function { // the user, or a queue's client, says what a request is
			return nil
		}
	}
	fn, taken := f.Perhaps()
	if !taken {
		return nil
	}
	c := Find(f.t, Options{Func: regexp.MustCompile("^" + regexp.QuoteMeta(fn) + "$")})
	if !outnumbers(len(c.Requests), len(f.Requests)) {
		if len(f.Requests) == 0 {
			return nil
		}
		return Find(f.t, Options{served: true}) // messages of f are forgotten
	}
	c.Consumer, c.Excluded = fn, f.Excluded
	return c
}
