package cause_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// settles holds what others take while it calls a peer, and every other call takes what calls takes
// anyway. Three others come meanwhile; each gives to the next.
func settles(reason string, at []string) func(p *play) {
	return func(p *play) {
		hold := p.vary(12 * ms)
		p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.settle", "main.serve")
		const n = 3
		for g := other; g < other+n; g++ {
			p.pass(ms / 5)
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Task(g, "request"))
			p.leaves(g, 1, reason, at...)
		}
		p.pass(hold - n*ms/5)
		p.wakes(0, serving)
		p.runs(serving, 0)
		p.passOn(n)
	}
}

// passOn lets the request give what it has to the first of n others, and each to the next.
func (p *play) passOn(n gotrace.GoID) {
	p.wakes(serving, other, gives...)
	for g := other; g < other+n; g++ {
		p.runs(g, 1)
		p.pass(ms / 20)
		if g+1 < other+n {
			p.wakes(g, g+1, gives...)
		}
		p.do(p.b.Done(g))
		p.leaves(g, 1, "network", home...)
	}
}

func waitingOthers(p *play) {
	for g := other; g < other+6; g++ {
		p.waits(g, "", home...)
	}
}

// permit is where a request waits for one of a semaphore's permits.
var permit = []string{"runtime.selectgo", "golang.org/x/sync/semaphore.(*Weighted).Acquire", "main.take", "main.serve"}

// connection is where a request waits for one of a pool's connections.
var connection = []string{"runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.take", "main.serve"}

// permitted is a service whose peer always takes nine milliseconds, with two permits for it: every
// tenth request finds them taken by others.
func permitted(p *play, i int) {
	call := func(g gotrace.GoID, on gotrace.ProcID) {
		p.leaves(g, on, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.call", "main.serve")
	}
	if i%10 == 9 {
		for g := other; g < other+2; g++ {
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Task(g, "request"))
			call(g, 1)
		}
		p.leaves(serving, 0, "select", permit...)
		p.pass(p.vary(9 * ms))
		for g := other; g < other+2; g++ {
			p.wakes(0, g)
			p.runs(g, 1)
			if g == other {
				p.wakes(g, serving, "golang.org/x/sync/semaphore.(*Weighted).Release", "main.give", "main.serve")
			}
			p.do(p.b.Done(g))
			p.leaves(g, 1, "network", home...)
		}
		p.runs(serving, 0)
	}
	call(serving, 0)
	p.pass(9 * ms)
	p.wakes(0, serving)
	p.runs(serving, 0)
}

var leadScenes = []told{
	{name: "a lock is held across a call", scene: scene{procs: 2, cast: waitingOthers, in: every(10, settles("sync", mutex))},
		finding: "lock-held-across-wait", where: "main.settle", second: "slow-dependency"},
	{name: "a channel of one is a lock", scene: scene{procs: 2, cast: waitingOthers, in: every(10, settles("chan send", takes))},
		finding: "lock-held-across-wait", where: "main.settle", second: "slow-dependency"},
	{name: "a library's pool of one connection is a lock", scene: scene{procs: 2, cast: waitingOthers, in: every(10, settles("select", connection))},
		finding: "lock-held-across-wait", where: "main.settle", second: "slow-dependency"},
	{name: "permits in front of a peer that is as slow as always", scene: scene{procs: 2, cast: waitingOthers, in: permitted},
		finding: "pool-exhausted", where: "main.take", second: "slow-dependency"},
}

func TestWhatMultipliesATimeIsNamedBeforeIt(t *testing.T) { tell(t, leadScenes) }

// desk is where a request waits for what one goroutine does for everybody.
var desk = []string{"runtime.chanrecv1", "main.(*desk).do", "main.serve"}

