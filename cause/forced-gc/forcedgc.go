// Package forcedgc is the cause forced-gc.
package forcedgc

import (
	"fmt"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "forced-gc", Title: "forced GC", Rank: 204, Layer: cause.GC, Needless: true, Computes: true,
	What:       "Somebody calls runtime.GC or debug.FreeOSMemory. Each call is a whole cycle that the heap did not ask for: its workers take Ps, its assists and stops delay requests.",
	MustHold:   "cycles that such a call began lie in the slow requests more than in typical ones; the caller is on their stack",
	MustNot:    "cycles that the heap's growth or the two-minute timer began",
	LookAlikes: []string{"gc-workers", "gc-assist", "gc-pause", "stop-the-world"},
	Fix: []string{
		"remove the call: the collector keeps its own pace",
		"if memory must go back to the system, set GOMEMLIMIT instead: the runtime then returns it in small steps",
		"a heap profile asked for with gc=1 forces a cycle too: leave it out",
	},
	Verify: "leave the call out in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	g := c.CollectionOf(timeline.Forced)
	keys := g.All()
	if len(keys) == 0 {
		return nil
	}
	n, where, via := callers(c)
	workers := c.WorkerCPU() // a cycle nobody asked for is to blame, whoever made it slower
	workers.Decides = false
	return &cause.Judgement{
		Keys: keys, Where: where,
		Subject: fmt.Sprintf("a collection that %s forced with %s holds them up", cause.PlaceName(where), via),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("%d of %d GC cycles were forced with %s, called from %s", n, len(c.A.Timeline().Cycles), via, cause.PlaceName(where)),
				Holds: cause.Of(n > 0), Decides: true, Number: float64(n),
			},
			c.MarkEvidenceOf(timeline.Forced, "forced mark phases"),
			{Text: "of the forced cycles, " + g.Split(c), Holds: cause.Yes, Number: c.Share(keys)},
			workers,
		},
	}
}

// callers counts the forced cycles, and returns who forced those in which slow
// requests spent most time, and with which function.
func callers(c *cause.Case) (n int, where *cause.Place, via string) {
	type caller struct {
		place cause.Place
		via   string
	}
	held := map[caller]timeline.Time{}
	var most caller
	t := c.A.Timeline()
	for _, x := range t.Cycles {
		if x.Starter != timeline.Forced {
			continue
		}
		n++
		by := caller{via: "runtime.GC"}
		frames := t.Stacks.Frames(x.Stack)
		for _, f := range frames {
			if f.Func == "runtime/debug.FreeOSMemory" {
				by.via = f.Func
			}
		}
		if f, ok := request.AppFrame(frames); ok {
			by.place = cause.Place{Function: f.Func, File: f.File, Line: f.Line}
		}
		held[by] += c.InTail(x.Start, x.End)
		if most.via == "" || held[by] > held[most] {
			most = by
		}
	}
	if most.place != (cause.Place{}) {
		where = &most.place
	}
	return n, where, most.via
}
