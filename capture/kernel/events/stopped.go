package events

import (
	"cmp"
	"slices"
	"sort"
)

// Pause is a time, in nanoseconds on the trace's clock, in which a quota stopped the process.
type Pause struct {
	FromNS, ToNS int64
}

// Pauses returns when the process's quota was used up: one of its threads wanted a CPU and was stopped for that, and none had one. They
// are in order of time, and apart. The slice belongs to the Recording.
func (r *Recording) Pauses() []Pause { return r.pauses }

// PausesIn returns those of the pauses that end after an instant, and begin before another one.
func (r *Recording) PausesIn(from, to int64) []Pause {
	i := sort.Search(len(r.pauses), func(i int) bool { return r.pauses[i].ToNS > from })
	j := i + sort.Search(len(r.pauses)-i, func(j int) bool { return r.pauses[i+j].FromNS >= to })
	return r.pauses[i:j]
}

// findPauses finds the pauses; the load must be known.
func (r *Recording) findPauses() {
	var stopped []Pause
	for i := range r.Stretches {
		if s := &r.Stretches[i]; s.Flags&Throttled != 0 && s.QueueNS > 0 {
			stopped = append(stopped, Pause{s.In() - s.QueueNS, s.In()})
		}
	}
	slices.SortFunc(stopped, func(a, b Pause) int { return cmp.Compare(a.FromNS, b.FromNS) })
	r.pauses = nil
	until := int64(0)
	for _, p := range stopped {
		from := max(p.FromNS, until)
		until = max(until, p.ToNS)
		for i := sort.Search(len(r.load), func(i int) bool { return r.load[i].at > from }) - 1; from < p.ToNS; i++ {
			end := p.ToNS
			if i+1 < len(r.load) {
				end = min(end, r.load[i+1].at)
			}
			if end > from && (i < 0 || r.load[i].on == 0) {
				if n := len(r.pauses); n > 0 && r.pauses[n-1].ToNS == from {
					r.pauses[n-1].ToNS = end
				} else {
					r.pauses = append(r.pauses, Pause{from, end})
				}
			}
			from = max(from, end)
		}
	}
}
