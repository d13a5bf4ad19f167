package blame

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Step is what one goroutine did from one instant to another on the way from a request
// to its leaves.
type Step struct {
	// Depth is how many waits on the way were replaced by what their wakers did; 0 is the
	// goroutine that carries the request.
	Depth    int
	G        timeline.GID
	From, To timeline.Time
	// Segment indexes the segments of G in the timeline: what it did; -1 if it did not
	// exist, or nothing is known of it.
	Segment int
	// Pieces are what of the step was given to leaves, in no order within the step. The
	// rest is in the steps that follow and are deeper, until the next that is not.
	Pieces []Piece
}

// MaxSteps bounds the steps of a path: what is beyond them is in the pieces of the step
// from which they would have gone on, and at depth 0 in the last one there, which is then
// as long as if it were all of them.
const MaxSteps = 2000

// Path returns the steps of an attributed request in order of time, each followed by those
// within it, which do not overlap. Their pieces add up to those of the request. index is as
// in Requests.
func (a *Attribution) Path(index int) []Step {
	w := a.walker()
	w.way = &way{at: -1}
	w.request(a.Requests[index].Request)
	a.memory = memory{}
	steps := make([]Step, len(w.way.steps))
	for i := range steps {
		steps[i] = w.way.steps[i].Step
		w.scratch = w.scratch[:0]
		for n, ns := range w.way.steps[i].acc {
			w.scratch = append(w.scratch, portion{n, ns})
		}
		steps[i].Pieces = w.pieces(w.scratch)
	}
	// Who held the same thing one after the other was followed from the last to the first.
	slices.SortStableFunc(steps, func(x, y Step) int {
		return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.Depth, y.Depth))
	})
	return steps
}

// SiteOf returns the site of a stack.
func (a *Attribution) SiteOf(stack gotrace.StackID) Site { return a.Sites[a.siteOf(stack)] }

// walker returns one for a request at a time.
func (a *Attribution) walker() *walker {
	return &walker{a: a, acc: &tally{}, exec: make([]timeline.Time, len(a.Classes))}
}

// way is what a walker keeps of where it was.
type way struct {
	steps []step
	at    int // the step being walked, -1 between those of depth 0
	outer int // the last one of depth 0
}

type step struct {
	Step
	acc map[int32]int64 // by number of key
}

// step begins one, which ends with what is returned. Who walks without a way has none.
func (w *walker) step(at *where, g timeline.GID, segment int, from, to timeline.Time) (end func()) {
	if w.way == nil {
		return func() {}
	}
	y, before := w.way, w.way.at
	if len(y.steps) >= MaxSteps {
		if before >= 0 {
			return func() {}
		}
		y.at, y.steps[y.outer].To = y.outer, to
		return func() { y.at = before }
	}
	y.at = len(y.steps)
	if before < 0 {
		y.outer = y.at
	}
	y.steps = append(y.steps, step{Step{Depth: at.depth - at.back, G: g, From: from, To: to, Segment: segment}, map[int32]int64{}})
	return func() { y.at = before }
}

// unresolved gives [from, to] of g, of which nothing is known, to no leaf.
func (w *walker) unresolved(at *where, g timeline.GID, from, to timeline.Time) {
	if to > from {
		end := w.step(at, g, -1, from, to)
		w.add(at, Key{Kind: Unresolved}, to-from)
		end()
	}
}

// aside does something that is not on the way.
func (w *walker) aside(do func()) {
	y := w.way
	w.way = nil
	do()
	w.way = y
}

// given adds a piece, of the key with a number, to the step being walked.
func (y *way) given(number int32, ns timeline.Time) {
	if y != nil && y.at >= 0 {
		y.steps[y.at].acc[number] += int64(ns)
	}
}

// Slowest returns the indexes into Attribution.Requests of the slowest requests of the
// population, at most n, the slowest first.
func (p *Population) Slowest(n int) []int {
	all := p.All()
	all = slices.Clone(all[max(0, len(all)-n):])
	slices.Reverse(all)
	return all
}
