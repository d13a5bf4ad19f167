// Package gcassist is the cause gc-assist.
package gcassist

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "gc-assist", Title: "GC assist", Rank: 210, Layer: cause.GC, Computes: true,
	What:       "Requests that allocate while the garbage collector marks must mark themselves before they may go on, or wait until somebody has.",
	MustHold:   "assists, or waits for assist credit, inside the slow requests or those they wait for",
	MustNot:    "assists outside the slow requests only; GC workers taking more than the assists; the process kept from the CPUs, where waits for those who mark take long as well",
	LookAlikes: []string{"gc-workers", "expensive-request", "memory-limit-thrash"},
	Fix: []string{
		"allocate less on the request path: the named site first",
		"raise GOGC, or set GOMEMLIMIT with headroom, so that cycles start earlier relative to the allocation rate",
		"reuse large buffers (sync.Pool)",
	},
	Verify: "GOGC doubled in an interleaved A/B: cycles halve, p99 and the assist share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	g := c.Collection()
	all := g.All()
	if len(all) == 0 {
		return nil
	}
	alloc, where := c.AllocationEvidence()
	j := &cause.Judgement{
		Keys: all, Where: where,
		Subject: "requests pay for the garbage collector by marking (assists), or wait for those who do",
		Evidence: []cause.Evidence{
			{
				Text: fmt.Sprintf("assists and waits for them take %s, GC workers %s, GC stops %s of the excess",
					cause.Pct(g.AssistNS/c.Excess), cause.Pct(g.WorkerNS/c.Excess), cause.Pct(g.StopNS/c.Excess)),
				Holds:   cause.Of(g.AssistNS >= g.WorkerNS && g.AssistNS >= g.StopNS),
				Decides: true, Number: g.AssistNS / c.Excess,
			},
			c.MarkEvidence(), alloc,
		},
	}
	return c.Unpaced(j.With(c.CollectedOffCPU()...))
}
