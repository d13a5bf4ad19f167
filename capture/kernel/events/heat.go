package events

import (
	"math/bits"
)

// HeatMap is how long something took, over time.
type HeatMap struct {
	// FromNS is when the first column begins, on CLOCK_MONOTONIC, StepNS how long each is.
	FromNS  int64       `json:"from_ns"`
	StepNS  int64       `json:"step_ns"`
	Columns []Histogram `json:"columns"`
}

// RunQueue is how long threads were ready to run before they had a CPU, by when they got
// it, in so many columns from one instant to another. Those that a quota kept from
// running are not in it. It is nil if nobody waited.
func (r *Recording) RunQueue(from, to int64, columns int) *HeatMap {
	if to <= from || columns < 1 {
		return nil
	}
	m := &HeatMap{FromNS: from, StepNS: (to-from-1)/int64(columns) + 1, Columns: make([]Histogram, columns)}
	some := false
	for i := range r.Stretches {
		s := &r.Stretches[i]
		at := s.In() - from
		if s.QueueNS == 0 || s.Flags&Throttled != 0 || at < 0 || s.In() >= to {
			continue
		}
		m.Columns[at/m.StepNS].Add(s.QueueNS)
		some = true
	}
	if !some {
		return nil
	}
	return m
}

// Add counts a time; 0 counts as 1 ns.
func (h *Histogram) Add(ns int64) {
	slot := bits.Len64(uint64(max(ns, 1))) - 1
	for len(*h) <= slot {
		*h = append(*h, 0)
	}
	(*h)[slot]++
}
