package timeline

import (
	"math/bits"
	"math/rand/v2"

	"github.com/whylate/whylate/gotrace"
)

// ids finds goroutines by the runtime's ids. A map would hold the ids again, which the goroutines
// themselves have, and take several times the memory.
type ids struct {
	slots []GID  // -1 are free; their number is a power of two
	by    uint64 // odd, and spreads; not known to who makes a trace
	n     int
}

// find returns the goroutine with an id; at says what id a goroutine has.
func (s *ids) find(id gotrace.GoID, at func(GID) gotrace.GoID) (g GID, ok bool) {
	if s.n == 0 {
		return NoG, false
	}
	g = s.slots[s.slot(id, at)]
	return g, g != NoG
}

// add notes the id of a goroutine that has none of those before.
func (s *ids) add(id gotrace.GoID, g GID, at func(GID) gotrace.GoID) {
	s.grow(at)
	s.slots[s.slot(id, at)] = g
	s.n++
}

// slot returns where id is, or would be.
func (s *ids) slot(id gotrace.GoID, at func(GID) gotrace.GoID) int {
	mask := len(s.slots) - 1
	i := int(uint64(id) * s.by >> (64 - bits.Len(uint(mask))))
	for s.slots[i] != NoG && at(s.slots[i]) != id {
		i = (i + 1) & mask
	}
	return i
}

// grow makes room for another goroutine: a third of the slots stays free.
func (s *ids) grow(at func(GID) gotrace.GoID) {
	if 3*(s.n+1) <= 2*len(s.slots) {
		return
	}
	was := s.slots
	for !spreads(s.by) {
		s.by = rand.Uint64() | 1
	}
	s.slots = make([]GID, max(64, 2*len(was)))
	for i := range s.slots {
		s.slots[i] = NoG
	}
	for _, g := range was {
		if g != NoG {
			s.slots[s.slot(at(g), at)] = g
		}
	}
}

// spreads reports whether products of numbers that follow each other with by are apart. They are
// unless by, as a part of 1<<64, is close to a fraction with a small denominator: the products
// would pile up at as many places. The quotients of Euclid's algorithm say how close it ever is,
// up to denominators of 1<<32; about one odd number in five is never too close.
func spreads(by uint64) bool {
	for a, b := ^uint64(0), by; b > 1<<32; a, b = b, a%b {
		if a/b > 16 {
			return false
		}
	}
	return by > 1<<32
}
