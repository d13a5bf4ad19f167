package breaker

import (
	"math/bits"
	"sync/atomic"
)

// samples is how many calls per second are looked at when they begin or end: of whether they are in
// flight, and whether the window is over. They are so many observations as all; to look at each
// call would cost more than all else.
const samples = 128

// sampling returns the bits of a hash that are all 0 for about that many calls.
func sampling(rate float64) uint32 {
	return 1<<min(max(0, bits.Len(uint(rate/samples))-1), 16) - 1
}

// slots is how many calls in flight are known at a time, and recounts how often one counts
// as slow while it does not end.
const slots, recounts = 256, 3

// flight holds the calls in flight, as far as they are known. A call that hangs ends never, and
// is in no histogram.
type flight struct {
	next    atomic.Uint32
	start   [slots]atomic.Int64 // when the call in a slot began, plus 1; 0: none
	counted [slots]uint8
}

// enter notes a call that began now, and returns its slot plus 1, 0 if the slot was taken.
func (f *flight) enter(now int64) int {
	i := f.next.Add(1) % slots
	if !f.start[i].CompareAndSwap(0, now+1) {
		return 0
	}
	return int(i) + 1
}

func (f *flight) leave(slot int) { f.start[slot-1].Store(0) }

// clear forgets all calls. One of them that ends may make another one in its slot forgotten.
func (f *flight) clear() {
	for i := range f.start {
		f.start[i].Store(0)
		f.counted[i] = 0
	}
}

// older returns how many calls are older than age nanoseconds, a call again with each age that it grows
// older, up to recounts times. A call whose permit was lost is forgotten after that.
func (f *flight) older(now, age int64) (n int) {
	for i := range f.start {
		start := f.start[i].Load()
		if start == 0 {
			f.counted[i] = 0
			continue
		}
		times := (now - (start - 1)) / age
		switch {
		case times == 0:
			f.counted[i] = 0
		case int64(f.counted[i]) < min(times, recounts):
			f.counted[i]++
			n++
		case times > 100*recounts:
			f.start[i].CompareAndSwap(start, 0)
		}
	}
	return n
}
