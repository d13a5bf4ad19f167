package pace

import (
	"sync"
	"sync/atomic"
)

// permits bounds how many workers run at once. Those without wait in the order in which they came.
//
// Whoever holds a permit is held in the worker, under the lock. A permit that is lent has no holder: it was taken from one
// who waits for something else, and who queues for another when it is back.
type permits struct {
	mu          sync.Mutex
	limit       int
	out         int // permits that are held
	first, last *worker
	waiting     atomic.Int32
	over        atomic.Bool // more are out than the limit is
}

// take queues a worker, or gives it a permit at once: either comes through its channel.
func (q *permits) take(w *worker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.lent.Store(false)
	q.release(w)
	q.push(w)
	q.serve()
}

// give takes a worker's permit back, or takes it out of the queue. It does nothing for a worker that has neither.
func (q *permits) give(w *worker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.lent.Store(false)
	q.remove(w)
	q.release(w)
	select {
	case <-w.grant:
	default:
	}
	q.serve()
}

// pass hands a worker's permit to who has waited longest, and queues the worker; it reports whether it did: if nobody
// waits the worker keeps its permit.
func (q *permits) pass(w *worker) bool {
	if q.waiting.Load() == 0 && !q.over.Load() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first == nil && q.out <= q.limit {
		return false
	}
	w.lent.Store(false)
	q.release(w)
	q.push(w)
	q.serve()
	return true
}

// lend takes the permit of a worker that waits for something else, and reports whether it had one. Who has got one and
// did not run since waits for a CPU.
func (q *permits) lend(w *worker) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.held || len(w.grant) > 0 {
		return false
	}
	w.lent.Store(true)
	q.release(w)
	q.serve()
	return true
}

// holds reports whether a worker has a permit.
func (q *permits) holds(w *worker) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.held
}

// set changes how many there are. Those that are too many are taken at the end of their slices.
func (q *permits) set(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = limit
	q.serve()
}

// The rest is called with the lock held.

func (q *permits) release(w *worker) {
	if w.held {
		w.held = false
		q.out--
	}
}

func (q *permits) serve() {
	for q.first != nil && q.out < q.limit {
		w := q.first
		q.remove(w)
		w.held = true
		q.out++
		t := now()
		w.seen.Store(t)
		w.grant <- t // it is empty: who has something in it is not queued
	}
	q.over.Store(q.out > q.limit)
}

func (q *permits) push(w *worker) {
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.waiting.Add(1)
}

func (q *permits) remove(w *worker) {
	var before *worker
	for v := q.first; v != nil; before, v = v, v.next {
		if v != w {
			continue
		}
		if before == nil {
			q.first = w.next
		} else {
			before.next = w.next
		}
		if q.last == w {
			q.last = before
		}
		w.next = nil
		q.waiting.Add(-1)
		return
	}
}
