package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// The goroutines that run finalizers and cleanups, waiting for some, by Go's version.
var (
	finalizers22 = []string{"runtime.runfinq"}
	finalizers26 = []string{"runtime.runFinalizers"}
	cleanups26   = []string{"runtime.goparkunlock", "runtime.(*cleanupQueue).dequeue", "runtime.runCleanups"}
)

// Where requests wait for what finalizers give back, where these do, and at what they
// have to do before.
var (
	borrows    = []string{"runtime.chanrecv1", "main.borrow", "main.serve"}
	shelved    = []string{"runtime.chansend1", "main.shelve"}
	registered = []string{"time.Sleep", "main.enter"}
	strengthen = []string{"runtime.gcParkStrongFromWeak", "weak.runtime_makeStrongFromWeak", "weak.Pointer[...].Value", "main.lookUp", "main.serve"}
)

// finalizing is a service whose every tenth request waits for the helper, which is at
// home at a stack, does something when the collector has woken it after some time, and
// gives back.
func finalizing(at []string, after int64, does func(p *play, root string)) scene {
	root := at[len(at)-1]
	return scene{procs: 2, cast: func(p *play) { p.waits(helper, "", at...) }, in: every(10, func(p *play) {
		p.leaves(serving, 0, "chan receive", borrows...)
		p.pass(after)
		p.wakes(0, helper)
		p.runs(helper, 1)
		does(p, root)
		p.leaves(helper, 1, "system goroutine wait", at...)
		p.runs(serving, 0)
	})}
}

func shelves(p *play, root string) { p.wakes(helper, serving, with(shelved, root)...) }

// inquires is shelves of what somebody was asked about first.
func inquires(p *play, root string) {
	p.leaves(helper, 1, "sleep", with(registered, root)...)
	p.pass(15 * ms)
	p.wakes(0, helper)
	p.runs(helper, 1)
	p.wakes(helper, serving, "runtime.chansend1", "main.shelve", "main.enter", root)
}

// erases is shelves of what is overwritten first.
func erases(p *play, root string) {
	p.computes(helper, 1, 20*ms, "main.erase", "main.enter", root)
	p.wakes(helper, serving, "runtime.chansend1", "main.shelve", "main.enter", root)
}

// sends is shelves by a goroutine of its own.
func sends() func(p *play, root string) {
	child := gotrace.GoID(100)
	return func(p *play, root string) {
		child++
		p.do(p.b.Starts(helper, 1, child, p.stack("main.enter", root), p.stack("main.enter.func1")))
		p.do(p.b.Yields(helper, "preempted", p.stack(root)))
		p.runs(child, 1)
		p.pass(us)
		p.wakes(child, serving, "runtime.chansend1", "main.enter.func1")
		p.do(p.b.Ends(child))
		p.runs(helper, 1)
	}
}

// lending is a service whose every tenth request waits until another one gives back,
// and every hundredth until a finalizer does.
func lending(finalized int) scene {
	return scene{procs: 2, cast: func(p *play) {
		p.waits(helper, "", finalizers26...)
		p.waits(other, "", home...)
	}, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		if i/10%10 < finalized {
			p.leaves(serving, 0, "chan receive", borrows...)
			p.pass(15 * ms)
			p.wakes(0, helper)
			p.runs(helper, 1)
			shelves(p, "runtime.runFinalizers")
			p.leaves(helper, 1, "system goroutine wait", finalizers26...)
			p.runs(serving, 0)
			return
		}
		p.wakes(0, other)
		p.runs(other, 1)
		p.do(p.b.Task(other, "request"))
		p.leaves(other, 1, "sleep", uses...)
		p.leaves(serving, 0, "chan receive", borrows...)
		p.pass(15 * ms)
		p.wakes(0, other)
		p.runs(other, 1)
		p.wakes(other, serving, "runtime.chansend1", "main.shelve", "main.serve")
		ends(p)
		p.runs(serving, 0)
	}}
}

// neverBack is a service in which a finalizer gives back every tenth time, until it does
// no more: then requests, which wait at a stack, do so until a deadline.
func neverBack(at ...string) func(p *play, i int) {
	return func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		p.leaves(serving, 0, "select", at...)
		if i < 300 {
			p.pass(2 * ms)
			p.wakes(0, helper)
			p.runs(helper, 1)
			shelves(p, "runtime.runFinalizers")
			p.leaves(helper, 1, "system goroutine wait", finalizers26...)
		} else {
			p.pass(30 * ms)
			p.expires(serving)
		}
		p.runs(serving, 0)
	}
}

