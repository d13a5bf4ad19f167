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

func judge(c *cause.Case) *cause.Judgement {
	g := c.Collection()
	if len(g.Stop) == 0 {
		return nil
	}
	j := &cause.Judgement{
		Keys:    g.All(),
		Subject: fmt.Sprintf("the garbage collector stopped the world (%s)", stage(c)),
		Evidence: []cause.Evidence{
			{
				Text:  g.Split(c),
				Holds: cause.Of(g.StopNS > g.AssistNS && g.StopNS > g.WorkerNS), Decides: true, Number: g.StopNS / c.Excess,
			},
			c.Stopping("stops of the GC", 0, collects),
		},
	}
	if e, doubt := c.Lengthened(collects); doubt {
		j.Evidence = append(j.Evidence, e)
	}
	return j.With(c.CollectedOffCPU()...)
}

// collects reports whether a stop is the garbage collector's.
func collects(name string) bool { return strings.HasPrefix(name, "GC ") }

// stage names the stage of the GC whose stops take most of slow requests.
func stage(c *cause.Case) (stage string) {
	took := map[string]timeline.Time{}
	for _, s := range c.A.Timeline().STW {
		d := c.InTail(s.Start, s.End)
		name, ok := strings.CutPrefix(s.Name, "GC ")
		if !ok || d == 0 {
			continue
		}
		if took[name] += d; stage == "" || took[name] > took[stage] {
			stage = name
		}
	}
	return stage
}
