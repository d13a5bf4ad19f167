package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// booked is a service whose requests ask one goroutine and wait for its answer, and then send what became of it to another one,
// all in one function. Of ten times the second one sleeps once, and what it was sent before has filled its channel.
func booked() scene {
	const auditor = replies
	takes := []string{"runtime.chanrecv2", "main.audit"}
	return scene{procs: 2, cast: func(p *play) {
		waitingHelper(p)
		p.waits(auditor, "", takes...)
	}, in: func(p *play, i int) {
		p.wakes(serving, helper, "runtime.chansend1", "main.serve")
		p.runs(helper, 1)
		p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.serve")
		p.pass(ms / 10)
		p.wakes(helper, serving, "runtime.chansend1", "main.book")
		p.leaves(helper, 1, "chan receive", "runtime.chanrecv2", "main.book")
		p.runs(serving, 0)
		p.wakes(serving, auditor, "runtime.chansend1", "main.serve")
		p.runs(auditor, 1)
		if i%10 == 9 {
			p.leaves(serving, 0, "chan send", "runtime.chansend1", "main.serve")
			p.leaves(auditor, 1, "sleep", "time.Sleep", "main.rotate", "main.audit")
			p.pass(20 * ms)
			p.wakes(0, auditor)
			p.runs(auditor, 1)
			p.wakes(auditor, serving, takes...)
			p.leaves(auditor, 1, "chan receive", takes...)
			p.runs(serving, 0)
			return
		}
		p.pass(ms / 100)
		p.leaves(auditor, 1, "chan receive", takes...)
	}}
}

// kitchen is a service of three workers that take requests' jobs from one channel without a buffer, and answer them. Of ten times
// seven jobs come at once.
func kitchen() scene {
	const n, workers = 6, 3
	worker := func(i int) gotrace.GoID { return helper + gotrace.GoID(i) }
	takes := []string{"runtime.chanrecv2", "main.worker"}
	proc := func(g gotrace.GoID) gotrace.ProcID {
		if g == serving {
			return 0
		}
		return 2
	}
	return scene{procs: 3, cast: func(p *play) {
		for g := crowd0; g < crowd0+n; g++ {
			p.waits(g, "", home...)
		}
		for i := range workers {
			p.waits(worker(i), "", takes...)
		}
	}, in: func(p *play, i int) {
		var come []gotrace.GoID
		if i%10 == 9 {
			for g := crowd0; g < crowd0+n; g++ {
				come = append(come, g)
			}
		}
		come = append(come, serving) // the last one: what it does behind its answer is its request's
		var queued []gotrace.GoID
		doing := map[gotrace.GoID]gotrace.GoID{}
		answer := func(g gotrace.GoID) { p.leaves(g, proc(g), "chan receive", "runtime.chanrecv1", "main.serve") }
		works := func(w gotrace.GoID) { p.leaves(w, 1, "sleep", "time.Sleep", "main.render", "main.worker") }
		for k, g := range come {
			if g != serving {
				p.wakes(0, g)
				p.runs(g, 2)
				p.do(p.b.Task(g, "request"))
			}
			if k >= workers {
				p.leaves(g, proc(g), "chan send", "runtime.chansend1", "main.serve")
				queued = append(queued, g)
				continue
			}
			p.wakes(g, worker(k), "runtime.chansend1", "main.serve")
			answer(g)
			p.runs(worker(k), 1)
			doing[worker(k)] = g
			works(worker(k))
		}
		for len(doing) > 0 {
			p.pass(4 * ms)
			for k := range workers {
				w := worker(k)
				g, busy := doing[w]
				if !busy {
					continue
				}
				p.wakes(0, w)
				p.runs(w, 1)
				p.wakes(w, g, "runtime.chansend1", "main.worker")
				p.runs(g, proc(g))
				if g != serving {
					p.do(p.b.Done(g))
					p.leaves(g, 2, "network", home...)
				}
				delete(doing, w)
				if len(queued) == 0 {
					p.leaves(w, 1, "chan receive", takes...)
					continue
				}
				g, queued = queued[0], queued[1:]
				p.wakes(w, g, takes...)
				p.runs(g, proc(g))
				answer(g)
				doing[w] = g
				works(w)
			}
		}
	}}
}

