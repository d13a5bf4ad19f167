package cause_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	_ "github.com/whylate/whylate/cause/all"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
)

// helper is a goroutine that requests meet.
const helper = gotrace.GoID(2)

// The stacks of the plays.
var (
	mutex    = []string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "main.get", "main.serve"}
	idle     = []string{"runtime.selectgo", "main.loop"}
	receive  = []string{"runtime.chanrecv1", "main.ask", "main.serve"}
	send     = []string{"runtime.chansend1", "main.tell", "main.serve"}
	readLoop = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop"}
	choose   = []string{"runtime.selectgo", "main.ask", "main.serve"}
	reply    = []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.call", "main.serve"}
)

// waitingHelper waits for work all the time.
func waitingHelper(p *play) { p.waits(helper, "", idle...) }

// bothSelect lets the request wake the helper from one select, and then wait in another one, or the same, until the helper,
// which sleeps meanwhile, ends that in a select.
func bothSelect(asks, answers []string) func(p *play) {
	return func(p *play) {
		p.wakes(serving, helper, asks...)
		p.runs(helper, 1)
		p.leaves(serving, 0, "select", choose...)
		naps(20*ms, "main.consume", "main.loop")(p)
		p.wakes(helper, serving, answers...)
		p.leaves(helper, 1, "select", idle...)
		p.runs(serving, 0)
	}
}

// behindHelper lets the helper do something on P 1 while the request waits, and
// then wakes it.
func behindHelper(reason string, at, release []string, meanwhile func(p *play)) func(p *play) {
	return func(p *play) {
		p.wakes(serving, helper, "main.start", "main.serve")
		p.runs(helper, 1)
		p.leaves(serving, 0, reason, at...)
		meanwhile(p)
		p.wakes(helper, serving, release...)
		p.leaves(helper, 1, "select", idle...)
		p.runs(serving, 0)
	}
}

// naps makes the helper sleep on its P.
func naps(ns int64, functions ...string) func(p *play) {
	return func(p *play) {
		p.leaves(helper, 1, "sleep", append([]string{"time.Sleep"}, functions...)...)
		p.pass(ns)
		p.wakes(0, helper)
		p.runs(helper, 1)
	}
}

var unlock = []string{"sync.(*Mutex).Unlock", "main.refresh", "main.loop"}

// givesUp waits for a connection in vain.
func givesUp(p *play) {
	p.leaves(serving, 0, "select", "runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.list", "main.serve")
	p.pass(20 * ms)
	p.expires(serving)
	p.runs(serving, 0)
}

// compacts is the helper's work for every request, and now and then it computes for long.
func compacts(p *play, i int) {
	do := func(p *play) { p.computes(helper, 1, 20*ms, "main.compact", "main.loop") }
	if i%10 != 9 {
		do = func(p *play) { p.pass(ms / 10) }
	}
	behindHelper("chan receive", receive, []string{"runtime.chansend1", "main.answer", "main.loop"}, do)(p)
}

// scanned is where another goroutine than the helper releases a lock.
var scanned = []string{"sync.(*Mutex).Unlock", "main.scan", "main.sweep"}

func holders(p *play) {
	waitingHelper(p)
	p.waits(other, "", "time.Sleep", "main.sweep")
}

// behindTwo has the request wait for a lock of the helper, which waits for one whose holder computes.
func behindTwo(p *play) {
	p.wakes(0, other)
	p.runs(other, 1)
	p.do(p.b.Yields(other, "preempted", p.stack("main.scan", "main.sweep")))
	behindHelper("sync", mutex, unlock, func(p *play) {
		p.waits(helper, "sync", "sync.(*Mutex).Lock", "main.refresh", "main.loop")
		p.runs(other, 1)
		p.computes(other, 1, 20*ms, "main.scan", "main.sweep")
		p.wakes(other, helper, scanned...)
		p.waits(other, "sleep", "time.Sleep", "main.sweep")
		p.runs(helper, 1)
	})(p)
}