// lockedOut is a service whose requests wait for a lock while its holder waits for a
// finalizer.
func lockedOut(p *play) {
	p.wakes(serving, other, "main.start", "main.serve")
	p.runs(other, 1)
	p.leaves(serving, 0, "sync", mutex...)
	p.leaves(other, 1, "chan receive", "runtime.chanrecv1", "main.borrow", "main.refresh", "main.loop")
	p.pass(15 * ms)
	p.wakes(0, helper)
	p.runs(helper, 0)
	p.wakes(helper, other, with(shelved, "runtime.runFinalizers")...)
	p.leaves(helper, 0, "system goroutine wait", finalizers26...)
	p.runs(other, 1)
	p.wakes(other, serving, unlock...)
	p.leaves(other, 1, "select", idle...)
	p.runs(serving, 0)
}

// What finalizers give back, and what looks like it.
var finalizerScenes = []told{
	{name: "what is given back by a finalizer, which has to wait for the collector", scene: finalizing(finalizers26, 15*ms, shelves), finding: "finalizer-backlog", where: "main.borrow", share: 1},
	{name: "the same in go1.22", scene: finalizing(finalizers22, 15*ms, shelves), finding: "finalizer-backlog", where: "main.borrow", share: 1},
	{name: "the same by a cleanup", scene: finalizing(cleanups26, 15*ms, shelves), finding: "finalizer-backlog", where: "main.borrow", share: 1},
	{name: "a finalizer starts a goroutine that gives it back", scene: finalizing(finalizers26, 15*ms, sends()), finding: "finalizer-backlog", where: "main.borrow", share: 1},
	{name: "a finalizer asks somebody before", scene: finalizing(finalizers26, ms, inquires), finding: "finalizer-backlog", where: "main.enter", share: 1},
	{name: "a finalizer computes before", scene: finalizing(finalizers26, ms, erases), finding: "finalizer-backlog", where: "main.enter", share: 1},
	{name: "a goroutine of the service asks somebody before it gives back", scene: finalizing([]string{"runtime.selectgo", "main.loop"}, ms, inquires), finding: "single-worker", where: "main.enter", share: 1},
	{name: "a finalizer gives back what one request in ten has forgotten", scene: lending(1), finding: "timer-wait", where: "main.use"},
	{name: "finalizers give back what eight requests in ten have forgotten", scene: lending(8), finding: "finalizer-backlog", where: "main.borrow", second: "timer-wait"},
	{name: "the finalizers give nothing back in time", scene: scene{procs: 2, cast: func(p *play) { p.waits(helper, "", finalizers26...) }, in: neverBack("runtime.selectgo", "main.borrow", "main.serve")}, finding: "finalizer-backlog", where: "main.borrow"},
	{name: "cleanups give no permits back in time", scene: scene{procs: 2, cast: func(p *play) { p.waits(helper, "", finalizers26...) }, in: neverBack("runtime.selectgo", "golang.org/x/sync/semaphore.(*Weighted).Acquire", "main.borrow", "main.serve")}, finding: "finalizer-backlog", where: "main.borrow"},
	{name: "a lock is held while its holder waits for a finalizer", scene: scene{procs: 2, cast: func(p *play) {
		p.waits(helper, "", finalizers26...)
		p.waits(other, "", idle...)
	}, in: every(10, lockedOut)}, finding: "lock-held-across-wait", share: 1},
	{name: "a weak pointer waits for the end of marking", scene: scene{procs: 2, in: every(10, func(p *play) {
		p.leaves(serving, 0, "GC weak to strong wait", strengthen...)
		p.pass(15 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	})}, finding: "finalizer-backlog", where: "main.lookUp", share: 1},
	{name: "a request waits for the credit of the collector", scene: scene{procs: 2, in: every(10, func(p *play) {
		p.leaves(serving, 0, "GC mark assist wait for work", "runtime.gcParkAssist", "runtime.gcAssistAlloc", "runtime.mallocgc", "main.page", "main.serve")
		p.pass(15 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	})}},
}

func TestFinalizersAreToldFromPoolsAndWorkers(t *testing.T) { tell(t, finalizerScenes) }
