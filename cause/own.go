package cause

import (
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/timeline"
)

// OwnCPU returns the mean time that requests of the tail and typical ones ran in
// their own code, in nanoseconds.
func (c *Case) OwnCPU() (tail, typical float64) { return c.ownCPU(c.Tail), c.ownCPU(c.Typical) }

func (c *Case) ownCPU(requests []int) float64 {
	var ns float64
	for _, r := range requests {
		for _, p := range c.A.Requests[r].Pieces {
			if k := c.Key(p.Key); k.Kind == blame.CPU && k.Flags&blame.Self != 0 {
				ns += float64(p.NS)
			}
		}
	}
	return ns / float64(max(1, len(requests)))
}

// HottestOfTail returns where the tail requests burn their CPU time and the part
// of their CPU samples there; without samples, where most of it ended.
func (c *Case) HottestOfTail() (*Place, float64) {
	type part struct{ from, to timeline.Time }
	spans := map[timeline.GID][]part{}
	for _, i := range c.Tail {
		for _, p := range c.A.Found().Requests[c.A.Requests[i].Request].Parts {
			spans[p.G] = append(spans[p.G], part{p.Start, p.End})
		}
	}
	for _, s := range spans {
		sort.Slice(s, func(i, j int) bool { return s[i].from < s[j].from })
	}
	return c.hottest(func(s timeline.Sample) bool {
		ps := spans[s.G]
		i := sort.Search(len(ps), func(i int) bool { return ps[i].to >= s.Time })
		return i < len(ps) && ps[i].from <= s.Time
	})
}

// LateWakeup returns how late threads ran what was ready although a P was idle:
// the 99th percentile, over tenths of a second, of the longest such wait, in
// nanoseconds. It is small where the operating system gives threads a CPU.
func (c *Case) LateWakeup() float64 { return c.A.LateWakeup() }

// Silent returns the part of the tail's time over the typical requests' that lies
// in silences of the whole process.
func (c *Case) Silent() float64 {
	t := c.A.Timeline()
	if len(t.Silences) == 0 || len(c.Tail) == 0 || c.Excess <= 0 {
		return 0
	}
	var in timeline.Time
	for _, i := range c.Tail {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		in += timeline.Overlap(t.Silences, r.Start(), r.End())
	}
	return float64(in) / float64(len(c.Tail)) / c.Excess
}
