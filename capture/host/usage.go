package host

import (
	"math"
	"slices"
	"sort"
)

// Recording is what [Read] returns: a host.jsonl, its samples in order of time.
type Recording struct {
	Static  Static
	Samples []Sample
	// After is nil if the recording was cut.
	After *After
}

// confined tells whether the samples have the CPU times of the CPUs that the process may use.
func (r *Recording) confined() bool {
	return len(r.Samples) > 0 && r.Samples[0].Confined != nil && (r.After == nil || r.After.Allowed == 0)
}

// Allowed is how many CPUs the process may use, 0 if unknown.
func (r *Recording) Allowed() int {
	if r.After != nil && r.After.Allowed > 0 {
		return r.After.Allowed
	}
	return r.Static.Allowed
}

// Usage is what happened in some stretches of time, in nanoseconds or counts. It
// is interpolated between samples: right on average over many stretches, not in
// a single one shorter than the sampling period.
type Usage struct {
	// WallNS is the length of the stretches that lies within the recording.
	WallNS float64
	// RunNS and DelayNS are CPU time and waiting for a CPU, summed over threads.
	RunNS, DelayNS float64
	// BlockedNS is the time that threads were seen in uninterruptible sleep,
	// summed over threads.
	BlockedNS float64
	// UserNS and SystemNS are the process's CPU time in ticks.
	UserNS, SystemNS         float64
	MinorFaults, MajorFaults float64
	IODelayNS                float64
	// Groups are those of Static.Groups.
	Groups []GroupUsage
	// ChildrenNS is the CPU time of the process's descendants.
	ChildrenNS float64
	// PeersRunNS and PeersDelayNS are CPU time and waiting for a CPU of the threads of Peers, PeersNS the length
	// of the stretches in which these are known.
	PeersRunNS, PeersDelayNS, PeersNS float64
	// Of the CPUs that the process may use if Confined, else of the whole machine: CPU time
	// summed over CPUs. And the machine's pressure.
	Confined                          bool
	BusyNS, IdleNS, IOWaitNS, StealNS float64
	CPUSomeNS, IOSomeNS, MemorySomeNS float64
}

// GroupUsage is what a cgroup used; see GroupCounters.
type GroupUsage struct{ Periods, Throttled, ThrottledNS, UsageNS float64 }

// Span is a stretch of time on CLOCK_MONOTONIC, in nanoseconds.
type Span struct{ From, To int64 }

// Span is the time between the first and the last sample; zero without two samples.
func (r *Recording) Span() Span {
	if len(r.Samples) < 2 {
		return Span{}
	}
	return Span{r.Samples[0].MonoNS, r.Samples[len(r.Samples)-1].MonoNS}
}

// CPUNS is the time of all the CPUs: busy, idle and stolen, in nanoseconds.
func (u *Usage) CPUNS() float64 { return u.BusyNS + u.IdleNS + u.IOWaitNS + u.StealNS }

// Stolen is the part of the CPUs' time that the hypervisor took; 0 where nothing
// was recorded.
func (u *Usage) Stolen() float64 { return u.StealNS / max(1, u.CPUNS()) }

// Over returns the usage in spans, which must not overlap each other.
func (r *Recording) Over(spans []Span) Usage {
	u := Usage{Groups: make([]GroupUsage, len(r.Static.Groups)), Confined: r.confined()}
	for _, s := range spans {
		i := sort.Search(len(r.Samples), func(i int) bool { return r.Samples[i].MonoNS > s.From })
		for i = max(i, 1); i < len(r.Samples) && r.Samples[i-1].MonoNS < s.To; i++ {
			a, b := &r.Samples[i-1], &r.Samples[i]
			from, to := max(s.From, a.MonoNS), min(s.To, b.MonoNS)
			if to <= from || b.MonoNS <= a.MonoNS {
				continue
			}
			u.asPeers(r, i, from, to)
			u.add(a, b, float64(to-from)/float64(b.MonoNS-a.MonoNS))
			u.WallNS += float64(to - from)
		}
		u.throttled(r, s)
	}
	return u
}

