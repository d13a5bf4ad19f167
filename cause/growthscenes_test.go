package cause_test

import (
	"slices"
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// What stands above the program's own code while it makes room for more.
var (
	appends    = []string{"runtime.memmove", "runtime.growslice"}
	buffers    = []string{"runtime.memmove", "bytes.growSlice", "bytes.(*Buffer).grow", "bytes.(*Buffer).Write"}
	rehashes   = []string{"runtime.memhash64", "internal/runtime/maps.(*table).grow", "internal/runtime/maps.(*table).rehash", "runtime.mapassign_fast64"}
	evacuates  = []string{"runtime.memmove", "runtime.evacuate_fast64", "runtime.growWork_fast64", "runtime.mapassign_fast64"}
	stacks     = []string{"runtime.memmove", "runtime.copystack", "runtime.newstack"}
	asksForIt  = []string{"runtime.mallocgc", "runtime.makeslice"}
	marksForIt = []string{"runtime.gcDrainN", "runtime.gcAssistAlloc", "runtime.mallocgc", "runtime.growslice"}
	callsBack  = []string{"main.hash", "runtime.mapassign_fast64", "internal/runtime/maps.(*table).grow"}
)

// burns is CPU time of every tenth request, at stacks above its own code, a time each.
func burns(ns int64, above ...[]string) scene {
	return scene{procs: 2, in: every(10, func(p *play) {
		for _, at := range above {
			p.computes(serving, 0, ns, with(at, "main.page", "main.serve")...)
		}
	})}
}

var growthScenes = []told{
	{name: "a slice grows", scene: burns(40*ms, appends), finding: "growth", where: "main.page"},
	{name: "a buffer grows", scene: burns(40*ms, buffers), finding: "growth", where: "main.page"},
	{name: "a map grows", scene: burns(40*ms, rehashes), finding: "growth", where: "main.page"},
	{name: "a map of old grows", scene: burns(40*ms, evacuates), finding: "growth", where: "main.page"},
	{name: "a stack grows", scene: burns(40*ms, stacks), finding: "growth", where: "main.page"},
	{name: "a slice grows, and what is put into it takes half as long", scene: burns(20*ms, appends, appends, nil), finding: "growth", where: "main.page", second: "expensive-request"},
	{name: "a slice grows, but what is put into it takes twice as long", scene: burns(20*ms, appends, nil, nil), finding: "expensive-request", where: "main.page", share: 1},
	{name: "a slice grows, as samples of one in three of its stretches show", scene: scene{procs: 2, in: every(10, func(p *play) {
		for k := range 18 {
			p.pass(10 * ms / 3)
			if k%3 == 2 {
				p.b.Sample(serving, p.stack(with(appends, "main.page", "main.serve")...))
			}
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.runs(serving, 0)
		}
	})}, finding: "growth", where: "main.page", share: 1},
	{name: "a large slice is made at once", scene: burns(40*ms, asksForIt), finding: "expensive-request"},
	{name: "the collector makes who grows a slice mark", scene: burns(40*ms, marksForIt), finding: "expensive-request"},
	{name: "the program's own code runs while a map grows", scene: burns(40*ms, callsBack), finding: "expensive-request"},
	{name: "a slice grows in every request alike, and some compute", scene: scene{procs: 2, in: func(p *play, i int) {
		p.computes(serving, 0, 10*ms, with(appends, "main.page", "main.serve")...)
		if i%10 == 9 {
			p.computes(serving, 0, 40*ms, "main.page", "main.serve")
		}
	}}, finding: "expensive-request"},
	{name: "a slice grows once in a few requests, in so little time that samples are few", scene: scene{procs: 2, requests: 60, in: every(10, func(p *play) {
		p.computes(serving, 0, 10*ms, with(appends, "main.page", "main.serve")...)
	})}, alike: []string{"growth", "expensive-request"}},
	{name: "requests wait behind one that grows a slice, on one P", scene: scene{procs: 1, cast: crowdServes, in: every(10, func(p *play) {
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		crowdDoes(p, func() {}, func(g gotrace.GoID) {
			if g == crowd0 {
				p.computes(g, 0, 40*ms, with(appends, "main.page", "main.serve")...)
			}
			p.pass(ms / 10)
		})
		p.runs(serving, 0)
	})}, finding: "growth", where: "main.page"},
	{name: "a reply is in, but one P grows a slice, and the GC worker of the other waits for that to stop", scene: scene{procs: 2, cast: func(p *play) {
		crowdServes(p)
		p.waits(helper, "", collector...)
	}, in: every(10, func(p *play) {
		p.wakes(0, crowd0)
		p.runs(crowd0, 1)
		p.do(p.b.Task(crowd0, "request"))
		p.wakes(serving, helper)
		p.waits(serving, "network", reply...)
		p.runs(helper, 0)
		p.do(p.b.Label(helper, "GC (idle)"))
		p.pass(ms)
		p.wakes(0, serving)
		for range 4 {
			p.pass(10 * ms)
			p.b.Sample(crowd0, p.stack(with(appends, "main.page", "main.serve")...))
		}
		p.do(p.b.Done(crowd0))
		p.leaves(crowd0, 1, "network", home...)
		p.waits(helper, "system goroutine wait", collector...)
		p.runs(serving, 0)
	})}, finding: "growth", where: "main.page"},
	{name: "a slice grows while its lock is held", scene: scene{procs: 2, cast: waitingHelper, in: every(10, behindHelper("sync", mutex, unlock, func(p *play) {
		p.computes(helper, 1, 40*ms, with(appends, "main.refresh", "main.loop")...)
	}))}, finding: "lock-held-across-work", where: "main.refresh"},
	{name: "a slice in the background grows and has the only P", scene: scene{procs: 1, cast: waitingHelper, in: every(10, func(p *play) {
		p.wakes(serving, helper, "main.start", "main.serve")
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.computes(helper, 0, 40*ms, with(appends, "main.refresh", "main.loop")...)
		p.waits(helper, "select", idle...)
		p.runs(serving, 0)
	})}, finding: "cpu-hog", where: "main.refresh"},
}

func TestGrowthIsToldFromWork(t *testing.T) { tell(t, growthScenes) }

// What grows into fresh memory has to be given it; what waits for a page does not grow.
func TestGrowthIsToldFromPageFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		above []string
		slow  func(*host.Sample)
		want  string
	}{
		{"a slice grows into fresh memory", appends, clearing, "growth"},
		{"a slice grows within memory that it has", appends, calm, "growth"},
		{"a slice grows out of memory that was swapped out", appends, faulting, "page-faults"},
		{"fresh memory is written to", nil, clearing, "page-faults"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, burns(20*ms, c.above)), cause.Settings{Host: seen(host.Static{}, c.slow, calm)})
			var named []string
			for _, f := range v.Findings {
				named = append(named, f.Cause)
			}
			if !slices.Equal(named, []string{c.want}) {
				t.Errorf("named %q, want %s: %s", named, c.want, v.Sentence)
			}
		})
	}
}
