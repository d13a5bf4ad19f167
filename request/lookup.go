package request

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/timeline"
)

// carriedPart is a part of Requests[request].
type carriedPart struct {
	start, end timeline.Time
	request    int32
}

// Home reports whether s, a segment of g, is a wait for g's next piece of work:
// a wait at the blocking stack to which goroutines of g's role return. Time of
// a goroutine at home is nobody's lateness. Goroutines born for one job have no
// home. Nor is a goroutine at home while others wait for what it does next: the
// timer of a batcher with somebody in the batch, and the reads of an outgoing
// connection, are part of the work.
func (f *Found) Home(g timeline.GID, s timeline.Segment) bool {
	if !f.Returns(g, s) {
		return false
	}
	_, busy := slices.BinarySearch(f.busy[f.firstBusy[g]:f.firstBusy[g+1]], s.Start)
	return !busy
}

// Answering reports whether a goroutine is of those who write the answers to what one other reads each,
// where several such pairs share their workers: what it writes to is a client's connection.
func (f *Found) Answering(g timeline.GID) bool { return f.answering[g] }

// Returns reports whether s, a segment of g, is a wait at the blocking stack to which goroutines of
// g's role return, whether others wait for what it does next or not.
func (f *Found) Returns(g timeline.GID, s timeline.Segment) bool {
	return s.Kind == timeline.Waiting && g >= 0 && int(g) < len(f.home) && f.home[g] != 0 &&
		int(s.Stack) < len(f.keys) && f.keys[s.Stack] == f.home[g]
}

// RequestAt returns the index of the request whose part on g contains the
// instant at, or -1. Of several (a writer that answers a batch) it returns the
// one that came last.
func (f *Found) RequestAt(g timeline.GID, at timeline.Time) int {
	if g < 0 || int(g)+1 >= len(f.first) {
		return -1
	}
	ps := f.parts[f.first[g]:f.first[g+1]]
	i, j := 0, len(ps)
	for i < j {
		if h := (i + j) / 2; ps[h].start > at {
			j = h
		} else {
			i = h + 1
		}
	}
	return f.last(ps[:i], at)
}

// Forward is [Found.RequestAt] for instants that come in order of time for each goroutine.
type Forward struct {
	f    *Found
	next []int32 // by goroutine: its first part that begins later
}

// Forward returns a Forward that begins with the trace. One goroutine may use it.
func (f *Found) Forward() *Forward {
	return &Forward{f, append([]int32(nil), f.first...)}
}

// RequestAt is [Found.RequestAt].
func (w *Forward) RequestAt(g timeline.GID, at timeline.Time) int {
	f := w.f
	if g < 0 || int(g)+1 >= len(f.first) {
		return -1
	}
	i := w.next[g]
	for i < f.first[g+1] && f.parts[i].start <= at {
		i++
	}
	w.next[g] = i
	return f.last(f.parts[f.first[g]:i], at)
}

// last returns the request of the last of parts that did not end before an instant, or -1.
func (f *Found) last(parts []carriedPart, at timeline.Time) int {
	for i, n := len(parts)-1, 0; i >= 0 && n < maxBatch; i, n = i-1, n+1 {
		if at <= parts[i].end {
			return int(parts[i].request)
		}
	}
	return -1
}

// maxBatch bounds how many parts of one goroutine may overlap; a writer's batch
// of more is attributed to nobody.
const maxBatch = 64

// Entry reports whether g carries requests of some role.
func (f *Found) Entry(g timeline.GID) bool {
	return g >= 0 && int(g) < len(f.carried) && f.carried[g]
}

// index prepares RequestAt and Entry.
func (f *Found) index() {
	n := len(f.t.Gs)
	f.first = make([]int32, n+1)
	if len(f.carried) != n {
		f.carried = make([]bool, n)
	}
	for i := range f.Requests {
		for _, p := range f.Requests[i].Parts {
			f.first[p.G+1]++
			f.carried[p.G] = true
		}
	}
	for g := range n {
		f.first[g+1] += f.first[g]
	}
	f.parts = make([]carriedPart, f.first[n])
	next := append([]int32(nil), f.first[:n]...)
	for i := range f.Requests {
		for _, p := range f.Requests[i].Parts {
			f.parts[next[p.G]] = carriedPart{p.Start, p.End, int32(i)}
			next[p.G]++
		}
	}
	for g := range n {
		ps := f.parts[f.first[g]:f.first[g+1]]
		slices.SortStableFunc(ps, func(a, b carriedPart) int { return cmp.Compare(a.start, b.start) })
	}
}
