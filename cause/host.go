package cause

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/timeline"
)

// HostView is what the host's evidence says about a case. The trace's clock on
// Linux is CLOCK_MONOTONIC, the host evidence's too.
type HostView struct {
	*host.Recording
	// Whole, Tail and Rest are the usage over the part of the recording that the
	// trace covers, over the slow requests, and over the time without one.
	Whole, Tail, Rest host.Usage
	// Scheduled says whether run delays were recorded, Machine whether the
	// machine's CPU times were; where they were not, zero means nothing.
	Scheduled, Machine bool
	tail               []host.Span
	waited             []wait // cache of waits
}

// covered is the part of the slow requests' time that the samples must cover.
const covered = 0.5

// onHost aligns the host's evidence with a case.
func (c *Case) onHost(r *host.Recording) {
	if r == nil || len(r.Samples) < 2 {
		return
	}
	t := c.A.Timeline()
	tail := c.tailSpans()
	h := &HostView{
		Recording: r, tail: hostSpans(tail),
		Whole: r.Over([]host.Span{{From: int64(t.Start), To: int64(t.End)}}),
		Tail:  r.Over(hostSpans(tail)),
		Rest:  r.Over(hostSpans(outside(tail, t.Start, t.End))),
	}
	var wanted float64
	for _, s := range tail {
		wanted += float64(s.End - s.Start)
	}
	h.Scheduled = !slices.ContainsFunc(r.Static.Missing, func(m host.Missing) bool {
		return m.What == host.MissingDelays
	})
	h.Machine = h.Whole.BusyNS+h.Whole.IdleNS > 0
	if h.Whole.WallNS > 0 && h.Tail.WallNS >= covered*wanted { // else it has another clock, or ended early
		c.Host = h
	}
}

func hostSpans(spans []timeline.Span) []host.Span {
	out := make([]host.Span, len(spans))
	for i, s := range spans {
		out[i] = host.Span{From: int64(s.Start), To: int64(s.End)}
	}
	return out
}

// outside returns the parts of [from, to] that spans, in order, do not cover.
func outside(spans []timeline.Span, from, to timeline.Time) (out []timeline.Span) {
	for _, s := range spans {
		if s.Start > from {
			out = append(out, timeline.Span{Start: from, End: min(s.Start, to)})
		}
		from = max(from, s.End)
	}
	if from < to {
		out = append(out, timeline.Span{Start: from, End: to})
	}
	return out
}

// Delayed returns the part of the time in which threads wanted a CPU, during the
// slow requests, in which they waited for one.
func (h *HostView) Delayed() float64 { return delayed(h.Tail) }

func delayed(u host.Usage) float64 { return u.DelayNS / max(1, u.DelayNS+u.RunNS) }

// Idle returns the part of the CPUs' time that was idle during the slow requests; see OwnCPUs.
func (h *HostView) Idle() float64 {
	return (h.Tail.IdleNS + h.Tail.IOWaitNS) / max(1, h.Tail.CPUNS())
}

// OwnCPUs reports whether the CPU times are those of the CPUs that the process may use, not
// of others too.
func (h *HostView) OwnCPUs() bool {
	return h.Whole.Confined || h.Allowed() == 0 || h.Allowed() == h.Static.CPUs
}

// Crowd is who had the CPUs while threads of the process waited for one during
// the slow requests: parts of the CPUs' time, each sample weighted by how long
// threads waited in it.
type Crowd struct {
	// Own is the process's use of the CPUs that it may use, Children that of the
	// processes that descend from it. Idle and Stolen are parts of the time of
	// these CPUs, or of the machine's, see HostView.OwnCPUs.
	Own, Children, Idle, Stolen float64
}

// Others is what neither the process nor its descendants had, and was not idle.
func (c Crowd) Others() float64 { return max(0, 1-c.Own-c.Children-c.Idle) }

// roomy is the part of the machine that is idle over a recording in which nobody computes
// all the time: of two CPUs, one process that does leaves less than half, eight none.
const roomy = 0.25

// Roomy reports whether that much of the machine was idle over the recording; not if that
// is unknown.
func (h *HostView) Roomy() bool {
	if h == nil || !h.Machine {
		return false
	}
	all := h.Whole.CPUNS()
	return all > 0 && all-h.Whole.BusyNS-h.Whole.StealNS >= roomy*all
}

