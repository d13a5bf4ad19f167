package cause_test

import (
	"math"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

const (
	markPhase = "GC concurrent mark phase"
	sweepTerm = "stop-the-world (GC sweep termination)"
)

// Whose stack begins a cycle.
var (
	byCall    = []string{"runtime.GC", "main.tidy", "main.loop"}
	byFree    = []string{"runtime.GC", "runtime/debug.freeOSMemory", "runtime/debug.FreeOSMemory", "main.shrink", "main.loop"}
	byHeap    = []string{"runtime.mallocgc", "main.page", "main.serve"}
	byTimer   = []string{"runtime.forcegchelper"}
	byTracer  = []string{"runtime.mallocgc", "runtime.growslice", "runtime.traceAdvance.func1", "runtime.forEachGRace", "runtime.traceAdvance", "runtime.(*traceAdvancerState).start.func1"}
	byHandler = []string{"runtime.GC", "runtime/pprof.writeHeap", "net/http/pprof.handler.ServeHTTP", "net/http.(*conn).serve"}
)

// heapSizes are those of a cycle's beginning, of what it found alive, and the next goal.
type heapSizes struct{ before, live, goal uint64 }

// cycle lets a GC worker have the request's P for a mark phase that begins at a stack.
func cycle(p *play, ns int64, h heapSizes, at []string) {
	p.wakes(serving, helper)
	if h.before > 0 {
		p.b.Heap(h.before)
	}
	p.do(p.b.Range(gotrace.KindRangeBegin, serving, markPhase, p.stack(at...)))
	p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
	p.runs(helper, 0)
	p.do(p.b.Label(helper, "GC (dedicated)"))
	for ; ns > 0; ns -= 10 * ms {
		p.pass(min(ns, 10*ms))
		p.b.Sample(helper, p.stack("runtime.gcDrain", "runtime.gcBgMarkWorker"))
	}
	if h.live > 0 {
		p.b.Heap(h.live)
	}
	p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, markPhase, 0))
	if h.live > 0 {
		p.b.Goal(h.goal)
	}
	p.waits(helper, "system goroutine wait", collector...)
	p.runs(serving, 0)
}

// worker brings the GC worker home.
func worker(p *play) { p.waits(helper, "", collector...) }

// collected is a service with one P in which a cycle begins in every tenth request.
func collected(at []string) scene {
	return scene{procs: 1, cast: worker, in: every(10, func(p *play) { cycle(p, 20*ms, heapSizes{}, at) })}
}

// stopped is a service whose every tenth request is stopped, by somebody at a
// stack, for a reason. Before the P of a goroutine that runs has stopped passes the
// time stopping; in it the goroutine is sampled at ran, if that is given.
func stopped(reason string, at []string, stopping, rest int64, ran ...string) scene {
	return scene{procs: 3, cast: stopper, in: every(10, func(p *play) { stop(p, reason, at, stopping, rest, ran...) })}
}

// unlike is stopped, but every request is, most of them shortly.
func unlike(reason string, at []string, short, long int64) scene {
	return scene{procs: 3, cast: stopper, in: func(p *play, i int) {
		if i%10 == 9 {
			stop(p, reason, at, 0, long)
			return
		}
		stop(p, reason, at, 0, short)
	}}
}

// stopper brings the goroutines that stop at their home waits.
func stopper(p *play) {
	waitingHelper(p)
	p.waits(stopping3, "", idle...)
}

const stopping3 = gotrace.GoID(3)

// stop stops the world in a request.
func stop(p *play, reason string, at []string, stopping, rest int64, ran ...string) {
	const other = stopping3
	p.wakes(serving, helper, "main.start", "main.serve")
	p.wakes(serving, other, "main.start", "main.serve")
	p.runs(helper, 1)
	p.runs(other, 2)
	p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
	p.do(p.b.Range(gotrace.KindRangeBegin, helper, markPhase, p.stack(at...)))
	p.do(p.b.Range(gotrace.KindRangeBegin, helper, reason, p.stack(at...)))
	for left := stopping; left > 0; left -= 10 * ms {
		p.pass(min(left, 10*ms))
		if len(ran) > 0 {
			p.b.Sample(other, p.stack(ran...))
		}
	}
	p.leaves(other, 2, "select", idle...)
	p.pass(rest)
	p.do(p.b.Range(gotrace.KindRangeEnd, helper, reason, 0))
	p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, markPhase, 0))
	p.leaves(helper, 1, "select", idle...)
	p.runs(serving, 0)
}

