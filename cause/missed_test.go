package cause_test

import (
	"slices"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// Whether the rounds that slow requests wait for take as long as always is told by those who wait for
// rounds, not by other slow requests.
func TestRoundsAreThoseOfWhoWaitsForThem(t *testing.T) {
	rounds := commits(func(i int) int64 {
		if i%10 == 9 {
			return 8 * ms
		}
		return 3 * ms
	})
	a := attributed(t, scene{procs: 2, requests: 100, cast: crowdOf(6), in: func(p *play, i int) {
		if i%10 == 4 {
			p.leaves(serving, 0, "sleep", "time.Sleep", "main.throttle", "main.serve")
			p.pass(20 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
			return
		}
		rounds(p, i)
	}})
	v := cause.Judge(a, cause.Settings{})
	if len(v.Findings) == 0 || v.Findings[0].Cause != "timer-wait" {
		t.Errorf("%s: %s", v.Verdict, v.Sentence)
	}
	for _, x := range v.Consistent {
		if slices.Contains(x.Causes, "single-worker") {
			t.Errorf("the rounds take twice as long, yet: %+v", x.Evidence)
		}
	}
}

// Where every request is slow, the whole time of slow requests is split: what they wait longer is less.
func TestWhatRequestsMissedIsNotTheirWholeTime(t *testing.T) {
	commit := []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.commit", "main.loop"}
	const first, each = crowd0 + 1, 4
	a := attributed(t, scene{procs: 2, requests: 100, cast: crowdOf(6), in: func(p *play, i int) {
		p.wakes(0, crowd0)
		p.runs(crowd0, 1)
		p.wakes(crowd0, helper, "runtime.chansend1", "main.ask", "main.serve")
		p.leaves(crowd0, 1, "chan receive", receive...)
		p.runs(helper, 1)
		p.leaves(helper, 1, "network", commit...)
		p.leaves(serving, 0, "chan receive", receive...)
		for g := range gotrace.GoID(each) {
			p.wakes(0, first+g)
			p.runs(first+g, 1)
			p.do(p.b.Task(first+g, "request"))
			p.pass(3 * ms / 2)
			p.leaves(first+g, 1, "chan receive", receive...)
		}
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.wakes(helper, crowd0, "runtime.chansend1", "main.loop")
		p.leaves(helper, 1, "network", commit...)
		p.runs(crowd0, 1)
		p.leaves(crowd0, 1, "network", home...)
		p.pass(6 * ms)
		p.wakes(0, helper)
		p.runs(helper, 1)
		for g := range gotrace.GoID(each) {
			p.wakes(helper, first+g, "runtime.chansend1", "main.loop")
		}
		p.wakes(helper, serving, "runtime.chansend1", "main.loop")
		p.leaves(helper, 1, "select", idle...)
		for g := range gotrace.GoID(each) {
			p.runs(first+g, 1)
			p.do(p.b.Done(first + g))
			p.leaves(first+g, 1, "network", home...)
		}
		p.runs(serving, 0)
		if i%5 == 4 {
			p.pass(10 * ms)
		}
	}})
	v := cause.Judge(a, cause.Settings{})
	if v.Verdict == "healthy" {
		t.Errorf("they compute for 10 ms: %s", v.Sentence)
	}
}