// Crowd returns who had the CPUs meanwhile; zero where nobody waited. A wait is
// counted when it ends, at any time between two samples, and may have begun long
// before them.
func (h *HostView) Crowd() (c Crowd) {
	const ends = 4 // the instants between two samples at which waits are taken to end
	var weight float64
	for i, w := range h.waits() {
		if i == 0 || w.delay <= 0 {
			continue
		}
		a, b := h.Samples[i-1].MonoNS, h.Samples[i].MonoNS
		for k := range int64(ends) {
			e := a + (b-a)*(2*k+1)/(2*ends)
			h.crowd(&c, &weight, host.Span{From: e - w.length(), To: e}, w.delay/ends)
		}
	}
	if weight > 0 {
		c.Own, c.Children, c.Idle, c.Stolen = c.Own/weight, c.Children/weight, c.Idle/weight, c.Stolen/weight
	}
	return c
}

// crowd adds who had the CPUs in those parts of a wait that lie in slow requests.
func (h *HostView) crowd(c *Crowd, weight *float64, wait host.Span, delay float64) {
	first := sort.Search(len(h.tail), func(i int) bool { return h.tail[i].To > wait.From })
	for _, s := range h.tail[first:] {
		if s.From >= wait.To {
			break
		}
		in := host.Span{From: max(s.From, wait.From), To: min(s.To, wait.To)}
		u := h.Over([]host.Span{in})
		all := u.CPUNS()
		if all <= 0 {
			continue
		}
		w := delay * float64(in.To-in.From) / float64(wait.To-wait.From)
		*weight += w
		cpus := max(1, u.WallNS) * float64(max(1, h.CPUs()))
		c.Own += w * u.RunNS / cpus
		c.Children += w * u.ChildrenNS / cpus
		c.Idle += w * (u.IdleNS + u.IOWaitNS) / all
		c.Stolen += w * u.StealNS / all
	}
}

// wait is what threads waited for a CPU, as counted in one sample, in nanoseconds:
// all together, and the length of the wait in which the average waited nanosecond
// lies: if the waits of each thread were equally long, and the longest that it can
// have been.
type wait struct{ delay, mean, longest float64 }

// length is how long to look back from the end of a wait: the mean, at least shortWait.
func (w wait) length() int64 { return int64(max(shortWait, w.mean)) }

// shortWait is a time slice of the kernel's scheduler, about, in nanoseconds.
const shortWait = 1e6

// waits returns the waits for a CPU that are counted in each sample.
func (h *HostView) waits() []wait {
	if h.waited != nil {
		return h.waited
	}
	h.waited = make([]wait, len(h.Samples))
	was := map[int]host.Thread{}
	for i := range h.Samples {
		var delay, squares, longest float64
		for _, t := range h.Samples[i].Threads {
			if w, ok := was[t.TID]; ok && t.Slices > w.Slices && t.DelayNS > w.DelayNS {
				d := float64(t.DelayNS - w.DelayNS)
				delay += d
				squares += d * d / float64(t.Slices-w.Slices)
				longest += d * d
			}
			was[t.TID] = t
		}
		h.waited[i].mean, h.waited[i].longest = squares/max(1, delay), longest/max(1, delay)
		if i > 0 {
			all := float64(h.Samples[i].DelayNS - h.Samples[i-1].DelayNS)
			h.waited[i].delay = max(delay, all)
			h.waited[i].longest = max(h.waited[i].longest, all-delay) // of threads that are not told apart
		}
	}
	return h.waited
}

// CPUs is how many CPUs the process may use.
func (h *HostView) CPUs() int {
	if n := h.Allowed(); n > 0 {
		return n
	}
	return h.Static.CPUs
}

// Throttling is what a CPU quota did to the process.
type Throttling struct {
	Group host.Group
	index int // of it, in the recording
	// Quota is in CPUs, Use the mean CPU use of the group, as a part of it, in the
	// seconds around its stops; without any over the recording. If it is not Accounted for
	// groups, Use is that of the process alone.
	Quota, Use float64
	Accounted  bool
	// Own is at most what the process itself used of the quota in the periods in which it was
	// stopped, as a part of what the quota grants in them; 1 if it was never stopped.
	Own float64
	// Periods is how many there were, Throttled in how many of them the group
	// was stopped.
	Periods, Throttled float64
	// Tail and Rest are the part of the slow requests' time, and of the rest, in
	// which it was stopped.
	Tail, Rest float64
}