// marksBeside is a service with one P in which a cycle begins in every tenth request, when n others come,
// too, and ends after some more requests, or at once. The collector takes a quarter of what these compute.
func marksBeside(n gotrace.GoID, atOnce bool) scene {
	end := func(p *play) { p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, markPhase, 0)) }
	return scene{procs: 1, cast: func(p *play) { worker(p); crowdServes(p) }, in: func(p *play, i int) {
		if i%10 == 3 && i > 10 && !atOnce {
			end(p)
		}
		computes := func(g gotrace.GoID) {
			p.computes(g, 0, 6*ms, "main.draw", "main.serve")
			p.b.Sample(g, p.stack("main.draw", "main.serve"))
		}
		if i%10 != 9 {
			computes(serving)
			return
		}
		for g := range n {
			p.wakes(0, crowd0+g)
		}
		p.wakes(serving, helper)
		p.do(p.b.Range(gotrace.KindRangeBegin, serving, markPhase, p.stack(byHeap...)))
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		for g := crowd0; g < crowd0+n; g++ {
			p.runs(helper, 0)
			p.do(p.b.Label(helper, "GC (fractional)"))
			p.computes(helper, 0, 2*ms, "runtime.gcDrain", "runtime.gcBgMarkWorker")
			p.b.Sample(helper, p.stack("runtime.gcDrain", "runtime.gcBgMarkWorker"))
			p.do(p.b.Yields(helper, "preempted", p.stack(collector...)))
			p.runs(g, 0)
			p.do(p.b.Task(g, "request"))
			computes(g)
			p.do(p.b.Done(g))
			p.waits(g, "network", home...)
		}
		p.runs(helper, 0)
		p.waits(helper, "system goroutine wait", collector...)
		if atOnce {
			end(p)
		}
		p.runs(serving, 0)
		computes(serving)
	}}
}

