package cause_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// The stacks of a call on a connection of the service's own.
var (
	asks    = []string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "main.call", "main.serve"}
	awaits  = []string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "main.call", "main.serve"}
	hangsUp = []string{"syscall.Close", "internal/poll.(*FD).Close", "net.(*conn).Close", "main.call", "main.serve"}
	backOff = []string{"time.Sleep", "main.again", "main.serve"}
)

// answered is a call whose answer comes after ns.
func answered(p *play, ns int64) { answeredIn(p, "main.call", ns) }

// answeredIn is such a call by a function.
func answeredIn(p *play, function string, ns int64) {
	by := func(stack []string) []string {
		out := slices.Clone(stack)
		out[slices.Index(out, "main.call")] = function
		return out
	}
	calls(serving, ms/100, by(asks)...)(p)
	netwaits(ns, by(awaits)...)(p)
	calls(serving, ms/100, with([]string{"syscall.read"}, by(awaits)...)...)(p)
}

// unanswered is a call whose deadline passes after ns.
func unanswered(p *play, ns int64) {
	calls(serving, ms/100, asks...)(p)
	netwaits(ns, awaits...)(p)
	calls(serving, ms/100, hangsUp...)(p)
}

// pauses lets the request sleep.
func pauses(p *play, ns int64) { pausesAt(p, ns, "sleep", backOff...) }

// pausesAt lets the request wait for time to pass in a function.
func pausesAt(p *play, ns int64, reason string, at ...string) {
	p.leaves(serving, 0, reason, at...)
	p.pass(ns)
	p.wakes(0, serving)
	p.runs(serving, 0)
}

// callers is a service whose requests make usual calls that are answered in a
// millisecond, but for every tenth, which does something else.
func callers(usual int, slow func(p *play)) scene {
	return scene{procs: 2, in: func(p *play, i int) {
		if i%10 == 9 {
			slow(p)
			return
		}
		for range usual {
			answered(p, ms)
		}
	}}
}

// alike is a service whose requests all do the same, and compute for a little more or
// less besides.
func alike(do func(p *play)) scene {
	return scene{procs: 2, in: func(p *play, i int) {
		do(p)
		p.pass(int64(i%7) * ms / 100)
	}}
}

// attempts makes n calls in vain, with a pause after each.
func attempts(n int, ns, pause int64) func(p *play) {
	return func(p *play) {
		for range n {
			unanswered(p, ns)
			if pause > 0 {
				pauses(p, pause)
			}
		}
	}
}

// byChildren makes n attempts, each by a child that outlives its deadline.
func byChildren(n int) scene {
	child := gotrace.GoID(1000)
	ask := func(p *play, ns int64, late bool) {
		child++
		p.do(p.b.Starts(serving, gotrace.NoProc, child, p.stack("main.ask", "main.serve"), p.stack("main.ask.func1")))
		p.seen[child] = true
		p.runs(child, 1)
		p.leaves(child, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.supply", "main.ask.func1")
		p.leaves(serving, 0, "select", choose...)
		p.pass(ns)
		if late {
			p.expires(serving)
		} else {
			p.wakes(0, child)
			p.runs(child, 1)
			p.wakes(child, serving, "runtime.chansend1", "main.ask.func1")
			p.do(p.b.Ends(child))
			p.do(p.b.Idle(1, gotrace.NoProc))
		}
		p.runs(serving, 0)
	}
	return scene{procs: 2, in: func(p *play, i int) {
		if i%10 == 9 {
			for range n {
				ask(p, 15*ms, true)
			}
		}
		ask(p, ms, false)
	}}
}

// atOnce asks n peers at once, by a child each, and gathers their answers one by one.
// Those of every tenth request run into their deadlines.
func atOnce(n gotrace.GoID) scene {
	first := gotrace.GoID(1000)
	child := []string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "main.supply", "main.ask.func1"}
	return scene{procs: 2, in: func(p *play, i int) {
		peers, ns := gotrace.GoID(1), ms
		if i%10 == 9 {
			peers, ns = n, 15*ms
		}
		p.do(p.b.Busy(1))
		for c := first; c < first+peers; c++ {
			p.do(p.b.Starts(serving, gotrace.NoProc, c, p.stack("main.ask", "main.serve"), p.stack("main.ask.func1")))
			p.seen[c] = true
			p.runs(c, 1)
			calls(c, ms/100, with(asks[:4], "main.supply", "main.ask.func1")...)(p)
			p.waits(c, "network", child...)
		}
		p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.ask", "main.serve")
		p.pass(ns)
		for c := first; c < first+peers; c++ {
			p.wakes(0, c)
			p.runs(c, 1)
			if ns > ms {
				calls(c, ms/100, with(hangsUp[:3], "main.supply", "main.ask.func1")...)(p)
			} else {
				calls(c, ms/100, with([]string{"syscall.read"}, child...)...)(p)
			}
			p.wakes(c, serving, "runtime.chansend1", "main.ask.func1")
			p.do(p.b.Ends(c))
			p.runs(serving, 0)
			if c < first+peers-1 {
				p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.ask", "main.serve")
				p.pass(ms / 10)
			}
		}
		p.do(p.b.Idle(1, gotrace.NoProc))
		first += peers
	}}
}