// Throttling returns the quota that stopped the process most; nil if there is no
// quota or no host evidence.
func (c *Case) Throttling() (worst *Throttling) {
	if c.Host == nil {
		return nil
	}
	for i, g := range c.Host.Static.Groups {
		if g.QuotaUS <= 0 || g.PeriodUS <= 0 {
			continue
		}
		whole := c.Host.Whole.Groups[i]
		t := &Throttling{
			Group: g, index: i, Quota: float64(g.QuotaUS) / float64(g.PeriodUS),
			Periods: whole.Periods, Throttled: whole.Throttled,
			Tail: stopped(&c.Host.Tail, i, g, c.Host.CPUs()), Rest: stopped(&c.Host.Rest, i, g, c.Host.CPUs()),
			Accounted: whole.UsageNS > 0,
		}
		t.Own = c.Host.ownInStops(i, g, t.Quota)
		used := whole.UsageNS
		if used == 0 { // CPU accounting is in another hierarchy: the process's own use, a lower bound
			used = c.Host.Whole.RunNS
		}
		t.Use = used / max(1, c.Host.Whole.WallNS) / t.Quota
		if near := c.Host.nearStops(i); whole.UsageNS > 0 && near.WallNS > 0 {
			t.Use = near.Groups[i].UsageNS / near.WallNS / t.Quota
		}
		if worst == nil || t.Tail > worst.Tail || t.Tail == worst.Tail && t.Throttled > worst.Throttled {
			worst = t
		}
	}
	return worst
}

// Stopped reports whether a quota stopped the process for most of the slow requests' time,
// and more than at other times: whatever ran or waited then did so for that.
func (c *Case) Stopped() bool {
	t := c.Throttling()
	return t != nil && t.Tail >= offShare && t.Tail >= 1.5*t.Rest
}

// stopped returns the part of the time in which a group was stopped. The kernel
// counts it for every CPU; each throttled period is at most one stop.
func stopped(u *host.Usage, i int, g host.Group, cpus int) float64 {
	longest := u.Groups[i].Throttled * longestStop(g, cpus)
	return min(1, min(u.Groups[i].ThrottledNS, longest)/max(1, u.WallNS))
}

// stops returns when the quota stopped the process, in order, with procs Ps: for how long at least, in each period, and
// about when. The kernel counts a stop when it is over, for each CPU on which something waits.
func (h *HostView) stops(t *Throttling, procs int) (spans []host.Span) {
	i, cpus := t.index, max(1, min(procs, h.CPUs()))
	for k := 1; k < len(h.Samples); k++ {
		a, b := &h.Samples[k-1], &h.Samples[k]
		if i >= len(a.Groups) || i >= len(b.Groups) {
			continue
		}
		n := max(1, min(b.Groups[i].Throttled-a.Groups[i].Throttled, maxStops))
		ns := float64(b.Groups[i].ThrottledNS-a.Groups[i].ThrottledNS) / float64(cpus) / float64(n)
		long := int64(min(ns, longestStop(t.Group, h.CPUs()), host.MaxStop))
		for j := n; j > 0 && long > 0; j-- {
			to := b.MonoNS - (j-1)*long
			spans = append(spans, host.Span{From: to - long, To: to})
		}
	}
	return spans
}

// maxStops is how many stops between two samples are looked at: they lie a few hundredths of a second apart.
const maxStops = 1 << 10

// longestStop is for how long a group may be stopped in a period, in nanoseconds, which begins when the quota is used
// up, by all CPUs at best.
func longestStop(g host.Group, cpus int) float64 {
	return max(0, float64(g.PeriodUS)-float64(g.QuotaUS)/float64(max(1, cpus))) * 1e3
}

// nearStops returns the usage in the seconds around the stops of group i.
func (h *HostView) nearStops(i int) host.Usage {
	const half = 5e8
	var spans []host.Span
	for k := 1; k < len(h.Samples); k++ {
		a, b := &h.Samples[k-1], &h.Samples[k]
		if i >= len(a.Groups) || i >= len(b.Groups) || b.Groups[i].Throttled <= a.Groups[i].Throttled {
			continue
		}
		s := host.Span{From: b.MonoNS - half, To: b.MonoNS + half}
		if n := len(spans); n > 0 && s.From <= spans[n-1].To {
			spans[n-1].To = s.To
			continue
		}
		spans = append(spans, s)
	}
	return h.Over(spans)
}