// scenes are small services in which every tenth request is slow for one reason.
var scenes = []struct {
	name  string
	scene scene
	// verdict and, if there is one, the first finding with its place. alike is
	// the first set of causes that cannot be told apart.
	verdict, reason, finding, where string
	alike                           []string
}{
	{
		name:    "all requests alike",
		scene:   scene{procs: 2},
		verdict: "healthy",
	},
	{
		name: "the holder of a lock sleeps",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", mutex, unlock, naps(20*ms, "main.refresh", "main.loop")))},
		verdict: "cause", finding: "lock-held-across-wait", where: "main.refresh",
	},
	{
		name: "the holder of a lock computes",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("sync", mutex, unlock, func(p *play) { p.computes(helper, 1, 20*ms, "main.refresh", "main.loop") }))},
		verdict: "cause", finding: "lock-held-across-work", where: "main.refresh",
	},
	{
		name:    "the holder of a lock waits for another one, whose holder computes",
		scene:   scene{procs: 2, cast: holders, in: every(10, behindTwo)},
		verdict: "cause", finding: "lock-held-across-work", where: "main.scan",
	},
	{
		name: "it is the same lock, in another function",
		scene: scene{procs: 2, cast: holders, in: func(p *play, i int) {
			switch i % 10 {
			case 9:
				behindTwo(p)
			case 4: // who holds it there lets requests in, too
				p.wakes(0, other)
				p.runs(other, 1)
				p.leaves(serving, 0, "sync", mutex...)
				p.pass(ms / 10)
				p.wakes(other, serving, scanned...)
				p.leaves(other, 1, "sleep", "time.Sleep", "main.sweep")
				p.runs(serving, 0)
			}
		}},
		verdict: "cause", finding: "lock-held-across-work", where: "main.refresh",
	},
	{
		name: "one goroutine serves everybody and sometimes sleeps",
		scene: scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
			do := naps(20*ms, "main.flush", "main.loop")
			if i%10 != 9 {
				do = func(p *play) { p.pass(ms / 10) }
			}
			behindHelper("chan receive", receive, []string{"runtime.chansend1", "main.answer", "main.loop"}, do)(p)
		}},
		verdict: "cause", finding: "single-worker", where: "main.flush",
	},
	{
		name:    "one goroutine serves everybody and sometimes computes",
		scene:   scene{procs: 2, cast: waitingHelper, in: compacts},
		verdict: "cause", finding: "single-worker", where: "main.compact",
	},
	{
		name:    "one goroutine asks a peer for all who are there, and the slowest have just missed it",
		scene:   scene{procs: 2, requests: 100, cast: crowdOf(6), in: commits(func(int) int64 { return 6 * ms })},
		verdict: "healthy",
	},
	{
		name: "one goroutine asks a peer for all who are there, which sometimes takes longer",
		scene: scene{procs: 2, requests: 100, cast: crowdOf(6), in: commits(func(i int) int64 {
			if i%10 == 9 {
				return 20 * ms
			}
			return 3 * ms
		})},
		verdict: "cause", finding: "slow-dependency", where: "main.commit",
	},
	{
		name:    "one at a time hands its work to the only goroutine that does it",
		scene:   scene{procs: 2, cast: crowdOf(2), in: inTurn("sleep", "time.Sleep", "main.pen", "main.loop")},
		verdict: "cause", finding: "single-worker", where: "main.pen",
	},
	{
		name:    "one at a time hands its call to the only goroutine that makes it",
		scene:   scene{procs: 2, cast: withReplies(crowdOf(2)), in: inTurn("select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.clerk", "main.loop")},
		verdict: "cause", finding: "slow-dependency", where: "main.clerk",
	},
	{
		name:    "two goroutines, each with a queue of its own",
		scene:   actors(),
		verdict: "cause", finding: "single-worker", where: "main.apply",
	},
	{
		name:    "two pairs of goroutines, each pair with a queue of its own: none has one alone",
		scene:   teams(),
		verdict: "cause", finding: "timer-wait", where: "main.apply",
	},
	{
		name:    "the only reader of answers decodes for long",
		scene:   delivers(),
		verdict: "cause", finding: "single-worker", where: "main.decode",
	},
	{
		name: "a full channel in front of a slow consumer",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("chan send", send, []string{"runtime.chanrecv1", "main.consume", "main.loop"}, naps(20*ms, "main.consume", "main.loop")))},
		verdict: "cause", finding: "back-pressure", where: "main.consume",
	},
	{
		name: "a full channel in front of a slow consumer, sent to in a select",
		scene: scene{procs: 2, cast: waitingHelper,
			in: every(10, behindHelper("select", choose, []string{"runtime.chanrecv1", "main.consume", "main.loop"}, naps(20*ms, "main.consume", "main.loop")))},
		verdict: "cause", finding: "back-pressure", where: "main.consume",
	},
	{
		name:    "a full channel in front of a slow consumer whose work counts as requests, too",
		scene:   scene{procs: 2, cast: waitingHelper, in: delivered},
		verdict: "cause", finding: "back-pressure", where: "main.push",
	},
	{
		name:    "a full channel, sent to and received from in selects",
		scene:   scene{procs: 2, cast: waitingHelper, in: every(10, bothSelect(choose, idle))},
		verdict: "cause", finding: "back-pressure", where: "main.consume",
	},
	{
		name: "a question handed over in a select, which another one answers",
		scene: scene{procs: 2, cast: func(p *play) {
			waitingHelper(p)
			p.waits(replies, "", "runtime.chanrecv1", "main.done")
		}, in: every(10, func(p *play) {
			bothSelect(choose, idle)(p)
			p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.await", "main.serve")
			p.pass(ms / 10)
			p.wakes(0, replies)
			p.runs(replies, 1)
			p.wakes(replies, serving, "runtime.chansend1", "main.done")
			p.leaves(replies, 1, "chan receive", "runtime.chanrecv1", "main.done")
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "single-worker", where: "main.consume",
	},
	{
		name:    "a question and its answer, both in selects",
		scene:   scene{procs: 2, cast: waitingHelper, in: every(10, bothSelect([]string{"runtime.selectgo", "main.start", "main.serve"}, []string{"runtime.selectgo", "main.answer", "main.loop"}))},
		verdict: "cause", finding: "single-worker", where: "main.consume",
	},
	{
		name: "a full channel in front of a consumer that asks a peer by a client library",
		scene: scene{procs: 2, cast: func(p *play) {
			waitingHelper(p)
			p.waits(replies, "", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop")
		}, in: every(10, behindHelper("chan send", send, []string{"runtime.chanrecv1", "main.consume", "main.loop"}, func(p *play) {
			p.leaves(helper, 1, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.store", "main.consume", "main.loop")
			p.pass(20 * ms)
			p.wakes(0, replies)
			p.do(p.b.Busy(1))
			p.runs(replies, 1)
			p.wakes(replies, helper, "runtime.chansend1", "net/http.(*persistConn).readLoop")
			p.leaves(replies, 1, "network", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop")
			p.runs(helper, 1)
		}))},
		verdict: "cause", finding: "back-pressure", where: "main.store",
	},
	{
		name: "peers keep the permits for as long as usual, and requests give up",
		scene: scene{procs: 2, cast: func(p *play) {
			for g := range gotrace.GoID(4) {
				p.waits(crowd0+g, "", home...)
			}
		}, in: every(10, outOfPermits)},
		verdict: "cause", finding: "pool-exhausted", where: "main.take",
	},
	{
		name:    "nobody gives a connection back, and requests give up",
		scene:   scene{procs: 2, cast: waitingHelper, in: every(10, givesUp)},
		verdict: "inconclusive", reason: "look-alikes", alike: []string{"pool-exhausted", "pool-leak"},
	},
	{
		name:    "the same, and there is nobody who may have it",
		scene:   scene{procs: 2, in: every(10, givesUp)},
		verdict: "cause", finding: "pool-leak", where: "main.list",
	},
	{
		name: "the one goroutine that serves everybody sleeps, and requests give up",
		scene: scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
			answer := []string{"runtime.chansend1", "main.answer", "main.loop"}
			if i%10 != 9 {
				behindHelper("select", choose, answer, func(p *play) { p.pass(ms / 10) })(p)
				return
			}
			p.wakes(serving, helper, "main.start", "main.serve")
			p.runs(helper, 1)
			p.leaves(serving, 0, "select", choose...)
			p.leaves(helper, 1, "sleep", "time.Sleep", "main.flush", "main.loop")
			p.pass(15 * ms)
			p.wakes(0, serving) // a timer's time
			p.runs(serving, 0)
			p.wakes(0, helper)
			p.runs(helper, 1)
			p.leaves(helper, 1, "select", idle...)
		}},
		verdict: "cause", finding: "single-worker", where: "main.flush",
	},
	{
		name: "a child calls a slow peer, and the request gives up",
		scene: scene{procs: 2, in: func() func(*play, int) {
			child := gotrace.GoID(1000)
			return every(10, func(p *play) {
				child++
				p.do(p.b.Starts(serving, gotrace.NoProc, child, p.stack("main.ask", "main.serve"), p.stack("main.ask.func1")))
				p.seen[child] = true
				p.runs(child, 1)
				p.leaves(child, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.supply", "main.ask.func1")
				p.leaves(serving, 0, "select", choose...)
				p.pass(20 * ms)
				p.expires(serving)
				p.runs(serving, 0)
			})
		}()},
		verdict: "cause", finding: "slow-dependency", where: "main.supply",
	},
	{
		name: "a child waits for the reader of its connection, and the request gives up",
		scene: scene{procs: 2, cast: func(p *play) { p.waits(helper, "", readLoop...) }, in: func() func(*play, int) {
			child := gotrace.GoID(1000)
			return every(10, func(p *play) {
				child++
				p.do(p.b.Starts(serving, gotrace.NoProc, child, p.stack("main.ask", "main.serve"), p.stack("main.ask.func1")))
				p.seen[child] = true
				p.runs(child, 1)
				p.leaves(child, 1, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.supply", "main.ask.func1")
				p.leaves(serving, 0, "select", choose...)
				p.pass(15 * ms)
				p.expires(serving)
				p.runs(serving, 0)
				p.pass(ms / 10)
				p.wakes(0, helper)
				p.runs(helper, 1)
				p.wakes(helper, child, readLoop[1:]...)
				p.leaves(helper, 1, "network", readLoop...)
				p.runs(child, 1)
				p.do(p.b.Ends(child))
				p.do(p.b.Idle(1, gotrace.NoProc))
			})
		}()},
		verdict: "cause", finding: "slow-dependency", where: "main.supply",
	},
	{
		name: "the request sleeps",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.leaves(serving, 0, "sleep", "time.Sleep", "main.retry", "main.serve")
			p.pass(20 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "timer-wait", where: "main.retry",
	},
	{
		name: "a peer answers late while a P is idle",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.leaves(serving, 0, "network", reply...)
			p.pass(20 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "slow-dependency", where: "main.call",
	},
	{
		name: "the request computes",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.computes(serving, 0, 40*ms, "main.scale", "main.serve")
		})},
		verdict: "cause", finding: "expensive-request", where: "main.scale",
	},
	{
		name: "the request computes, but nobody knows whether on a CPU",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.computes(serving, 0, 40*ms)
		})},
		verdict: "inconclusive", reason: "look-alikes", alike: []string{"expensive-request", "host-contention", "quota-too-low"},
	},
	{
		name:    "others compute on the only P",
		scene:   scene{procs: 1, cast: waitingHelper, in: every(10, hogged("main.model", "main.loop"))},
		verdict: "cause", finding: "cpu-hog", where: "main.model",
	},
	{
		name:    "others compute on the only P, but nobody knows whether on a CPU",
		scene:   scene{procs: 1, cast: waitingHelper, in: every(10, hogged())},
		verdict: "inconclusive", reason: "look-alikes", alike: []string{"cpu-hog", "host-contention", "quota-too-low"},
	},
	{
		name: "the reply was in, but the only P computed for others",
		scene: scene{procs: 1, cast: waitingHelper, in: every(10, func(p *play) {
			p.wakes(serving, helper, "main.start", "main.serve")
			p.waits(serving, "network", reply...)
			p.runs(helper, 0)
			p.computes(helper, 0, 20*ms, "main.plan", "main.loop")
			p.wakes(0, serving)
			p.waits(helper, "select", idle...)
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "netpoll-starvation", where: "main.plan",
	},
	{
		name: "the world is stopped",
		scene: scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
			const reason = "stop-the-world (read mem stats)"
			p.wakes(serving, helper, "main.start", "main.serve")
			p.runs(helper, 1)
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.do(p.b.Range(gotrace.KindRangeBegin, helper, reason, p.stack("runtime.ReadMemStats", "main.watch", "main.loop")))
			p.pass(20 * ms)
			p.do(p.b.Range(gotrace.KindRangeEnd, helper, reason, 0))
			p.leaves(helper, 1, "select", idle...)
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "stop-the-world", where: "main.watch",
	},
	{
		name: "the request works for the collector",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.do(p.b.Range(gotrace.KindRangeBegin, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			p.do(p.b.Range(gotrace.KindRangeBegin, serving, "GC mark assist", p.stack("runtime.mallocgc", "main.page", "main.serve")))
			p.computes(serving, 0, 20*ms, "runtime.gcDrainN", "runtime.mallocgc", "main.page", "main.serve")
			p.do(p.b.Range(gotrace.KindRangeEnd, serving, "GC mark assist", 0))
			p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
		})},
		verdict: "cause", finding: "gc-assist",
	},
	{
		name:    "a queue of short holders in front of a lock",
		scene:   scene{procs: 2, cast: crowdAtHome("main.loop"), in: every(10, convoy(mutex, unlock))},
		verdict: "cause", finding: "lock-convoy", where: "main.refresh",
	},
	{
		name: "very many goroutines run shortly on the only P",
		scene: scene{procs: 1, cast: crowdAtHome("main.tick"), in: every(10, func(p *play) {
			crowded(p, "select", []string{"runtime.selectgo", "main.tick"}, func(g gotrace.GoID) {
				p.pass(ms)
				if g%10 == 9 {
					p.b.Sample(crowd0+g, p.stack("main.tick"))
				}
			})
		})},
		verdict: "cause", finding: "goroutine-flood", where: "main.tick",
	},
	{
		name: "many goroutines that compute for long each are hogs, however many",
		scene: scene{procs: 1, cast: crowdAtHome("main.sum"), in: every(10, func(p *play) {
			p.wakes(0, crowd0)
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			for g := range gotrace.GoID(13) {
				if g > 0 {
					p.wakes(0, crowd0+g)
				}
				p.runs(crowd0+g, 0)
				p.pass(9 * ms)
				p.b.Sample(crowd0+g, p.stack("main.sum"))
				p.waits(crowd0+g, "select", "runtime.selectgo", "main.sum")
			}
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "cpu-hog", where: "main.sum",
	},
	{
		name: "two goroutines hand each other very much on the only P",
		scene: scene{procs: 1, cast: crowdAtHome("main.relay"), in: every(10, func(p *play) {
			p.wakes(0, crowd0)
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.runs(crowd0, 0)
			for range 50 {
				one, other := crowd0, crowd0+1
				for range 2 {
					p.pass(ms / 5)
					p.b.Sample(one, p.stack("main.pack", "main.relay"))
					p.wakes(one, other, "runtime.chansend1", "main.relay")
					p.waits(one, "select", "runtime.selectgo", "main.relay")
					p.runs(other, 0)
					one, other = other, one
				}
			}
			p.waits(crowd0, "select", "runtime.selectgo", "main.relay")
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "cpu-hog", where: "main.pack",
	},
	{
		name: "very many goroutines run shortly on the only P, most of it for the collector",
		scene: scene{procs: 1, cast: crowdAtHome("main.tick"), in: every(10, func(p *play) {
			p.do(p.b.Range(gotrace.KindRangeBegin, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			crowded(p, "select", []string{"runtime.selectgo", "main.tick"}, func(g gotrace.GoID) {
				p.pass(ms / 4)
				p.do(p.b.Range(gotrace.KindRangeBegin, crowd0+g, "GC mark assist", p.stack("runtime.mallocgc", "main.tick")))
				p.pass(3 * ms / 4)
				if g%10 == 9 {
					p.b.Sample(crowd0+g, p.stack("runtime.mallocgc", "main.tick"))
				}
				p.do(p.b.Range(gotrace.KindRangeEnd, crowd0+g, "GC mark assist", 0))
			})
			p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
		})},
		verdict: "cause", finding: "goroutine-flood", where: "main.tick",
	},
	{
		name: "more requests than the only P can serve",
		scene: scene{procs: 1, cast: func(p *play) {
			for g := range crowd {
				p.waits(crowd0+g, "", home...)
			}
		}, in: every(10, func(p *play) {
			crowded(p, "network", home, func(g gotrace.GoID) {
				p.do(p.b.Task(crowd0+g, "request"))
				p.pass(ms)
				if g%10 == 9 {
					p.b.Sample(crowd0+g, p.stack("main.draw", "main.serve"))
				}
				p.do(p.b.Done(crowd0 + g))
			})
		})},
		verdict: "cause", finding: "overload", where: "main.draw",
	},
	{
		name: "a GC worker on the only P",
		scene: scene{procs: 1, cast: func(p *play) { p.waits(helper, "", collector...) }, in: every(10, func(p *play) {
			p.wakes(serving, helper)
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.runs(helper, 0)
			p.do(p.b.Label(helper, "GC (dedicated)"))
			p.do(p.b.Range(gotrace.KindRangeBegin, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			for range 2 {
				p.pass(10 * ms)
				p.b.Sample(helper, p.stack("runtime.gcDrain", "runtime.gcBgMarkWorker"))
			}
			p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			p.waits(helper, "system goroutine wait", collector...)
			p.runs(serving, 0)
		})},
		verdict: "cause", finding: "gc-workers",
	},
	{
		name: "the thread runs late although a P is idle",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.do(p.b.Idle(0, gotrace.NoProc))
			p.pass(20 * ms)
			p.runs(serving, 0)
		})},
		verdict: "inconclusive", reason: "look-alikes", alike: []string{"host-contention", "quota-too-low"},
	},
	{
		name: "the holder of a lock waits for who makes room, and computes for that",
		scene: scene{procs: 2, cast: func(p *play) {
			p.waits(helper, "", idle...)
			p.waits(crowd0, "", "runtime.chanrecv1", "main.compact")
		}, in: every(10, behindHelper("sync", mutex, unlock, func(p *play) {
			p.wakes(helper, crowd0, "runtime.chansend1", "main.stall", "main.refresh", "main.loop")
			p.leaves(helper, 1, "sync.(*Cond).Wait", "sync.(*Cond).Wait", "main.stall", "main.refresh", "main.loop")
			p.runs(crowd0, 1)
			p.computes(crowd0, 1, 20*ms, "main.merge", "main.compact")
			p.wakes(crowd0, helper, "sync.(*Cond).Broadcast", "main.merge", "main.compact")
			p.leaves(crowd0, 1, "chan receive", "runtime.chanrecv1", "main.compact")
			p.runs(helper, 1)
		}))},
		verdict: "cause", finding: "lock-held-across-wait", where: "main.stall",
	},
	{
		name: "the slow requests are another endpoint",
		scene: scene{procs: 2, in: every(10, func(p *play) {
			p.leaves(serving, 0, "sleep", "time.Sleep", "main.report", "main.serve")
			p.pass(20 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
		}), task: func(i int) string {
			if i%10 == 9 {
				return "report"
			}
			return "list"
		}},
		verdict: "healthy",
	},
	{
		name: "a lock for which few requests wait, behind an endpoint that is slower than they",
		scene: scene{procs: 2, cast: func(p *play) { p.waits(crowd0, "", home...) }, in: func(p *play, i int) {
			switch {
			case i%25 == 12:
				p.leaves(serving, 0, "sleep", "time.Sleep", "main.push", "main.revise", "main.serve")
				p.pass(22 * ms)
				p.wakes(0, serving)
			case i%50 == 49:
				p.wakes(0, crowd0)
				p.runs(crowd0, 1)
				p.do(p.b.Task(crowd0, "revise"))
				p.leaves(crowd0, 1, "sleep", "time.Sleep", "main.push", "main.revise", "main.serve")
				p.leaves(serving, 0, "sync", "sync.(*Mutex).Lock", "main.price", "main.serve")
				p.pass(20 * ms)
				p.wakes(0, crowd0)
				p.runs(crowd0, 1)
				p.wakes(crowd0, serving, "sync.(*Mutex).Unlock", "main.revise", "main.serve")
				p.pass(ms)
				p.do(p.b.Done(crowd0))
				p.leaves(crowd0, 1, "network", home...)
			default:
				return
			}
			p.runs(serving, 0)
		}, task: func(i int) string {
			switch {
			case i%25 == 12:
				return "revise"
			case i%50 == 49 || i%5 == 0:
				return "price"
			}
			return "list"
		}},
		verdict: "cause", finding: "lock-held-across-wait", where: "main.push",
	},
	{
		name:    "a request hangs",
		scene:   scene{procs: 2, last: 1000 * ms},
		verdict: "inconclusive", reason: "unexplained",
	},
	{
		name:    "a lock is never released",
		scene:   scene{procs: 2, last: 1000 * ms, stuck: mutex},
		verdict: "inconclusive", reason: "look-alikes", alike: []string{"lock-held-across-wait", "lock-held-across-work"},
	},
	{
		name: "a line of the log is never taken",
		scene: scene{procs: 2, last: 1000 * ms, stuck: []string{"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).writeLock", "internal/poll.(*FD).Write",
			"os.(*File).Write", "github.com/rs/zerolog.(*Event).msg", "main.serve"}},
		verdict: "cause", finding: "sync-logging", where: "main.serve",
	},
	{
		name: "what is written to a file is never taken",
		scene: scene{procs: 2, last: 1000 * ms, stuck: []string{"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).writeLock", "internal/poll.(*FD).Write",
			"os.(*File).Write", "main.save", "main.serve"}},
		verdict: "inconclusive", reason: "look-alikes", alike: []string{"lock-held-across-wait", "lock-held-across-work"},
	},
	{
		name:    "the process is silent for 30 ms although it runs",
		scene:   scene{procs: 2, in: every(10, func(p *play) { p.pass(30 * ms) })},
		verdict: "inconclusive", reason: "look-alikes", alike: []string{"host-contention", "quota-too-low", "gomaxprocs-over-quota"},
	},
	{
		name:    "too few requests",
		scene:   scene{procs: 2, requests: 49},
		verdict: "inconclusive", reason: "no-requests", // fewer than 50 tasks do not define the requests
	},
}

// outOfPermits lets two peers use what the request and two others wait for. They
// give it back to the others; the request gives up.
func outOfPermits(p *play) {
	take := []string{"runtime.selectgo", "main.take", "main.serve"}
	for g := range gotrace.GoID(4) {
		p.wakes(0, crowd0+g)
		p.runs(crowd0+g, 1)
		p.do(p.b.Task(crowd0+g, "request"))
		if g < 2 {
			p.leaves(crowd0+g, 1, "sleep", "time.Sleep", "main.use", "main.serve")
		} else {
			p.leaves(crowd0+g, 1, "select", take...)
		}
	}
	p.leaves(serving, 0, "select", take...)
	p.pass(15 * ms)
	for g := range gotrace.GoID(2) {
		p.wakes(0, crowd0+g)
		p.runs(crowd0+g, 1)
		p.wakes(crowd0+g, crowd0+g+2, "runtime.chanrecv1", "main.give", "main.serve")
		p.do(p.b.Done(crowd0 + g))
		p.waits(crowd0+g, "network", home...)
		p.runs(crowd0+g+2, 1)
		p.do(p.b.Done(crowd0 + g + 2))
		p.leaves(crowd0+g+2, 1, "network", home...)
	}
	p.pass(5 * ms)
	p.wakes(0, serving) // a timer's time
	p.runs(serving, 0)
}

// hogged takes the only P away from the request for the helper.
func hogged(functions ...string) func(p *play) {
	return func(p *play) {
		p.wakes(serving, helper, "main.start", "main.serve")
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.computes(helper, 0, 20*ms, functions...)
		p.waits(helper, "select", idle...)
		p.runs(serving, 0)
	}
}

// crowd goroutines meet the requests of some plays.
const crowd, crowd0 = gotrace.GoID(20), gotrace.GoID(100)

var collector = []string{"runtime.gopark", "runtime.gcBgMarkWorker"}

// crowdAtHome brings the crowd to its home wait.
func crowdAtHome(root string) func(p *play) {
	return func(p *play) {
		for g := range crowd {
			p.waits(crowd0+g, "", "runtime.selectgo", root)
		}
	}
}

// crowded runs the crowd, one after the other, on the request's P.
func crowded(p *play, reason string, at []string, do func(g gotrace.GoID)) {
	for g := range crowd {
		p.wakes(0, crowd0+g)
	}
	p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
	for g := range crowd {
		p.runs(crowd0+g, 0)
		do(g)
		p.waits(crowd0+g, reason, at...)
	}
	p.runs(serving, 0)
}

// attributed plays a scene, by default with 400 requests in 8 s.
func attributed(tb testing.TB, s scene) *blame.Attribution {
	if s.requests == 0 {
		s.requests = 400
	}
	s.period = 20 * ms
	return s.attribute(tb)
}

// delivered has each request send something to the helper, which delivers it as a request of its own; to every tenth one it
// comes 20 ms late.
func delivered(p *play, i int) {
	take := []string{"runtime.chanrecv1", "main.consume", "main.loop"}
	begins := func() {
		p.do(p.b.Task(helper, "delivery"))
	}
	p.wakes(serving, helper, send...)
	p.runs(helper, 1)
	begins()
	if i%10 == 9 {
		p.leaves(serving, 0, "chan send", send...)
		naps(20*ms, "main.push", "main.loop")(p)
		p.do(p.b.Done(helper))
		begins()
		p.wakes(helper, serving, take...)
		p.runs(serving, 0)
	}
	p.do(p.b.Done(helper))
	p.leaves(helper, 1, "chan receive", take...)
}

// actors are two goroutines, each with a queue of its own: the helper's has three questions of others before the request's
// one of ten times, the other one has nothing to do but for some requests.
func actors() scene {
	const actor, n = gotrace.GoID(300), 3
	answer := []string{"runtime.chansend1", "main.loop"}
	asks := func(p *play, g gotrace.GoID, proc gotrace.ProcID, whom gotrace.GoID) {
		p.wakes(g, whom, "runtime.chansend1", "main.ask", "main.serve")
		p.leaves(g, proc, "chan receive", receive...)
	}
	return scene{procs: 2, cast: func(p *play) {
		crowdOf(n)(p)
		p.waits(actor, "", idle...)
	}, in: func(p *play, i int) {
		switch {
		case i%10 == 9:
			for g := crowd0; g < crowd0+n; g++ {
				p.wakes(0, g)
				p.runs(g, 1)
				p.do(p.b.Task(g, "request"))
				if g == crowd0 {
					asks(p, g, 1, helper)
				} else {
					p.leaves(g, 1, "chan receive", receive...)
				}
			}
			p.leaves(serving, 0, "chan receive", receive...)
			p.runs(helper, 1)
			for g := crowd0; g < crowd0+n; g++ {
				p.leaves(helper, 1, "sleep", "time.Sleep", "main.apply", "main.loop")
				p.pass(8 * ms)
				p.wakes(0, helper)
				p.runs(helper, 1)
				p.wakes(helper, g, answer...)
				p.runs(g, 0)
				p.do(p.b.Done(g))
				p.leaves(g, 0, "network", home...)
			}
			p.pass(ms / 10)
			p.wakes(helper, serving, answer...)
			p.leaves(helper, 1, "chan receive", idle...)
			p.runs(serving, 0)
		default:
			whom := []gotrace.GoID{helper, actor}[i%2]
			asks(p, serving, 0, whom)
			p.runs(whom, 1)
			p.pass(ms / 10)
			p.wakes(whom, serving, answer...)
			p.leaves(whom, 1, "chan receive", idle...)
			p.runs(serving, 0)
		}
	}}
}

// teams are two pairs of goroutines, each pair with a queue of its own: one request of ten comes to the first pair with three of
// others, and the other pair has nothing to do.
func teams() scene {
	const n, worker0, size = 4, gotrace.GoID(300), 2
	answer := []string{"runtime.chansend1", "main.loop"}
	asks := func(p *play, g gotrace.GoID, proc gotrace.ProcID, whom gotrace.GoID) {
		p.wakes(g, whom, "runtime.chansend1", "main.ask", "main.serve")
		p.leaves(g, proc, "chan receive", receive...)
	}
	return scene{procs: 3, cast: func(p *play) {
		crowdOf(n)(p)
		for k := range gotrace.GoID(2 * size) {
			p.waits(worker0+k, "", idle...)
		}
	}, in: func(p *play, i int) {
		if i%10 != 9 {
			whom := worker0 + gotrace.GoID(i%(2*size))
			asks(p, serving, 0, whom)
			p.runs(whom, 1)
			p.leaves(whom, 1, "sleep", "time.Sleep", "main.apply", "main.loop")
			p.pass(8 * ms)
			p.wakes(0, whom)
			p.runs(whom, 1)
			p.wakes(whom, serving, answer...)
			p.leaves(whom, 1, "chan receive", idle...)
			p.runs(serving, 0)
			return
		}
		team := worker0 + gotrace.GoID(i/10%2*size)
		for k := range gotrace.GoID(n - 1) {
			g := crowd0 + k
			p.wakes(0, g)
			p.runs(g, 2)
			p.do(p.b.Task(g, "request"))
			if k < size {
				asks(p, g, 2, team+k)
			} else {
				p.leaves(g, 2, "chan receive", receive...)
			}
		}
		p.leaves(serving, 0, "chan receive", receive...)
		waits := []gotrace.GoID{crowd0, crowd0 + 1, crowd0 + 2, serving}
		for k := range waits {
			whom := team + gotrace.GoID(k%size)
			p.runs(whom, gotrace.ProcID(k%size))
			p.leaves(whom, gotrace.ProcID(k%size), "sleep", "time.Sleep", "main.apply", "main.loop")
			if k%size != size-1 {
				continue
			}
			p.pass(8 * ms)
			for at := range gotrace.GoID(size) {
				g := waits[k-size+1+int(at)]
				p.wakes(0, team+at)
				p.runs(team+at, 1)
				p.wakes(team+at, g, answer...)
				if g == serving {
					p.leaves(team+at, 1, "chan receive", idle...)
					continue
				}
				p.runs(g, 2)
				p.do(p.b.Done(g))
				p.leaves(g, 2, "network", home...)
				if k < size {
					p.do(p.b.Yields(team+at, "preempted", p.stack("main.loop")))
				} else {
					p.leaves(team+at, 1, "chan receive", idle...)
				}
			}
		}
		p.runs(serving, 0)
	}}
}

// shards are two goroutines, each with a queue of its own, that answer what is handed to them and then sync a file: two of three
// times in ten requests wait until one of them takes what they hand over, behind others, and the other one has nothing to do.
func shards(answers bool) scene {
	const shard, n = gotrace.GoID(300), 2
	put := func(p *play, g gotrace.GoID, proc gotrace.ProcID) {
		p.leaves(g, proc, "chan send", "runtime.chansend1", "main.put", "main.serve")
	}
	takes := func(p *play, whom, g gotrace.GoID, proc gotrace.ProcID) {
		p.wakes(whom, g, "runtime.chanrecv1", "main.loop")
		if !answers {
			return
		}
		p.runs(g, proc)
		p.leaves(g, proc, "chan receive", "runtime.chanrecv1", "main.put", "main.serve")
		p.pass(ms / 10)
		p.wakes(whom, g, "runtime.chansend1", "main.loop")
	}
	return scene{procs: 3, cast: func(p *play) {
		crowdOf(n)(p)
		p.waits(shard, "", idle...)
	}, in: func(p *play, i int) {
		whom := []gotrace.GoID{helper, shard}[i/10%2]
		p.wakes(0, whom)
		p.runs(whom, 1)
		if i%10 == 9 {
			for g := crowd0; g < crowd0+n; g++ {
				p.wakes(0, g)
				p.runs(g, 2)
				p.do(p.b.Task(g, "request"))
				put(p, g, 2)
			}
			put(p, serving, 0)
			for g := crowd0; g <= crowd0+n; g++ {
				calls(whom, 8*ms, "syscall.Fsync", "os.(*File).Sync", "main.commit", "main.loop")(p)
				if g == crowd0+n {
					takes(p, whom, serving, 0)
					continue
				}
				takes(p, whom, g, 2)
				p.runs(g, 2)
				p.do(p.b.Done(g))
				p.leaves(g, 2, "network", home...)
			}
		} else {
			put(p, serving, 0)
			p.pass(ms / 10)
			takes(p, whom, serving, 0)
		}
		p.leaves(whom, 1, "select", idle...)
		p.runs(serving, 0)
	}}
}

func TestWhoHandsWorkToOneOfSeveralAndIsAnswered(t *testing.T) {
	tell(t, []told{
		{name: "they answer", scene: shards(true), finding: "slow-disk"},
		{name: "they only take it", scene: shards(false), finding: "back-pressure"},
	})
}

// delivers is a service whose requests ask over one connection, which one goroutine reads. What it reads for others takes it
// long to decode, one of ten times.
func delivers() scene {
	reads := []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.deliver"}
	return scene{procs: 2, cast: func(p *play) { p.waits(replies, "", reads...) }, in: func(p *play, i int) {
		p.leaves(serving, 0, "select", choose...)
		p.pass(ms)
		p.wakes(0, replies)
		p.runs(replies, 1)
		if i%10 == 9 {
			p.computes(replies, 1, 20*ms, "main.decode", "main.deliver")
		}
		p.wakes(replies, serving, "runtime.chansend1", "main.deliver")
		p.leaves(replies, 1, "network", reads...)
		p.runs(serving, 0)
	}}
}

// crowdOf has n goroutines at home where requests come in, and the helper at its own.
func crowdOf(n int) func(p *play) {
	return func(p *play) {
		waitingHelper(p)
		for g := range gotrace.GoID(n) {
			p.waits(crowd0+g, "", home...)
		}
	}
}

// replies reads the connection to a peer.
const replies = gotrace.GoID(200)

func withReplies(cast func(p *play)) func(p *play) {
	return func(p *play) {
		cast(p)
		p.waits(replies, "", readLoop...)
	}
}

// inTurn is a request that hands its work to the helper, which waits at a place to do it, for replies
// if by select, and holds a lock until it is done; each tenth comes after another one, whose work
// takes 20 ms.
func inTurn(reason string, at ...string) func(p *play, i int) {
	lock := []string{"sync.(*Mutex).Lock", "main.plot", "main.serve"}
	return func(p *play, i int) {
		hands := func(g gotrace.GoID, on gotrace.ProcID) {
			p.wakes(g, helper, "runtime.chansend1", "main.plot", "main.serve")
			p.leaves(g, on, "chan receive", "runtime.chanrecv1", "main.plot", "main.serve")
			p.runs(helper, 1)
		}
		does := func(g gotrace.GoID, ns int64) {
			p.leaves(helper, 1, reason, at...)
			p.pass(ns)
			if reason == "select" {
				p.wakes(0, replies)
				p.runs(replies, 1)
				p.wakes(replies, helper, "runtime.chansend1", "net/http.(*persistConn).readLoop")
				p.leaves(replies, 1, "network", readLoop...)
			} else {
				p.wakes(0, helper)
			}
			p.runs(helper, 1)
			p.wakes(helper, g, "runtime.chansend1", "main.loop")
			p.leaves(helper, 1, "select", idle...)
		}
		if first := crowd0 + 1; i%10 == 9 {
			p.wakes(0, first)
			p.runs(first, 1)
			p.do(p.b.Task(first, "request"))
			hands(first, 1)
			p.leaves(serving, 0, "sync", lock...)
			does(first, 20*ms)
			p.runs(first, 1)
			p.wakes(first, serving, "sync.(*Mutex).Unlock", "main.plot", "main.serve")
			p.do(p.b.Done(first))
			p.leaves(first, 1, "network", home...)
			p.runs(serving, 0)
		}
		hands(serving, 0)
		does(serving, ms)
		p.runs(serving, 0)
	}
}

// commits is a request that comes when the helper has just begun to ask a peer for another one,
// and waits, with those who come meanwhile, until it has asked for them, too; takes is how long the
// second answer takes in scene i, and usual ones 8 ms or as long as that if it is shorter.
func commits(takes func(i int) int64) func(p *play, i int) {
	commit := []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.commit", "main.loop"}
	answer := []string{"runtime.chansend1", "main.loop"}
	return func(p *play, i int) {
		joins := func(g gotrace.GoID) {
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Task(g, "request"))
		}
		goes := func(g gotrace.GoID) {
			p.runs(g, 1)
			p.do(p.b.Done(g))
			p.leaves(g, 1, "network", home...)
		}
		joins(crowd0)
		p.wakes(crowd0, helper, "runtime.chansend1", "main.ask", "main.serve")
		p.leaves(crowd0, 1, "chan receive", receive...)
		p.runs(helper, 1)
		p.leaves(helper, 1, "network", commit...)
		p.leaves(serving, 0, "chan receive", receive...)
		for g := range gotrace.GoID(5) {
			p.pass(min(takes(i), 8*ms) / 6)
			joins(crowd0 + 1 + g)
			p.leaves(crowd0+1+g, 1, "chan receive", receive...)
		}
		p.pass(min(takes(i), 8*ms) / 6)
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.wakes(helper, crowd0, answer...)
		p.leaves(helper, 1, "network", commit...)
		goes(crowd0)
		p.pass(takes(i))
		p.wakes(0, helper)
		p.runs(helper, 1)
		for g := range gotrace.GoID(5) {
			p.wakes(helper, crowd0+1+g, answer...)
		}
		p.wakes(helper, serving, answer...)
		p.leaves(helper, 1, "select", idle...)
		for g := range gotrace.GoID(5) {
			goes(crowd0 + 1 + g)
		}
		p.runs(serving, 0)
	}
}

func TestScenesGetTheirVerdict(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, s.scene), s.scene.onItsMachine(cause.Settings{}))
			if v.Verdict != s.verdict || v.Reason != s.reason {
				t.Errorf("%s (%s): %s", v.Verdict, v.Reason, v.Sentence)
				for _, r := range v.RuledOut {
					t.Logf("not %s: %s", r.Cause, r.Because)
				}
				t.Logf("unnamed %+v", v.Unnamed)
			}
			var finding, where string
			if len(v.Findings) > 0 {
				finding = v.Findings[0].Cause
				if p := v.Findings[0].Where; p != nil {
					where = p.Function
				}
			}
			if finding != s.finding || s.where != "" && where != s.where {
				t.Errorf("found %s in %s, want %s in %s: %s", finding, where, s.finding, s.where, v.Sentence)
			}
			var alike []string
			if len(v.Consistent) > 0 {
				alike = v.Consistent[0].Causes
			}
			for _, id := range s.alike {
				if !slices.Contains(alike, id) {
					t.Errorf("%s is not among %q", id, alike)
				}
			}
			if s.alike == nil && alike != nil {
				t.Errorf("undecided between %q", alike)
			}
			if v.Sentence == "" || strings.Contains(v.Sentence, "%!") {
				t.Errorf("sentence %q", v.Sentence)
			}
			if sum := sum(v); v.Role != nil && v.Role.N >= cause.MinRequests && v.Tail.Excess > 0 && math.Abs(sum-1) > 1e-6 {
				t.Errorf("shares add up to %v", sum)
			}
		})
	}
}

// A load that is too much for the Ps need not be too much for the machine.
func TestOverloadIsToldFromTooFewPsByTheMachinesCPUs(t *testing.T) {
	var overload scene
	for _, s := range scenes {
		if s.finding == "overload" {
			overload = s.scene
		}
	}
	for _, c := range []struct {
		name string
		cpus int
		want []string // nil if overload is sure
		says string
	}{
		{"nobody knows the CPUs beside the only P's", 0, []string{"overload", "gomaxprocs-too-low"}, "has more CPUs is unknown"},
		{"a P for every CPU", 1, nil, "there are no more CPUs"},
		{"fewer Ps than CPUs", 4, []string{"overload", "gomaxprocs-too-low"}, "is 1 on 4 CPUs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, overload), cause.Settings{Target: evidence.Target{NumCPU: c.cpus}})
			var alike, said []string
			if len(v.Findings) > 0 && v.Findings[0].Cause == "overload" {
				said = v.Findings[0].Evidence
			}
			if len(v.Consistent) > 0 {
				alike, said = v.Consistent[0].Causes, v.Consistent[0].Evidence
			}
			if !slices.Equal(alike, c.want) || !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("%s: %q, %q", v.Sentence, alike, said)
			}
		})
	}
}

// What fits, but is too small to be named, is not ruled out.
func TestASmallCauseThatFitsIsNotExcluded(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, in: every(10, func(p *play) {
		for _, wait := range []struct {
			ns     int64
			reason string
			at     []string
		}{{17 * ms, "network", reply}, {3 * ms, "sleep", []string{"time.Sleep", "main.retry", "main.serve"}}} {
			p.leaves(serving, 0, wait.reason, wait.at...)
			p.pass(wait.ns)
			p.wakes(0, serving)
			p.runs(serving, 0)
		}
	})}), cause.Settings{})
	if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-dependency" {
		t.Fatalf("%s: %+v", v.Sentence, v.Findings)
	}
	for _, r := range v.RuledOut {
		if r.Fits != (r.Cause == "timer-wait") {
			t.Errorf("%+v", r)
		}
	}
}

