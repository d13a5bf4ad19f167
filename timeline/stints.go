package timeline

import "sort"

// stints are those of a P, which follow each other without a gap: each begins where the one
// before it ends. They are most of what is known of a P, so they lie in chunks, which are not
// copied when there are more, and by field, which leaves no holes.
type stints struct {
	from   Time // where the first one begins
	n      int
	chunks []stintChunk
	spare  []stintChunk // empty, while stints are marked
}

type stintChunk struct {
	end  []Time
	g    []GID
	what []Activity
}

// stintBits is the logarithm of the number of stints of a chunk.
const stintBits = 12

// at returns stint i.
func (s *stints) at(i int) Stint {
	c, k := &s.chunks[i>>stintBits], i&(1<<stintBits-1)
	x := Stint{Start: s.from, End: c.end[k], G: c.g[k], What: c.what[k]}
	if k > 0 {
		x.Start = c.end[k-1]
	} else if i > 0 {
		x.Start = s.end(i - 1)
	}
	return x
}

// end returns the end of stint i.
func (s *stints) end(i int) Time { return s.chunks[i>>stintBits].end[i&(1<<stintBits-1)] }

// ending returns the first stint that ends after t.
func (s *stints) ending(t Time) int {
	return sort.Search(s.n, func(i int) bool { return s.end(i) > t })
}

// add puts a stint behind the others, which ends after the last one; one that does the same
// is that one, longer.
func (s *stints) add(end Time, g GID, what Activity) {
	if s.n > 0 {
		c := &s.chunks[len(s.chunks)-1]
		if k := len(c.end) - 1; c.g[k] == g && c.what[k] == what {
			c.end[k] = end
			return
		}
	}
	s.push(end, g, what)
}

// push is add for one that stands alone. Only the first chunk grows by and by: there may be many
// Ps that did little. Later ones are spare ones, if there are any.
func (s *stints) push(end Time, g GID, what Activity) {
	if n := 1 << stintBits; s.n&(n-1) == 0 {
		var c stintChunk
		if k := len(s.spare); k > 0 {
			c, s.spare = s.spare[k-1], s.spare[:k-1]
		} else if s.n > 0 {
			c = stintChunk{make([]Time, 0, n), make([]GID, 0, n), make([]Activity, 0, n)}
		}
		s.chunks = append(s.chunks, c)
	}
	c := &s.chunks[len(s.chunks)-1]
	c.end, c.g, c.what = append(c.end, end), append(c.g, g), append(c.what, what)
	s.n++
}

// mark gives the parts of stints that lie in spans, and that takes accepts,
// another activity, of nobody but where a worker suspends.
func (s *stints) mark(spans []Span, what Activity, takes func(Stint, *Span) bool) {
	if len(spans) == 0 {
		return
	}
	in := *s
	*s = stints{from: in.from, chunks: make([]stintChunk, 0, len(in.chunks))}
	i := 0
	for n := range in.n {
		x := in.at(n)
		for i < len(spans) && spans[i].End <= x.Start {
			i++
		}
		for j := i; j < len(spans) && spans[j].Start < x.End; j++ {
			if !takes(x, &spans[j]) {
				continue
			}
			a, e := max(spans[j].Start, x.Start), min(spans[j].End, x.End)
			if e <= a { // within the span before it: a damaged trace
				continue
			}
			if a > x.Start {
				s.push(a, x.G, x.What)
			}
			g := NoG
			if what == Suspending {
				g = x.G
			}
			s.push(e, g, what)
			x.Start = e
		}
		if x.End > x.Start {
			s.push(x.End, x.G, x.What)
		}
		// What has been read is written to again; its last end is the beginning of the next one.
		if k := n >> stintBits; k > 0 && n&(1<<stintBits-1) == 0 {
			c := in.chunks[k-1]
			s.spare = append(s.spare, stintChunk{c.end[:0], c.g[:0], c.what[:0]})
		}
	}
	s.spare = nil
}