var retryScenes = []told{
	{name: "three attempts run into their deadline, and the fourth is answered",
		scene:   callers(1, func(p *play) { attempts(3, 15*ms, 0)(p); answered(p, ms) }),
		finding: "retry-storm", where: "main.call", share: 1},
	{name: "the pauses between attempts belong to them",
		scene:   callers(1, func(p *play) { attempts(3, 15*ms, 10*ms)(p); answered(p, ms) }),
		finding: "retry-storm", where: "main.call", share: 1},
	{name: "attempts by children run into their deadlines", scene: byChildren(3), finding: "retry-storm", where: "main.ask"},
	{name: "every request makes five attempts", scene: alike(attempts(5, 15*ms, 0)), finding: "retry-storm", where: "main.call"},
	{name: "every request makes three attempts and pauses between", scene: alike(attempts(3, 15*ms, 5*ms)), finding: "retry-storm", where: "main.call"},
	{name: "every request makes three calls that time out", scene: alike(attempts(3, 15*ms, 0)), alike: []string{"retry-storm", "slow-dependency"}},
	{name: "slow requests pause and call again, although they are answered",
		scene: callers(1, func(p *play) {
			for range 3 {
				answered(p, ms)
				pauses(p, 15*ms)
			}
			answered(p, ms)
		}), alike: []string{"retry-storm", "timer-wait"}},
	{name: "slow requests pause in a library that calls again what failed",
		scene: callers(1, func(p *play) {
			for range 3 {
				answered(p, ms)
				pausesAt(p, 15*ms, "select", "runtime.selectgo", "github.com/hashicorp/go-retryablehttp.(*Client).Do", "main.call", "main.serve")
			}
			answered(p, ms)
		}), finding: "retry-storm", where: "main.call"},

	{name: "six calls at a time run into their deadline", scene: atOnce(6), finding: "slow-dependency", where: "main.supply"},
	{name: "one call times out",
		scene: callers(1, func(p *play) { attempts(1, 40*ms, 0)(p); answered(p, ms) }), finding: "slow-dependency", where: "main.call"},
	{name: "one call times out, and a pause follows",
		scene: callers(1, func(p *play) { attempts(1, 40*ms, 5*ms)(p); answered(p, ms) }), finding: "slow-dependency", where: "main.call"},
	{name: "of five different calls two time out",
		scene: callers(5, func(p *play) {
			for range 3 {
				answered(p, ms)
			}
			attempts(2, 25*ms, 0)(p)
		}), finding: "slow-dependency", where: "main.call"},
	{name: "slow requests make many calls of varying length",
		scene: callers(1, func(p *play) {
			for i := range int64(20) {
				answered(p, ms+i*ms/10)
			}
		}), finding: "slow-dependency", where: "main.call"},
	{name: "a call is answered late, and the request looks up from waiting now and then",
		scene: callers(1, func(p *play) {
			calls(serving, ms/100, asks...)(p)
			for range 4 {
				netwaits(10*ms, awaits...)(p)
			}
			calls(serving, ms/100, with([]string{"syscall.read"}, awaits...)...)(p)
		}), finding: "slow-dependency", where: "main.call"},
	{name: "a request pauses three times",
		scene: callers(1, func(p *play) {
			for range 3 {
				pauses(p, 15*ms)
			}
			answered(p, ms)
		}), finding: "timer-wait", where: "main.again"},
	{name: "all requests ask at intervals whether something is done, slow ones more often",
		scene: scene{procs: 2, in: func(p *play, i int) {
			n := 2
			if i%10 == 9 {
				n = 8
			}
			for range n {
				answered(p, ms/2)
				pauses(p, 5*ms)
			}
		}}, finding: "timer-wait", where: "main.again", second: "timer-wait"},
	{name: "the holder of a lock makes attempts",
		scene: scene{procs: 2, cast: waitingHelper, in: every(10, behindHelper("sync", mutex, unlock, func(p *play) {
			held := []string{"main.refresh", "main.loop"}
			for range 3 {
				calls(helper, ms/100, with(asks[:4], held...)...)(p)
				p.leaves(helper, 1, "network", with(awaits[:3], held...)...)
				p.pass(15 * ms)
				p.wakes(0, helper)
				p.runs(helper, 1)
				calls(helper, ms/100, with(hangsUp[:3], held...)...)(p)
			}
		}))}, finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "the attempts are the smaller part of what slow requests do",
		scene:   callers(1, func(p *play) { attempts(2, 5*ms, 0)(p); answered(p, ms); pauses(p, 40*ms) }),
		finding: "timer-wait", where: "main.again"},
}