// outbox is a service whose requests send to one goroutine and wait for no answer. Of ten times it sleeps once, while several
// come, and then takes what they have to send all at once. A request of another kind it tells something each time.
func outbox() scene {
	const n, watching = 6, replies
	takes := []string{"runtime.chanrecv2", "main.publish"}
	return scene{procs: 2, cast: func(p *play) {
		waitingHelper(p)
		p.waits(watching, "", home...)
		for g := crowd0; g < crowd0+n; g++ {
			p.waits(g, "", home...)
		}
	}, in: func(p *play, i int) {
		p.wakes(serving, helper, "runtime.chansend1", "main.serve")
		p.runs(helper, 1)
		if i%10 != 9 {
			p.pass(ms / 100)
			p.leaves(helper, 1, "chan receive", takes...)
			return
		}
		p.leaves(helper, 1, "sleep", "time.Sleep", "main.flush", "main.publish")
		p.wakes(0, watching)
		p.runs(watching, 1)
		p.do(p.b.Task(watching, "watch"))
		p.leaves(watching, 1, "chan receive", "runtime.chanrecv1", "main.watch", "main.follow")
		send := []string{"runtime.chansend1", "main.order", "main.serve"}
		for g := crowd0; g < crowd0+n; g++ {
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Task(g, "request"))
			p.leaves(g, 1, "chan send", send...)
		}
		p.leaves(serving, 0, "chan send", send...)
		p.pass(20 * ms)
		p.wakes(0, helper)
		p.runs(helper, 1)
		for g := crowd0; g < crowd0+n; g++ {
			p.wakes(helper, g, takes...)
		}
		p.wakes(helper, serving, takes...)
		p.wakes(helper, watching, "runtime.chansend1", "main.publish")
		p.leaves(helper, 1, "chan receive", takes...)
		for g := crowd0; g < crowd0+n; g++ {
			p.runs(g, 1)
			p.do(p.b.Done(g))
			p.leaves(g, 1, "network", home...)
		}
		p.runs(watching, 1)
		p.done(watching, 1)
		p.runs(serving, 0)
	}}
}

func TestWhoSendsAndReceivesInOneFunctionWaitsAtTwoPlaces(t *testing.T) {
	tell(t, []told{
		{name: "for an answer, and until another one has room", scene: booked(), finding: "back-pressure", where: "main.rotate"},
		{name: "until there is room for many at once", scene: outbox(), finding: "back-pressure", where: "main.flush"},
		{name: "for one of several to take it, and for its answer", scene: kitchen(), finding: "pool-exhausted", where: "main.serve"},
	})
}

// A lock may be that of a helper package, which takes it and calls what it is given, or has functions that take it and give it
// back: who holds it is who was given, or stands between the two.
func TestWhoHoldsALockThatAPackageKeeps(t *testing.T) {
	with := "example.com/shop/guard.(*Value[...]).With"
	behind := func(at, release []string, in ...string) scene {
		return scene{procs: 2, cast: waitingHelper, in: every(10, behindHelper("sync", at, release, func(p *play) {
			p.computes(helper, 1, 20*ms, in...)
		}))}
	}
	lock := []string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock"}
	waits := append(lock, with, "main.show", "main.serve")
	release := []string{"sync.(*Mutex).Unlock", with, "main.(*shop).sync", "main.loop"}
	asks := scene{procs: 2, cast: func(p *play) {
		waitingHelper(p)
		p.waits(replies, "", readLoop...)
	}, in: every(10, behindHelper("sync", waits, release, func(p *play) {
		p.leaves(helper, 1, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "net/http.(*Client).Get", "main.(*shop).sync.func1", with, "main.(*shop).sync", "main.loop")
		p.pass(20 * ms)
		p.wakes(0, replies)
		p.do(p.b.Busy(1))
		p.runs(replies, 1)
		p.wakes(replies, helper, "runtime.chansend1", "net/http.(*persistConn).readLoop")
		p.leaves(replies, 1, "network", readLoop...)
		p.runs(helper, 1)
		p.pass(ms / 100)
	}))}
	tell(t, []told{
		{name: "a literal that waits", scene: asks, finding: "lock-held-across-wait", where: "main.(*shop).sync.func1"},
		{name: "a literal", scene: behind(waits, release, "main.sort", "main.(*shop).sync.func1", with, "main.(*shop).sync", "main.loop"),
			finding: "lock-held-across-work", where: "main.(*shop).sync.func1"},
		{name: "a function of the package that gives it", scene: behind(waits, release, "main.sort", "main.order", with, "main.(*shop).sync", "main.loop"),
			finding: "lock-held-across-work", where: "main.order"},
		{name: "what it calls itself", scene: behind(waits, release, "example.com/shop/guard.copy", with, "main.(*shop).sync", "main.loop"),
			finding: "lock-held-across-work", where: with},
		{name: "what it calls of a package that it imports", scene: behind(waits, release, "example.com/shop/deep.Copy", with, "main.(*shop).sync", "main.loop"),
			finding: "lock-held-across-work", where: with},
		{name: "what it calls of a package that stands farther out, too", scene: behind(waits, []string{"sync.(*Mutex).Unlock", with, "main.(*shop).sync", "example.com/shop/obs.Run", "main.loop"},
			"example.com/shop/obs.Encode", with, "main.(*shop).sync", "example.com/shop/obs.Run", "main.loop"), finding: "lock-held-across-work", where: with},
		{name: "a lock's own functions", scene: behind(append(lock, "example.com/shop/guard.(*Lock).Take", "main.serve"),
			[]string{"sync.(*Mutex).Unlock", "example.com/shop/guard.(*Lock).Give", "main.(*shop).rotate", "main.loop"}, "main.generate", "main.(*shop).rotate", "main.loop"),
			finding: "lock-held-across-work", where: "main.(*shop).rotate"},
	})
}
