package detail

import (
	"math"

	"github.com/whylate/whylate/capture/host"
)

// Series is one thing that the operating system counted, over the recording.
type Series struct {
	// Name is what it is, Unit what Values are means of: CPUs, threads, or a share of the time.
	Name, Unit string
	// EdgesNS are the instants between which each of Values holds: one more than those.
	EdgesNS []int64
	Values  []float64
}

// maxValues is how many of a series are kept: more than a screen has columns for.
const maxValues = 500

// counter is how a series follows from what was used in a stretch of time.
type counter struct {
	name, unit string
	value      func(u *host.Usage) float64
	// ticks: the kernel counts it in ticks of 10 ms, as it does the rest of the CPUs' time.
	ticks bool
}

// counters are those that tell about lateness: the process's own first, then its group's,
// then the machine's.
var counters = []counter{
	{"CPUs used by the process", "CPUs", func(u *host.Usage) float64 { return u.RunNS }, false},
	{"threads that wait for a CPU", "threads", func(u *host.Usage) float64 { return u.DelayNS }, false},
	{"threads in uninterruptible sleep", "threads", func(u *host.Usage) float64 { return u.BlockedNS }, false},
	{"throttled by the quota", "CPUs", func(u *host.Usage) (ns float64) {
		for _, g := range u.Groups {
			ns = max(ns, g.ThrottledNS)
		}
		return ns
	}, false},
	{"CPUs stolen by the hypervisor", "CPUs", func(u *host.Usage) float64 { return u.StealNS }, true},
	{"CPUs busy", "CPUs", func(u *host.Usage) float64 { return u.BusyNS }, true},
	{"pressure: a task waits for a CPU", "share", func(u *host.Usage) float64 { return u.CPUSomeNS }, false},
	{"pressure: a task waits for I/O", "share", func(u *host.Usage) float64 { return u.IOSomeNS }, false},
	{"pressure: a task waits for memory", "share", func(u *host.Usage) float64 { return u.MemorySomeNS }, false},
}

// series are the counters between two instants of the trace's clock, which is the host's;
// those that never were anything else than zero are left out.
func series(h *host.Recording, start, end int64) []Series {
	out := counted(h, start, end)
	for _, s := range out {
		for i, v := range s.Values {
			s.Values[i] = min(v, most(h, s.Unit))
		}
	}
	return out
}

// most is what there can be of a unit. A look takes time, so that what it reads is not of one
// instant: of what was counted since the one before it may be a little more.
func most(h *host.Recording, unit string) float64 {
	switch {
	case unit == "share":
		return 1
	case unit == "CPUs" && h.Static.CPUs > 0:
		return float64(h.Static.CPUs)
	}
	return math.Inf(1)
}

// counted are the series as they were counted.
func counted(h *host.Recording, start, end int64) (out []Series) {
	if h == nil || len(h.Samples) < 2 {
		return nil
	}
	every := 1 + (len(h.Samples)-2)/maxValues
	var edges []int64
	for i := 0; i < len(h.Samples); i++ {
		last := i == len(h.Samples)-1
		at := min(max(h.Samples[i].MonoNS, start), end)
		if (i%every == 0 || last) && (len(edges) == 0 || at > edges[len(edges)-1]) {
			edges = append(edges, at)
		}
	}
	if len(edges) < 2 {
		return nil
	}
	used, even := make([]host.Usage, len(edges)-1), h.Even()
	for i := range used {
		used[i] = even.Over([]host.Span{{From: edges[i], To: edges[i+1]}})
	}
	whole := even.Over([]host.Span{{From: edges[0], To: edges[len(edges)-1]}})
	cpus := whole.CPUNS() / max(1, whole.WallNS)
	since := make([]int64, len(edges))
	for i, at := range edges {
		since[i] = at - start
	}
	for _, c := range counters {
		s := Series{Name: c.name, Unit: c.unit, EdgesNS: since}
		some := false
		for i := range used {
			v := c.value(&used[i]) / max(1, used[i].WallNS)
			if c.ticks { // of a short stretch the kernel counts more time than it has, or less
				v = c.value(&used[i]) / max(1, used[i].CPUNS()) * cpus
			}
			s.Values = append(s.Values, v)
			some = some || v > 0
		}
		if some {
			out = append(out, s)
		}
	}
	return out
}