// add adds a fraction f of what happened between two consecutive samples.
func (u *Usage) add(a, b *Sample, f float64) {
	inc := func(sum *float64, x, y int64) {
		if y > x { // counters only grow
			*sum += f * float64(y-x)
		}
	}
	inc(&u.RunNS, a.RunNS, b.RunNS)
	inc(&u.DelayNS, a.DelayNS, b.DelayNS)
	u.BlockedNS += f * float64(b.MonoNS-a.MonoNS) * float64(len(a.Blocked)+len(b.Blocked)) / 2
	inc(&u.UserNS, a.UserNS, b.UserNS)
	inc(&u.SystemNS, a.SystemNS, b.SystemNS)
	inc(&u.MinorFaults, a.MinorFaults, b.MinorFaults)
	inc(&u.MajorFaults, a.MajorFaults, b.MajorFaults)
	inc(&u.IODelayNS, a.IODelayNS, b.IODelayNS)
	for i := range u.Groups {
		if i < len(a.Groups) && i < len(b.Groups) {
			x, y, g := a.Groups[i], b.Groups[i], &u.Groups[i]
			inc(&g.Periods, x.Periods, y.Periods)
			inc(&g.Throttled, x.Throttled, y.Throttled)
			inc(&g.UsageNS, x.UsageNS, y.UsageNS)
		}
	}
	inc(&u.ChildrenNS, a.ChildrenNS, b.ChildrenNS)
	x, y := &a.Machine, &b.Machine
	times, then := &x.CPUTimes, &y.CPUTimes
	if u.Confined {
		times, then = a.Confined, b.Confined
	}
	inc(&u.BusyNS, times.BusyNS, then.BusyNS)
	inc(&u.IdleNS, times.IdleNS, then.IdleNS)
	inc(&u.IOWaitNS, times.IOWaitNS, then.IOWaitNS)
	inc(&u.StealNS, times.StealNS, then.StealNS)
	inc(&u.CPUSomeNS, x.CPUSomeNS, y.CPUSomeNS)
	inc(&u.IOSomeNS, x.IOSomeNS, y.IOSomeNS)
	inc(&u.MemorySomeNS, x.MemorySomeNS, y.MemorySomeNS)
}

// peersOf is the last look up to sample i, or from it on, that read the peers; nil if there is none near.
func (r *Recording) peersOf(i, by int) *Sample {
	for n := 0; n < mostUnread && i >= 0 && i < len(r.Samples); n, i = n+1, i+by {
		if r.Samples[i].Peers != nil {
			return &r.Samples[i]
		}
	}
	return nil
}

// mostUnread is in how many looks in succession the peers may not have been read.
const mostUnread = 50

// asPeers adds what the peers did from an instant to another, between samples i-1 and i.
func (u *Usage) asPeers(r *Recording, i int, from, to int64) {
	if r.After == nil || len(r.After.Peers) == 0 {
		return
	}
	a, b := r.peersOf(i-1, -1), r.peersOf(i, 1)
	if a == nil || b == nil {
		return
	}
	f := float64(to-from) / float64(b.MonoNS-a.MonoNS)
	u.PeersRunNS += f * float64(max(0, b.Peers.RunNS-a.Peers.RunNS))
	u.PeersDelayNS += f * float64(max(0, b.Peers.DelayNS-a.Peers.DelayNS))
	u.PeersNS += float64(to - from)
}

// throttled adds the throttled time of a span. The kernel counts a stop when it
// ends, and for every CPU: what a sample finds counted lies in the time before it,
// at most a period for each that was throttled, even where that begins before the
// sample before.
func (u *Usage) throttled(r *Recording, s Span) {
	samples := r.Samples
	i := sort.Search(len(samples), func(i int) bool { return samples[i].MonoNS > s.From })
	for i = max(i, 1); i < len(samples); i++ {
		a, b := &samples[i-1], &samples[i]
		if b.MonoNS-MaxStop >= s.To {
			break
		}
		for k := range u.Groups {
			if k >= len(a.Groups) || k >= len(b.Groups) {
				continue
			}
			d := b.Groups[k].ThrottledNS - a.Groups[k].ThrottledNS
			if d <= 0 {
				continue
			}
			longest := int64(MaxStop)
			if period := 1000 * r.Static.Groups[k].PeriodUS; period > 0 {
				longest = min(longest, period*max(1, b.Groups[k].Throttled-a.Groups[k].Throttled))
			}
			began := min(a.MonoNS, b.MonoNS-min(d, longest))
			if in := min(s.To, b.MonoNS) - max(s.From, began); in > 0 {
				u.Groups[k].ThrottledNS += float64(d) * float64(in) / float64(b.MonoNS-began)
			}
		}
	}
}