// serves is a goroutine that works for all requests. While it asks a peer, now and then for itself, or
// for every request and longer for each tenth of them, three others come, and are served by the same.
func serves(everybody bool) func(p *play, i int) {
	idle := []string{"runtime.chanrecv2", "main.(*desk).run"}
	return func(p *play, i int) {
		const n = 3
		long := i%10 == 9
		if !long || everybody {
			p.wakes(serving, helper, "runtime.chansend1", "main.(*desk).do", "main.serve")
		} else {
			p.wakes(0, helper)
		}
		p.do(p.b.Busy(1))
		p.runs(helper, 1)
		if long || everybody {
			p.leaves(helper, 1, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.(*desk).run")
		}
		p.leaves(serving, 0, "chan receive", desk...)
		if long {
			for g := other; g < other+n; g++ {
				p.pass(ms / 5)
				p.wakes(0, g)
				p.do(p.b.Busy(0))
				p.runs(g, 0)
				p.do(p.b.Task(g, "request"))
				p.leaves(g, 0, "chan receive", desk...)
			}
			p.pass(p.vary(12 * ms))
		}
		if long || everybody {
			p.pass(ms)
			p.wakes(0, helper)
			p.do(p.b.Busy(1))
			p.runs(helper, 1)
		}
		p.pass(ms / 20)
		p.wakes(helper, serving, "runtime.closechan", "main.(*desk).run")
		if long {
			for g := other; g < other+n; g++ {
				p.pass(ms / 20)
				p.wakes(helper, g, "runtime.closechan", "main.(*desk).run")
			}
		}
		p.leaves(helper, 1, "chan receive", idle...)
		if long {
			for g := other; g < other+n; g++ {
				p.do(p.b.Busy(1))
				p.runs(g, 1)
				p.do(p.b.Done(g))
				p.leaves(g, 1, "network", home...)
			}
		}
		p.do(p.b.Busy(0))
		p.runs(serving, 0)
	}
}

func atDesk(p *play) {
	waitingOthers(p)
	p.waits(helper, "", "runtime.chanrecv2", "main.(*desk).run")
}

// comeBefore has requests of others come, and wait at a place for their turn, while the serving goroutine does not
// run.
func comeBefore(p *play, others []gotrace.GoID, at ...string) {
	p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
	for _, g := range others {
		p.wakes(0, g)
		p.runs(g, 0)
		p.do(p.b.Task(g, "request"))
		p.waits(g, "chan receive", at...)
	}
	p.runs(serving, 0)
}

// servesEach is a goroutine that asks a peer for each request, one after the other, which takes two milliseconds.
// Three others come just before every tenth request, and wait at a place for that; for the first of them
// the peer takes so long.
func servesEach(first int64, at ...string) func(p *play, i int) {
	return servesAll(func(i int) int {
		if i%10 == 9 {
			return 3
		}
		return 0
	}, func(_ int, ofSeveral bool) int64 {
		if ofSeveral {
			return first
		}
		return 2 * ms
	}, at...)
}

// servesAll is servesEach where so many others come before a request, and the peer takes so
// long, which may depend on whether it is for the first of several.
func servesAll(queued func(i int) int, takes func(i int, first bool) int64, at ...string) func(p *play, i int) {
	return func(p *play, i int) {
		var before []gotrace.GoID
		for k := range queued(i) {
			before = append(before, other+gotrace.GoID(k))
		}
		comeBefore(p, before, at...)
		p.wakes(serving, helper, "runtime.chansend1", "main.(*desk).do", "main.serve")
		p.leaves(serving, 0, "chan receive", desk...)
		p.do(p.b.Busy(1))
		p.runs(helper, 1)
		for k, g := range append(before, serving) {
			d := takes(i, k == 0 && g != serving)
			p.leaves(helper, 1, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.(*desk).run")
			p.pass(d)
			p.wakes(0, helper)
			p.do(p.b.Busy(1))
			p.runs(helper, 1)
			p.wakes(helper, g, "runtime.chansend1", "main.(*desk).run")
			p.do(p.b.Busy(0))
			p.runs(g, 0)
			if g != serving {
				p.do(p.b.Done(g))
				p.leaves(g, 0, "network", home...)
			}
		}
		p.leaves(helper, 1, "chan receive", "runtime.chanrecv2", "main.(*desk).run")
	}
}

// fromTheMiddle has five others come before each request in the last eighth of a scene's.
func fromTheMiddle(i int) int {
	if i < 350 {
		return 0
	}
	return 5
}

func TestAWorkerThatAsksAPeerForOneAfterTheOtherIsTheCause(t *testing.T) {
	tell(t, []told{
		{name: "the peer is as fast as usual", scene: scene{procs: 2, cast: atDesk, in: servesEach(2*ms, desk...)},
			finding: "single-worker", where: "main.ask"},
		{name: "those before came on another way", scene: scene{procs: 2, cast: atDesk, in: servesEach(2*ms, "runtime.chanrecv1", "main.(*desk).do", "main.sync")},
			finding: "single-worker", where: "main.ask"},
		{name: "the peer is slower from the middle on", scene: scene{procs: 2, cast: atDesk, in: servesAll(fromTheMiddle, func(i int, _ bool) int64 {
			if fromTheMiddle(i) > 0 {
				return 12 * ms
			}
			return 2 * ms
		}, desk...)},
			finding: "slow-dependency", where: "main.ask"},
		{name: "for some the peer always takes long, and they queue", scene: scene{procs: 2, cast: atDesk, in: servesAll(func(i int) int {
			if i%10 == 9 {
				return 5
			}
			return 0
		}, func(i int, _ bool) int64 {
			if i%10 == 9 {
				return 12 * ms
			}
			return 2 * ms
		}, desk...)},
			finding: "single-worker", where: "main.ask"},
		{name: "the queue is longer from the middle on", scene: scene{procs: 2, cast: atDesk, in: servesAll(fromTheMiddle, func(int, bool) int64 { return 2 * ms }, desk...)},
			finding: "single-worker", where: "main.ask"},
		{name: "the peer takes long once", scene: scene{procs: 2, cast: atDesk, in: servesEach(60*ms, desk...)},
			finding: "slow-dependency", where: "main.ask"},
	})
}

// calledTogether has each request wait at a place, with three others at every tenth, for what answers gives to one after the other, to the
// request last.
func calledTogether(reason string, at []string, answers func(p *play, g gotrace.GoID)) func(p *play, i int) {
	return func(p *play, i int) {
		var callers []gotrace.GoID
		if i%10 == 9 {
			callers = []gotrace.GoID{other, other + 1, other + 2}
		}
		comeBefore(p, callers, at...)
		p.leaves(serving, 0, reason, at...)
		for _, g := range append(callers, serving) {
			p.pass(2 * ms)
			p.wakes(0, helper)
			p.runs(helper, 1)
			answers(p, g)
			p.runs(g, 0)
			if g != serving {
				p.do(p.b.Done(g))
				p.leaves(g, 0, "network", home...)
			}
		}
	}
}

// answersEach is a goroutine that reads the answers to all calls of a peer from one connection, in whatever order
// they come.
func answersEach(p *play, g gotrace.GoID) {
	p.wakes(helper, g, "runtime.chansend1", "main.(*desk).read")
	p.leaves(helper, 1, "network", answersRead...)
}

var answersRead = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.(*desk).read"}

// Who reads what a peer answers does nothing for those who wait.
func TestWhoReadsAllAnswersIsNoWorker(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, cast: func(p *play) {
		waitingOthers(p)
		p.waits(helper, "", "internal/poll.runtime_pollWait", "net.(*netFD).connect", "net.(*Dialer).DialContext", "main.(*desk).read")
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.waits(helper, "network", answersRead...)
	}, in: calledTogether("chan receive", desk, answersEach)}), cause.Settings{})
	if len(v.Findings) == 0 || v.Findings[0].Cause != "slow-dependency" {
		t.Errorf("%s %+v", v.Sentence, v.Findings)
	}
}

