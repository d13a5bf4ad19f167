package timeline

// slab holds the slices of goroutines one behind the other in large chunks, without slack: a
// service that starts a goroutine for everything would otherwise spend most of its memory on
// slices that outgrew each other, and on their headers.
type slab[T any] struct {
	chunks [][]T
	open   int // the chunk that is being filled
}

// run is where in a slab a slice lies: its chunk and where in it, and its length.
type run struct{ at, n uint32 }

// slabBits is the logarithm of the number of elements of a chunk.
const slabBits = 13

// add copies xs.
func (s *slab[T]) add(xs []T) run {
	const most = 1 << slabBits
	n := uint32(len(xs))
	if n == 0 {
		return run{}
	}
	if n > most/8 { // large enough to stand alone
		s.chunks = append(s.chunks, append(make([]T, 0, n), xs...))
		return run{uint32(len(s.chunks)-1) << slabBits, n}
	}
	if len(s.chunks) == 0 || len(s.chunks[s.open])+len(xs) > most {
		s.open = len(s.chunks)
		s.chunks = append(s.chunks, make([]T, 0, most))
	}
	c := &s.chunks[s.open]
	at := uint32(s.open)<<slabBits + uint32(len(*c))
	*c = append(*c, xs...)
	return run{at, n}
}

// of returns the slice of a run.
func (s *slab[T]) of(r run) []T {
	if r.n == 0 {
		return nil
	}
	at := r.at & (1<<slabBits - 1)
	return s.chunks[r.at>>slabBits][at : at+r.n : at+r.n]
}