// gcScenes tell the causes of the garbage collector, and of what looks like it, apart.
var gcScenes = []told{
	{name: "workers have the only P longer than very many goroutines that mark for them", scene: scene{procs: 1, cast: func(p *play) {
		worker(p)
		crowdAtHome("main.tick")(p)
	}, in: every(10, func(p *play) {
		p.wakes(serving, helper)
		p.do(p.b.Range(gotrace.KindRangeBegin, serving, markPhase, p.stack(byHeap...)))
		for g := range crowd {
			p.wakes(0, crowd0+g)
		}
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.do(p.b.Label(helper, "GC (dedicated)"))
		p.computes(helper, 0, 20*ms, "runtime.gcDrain", "runtime.gcBgMarkWorker")
		p.waits(helper, "system goroutine wait", collector...)
		for g := crowd0; g < crowd0+crowd; g++ {
			p.runs(g, 0)
			p.pass(ms / 4)
			p.do(p.b.Range(gotrace.KindRangeBegin, g, "GC mark assist", p.stack("runtime.mallocgc", "main.tick")))
			p.pass(ms / 2)
			p.b.Sample(g, p.stack("runtime.mallocgc", "main.tick"))
			p.do(p.b.Range(gotrace.KindRangeEnd, g, "GC mark assist", 0))
			p.waits(g, "select", "runtime.selectgo", "main.tick")
		}
		p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, markPhase, 0))
		p.runs(serving, 0)
	})}, finding: "gc-workers", share: 0.85},
	{name: "requests wait behind each other while the collector marks", scene: marksBeside(2, false), alike: []string{"gc-workers", "quota-too-low", "gomaxprocs-over-quota", "host-contention"}},
	{name: "the collector marks where many requests come at a time", scene: marksBeside(20, true), finding: "overload", second: "gc-workers"},
	{name: "cycles that the heap began", scene: collected(byHeap), finding: "gc-workers"},
	{name: "cycles that the two-minute timer began", scene: collected(byTimer), finding: "gc-workers"},
	{name: "cycles that somebody forced", scene: collected(byCall), finding: "forced-gc", where: "main.tidy"},
	{name: "cycles to return memory", scene: collected(byFree), finding: "forced-gc", where: "main.shrink"},
	{name: "cycles that a heap profile forced", scene: collected(byHandler), finding: "forced-gc"},
	{name: "cycles that the tracer began", scene: collected(byTracer), finding: "observer"},
	{
		name: "forced cycles while requests are fast, and others while they are slow",
		scene: scene{procs: 1, cast: worker, in: func(p *play, i int) {
			if i%10 == 9 {
				cycle(p, 20*ms, heapSizes{}, byHeap)
			}
			if i%10 != 9 {
				cycle(p, ms, heapSizes{}, byCall)
			}
		}},
		finding: "gc-workers",
	},
	{
		name: "forced cycles are twice as long as the others",
		scene: scene{procs: 1, cast: worker, in: every(10, func(p *play) {
			cycle(p, 20*ms, heapSizes{}, byCall)
			cycle(p, 10*ms, heapSizes{}, byHeap)
		})},
		finding: "forced-gc", where: "main.tidy", share: 2. / 3, second: "gc-workers",
	},
	{name: "the collector stops the world", scene: stopped(sweepTerm, byHeap, ms, 19*ms), finding: "gc-pause"},
	{name: "somebody delays the collector's stop, or is kept from a CPU", scene: stopped(sweepTerm, byHeap, 19*ms, ms), alike: []string{"slow-to-stop", "host-contention", "page-faults"}},
	{name: "the stop is as long as the stopping", scene: stopped(sweepTerm, byHeap, 10*ms, 10*ms), alike: []string{"gc-pause", "slow-to-stop"}},
	{name: "the collector stops the world in every request, in some five times as long", scene: unlike(sweepTerm, byHeap, 4*ms, 20*ms), finding: "gc-pause"},
	{name: "the collector stops the world in every request, in some much longer", scene: unlike(sweepTerm, byHeap, ms/5, 20*ms), alike: []string{"gc-pause", "host-contention"}},
	{name: "statistics stop the world in every request, in some much longer", scene: unlike("stop-the-world (read mem stats)", []string{"runtime.ReadMemStats", "main.watch"}, ms/5, 20*ms), alike: []string{"stop-the-world", "host-contention"}},
	{name: "a forced cycle stops the world", scene: stopped(sweepTerm, byCall, ms, 19*ms), finding: "forced-gc", where: "main.tidy"},
	{name: "the stops are the smaller part of what a cycle takes", scene: scene{procs: 1, cast: worker, in: every(10, func(p *play) {
		p.do(p.b.Range(gotrace.KindRangeBegin, serving, sweepTerm, p.stack(byHeap...)))
		p.pass(4 * ms)
		p.do(p.b.Range(gotrace.KindRangeEnd, serving, sweepTerm, 0))
		cycle(p, 20*ms, heapSizes{}, byHeap)
	})}, finding: "gc-workers", share: 1},
	{name: "dumps of all stacks stop the world", scene: stopped("stop-the-world (all goroutines stack trace)", []string{"runtime.Stack", "main.census"}, ms, 19*ms), finding: "stop-the-world", where: "main.census"},
	{name: "memory statistics stop the world", scene: stopped("stop-the-world (read mem stats)", []string{"runtime.ReadMemStats", "main.watch"}, ms, 19*ms), finding: "stop-the-world", where: "main.watch"},
	{name: "the trace stops the world", scene: stopped("stop-the-world (start trace)", []string{"runtime.StartTrace", "runtime/trace.Start", "net/http/pprof.Trace"}, ms, 19*ms), finding: "observer"},
	{name: "the tracer's own goroutine has the only P", scene: scene{procs: 1, cast: func(p *play) { p.waits(helper, "", advances...) }, in: every(10, func(p *play) {
		p.wakes(0, helper)
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.computes(helper, 0, 20*ms, "runtime.traceAdvance", advances[1])
		p.waits(helper, "system goroutine wait", advances...)
		p.runs(serving, 0)
	})}, finding: "observer"},
	{name: "requests queue behind each other after the tracer's own goroutine has had the only P", scene: scene{procs: 1, cast: func(p *play) {
		p.waits(helper, "", advances...)
		crowdServes(p)
	}, in: every(10, func(p *play) {
		p.wakes(0, helper)
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.computes(helper, 0, 20*ms, "runtime.traceAdvance", advances[1])
		p.waits(helper, "system goroutine wait", advances...)
		crowdWorks(p, func() {})
		p.runs(serving, 0)
	})}, finding: "observer"},
	{name: "requests queue behind each other after the tracer, the collector and somebody else have had the only P", scene: scene{procs: 1, cast: func(p *play) {
		p.waits(helper, "", advances...)
		p.waits(marker, "", collector...)
		p.waits(hog, "", idle...)
		crowdServes(p)
	}, in: every(10, func(p *play) {
		p.wakes(0, helper)
		p.wakes(0, marker)
		p.wakes(0, hog)
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.computes(helper, 0, 14*ms, "runtime.traceAdvance", advances[1])
		p.waits(helper, "system goroutine wait", advances...)
		p.runs(marker, 0)
		p.computes(marker, 0, 10*ms, "runtime.gcDrain", "runtime.gcBgMarkWorker")
		p.waits(marker, "system goroutine wait", collector...)
		p.runs(hog, 0)
		p.computes(hog, 0, 13*ms, "main.model", "main.loop")
		p.waits(hog, "select", idle...)
		crowdWorks(p, func() {})
		p.runs(serving, 0)
	})}, finding: "cpu-hog", where: "main.model", second: "observer"},
	{name: "requests wait behind an expensive one beside the tracer's own goroutine", scene: scene{procs: 1, cast: func(p *play) {
		p.waits(helper, "", advances...)
		crowdServes(p)
	}, in: every(10, func(p *play) {
		p.wakes(0, helper)
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.computes(helper, 0, 25*ms, "runtime.traceAdvance", advances[1])
		p.waits(helper, "system goroutine wait", advances...)
		crowdDoes(p, func() {}, func(g gotrace.GoID) {
			if g == crowd0 {
				p.computes(g, 0, 40*ms, "main.report", "main.serve")
			}
			p.pass(ms / 10)
		})
		p.runs(serving, 0)
	})}, finding: "observer", share: 0.37, alike: []string{"expensive-request", "host-contention"}},
	{name: "somebody's goroutine profile stops the world", scene: stopped(profileStop, profileStack, ms, 19*ms), finding: "stop-the-world"},
	{name: "whylate's goroutine profile stops the world", scene: stopped(profileStop, profileStack, ms, 19*ms), set: ownProfiles, finding: "observer"},
	{name: "whylate asked for profiles while the service asked for its statistics", scene: stopped("stop-the-world (read mem stats)", []string{"runtime.ReadMemStats", "main.watch"}, ms, 19*ms), set: ownProfiles, finding: "stop-the-world"},
}

