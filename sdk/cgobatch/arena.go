package cgobatch

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Arena is room for the items of one call and for what they refer to. It is a handle, two words to be copied freely,
// for one goroutine at a time.
//
// After Release a handle is stale, whoever has the arena then: it can neither read nor add anything (Len is 0, Pointer is nil,
// so C does nothing), and Metrics counts the attempts. Built with -tags cgobatchdebug it panics instead, with
// the stacks of the use and of the release, and memory that was written after Release is found
// by the next Get. Slices and addresses that were got before are not guarded otherwise.
type Arena[T any] struct {
	_          [0]*T // arenas of other items are other types
	slab       *slab
	generation uint64
}

// slab is an arena, whoever has it.
type slab struct {
	generation atomic.Uint64  // how often it was released; handles of others are stale
	items      unsafe.Pointer // the first of pool.options.Items
	n, max     int            // items in use, and those there is room for
	bytes      []byte         // all there is room for
	used       int            // of bytes
	pinned     int            // buffers
	memory     *memory        // nil: not yet allocated
	pool       *pool
	index      int // in pool.slabs
	ledger     ledger
	_          [line]byte // what others write is in another cache line
}

// memory is that of an arena. Nothing in it points back to the arena, so its finalizer runs.
type memory struct {
	all  []byte         // items, then bytes
	self runtime.Pinner // pins all
	pins runtime.Pinner // pins buffers
}

// allocate makes the memory of s.
func (s *slab) allocate() {
	raw := make([]byte, s.pool.size+line)
	skip := int(-address(raw) & (line - 1))
	m := &memory{all: raw[skip:][:s.pool.size:s.pool.size]}
	m.self.Pin(unsafe.SliceData(raw))
	// A Pinner that is lost with something pinned ends the process.
	runtime.SetFinalizer(m, func(m *memory) {
		m.pins.Unpin()
		m.self.Unpin()
	})
	s.items, s.max = unsafe.Pointer(unsafe.SliceData(m.all)), s.pool.options.Items
	s.bytes = m.all[len(m.all)-s.pool.options.Bytes:]
	s.memory = m
	s.pool.bytes.Add(int64(len(raw)))
}

// live returns whether the handles of a generation may use s.
func (s *slab) live(generation uint64) bool {
	return s != nil && s.generation.Load() == generation
}

// stale counts a use after Release, and panics in the debug build.
//
//go:noinline
func (s *slab) stale(use string, generation uint64) {
	if s == nil {
		misuse(use + " of an Arena that no Get returned")
		return
	}
	s.pool.stale.Add(1)
	s.ledger.accuse(use, generation)
}

// Append adds an item; false: there is no room.
func (a Arena[T]) Append(item T) bool {
	s := a.slab
	if !s.live(a.generation) || s.n >= s.max {
		return s.cannot(a.generation)
	}
	*(*T)(unsafe.Add(s.items, uintptr(s.n)*unsafe.Sizeof(item))) = item
	s.n++
	return true
}

// cannot is the rest of Append, apart so that Append can be inlined.
//
//go:noinline
func (s *slab) cannot(generation uint64) bool {
	if !s.live(generation) {
		s.stale("Append", generation)
	}
	return false
}

// Add adds n items that are zero, fewer if there is no room, and returns them to be filled in. They are valid until
// Reset or Release. Many items at once cost less than many calls of Append.
func (a Arena[T]) Add(n int) []T {
	s := a.slab
	if !s.live(a.generation) {
		s.stale("Add", a.generation)
		return nil
	}
	n = max(0, min(n, s.max-s.n))
	added := unsafe.Slice((*T)(s.items), s.max)[s.n:][:n:n]
	clear(added)
	s.n += n
	return added
}

// Room returns n bytes of the arena and their address, aligned to 16: for C to write into. What is in them is left
// over from earlier. They are valid until Reset or Release.
func (a Arena[T]) Room(n int) ([]byte, uintptr, error) { return a.slab.room(a.generation, n) }

