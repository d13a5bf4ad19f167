package cause_test

import (
	"slices"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// TestTimersThatNobodyRunsAreToldFromWaitsOnPurpose plays requests that sleep for 2 ms,
// of which one in ten has to wait for more.
func TestTimersThatNobodyRunsAreToldFromWaitsOnPurpose(t *testing.T) {
	nap := []string{"time.Sleep", "main.step", "main.serve"}
	sleeps := func(p *play, ns int64) {
		p.leaves(serving, 0, "sleep", nap...)
		p.pass(ns)
		p.wakes(0, serving)
	}
	// computes has the helper take the only P for 20 ms, asleep milliseconds after the
	// request fell asleep, and wakes the request when it is done.
	computes := func(p *play, asleep int64) {
		p.leaves(serving, 0, "sleep", nap...)
		p.pass(asleep)
		if asleep > 2*ms {
			p.wakes(0, serving)
		}
		p.wakes(0, helper)
		p.runs(helper, 0)
		p.computes(helper, 0, 20*ms, "main.rank", "main.loop")
		if asleep <= 2*ms {
			p.wakes(0, serving)
		}
		p.leaves(helper, 0, "chan receive", "runtime.chanrecv1", "main.loop")
		p.runs(serving, 0)
	}
	for _, c := range []struct {
		name    string
		do      func(p *play)
		finding string
		where   string
	}{
		{"the timer is due while somebody computes", func(p *play) { computes(p, ms/2) }, "late-timer", "main.rank"},
		{"the timer was run, but somebody computes", func(p *play) { computes(p, 2*ms+1) }, "cpu-hog", "main.rank"},
		{"the wait is longer, and the P idle", func(p *play) { sleeps(p, 22*ms); p.runs(serving, 0) }, "timer-wait", "main.step"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, scene{procs: 1, cast: waitingHelper, in: func(p *play, i int) {
				if i%10 == 9 {
					c.do(p)
					return
				}
				sleeps(p, 2*ms)
				p.runs(serving, 0)
			}}), cause.Settings{})
			check(t, v, c.finding, nil)
			if len(v.Findings) > 0 && (v.Findings[0].Where == nil || v.Findings[0].Where.Function != c.where) {
				t.Errorf("at %+v, not %s", v.Findings[0].Where, c.where)
			}
		})
	}
}

// Who sleeps while the collector marks is woken late: if that is when requests are slow,
// they may not be meant to sleep for longer.
func TestSleepsThatTheCollectorFillsAreNotMeantToBeLonger(t *testing.T) {
	nap := []string{"time.Sleep", "main.step", "main.serve"}
	for _, c := range []struct {
		name  string
		marks func(i int) bool
		alike string // beside timer-wait
	}{
		{"in slow requests only", func(i int) bool { return i%10 == 9 }, "gc-workers"},
		{"in typical requests too", func(int) bool { return true }, "host-contention"}, // nobody looked at the host
		{"never", func(int) bool { return false }, "host-contention"},
	} {
		v := cause.Judge(attributed(t, scene{procs: 2, in: func(p *play, i int) {
			d := 2 * ms
			if i%10 == 9 {
				d = int64(10+5*(i/10%7)) * ms
			}
			if c.marks(i) {
				p.do(p.b.Range(gotrace.KindRangeBegin, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			}
			p.leaves(serving, 0, "sleep", nap...)
			p.pass(d)
			p.wakes(0, serving)
			p.runs(serving, 0)
			if c.marks(i) {
				p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			}
		}}), cause.Settings{})
		if len(v.Findings) > 0 || len(v.Consistent) == 0 || !slices.Equal(v.Consistent[0].Causes[:2], []string{"timer-wait", c.alike}) {
			t.Errorf("%s: %+v, consistent with %+v: %s", c.name, v.Findings, v.Consistent, v.Sentence)
		}
	}
}
