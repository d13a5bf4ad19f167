package timeline

// slab packs the slices of dead goroutines into large chunks and hands their
// grown slices to newborn ones: a service that starts a goroutine for everything
// would otherwise spend most of its memory on slices that outgrew each other.
type slab[T any] struct {
	chunk []T
	spare [][]T
}

// slabChunk is the number of elements of a chunk, maxSpare how many slices wait
// for a newborn goroutine.
const slabChunk, maxSpare = 8192, 1024

// pack returns a copy of xs without slack and takes xs back.
func (s *slab[T]) pack(xs []T) []T {
	if len(xs) == 0 {
		return nil
	}
	if len(xs) > slabChunk/8 { // large enough to stand alone
		return xs
	}
	if len(s.chunk)+len(xs) > cap(s.chunk) {
		s.chunk = make([]T, 0, slabChunk)
	}
	n := len(s.chunk)
	s.chunk = append(s.chunk, xs...)
	if len(s.spare) < maxSpare {
		s.spare = append(s.spare, xs[:0])
	}
	return s.chunk[n:len(s.chunk):len(s.chunk)]
}

// take returns an empty slice.
func (s *slab[T]) take() []T {
	n := len(s.spare)
	if n == 0 {
		return nil
	}
	xs := s.spare[n-1]
	s.spare = s.spare[:n-1]
	return xs
}
