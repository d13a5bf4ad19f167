// Package finalizerbacklog is the cause finalizer-backlog.
package finalizerbacklog

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	// Before the queues: a pool or a worker that only finalizers serve is not to be
	// made larger or given a second worker.
	ID: "finalizer-backlog", Title: "finalizer backlog", Rank: 395, Layer: cause.GC, Unwanted: true,
	What:       "Requests wait for something that only a finalizer or a cleanup gives back: a permit, a handle, a buffer, memory of C. It comes back when the garbage collector happens to find out that nobody uses it any more, and then after all other finalizers, which one goroutine runs one after the other. Weak pointers, which unique values are made of, wait for the collector too, while it ends marking.",
	MustHold:   "most waits at the place are ended by the goroutine that runs finalizers or cleanups, or by one that it started; or they turn a weak pointer into a strong one",
	MustNot:    "most waits there are ended by others: then it is a pool or a worker; garbage collection that takes the Ps or makes requests pay",
	LookAlikes: []string{"pool-exhausted", "pool-leak", "single-worker", "gc-workers", "gc-assist"},
	Fix: []string{
		"give it back explicitly, with a Close that is deferred where it was taken, and leave the finalizer as a net for what was forgotten",
		"in a finalizer do nothing that waits or takes long: start a goroutine for that",
		"do not rely on the collector's pace, nor on runtime.GC: it knows of memory only, not of what else is scarce",
	},
	Verify: "give it back explicitly in an interleaved A/B: p99 and this share fall together, and /gc/finalizers/queued minus executed (or /gc/cleanups/) in runtime/metrics stays near 0",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	f := c.Finalized()
	if len(f.Keys) == 0 {
		return nil
	}
	j := &cause.Judgement{Keys: f.Keys, Alike: cause.OffCPUCauses, Record: cause.RecordHost}
	site := c.SiteName(f.Site)
	switch {
	case f.Weak > 0.5:
		j.Where = c.PlaceOf(f.Site)
		j.Subject = fmt.Sprintf("they turn weak pointers into strong ones in %s, which waits until the collector has ended marking", site)
		j.Fix = []string{"keep a strong pointer to what requests need often, and make no unique value for each request"}
		return j.With(cause.Evidence{Text: fmt.Sprintf("%s of that time are waits of weak pointers for the collector", cause.Pct(f.Weak)), Holds: cause.Yes, Decides: true, Number: f.Weak})
	case f.Idle > 0.5:
		j.Where = c.PlaceOf(f.Site)
		j.Subject = fmt.Sprintf("they wait in %s for what comes back only after the garbage collector has found it", site)
	default:
		j.Where = f.Where
		j.Subject = fmt.Sprintf("they wait in %s for finalizers, which run one after the other (%s in %s)", site, f.What, cause.PlaceName(f.Where))
	}
	j.Evidence = []cause.Evidence{
		c.FinalizerEvidence(f),
		{
			Text:  fmt.Sprintf("for %s of that time there was no finalizer to run: the collector had found nothing yet", cause.Pct(f.Idle)),
			Holds: cause.Yes, Number: f.Idle,
		},
	}
	if f.Idle <= 0.5 && f.What == blame.CPU {
		return j.With(c.RunnerCPU(f.Class))
	}
	return j
}