func (s *slab) room(generation uint64, n int) ([]byte, uintptr, error) {
	if !s.live(generation) {
		s.stale("Room or Copy", generation)
		return nil, 0, ErrReleased
	}
	if uint(n) > uint(len(s.bytes)-s.used) {
		if uint(n) > uint(len(s.bytes)) {
			return nil, 0, ErrTooLarge
		}
		return nil, 0, ErrFull
	}
	b := s.bytes[s.used:][:n:n]
	s.used = min(roundUp(s.used+n, align), len(s.bytes))
	return b, address(b), nil
}

// Copy copies b into the arena and returns its address there, valid until Reset or Release.
func (a Arena[T]) Copy(b []byte) (uintptr, error) {
	room, at, err := a.slab.room(a.generation, len(b))
	copy(room, b)
	return at, err
}

// Pin pins b where it is and returns its address, valid until Reset or Release. Until then C may read and write b, and
// Go must not write what C uses.
func (a Arena[T]) Pin(b []byte) (uintptr, error) { return a.slab.pin(a.generation, b) }

func (s *slab) pin(generation uint64, b []byte) (uintptr, error) {
	if !s.live(generation) {
		s.stale("Pin", generation)
		return 0, ErrReleased
	}
	if s.pinned >= s.pool.options.MaxPins {
		return 0, ErrFull
	}
	s.pinned++
	s.memory.pins.Pin(unsafe.SliceData(b))
	return address(b), nil
}

// Put copies b, or pins it if that costs less (Options.PinFrom) or there is no room for a copy. Its address is
// valid until Reset or Release, and C must not write there.
func (a Arena[T]) Put(b []byte) (uintptr, error) { return a.slab.put(a.generation, b) }

func (s *slab) put(generation uint64, b []byte) (uintptr, error) {
	if !s.live(generation) {
		s.stale("Put", generation)
		return 0, ErrReleased
	}
	if len(b) < s.pool.options.PinFrom {
		if room, at, err := s.room(generation, len(b)); err == nil {
			copy(room, b)
			return at, nil
		}
	}
	return s.pin(generation, b)
}

// Len returns how many items were added.
func (a Arena[T]) Len() int {
	if !a.slab.live(a.generation) {
		a.slab.stale("Len", a.generation)
		return 0
	}
	return a.slab.n
}

// Pointer returns the address of the first item, what C is given; aligned to 64.
func (a Arena[T]) Pointer() unsafe.Pointer {
	if !a.slab.live(a.generation) {
		a.slab.stale("Pointer", a.generation)
		return nil
	}
	return a.slab.items
}

// Items returns the items that were added, as C left them; valid until Reset or Release.
func (a Arena[T]) Items() []T {
	if !a.slab.live(a.generation) {
		a.slab.stale("Items", a.generation)
		return nil
	}
	return unsafe.Slice((*T)(a.slab.items), a.slab.max)[:a.slab.n:a.slab.n]
}

// Reset empties the arena for another call, without giving it back; nothing is pinned any longer.
func (a Arena[T]) Reset() {
	if !a.slab.live(a.generation) {
		a.slab.stale("Reset", a.generation)
		return
	}
	a.slab.reset()
}

func (s *slab) reset() {
	s.n, s.used = 0, 0
	if s.pinned > 0 {
		s.memory.pins.Unpin()
		s.pool.pins.Add(int64(s.pinned))
		s.pinned = 0
	}
}

// Release gives the arena back, with nothing pinned any longer: C must have forgotten the addresses. Every handle of it
// is stale then; a second Release does nothing else than to be counted.
func (a Arena[T]) Release() { a.slab.release(a.generation) }

func (s *slab) release(generation uint64) {
	if s == nil || !s.generation.CompareAndSwap(generation, generation+1) {
		s.stale("Release", generation)
		return
	}
	s.reset()
	s.ledger.release(s.memory, generation)
	p := s.pool
	p.give(s.index)
	if p.waiting.Load() > 0 {
		p.mu.Lock()
		p.serve()
		p.mu.Unlock()
	}
}
