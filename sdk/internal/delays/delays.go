// Package delays reads the runtime's histograms of durations: what came between two reads.
package delays

import (
	"math"
	"runtime/metrics"
	"slices"
	"time"
)

// Window is a histogram of what came between the last two reads. It is for one goroutine at a time.
type Window struct {
	sample []metrics.Sample
	before []uint64
	now    []uint64
	edges  []float64
}

// New reads a histogram of package runtime/metrics whose unit is seconds for the first time. It returns nil, which
// is an empty Window, if the runtime does not have it.
func New(name string) *Window {
	w := &Window{sample: []metrics.Sample{{Name: name}}}
	w.Read()
	if w.edges == nil {
		return nil
	}
	return w
}

// Read ends a window and begins the next.
func (w *Window) Read() {
	if w == nil {
		return
	}
	metrics.Read(w.sample)
	if w.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return
	}
	h := w.sample[0].Value.Float64Histogram()
	w.edges = h.Buckets
	w.before, w.now = w.now, append(w.before[:0], h.Counts...)
}

// Longer returns how many took so long or longer, to the precision of the buckets, and how many there were. The scheduler's
// latencies are those of one in eight goroutines (gTrackingPeriod in the runtime).
func (w *Window) Longer(than time.Duration) (longer, all uint64) {
	if w == nil || len(w.before) != len(w.now) {
		return 0, 0
	}
	// The edges are below the buckets: count i is of what is between i and i+1.
	first, _ := slices.BinarySearch(w.edges, than.Seconds())
	for i := range w.now {
		n := w.now[i] - w.before[i]
		all += n
		if i >= first {
			longer += n
		}
	}
	return longer, all
}

// Longest returns the upper edge of the last bucket that is not empty, 0 if all are.
func (w *Window) Longest() time.Duration {
	if w == nil || len(w.before) != len(w.now) {
		return 0
	}
	for i := len(w.now) - 1; i >= 0; i-- {
		if w.now[i] == w.before[i] {
			continue
		}
		edge := w.edges[i+1]
		if math.IsInf(edge, 1) {
			edge = w.edges[i]
		}
		return time.Duration(edge * float64(time.Second))
	}
	return 0
}