func TestRetriesAreToldFromOneSlowCallAndFromPauses(t *testing.T) { tell(t, retryScenes) }

// Calls that are answered at once, and made again, may fail: a trace does not tell.
func TestManyCallsThatAreMuchFasterMayFail(t *testing.T) {
	v := cause.Judge(attributed(t, callers(1, func(p *play) {
		for range 40 {
			answered(p, ms/3)
		}
	})), cause.Settings{})
	if len(v.Findings) != 0 || len(v.Consistent) == 0 || !slices.Equal(v.Consistent[0].Causes, []string{"slow-dependency", "retry-storm"}) {
		t.Errorf("%s %+v %+v", v.Sentence, v.Findings, v.Consistent)
	}
}

// Who asks a peer once for each of many items is late although no answer is.
func TestManyCallsAreToldFromSlowOnes(t *testing.T) {
	for _, c := range []struct {
		name string
		slow func(p *play)
		want string // what the sentence ends with
	}{
		{"many calls", func(p *play) {
			for range 40 {
				answered(p, ms)
			}
		}, "they wait in main.call for a peer's answer, 40.0 times each where typical requests do so 2.0 times."},
		{"slow calls", func(p *play) { answered(p, 20*ms); answered(p, 20*ms) }, "they wait in main.call for a peer's answer."},
		{"more of them, and slow", func(p *play) {
			for range 6 {
				answered(p, 8*ms)
			}
		}, "they wait in main.call for a peer's answer."},
	} {
		v := cause.Judge(attributed(t, callers(2, c.slow)), cause.Settings{})
		if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-dependency" || !strings.HasSuffix(v.Sentence, c.want) {
			t.Errorf("%s: %s %+v", c.name, v.Sentence, v.Findings)
		}
	}
}

// Who asks for each of many items where others never ask at all is late by their number, too, if each answer takes as long as those
// that others get; one of a few that take longer, or is asked for once, is another thing.
func TestManyCallsWhereOthersMakeNone(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		ns   int64
		want string // what the sentence ends with
	}{
		{"many", 40, 5 * ms, "they wait in main.call for a peer's answer, 40.0 times each."},
		{"many that take longer", 12, 15 * ms, "they wait in main.call for a peer's answer."},
		{"four", 4, 5 * ms, "they wait in main.call for a peer's answer."},
	} {
		v := cause.Judge(attributed(t, scene{procs: 2, in: func(p *play, i int) {
			answeredIn(p, "main.look", 5*ms)
			if i%10 == 9 {
				for range c.n {
					answered(p, c.ns)
				}
			}
		}}), cause.Settings{})
		if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-dependency" || !strings.HasSuffix(v.Sentence, c.want) {
			t.Errorf("%s: %s %+v", c.name, v.Sentence, v.Findings)
		}
	}
}