// Nor does whoever hands on what a broker's client has read; but who answers may be in the process if that is connected to itself.
func TestWhoHandsOnAllAnswersIsNoWorker(t *testing.T) {
	const conn, hands = "github.com/nats-io/nats%2ego.(*Conn).", helper + 1
	asks := []string{"runtime.selectgo", conn + "request", "main.(*desk).ask", "main.serve"}
	read := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", conn + "readLoop"}
	idle := []string{"sync.runtime_notifyListWait", "sync.(*Cond).Wait", conn + "waitForMsgs"}
	a := attributed(t, scene{procs: 2, cast: func(p *play) {
		waitingOthers(p)
		p.waits(helper, "network", read...)
		p.waits(hands, "sync.(*Cond).Wait", idle...)
	}, in: calledTogether("select", asks, func(p *play, g gotrace.GoID) {
		p.wakes(helper, hands, "sync.(*Cond).Signal", conn+"processMsg", conn+"readLoop")
		p.leaves(helper, 1, "network", read...)
		p.runs(hands, 1)
		p.wakes(hands, g, "runtime.chansend1", conn+"respHandler", conn+"waitForMsgs")
		p.leaves(hands, 1, "sync.(*Cond).Wait", idle...)
	})})
	for _, inside := range []bool{false, true} {
		set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.3, idle: 0.6})}
		set.Host.After = &host.After{Sockets: []host.Socket{{Remote: "127.0.0.1:4222", State: "ESTABLISHED", Inside: inside}}}
		v := cause.Judge(a, set)
		finding, alike := "slow-dependency", []string(nil)
		if inside {
			finding, alike = "", []string{"slow-dependency", "single-worker", "timer-wait", "expensive-request"}
		}
		check(t, v, finding, alike)
	}
}

