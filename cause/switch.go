package cause

import (
	"fmt"
	"maps"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// promptShare is the part of the time of switches from which on it is their number
// that costs, not threads that get no CPU.
const promptShare = 0.5

// Switches returns the waits for another thread during slow requests.
func (c *Case) Switches() blame.Switches {
	if c.switches == nil {
		s := c.A.SwitchesIn(c.tailSpans())
		c.switches = &s
	}
	return *c.switches
}

// PromptSwitches says whether waits for another thread were as long as it takes to
// wake one, or whether the threads waited for a CPU then.
func (c *Case) PromptSwitches() Evidence {
	s := c.Switches()
	part := float64(s.Prompt) / float64(max(1, s.NS))
	e := Evidence{
		Text: fmt.Sprintf("meanwhile threads were switched %d times, %s each; %s of that time were switches of at most %s, as where the next thread gets a CPU at once",
			s.N, Ms(float64(s.NS)/float64(max(1, s.N))), Pct(part), Ms(float64(timeline.LateMin))),
		Holds: Yes, Decides: true, Number: part,
	}
	if part >= promptShare {
		return e
	}
	if cpu, known := c.hostCPU(); known {
		cpu.Text = e.Text + "; " + cpu.Text
		return cpu
	}
	e.Holds, e.Alike, e.Record = Unknown, OffCPUCauses, RecordHost
	return e
}

// SwitchPlace is where those who wait for another thread came from most often, in
// code that is not the standard library's; nil if they did nowhere.
func (c *Case) SwitchPlace() (where *Place) {
	most, waits := 0, map[Place]int{}
	blocked := c.Switches().Blocked
	for _, s := range slices.Sorted(maps.Keys(blocked)) {
		if f, ok := request.AppFrame(c.A.Timeline().Stacks.Frames(s)); ok {
			at := Place{Function: f.Func, File: f.File, Line: f.Line}
			if waits[at] += blocked[s]; waits[at] > most {
				most, where = waits[at], &at
			}
		}
	}
	return where
}
