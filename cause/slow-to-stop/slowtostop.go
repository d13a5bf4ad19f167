// Package slowtostop is the cause slow-to-stop.
package slowtostop

import (
	"strings"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-to-stop", Title: "slow to stop", Rank: 201, Layer: cause.Scheduler, Unwanted: true,
	What:       "Whoever stops the world, the garbage collector most of all, waits until every goroutine that runs has stopped, and all others wait with it. One goes on for long in code that cannot be interrupted: a copy of much memory in one piece, a long loop in assembly, or any loop without calls where asynchronous preemption is off.",
	MustHold:   "stops lie in the slow requests; most of their time passed before the last P had stopped; a goroutine ran on through it, on a CPU",
	MustNot:    "all Ps stop soon; the thread that ran on was kept from a CPU, or waited for a page",
	LookAlikes: []string{"gc-pause", "stop-the-world", "forced-gc", "quota-too-low", "gomaxprocs-over-quota", "host-contention", "page-faults"},
	Fix: []string{
		"copy, clear, compare or hash large memory in pieces of at most 1 MB with a call of runtime.Gosched between them: in the copy itself a goroutine cannot stop",
		"call a function now and then in a long loop of assembly, or leave the loop",
		"fewer stops: allocate less, raise GOGC, read runtime/metrics instead of runtime.ReadMemStats",
	},
	Verify: "leave the named work out, or split it, in an interleaved A/B: p99 and this share fall together, as does /sched/pauses/stopping in runtime/metrics",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	u := c.Unstopped()
	if u == nil {
		return nil
	}
	j := &cause.Judgement{
		Keys: u.Keys, Where: u.Where,
		Subject: u.Subject(),
		Alike:   append([]string{"page-faults"}, cause.OffCPUCauses...), Record: cause.RecordHost,
		Evidence: u.Evidence(c),
	}
	if strings.Contains(c.Target.Env["GODEBUG"]+","+c.Target.DefaultGODEBUG, "asyncpreemptoff=1") {
		j.Fix = []string{"take asyncpreemptoff=1 out of GODEBUG: with it no loop without calls can be interrupted"}
		j.Evidence = append(j.Evidence, cause.Evidence{Text: "GODEBUG has asyncpreemptoff=1", Holds: cause.Yes})
	}
	return j
}