// marker and hog take the Ps beside the helper.
const marker, hog = gotrace.GoID(3), gotrace.GoID(4)

// advances is where the goroutine that ends generations waits.
var advances = []string{"runtime.gopark", "runtime.(*traceAdvancerState).start.func1"}

const profileStop = "stop-the-world (goroutine profile)"

var profileStack = []string{"runtime.goroutineProfileWithLabels", "runtime/pprof.writeGoroutine", "net/http/pprof.handler.ServeHTTP", "net/http.(*conn).serve"}

func TestTheCollectorsCausesAreToldApart(t *testing.T) { tell(t, gcScenes) }

// Who could own what another entry has claimed is ruled out by what speaks against it, not
// by how little is left.
func TestWhatIsClaimedIsRuledOutByEvidence(t *testing.T) {
	for _, r := range cause.Judge(attributed(t, collected(byHeap)), cause.Settings{}).RuledOut {
		if r.Cause == "cpu-hog" {
			if r.ByShare || !strings.Contains(r.Because, "executed mostly GC workers") {
				t.Errorf("by share %t: %s", r.ByShare, r.Because)
			}
			return
		}
	}
	t.Error("cpu-hog is not ruled out")
}

// ownProfiles say that whylate asked for profiles all the time.
var ownProfiles = cause.Settings{Own: []timeline.Span{{Start: 0, End: math.MaxInt64}}}

// What the recording cost is not held against the service, even where it is too
// little to be named; what others cost is.
func TestTheRecordingsOwnCostIsNotTheServices(t *testing.T) {
	costs := func(at []string) scene {
		return scene{procs: 1, cast: worker, in: every(10, func(p *play) {
			cycle(p, 900*ms/1000, heapSizes{}, at)
			slow(1900*ms/1000).in(p, 0)
		})}
	}
	for _, c := range []struct {
		name    string
		at      []string
		slo     int64
		verdict string
	}{
		{"the recording's", byTracer, 0, "healthy"},
		{"the heap's", byHeap, 0, "cause"},
		{"the recording's, and an objective that holds without it", byTracer, 3 * ms, "healthy"},
		{"the recording's, and an objective that does not", byTracer, 2 * ms, "cause"},
		{"the heap's, and the same objective", byHeap, 3 * ms, "cause"},
	} {
		v := cause.Judge(attributed(t, costs(c.at)), cause.Settings{SLO: c.slo})
		if v.Verdict != c.verdict || strings.Contains(v.Sentence, "The recording itself") != (v.Verdict == "healthy") {
			t.Errorf("%s: %s: %s", c.name, v.Verdict, v.Sentence)
		}
	}
}

