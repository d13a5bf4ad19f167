// Package gcpause is the cause gc-pause.
package gcpause

import (
	"fmt"
	"strings"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "gc-pause", Title: "GC pause", Rank: 202, Layer: cause.GC,
	What:       "The garbage collector stops the world at the beginning and at the end of every cycle. Mostly that takes well below a millisecond; here it does not.",
	MustHold:   "stop-the-world ranges of the GC lie in the slow requests, and are more of them than its workers and assists; once stopped, the world stayed stopped",
	MustNot:    "a long stopping part: then somebody delays every stop; cycles that were forced; a few stops that are much longer than all others of their kind: then their threads were kept from a CPU",
	LookAlikes: []string{"stop-the-world", "slow-to-stop", "gc-workers", "quota-too-low", "host-contention"},
	Fix: []string{
		"fewer cycles: raise GOGC, or set GOMEMLIMIT with headroom, and allocate less",
		"update Go: what a stop does grows with goroutines, threads and timers, and has become less with most releases",
		"fewer goroutines, where there are hundreds of thousands",
	},
	Verify: "GOGC doubled in an interleaved A/B: the stops halve, p99 and this share fall together",
	Judge:  judge,
}

// Between these parts of stopping in the stops it cannot be told whether the stop
// itself is long or somebody delays it: the runtime asks a running goroutine to
// stop once more only after a while, and the trace does not say who was asked.
const stoppingLow, stoppingHigh = 1. / 3, 2. / 3

func judge(c *cause.Case) *cause.Judgement {
	g := c.Collection()
	if len(g.Stop) == 0 {
		return nil
	}
	n, stages := stops(c)
	j := &cause.Judgement{
		Keys:    g.All(),
		Subject: fmt.Sprintf("the garbage collector stopped the world (%s)", stages),
		Evidence: []cause.Evidence{
			{
				Text:  g.Split(c),
				Holds: cause.Of(g.StopNS > g.AssistNS && g.StopNS > g.WorkerNS), Decides: true, Number: g.StopNS / c.Excess,
			},
			stopping(c, n),
		},
	}
	if e, doubt := c.Lengthened(func(name string) bool { return strings.HasPrefix(name, "GC ") }); doubt {
		j.Evidence = append(j.Evidence, e)
	}
	if f := c.OnCPUAll(); f.Known && f.Value < cause.OnCPUMin { // then stops take long as well
		e := c.CPUEvidence("the process", f)
		e.Alike, e.Record = cause.OffCPUCauses, cause.RecordHost
		j.Evidence = append(j.Evidence, e)
	}
	return j
}

// stops counts the GC's stops in slow requests, and names the stage that took most.
func stops(c *cause.Case) (n int, stage string) {
	took := map[string]timeline.Time{}
	for _, s := range c.A.Timeline().STW {
		d := c.InTail(s.Start, s.End)
		name, ok := strings.CutPrefix(s.Name, "GC ")
		if !ok || d == 0 {
			continue
		}
		n++
		if took[name] += d; stage == "" || took[name] > took[stage] {
			stage = name
		}
	}
	return n, stage
}

// stopping says how much of the GC's stops in slow requests passed before the last
// P had stopped.
func stopping(c *cause.Case, n int) cause.Evidence {
	var before, all timeline.Time
	for _, s := range c.A.Timeline().STW {
		if strings.HasPrefix(s.Name, "GC ") {
			before += c.InTail(s.Start, s.Stopped)
			all += c.InTail(s.Start, s.End)
		}
	}
	part := float64(before) / float64(max(all, 1))
	e := cause.Evidence{
		Text:  fmt.Sprintf("%d stops of the GC in slow requests, %s each; %s of that passed before the last P had stopped", n, cause.Ms(float64(all)/float64(max(n, 1))), cause.Pct(part)),
		Holds: cause.Yes, Decides: true, Number: part,
		Alike: []string{"slow-to-stop"}, Record: "longer, with more of these stops in it",
	}
	switch {
	case part > stoppingHigh:
		e.Holds = cause.No
	case part > stoppingLow:
		e.Holds = cause.Unknown
	}
	return e
}
