package detail

import "github.com/whylate/whylate/capture/host"

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
}

// counters are those that tell about lateness: the process's own first, then its group's,
// then the machine's.
var counters = []counter{
	{"CPUs used by the process", "CPUs", func(u *host.Usage) float64 { return u.RunNS }},
	{"threads that wait for a CPU", "threads", func(u *host.Usage) float64 { return u.DelayNS }},
	{"threads in uninterruptible sleep", "threads", func(u *host.Usage) float64 { return u.BlockedNS }},
	{"throttled by the quota", "CPUs", func(u *host.Usage) (ns float64) {
		for _, g := range u.Groups {
			ns = max(ns, g.ThrottledNS)
		}
		return ns
	}},
	{"CPUs stolen by the hypervisor", "CPUs", func(u *host.Usage) float64 { return u.StealNS }},
	{"CPUs busy", "CPUs", func(u *host.Usage) float64 { return u.BusyNS }},
	{"pressure: a task waits for a CPU", "share", func(u *host.Usage) float64 { return u.CPUSomeNS }},
	{"pressure: a task waits for I/O", "share", func(u *host.Usage) float64 { return u.IOSomeNS }},
	{"pressure: a task waits for memory", "share", func(u *host.Usage) float64 { return u.MemorySomeNS }},
}

// series are the counters between two instants of the trace's clock, which is the host's;
// those that never were anything else than zero are left out.
func series(h *host.Recording, start, end int64) (out []Series) {
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
	used := make([]host.Usage, len(edges)-1)
	for i := range used {
		used[i] = h.Over([]host.Span{{From: edges[i], To: edges[i+1]}})
	}
	since := make([]int64, len(edges))
	for i, at := range edges {
		since[i] = at - start
	}
	for _, c := range counters {
		s := Series{Name: c.name, Unit: c.unit, EdgesNS: since}
		some := false
		for i := range used {
			v := c.value(&used[i]) / max(1, used[i].WallNS)
			s.Values = append(s.Values, v)
			some = some || v > 0
		}
		if some {
			out = append(out, s)
		}
	}
	return out
}