// What it cost in a few stretches may be less than that: it is told, but not named.
func TestTheRecordingsOwnCostInAFewStretchesIsNotNamed(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 1, cast: worker, in: func(p *play, i int) {
		if i%120 == 119 {
			cycle(p, 8*ms, heapSizes{}, byTracer)
		}
		if i%20 == 19 {
			slow(1900*ms/1000).in(p, 0)
		}
	}}), cause.Settings{})
	if v.Verdict != "healthy" || len(v.Findings) > 0 || !strings.Contains(v.Sentence, "The recording itself cost slow requests 1.2") {
		t.Errorf("%s, %+v: %s", v.Verdict, v.Findings, v.Sentence)
	}
}

// What arrives in a stop begins, by the service's own clock, when the world runs again.
func TestStopsBetweenRequestsAreFelt(t *testing.T) {
	for _, c := range []struct {
		reason         string
		every          int
		stopping, rest int64
		ran            []string
		finding, where string
	}{
		{"stop-the-world (all goroutines stack trace)", 40, ms / 10, 25 * ms, nil, "stop-the-world", "main.watch"},
		{"stop-the-world (all goroutines stack trace)", 40, ms / 10, ms / 2, nil, "", ""},
		{"stop-the-world (all goroutines stack trace)", 300, ms / 10, 25 * ms, nil, "", ""},
		{"stop-the-world (GC sweep termination)", 40, ms / 10, 25 * ms, nil, "", ""},
		{"stop-the-world (GC sweep termination)", 40, 25 * ms, ms / 10, copies, "slow-to-stop", "main.bind"},
		{"stop-the-world (GC sweep termination)", 40, 25 * ms, ms / 10, nil, "slow-to-stop or page-faults", ""},
		{"stop-the-world (GC sweep termination)", 300, 25 * ms, ms / 10, copies, "", ""},
		{"stop-the-world (all goroutines stack trace)", 40, 25 * ms, ms / 10, copies, "slow-to-stop", "main.bind"},
	} {
		v := cause.Judge(attributed(t, scene{procs: 3, plain: true, cast: stopper, in: func(p *play, i int) {
			if i%c.every == c.every-1 {
				stop(p, c.reason, []string{"runtime.Stack", "main.watch"}, c.stopping, c.rest, c.ran...)
			}
			p.do(p.b.Task(serving, "request"))
			p.pass(ms / 10)
			p.do(p.b.Done(serving))
			p.leaves(serving, 0, "network", home...)
		}}), cause.Settings{})
		got, where := "", ""
		for _, f := range v.Findings {
			if got = f.Cause; f.Where != nil {
				where = f.Where.Function
			}
		}
		for _, x := range v.Consistent {
			got = strings.Join(x.Causes[:2], " or ")
		}
		if got != c.finding || where != c.where || got != "" && !strings.Contains(v.Sentence, "before the process sees") {
			t.Errorf("%s, one in %d for %d and %d ms: %q at %q, %s", c.reason, c.every, c.stopping/ms, c.rest/ms, got, where, v.Sentence)
		}
	}
}

// With GOGC off only a memory limit begins cycles: GOGC changes nothing then, and nobody is told to.
func TestWithoutGOGCTheLimitIsWhatToRaise(t *testing.T) {
	for name, c := range map[string]struct {
		sizes heapSizes
		off   bool
	}{
		"GOGC is off": {heapSizes{100 << 20, 50 << 20, 0}, true},
		"it is on":    {heapSizes{100 << 20, 50 << 20, 100 << 20}, false},
		"not known":   {heapSizes{}, false},
	} {
		v := cause.Judge(attributed(t, scene{procs: 1, cast: worker, in: every(10, func(p *play) { cycle(p, 20*ms, c.sizes, byHeap) })}), cause.Settings{})
		if len(v.Findings) == 0 || v.Findings[0].Cause != "gc-workers" {
			t.Errorf("%s: %s", name, v.Sentence)
			continue
		}
		f := &v.Findings[0]
		told, fix := strings.Contains(strings.Join(f.Evidence, "\n"), "GOGC is off"), strings.HasPrefix(f.Fix[0], "raise the memory limit")
		if told != c.off || fix != c.off {
			t.Errorf("%s: %q %q", name, f.Evidence, f.Fix)
		}
	}
}