// ownInStops returns Throttling.Own of group i. The kernel counts a period in which it was stopped
// at its end, so the period lies before the later of two samples, and for no longer than itself
// before the earlier.
func (h *HostView) ownInStops(i int, g host.Group, quota float64) float64 {
	period := g.PeriodUS * 1e3
	var spans []host.Span
	periods := int64(0)
	for k := 1; k < len(h.Samples); k++ {
		a, b := &h.Samples[k-1], &h.Samples[k]
		if i >= len(a.Groups) || i >= len(b.Groups) || b.Groups[i].Throttled <= a.Groups[i].Throttled {
			continue
		}
		periods += b.Groups[i].Throttled - a.Groups[i].Throttled
		s := host.Span{From: a.MonoNS - period, To: b.MonoNS}
		if n := len(spans); n > 0 && s.From <= spans[n-1].To {
			spans[n-1].To = s.To
			continue
		}
		spans = append(spans, s)
	}
	u := h.Over(spans)
	granted := quota * min(u.WallNS, float64(periods*period))
	if granted <= 0 {
		return 1
	}
	return min(1, u.RunNS/granted)
}

// ByOthers reports whether others in the group used most of the quota when it was used up: a sidecar,
// another container of the pod, a child process.
func (t *Throttling) ByOthers() bool { return t.Own < 0.5 }

// UseEvidence says who used the quota, as far as it is known.
func (t *Throttling) UseEvidence() Evidence {
	e := Evidence{Holds: Yes, Decides: true, Number: t.Use}
	switch {
	case t.ByOthers():
		e.Number = t.Own
		e.Text = fmt.Sprintf("the process itself used %s of the quota of %s in the periods in which it was stopped: others in that group used the rest", Pct(t.Own), t.Group.Path)
	case t.Accounted:
		e.Text = fmt.Sprintf("the group used %s of its quota on average", Pct(t.Use))
	default:
		e.Text = fmt.Sprintf("the process used %s of the quota on average", Pct(t.Use))
	}
	return e
}

// Ps is how many Ps a Go program has by itself under the quota: at least two.
// Source: runtime.adjustCgroupGOMAXPROCS (Go 1.25).
func (t *Throttling) Ps() int { return max(2, int(math.Ceil(t.Quota))) }

// The parts of the slow requests' time from which on host evidence means something.
const (
	// StoppedMin is the part in which a quota must have stopped the process.
	StoppedMin = 0.2
	// DelayedMin is the part of the time in which threads wanted a CPU in which
	// they must have waited for it: the complement of OnCPUMin.
	DelayedMin = 1 - OnCPUMin
	// StolenMin is the part of the CPUs' time that the hypervisor must have taken
	// for work that was running to be possibly waiting for it.
	StolenMin = 0.25
	// silentShare is the part of the slow requests' excess that must lie in
	// silences of the whole process for everything in it to count as time off
	// the CPU: when the operating system stops the process, its own CPU, its
	// system calls and its pauses all grow.
	silentShare = 0.5
	// offShare is the same for host evidence.
	offShare = 0.5
	// allShare is the part of all that slow requests did and waited for outside of
	// the process which threads must have waited for a CPU, for waits for peers to
	// be nothing else.
	allShare = 0.8
	// everybody is the part of the slow requests' time in which a quota must have
	// stopped the process, for waits for holders that are unknown to be nothing else:
	// what remains is too little to be another cause.
	everybody = 1 - NamedShare
)

// Late returns how long a thread waited for a CPU during a slow request that took
// tail nanoseconds: the mean over the threads that wanted one.
func (h *HostView) Late(tail float64) float64 { return late(h.Tail) * tail }

// late is the part of a time in which the threads that wanted a CPU waited for one.
func late(u host.Usage) float64 {
	return u.DelayNS / max(1, u.WallNS, u.RunNS+u.DelayNS)
}

// Wait returns how long a thread waited for a CPU each time, in nanoseconds: the
// mean over the recording.
func (h *HostView) Wait() float64 {
	var delay, slices float64
	was := map[int]host.Thread{}
	for i := range h.Samples {
		for _, t := range h.Samples[i].Threads {
			if w, ok := was[t.TID]; ok && t.Slices >= w.Slices && t.DelayNS >= w.DelayNS {
				delay += float64(t.DelayNS - w.DelayNS)
				slices += float64(t.Slices - w.Slices)
			}
			was[t.TID] = t
		}
	}
	return delay / max(1, slices)
}

