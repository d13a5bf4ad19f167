package cause_test

import (
	"slices"
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

const statsStop = "stop-the-world (read mem stats)"

var (
	byStats = []string{"runtime.ReadMemStats", "main.watch"}
	copies  = []string{"runtime.memmove", "main.bind", "main.loop"}
)

// kept is stopped, but the P that stops last runs nobody.
func kept(reason string, at []string, stopping, rest int64) scene {
	return scene{procs: 3, cast: stopper, in: every(10, func(p *play) {
		p.wakes(serving, helper, "main.start", "main.serve")
		p.do(p.b.Busy(2))
		p.runs(helper, 1)
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.do(p.b.Range(gotrace.KindRangeBegin, helper, reason, p.stack(at...)))
		p.pass(stopping)
		p.do(p.b.Idle(2, gotrace.NoProc))
		p.pass(rest)
		p.do(p.b.Range(gotrace.KindRangeEnd, helper, reason, 0))
		p.leaves(helper, 1, "select", idle...)
		p.runs(serving, 0)
	})}
}

// half samples every second slow stop only.
func half(reason string, at []string, ran ...string) scene {
	n := 0
	return scene{procs: 3, cast: stopper, in: every(10, func(p *play) {
		if n++; n%2 == 0 {
			stop(p, reason, at, 20*ms, ms/10, ran...)
			return
		}
		stop(p, reason, at, 20*ms, ms/10)
	})}
}

// after is another scene's part of each slow request, before it the stop of a P of
// which a goroutine was asked to stop and did soon.
func after(reason string, at []string, do func(p *play)) func(*play, int) {
	return every(10, func(p *play) {
		stop(p, reason, at, ms/10, ms/10)
		do(p)
	})
}

var stopScenes = []told{
	{name: "a copy delays the collector's stop", scene: stopped(sweepTerm, byHeap, 20*ms, ms, copies...), finding: "slow-to-stop", where: "main.bind"},
	{name: "a copy delays the stop of memory statistics", scene: stopped(statsStop, byStats, 20*ms, ms, copies...), finding: "slow-to-stop", where: "main.bind"},
	{name: "a copy delays the stop of a forced cycle", scene: stopped(sweepTerm, byCall, 20*ms, ms, copies...), finding: "slow-to-stop", where: "main.bind"},
	{name: "memory statistics stop the world for long, after a copy", scene: stopped(statsStop, byStats, 5*ms, 19*ms, copies...), finding: "stop-the-world", where: "main.watch"},
	{name: "the collector stops the world for long, after a copy", scene: stopped(sweepTerm, byHeap, 5*ms, 19*ms), finding: "gc-pause"},
	{name: "a forced cycle stops the world for long, after a copy", scene: stopped(sweepTerm, byCall, 5*ms, 19*ms, copies...), finding: "forced-gc", where: "main.tidy"},
	{name: "stopping takes as long as what memory statistics do", scene: stopped(statsStop, byStats, 10*ms, 10*ms, copies...), alike: []string{"stop-the-world", "slow-to-stop"}},
	{name: "somebody delays memory statistics, or is kept from a CPU", scene: stopped(statsStop, byStats, 20*ms, ms), alike: []string{"slow-to-stop", "host-contention", "page-faults"}},
	{name: "who was to stop is sampled in every second stop only", scene: half(statsStop, byStats, copies...), alike: []string{"slow-to-stop", "host-contention", "page-faults"}},
	{name: "the P that was to stop ran nobody", scene: kept(statsStop, byStats, 20*ms, ms)},
	{name: "a stop that is soon over, in a request that computes", scene: scene{procs: 3, cast: stopper, in: after(statsStop, byStats, func(p *play) {
		p.computes(serving, 0, 40*ms, "main.page", "main.serve")
	})}, finding: "expensive-request"},
	{name: "many stops that are soon over, each as short as any", scene: scene{procs: 3, cast: stopper, in: every(10, func(p *play) {
		for range 60 {
			stop(p, statsStop, byStats, ms/3, ms/20)
		}
	})}, finding: "stop-the-world", where: "main.watch"},
}

func TestWhoDelaysStopsIsToldFromLongStops(t *testing.T) { tell(t, stopScenes) }

// Without samples the host says whether who ran on was on a CPU.
func TestTheHostSaysWhetherWhoRanOnWasOnACPU(t *testing.T) {
	for _, c := range []struct {
		name    string
		slow    func(*host.Sample)
		finding string
		alike   []string
	}{
		{"nobody waited for a CPU", calm, "slow-to-stop", nil},
		{"threads waited for a CPU", delayed, "", []string{"slow-to-stop", "host-contention"}},
		{"threads waited for pages", faulting, "", []string{"slow-to-stop", "page-faults"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, stopped(sweepTerm, byHeap, 19*ms, ms)), cause.Settings{Host: seen(host.Static{}, c.slow, calm)})
			var named, alike []string
			for _, f := range v.Findings {
				named = append(named, f.Cause)
			}
			for _, s := range v.Consistent {
				alike = append(alike, s.Causes...)
			}
			if c.finding != "" && !slices.Equal(named, []string{c.finding}) || c.finding == "" && named != nil {
				t.Errorf("named %q, want %q: %s", named, c.finding, v.Sentence)
			}
			if !slices.Equal(alike, c.alike) {
				t.Errorf("undecided between %q, want %q: %s", alike, c.alike, v.Sentence)
			}
		})
	}
}

