package timeline

import (
	"math/bits"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/spread"
)

// ids finds goroutines by the runtime's ids. A map would hold the ids again, which the goroutines
// themselves have, and take several times the memory.
type ids struct {
	slots []GID  // -1 are free; their number is a power of two
	by    uint64 // see package spread
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
	if s.by == 0 {
		s.by = spread.Multiplier()
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
