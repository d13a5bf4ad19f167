package blame

// pile collects things of which nobody knows how many there will be: a slice that grows to a
// million of them is copied, and leaves behind, five times what it is in the end.
type pile[T any] struct {
	full [][]T
	last []T
}

// firstOfPile and mostOfPile bound the parts that a pile is made of.
const firstOfPile, mostOfPile = 16, 8192

func (p *pile[T]) add(x T) {
	if n := len(p.last); n == cap(p.last) {
		if n > 0 {
			p.full = append(p.full, p.last)
		}
		p.last = make([]T, 0, max(firstOfPile, min(mostOfPile, 2*n)))
	}
	p.last = append(p.last, x)
}

// all returns what was collected, in order; nil if it is nothing.
func (p *pile[T]) all() []T {
	if len(p.full) == 0 {
		return p.last
	}
	n := len(p.last)
	for _, part := range p.full {
		n += len(part)
	}
	out := make([]T, 0, n)
	for _, part := range p.full {
		out = append(out, part...)
	}
	return append(out, p.last...)
}