// MaxStop is the longest that a quota stops a group at a time, in nanoseconds:
// the kernel's longest period (1 s; most use 100 ms).
const MaxStop = 1e9

// smooth spreads what counters grew over the samples in which they were not read again:
// reading them is costly where there are many CPUs, and a sample then repeats the
// values of the one before.
func (r *Recording) smooth() {
	total := func(c *CPUTimes) int64 { return c.BusyNS + c.IdleNS + c.IOWaitNS + c.StealNS }
	r.spread(math.MaxInt64, func(s *Sample) int64 { return total(&s.Machine.CPUTimes) }, func(s, a, b *Sample, f float64) {
		s.Machine.CPUTimes.between(&a.Machine.CPUTimes, &b.Machine.CPUTimes, f)
	})
	if r.confined() {
		r.spread(math.MaxInt64, func(s *Sample) int64 { return total(s.Confined) }, func(s, a, b *Sample, f float64) {
			s.Confined.between(a.Confined, b.Confined, f)
		})
	}
	r.spread(childSeen, func(s *Sample) int64 { return s.ChildrenNS }, func(s, a, b *Sample, f float64) {
		s.ChildrenNS = between(a.ChildrenNS, b.ChildrenNS, f)
	})
}

// Even returns a copy in which the process's CPU time and the machine's pressure, which are not
// read in every look, grow evenly from one reading to the next. It is for what is drawn: a sample
// of r itself tells by repeating the process's CPU time that it was not read.
func (r *Recording) Even() *Recording {
	even := *r
	even.Samples = slices.Clone(r.Samples)
	even.spread(runUnread, func(s *Sample) int64 { return s.RunNS }, func(s, a, b *Sample, f float64) {
		s.RunNS = between(a.RunNS, b.RunNS, f)
	})
	for _, some := range []func(m *Machine) *int64{
		func(m *Machine) *int64 { return &m.CPUSomeNS },
		func(m *Machine) *int64 { return &m.IOSomeNS },
		func(m *Machine) *int64 { return &m.MemorySomeNS },
	} {
		even.spread(pressureUnread, func(s *Sample) int64 { return *some(&s.Machine) }, func(s, a, b *Sample, f float64) {
			*some(&s.Machine) = between(*some(&a.Machine), *some(&b.Machine), f)
		})
	}
	return &even
}

// How long, in nanoseconds, a counter that stays as it was may just not have been read; if it is
// longer, nothing was counted. The CPU time of 10,000 threads, which the kernel sums up, is read once
// in a second; pressure every 100 ms, or in the first look after that.
const (
	runUnread      = 1e9
	pressureUnread = int64(2 * leisurely)
)

// childSeen is how long before a child is found it may have run: processes are looked
// through about once a second, in nanoseconds.
const childSeen = 1e9

// spread sets a value in samples that repeat it, on the way from the sample before them to the one
// after, at most so long before that one.
func (r *Recording) spread(longest int64, value func(*Sample) int64, set func(s, a, b *Sample, f float64)) {
	last := 0
	for i := 1; i < len(r.Samples); i++ {
		b := &r.Samples[i]
		if value(b) == value(&r.Samples[last]) {
			continue
		}
		for b.MonoNS-r.Samples[last].MonoNS > longest && last+1 < i {
			last++
		}
		a := r.Samples[last]
		for k := last + 1; k < i; k++ {
			s := &r.Samples[k]
			set(s, &a, b, float64(s.MonoNS-a.MonoNS)/float64(b.MonoNS-a.MonoNS))
		}
		last = i
	}
}

func between(x, y int64, f float64) int64 { return x + int64(f*float64(y-x)) }

// between sets c to what is a part f of the way from a to b.
func (c *CPUTimes) between(a, b *CPUTimes, f float64) {
	c.BusyNS, c.IdleNS = between(a.BusyNS, b.BusyNS, f), between(a.IdleNS, b.IdleNS, f)
	c.IOWaitNS, c.StealNS = between(a.IOWaitNS, b.IOWaitNS, f), between(a.StealNS, b.StealNS, f)
}
