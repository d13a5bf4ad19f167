package batch

import (
	"math"
	"time"
)

// A leader whose last batch had several items first lets run who is ready, for those whose calls have just
// ended may call again: without this, batches are of one item where there is one P, and smaller than they could
// be everywhere. To yield takes 0.1 µs where nobody is ready, but beside goroutines that compute it is 10 ms
// for each of them, in which nobody would be served. So:
//
//   - Each yield is timed. One that was dear is the last for some batches, twice as many each time.
//   - While it lasts, the next caller that comes leads instead (takesOver).
//   - Whether to yield is cheap again is tried by a caller whose own call is over and who does not lead: it
//     makes one call late, and no other.
const (
	// A batch of less than this is not worth a yield. What a batch takes is measured once in so many.
	worthYield = time.Microsecond
	sampled    = 64
	// A yield is dear above four times what a batch takes, but no less than this, and as much as each caller that
	// came meanwhile may have taken to be woken, to return and to call again.
	cheapYield = 50 * time.Microsecond
	perCaller  = time.Microsecond
	// For how many batches leaders do not yield after a dear one: with batches of 5 µs that is at most a third of
	// a second after others have stopped computing, and at most each 65,536th call is late while they do.
	patienceMin = 64
	patienceMax = 1 << 16
)

// turn is what a batcher knows about yields. Its mutex guards all of it.
type turn struct {
	gosched func()
	now     func() time.Time

	together bool          // the last batch had several items
	took     time.Duration // by the last batch that was measured
	resume   uint          // 0: yields are cheap. Else the batch after which it is tried whether they are again
	patience uint          // how many batches that is after the dear one
	yielding bool          // a leader does
	yield    uint          // the number of its yield
	start    time.Time     // of that
	before   uint64        // calls that had come then
}

// yields reports whether the next leader lets others run first.
func (b *Batcher[In, Out]) yields() bool {
	return b.together && b.took > worthYield && b.resume == 0
}

// calls is how many have come that were not refused.
func (b *Batcher[In, Out]) calls() uint64 {
	return b.stats.Items + b.stats.Cancelled + uint64(b.queued)
}

// isDear reports whether a yield that began at start, when so many calls had come, was or is.
func (b *Batcher[In, Out]) isDear(start time.Time, before uint64) bool {
	came := min(b.calls()-before, 1<<20)
	return b.now().Sub(start) > max(4*b.took, cheapYield)+time.Duration(came)*perCaller
}

// stopYields is what a dear yield has leaders do.
func (b *Batcher[In, Out]) stopYields() {
	b.patience = min(max(2*b.patience, patienceMin), patienceMax)
	b.resume = b.batches + b.patience
}

// letOthersRun yields, without the mutex, for the leader me. It is false if another call leads meanwhile.
func (b *Batcher[In, Out]) letOthersRun(me *waiter[In, Out]) bool {
	me.state = queued // if it leads no longer it waits, and may be taken out
	b.turn.yield++
	mine := b.turn.yield
	b.yielding, b.start, b.before = true, b.now(), b.calls()
	b.mu.Unlock()
	b.gosched()
	b.mu.Lock()
	if !b.yielding || b.turn.yield != mine {
		return false
	}
	b.yielding = false
	if b.isDear(b.start, b.before) {
		b.stopYields()
	} else if b.patience > 0 {
		b.patience--
	}
	return true
}

// takesOver makes the call that has just come the leader if the one that leads yields and that has become
// dear. The clock is read by few of those that come, but by the first.
func (b *Batcher[In, Out]) takesOver() bool {
	if !b.yielding || b.queued&(b.queued-1) != 0 || !b.isDear(b.start, b.before) {
		return false
	}
	b.yielding = false
	b.stopYields()
	return true
}

// isDue reports whether a call that is over is to try whether yields are cheap again.
func (b *Batcher[In, Out]) isDue() bool {
	if b.resume == 0 || b.batches < b.resume {
		return false
	}
	b.resume = math.MaxUint // for one of them
	return true
}

// probe yields as a leader would, for a call that is over.
func (b *Batcher[In, Out]) probe() {
	b.mu.Lock()
	start, before := b.now(), b.calls()
	b.mu.Unlock()
	b.gosched()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isDear(start, before) {
		b.stopYields()
	} else {
		b.resume = 0
	}
}