// Where the process is connected to itself, and one goroutine of the broker's client is at work whenever slow requests wait, that one
// answers; what it does for a single one is no queue.
func TestWhoAnswersAllThatABrokerIsAskedForIsAWorker(t *testing.T) {
	const conn, hands = "github.com/nats-io/nats%2ego.(*Conn).", helper + 1
	asks := []string{"runtime.selectgo", conn + "request", "main.(*desk).ask", "main.serve"}
	read := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", conn + "readLoop"}
	idle := []string{"sync.runtime_notifyListWait", "sync.(*Cond).Wait", conn + "waitForMsgs"}
	answers := func(n int, each int64, works bool) scene {
		return scene{procs: 2, cast: func(p *play) {
			waitingOthers(p)
			p.waits(helper, "network", read...)
			p.waits(hands, "sync.(*Cond).Wait", idle...)
		}, in: func(p *play, i int) {
			callers, d := []gotrace.GoID(nil), int64(ms)
			if i%10 == 9 {
				callers, d = []gotrace.GoID{other, other + 1, other + 2}[:n], each
			}
			comeBefore(p, callers, asks...)
			p.leaves(serving, 0, "select", asks...)
			p.wakes(0, helper)
			p.runs(helper, 1)
			p.wakes(helper, hands, "sync.(*Cond).Signal", conn+"processMsg", conn+"readLoop")
			p.leaves(helper, 1, "network", read...)
			p.runs(hands, 1)
			if !works {
				p.leaves(hands, 1, "sync.(*Cond).Wait", idle...)
			}
			for _, g := range append(callers, serving) {
				if works {
					p.leaves(hands, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.settle", conn+"waitForMsgs")
				}
				p.pass(d)
				if works {
					p.wakes(0, hands)
					p.runs(hands, 1)
				}
				p.wakes(0, helper)
				p.runs(helper, 0)
				p.wakes(helper, g, "runtime.chansend1", conn+"respHandler", conn+"readLoop")
				p.leaves(helper, 0, "network", read...)
				p.runs(g, 0)
				if g != serving {
					p.do(p.b.Done(g))
					p.leaves(g, 0, "network", home...)
				}
			}
			if works {
				p.leaves(hands, 1, "sync.(*Cond).Wait", idle...)
			}
		}}
	}
	unknown := []string{"slow-dependency", "single-worker", "timer-wait", "expensive-request"}
	for _, c := range []struct {
		name    string
		scene   scene
		inside  bool
		finding string
		alike   []string
	}{
		{"one for four", answers(3, 6*ms, true), true, "single-worker", nil},
		{"one for each", answers(0, 24*ms, true), true, "", unknown},
		{"somebody else", answers(3, 6*ms, false), true, "", unknown},
		{"the broker is elsewhere", answers(3, 6*ms, true), false, "slow-dependency", nil},
	} {
		a := attributed(t, c.scene)
		set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.3, idle: 0.6})}
		set.Host.After = &host.After{Sockets: []host.Socket{{Remote: "127.0.0.1:4222", State: "ESTABLISHED", Inside: c.inside}}}
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(a, set)
			check(t, v, c.finding, c.alike)
			if c.finding == "single-worker" && (v.Findings[0].Where == nil || v.Findings[0].Where.Function != "main.settle") {
				t.Errorf("in %+v", v.Findings[0].Where)
			}
		})
	}
}

