package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// exporting lets n other requests start a child each, which computes for so long on the only
// P; the request of the scene waits behind these.
func exporting(n gotrace.GoID, ns int64) func(p *play) {
	return exportingMet(n, ns, func(*play, gotrace.GoID) {})
}

// exportingMet does so, and lets the request meet a child that has computed.
func exportingMet(n gotrace.GoID, ns int64, meet func(p *play, child gotrace.GoID)) func(p *play) {
	child := gotrace.GoID(1000)
	return func(p *play) {
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		for g := crowd0; g < crowd0+n; g++ {
			p.wakes(0, g)
		}
		for g := crowd0; g < crowd0+n; g++ {
			p.runs(g, 0)
			p.do(p.b.Task(g, "request"))
			p.do(p.b.Starts(g, gotrace.NoProc, child+g, p.stack("main.export", "main.serve"), p.stack("main.export.func1")))
			p.seen[child+g] = true
			p.waits(g, "sync", "sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "main.export", "main.serve")
		}
		for g := crowd0; g < crowd0+n; g++ {
			p.runs(child+g, 0)
			p.computes(child+g, 0, ns, "main.chunk", "main.export.func1")
			if ns < 10*ms && g%10 == 9 {
				p.b.Sample(child+g, p.stack("main.chunk", "main.export.func1"))
			}
			meet(p, child+g)
			p.wakes(child+g, g, "sync.(*WaitGroup).Done", "main.export.func1")
			p.do(p.b.Ends(child + g))
			p.runs(g, 0)
			p.do(p.b.Done(g))
			p.waits(g, "network", home...)
		}
		child += n
		p.runs(serving, 0)
	}
}

// Requests that wait for a P behind work for others like them are too many; behind work for
// few others that is much more than their own they are not.
var strangeScenes = []told{
	{name: "the child of a rare request has the only P", scene: scene{procs: 1, cast: crowdServes, in: every(10, exporting(1, 20*ms))},
		finding: "cpu-hog", where: "main.chunk"},
	{name: "the child of a rare request has the only P, and ends a cycle of the collector after which the other request asks, too", scene: scene{procs: 1, cast: crowdServes,
		in: every(10, exportingMet(1, 20*ms, func(p *play, child gotrace.GoID) {
			p.do(p.b.Yields(child, "preempted", p.stack("main.chunk", "main.export.func1")))
			p.runs(serving, 0)
			p.waits(serving, "sync", "runtime.semacquire", "runtime.gcMarkDone", "runtime.gcAssistAlloc", "main.serve")
			p.runs(child, 0)
			p.pass(ms / 100)
			p.wakes(child, serving, "runtime.semrelease", "runtime.gcMarkDone", "runtime.gcAssistAlloc", "main.chunk", "main.export.func1")
		}))}, finding: "cpu-hog", where: "main.chunk"},
	{name: "the children of rare requests have the only P for most of the recording", scene: scene{procs: 1, cast: crowdServes, in: every(10, exporting(1, 190*ms))},
		finding: "overload", where: "main.chunk"},
	{name: "children of many requests wait for the only P, each of which computes as much as who waits", scene: scene{procs: 1, cast: crowdServes, in: every(10, exporting(crowd, ms))},
		finding: "overload", where: "main.chunk"},
	{name: "a rare request of another endpoint has the only P", scene: scene{procs: 1, cast: crowdServes, in: every(10, func(p *play) {
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.wakes(0, crowd0)
		p.runs(crowd0, 0)
		p.do(p.b.Task(crowd0, "report"))
		p.computes(crowd0, 0, 20*ms, "main.report", "main.serve")
		p.do(p.b.Done(crowd0))
		p.waits(crowd0, "network", home...)
		p.runs(serving, 0)
	})}, finding: "cpu-hog", where: "main.report"},
	{name: "requests of other endpoints have the only P, each as briefly", scene: scene{procs: 1, cast: crowdServes, in: every(10, func(p *play) {
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		for g := range crowd {
			p.wakes(0, crowd0+g)
		}
		for g := range crowd {
			p.runs(crowd0+g, 0)
			p.do(p.b.Task(crowd0+g, "report"))
			p.pass(ms)
			if g%10 == 9 {
				p.b.Sample(crowd0+g, p.stack("main.report", "main.serve"))
			}
			p.do(p.b.Done(crowd0 + g))
			p.waits(crowd0+g, "network", home...)
		}
		p.runs(serving, 0)
	})}, finding: "overload", where: "main.report"},
	{name: "another request that computes as much happens to have the only P", scene: scene{procs: 1, cast: crowdServes, in: then(everyTime(func(p *play) { p.computes(serving, 0, 5*ms) }), every(10, exporting(1, 5*ms)))}},
	{name: "several others that compute as much have the only P", scene: scene{procs: 1, cast: crowdServes, in: then(everyTime(func(p *play) { p.computes(serving, 0, 5*ms) }), every(10, exporting(4, 5*ms)))},
		alike: []string{"overload", "quota-too-low", "gomaxprocs-over-quota", "host-contention"}},
}

func TestOverloadIsToldFromWorkForOthers(t *testing.T) { tell(t, strangeScenes) }
