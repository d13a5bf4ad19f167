// Package hostcontention is the cause host-contention.
package hostcontention

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "host-contention", Title: "host contention", Rank: 130, Layer: cause.Host, Contends: true, Unwanted: true,
	What:       "Somebody else has the CPU: a neighbour on the machine, or the hypervisor. Threads that want to run wait for it, those of the service or of a peer on the same machine. A CPU quota looks the same in a trace.",
	MustHold:   "goroutines ready while a P was idle, or silences of the whole process although it had work; threads' run delay, pressure or steal, where the host was recorded, and with scheduling events what a hypervisor takes from running threads beyond the usual; for a peer on the machine its threads' run delay, half as long as requests wait for it longer, while others had more of the CPUs than it and the service; three fifths of the excess, or three quarters of less than 5 ms where a quarter of the machine was idle, else it is named behind what else is wrong, if one program or the hypervisor is known to have had the CPUs for half of that time, or nobody asked who had them, or as a look-alike",
	MustNot:    "throttling counters of the cgroup (then it is the quota); the process's own threads had a good part of the CPUs meanwhile, in a burst that has a name, and others use what they always do; waits for peers that add up in a queue of several holders",
	LookAlikes: []string{"quota-too-low", "gomaxprocs-over-quota", "cpu-hog", "netpoll-starvation"},
	Fix: []string{
		"isolate the service: its own CPUs, a higher weight, another host",
		"find the neighbour: whose CPU time grows when these requests are slow",
	},
	Verify: "move the service to an idle host, or stop the neighbour, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// ownShare is the process's use of the CPUs that it may use from which on it
// stands in its own way, idle the machine's idle part above which nobody does,
// unless the hypervisor takes cause.StolenMin: a CPU that it took away looks idle
// to others.
const ownShare, idle = 0.8, 0.25

// hidden is instead of idle where quotas of ancestor cgroups cannot be seen.
const hidden = 0.05

func judge(c *cause.Case) *cause.Judgement {
	j := judgeOwn(c)
	if c.Contrast == cause.BeforeContrast { // requests are late before they ask a peer
		return j
	}
	waits := c.OutOfQueues(c.PeerWaits())
	e, spare, known := c.PeersStarved(waits)
	switch own := j != nil && len(j.Keys) > 0 && j.Holds() == cause.Yes; {
	case !known || e.Holds != cause.Yes:
	case !own && j != nil && j.Holds() == cause.Unknown && c.Sum(j.Keys) > c.Sum(waits):
	case !own && spare >= idle: // the peer is kept from some of the CPUs only: that is its own affair
	case !own:
		j = &cause.Judgement{Keys: waits, Subject: "the peers that they wait for, on the same machine, did not get a CPU when they wanted one"}
		j.With(e)
	default:
		j.Keys = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(j.Keys), waits...))))
		j.Subject = "neither their threads nor the peers on the same machine that they wait for got a CPU when they wanted one"
		j.With(e)
	}
	return j
}

// judgeOwn looks at the process's own threads.
func judgeOwn(c *cause.Case) *cause.Judgement {
	keys := c.OffCPU()
	if len(keys) == 0 && c.Host == nil {
		return nil
	}
	j := &cause.Judgement{
		Keys:    keys,
		Subject: "their threads did not get a CPU when they wanted one",
		Alike:   []string{"quota-too-low", "gomaxprocs-over-quota"}, Record: cause.RecordHost,
		Evidence: []cause.Evidence{{
			Text:  fmt.Sprintf("ready goroutines waited although a P was idle, or the process fell silent although it had work: %s of the excess", cause.Pct(c.Share(keys))),
			Holds: cause.Yes, Number: c.Share(keys),
		}},
	}
	if q := c.Queue(); c.Watched() && 2*q.All() >= c.Sum(keys) {
		j.Keys = c.Others(keys)
		j.With(q.Evidence(q.Others + q.Robbed))
		if n, e := c.Neighbours(); len(n) > 0 {
			j.With(e)
			if 2*n[0].Share*q.Others >= q.All() {
				j.Subject += ", mostly behind " + n[0].String()
				j.Fix = []string{fmt.Sprintf("have %s use less of these CPUs: move it, or give it a lower weight", n[0])}
			}
		}
		if e, own := children(c); own {
			j.With(e)
		}
		return j
	}
	if c.Host == nil {
		j.Evidence = append(j.Evidence, cause.Evidence{Text: "whether the threads waited for a CPU, and for whom, is unknown: no host evidence was recorded", Holds: cause.Unknown, Decides: true})
		if f := c.OnCPUAll(); f.Known {
			j.Evidence = append(j.Evidence, cause.Evidence{
				Text:  fmt.Sprintf("running goroutines were on a CPU for %s of their time", cause.Pct(min(1, f.Value))),
				Holds: cause.Of(f.Value < cause.OnCPUMin), Number: f.Value,
			})
		}
		return j
	}
	throttled := c.ThrottledEvidence()
	throttled.Holds, throttled.Alike = -throttled.Holds, j.Alike
	who := others(c)
	late := delay(c, who)
	if late.Holds == cause.Unknown {
		who.Decides = false
		if throttled.Holds == cause.Unknown {
			late.Alike = append(late.Alike, j.Alike...)
		}
	}
	throttled.Decides = throttled.Holds == cause.No // above a namespace: whoever has the CPUs decides
	return j.With(late, throttled, who)
}

