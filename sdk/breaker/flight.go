package breaker

import (
	"sync/atomic"
	"time"
)

// lookEvery is how many nanoseconds after one call the next is looked at when it begins. To look at
// each would cost more than all else, and 128 a second are observations enough. By time rather than one
// in so many: then all are looked at when few are made, which is what hanging calls lead to.
const lookEvery = int64(time.Second / 128)

// slots is how many calls in flight are known at a time, and recounts how often one counts
// as slow while it does not end.
const slots, recounts = 256, 3

// flight holds the calls in flight, as far as they are known. A call that hangs ends never, and
// is in no histogram.
type flight struct {
	next    atomic.Uint32
	start   [slots]atomic.Int64 // when the call in a slot began, plus 1; 0: none
	aged    [slots]uint8        // times that it was counted as too old for the tail, and
	overdue [slots]uint8        // for the limit
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
		f.aged[i], f.overdue[i] = 0, 0
	}
}

// older returns how many calls are older than age nanoseconds, and how many than limit, 0 for one that is 0. A call
// counts again with each age that it grows older, up to recounts times. One whose permit was lost is
// forgotten long after that.
func (f *flight) older(now, age, limit int64) (aged, overdue int) {
	longest := max(age, limit)
	if longest == 0 {
		return 0, 0
	}
	for i := range f.start {
		start := f.start[i].Load()
		if start == 0 {
			f.aged[i], f.overdue[i] = 0, 0
			continue
		}
		old := now - (start - 1)
		aged += recount(&f.aged[i], old, age)
		overdue += recount(&f.overdue[i], old, limit)
		if old/longest > 100*recounts {
			f.start[i].CompareAndSwap(start, 0)
		}
	}
	return aged, overdue
}

// recount returns 1, and adds it to counted, if a call that is so old is to be counted once more.
func recount(counted *uint8, old, age int64) int {
	switch {
	case age == 0 || old < age:
		*counted = 0 // another call may have the slot now
	case int64(*counted) < min(old/age, recounts):
		*counted++
		return 1
	}
	return 0
}