// TailWait is the longest that a thread can have waited for a CPU at a time during
// the slow requests: the length of the wait in which the average waited nanosecond
// lies, if each thread waited only once between two samples.
func (h *HostView) TailWait() float64 {
	var delay, sum float64
	for i, w := range h.waits() {
		if i == 0 {
			continue
		}
		// It is counted when it ends, in the sample after that.
		from := h.Samples[i-1].MonoNS - w.length()
		k := sort.Search(len(h.tail), func(k int) bool { return h.tail[k].To > from })
		if k < len(h.tail) && h.tail[k].From < h.Samples[i].MonoNS {
			delay += w.delay
			sum += w.delay * w.longest
		}
	}
	return sum / max(1, delay)
}

// outside is how many things outside of the program requests wait for, one after the
// other: each of their ends may be seen late.
func (c *Case) outside(requests []int) float64 {
	var n float64
	for _, i := range requests {
		n += c.A.Requests[i].Outside
	}
	return max(1, n/float64(max(1, len(requests))))
}

// OffCPU returns the pieces in which threads did not get a CPU when they wanted
// one, as far as sampled evidence tells: what was late although a P was idle and
// what lies in silences of the whole process. Further pieces count as a whole if
// that evidence covers most of them: all of them if a quota stopped the process
// for most of the slow requests' time; those that a CPU has to do if threads
// waited for one for most of that time; those in the kernel if that leaves no
// room for anything else that they could have waited for; waits for holders that are
// unknown if a quota stopped everybody for nearly all of that time. Waits for another thread
// because somebody is locked to one are not among them, unless that got no CPU.
func (c *Case) OffCPU() []blame.KeyID {
	all := c.Silent() >= silentShare
	var ran, called, asked, late, whoever bool
	if c.Host != nil {
		late = c.PromptSwitches().Holds != Yes
		t := c.Throttling()
		all = all || c.Stopped()
		ran = t != nil && t.Tail >= offShare
		whoever = c.Stopped() && t.Tail >= everybody
		waited := c.Host.Late(c.mean(c.Tail))
		work, calls, peers := 0.0, 0.0, 0.0
		for id, ns := range c.NS {
			switch k := c.Key(blame.KeyID(id)); {
			case onCPU(k.Kind):
				work += ns
			case k.Kind == blame.Syscall:
				calls += ns
			case k.Kind == blame.Network:
				peers += ns
			}
		}
		work, calls, peers = max(0, work), max(0, calls), max(0, peers)
		f := c.OnCPUOf(c.Tail)
		delayed := c.Host.Delayed() >= offShare && !(f.Known && f.Value >= OnCPUMin) && !c.computedFor(offShare*work)
		ran = ran || delayed && waited >= offShare*work
		called = delayed && waited-work >= offShare*calls
		// A thread that waits for a CPU polls no network: the end of a peer's wait
		// is seen late too. Threads that wait for a slow peer do not wait for a CPU.
		// And a wait for a peer ends with one wake-up: unless a quota stops all threads
		// again and again, this one must have waited for a CPU as long at a time.
		asked = delayed && waited >= allShare*(work+calls+peers) &&
			(t != nil && t.Tail >= StoppedMin || c.Host.TailWait() >= peers)
	}
	if c.Watched() {
		return c.watchedOff(all, ran, whoever)
	}
	return c.Free(func(k blame.Key) bool {
		switch {
		case k.Kind == blame.UnknownHolder: // it was stopped, too
			return whoever
		case k.Kind == blame.Unresolved:
			return false
		case all || k.Flags&blame.Silent != 0:
			return true
		case k.Kind == blame.LateWakeup:
			return k.Flags&blame.Switched == 0 || late
		case k.Kind == blame.Syscall:
			return called
		case k.Kind == blame.Network:
			return asked
		}
		return ran && onCPU(k.Kind)
	})
}

// watchedOff is OffCPU where the kernel told when threads wanted a CPU. It does not know
// what a hypervisor takes from threads that wait, nor who kept the collector's work and stops from a CPU. And
// if all is set, a quota that stopped the process for most of the slow requests' time, or
// a silence, owns everything: queues are as long as it makes them.
func (c *Case) watchedOff(all, ran, whoever bool) (out []blame.KeyID) {
	_, stolen := c.Stolen()
	for i, k := range c.A.Keys {
		switch {
		case c.taken[i], k.Kind == blame.Unresolved, k.Kind == blame.UnknownHolder && !whoever:
		case all, wants(k), k.Flags&blame.Silent != 0, stolen && k.Kind == blame.LateWakeup,
			ran && (k.Kind == blame.STW || k.Kind == blame.Assist || k.Kind == blame.GCWait):
			out = append(out, blame.KeyID(i))
		}
	}
	return out
}

