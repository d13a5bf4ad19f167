package events

import (
	"cmp"
	"slices"
	"sort"
)

// Ran is what the kernel counts at an instant, in ns: NS is the CPU time that all threads of a process have had, without what a
// hypervisor took meanwhile; StolenNS is what it took from all CPUs, in ticks of TickNS. It was read within TookNS, in the middle of
// which AtNS is.
type Ran struct{ AtNS, TookNS, NS, StolenNS, TickNS int64 }

// robbed is for how long until an instant a thread that was always on a CPU did not run, and which part of the time it does not
// from then on, beyond the usual; on is for how long threads had CPUs then.
type robbed struct {
	at, on int64
	ns, of float64
}

// minRobbed is by how much stretches must exceed the count for a hypervisor to be the reason, in ns.
const minRobbed = 5e5

// Robbed returns the recording with what a hypervisor took: it takes a CPU while a thread seems to have it. Between two of the counts, in
// order of time, threads had CPUs for longer by the stretches than by the kernel's own count, and the hypervisor took something:
// the same part of all that they had is [Robbed] then, as far as it is larger than in half of the time for which they had CPUs:
// what is always taken makes these slower, for all that is done alike. The stretches are shared; r does not change.
//
// The kernel counts a thread's time without what a hypervisor takes (update_rq_clock_task, with CONFIG_PARAVIRT_TIME_ACCOUNTING; and
// without interrupts, with CONFIG_IRQ_TIME_ACCOUNTING: it is no more than what the hypervisor took), and a stretch without its
// switches: where nothing is taken the count is somewhat larger. It brings the count of another process up to date at ticks and when a
// thread leaves its CPU (thread_group_cputime): only those count that were read while no thread had one.
func (r *Recording) Robbed(counts []Ran) *Recording {
	out := *r
	out.robbed = nil
	var exact []Ran
	for _, c := range counts {
		if from, to := c.AtNS-c.TookNS, c.AtNS+c.TookNS; r.used(from) == r.used(to) {
			exact = append(exact, c)
		}
	}
	n := len(exact)
	for i := 1; i < n; i++ {
		a, b := exact[i-1], exact[i]
		x := robbed{at: a.AtNS, on: r.used(b.AtNS) - r.used(a.AtNS)}
		stolen := exact[min(i+1, n-1)].StolenNS - exact[max(i-2, 0)].StolenNS
		took := min(x.on-(b.NS-a.NS), stolen+b.TickNS)
		if took >= minRobbed && stolen > 0 && x.on > 0 {
			x.of = min(1, float64(took)/float64(x.on))
		}
		out.robbed = append(out.robbed, x)
	}
	if n > 0 {
		out.robbed = append(out.robbed, robbed{at: exact[n-1].AtNS})
	}
	usual := usually(out.robbed)
	for i := range out.robbed {
		x := &out.robbed[i]
		x.of = max(0, x.of-usual)
		if i > 0 {
			y := out.robbed[i-1]
			x.ns = y.ns + y.of*float64(x.at-y.at)
		}
	}
	out.threads = make(map[int]thread, len(r.threads))
	for tid, t := range r.threads {
		out.threads[tid] = out.sumUp(t.stretches)
	}
	return &out
}

// usually is the part that is taken of half of the time on CPUs, or more.
func usually(list []robbed) float64 {
	byPart := slices.Clone(list)
	slices.SortFunc(byPart, func(a, b robbed) int { return cmp.Compare(a.of, b.of) })
	all := int64(0)
	for _, x := range list {
		all += x.on
	}
	for _, x := range byPart {
		if all -= 2 * x.on; all <= 0 && x.on > 0 {
			return x.of
		}
	}
	return 0
}

// taken is which time of a thread on a CPU in [from, to] a hypervisor took.
func (r *Recording) taken(from, to int64) int64 {
	if to <= from || len(r.robbed) == 0 {
		return 0
	}
	until := func(at int64) float64 {
		i := sort.Search(len(r.robbed), func(i int) bool { return r.robbed[i].at > at }) - 1
		if i < 0 {
			return 0
		}
		return r.robbed[i].ns + r.robbed[i].of*float64(at-r.robbed[i].at)
	}
	return min(to-from, int64(until(to)-until(from)))
}