// Every request calls a peer by a function by which another goroutine does under a lock, too: who does so before he waits for the lock
// does it without that, and then the lock is the cause.
func TestWhatRequestsDoBeforeTheyWaitForALockIsDoneWithoutIt(t *testing.T) {
	call := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call"}
	waits := func(g gotrace.GoID, on gotrace.ProcID, ns int64, by ...string) func(p *play) {
		return func(p *play) {
			p.leaves(g, on, "network", slices.Concat(call, by)...)
			p.pass(ns)
			p.wakes(0, g)
			p.runs(g, on)
		}
	}
	calls := everyTime(waits(serving, 0, 2*ms, "main.unlock", "main.serve"))
	lock := every(10, behindHelper("sync", []string{"sync.(*Mutex).Lock", "main.unlock", "main.serve"}, []string{"sync.(*Mutex).Unlock", "main.settle", "main.loop"},
		waits(helper, 1, 20*ms, "main.settle", "main.loop")))
	tell(t, []told{
		{name: "before", scene: scene{procs: 2, cast: waitingHelper, in: then(calls, lock)}, finding: "lock-held-across-wait"},
		{name: "behind that", scene: scene{procs: 2, cast: waitingHelper, in: then(lock, calls)}, finding: "slow-dependency", where: "main.call"},
		{name: "before and behind that", scene: scene{procs: 2, cast: waitingHelper, in: then(calls, lock, calls)}, finding: "slow-dependency", where: "main.call"},
	})
}

// Where a worker computes in what others use, too, it is named beside that.
func TestAWorkerIsNamedBesideWhatItCalls(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, cast: waitingHelper, in: compacts}), cause.Settings{})
	if want := "(cpu in main.compact, run by main.loop)"; !strings.Contains(v.Sentence, want) {
		t.Errorf("%q has no %q", v.Sentence, want)
	}
}

func TestAWorkerThatAsksAPeerForFewOfThoseWhoWaitIsTheCause(t *testing.T) {
	tell(t, []told{
		{name: "for itself", scene: scene{procs: 2, cast: atDesk, in: serves(false)},
			finding: "single-worker", where: "main.ask"},
		{name: "for everybody", scene: scene{procs: 2, cast: atDesk, in: serves(true)},
			finding: "slow-dependency", where: "main.ask"},
	})
}

// All requests wait for a peer for longer than a level needs, and some hardly longer than others: nobody knows whether that is too long.
func TestThatSomeWaitHardlyLongerIsALevel(t *testing.T) {
	for _, c := range []struct{ usual, slow int64 }{{15, 22}, {15, 26}, {19, 31}, {40, 56}} {
		v := cause.Judge(attributed(t, scene{procs: 2, in: func(p *play, i int) {
			takes := c.usual
			if i%10 == 9 {
				takes = c.slow
			}
			netwaits(p.vary(takes*ms), reply...)(p)
		}}), cause.Settings{})
		level := c.slow == 22
		if len(v.Findings) == 0 || v.Findings[0].Cause != "slow-dependency" || (v.Reason == "level") != level || (v.Verdict == "cause") == level {
			t.Errorf("%d and %d ms: %s %q %+v", c.usual, c.slow, v.Verdict, v.Reason, v.Findings)
		}
	}
}

// Every request asks a peer, which always takes as long. What takes some of them longer is the answer, unless it takes little of their time
// or it is that peer; and where those that take longer are of another endpoint, which always does, there is nothing to answer.
func TestWhatGrowsIsNamedWhereEveryRequestIsSlow(t *testing.T) {
	ask := func(takes int64) func(p *play) { return netwaits(takes, reply...) }
	nap := func(takes int64) func(p *play) {
		return func(p *play) {
			waitsOn("sleep", takes, []string{"time.Sleep", "main.backoff", "main.serve"})(p, serving, 0)
		}
	}
	for _, c := range []struct {
		name  string
		do    func(p *play, i int)
		task  func(i int) string
		want  string
		whole bool
	}{
		{"a timer", then(everyTime(ask(15*ms)), every(10, nap(12*ms))), nil, "timer-wait", false},
		{"a timer that takes little of their time", then(everyTime(ask(15*ms)), every(10, nap(5*ms))), nil, "slow-dependency", true},
		{"the peer itself", func(p *play, i int) { ask([]int64{15 * ms, 27 * ms}[i%10/9])(p) }, nil, "slow-dependency", true},
		{"another endpoint that always takes longer", func(p *play, i int) { ask([]int64{15 * ms, 28 * ms}[i%10/9])(p) },
			func(i int) string { return []string{"item", "list"}[i%10/9] }, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, scene{procs: 2, in: c.do, task: c.task}), cause.Settings{})
			got := ""
			if v.Verdict == "cause" {
				got = v.Findings[0].Cause
			}
			if got != c.want || v.Whole != c.whole {
				t.Errorf("named %q, whole: %t: %s %s", got, v.Whole, v.Verdict, v.Sentence)
			}
		})
	}
}