func TestPreemptionSwitchedOffIsSaid(t *testing.T) {
	v := cause.Judge(attributed(t, stopped(sweepTerm, byHeap, 20*ms, ms, copies...)), env("GODEBUG", "madvdontneed=1,asyncpreemptoff=1"))
	w := cause.Judge(attributed(t, stopped(sweepTerm, byHeap, 20*ms, ms, copies...)), env("GODEBUG", "madvdontneed=1"))
	if len(v.Findings) == 0 || len(w.Findings) == 0 || len(v.Findings[0].Fix) != len(w.Findings[0].Fix)+1 {
		t.Errorf("%+v, without it %+v", v.Findings, w.Findings)
	}
}

// The kernel's scheduling events say it of the thread itself, whatever others waited for.
func TestTheKernelSaysWhetherWhoRanOnWasOnACPU(t *testing.T) {
	for _, c := range []struct {
		name    string
		why     events.State
		part    float64
		finding string
		alike   []string
	}{
		{"it was", events.OnCPU, 0, "slow-to-stop", nil},
		{"it was, but for a moment", events.Queued, 0.1, "slow-to-stop", nil},
		{"others had the CPUs", events.Queued, 0.8, "", []string{"slow-to-stop", "host-contention"}},
		{"a quota stopped it", events.Stopped, 0.8, "", []string{"slow-to-stop", "quota-too-low"}},
		{"it waited for a page", events.Faulted, 0.8, "", []string{"slow-to-stop", "page-faults"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := watchThread(attributed(t, stopped(statsStop, byStats, 19*ms, ms)), 2, c.why, c.part, 0)
			v := cause.Judge(a, cause.Settings{Host: seen(host.Static{}, delayed, calm)})
			var named, alike []string
			for _, f := range v.Findings {
				named = append(named, f.Cause)
			}
			for _, s := range v.Consistent {
				alike = append(alike, s.Causes...)
			}
			if c.finding != "" && !slices.Equal(named, []string{c.finding}) || c.finding == "" && named != nil || !slices.Equal(alike, c.alike) {
				t.Errorf("named %q, undecided between %q, want %q and %q: %s", named, alike, c.finding, c.alike, v.Sentence)
			}
		})
	}
}

