package timeline

import (
	"sort"

	"github.com/whylate/whylate/gotrace"
)

// A P that is idle does not always mean that somebody waits for the network: if its thread does not
// get a CPU (Late), or not soon, nobody does, unless another thread waits for the network by itself.
// The runtime's monitor tells: it polls the network only if no thread has done so, or ended that,
// in sysmonPoll (source: runtime.sysmon, sched.lastpoll). Whoever runs out of work does, and whoever
// polls in passing, before it looks for work elsewhere, has a CPU.

// sysmonPoll is since when nobody waited for the network when sysmon polls it.
const sysmonPoll Time = 10e6

// poll is a delivery of the network poller by a thread without a P.
type poll struct {
	at Time
	m  gotrace.ThreadID
}

// findUnpolled finds the spans before sysmon's deliveries in which nobody waited for the
// network. Sysmon is the thread that has delivered without a P at several such times, and
// never had a P: others that find no P for what they deliver have had one before they
// waited, and get one before they do it again.
func (b *builder) findUnpolled() {
	had := map[gotrace.ThreadID]bool{}
	for m := range b.threads {
		had[m] = true
	}
	for _, p := range b.t.Procs {
		for _, h := range p.Threads {
			had[h.M] = true
		}
	}
	times, last := map[gotrace.ThreadID]int{}, map[gotrace.ThreadID]Time{}
	for _, p := range b.polls {
		if at, ok := last[p.m]; !ok || p.at-at >= sysmonPoll {
			times[p.m]++
			last[p.m] = p.at
		}
	}
	for _, p := range b.polls {
		if had[p.m] || times[p.m] < 2 {
			continue
		}
		if n := len(b.t.unpolled); n > 0 && p.at-b.t.unpolled[n-1].End <= PollBatch {
			b.t.unpolled[n-1].End = p.at
			continue
		}
		b.t.unpolled = append(b.t.unpolled, Interval{max(b.t.Start, p.at-sysmonPoll), p.at})
	}
}

// notPolled returns since when before the instant at nobody waited for the network, if
// sysmon tells.
func (t *Timeline) notPolled(at Time) (since Time, ok bool) {
	i := sort.Search(len(t.unpolled), func(i int) bool { return t.unpolled[i].End >= at })
	if i == len(t.unpolled) || t.unpolled[i].Start >= at {
		return 0, false
	}
	return t.unpolled[i].Start, true
}
