// Package gcworkers is the cause gc-workers.
package gcworkers

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "gc-workers", Title: "GC workers", Rank: 211, Layer: cause.GC, Computes: true,
	What:       "While it marks, the garbage collector takes a quarter of the Ps for its dedicated workers, and every idle P for an idle-priority one; requests that become ready then queue behind them. An idle-priority worker gives way to what is in its own P's queue, but it does not look into the others', as an idle P does.",
	MustHold:   "since the backlog began the Ps executed GC workers, or the request was in the queue of a busy P while all idle ones ran workers; slow requests lie in mark phases more than typical ones",
	MustNot:    "the thread of an idle-priority worker that should have given way was late: it was not on a CPU",
	LookAlikes: []string{"gc-assist", "forced-gc", "memory-limit-thrash", "cpu-hog", "overload"},
	Fix: []string{
		"raise GOGC, or set GOMEMLIMIT and GOGC=off with headroom: fewer cycles",
		"hold fewer pointers: marking costs by pointer-bearing live bytes",
		"allocate less: the named site first",
		"more Ps, if the CPU quota allows",
	},
	Verify: "GOGC doubled in an interleaved A/B: cycles halve, p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	g := c.Collection()
	all := g.All()
	if len(all) == 0 {
		return nil
	}
	alloc, where := c.AllocationEvidence()
	return c.Unpaced(&cause.Judgement{
		Keys: all, Where: where,
		Subject: "ready requests queue for a P behind the garbage collector's workers",
		Evidence: []cause.Evidence{
			{
				Text: fmt.Sprintf("waits for a P behind GC workers take %s, assists %s, GC stops %s of the excess",
					cause.Pct(g.WorkerNS/c.Excess), cause.Pct(g.AssistNS/c.Excess), cause.Pct(g.StopNS/c.Excess)),
				Holds:   cause.Of(g.WorkerNS > g.AssistNS && g.WorkerNS >= g.StopNS),
				Decides: true, Number: g.WorkerNS / c.Excess,
			},
			c.MarkEvidence(),
			c.WorkerCPU(),
			alloc,
		},
		Alike: cause.OffCPUCauses, Record: cause.RecordHost,
	})
}
