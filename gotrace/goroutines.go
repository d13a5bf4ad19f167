package gotrace

import (
	"math/bits"

	"github.com/whylate/whylate/internal/spread"
)

// goroutine is one that exists.
type goroutine struct {
	id GoID
	// seq is the number of its last event that has one, in generation gen.
	seq    uint64
	gen    uint32
	status uint8
	slot   int32 // of Event.Slot
	// assist and stops say that it is in a mark assist and has stopped the world.
	assist, stops bool
	// on is the thread it is bound to: it runs there, or is in a system call.
	on *thread
}

// goroutines is a hash table with open addressing: finding a goroutine is most of what an
// event costs. Ids come from the trace, so the multiplier is a secret of this process.
type goroutines struct {
	slots []slot
	n     int
	shift uint
	by    uint64
	free  []*goroutine
	made  int32 // those that exist, and those that are free
}

type slot struct {
	id GoID
	g  *goroutine
}

func newGoroutines() goroutines {
	t := goroutines{by: spread.Multiplier()}
	t.make(256)
	return t
}

func (t *goroutines) make(n int) {
	t.slots = make([]slot, n)
	t.shift = uint(64 - bits.TrailingZeros(uint(n)))
}

func (t *goroutines) home(id GoID) int { return int(uint64(id) * t.by >> t.shift) }

// get returns the goroutine of number id, or nil.
func (t *goroutines) get(id GoID) *goroutine {
	for i := t.home(id); ; i = (i + 1) & (len(t.slots) - 1) {
		s := &t.slots[i]
		if s.g == nil || s.id == id {
			return s.g
		}
	}
}

// add makes a goroutine of number id; there must be none.
func (t *goroutines) add(id GoID) *goroutine {
	if 2*(t.n+1) > len(t.slots) {
		old := t.slots
		t.make(2 * len(old))
		for _, s := range old {
			if s.g != nil {
				t.put(s)
			}
		}
	}
	if len(t.free) == 0 {
		some := make([]goroutine, min(max(t.n, 8), 1024))
		for i := range some {
			t.made++
			some[i].slot = t.made
			t.free = append(t.free, &some[i])
		}
	}
	g := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	*g = goroutine{id: id, slot: g.slot}
	t.put(slot{id, g})
	t.n++
	return g
}

func (t *goroutines) put(s slot) {
	i := t.home(s.id)
	for t.slots[i].g != nil {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = s
}

// remove forgets g. Those behind it that could not have their own slot move up.
func (t *goroutines) remove(g *goroutine) {
	mask := len(t.slots) - 1
	i := t.home(g.id)
	for t.slots[i].g != g {
		if t.slots[i].g == nil {
			return
		}
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.slots[j].g != nil; j = (j + 1) & mask {
		if h := t.home(t.slots[j].id); (j-h)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot{}
	t.free = append(t.free, g)
	t.n--
}