// Without the peer of one child, requests still wait for the timer of the other.
func TestP99WithoutACauseIsBoundedByOtherChildren(t *testing.T) {
	child := gotrace.GoID(1000)
	a := attributed(t, scene{procs: 3, in: every(10, func(p *play) {
		sleeper, caller := child, child+1
		child += 2
		for _, c := range []gotrace.GoID{sleeper, caller} {
			p.do(p.b.Starts(serving, gotrace.NoProc, c, p.stack("main.gather", "main.serve"), p.stack("main.part")))
			p.seen[c] = true
		}
		p.runs(sleeper, 1)
		p.leaves(sleeper, 1, "sleep", "time.Sleep", "main.throttle", "main.part")
		p.runs(caller, 2)
		p.leaves(caller, 2, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.supply", "main.part")
		p.leaves(serving, 0, "sync", "sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "main.gather", "main.serve")
		p.pass(12 * ms)
		p.wakes(0, sleeper)
		p.runs(sleeper, 1)
		p.do(p.b.Ends(sleeper))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.pass(6 * ms)
		p.wakes(0, caller)
		p.runs(caller, 2)
		p.wakes(caller, serving, "sync.(*WaitGroup).Done", "main.part")
		p.do(p.b.Ends(caller))
		p.do(p.b.Idle(2, gotrace.NoProc))
		p.runs(serving, 0)
	})})
	v := cause.Judge(a, cause.Settings{})
	if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-dependency" || v.Findings[0].Share < 0.9 {
		t.Fatalf("%s: %+v", v.Sentence, v.Findings)
	}
	if got := v.Findings[0].P99WithoutNS; got < 13*ms || got > 13*ms+ms/10 { // the sleep, and a millisecond of its own
		t.Errorf("p99 without the peer %d ns", got)
	}
}

// sum adds up what the tail's excess was split into.
func sum(v *cause.Verdict) float64 {
	all := v.Mix + v.Unresolved
	for _, f := range v.Findings {
		if f.Contrast == cause.TailContrast {
			all += f.Share
		}
	}
	for _, c := range v.Consistent {
		if c.Contrast == cause.TailContrast {
			all += c.Share
		}
	}
	for _, u := range v.Unnamed {
		all += u.Share
	}
	return all
}

// What one cause has claimed no other one gets, in either contrast.
func TestOneOwnerPerNanosecond(t *testing.T) {
	for _, s := range scenes {
		a := attributed(t, s.scene)
		for _, contrast := range []string{cause.TailContrast, cause.LevelContrast} {
			for r := range a.Found().Roles {
				c, claims := cause.Claims(a, a.Population(r), contrast)
				owner := map[blame.KeyID]string{}
				var claimed float64
				for _, x := range claims {
					if x.Holds == cause.No {
						t.Errorf("%s: %s does not hold, but claims", s.name, x.ID)
					}
					for _, k := range x.Keys {
						if owner[k] != "" {
							t.Errorf("%s (%s): %s and %s both own %+v", s.name, contrast, owner[k], x.ID, a.Keys[k])
						}
						owner[k] = x.ID
					}
					claimed += c.Sum(x.Keys)
				}
				var all float64
				for _, ns := range c.NS {
					all += max(ns, 0)
				}
				if claimed > all+1 {
					t.Errorf("%s (%s): %.0f ns are claimed of %.0f", s.name, contrast, claimed, all)
				}
			}
		}
	}
}

// slow is a service in which every request sleeps.
func slow(d int64) scene {
	return scene{procs: 2, in: func(p *play, _ int) {
		p.leaves(serving, 0, "sleep", "time.Sleep", "main.retry", "main.serve")
		p.pass(d)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}}
}

func TestLevel(t *testing.T) {
	for _, c := range []struct {
		name            string
		sleep           int64
		set             cause.Settings
		base            int64 // what requests slept in the baseline, 0 for none
		verdict, reason string
		level           bool
	}{
		{"12 ms of waiting without an objective: named, not judged", 12 * ms, cause.Settings{}, 0, "inconclusive", "level", true},
		{"9 ms are too short for a level finding", 9 * ms, cause.Settings{}, 0, "healthy", "", false},
		{"12 ms above the objective", 12 * ms, cause.Settings{SLO: 5 * ms}, 0, "cause", "", true},
		{"12 ms below the objective", 12 * ms, cause.Settings{SLO: 50 * ms}, 0, "healthy", "", false},
		{"a median at the objective keeps it", 12 * ms, cause.Settings{SLO: 13 * ms}, 0, "healthy", "", false},
		{"slower than the baseline", 12 * ms, cause.Settings{BaselineName: "monday"}, ms, "cause", "", true},
		{"as slow as the baseline", 12 * ms, cause.Settings{BaselineName: "monday"}, 12 * ms, "healthy", "", false},
		{"a little slower than the baseline", 12 * ms, cause.Settings{BaselineName: "monday"}, 10 * ms, "healthy", "", false},
		{"the median within the objective although far from the baseline", 12 * ms, cause.Settings{SLO: 50 * ms}, ms, "healthy", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.base > 0 {
				c.set.Baseline = cause.Typical(attributed(t, slow(c.base)))
			}
			v := cause.Judge(attributed(t, slow(c.sleep)), c.set)
			if v.Verdict != c.verdict || v.Reason != c.reason || (v.Level != nil) != c.level {
				t.Fatalf("%s (%s), level %+v: %s", v.Verdict, v.Reason, v.Level, v.Sentence)
			}
			if !c.level {
				if len(v.Findings) > 0 {
					t.Errorf("named %s", v.Findings[0].Cause)
				}
				return
			}
			against, begins := "zero", "Every request spends 12.0 ms (92 % of its time): "
			if c.set.Baseline != nil {
				against, begins = c.set.BaselineName, "Requests spend 11.0 ms more than in the baseline (100 % of what they take longer): "
			}
			if v.Level.Against != against || v.Level.Median != c.sleep+ms {
				t.Errorf("%+v", v.Level)
			}
			found := slices.IndexFunc(v.Findings, func(f cause.Finding) bool { return f.Contrast == cause.LevelContrast })
			if found < 0 || v.Findings[found].Cause != "timer-wait" {
				t.Errorf("%+v", v.Findings)
			}
			if c.set.SLO == 0 && !strings.HasPrefix(v.Sentence, begins) {
				t.Error(v.Sentence)
			}
		})
	}
}

