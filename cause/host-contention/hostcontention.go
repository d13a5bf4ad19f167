// Package hostcontention is the cause host-contention.
package hostcontention

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "host-contention", Title: "host contention", Rank: 130, Layer: cause.Host,
	What:       "Somebody else has the CPU: a neighbour on the machine, or the hypervisor. Threads that want to run wait for it. A CPU quota looks the same in a trace.",
	MustHold:   "goroutines ready while a P was idle, or silences of the whole process although it had work; threads' run delay, pressure or steal, where the host was recorded",
	MustNot:    "throttling counters of the cgroup (then it is the quota)",
	LookAlikes: []string{"quota-too-low", "gomaxprocs-over-quota", "cpu-hog", "netpoll-starvation"},
	Fix: []string{
		"isolate the service: its own CPUs, a higher weight, another host",
		"find the neighbour: whose CPU time grows when these requests are slow",
	},
	Verify: "move the service to an idle host, or stop the neighbour, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// silentShare is the part of the slow requests' excess that must lie in silences
// of the whole process for everything in it to count: when the operating system
// stops the process, its own CPU, system calls and pauses all grow.
const silentShare = 0.5

func judge(c *cause.Case) *cause.Judgement {
	silent := c.Silent()
	all := silent >= silentShare
	keys := c.Free(func(k blame.Key) bool {
		if k.Kind == blame.Unresolved || k.Kind == blame.UnknownHolder {
			return false
		}
		return all || k.Kind == blame.LateWakeup || k.Flags&blame.Silent != 0
	})
	if len(keys) == 0 {
		return nil
	}
	ev := []cause.Evidence{
		{
			Text:  fmt.Sprintf("ready goroutines waited although a P was idle, or the whole process fell silent although it had work: %s of the excess", cause.Pct(c.Share(keys))),
			Holds: cause.Yes, Number: c.Share(keys),
		},
		{Text: "whether the threads waited for a CPU, and for whom, is unknown: no host evidence was recorded", Holds: cause.Unknown, Decides: true},
	}
	if f := c.OnCPUAll(); f.Known {
		ev = append(ev, cause.Evidence{
			Text:  fmt.Sprintf("running goroutines were on a CPU for %s of their time", cause.Pct(min(1, f.Value))),
			Holds: cause.Of(f.Value < cause.OnCPUMin), Number: f.Value,
		})
	}
	return &cause.Judgement{
		Keys: keys, Evidence: ev,
		Subject: "their threads did not get a CPU when they wanted one",
		Alike:   []string{"quota-too-low", "gomaxprocs-over-quota"}, Record: cause.RecordHost,
	}
}
