package cause_test

import (
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
)

// Who is told of the network and gets no CPU lets whatever comes wait. The requests' own times do
// not contain it.
func TestClientsOfAFastServiceAreLateWhileWhoPollsHasNoCPU(t *testing.T) {
	fast := attributed(t, scene{procs: 2, in: func(*play, int) {}})
	searching := attributed(t, scene{procs: 2, requests: 1000, in: func(p *play, i int) {
		if i%20 == 3 {
			p.computes(serving, 0, 100*ms, "main.search", "main.serve")
		}
	}, task: func(i int) string { return map[bool]string{true: "search", false: "item"}[i%20 == 3] }})
	for name, c := range map[string]struct {
		every, wait int64
		room        bool // on the machine
		nr, own     int
		of          *blame.Attribution
		told        bool
	}{
		"often, and long":               {400 * ms, 18 * ms, false, 281, 0, fast, true},
		"shortly":                       {200 * ms, 7 * ms, false, 281, 0, fast, true},
		"shortly, beside idle CPUs":     {200 * ms, 7 * ms, true, 281, 0, fast, false},
		"long, beside idle CPUs":        {400 * ms, 18 * ms, true, 281, 0, fast, true},
		"twice":                         {4000 * ms, 18 * ms, false, 281, 0, fast, false},
		"for less than anybody minds":   {400 * ms, 2 * ms, false, 281, 0, fast, false},
		"the process has the CPUs":      {400 * ms, 18 * ms, false, 281, 2, fast, false},
		"beside what an endpoint takes": {400 * ms, 18 * ms, false, 281, 0, searching, false},
		"who wants a CPU polls nothing": {400 * ms, 18 * ms, false, 202, 0, fast, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, tl := c.of, c.of.Timeline()
			var out []events.Stretch
			for tid := range c.own {
				out = append(out, events.Stretch{TID: 100 + tid, Out: int64(tl.End), OnNS: int64(tl.Duration())})
			}
			x := events.Stretch{TID: 7}
			last := int64(tl.Start)
			for at := int64(tl.Start) + 22*ms; at+c.wait < int64(tl.End); at += c.every {
				x.Out, x.OnNS = at, at-last
				out = append(out, x)
				x.OffNS, x.QueueNS, x.NR = c.wait+ms, c.wait, c.nr
				last = at + ms + c.wait
			}
			x.Out, x.OnNS = int64(tl.End), int64(tl.End)-last
			out = append(out, x)
			watched := blame.Attribute(tl, a.Found(), blame.Options{Watch: events.New(events.Header{CPUs: 2, Arch: "amd64"}, nil, out)})
			var set cause.Settings
			if c.room {
				set.Host = observe(watched, machine{cpus: 2, idle: 0.6, own: 0.1})
			}
			v := cause.Judge(watched, set)
			if got := v.Verdict == "cause" && v.Findings[0].Cause == "host-contention" && v.Findings[0].Contrast == cause.BeforeContrast; got != c.told || !got && v.Verdict != "healthy" {
				t.Errorf("%s: %s", v.Verdict, v.Sentence)
			}
		})
	}
}
