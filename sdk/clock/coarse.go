// Package clock tells what reading the time costs in this process and why ([Check], [Watch]),
// whether a cheaper clock would pay in a program ([Pays]), and has two: [Coarse], that of
// the kernel's last tick, and [Cached]. Nothing runs before it is asked for.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// resync is how often the wall clock is looked at, for somebody may have set it.
const resync = int64(time.Second)

// step is how much the wall clock has to have moved against the monotonic one to have
// been set: much more than two reads one after the other are apart, in a process that
// was not interrupted between them, much less than anybody would notice.
const step = 10 * time.Microsecond

// origin ties the kernel's coarse clock to package time. It is never changed.
type origin struct {
	// at is what the monotonic clock said in nanoseconds when time.Now said time. The
	// monotonic part of time minus at is the same in each origin of a process.
	at   int64
	time time.Time
}

// tick is one value of the coarse clock. It is never changed.
type tick struct {
	sec    int64 // what it said
	nsec   int64
	time   time.Time
	origin origin
	due    int64 // when the wall clock has to be looked at again, on the coarse clock
}

var (
	latest atomic.Pointer[tick] // nil before the first use, and where there is no such clock
	start  sync.Once
)

// Coarse returns the time of the kernel's last tick: what time.Now would have returned at
// most two ticks ago (a tick is [Resolution], 1 to 10 ms), at about an eighth of its cost.
// It needs no goroutine and no timer: the kernel writes the clock, whatever the
// scheduler of Go does meanwhile.
//
// The time has a monotonic part, so differences of two of them, or of one and one of
// time.Now, are not disturbed by a clock that is set; it is never later than time.Now and
// never goes backward. The wall part follows a clock that is set within a second. A
// coarse time is no stamp to measure with: what takes less than a tick takes 0 or a tick.
//
// Where the platform has no such clock (see [CoarseSupported]) it is time.Now; in a bubble of testing/synctest it is the real time. Any number
// of goroutines may call it at once. It allocates 80 bytes per tick, for
// each of the goroutines that see the tick first.
func Coarse() time.Time {
	t := latest.Load()
	if t == nil {
		return first()
	}
	if sec, nsec := readCoarse(); nsec != t.nsec || sec != t.sec {
		return t.next(sec, nsec)
	}
	return t.time
}

// CoarseSupported reports whether Coarse reads the kernel's coarse clock here, without a system
// call. It does on linux/amd64 with a vDSO. On arm64 the kernel's code may use the register in
// which Go keeps the running goroutine, and a signal handler would find something else there.
func CoarseSupported() bool {
	return callable() != 0
}

// Resolution returns how far apart the ticks of the coarse clock are as the kernel says, 0 where
// Coarse is time.Now.
func Resolution() time.Duration {
	if !CoarseSupported() {
		return 0
	}
	return resolution()
}

func first() time.Time {
	if callable() == 0 {
		return time.Now()
	}
	sec, nsec := readCoarse()
	return latest.Load().next(sec, nsec)
}

// callable returns the kernel's function that Coarse calls, 0 if it calls time.Now.
func callable() uintptr {
	start.Do(func() {
		if coarse = find(); coarse != 0 {
			t := &tick{}
			t.origin.at, t.origin.time = anchor(func() int64 { return readClock(coarse, monotonic) })
			t.due = t.origin.at + resync
			latest.Store(t)
		}
	})
	return coarse
}

// next makes what was read the tick of the reads to come, and returns its time. Of several
// callers any may be the last one: all of them compare what they read with the tick they find.
func (t *tick) next(sec, nsec int64) time.Time {
	ns := sec*1e9 + nsec
	n := &tick{sec: sec, nsec: nsec, origin: t.origin, due: t.due}
	n.time = n.origin.time.Add(time.Duration(ns - n.origin.at))
	if ns >= t.due {
		n.due = ns + resync
		if exact, moved := reset(n.time, time.Now); moved <= -step || moved >= step {
			// The monotonic clock went on as much as time.Now did since the old origin.
			n.origin = origin{at: t.origin.at + int64(exact.Sub(t.origin.time)), time: exact}
			n.time = n.origin.time.Add(time.Duration(ns - n.origin.at))
		}
	}
	latest.Store(n)
	return n.time
}

// reset returns the time, and how far the wall clock is from where it was at the time at, plus
// what has passed since. What now reads are two clocks: who was interrupted between them is
// told something else, and asks again.
func reset(at time.Time, now func() time.Time) (exact time.Time, moved time.Duration) {
	for i := 0; i < 5; i++ {
		t := now()
		m := t.Round(0).Sub(at.Round(0)) - t.Sub(at)
		if i == 0 || m.Abs() < moved.Abs() {
			exact, moved = t, m
		}
	}
	return exact, moved
}

// anchor returns the time, and what the monotonic clock said then. It was rather a
// little later: the coarse clock must not be ahead of time.Now.
func anchor(read func() int64) (at int64, t time.Time) {
	best := int64(-1)
	for i := 0; i < 20; i++ {
		before := read()
		now := time.Now()
		after := read()
		if best < 0 || after-before < best {
			best, at, t = after-before, after, now
		}
	}
	return at, t
}
