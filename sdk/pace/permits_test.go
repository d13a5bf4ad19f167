package pace

import (
	"context"
	"slices"
	"testing"
)

// model is what permits has to do, written down naively.
type model struct {
	limit   int
	holders []*worker
	queue   []*worker
}

func (m *model) serve() {
	for len(m.queue) > 0 && len(m.holders) < m.limit {
		m.holders, m.queue = append(m.holders, m.queue[0]), m.queue[1:]
	}
}

func without(list []*worker, w *worker) []*worker {
	return slices.DeleteFunc(slices.Clone(list), func(v *worker) bool { return v == w })
}

// FuzzPermits does what the bytes say, an operation and a worker each, with permits and with the model. Who holds a permit and who
// waits, and in which order, has to be the same after each step.
func FuzzPermits(f *testing.F) {
	f.Add([]byte{0x00, 0x01, 0x02, 0x20, 0x10, 0x11, 0x40, 0x00})
	f.Add([]byte{0x50, 0x00, 0x01, 0x02, 0x03, 0x52, 0x20, 0x51, 0x21, 0x22})
	f.Add([]byte{0x00, 0x01, 0x30, 0x00, 0x11, 0x31, 0x01, 0x20})
	f.Add([]byte{0x00, 0x40, 0x01, 0x30, 0x41, 0x02, 0x20, 0x21, 0x22})
	f.Fuzz(func(t *testing.T, steps []byte) {
		p := &Pacer{}
		q := &p.permits
		q.set(1)
		m := model{limit: 1}
		workers := make([]*worker, 8)
		for i := range workers {
			workers[i] = newWorker(context.Background(), p)
			defer workers[i].cancel()
		}
		for n, step := range steps {
			w := workers[step%8]
			holds, waits := slices.Contains(m.holders, w), slices.Contains(m.queue, w)
			switch step >> 4 {
			case 0:
				if holds || waits {
					continue // a worker takes one when it has none
				}
				q.take(w)
				m.queue = append(m.queue, w)
			case 1:
				q.give(w)
				m.holders, m.queue = without(m.holders, w), without(m.queue, w)
			case 2:
				if waits {
					continue // only who runs comes to the end of a slice, be its permit lent meanwhile
				}
				drain(w)
				passed := q.pass(w)
				if want := len(m.queue) > 0 || len(m.holders) > m.limit; passed != want {
					t.Fatalf("step %d: passed %v, want %v", n, passed, want)
				}
				if passed {
					m.holders, m.queue = without(m.holders, w), append(m.queue, w)
				}
			case 3:
				runs := holds && len(w.grant) == 0
				if lent := q.lend(w); lent != runs {
					t.Fatalf("step %d: lent %v of one that holds %v and runs %v", n, lent, holds, runs)
				}
				if runs {
					m.holders = without(m.holders, w)
				}
			case 4:
				drain(w)
			case 5:
				m.limit = int(step % 8)
				q.set(m.limit)
			}
			m.serve()
			compare(t, n, q, &m, workers)
		}
	})
}

// drain is what a worker does that has got a permit.
func drain(w *worker) {
	select {
	case <-w.grant:
	default:
	}
}

func compare(t *testing.T, n int, q *permits, m *model, workers []*worker) {
	t.Helper()
	var queue []*worker
	for w := q.first; w != nil; w = w.next {
		queue = append(queue, w)
	}
	if !slices.Equal(queue, m.queue) || int(q.waiting.Load()) != len(queue) {
		t.Fatalf("step %d: the queue is %v (%d waiting), want %v", n, queue, q.waiting.Load(), m.queue)
	}
	if q.out != len(m.holders) || q.over.Load() != (q.out > q.limit) {
		t.Fatalf("step %d: %d permits are out (too many: %v), want %d of %d", n, q.out, q.over.Load(), len(m.holders), m.limit)
	}
	for i, w := range workers {
		if q.holds(w) != slices.Contains(m.holders, w) {
			t.Fatalf("step %d: worker %d holds a permit: %v", n, i, q.holds(w))
		}
		if len(w.grant) > 0 && !w.held {
			t.Fatalf("step %d: worker %d is told of a permit that it does not have", n, i)
		}
		if w.lent.Load() && (w.held || slices.Contains(m.queue, w)) {
			t.Fatalf("step %d: worker %d would give away what it has or will get", n, i)
		}
	}
}
