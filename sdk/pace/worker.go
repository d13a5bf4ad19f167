package pace

import (
	"context"
	"sync/atomic"
	"time"
)

// every is how many calls of Pace share a look at the clock at most, which takes 50 ns with all that is looked at then: it makes
// less than half a nanosecond of each.
const every = 128

// epoch is what times are counted from.
var epoch = time.Now()

func now() int64 { return int64(time.Since(epoch)) }

// workerKey finds the worker in contexts made from its own.
type workerKey struct{}

// worker is a function at work, and the context that it gets: Pace finds it there without a search.
type worker struct {
	context.Context
	cancel context.CancelFunc
	p      *Pacer

	// Of the worker's goroutine alone.
	left   int32 // calls of Pace until it looks at the clock
	share  int32 // calls between two looks, 1 to every
	looked int64 // when it looked last
	began  int64 // when it got its permit, or others were seen waiting for none
	parked int64 // when it last parked
	cpu    int64 // CPU time of the thread when it was last counted
	owed   int64 // ns that it has used and not rested for

	thread thread
	seen   atomic.Int64 // when it looked last, or will when it has rested; for the controller
	lent   atomic.Bool  // its permit was given to another
	held   bool         // it has a permit; of permits
	next   *worker      // in the queue; of permits
	grant  chan int64   // gets a permit, and when that was given
}

func newWorker(ctx context.Context, p *Pacer) *worker {
	w := &worker{p: p, share: 1, grant: make(chan int64, 1)}
	w.Context, w.cancel = context.WithCancel(ctx)
	return w
}

// Value finds the worker, and what the context has that it is made from.
func (w *worker) Value(key any) any {
	if key == (workerKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// begin gets a permit.
func (w *worker) begin() error {
	w.p.permits.take(w)
	return w.run()
}

// run waits for the permit that the worker is queued for, if it has none yet, and begins a slice.
func (w *worker) run() error {
	err := w.await()
	t := now()
	w.looked, w.began, w.parked = t, t, t
	w.left, w.share = 1, 1
	w.seen.Store(t)
	w.cpu = w.thread.cpu(t)
	return err
}

// await returns when the worker has a permit, or its context is cancelled.
func (w *worker) await() error {
	if err := w.Err(); err != nil {
		w.p.permits.give(w)
		return err
	}
	select {
	case granted := <-w.grant:
		if granted > 0 && now()-granted > w.p.lowLate.Load() {
			w.p.late.Add(1)
		}
		return nil
	case <-w.Done():
		w.p.permits.give(w)
		return w.Err()
	}
}

// giveUp gives the permit back.
func (w *worker) giveUp() {
	w.count(now())
	w.p.permits.give(w)
}

// count adds what was used since the last time. t is the time.
func (w *worker) count(t int64) (used int64) {
	w.look(t)
	cpu := w.thread.cpu(t)
	used = max(0, cpu-w.cpu)
	w.cpu = cpu
	w.owed += used
	w.p.busy.Add(used)
	return used
}

// look notes that the worker looks at the clock, and returns how long it did not. Where threads are not lowered nobody knows what it
// used: it has waited if that is long.
func (w *worker) look(t int64) (took int64) {
	took = t - w.looked
	w.looked = t
	if took > int64(overdue) && !w.thread.lowered() {
		w.cpu = t
	}
	return took
}

// check looks at the clock, and does what has to be done at that time.
func (w *worker) check() error {
	t := now()
	slice := w.p.slice.Load()
	// A share of calls shall take a tenth of a slice at most.
	switch took := w.look(t); {
	case took > slice/5:
		w.share = max(1, w.share/8)
	case took > slice/10:
		w.share = max(1, w.share/2)
	case w.share < every:
		w.share++
	}
	w.left = w.share
	w.seen.Store(t)
	select {
	case <-w.Done():
		w.giveUp()
		w.left = 1
		return w.Err()
	default:
	}
	if w.lent.Load() {
		w.count(t)
		return w.begin()
	}
	if nap := w.p.nap.Load(); nap > 0 && t-w.parked >= nap {
		w.p.steer.park()
		w.parked = now()
	}
	if t-w.began < slice {
		return nil
	}
	return w.turn(t)
}

// turn ends a slice: it rests, and hands the permit on if somebody waits.
func (w *worker) turn(t int64) error {
	w.p.adapt(w.count(t), t-w.began)
	w.rest()
	if w.p.permits.pass(w) {
		w.p.turns.Add(1)
		return w.run()
	}
	w.began = now()
	return nil
}

// adapt makes slices shorter when a thread had the CPU for less than half of one, as the foreground wanted it, and
// longer otherwise. A lowered thread that waits for a CPU has a P, and what stops the world waits for it. With 1 ms
// a busy foreground keeps nineteen twentieths of its throughput, with 10 ms four fifths; on CPUs that nobody else
// wants, a background with slices of 1 ms does a tenth less than with 10 ms.
func (p *Pacer) adapt(used, wall int64) {
	longest, slice := p.longest.Load(), p.slice.Load()
	if used < wall/2 {
		slice /= 2
	} else {
		slice += slice / 8
	}
	// Two that do so at once do it once.
	p.slice.Store(min(longest, max(slice, int64(contended))))
}

// rest sleeps for what was used and counted, as long as the allowance is what it is: it is asked again each period. The permit is kept
// meanwhile, or another would use what is left of it. In an idle process no sleep is shorter than a millisecond, so what is less is owed.
func (w *worker) rest() {
	for {
		rate := w.p.rest.Load()
		if rate == 0 {
			w.owed = 0
			return
		}
		debt := min(w.owed, int64(time.Hour)) * rate / 1024
		if debt < int64(time.Millisecond) {
			return
		}
		debt = min(debt, int64(period))
		start := now()
		w.seen.Store(start + debt) // it does not wait for something else
		if !w.sleep(time.Duration(debt)) {
			return
		}
		t := now()
		// To wake up late is to rest, too, but a laptop's night is not.
		w.owed -= min(t-start, 2*debt) * 1024 / rate
		w.looked, w.cpu = t, w.thread.cpu(t)
	}
}

// sleep reports whether it slept for so long, as the context was not cancelled.
func (w *worker) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.Done():
		return false
	}
}
