package cause_test

import (
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
)

// All threads are woken at once, at the end of most of the wait.
func TestAProcessThatWasMadeToStopIsToldAndNoPeerBlamed(t *testing.T) {
	a := attributed(t, answeredWith(func(*play) {}, 4, 0))
	tl := a.Timeline()
	for name, threads := range map[string]int{"all threads are woken": 4, "only those that a process wakes by itself": 3} {
		t.Run(name, func(t *testing.T) {
			var out []events.Stretch
			for tid := range threads {
				x := events.Stretch{TID: tid}
				last := int64(tl.Start)
				for _, r := range a.Found().Requests {
					if int64(r.Duration()) <= slowRequest {
						continue
					}
					x.Out, x.OnNS = int64(r.Start())+2*ms, int64(r.Start())+2*ms-last
					out = append(out, x)
					last = int64(r.End()) - 2*ms
					x.OffNS, x.NR = last-x.Out, 202
				}
				x.Out, x.OnNS = int64(tl.End), int64(tl.End)-last
				out = append(out, x)
			}
			watched := blame.Attribute(tl, a.Found(), blame.Options{Watch: events.New(events.Header{CPUs: 2, Arch: "amd64"}, nil, out)})
			v := cause.Judge(watched, cause.Settings{})
			if stopped := threads == 4; stopped != (v.Verdict == "inconclusive" && v.Reason == "unexplained" && len(v.Consistent) == 0) ||
				stopped != strings.Contains(v.Sentence, "passed while the whole process was made to stop from outside") {
				t.Errorf("%s (%s): %s", v.Verdict, v.Reason, v.Sentence)
			}
		})
	}
}

// Requests that wait for nobody are fast by the service's own clock, whatever their clients see.
func TestClientsOfAFastProcessThatWasMadeToStopAreLate(t *testing.T) {
	a := attributed(t, scene{procs: 2, in: func(*play, int) {}})
	tl := a.Timeline()
	for name, c := range map[string]struct {
		every, stop int64
		slo         time.Duration
		told        bool
	}{
		"often, and long":            {400 * ms, 18 * ms, 0, true},
		"once, of thousands":         {6000 * ms, 18 * ms, 0, false},
		"shorter than anybody minds": {400 * ms, 2 * ms, 0, false},
		"within the SLO":             {400 * ms, 18 * ms, 50 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			var out []events.Stretch
			for tid := range 4 {
				x := events.Stretch{TID: tid}
				last := int64(tl.Start)
				for at := int64(tl.Start) + 22*ms; at+c.stop < int64(tl.End); at += c.every {
					x.Out, x.OnNS = at, at-last
					out = append(out, x)
					x.OffNS, x.NR = c.stop, 202
					last = at + c.stop
				}
				x.Out, x.OnNS = int64(tl.End), int64(tl.End)-last
				out = append(out, x)
			}
			watched := blame.Attribute(tl, a.Found(), blame.Options{Watch: events.New(events.Header{CPUs: 2, Arch: "amd64"}, nil, out)})
			v := cause.Judge(watched, cause.Settings{SLO: int64(c.slo)})
			if c.told != (v.Verdict == "inconclusive") || c.told != strings.Contains(v.Sentence, "made to stop from outside") || !c.told && v.Verdict != "healthy" {
				t.Errorf("%s (%s): %s", v.Verdict, v.Reason, v.Sentence)
			}
		})
	}
}