// leastLate is the part of the time in which goroutines were late, or silent, for which all threads together
// must at least have waited for a CPU.
const leastLate = 0.1

// delay says whether threads waited for a CPU, who says whether others had them. Silences without any such wait are
// stops that the machine itself does not see: the hypervisor's, or page faults.
func delay(c *cause.Case, who cause.Evidence) cause.Evidence {
	d := c.Host.Delayed()
	e := cause.Evidence{
		Text:  fmt.Sprintf("threads waited for a CPU for %s of a slow request, %s of the time in which they wanted one (schedstat)", cause.Ms(c.Lateness()), cause.Pct(d)),
		Holds: cause.Of(d >= cause.DelayedMin), Decides: true, Number: d,
	}
	if !c.Host.Scheduled {
		e.Holds, e.Text = cause.Unknown, "how long threads waited for a CPU was not recorded"
	}
	if e.Holds == cause.Yes && who.Holds != cause.No && c.Lateness() < leastLate*c.Sum(c.OffCPU()) { // they seldom wanted one
		e.Holds = cause.No
	}
	if e.Holds == cause.No && c.Silent() > 0.2 {
		e.Holds, e.Record, e.Alike = cause.Unknown, "the scheduler's events (needs root), and the hypervisor's steal time", []string{"page-faults"}
	}
	return e
}

// others says whether it was somebody else who had the CPUs: neither the process nor
// its own child processes. Idle time of the whole machine says nothing where the process may use
// only some of its CPUs.
func others(c *cause.Case) cause.Evidence {
	crowd := c.Host.Crowd()
	some, most := !c.Host.OwnCPUs(), idle
	if !c.Host.Static.Ancestors { // a quota that cannot be seen leaves the machine idle
		some, most = false, hidden
	}
	if !c.Host.Machine {
		return cause.Evidence{Text: "who had the CPUs meanwhile was not recorded", Decides: true, Record: "the machine's CPU times"}
	}
	if e, own := children(c); own {
		return e
	}
	family := crowd.Own + crowd.Children
	whose := "their"
	if !c.Host.OwnCPUs() {
		whose = "the machine's CPU"
	}
	e := cause.Evidence{
		Text: fmt.Sprintf("while they waited the process used %s of the %d CPUs that it may use; %s of %s time was idle, %s stolen by the hypervisor",
			cause.Pct(crowd.Own), c.Host.CPUs(), cause.Pct(crowd.Idle), whose, cause.Pct(crowd.Stolen)),
		Holds: cause.Of(family < ownShare && (some || crowd.Idle < most || crowd.Stolen >= cause.StolenMin)), Decides: true, Number: crowd.Own,
	}
	if crowd.Children > 0.01 {
		e.Text += fmt.Sprintf("; its own child processes used %s", cause.Pct(crowd.Children))
	}
	return e
}

// children is the evidence that it was the process's own child processes who had the
// CPUs; own is false if it was not, or if nothing is known.
func children(c *cause.Case) (e cause.Evidence, own bool) {
	if c.Host == nil || !c.Host.Machine {
		return e, false
	}
	crowd := c.Host.Crowd()
	family := crowd.Own + crowd.Children
	if crowd.Children <= crowd.Own || family < ownShare && (!c.Host.OwnCPUs() || crowd.Children <= crowd.Others()) {
		return e, false
	}
	return cause.Evidence{
		Text: fmt.Sprintf("while they waited its own child processes used %s of the %d CPUs that the process may use, itself %s",
			cause.Pct(crowd.Children), c.Host.CPUs(), cause.Pct(crowd.Own)),
		Holds: cause.No, Decides: true, Number: crowd.Children,
	}, true
}