// Who connects for each request could do without, however alike the requests are.
func TestConnectingForEachRequestIsACauseIfItIsMostOfTheirTime(t *testing.T) {
	connects := func(ns int64) scene {
		return scene{procs: 2, in: everyTime(netwaits(ns, connect...))}
	}
	for _, c := range []struct {
		name    string
		scene   scene
		set     cause.Settings
		verdict string
	}{
		{"4 ms", connects(4 * ms), cause.Settings{}, "cause"},
		{"15 ms, which is a level finding already", connects(15 * ms), cause.Settings{}, "cause"},
		{"nobody feels half a millisecond", connects(ms / 2), cause.Settings{}, "healthy"},
		{"4 ms within the objective", connects(4 * ms), cause.Settings{SLO: 10 * ms}, "healthy"},
		{"4 ms, as in the baseline", connects(4 * ms), cause.Settings{Baseline: cause.Typical(attributed(t, connects(4*ms))), BaselineName: "monday"}, "healthy"},
		{"4 ms for an answer", scene{procs: 2, in: everyTime(netwaits(4*ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call"))}, cause.Settings{}, "healthy"},
		{"the answer takes longer", scene{procs: 2, in: then(everyTime(netwaits(2*ms, connect...)), everyTime(netwaits(5*ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")))}, cause.Settings{}, "healthy"},
		{"a third of them", scene{procs: 2, in: func(p *play, i int) {
			if i%3 == 0 {
				netwaits(4*ms, connect...)(p)
			} else {
				netwaits(4*ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call")(p)
			}
		}}, cause.Settings{}, "healthy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, c.scene), c.set)
			if v.Verdict != c.verdict {
				t.Fatalf("%s (%s): %s", v.Verdict, v.Reason, v.Sentence)
			}
			if v.Verdict == "healthy" {
				if v.Level != nil || len(v.Findings) > 0 {
					t.Errorf("%+v, %+v", v.Level, v.Findings)
				}
				return
			}
			if f := v.Findings[0]; f.Cause != "dial-per-request" || f.Contrast != cause.LevelContrast && !v.Whole || f.Where == nil || f.Where.Function != "main.call" {
				t.Errorf("%+v", f)
			}
			t.Log(v.Sentence)
		})
	}
}

// Where the first requests are fast and then all become slow, not every request is.
func TestAMedianThatSomeRequestsStayFarBelowIsNotEveryRequest(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, in: func(p *play, i int) {
		if i >= 100 {
			slow(15*ms).in(p, i)
		}
	}}), cause.Settings{})
	if v.Level == nil || !strings.HasPrefix(v.Sentence, "Most requests spend 15.0 ms (94 % of their time), although a tenth takes no more than 1.00 ms in all: ") {
		t.Errorf("%+v: %s", v.Level, v.Sentence)
	}
}

// What the sentence says is the first finding, also where another one has a larger share: shares
// of the tail and of the level are of different times.
func TestTheFirstFindingIsTheOneThatIsStated(t *testing.T) {
	asks := everyTime(netwaits(20*ms, "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call", "main.serve"))
	locks := calls(serving, 14*ms, "syscall.Syscall", "golang.org/x/sys/unix.Flock", "main.withFileLock", "main.serve")
	for _, c := range []struct {
		name, verdict, first string
		in                   func(p *play, i int)
	}{
		{"the median request spends a larger part of its time in something else", "cause", cause.TailContrast,
			then(asks, every(10, func(p *play) { slow(25*ms).in(p, 0) }))},
		{"the slow ones spend a larger part of theirs, and most of it is not explained", "inconclusive", cause.LevelContrast,
			then(asks, everyTime(func(p *play) { slow(22*ms).in(p, 0) }), everyTime(locks), every(10, func(p *play) {
				p.computes(serving, 0, 50*ms, "main.review", "main.serve")
				for range 4 {
					locks(p)
				}
			}))},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, scene{procs: 2, in: c.in}), cause.Settings{})
			if len(v.Findings) < 2 {
				t.Fatalf("%s: %s %+v", v.Verdict, v.Sentence, v.Findings)
			}
			f, last := v.Findings[0], v.Findings[len(v.Findings)-1]
			if v.Verdict != c.verdict || f.Contrast != c.first || last.Contrast == c.first || !strings.HasSuffix(strings.ToLower(v.Sentence), strings.ToLower(f.Summary)) {
				t.Errorf("%s: %s (%s, %.2f) is first, %s (%s, %.2f) last, and %s", v.Verdict, f.Cause, f.Contrast, f.Share, last.Cause, last.Contrast, last.Share, v.Sentence)
			}
		})
	}
}

// Nobody may call a service healthy of which a request does not come back, and a
// few finished requests are no reason to keep silent about it.
func TestHangingRequestsAreNotHealthy(t *testing.T) {
	for _, set := range []cause.Settings{{}, {SLO: 1000 * ms}, {Baseline: cause.Typical(attributed(t, slow(ms)))}} {
		v := cause.Judge(attributed(t, scene{procs: 2, last: 1000 * ms}), set)
		if v.Verdict == "healthy" || !strings.Contains(v.Sentence, "1 requests were open at the end") && !strings.Contains(v.Sentence, "hang") {
			t.Errorf("%+v: %s: %s", set, v.Verdict, v.Sentence)
		}
	}
	// One that has just begun hangs no more than others, and neither does one that the end of a
	// recording holds up.
	for _, age := range []int64{ms, 50 * ms} {
		v := cause.Judge(attributed(t, scene{procs: 2, last: age}), cause.Settings{})
		if v.Verdict != "healthy" {
			t.Errorf("one that has begun %d ms ago: %s: %s", age/ms, v.Verdict, v.Sentence)
		}
	}
}

// varied is a service in which requests sleep for b, and every tenth for e more.
func varied(b, e int64) scene {
	return scene{procs: 2, in: func(p *play, i int) {
		d := b
		if i%10 == 9 {
			d += e
		}
		if d > 0 {
			slow(d).in(p, i)
		}
	}}
}

// What is healthy without an objective; every request takes a millisecond beside
// what it sleeps.
func TestHealthyTails(t *testing.T) {
	const us = ms / 1000
	for _, c := range []struct {
		name    string
		s       scene
		slo     int64
		hanging int
		want    bool
	}{
		{"excess below a millisecond", varied(0, 990*us), 0, 0, true},
		{"excess below 2 ms, tail 2.5 times typical", varied(0, 1500*us), 0, 0, true},
		{"excess above 2 ms, tail 3.2 times typical", varied(0, 2200*us), 0, 0, true},
		{"excess above 2 ms, tail 3.4 times typical", varied(0, 2400*us), 0, 0, false},
		{"excess below 5 ms, tail 2.5 times typical", varied(2*ms, 4900*us), 0, 0, true},
		{"excess above 5 ms, tail 2.7 times typical", varied(2*ms, 5100*us), 0, 0, false},
		{"excess above 5 ms, tail 1.34 times typical", varied(14*ms, 5100*us), 0, 0, false},
		{"excess above 5 ms, tail 1.26 times typical", varied(19*ms, 5100*us), 0, 0, true},
		{"p99 at the objective, whatever the ratio", varied(0, 10*ms), 11 * ms, 0, true},
		{"p99 above the objective, whatever the ratio", varied(9*ms, 0), 9 * ms, 0, false},
		{"something hangs", varied(0, 0), 0, 1, false},
		{"something hangs within the objective", varied(0, 0), 100 * ms, 1, false},
	} {
		a := attributed(t, c.s)
		if got := cause.IsHealthy(a.Population(0), cause.Settings{SLO: c.slo}, c.hanging); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A tail that somebody feels a little, but each time for another reason, has no cause.
func TestATailOfManySmallThingsIsHealthy(t *testing.T) {
	waits := func(d int64, reason string, at ...string) func(*play) {
		return func(p *play) {
			p.leaves(serving, 0, reason, at...)
			p.pass(d)
			p.wakes(0, serving)
			p.runs(serving, 0)
		}
	}
	things := func(d int64) []func(*play) {
		return []func(*play){
			waits(d, "network", reply...),
			waits(d, "sleep", "time.Sleep", "main.pause", "main.serve"),
			calls(serving, d, "main._Cfunc_pack", "main.encode", "main.serve"),
			func(p *play) { p.computes(serving, 0, d, "main.count", "main.serve") },
		}
	}
	for _, c := range []struct {
		name    string
		things  []func(*play)
		slo     int64
		healthy bool
	}{
		{"many things", things(3 * ms), 0, true},
		{"one thing", things(3 * ms)[:1], 0, false},
		{"many things of which each is felt", things(9 * ms), 0, false},
		{"many things, above the objective", things(3 * ms), 2 * ms, false},
	} {
		a := attributed(t, scene{procs: 2, in: func(p *play, i int) {
			if i%10 == 9 {
				c.things[i/10%len(c.things)](p)
			}
		}})
		v := cause.Judge(a, cause.Settings{SLO: c.slo})
		if (v.Verdict == "healthy") != c.healthy {
			t.Errorf("%s: %s, %s", c.name, v.Verdict, v.Sentence)
		}
	}
}

// Another endpoint is no cause while the objective holds, or none is given;
// above it, what takes that endpoint's time is named.
func TestAnotherEndpointIsNoCause(t *testing.T) {
	for _, s := range scenes {
		if s.scene.task == nil || s.verdict != "healthy" {
			continue
		}
		for _, c := range []struct {
			slo     int64
			healthy bool
		}{{0, true}, {50 * ms, true}, {10 * ms, false}} {
			v := cause.Judge(attributed(t, s.scene), cause.Settings{SLO: c.slo})
			mix, named := v.Mix, 0
			if !c.healthy {
				mix, named = v.OtherEndpoint, 1
			}
			if mix < 0.99 || v.MixEndpoint < 0 || (v.Verdict == "healthy") != c.healthy || len(v.Findings) != named {
				t.Errorf("objective %d ms: mix %v, %s, %+v: %s", c.slo/ms, v.Mix, v.Verdict, v.Findings, v.Sentence)
			}
		}
	}
}

// What endpoints differ in is no cause's to explain: a cause is the answer if it is most of the
// rest. Half of the slowest requests are of an endpoint that always takes as long.
func TestACauseExplainsWhatIsNoOtherEndpoint(t *testing.T) {
	for _, c := range []struct {
		sleeps, computes int64
		verdict          string
	}{{19 * ms, 3 * ms, "cause"}, {7 * ms, 8 * ms, "inconclusive"}} {
		v := cause.Judge(attributed(t, scene{procs: 2, in: func(p *play, i int) {
			switch i % 40 {
			case 19:
				p.leaves(serving, 0, "sleep", "time.Sleep", "main.throttle", "main.serve")
				p.pass(c.sleeps)
				p.wakes(0, serving)
				p.runs(serving, 0)
				p.computes(serving, 0, c.computes)
			case 39:
				p.computes(serving, 0, c.sleeps+c.computes-ms)
			}
		}, task: func(i int) string {
			if i%40 == 39 {
				return "report"
			}
			return "request"
		}}), cause.Settings{})
		if v.Mix < 0.4 || v.Mix >= cause.MixShare || v.Verdict != c.verdict {
			t.Errorf("%s with a mix of %v, want %s: %+v, %s", v.Verdict, v.Mix, c.verdict, v.Findings, v.Sentence)
		}
	}
}

// A slow endpoint does not hide that the others wait for a lock, nor that some of its own
// requests do; without such a fault the mixture is healthy.
func TestAnEndpointBesideASlowOneHasItsOwnTail(t *testing.T) {
	report := func(p *play) {
		p.leaves(serving, 0, "network", reply...)
		p.pass(60 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}
	locked := behindHelper("sync", mutex, unlock, naps(12*ms, "main.refresh", "main.loop"))
	longer := behindHelper("sync", mutex, unlock, naps(100*ms, "main.refresh", "main.loop"))
	for _, fault := range []string{"", "other", "same"} {
		v := cause.Judge(attributed(t, scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
			if i%4 == 3 {
				report(p)
			}
			switch {
			case fault == "same" && i%40 == 39:
				longer(p)
			case fault == "other" && i%20 == 4:
				locked(p)
			}
		}, task: func(i int) string {
			if i%4 == 3 {
				return "report"
			}
			return "item"
		}}), cause.Settings{})
		switch {
		case fault == "" && (v.Verdict != "healthy" || v.Only >= 0):
			t.Errorf("without a fault: %s, %s", v.Verdict, v.Sentence)
		case fault == "same" && !strings.Contains(v.Sentence, "and of these some are late: "):
			t.Errorf("it does not say where: %s", v.Sentence)
		case fault != "" && (v.Verdict != "cause" || v.Only < 0 || slices.Contains(v.Slower, v.Only) != (fault == "same") || len(v.Findings) == 0 || v.Findings[0].Cause != "lock-held-across-wait"):
			t.Errorf("a fault of the %s endpoint: %s, %+v: %s", fault, v.Verdict, v.Findings, v.Sentence)
		}
	}
}

func TestWhatIsNotMaterial(t *testing.T) {
	fine := blame.Share{NS: 10e6, Share: 0.5, Low: 0.4, High: 0.6, HasInterval: true, Episodes: 10}
	with := func(f func(s *blame.Share)) blame.Share {
		s := fine
		f(&s)
		return s
	}
	for _, c := range []struct {
		name  string
		s     blame.Share
		slo   int64
		holds cause.Truth
		why   string // a part of the reason, "" if it is material
		mix   float64
	}{
		{"all is well", fine, 0, cause.Yes, "", 0},
		{"a fifth", with(func(s *blame.Share) { s.Share, s.Low, s.High = 0.2, 0.1, 0.3 }), 0, cause.Yes, "", 0},
		{"below a fifth", with(func(s *blame.Share) { s.Share = 0.199 }), 0, cause.Yes, "only 20 %", 0},
		{"negative", with(func(s *blame.Share) { s.Share = -0.5 }), 0, cause.Yes, "only -50 %", 0},
		{"below a millisecond", with(func(s *blame.Share) { s.NS = 0.9e6 }), 0, cause.Yes, "only 0.90 ms", 0},
		{"a tenth of the objective", fine, 100 * ms, cause.Yes, "", 0},
		{"below a tenth of the objective", fine, 101 * ms, cause.Yes, "tenth of the SLO", 0},
		{"lower bound too low", with(func(s *blame.Share) { s.Low = 0.09 }), 0, cause.Yes, "uncertain", 0},
		{"interval as wide as allowed", with(func(s *blame.Share) { s.Low, s.High = 0.25, 0.85 }), 0, cause.Yes, "", 0},
		{"interval too wide", with(func(s *blame.Share) { s.Low, s.High = 0.2, 0.9 }), 0, cause.Yes, "too uncertain", 0},
		{"no interval", with(func(s *blame.Share) { s.HasInterval, s.Low = false, 0 }), 0, cause.Yes, "", 0},
		{"one incident has no interval to speak of", with(func(s *blame.Share) { s.Episodes, s.Low, s.High = cause.Pattern-1, 0, 1 }), 0, cause.Yes, "", 0},
		{"a fifth of what endpoints do not differ in", with(func(s *blame.Share) { s.Share, s.Low = 0.161, 0.081 }), 0, cause.Yes, "", 0.2},
		{"below a fifth of that", with(func(s *blame.Share) { s.Share, s.Low = 0.159, 0.08 }), 0, cause.Yes, "only 16 %", 0.2},
		{"lower bound too low for that", with(func(s *blame.Share) { s.Low = 0.079 }), 0, cause.Yes, "uncertain", 0.2},
		{"endpoints that are faster", with(func(s *blame.Share) { s.Share = 0.199 }), 0, cause.Yes, "only 20 %", -0.5},
		{"look-alikes need a tenth", with(func(s *blame.Share) { s.Share, s.Low = 0.1, 0 }), 0, cause.Unknown, "", 0},
		{"look-alikes below a tenth", with(func(s *blame.Share) { s.Share = 0.099 }), 0, cause.Unknown, "only 10 %", 0},
	} {
		why := cause.Unmaterial(c.s, c.mix, cause.Settings{SLO: c.slo}, c.holds)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", c.name, why, c.why)
		}
	}
}

func TestWhatMayBeSlight(t *testing.T) {
	fine := blame.Share{NS: 2e6, Share: 0.5, Low: 0.25, High: 0.75, HasInterval: true, Episodes: 10}
	for _, c := range []struct {
		name   string
		change func(s *blame.Share)
		excess float64
		slo    int64
		want   bool
	}{
		{"a millisecond at least", func(*blame.Share) {}, 4e6, 0, false},
		{"less, perhaps", func(*blame.Share) {}, 3.9e6, 0, true},
		{"less, of an objective that is small", func(*blame.Share) {}, 3.9e6, 2 * ms, false},
		{"less, of a large objective", func(*blame.Share) {}, 3.9e6, 50 * ms, true},
		{"certainly most of the tail", func(s *blame.Share) { s.Low = 0.5 }, 1.9e6, 0, false},
		{"no interval", func(s *blame.Share) { s.HasInterval = false }, 3.9e6, 0, false},
		{"few episodes", func(s *blame.Share) { s.Episodes = cause.Pattern - 1 }, 3.9e6, 0, false},
		{"few episodes of little", func(s *blame.Share) { s.Episodes, s.NS, s.Low = cause.Pattern-1, 1.9e6, 0.9 }, 3.9e6, 0, true},
	} {
		s := fine
		c.change(&s)
		if got := cause.Slight(s, c.excess, cause.Settings{SLO: c.slo}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What supports never decides; of what decides, no beats unknown beats yes.
func TestThreeValuedEvidence(t *testing.T) {
	truths := []cause.Truth{cause.No, cause.Unknown, cause.Yes}
	for _, a := range truths {
		for _, b := range truths {
			for _, support := range truths {
				j := &cause.Judgement{Evidence: []cause.Evidence{{Holds: support}, {Holds: a, Decides: true}, {Holds: b, Decides: true}}}
				if got, want := cause.Holds(j), min(a, b); got != want {
					t.Errorf("%d and %d, supported by %d: %d, want %d", a, b, support, got, want)
				}
			}
		}
	}
	if got := cause.Holds(&cause.Judgement{}); got != cause.Yes {
		t.Errorf("without evidence: %d", got)
	}
}

// What the baseline spends too is no finding, however large its part.
func TestABaselineIsSubtractedLeafByLeaf(t *testing.T) {
	naps := func(more int64) scene {
		return scene{procs: 2, in: func(p *play, _ int) {
			for _, d := range []struct {
				ns int64
				in string
			}{{9 * ms, "main.list"}, {more, "main.renew"}} {
				if d.ns == 0 {
					continue
				}
				p.leaves(serving, 0, "sleep", "time.Sleep", d.in, "main.serve")
				p.pass(d.ns)
				p.wakes(0, serving)
				p.runs(serving, 0)
			}
		}}
	}
	v := cause.Judge(attributed(t, naps(8*ms)), cause.Settings{Baseline: cause.Typical(attributed(t, naps(0))), BaselineName: "monday"})
	if v.Verdict != "cause" || len(v.Findings) != 1 || v.Findings[0].Where.Function != "main.renew" || v.Findings[0].Share < 0.99 {
		t.Errorf("%s, %+v: %s", v.Verdict, v.Findings, v.Sentence)
	}
}

// A library's function that runs others says little of who holds the Ps.
func TestWhoRunsByALibraryIsNamedByItsOwn(t *testing.T) {
	const pool = "github.com/panjf2000/ants/v2.(*goWorker).run.func1"
	waits := []string{"runtime.selectgo", "main.part", pool}
	v := cause.Judge(attributed(t, scene{procs: 1, cast: func(p *play) { p.waits(helper, "", waits...) }, in: every(10, func(p *play) {
		p.wakes(serving, helper, "main.start", "main.serve")
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		p.runs(helper, 0)
		p.computes(helper, 0, 20*ms, "main.model", "main.part", pool)
		p.waits(helper, "select", waits...)
		p.runs(serving, 0)
	})}), cause.Settings{})
	if want := "behind main.model (by v2.(*goWorker).run.func1), which computes for long."; len(v.Findings) != 1 || !strings.HasSuffix(v.Sentence, want) {
		t.Errorf("%s %+v, not %s", v.Sentence, v.Findings, want)
	}
}
