package breaker

import (
	"runtime/metrics"
	"slices"
)

// scheduler tells how long goroutines of this process waited for a P after they could run, between
// two reads. It is blind to those that wait for the network while no P polls: their callers
// know more (Permit.DoneIn).
type scheduler struct {
	sample []metrics.Sample
	before []uint64
	now    []uint64
	edges  []float64
}

func newScheduler() *scheduler {
	s := &scheduler{sample: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	s.read()
	if s.edges == nil {
		return nil // a runtime without it
	}
	return s
}

func (s *scheduler) read() {
	metrics.Read(s.sample)
	if s.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return
	}
	h := s.sample[0].Value.Float64Histogram()
	s.edges = h.Buckets
	s.before, s.now = s.now, append(s.before[:0], h.Counts...)
}

// longer returns the part of those that had to wait longer than some nanoseconds.
func (s *scheduler) longer(ns int64) float64 {
	if len(s.before) != len(s.now) {
		return 0
	}
	// The edges are below the buckets: count i is of what is between i and i+1.
	first, _ := slices.BinarySearch(s.edges, float64(ns)/1e9)
	var all, late uint64
	for i := range s.now {
		n := s.now[i] - s.before[i]
		all += n
		if i >= first {
			late += n
		}
	}
	if all == 0 {
		return 0
	}
	return float64(late) / float64(all)
}
