package blame

import "github.com/whylate/whylate/timeline"

// Many requests wait for the same goroutine, directly or behind each other. What it did meanwhile is
// walked once where that is long, and taken from memory by those that come by later on the same way:
// so n requests in a queue do not cost n times what was done for those before them.

// chunk is how many segments of a goroutine are remembered together, wherever a walk begins and ends;
// half as many are worth to be remembered from where one began to where it ended.
const chunk = 64

// maxRemembered bounds the portions that are remembered, which take 16 bytes each, and each passage
// as much as overhead of them: with more all is forgotten, and remembered anew.
const maxRemembered, overhead = 1 << 20, 15

// maxOpen bounds the passages that are walked within each other to be remembered: each has sums of
// its own meanwhile.
const maxOpen = 64

// memory is what was walked.
type memory struct {
	of map[passage]*remembered
	n  int // portions, with overhead
}

// stay is what a goroutine did in [from, to], or in the chunk that begins with segment from if to is
// wholeChunk.
type stay struct {
	g        timeline.GID
	from, to timeline.Time
}

const wholeChunk timeline.Time = -1

// passage is a stay that is walked on a way.
type passage struct {
	stay
	way     uint32 // the number of its hops
	flags   Flags
	library bool // see walker
}

// remembered is what walking a passage added to a walker.
type remembered struct {
	portions         []portion
	depth            int // below that at which it began
	outside, squares float64
	asked            asked
	peer             Stretch
	nested, wanted   timeline.Time
	queues           queueing
}

// again reports whether what g did may be remembered: nothing in it is only the request's own, and
// nobody asks for the way.
func (w *walker) again(at *where, g timeline.GID) bool {
	return w.a.t.Gs[g].Len() >= chunk && at.depth > 1 && !at.own && w.way == nil && len(w.waiters) == 0 && w.open < maxOpen
}

// once does what attributes a stay, unless it was done before.
func (w *walker) once(at *where, s stay, do func()) {
	m := &w.a.memory
	p := passage{s, w.a.numbers.wayOf(&at.hops), at.flags, w.library}
	if r := m.of[p]; r != nil {
		w.steps += 1 + len(r.portions)/16
		w.recall(r, at.depth)
		return
	}
	outer := *w
	mine := &tally{}
	if n := len(w.spare); n > 0 {
		mine, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	w.acc, w.depth, w.outside, w.squares, w.peer = mine, at.depth, 0, 0, Stretch{}
	w.nested, w.wanted, w.queues, w.personal = 0, 0, nil, false
	w.open++
	do()
	w.open--
	w.spare = append(w.spare, mine)
	r := &remembered{mine.take(nil), w.depth - at.depth, w.outside, w.squares, w.asked, w.peer, w.nested, w.wanted, w.queues}
	w.acc, w.depth, w.outside, w.squares, w.peer = outer.acc, outer.depth, outer.outside, outer.squares, outer.peer
	w.nested, w.wanted, w.queues = outer.nested, outer.wanted, outer.queues
	if !w.personal && w.steps <= maxSteps {
		size := len(r.portions) + overhead
		if m.n += size; m.of == nil || m.n > maxRemembered {
			m.of, m.n = map[passage]*remembered{}, size
		}
		m.of[p] = r
	}
	w.personal = w.personal || outer.personal
	w.recall(r, at.depth)
}

// recall adds what walking a passage at a depth did.
func (w *walker) recall(r *remembered, depth int) {
	for _, p := range r.portions {
		w.acc.add(p.number, p.ns)
	}
	w.depth = max(w.depth, depth+r.depth)
	w.outside, w.squares, w.asked = w.outside+r.outside, w.squares+r.squares, r.asked
	if r.peer.Length() > w.peer.Length() {
		w.peer = r.peer
	}
	w.nested, w.wanted = w.nested+r.nested, w.wanted+r.wanted
	for _, q := range r.queues {
		w.queues = w.queues.add(q)
	}
}