// onCPU reports whether a leaf is work, or waiting for work, that a CPU has to do.
func onCPU(k blame.LeafKind) bool {
	switch k {
	case blame.CPU, blame.Assist, blame.Behind, blame.LateWakeup, blame.STW, blame.GCWait:
		return true
	}
	return false
}

// mean returns the mean duration of requests in nanoseconds.
func (c *Case) mean(requests []int) float64 {
	var ns float64
	for _, i := range requests {
		ns += float64(c.A.Requests[i].D)
	}
	return ns / float64(max(1, len(requests)))
}

// Lateness is how long threads waited for a CPU during a slow request, in
// nanoseconds; 0 without the host's evidence.
func (c *Case) Lateness() float64 {
	if c.Host == nil {
		return 0
	}
	return c.Host.Late(c.mean(c.Tail))
}

// lateness is Lateness of some of the slow requests.
func (c *Case) lateness(requests []int) float64 {
	if len(requests) == len(c.Tail) {
		return c.Lateness()
	}
	return late(c.Host.Over(hostSpans(c.spansOf(requests)))) * c.mean(requests)
}

// ThrottledEvidence says whether a quota stopped the process while the slow
// requests waited.
func (c *Case) ThrottledEvidence() Evidence {
	t := c.Throttling()
	switch {
	case c.Host == nil:
		return Evidence{Text: "whether a CPU quota stopped the process is unknown: no host evidence was recorded", Holds: Unknown, Decides: true}
	case t == nil && !c.Host.Static.Ancestors:
		return Evidence{Text: "the process's own cgroup has no CPU quota; those above it could not be seen", Holds: Unknown, Decides: true, Record: "cpu.stat of the ancestor cgroups, on the node", Alike: []string{"host-contention"}}
	case t == nil:
		return Evidence{Text: "no cgroup of the process has a CPU quota", Holds: No, Decides: true}
	}
	return Evidence{
		Text: fmt.Sprintf("the quota of %.2g CPUs of cgroup %s stopped the process in %.0f of %.0f periods: %s of the slow requests' time, %s of the rest",
			t.Quota, t.Group.Path, t.Throttled, t.Periods, Pct(t.Tail), Pct(t.Rest)),
		Holds: Of(t.Throttled > 0 && t.Tail >= StoppedMin), Decides: true, Number: t.Tail,
	}
}

// recordKernel is what separates what samples of counters cannot.
const recordKernel = "the kernel's scheduling events (needs root)"

// coarse is how many times a slow request the samples may lie apart to say that it
// was on a CPU.
const coarse = 1.5

// hostCPU says, from host evidence, whether the process's threads got a CPU when
// they wanted one while the slow requests waited.
func (c *Case) hostCPU() (e Evidence, known bool) {
	if c.Host == nil || !c.Host.Scheduled {
		return e, false
	}
	d, tail := c.Host.Delayed(), c.mean(c.Tail)
	e = Evidence{
		Text:  fmt.Sprintf("the process's threads waited for a CPU for %s of a slow request, %s of the time in which they wanted one (schedstat)", Ms(c.Lateness()), Pct(d)),
		Holds: Yes, Decides: true, Number: d,
	}
	span := c.Host.Span()
	apart := float64(span.To-span.From) / float64(max(1, len(c.Host.Samples)-1))
	t := c.Throttling()
	switch {
	case t != nil && t.Tail >= StoppedMin:
		e.Holds, e.Alike = Unknown, []string{"quota-too-low", "gomaxprocs-over-quota"}
	case d >= DelayedMin || apart > coarse*tail:
		e.Holds, e.Alike = Unknown, []string{"host-contention"}
	}
	e.Record = recordKernel
	return e, true
}

// BurstyUse is the mean use of a quota below which bursts are to blame, FullUse
// the one from which on demand is; between them it may be both.
const BurstyUse, FullUse = 0.8, 0.9

// GOMAXPROCS is the number of Ps, at least 1.
func (c *Case) GOMAXPROCS() int { return max(1, c.A.Timeline().GOMAXPROCS) }
