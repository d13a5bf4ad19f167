package cause_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// The stacks of requests that start several goroutines and wait for all of them.
var (
	starts   = []string{"main.gather", "main.serve"}
	together = []string{"sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "main.gather", "main.serve"}
	finishes = []string{"sync.(*WaitGroup).Done", "main.part"}
	supply   = []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.supply", "main.part"}
	nap      = []string{"time.Sleep", "main.throttle", "main.part"}
)

// part is what one of the goroutines does: it waits, or computes if it has no reason.
type part struct {
	g      gotrace.GoID
	ns     int64
	reason string
	at     []string
	// root is the function that it is started with, "main.part" if not said.
	root string
	// reader is who reads the answer for it and all others, if it does not do so itself.
	reader gotrace.GoID
}

// parts counts the goroutines that requests were divided among.
type parts struct{ born gotrace.GoID }

// gather divides request i among n goroutines on P 1 and waits for them all.
func (c *parts) gather(n int, does func(i, k int) part) func(p *play, i int) {
	return func(p *play, i int) {
		var all []part
		for k := range n {
			x := does(i, k)
			c.born++
			x.g = 1000 + c.born
			if x.root == "" {
				x.root = "main.part"
			}
			p.seen[x.g] = true
			p.do(p.b.Starts(serving, gotrace.NoProc, x.g, p.stack(starts...), p.stack(x.root)))
			p.runs(x.g, 1)
			p.leaves(x.g, 1, x.reason, x.at...)
			all = append(all, x)
		}
		slices.SortStableFunc(all, func(x, y part) int { return int(x.ns - y.ns) })
		p.leaves(serving, 0, "sync", together...)
		begin := p.now
		for k, x := range all {
			p.pass(begin + x.ns - p.now)
			if x.reader != 0 {
				p.wakes(0, x.reader)
				p.runs(x.reader, 1)
				p.wakes(x.reader, x.g, "runtime.chansend1", "google.golang.org/grpc/internal/transport.(*http2Client).reader")
				p.leaves(x.reader, 1, "network", readsAll...)
			} else {
				p.wakes(0, x.g)
			}
			p.runs(x.g, 1)
			if k == n-1 {
				p.wakes(x.g, serving, finishes...)
			}
			p.do(p.b.Ends(x.g))
			p.do(p.b.Idle(1, gotrace.NoProc))
		}
		p.runs(serving, 0)
	}
}

// calling and sleeping are parts that take so long.
func calling(ns int64) part  { return part{ns: ns, reason: "network", at: supply} }
func sleeping(ns int64) part { return part{ns: ns, reason: "sleep", at: nap} }

// readsAll is where the reader of a connection waits for the answers to all calls on it, asked where one waits for its own.
var (
	readsAll = append(home[:3:3], "google.golang.org/grpc/internal/transport.(*http2Client).reader")
	asked    = []string{"runtime.selectgo", "google.golang.org/grpc.(*ClientConn).Invoke", "main.supply", "main.part"}
)

// multiplexed are parts that one goroutine reads the answers of.
func multiplexed(ns int64) part { return part{ns: ns, reason: "select", at: asked, reader: helper} }

// usually is how long part k takes when nobody is late.
func usually(k int) int64 { return ms + int64(k)*ms/100 }

// lateOnes makes those parts of every tenth request late that pick says.
func lateOnes(does func(ns int64) part, pick func(turn, k int) bool) func(i, k int) part {
	return func(i, k int) part {
		if i%10 == 9 && pick(i/10, k) {
			return does(20*ms + usually(k))
		}
		return does(usually(k))
	}
}

// another picks another one of n each time, always the third, everybody all.
func another(n int) func(turn, k int) bool {
	return func(turn, k int) bool { return (3*turn+1)%n == k }
}
func always3(_, k int) bool   { return k == 2 }
func everybody(_, _ int) bool { return true }

// gathering is a service that divides its requests.
func gathering(n int, does func(i, k int) part) scene {
	return scene{procs: 2, in: new(parts).gather(n, does)}
}

// unordered starts its parts, each of which has a function of its own, in an order
// that changes; the late ones are always of the same function.
func unordered() scene {
	return gathering(4, func(i, k int) part {
		which := (k + i/10) % 4
		x := calling(usually(k))
		if i%10 == 9 && which == 2 {
			x = calling(20 * ms)
		}
		x.root = fmt.Sprintf("main.part%d", which)
		x.at = with(supply[:3], x.root)
		return x
	})
}

// alsoAlone is a service of which every second request divides its work, and the others make the same call themselves;
// both are late as often.
func alsoAlone() scene {
	c := new(parts)
	divided := c.gather(4, func(i, k int) part {
		if i%20 == 8 && k == i/20%4 {
			return calling(20*ms + usually(k))
		}
		return calling(usually(k))
	})
	return scene{procs: 2, in: func(p *play, i int) {
		if i%2 == 0 {
			divided(p, i)
			return
		}
		d := ms
		if i%20 == 19 {
			d += 20 * ms
		}
		p.leaves(serving, 0, "network", append(supply[:3:3], "main.serve")...)
		p.pass(d)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}}
}

// oneByOne starts a part only when the one before is done.
func oneByOne() scene {
	c := new(parts)
	return scene{procs: 2, in: func(p *play, i int) {
		for k := range 4 {
			c.gather(1, func(i, _ int) part { return lateOnes(calling, another(4))(i, k) })(p, i)
		}
	}}
}

// firstOf starts two parts and goes on with the first answer.
func firstOf() scene {
	c := new(parts)
	return scene{procs: 2, in: func(p *play, i int) {
		d := ms
		if i%10 == 9 {
			d = 20 * ms
		}
		ids := []gotrace.GoID{c.born + 1001, c.born + 1002}
		c.born += 2
		for _, g := range ids {
			p.seen[g] = true
			p.do(p.b.Starts(serving, gotrace.NoProc, g, p.stack(starts...), p.stack("main.part")))
			p.runs(g, 1)
			p.leaves(g, 1, "network", supply...)
		}
		p.leaves(serving, 0, "select", choose...)
		p.pass(d)
		first := ids[i/10%2]
		p.wakes(0, first)
		p.runs(first, 1)
		p.wakes(first, serving, "runtime.chansend1", "main.part")
		p.do(p.b.Ends(first))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

// queued makes one part late, another one each time, because it has to wait for the
// helper, which waits itself.
func queued(reason string, at, release []string, itself string, there []string) scene {
	c := new(parts)
	return scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
		if i%10 != 9 {
			c.gather(4, func(_, k int) part { return calling(usually(k)) })(p, i)
			return
		}
		p.wakes(serving, helper, "main.start", "main.serve")
		p.runs(helper, 1)
		p.leaves(helper, 1, itself, there...)
		var last gotrace.GoID
		for k := range 4 {
			c.born++
			g := 1000 + c.born
			p.seen[g] = true
			p.do(p.b.Starts(serving, gotrace.NoProc, g, p.stack(starts...), p.stack("main.part")))
			p.runs(g, 1)
			if another(4)(i/10, k) {
				last = g
				p.leaves(g, 1, reason, at...)
				continue
			}
			p.do(p.b.Ends(g))
			p.do(p.b.Idle(1, gotrace.NoProc))
		}
		p.leaves(serving, 0, "sync", together...)
		p.pass(20 * ms)
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.wakes(helper, last, release...)
		p.leaves(helper, 1, "select", idle...)
		p.runs(last, 1)
		p.wakes(last, serving, finishes...)
		p.do(p.b.Ends(last))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

// heldUp makes one part late, another one each time: it runs only after a time that
// held passes.
func heldUp(held func(p *play, g gotrace.GoID)) scene {
	c := new(parts)
	return scene{procs: 2, in: func(p *play, i int) {
		if i%10 != 9 {
			c.gather(4, func(_, k int) part { return calling(usually(k)) })(p, i)
			return
		}
		var last gotrace.GoID
		for k := range 4 {
			c.born++
			g := 1000 + c.born
			p.seen[g] = true
			p.do(p.b.Starts(serving, gotrace.NoProc, g, p.stack(starts...), p.stack("main.part")))
			if another(4)(i/10, k) {
				last = g
				continue
			}
			p.runs(g, 1)
			p.do(p.b.Ends(g))
			p.do(p.b.Idle(1, gotrace.NoProc))
		}
		p.leaves(serving, 0, "sync", together...)
		held(p, last)
		p.wakes(last, serving, finishes...)
		p.do(p.b.Ends(last))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

// ranking lets the late part compute, on a CPU as far as samples tell.
func ranking(p *play, g gotrace.GoID) {
	p.runs(g, 1)
	p.computes(g, 1, 40*ms, "main.rank", "main.part")
}

// descheduled lets it wait for its thread although a P is idle.
func descheduled(p *play, g gotrace.GoID) {
	p.pass(20 * ms)
	p.runs(g, 1)
}

// assisting lets it work for the collector.
func assisting(p *play, g gotrace.GoID) {
	p.runs(g, 1)
	p.do(p.b.Range(gotrace.KindRangeBegin, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
	p.do(p.b.Range(gotrace.KindRangeBegin, g, "GC mark assist", p.stack("runtime.mallocgc", "main.page", "main.part")))
	p.computes(g, 1, 20*ms, "runtime.gcDrainN", "runtime.mallocgc", "main.page", "main.part")
	p.do(p.b.Range(gotrace.KindRangeEnd, g, "GC mark assist", 0))
	p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
}

// staff are workers that requests are divided among: those are late that pick says.
// They are asked in an order that shifts from turn to turn.
func staff(n, shift int, pick func(turn, k int) bool) scene {
	home := []string{"runtime.chanrecv2", "main.work"}
	return scene{procs: 2, cast: func(p *play) {
		for k := range n {
			p.waits(crowd0+gotrace.GoID(k), "", home...)
		}
	}, in: func(p *play, i int) {
		var all []part
		for at := range n {
			k := (at + i/10*shift) % n
			x := lateOnes(calling, pick)(i, k)
			x.g = crowd0 + gotrace.GoID(k)
			p.wakes(serving, x.g, with([]string{"runtime.chansend1"}, starts...)...)
			p.runs(x.g, 1)
			p.leaves(x.g, 1, "network", with(supply[:3], "main.work")...)
			all = append(all, x)
		}
		slices.SortStableFunc(all, func(x, y part) int { return int(x.ns - y.ns) })
		begin := p.now
		for _, x := range all {
			p.leaves(serving, 0, "chan receive", with([]string{"runtime.chanrecv1"}, starts...)...)
			p.pass(begin + x.ns - p.now)
			p.wakes(0, x.g)
			p.runs(x.g, 1)
			p.wakes(x.g, serving, "runtime.chansend1", "main.work")
			p.leaves(x.g, 1, "chan receive", home...)
			p.runs(serving, 0)
		}
	}}
}

// seldom is a scene in which few requests are slow, all because of the same one.
func seldom() scene {
	return gathering(4, func(i, k int) part {
		if i%100 == 99 && k == 2 {
			return calling(400 * ms)
		}
		return calling(usually(k))
	})
}

var fanInScenes = []told{
	{name: "the same call is late by itself, too", scene: alsoAlone(), finding: "slow-dependency", where: "main.supply"},
	{name: "another of eight calls is late each time", scene: gathering(8, lateOnes(calling, another(8))), finding: "fan-in-straggler", where: "main.supply"},
	{name: "one of two is late, either", scene: gathering(2, lateOnes(calling, another(2))), finding: "fan-in-straggler", where: "main.supply"},
	{name: "another one sleeps each time", scene: gathering(8, lateOnes(sleeping, another(8))), finding: "fan-in-straggler", where: "main.throttle"},
	{name: "another one computes each time", scene: heldUp(ranking), finding: "fan-in-straggler", where: "main.rank"},
	{name: "another one is late each time, and one goroutine reads all answers", scene: scene{procs: 2, cast: func(p *play) { p.waits(helper, "", readsAll...) },
		in: new(parts).gather(4, lateOnes(multiplexed, another(4)))}, finding: "fan-in-straggler", where: "main.supply"},
	{name: "all are late, and one goroutine reads all answers", scene: scene{procs: 2, cast: func(p *play) { p.waits(helper, "", readsAll...) },
		in: new(parts).gather(4, lateOnes(multiplexed, everybody))}, finding: "slow-dependency", where: "main.supply"},
	{name: "another worker is late each time", scene: staff(4, 0, another(4)), finding: "fan-in-straggler", where: "main.supply"},
	{name: "always the same of eight is late", scene: gathering(8, lateOnes(calling, always3)), finding: "slow-dependency", where: "main.supply"},
	{name: "always the same one sleeps", scene: gathering(8, lateOnes(sleeping, always3)), finding: "timer-wait", where: "main.throttle"},
	{name: "always the same worker is late", scene: staff(4, 0, always3), finding: "slow-dependency", where: "main.supply"},
	{name: "always the same worker is late, whenever it is asked", scene: staff(4, 1, always3), finding: "slow-dependency", where: "main.supply"},
	{name: "always the same function is late, wherever it is started", scene: unordered(), finding: "slow-dependency", where: "main.supply"},
	{name: "all eight are late together", scene: gathering(8, lateOnes(calling, everybody)), finding: "slow-dependency", where: "main.supply"},
	{name: "two of eight are late together, others each time", scene: gathering(8, lateOnes(calling, func(turn, k int) bool {
		return another(8)(turn, k) || another(8)(turn+1, k)
	})), finding: "slow-dependency", where: "main.supply"},
	{name: "there is only one", scene: gathering(1, lateOnes(calling, everybody)), finding: "slow-dependency", where: "main.supply"},
	{name: "one starts when the other is done", scene: oneByOne(), finding: "slow-dependency", where: "main.supply"},
	{name: "the first of two answers is enough", scene: firstOf(), finding: "slow-dependency", where: "main.supply"},
	{name: "another one waits for a lock each time", scene: queued("sync", with(mutex[:4], "main.part"), unlock, "sleep", []string{"time.Sleep", "main.refresh", "main.loop"}),
		finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "another one waits each time for a goroutine that calls for everybody", scene: queued("chan receive", with(receive[:2], "main.part"), []string{"runtime.chansend1", "main.answer", "main.loop"},
		"network", with(supply[:3], "main.loop")), finding: "slow-dependency", where: "main.supply"},
	{name: "another one waits for its thread each time", scene: heldUp(descheduled), alike: []string{"host-contention"}},
	{name: "another one works for the collector each time", scene: heldUp(assisting), finding: "gc-assist"},
	{name: "the same one, but seldom", scene: seldom(), alike: []string{"fan-in-straggler", "slow-dependency"}},
}

func TestAStragglerIsToldFromWhatIsSlow(t *testing.T) { tell(t, fanInScenes) }

// A request waits for two, and the later one of these for two of its own, at the same place: for how long the last one of all was waited
// for alone is counted once. Of the 20 ms that a slow request takes that is 7 ms.
func TestTheLastOfANestedFanInIsCountedOnce(t *testing.T) {
	born := gotrace.GoID(5000)
	site := []string{"sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "lib.list"}
	start := []string{"lib.list"}
	fin := []string{"sync.(*WaitGroup).Done", "lib.list.func1"}
	in := func(p *play, i int) {
		a, b, c, d := born+1, born+2, born+3, born+4
		born += 4
		first, second, third := 15*ms/10, 15*ms/10, 2*ms
		if i%10 == 9 {
			first, second, third = 13*ms, 13*ms, 20*ms
		}
		odd := i/10%2 == 1
		begin := p.now
		until := func(at int64) { p.pass(begin + at - p.now) }
		spawn := func(by, g gotrace.GoID, on gotrace.ProcID) {
			p.seen[g] = true
			p.do(p.b.Starts(by, gotrace.NoProc, g, p.stack(start...), p.stack("lib.list.func1")))
		}
		if odd {
			spawn(serving, b, 0)
			spawn(serving, a, 0)
		} else {
			spawn(serving, a, 0)
			spawn(serving, b, 0)
		}
		p.leaves(serving, 0, "sync", site...)
		p.runs(a, 1)
		if odd {
			spawn(a, d, 1)
			spawn(a, c, 1)
		} else {
			spawn(a, c, 1)
			spawn(a, d, 1)
		}
		p.leaves(a, 1, "sync", site...)
		for _, g := range []gotrace.GoID{b, c, d} {
			p.runs(g, 1)
			p.leaves(g, 1, "network", supply...)
		}
		ends := func(g, wakes gotrace.GoID) {
			p.wakes(0, g)
			p.runs(g, 1)
			if wakes != 0 {
				p.wakes(g, wakes, fin...)
			}
			p.do(p.b.Ends(g))
			p.do(p.b.Idle(1, gotrace.NoProc))
		}
		until(first)
		ends(b, 0)
		until(second + 1000)
		ends(c, 0)
		until(third)
		ends(d, a)
		p.runs(a, 1)
		p.wakes(a, serving, fin...)
		p.do(p.b.Ends(a))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}
	v := cause.Judge(attributed(t, scene{procs: 2, in: in}), cause.Settings{})
	check(t, v, "slow-dependency", nil)
	for _, r := range v.RuledOut {
		if r.Cause == "fan-in-straggler" && !strings.HasPrefix(r.Because, "for 36 % of the 18.0 ms") {
			t.Errorf("%s", r.Because)
		}
	}
}