// inAWake is a service that reads requests for others, of which every tenth begins to run and waits for its thread for 8 ms; before
// these, or before others, somebody dumps all stacks.
func inAWake(dumps func(i int) bool) scene {
	const dump = "stop-the-world (all goroutines stack trace)"
	at := []string{"runtime.Stack", "main.census"}
	return scene{procs: 2, plain: true, cast: stopper, in: func(p *play, i int) {
		if dumps(i) {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.wakes(0, helper)
			p.runs(helper, 1)
			p.do(p.b.Range(gotrace.KindRangeBegin, helper, dump, p.stack(at...)))
			p.pass(20 * ms)
			p.do(p.b.Range(gotrace.KindRangeEnd, helper, dump, 0))
			p.leaves(helper, 1, "select", idle...)
			p.runs(serving, 0)
		}
		p.do(p.b.Task(serving, "request"))
		p.pass(ms)
		if i%10 == 9 {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.pass(8 * ms)
			p.runs(serving, 0)
		}
		p.do(p.b.Done(serving))
		p.leaves(serving, 0, "network", home...)
	}}
}

// What is slow right behind stops of the world, in which others have waited for longer, is their wake.
func TestWhatIsSlowInTheWakeOfStopsIsTheirs(t *testing.T) {
	for name, c := range map[string]struct {
		dumps func(i int) bool
		first string
	}{
		"stops before the slow ones": {func(i int) bool { return i%10 == 9 }, "stop-the-world"},
		"stops before some of these": {func(i int) bool { return i%20 == 9 }, "stop-the-world"},
		"stops before all":           {func(int) bool { return true }, "host-contention"},
		"stops before others":        {func(i int) bool { return i%10 == 4 }, "host-contention"},
		"one stop":                   {func(i int) bool { return i == 99 }, "host-contention"},
		"nobody stops the world":     {func(int) bool { return false }, "host-contention"},
	} {
		t.Run(name, func(t *testing.T) {
			a := attributed(t, inAWake(c.dumps))
			v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, delayed: 0.8, own: 0.2})})
			if v.Verdict != "cause" || v.Findings[0].Cause != c.first || v.Findings[len(v.Findings)-1].Cause != "host-contention" {
				t.Errorf("%s: %s", v.Verdict, v.Sentence)
			}
		})
	}
}

// Of too few requests stops say as little as anything else.
func TestStopsBesideTooFewRequestsAreNoCause(t *testing.T) {
	const dump, conn, root = "stop-the-world (all goroutines stack trace)", gotrace.GoID(77), "net/http.(*conn).serve"
	reads := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek", root}
	writes := []string{"syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write", root}
	a := attributed(t, scene{procs: 2, plain: true, requests: 30, cast: func(p *play) {
		stopper(p)
		p.waits(conn, "", reads...)
	}, in: func(p *play, i int) {
		p.leaves(serving, 0, "network", home...)
		if i%2 == 0 {
			p.wakes(0, helper)
			p.do(p.b.Busy(0))
			p.runs(helper, 0)
			p.do(p.b.Range(gotrace.KindRangeBegin, helper, dump, p.stack("runtime.Stack", "main.census")))
			p.pass(20 * ms)
			p.do(p.b.Range(gotrace.KindRangeEnd, helper, dump, 0))
			p.leaves(helper, 0, "select", idle...)
		}
		p.wakes(0, conn)
		p.do(p.b.Busy(0))
		p.runs(conn, 0)
		p.leaves(conn, 0, "sleep", "time.Sleep", "main.show", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", root)
		p.pass(ms)
		p.wakes(0, conn)
		p.do(p.b.Busy(0))
		p.runs(conn, 0)
		calls(conn, ms/100, writes...)(p)
		p.leaves(conn, 0, "network", reads...)
	}})
	if v := cause.Judge(a, cause.Settings{}); v.Verdict != "inconclusive" || v.Reason != "few-requests" {
		t.Errorf("%s (%s): %s", v.Verdict, v.Reason, v.Sentence)
	}
}
