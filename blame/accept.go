package blame

import (
	"slices"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Accepted is a connection that the process accepted.
type Accepted struct {
	// G accepted it At.
	G  timeline.GID
	At timeline.Time
	// Waited is how long it had been there, on average over what is known: who waits for a
	// connection has it at once. Of those that were there when he came back, all came
	// since there were none left, at any time.
	Waited timeline.Time
	// Run counts the times at which a goroutine found none left; it is the same for those
	// that it accepted in between, and before the first time for all since the recording
	// began, of which it is then not known how long they had been there before.
	Run int
	// Away is where G was longest meanwhile, outside of accepting; 0 if it did not block.
	Away SiteID
}

// Accepts returns the connections that goroutines accepted which hand connections on to
// those that carry requests of a role, or carry them themselves.
func (a *Attribution) Accepts(role int) []Accepted {
	carries := make([]bool, len(a.t.Gs))
	for i := range a.f.Requests {
		if r := &a.f.Requests[i]; r.Role == role {
			for _, p := range r.Parts {
				carries[p.G] = true
			}
		}
	}
	w := accepts{a: a, sites: map[gotrace.StackID]bool{}}
	for g := range a.t.Gs {
		id := timeline.GID(g)
		if carries[id] || slices.ContainsFunc(a.t.Gs[g].Wakes(), func(w timeline.Wake) bool { return carries[w.Whom()] }) {
			w.of(id)
		}
	}
	return w.all
}

// AcceptsNone returns where a goroutine waits for all of the recording that is about to accept a connection, and does not: it is in
// a listener's Accept, and waits for something else than the network. It is 0 if there is none.
func (a *Attribution) AcceptsNone() SiteID {
	for g := range a.t.Gs {
		me := &a.t.Gs[g]
		if me.Len() == 0 {
			continue
		}
		s := me.Seg(me.Len() - 1)
		if s.Kind != timeline.Waiting || s.Reason == timeline.ReasonNetwork || s.Start > a.t.Start || s.End < a.t.End {
			continue
		}
		if slices.ContainsFunc(a.t.Stacks.Frames(s.Stack), inAccept) {
			return a.siteOf(s.Stack)
		}
	}
	return 0
}

// inAccept reports whether a frame is a listener's Accept.
func inAccept(f gotrace.Frame) bool { return strings.HasSuffix(f.Func, ").Accept") }

type accepts struct {
	a     *Attribution
	sites map[gotrace.StackID]bool // which stacks accept
	all   []Accepted
	runs  int
	// run is what was accepted since there was none left, empty; away and longest are
	// where it was meanwhile.
	run     []Accepted
	empty   timeline.Time
	away    SiteID
	longest timeline.Time
	// open is 1 if the run was under way when the recording began, else 0.
	open timeline.Time
}

// of collects what g accepted.
func (w *accepts) of(g timeline.GID) {
	me := &w.a.t.Gs[g]
	w.empty, w.open = me.Start(), 1
	for i, s := range me.Blocked() {
		accepting := w.accepting(s)
		if s.Stack == 0 && i == 0 { // it waited when the recording began, and tries again now
			accepting = s.Waker == timeline.NoG && me.Len() > 1
		}
		switch {
		case !accepting:
			if d := s.End - s.Start; d > w.longest && s.Stack != 0 {
				w.away, w.longest = w.a.siteOf(s.Stack), d
			}
		case s.Kind == timeline.Waiting:
			w.finish()
			w.empty, w.open = s.End, 0
		case s.Kind == timeline.Syscall && !w.inVain(me, i):
			w.run = append(w.run, Accepted{G: g, At: s.End, Run: w.runs})
		}
	}
	w.finish()
}

// inVain reports whether the call of segment i found nothing: its caller waits then.
func (w *accepts) inVain(me *timeline.Goroutine, i int) bool {
	for k := i + 1; k < me.Len(); k++ {
		switch s := me.Seg(k); s.Kind {
		case timeline.Running, timeline.Runnable:
		default:
			return s.Kind == timeline.Waiting && w.accepting(s)
		}
	}
	return true // not known
}

// finish ends a run: what was accepted in it came one by one since its beginning, and
// the first one ended the wait for it, if there was one.
func (w *accepts) finish() {
	if n := len(w.run); n > 0 {
		length := w.run[n-1].At - w.empty
		for i := range w.run {
			came := w.empty + length*(timeline.Time(i)+w.open)/(timeline.Time(n)+w.open)
			w.run[i].Waited, w.run[i].Away = max(0, w.run[i].At-came), w.away
		}
		w.all = append(w.all, w.run...)
	}
	w.run, w.away, w.longest = w.run[:0], 0, 0
	w.runs++
}

// accepting reports whether a segment stands in accepting a connection.
func (w *accepts) accepting(s timeline.Segment) bool {
	is, known := w.sites[s.Stack]
	if !known {
		is = socketCall(w.a.t.Stacks.Frames(s.Stack), "internal/poll.(*FD).Accept")
		w.sites[s.Stack] = is
	}
	return is
}
