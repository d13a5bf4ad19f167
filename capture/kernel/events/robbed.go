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

// robbed is what a hypervisor took from an instant until that of the next one: of, beyond the usual, of the time on for which threads had
// CPUs, and so all by which a thread had one longer than least at a stretch.
type robbed struct {
	at, on, least int64
	of            float64
}

// minRobbed is by how much stretches must exceed the count for a hypervisor to be the reason, in ns.
const minRobbed = 5e5

// Robbed returns the recording with what a hypervisor took: it takes a CPU while a thread seems to have it. Between two of the counts, in
// order of time, threads had CPUs for longer by the stretches than by the kernel's own count, and the hypervisor took something:
// that is [Robbed] then, as far as it is a larger part than of half of what ran: what is always taken makes
// that slower, for all that is done alike. A hypervisor gives a CPU to others for milliseconds, and hardly any stretch of a service
// is that long: the longest ones lost it, down to a length that more of them have. The stretches are shared; r does not change.
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
		if x := &out.robbed[i]; x.of > usual {
			x.of -= usual
			x.least = level(r.onCPUs(x.at, out.robbed[i+1].at), int64(x.of*float64(x.on)))
		} else {
			x.of = 0
		}
	}
	out.threads = make(map[int]thread, len(r.threads))
	for tid, t := range r.threads {
		out.threads[tid] = out.sumUp(t.stretches)
	}
	return &out
}

// usually is the part that is taken of half of what ran, or more: time that was taken itself is none of it.
func usually(list []robbed) float64 {
	byPart := slices.Clone(list)
	slices.SortFunc(byPart, func(a, b robbed) int { return cmp.Compare(a.of, b.of) })
	ran := func(x robbed) float64 { return (1 - x.of) * float64(x.on) }
	all := 0.0
	for _, x := range list {
		all += ran(x)
	}
	for _, x := range byPart {
		if all -= 2 * ran(x); all <= 0 && x.on > 0 {
			return x.of
		}
	}
	return 0
}

// onCPUs returns for how long threads had CPUs at each stretch in [from, to].
func (r *Recording) onCPUs(from, to int64) (list []int64) {
	for _, t := range r.threads {
		first := sort.Search(len(t.stretches), func(i int) bool { return t.stretches[i].Out > from })
		for i := first; i < len(t.stretches) && t.stretches[i].In() < to; i++ {
			list = append(list, t.stretches[i].onIn(from, to))
		}
	}
	return list
}

// onIn is for how long it had a CPU in [from, to].
func (s *Stretch) onIn(from, to int64) int64 { return max(0, min(s.Out, to)-max(s.In(), from)) }

// level is the length above which lengths have excess in sum; it is 0 if all have less.
func level(lengths []int64, excess int64) int64 {
	slices.Sort(lengths)
	for n := int64(1); len(lengths) > 0; n++ {
		last := len(lengths) - 1
		longest, next := lengths[last], int64(0)
		if lengths = lengths[:last]; last > 0 {
			next = lengths[last-1]
		}
		if above := n * (longest - next); above < excess {
			excess -= above
			continue
		}
		return longest - excess/n
	}
	return 0
}

// taken is which time of a stretch on a CPU a hypervisor took, of that in [from, to].
func (r *Recording) taken(s *Stretch, from, to int64) (ns int64) {
	if to <= from {
		return 0
	}
	for i := max(0, sort.Search(len(r.robbed), func(i int) bool { return r.robbed[i].at > from })-1); i+1 < len(r.robbed) && r.robbed[i].at < to; i++ {
		x, end := &r.robbed[i], r.robbed[i+1].at
		if x.of == 0 {
			continue
		}
		if on := s.onIn(x.at, end); on > x.least {
			ns += int64(float64(min(to, end)-max(from, x.at)) * float64(on-x.least) / float64(on))
		}
	}
	return ns
}
