package cause_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// The stacks of a pool of the service's own.
var (
	takes = []string{"runtime.chansend1", "main.take", "main.serve"}
	gives = []string{"runtime.chanrecv1", "main.give", "main.serve"}
	uses  = []string{"time.Sleep", "main.use", "main.serve"}
)

// other carries requests too, in the scenes with a pool.
const other = crowd0

// pool is a service with one item that requests use for a millisecond: each of
// the serving goroutine waits for one of the other. From the 300th on nothing is
// given back.
type pool struct {
	// last plays the last use, while the serving goroutine waits; it is nil if
	// everything is given back.
	last func(p *play)
	dry  bool
	// patience is how long those wait who get nothing any more, 15 ms if it is 0.
	patience int64
}

func (s pool) scene() scene {
	return scene{procs: 2, cast: func(p *play) { p.waits(other, "", home...) }, in: func(p *play, i int) {
		if s.dry {
			p.leaves(serving, 0, "select", takes...)
			p.pass(cmp.Or(s.patience, 15*ms))
			p.expires(serving)
			p.runs(serving, 0)
			return
		}
		p.wakes(0, other)
		p.runs(other, 1)
		p.do(p.b.Task(other, "request"))
		p.leaves(other, 1, "sleep", uses...)
		p.leaves(serving, 0, "select", takes...)
		p.pass(ms)
		p.wakes(0, other)
		p.runs(other, 1)
		if s.dry = i == 299 && s.last != nil; s.dry {
			s.last(p)
			return
		}
		p.wakes(other, serving, gives...)
		ends(p)
		p.runs(serving, 0)
	}}
}

// shrinking is a pool that has three items at first, then two, then one, each of which a request uses for a millisecond; as many wait
// for one as use one, the serving goroutine last.
// Each tenth of the uses of the last item takes ten times as long.
func shrinking() scene {
	const third = 130
	holder := func(k int) gotrace.GoID { return other + gotrace.GoID(k) }
	waiter := func(k int) gotrace.GoID { return other + 3 + gotrace.GoID(k) }
	begins := func(p *play, g gotrace.GoID, reason string, at []string) {
		p.wakes(0, g)
		p.runs(g, 1)
		p.do(p.b.Task(g, "request"))
		p.leaves(g, 1, reason, at...)
	}
	return scene{procs: 2, cast: func(p *play) {
		for k := range 6 {
			p.waits(holder(k), "", home...)
		}
	}, in: func(p *play, i int) {
		items := max(1, 3-i/third)
		for k := range items {
			begins(p, holder(k), "sleep", uses)
		}
		for k := range items - 1 {
			begins(p, waiter(k), "chan send", takes)
		}
		p.leaves(serving, 0, "chan send", takes...)
		if p.pass(ms); items == 1 && i%10 == 9 {
			p.pass(9 * ms)
		}
		for k := range items {
			g, next := holder(k), serving
			if k < items-1 {
				next = waiter(k)
			}
			p.wakes(0, g)
			p.runs(g, 1)
			p.wakes(g, next, gives...)
			p.do(p.b.Done(g))
			p.leaves(g, 1, "network", home...)
			if next != serving {
				p.runs(next, 1)
				p.do(p.b.Done(next))
				p.leaves(next, 1, "network", home...)
			}
		}
		p.runs(serving, 0)
	}}
}

// ends ends the other goroutine's request.
func ends(p *play) {
	p.do(p.b.Done(other))
	p.leaves(other, 1, "network", home...)
}

// keeps hands the item to the serving goroutine, which is done with it and keeps it
// although the other one waits for it again, in vain.
func keeps(p *play) {
	p.wakes(other, serving, gives...)
	p.leaves(other, 1, "select", takes...)
	p.runs(serving, 0)
	p.leaves(serving, 0, "sleep", uses...)
	p.pass(ms)
	p.wakes(0, serving)
	p.runs(serving, 0)
	p.do(p.b.Done(serving))
	p.leaves(serving, 0, "network", home...)
	p.pass(12 * ms)
	p.expires(other)
	p.runs(other, 1)
	ends(p)
	p.wakes(0, serving)
	p.runs(serving, 0)
	p.do(p.b.Task(serving, "request"))
}

// keptUnseen is done with the item, which it got without a wait, and keeps it.
func keptUnseen(p *play) {
	ends(p)
	p.pass(14 * ms)
	p.expires(serving)
	p.runs(serving, 0)
}

// handsOn leaves the item to a goroutine that it starts, which is at work with it for good.
func handsOn(p *play) {
	const job = gotrace.GoID(91)
	p.do(p.b.Starts(other, gotrace.NoProc, job, p.stack(uses...), p.stack("main.export")))
	ends(p)
	p.runs(job, 1)
	p.leaves(job, 1, "select", "runtime.selectgo", "main.export")
	p.pass(14 * ms)
	p.expires(serving)
	p.runs(serving, 0)
}

// stays is at work with the item for good.
func stays(p *play) {
	p.leaves(other, 1, "network", reply...)
	p.pass(14 * ms)
	p.expires(serving)
	p.runs(serving, 0)
}

// hangs is the pool, and then requests that wait there for good: without a deadline, and at the
// site at. They come while the serving goroutine does something else.
func hangs(at ...string) scene { return hangsAs("request", "select", at) }

// hangsWithin is hangs where each request starts a goroutine that waits there for it.
func hangsWithin(at ...string) scene {
	const behind = 100
	handler := "net/http.(*timeoutHandler).ServeHTTP"
	starts := func(p *play, g, child gotrace.GoID, on gotrace.ProcID) {
		p.do(p.b.Starts(g, gotrace.NoProc, child, p.stack(handler, "main.serve"), p.stack(handler+".func1")))
		p.leaves(g, on, "select", "runtime.selectgo", handler, "main.serve")
		p.runs(child, on)
	}
	s := hangsThere("request", func(p *play, g gotrace.GoID) {
		starts(p, g, g+behind, 1)
		p.leaves(g+behind, 1, "select", at...)
	})
	in := s.in
	s.in = func(p *play, i int) {
		if i < 5 { // what it starts ends
			child := gotrace.GoID(1000 + i)
			starts(p, serving, child, 0)
			p.wakes(child, serving, "runtime.closechan", handler+".func1")
			p.do(p.b.Ends(child))
			p.runs(serving, 0)
		}
		in(p, i)
	}
	return s
}

// hangsAs is hangs for requests of another name, which wait for another reason.
func hangsAs(name, reason string, at []string) scene {
	return hangsThere(name, func(p *play, g gotrace.GoID) { p.leaves(g, 1, reason, at...) })
}

// hangsThere is hangs for requests of another name, which do something else that does not end.
func hangsThere(name string, do func(p *play, g gotrace.GoID)) scene {
	const first, crowd = crowd0 + 1, 20
	s := pool{}.scene()
	cast, in := s.cast, s.in
	s.requests = 300
	s.cast = func(p *play) {
		cast(p)
		for g := range gotrace.GoID(crowd) {
			p.waits(first+g, "", home...)
		}
	}
	s.in = func(p *play, i int) {
		if i < 299 {
			in(p, i)
			return
		}
		p.leaves(serving, 0, "sleep", uses...)
		for g := range gotrace.GoID(crowd) {
			p.wakes(0, first+g)
			p.runs(first+g, 1)
			p.do(p.b.Task(first+g, name))
			do(p, first+g)
			p.pass(ms)
		}
		p.pass(300 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}
	return s
}

// withJob is a scene in which a goroutine begins something that it is not done with when the recording ends: it may have what others
// wait for.
func withJob(s scene) scene {
	const job = gotrace.GoID(90)
	cast, in := s.cast, s.in
	s.cast = func(p *play) {
		cast(p)
		p.waits(job, "", ticks...)
	}
	s.in = func(p *play, i int) {
		if i == 5 {
			p.wakes(0, job)
			p.runs(job, 1)
			p.leaves(job, 1, "select", "runtime.selectgo", "main.export", "main.tick")
		}
		in(p, i)
	}
	return s
}

var poolScenes = []told{
	{name: "nobody gets it any more, and they wait for it without a deadline", scene: hangs(takes...), finding: "pool-leak", where: "main.take"},
	{name: "the same, and a job may have it", scene: withJob(hangs(takes...)), alike: []string{"pool-leak", "pool-exhausted"}},
	{name: "nobody gets it any more, and goroutines that they start wait for it", scene: hangsWithin(takes...), finding: "pool-leak", where: "main.take"},
	{name: "the same, and a job may have it", scene: withJob(hangsWithin(takes...)), alike: []string{"pool-leak", "pool-exhausted"}},
	{name: "they hang where nobody waits for what others give back", scene: hangs(choose...)},
	{name: "they hang for the answer to a call", scene: hangs("runtime.selectgo", "net/http.(*persistConn).roundTrip", "net/http.(*Client).Get", "main.ask", "main.serve"), finding: "slow-dependency", where: "main.ask"},
	{name: "one keeps what others wait for, and nobody gets it any more", scene: pool{last: keeps}.scene(), finding: "pool-leak", where: "main.take"},
	{name: "nobody gets it any more, and nobody was seen to keep it", scene: pool{last: keptUnseen}.scene(), finding: "pool-leak", where: "main.take"},
	{name: "the same, and a job may have it", scene: withJob(pool{last: keptUnseen}.scene()), alike: []string{"pool-leak", "pool-exhausted"}},
	{name: "nobody gets it any more, and who had it left it to another", scene: pool{last: handsOn}.scene(), alike: []string{"pool-leak", "pool-exhausted"}},
	{name: "nobody was seen to keep it, for so long that it does not matter", scene: withJob(longer(pool{last: keptUnseen}.scene(), 575)), finding: "pool-leak", where: "main.take"},
	{name: "the same, for many thousand times as long as it was ever used for", scene: withJob(pool{last: keptUnseen, patience: 150 * ms}.scene()), finding: "pool-leak", where: "main.take"},
	{name: "everything is given back", scene: pool{}.scene()},
	{name: "one item after the other is missing", scene: shrinking(), finding: "pool-leak", where: "main.take"},
	{name: "nobody gets it any more, and alarms have them look whether their time is out", scene: longer(alarmed(true), 575), finding: "pool-leak", where: "main.take"},
	{name: "the same, and nobody ever got it", scene: alarmed(false), alike: []string{"pool-exhausted", "pool-leak", "timer-wait"}},
}

// The stacks of a pool whose waiters are woken now and then to see whether their time is out.
var (
	condTakes = []string{"sync.(*Cond).Wait", "main.take", "main.serve"}
	condGives = []string{"sync.(*Cond).Signal", "main.give", "main.serve"}
	ticks     = []string{"time.Sleep", "main.tick"}
)

// alarmed is a pool of one item that nobody gives back from the 300th request on, or that never had
// any: whoever wants it then waits for it three times, until an alarm has it give up.
func alarmed(given bool) scene {
	return scene{procs: 2, cast: func(p *play) {
		p.waits(other, "", home...)
		p.waits(helper, "", ticks...)
	}, in: func(p *play, i int) {
		switch {
		case given && i < 300:
			p.wakes(0, other)
			p.runs(other, 1)
			p.do(p.b.Task(other, "request"))
			p.leaves(other, 1, "sleep", uses...)
			p.leaves(serving, 0, "sync.(*Cond).Wait", condTakes...)
			p.pass(ms)
			p.wakes(0, other)
			p.runs(other, 1)
			p.wakes(other, serving, condGives...)
			ends(p)
		case i < 300:
			return
		default:
			for range 3 {
				p.leaves(serving, 0, "sync.(*Cond).Wait", condTakes...)
				p.pass(5 * ms)
				p.wakes(0, helper)
				p.runs(helper, 1)
				p.wakes(helper, serving, "sync.(*Cond).Broadcast", "main.tick")
				p.leaves(helper, 1, "sleep", ticks...)
				p.runs(serving, 0)
			}
			return
		}
		p.runs(serving, 0)
	}}
}

// longer is a scene of so many requests.
func longer(s scene, requests int) scene {
	s.requests = requests
	return s
}

func TestAPoolThatLeaksIsToldFromOneThatIsTooSmall(t *testing.T) { tell(t, poolScenes) }

// open is a service with one connection to a database: of every tenth request it has to wait for
// the one before, which another goroutine served and which left rows open.
type open struct {
	// done: that one has ended when its query's deadline passes.
	done bool
	// before: it was served before the recording began.
	before bool
	// anew: the connection is closed then, and another one opened for it.
	anew bool
}

func (o open) scene() scene {
	waits := []string{"runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).query", "main.exists", "main.serve"}
	awaits := []string{"runtime.selectgo", "database/sql.(*Rows).awaitDone"}
	opener := []string{"runtime.selectgo", "database/sql.(*DB).connectionOpener"}
	w := gotrace.GoID(1000)
	return scene{procs: 2, cast: func(p *play) {
		p.waits(other, "", home...)
		p.waits(helper, "select", opener...)
		for g := w + 1; o.before && g <= w+100; g++ {
			p.waits(g, "select", awaits...)
		}
		if !o.done && o.before {
			p.wakes(0, other)
			p.runs(other, 1)
			p.do(p.b.Task(other, "request"))
			p.waits(other, "network", reply...)
		}
	}, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		w++
		if !o.before {
			p.wakes(0, other)
			p.runs(other, 1)
			p.do(p.b.Task(other, "request"))
			p.do(p.b.Starts(other, gotrace.NoProc, w, p.stack("database/sql.(*Rows).initContextClose", "database/sql.(*DB).query", "main.exists", "main.serve"), p.stack("database/sql.(*Rows).awaitDone")))
			p.seen[w] = true
			if o.done {
				ends(p)
				p.do(p.b.Busy(1))
			} else {
				p.waits(other, "network", reply...)
			}
			p.runs(w, 1)
			p.leaves(w, 1, "select", awaits...)
		}
		p.leaves(serving, 0, "select", waits...)
		p.pass(15 * ms)
		p.expires(w)
		p.do(p.b.Busy(1))
		p.runs(w, 1)
		if o.anew {
			p.wakes(w, helper, "runtime.chansend1", "database/sql.(*DB).maybeOpenNewConnections", "database/sql.(*Rows).awaitDone")
			p.do(p.b.Ends(w))
			p.runs(helper, 1)
			p.pass(ms)
			p.wakes(helper, serving, "runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "database/sql.(*DB).openNewConnection", "database/sql.(*DB).connectionOpener")
			p.waits(helper, "select", opener...)
		} else {
			p.wakes(w, serving, "runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "database/sql.(*Rows).awaitDone")
			p.do(p.b.Ends(w))
		}
		if !o.done && !o.before {
			p.wakes(0, other)
			p.runs(other, 1)
			p.do(p.b.Done(other))
			p.waits(other, "network", home...)
		}
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

func TestWhatOnlyADeadlineGivesBackIsALeak(t *testing.T) {
	for _, o := range []open{{done: true}, {done: true, before: true}, {done: true, anew: true}, {done: true, before: true, anew: true}} {
		v := cause.Judge(attributed(t, o.scene()), cause.Settings{})
		check(t, v, "pool-leak", nil)
		if len(v.Findings) > 0 && (v.Findings[0].Where == nil || v.Findings[0].Where.Function != "main.exists") {
			t.Errorf("%+v: at %+v", o, v.Findings[0].Where)
		}
	}
	for _, o := range []open{{}, {anew: true}, {before: true}, {before: true, anew: true}} {
		for _, f := range cause.Judge(attributed(t, o.scene()), cause.Settings{}).Findings {
			if f.Cause == "pool-leak" {
				t.Errorf("%+v: of a request that is still at work: %+v", o, f)
			}
		}
	}
}

// unclosed is a service that may have one connection to a peer: of every tenth request it has to wait for the
// one before, which another goroutine served and which left the answer's body unread. Whoever reads the
// connection closes it when the time for the call is over, and has another one made. done is whether that
// request has ended long before.
func unclosed(done bool) scene {
	reader := gotrace.GoID(1000)
	return scene{procs: 2, cast: func(p *play) {
		p.waits(other, "", home...)
	}, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		reader += 2
		dialer := reader + 1
		p.waits(reader, "", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net/http.(*persistConn).readLoop")
		p.wakes(0, other)
		p.runs(other, 1)
		p.do(p.b.Task(other, "request"))
		p.leaves(other, 1, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.call", "main.serve")
		p.pass(ms)
		p.wakes(0, reader)
		p.do(p.b.Busy(1))
		p.runs(reader, 1)
		p.wakes(reader, other, "runtime.chansend1", "net/http.(*persistConn).readLoop")
		p.leaves(reader, 1, "select", "runtime.selectgo", "net/http.(*persistConn).readLoop")
		p.do(p.b.Busy(1))
		p.runs(other, 1)
		ends := func() {
			p.do(p.b.Done(other))
			p.leaves(other, 1, "network", home...)
		}
		if done {
			ends()
		} else {
			p.leaves(other, 1, "network", reply...)
		}
		p.leaves(serving, 0, "select", "runtime.selectgo", "net/http.(*Transport).getConn", "main.call", "main.serve")
		p.pass(15 * ms)
		if !done {
			p.wakes(0, other)
			p.do(p.b.Busy(1))
			p.runs(other, 1)
			ends()
		}
		p.expires(reader)
		p.do(p.b.Busy(1))
		p.runs(reader, 1)
		p.do(p.b.Starts(reader, gotrace.NoProc, dialer, p.stack("net/http.(*Transport).startDialConnForLocked", "net/http.(*Transport).decConnsPerHost", "net/http.(*persistConn).readLoop"), p.stack("net/http.(*Transport).dialConnFor")))
		p.seen[dialer] = true
		p.do(p.b.Ends(reader))
		p.runs(dialer, 1)
		p.leaves(dialer, 1, "network", "internal/poll.runtime_pollWait", "net.(*netFD).connect", "net.(*Dialer).DialContext", "net/http.(*Transport).dialConn", "net/http.(*Transport).dialConnFor")
		p.pass(ms / 10)
		p.wakes(0, dialer)
		p.do(p.b.Busy(1))
		p.runs(dialer, 1)
		p.wakes(dialer, serving, "runtime.chansend1", "net/http.(*wantConn).tryDeliver", "net/http.(*Transport).dialConnFor")
		p.do(p.b.Ends(dialer))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

func TestABodyThatIsNotClosedLeaksItsConnection(t *testing.T) {
	check(t, cause.Judge(attributed(t, unclosed(true)), cause.Settings{}), "pool-leak", nil)
	for _, f := range cause.Judge(attributed(t, unclosed(false)), cause.Settings{}).Findings {
		if f.Cause == "pool-leak" || f.Cause == "dial-per-request" {
			t.Errorf("of a request that is still at work: %+v", f)
		}
	}
}

// Who has not been let in when the recording ends tells nothing of who keeps the connections: the others do.
func TestALeakIsSeenByWhoWasLetIn(t *testing.T) {
	s := unclosed(true)
	cast, in := s.cast, s.in
	const first, n = other + 1, 5
	s.cast = func(p *play) {
		cast(p)
		for g := first; g < first+n; g++ {
			p.waits(g, "", home...)
		}
	}
	s.requests = 200
	s.in = func(p *play, i int) {
		if i == s.requests-5 {
			for g := first; g < first+n; g++ {
				p.wakes(0, g)
				p.runs(g, 1)
				p.do(p.b.Task(g, "request"))
				p.leaves(g, 1, "select", "runtime.selectgo", "net/http.(*Transport).getConn", "main.call", "main.serve")
			}
		}
		in(p, i)
	}
	check(t, cause.Judge(attributed(t, s), cause.Settings{}), "pool-leak", nil)
}

// later is a goroutine that a request started, and that goes on with a connection when it has been answered: it
// calls a peer, which does not answer before the call's deadline.
func later() scene {
	charge := []string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "net/http.(*Client).Do", "main.charge", "main.later"}
	w := gotrace.GoID(1000)
	return scene{procs: 2, cast: func(p *play) { p.waits(other, "", home...) }, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		w++
		p.wakes(0, other)
		p.runs(other, 1)
		p.do(p.b.Task(other, "request"))
		p.do(p.b.Starts(other, gotrace.NoProc, w, p.stack("main.order", "main.serve"), p.stack("main.later")))
		p.seen[w] = true
		ends(p)
		p.do(p.b.Busy(1))
		p.runs(w, 1)
		p.leaves(w, 1, "select", charge...)
		p.leaves(serving, 0, "select", "runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.list", "main.serve")
		p.pass(15 * ms)
		p.expires(w)
		p.do(p.b.Busy(1))
		p.runs(w, 1)
		p.wakes(w, serving, "runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "database/sql.(*Tx).Commit", "main.later")
		p.do(p.b.Ends(w))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

func TestACallThatTimesOutIsNoLeak(t *testing.T) {
	for _, f := range cause.Judge(attributed(t, later()), cause.Settings{}).Findings {
		if f.Cause == "pool-leak" {
			t.Errorf("%+v", f)
		}
	}
}

// handedWork is a worker that requests hand work to, and that has a connection for it: for some for long.
func handedWork(does borrowing) scene {
	loop := []string{"runtime.chanrecv1", "main.job"}
	return scene{procs: 2, cast: func(p *play) {
		p.waits(helper, "", loop...)
		p.waits(other, "", home...)
	}, in: func(p *play, i int) {
		takes := 20 * ms
		switch i % 10 {
		case 1, 4, 7:
			takes = ms / 100
		case 9:
		default:
			return
		}
		p.wakes(0, other)
		p.runs(other, 1)
		p.do(p.b.Task(other, "request"))
		p.wakes(other, helper, "runtime.chansend1", "main.submit", "main.serve")
		p.waits(other, "chan receive", "runtime.chanrecv1", "main.submit", "main.serve")
		p.runs(helper, 1)
		p.do(p.b.Yields(helper, "preempted", p.stack("main.settle", "main.job")))
		p.leaves(serving, 0, "select", "runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.show", "main.serve")
		p.runs(helper, 1)
		does(p, takes)
		p.wakes(helper, serving, "runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "database/sql.(*Tx).Commit", "main.settle", "main.job")
		p.wakes(helper, other, "runtime.chansend1", "main.job")
		p.waits(helper, "chan receive", loop...)
		p.runs(other, 1)
		ends(p)
		p.runs(serving, 0)
	}}
}

func TestWhatRequestsHaveDoneWithAPoolIsNoLoan(t *testing.T) {
	for _, does := range []borrowing{settlesSum, settlesNap} {
		for _, f := range cause.Judge(attributed(t, handedWork(does)), cause.Settings{}).Findings {
			if f.Cause == "pool-exhausted" {
				t.Errorf("%+v", f)
			}
		}
	}
}

// Who is at work with something for as long as nobody gets it leaks nothing.
func TestARequestThatIsStillAtWorkMayHoldWhatOthersWaitFor(t *testing.T) {
	v := cause.Judge(attributed(t, pool{last: stays}.scene()), cause.Settings{})
	if !slices.ContainsFunc(v.RuledOut, func(r cause.RuledOut) bool {
		return r.Cause == "pool-leak" && strings.HasPrefix(r.Because, "1 requests are under way")
	}) {
		t.Errorf("%s: %+v %+v", v.Sentence, v.RuledOut, v.Findings)
	}
}

// The goroutines that read a pool's connections give these back for the requests that have
// used them. Each is a connection.
func TestConnectionsAreGivenBackByWhoReadsThem(t *testing.T) {
	read := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net/http.(*persistConn).Read", "net/http.(*persistConn).readLoop"}
	v := cause.Judge(attributed(t, scene{procs: 2,
		cast: func(p *play) {
			p.waits(helper, "", read...)
			p.waits(helper+1, "", read...)
		},
		in: func(p *play, i int) {
			if i%10 != 9 {
				return
			}
			reader := helper + gotrace.GoID(i/10%2)
			p.leaves(serving, 0, "select", "runtime.selectgo", "net/http.(*Transport).getConn", "main.call", "main.serve")
			p.pass(15 * ms)
			p.wakes(0, reader)
			p.runs(reader, 1)
			p.wakes(reader, serving, "runtime.chansend1", "net/http.(*wantConn).tryDeliver", "net/http.(*Transport).tryPutIdleConn", "net/http.(*persistConn).readLoop")
			p.leaves(reader, 1, "network", read...)
			p.runs(serving, 0)
		},
	}), cause.Settings{})
	if len(v.Findings) == 0 || v.Findings[0].Cause != "pool-exhausted" {
		t.Fatalf("%s %+v", v.Sentence, v.Findings)
	}
	told := strings.Join(v.Findings[0].Evidence, "\n")
	for _, want := range []string{"40 waits there, each ended by the goroutine that reads the connection, 2 different ones", "2.0 connections at a time"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in %s", want, told)
		}
	}
}

// streams is a service that calls a peer over one connection, which one goroutine reads: one
// request of ten waits 15 ms for a stream, three for a moment, and every answer takes a
// millisecond, but that of the first so long.
func streams(answer int64) scene {
	const transport = "google.golang.org/grpc/internal/transport."
	read := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", transport + "(*http2Client).reader"}
	call := func(function string) []string {
		return []string{"runtime.selectgo", transport + function, "google.golang.org/grpc.(*ClientConn).Invoke", "main.call", "main.serve"}
	}
	await := func(p *play, ns int64, at, by string) {
		p.leaves(serving, 0, "select", call(at)...)
		p.pass(ns)
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.wakes(helper, serving, "runtime.chansend1", transport+by, transport+"(*http2Client).reader")
		p.leaves(helper, 1, "network", read...)
		p.runs(serving, 0)
	}
	return scene{procs: 2, cast: func(p *play) { p.waits(helper, "", read...) }, in: func(p *play, i int) {
		takes := ms
		switch i % 10 {
		case 9:
			await(p, 15*ms, "(*http2Client).NewStream", "(*http2Client).closeStream")
			takes = answer
		case 1, 4, 7:
			await(p, ms/10, "(*http2Client).NewStream", "(*http2Client).closeStream")
		}
		await(p, takes, "(*recvBufferReader).readClient", "(*recvBuffer).put")
	}}
}

// Who reads a connection that many calls share ends the waits for a stream of it, too. How long
// one is used the calls tell, not what the reader does meanwhile.
func TestStreamsOfAConnectionAreAPool(t *testing.T) {
	v := cause.Judge(attributed(t, streams(ms)), cause.Settings{})
	if len(v.Findings) == 0 || v.Findings[0].Cause != "pool-exhausted" || !strings.Contains(v.Sentence, "for a stream of a connection of which all are in use") {
		t.Errorf("%s %+v %+v", v.Sentence, v.Findings, v.RuledOut)
	}
	v = cause.Judge(attributed(t, streams(20*ms)), cause.Settings{})
	if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-dependency" {
		t.Errorf("with slow answers: %s %+v", v.Sentence, v.Findings)
	}
}

// Two that each have something of a pool, and wait for what the other one has, do so until the time of one of them is up: it then gives
// back what it had. Who waits where nothing ever comes back gives nothing.
func TestWhoKeepsWhileItWaitsForMore(t *testing.T) {
	take := []string{"runtime.selectgo", "main.take", "main.serve"}
	crossed := func(gives bool) scene {
		return scene{procs: 2, cast: crowdOf(1), in: every(10, func(p *play) {
			p.wakes(0, crowd0)
			p.runs(crowd0, 1)
			p.do(p.b.Task(crowd0, "request"))
			p.leaves(crowd0, 1, "select", take...)
			p.leaves(serving, 0, "select", take...)
			p.pass(20 * ms)
			p.expires(serving)
			p.runs(serving, 0)
			if gives {
				p.wakes(serving, crowd0, "runtime.chanrecv1", "main.give", "main.serve")
			} else {
				p.expires(crowd0)
			}
			p.runs(crowd0, 1)
			p.do(p.b.Done(crowd0))
			p.leaves(crowd0, 1, "network", home...)
		})}
	}
	v := cause.Judge(attributed(t, crossed(true)), cause.Settings{})
	if len(v.Findings) != 1 || v.Findings[0].Cause != "pool-exhausted" || !strings.Contains(v.Sentence, "they wait in main.take for more of a pool while they keep what they have of it") {
		t.Errorf("%s %+v", v.Sentence, v.Findings)
	}
	acquire := []string{"runtime.selectgo", "golang.org/x/sync/semaphore.(*Weighted).Acquire", "main.take", "main.serve"}
	comes := func(p *play, take []string) {
		p.wakes(0, crowd0)
		p.runs(crowd0, 1)
		p.do(p.b.Task(crowd0, "request"))
		p.leaves(crowd0, 1, "select", take...)
	}
	goes := func(p *play) {
		p.runs(crowd0, 1)
		p.do(p.b.Done(crowd0))
		p.leaves(crowd0, 1, "network", home...)
	}
	for name, s := range map[string]scene{
		"nothing is given": crossed(false),
		"who is first lets those behind pass": {procs: 2, cast: crowdOf(1), in: every(10, func(p *play) {
			comes(p, acquire)
			p.leaves(serving, 0, "select", acquire...)
			p.pass(20 * ms)
			p.expires(serving)
			p.runs(serving, 0)
			p.wakes(serving, crowd0, with([]string{"golang.org/x/sync/semaphore.(*Weighted).notifyWaiters"}, acquire[1:]...)...)
			goes(p)
		})},
		"who was first tells all": {procs: 2, cast: crowdOf(1), in: every(10, func(p *play) {
			comes(p, take)
			p.leaves(serving, 0, "select", take...)
			p.pass(20 * ms)
			p.expires(serving)
			p.runs(serving, 0)
			p.wakes(serving, crowd0, "main.flush", "main.take", "main.serve")
			goes(p)
		})},
		"it tries again, and uses what is free": {procs: 2, cast: crowdOf(1), in: every(10, func(p *play) {
			p.leaves(serving, 0, "select", take...)
			p.pass(20 * ms)
			p.expires(serving)
			p.runs(serving, 0)
			comes(p, take)
			p.pass(5 * ms)
			p.wakes(serving, crowd0, "runtime.chanrecv1", "main.give", "main.serve")
			goes(p)
		})},
	} {
		v := cause.Judge(attributed(t, s), cause.Settings{})
		if strings.Contains(v.Sentence, "more of a pool") {
			t.Errorf("%s: %s", name, v.Sentence)
		}
	}
}

// opened is a service that calls a peer over HTTP/2: each call has a goroutine of its own, which one of ten times waits 15 ms until it may
// open a stream, or for the connection's lock, and three times for a moment. Every answer takes a millisecond, but that of the first so long. A
// connection that is not the kernel's is written to without a system call.
func opened(answer int64, locked, inside bool) scene {
	const conn = "net/http.(*http2ClientConn)."
	stream := gotrace.GoID(1000)
	read := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", conn + "readLoop"}
	asks := []string{conn + "roundTrip", conn + "RoundTrip", "net/http.(*Client).Do", "main.call", "main.serve"}
	own := []string{"net/http.(*http2clientStream).writeRequest", "net/http.(*http2clientStream).doRequest"}
	reads := func(p *play, whom gotrace.GoID, at ...string) {
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.wakes(helper, whom, append(at, conn+"readLoop")...)
		p.leaves(helper, 1, "network", read...)
	}
	return scene{procs: 2, cast: func(p *play) { p.waits(helper, "", read...) }, in: func(p *play, i int) {
		stream++
		p.seen[stream] = true
		p.do(p.b.Starts(serving, gotrace.NoProc, stream, p.stack(asks...), p.stack("net/http.(*http2clientStream).doRequest")))
		p.leaves(serving, 0, "select", append([]string{"runtime.selectgo"}, asks...)...)
		p.do(p.b.Busy(1))
		p.runs(stream, 1)
		takes, opens := ms, int64(0)
		switch i % 10 {
		case 9:
			takes, opens = answer, 15*ms
			if inside {
				opens = 0
			}
		case 1, 4, 7:
			opens = ms / 10
		}
		switch {
		case opens > ms && locked:
			p.leaves(stream, 1, "sync", append([]string{"sync.(*Mutex).Lock"}, own...)...)
			p.pass(opens)
			reads(p, stream, "sync.(*Mutex).Unlock", conn+"processSettings")
			p.runs(stream, 1)
		case opens > 0:
			p.leaves(stream, 1, "sync.Cond", append([]string{"sync.(*Cond).Wait", conn + "awaitOpenSlotForStreamLocked"}, own...)...)
			p.pass(opens)
			reads(p, stream, "sync.(*Cond).Broadcast", conn+"forgetStreamID")
			p.runs(stream, 1)
		}
		if !inside {
			p.does(stream, append([]string{"syscall.Write", "net.(*conn).Write"}, own...))
		}
		p.leaves(stream, 1, "select", append([]string{"runtime.selectgo"}, own...)...)
		p.pass(takes)
		reads(p, stream, "runtime.closechan")
		p.runs(stream, 1)
		p.do(p.b.Ends(stream))
		p.do(p.b.Idle(1, gotrace.NoProc))
		reads(p, serving, "runtime.closechan", "net/http.(*http2clientConnReadLoop).processHeaders")
		p.runs(serving, 0)
	}}
}

// A call over HTTP/2 waits for its stream in a goroutine of its own; until that is open, nobody was asked.
func TestStreamsThatAreOpenedElsewhereAreAPool(t *testing.T) {
	v := cause.Judge(attributed(t, opened(ms, false, false)), cause.Settings{})
	if len(v.Findings) == 0 || v.Findings[0].Cause != "pool-exhausted" || v.Findings[0].Where == nil || v.Findings[0].Where.Function != "main.call" || !strings.Contains(v.Sentence, "they wait in main.call for a stream") {
		t.Errorf("%s %+v %+v %+v", v.Sentence, v.Findings, v.Consistent, v.RuledOut)
	}
	for name, s := range map[string]scene{
		"with slow answers":                       opened(20*ms, false, false),
		"behind the connection's lock":            opened(ms, true, false),
		"with slow answers, without system calls": opened(20*ms, false, true),
	} {
		v := cause.Judge(attributed(t, s), cause.Settings{})
		if len(v.Findings) == 0 || v.Findings[0].Cause != "slow-dependency" {
			t.Errorf("%s: %s %+v", name, v.Sentence, v.Findings)
		}
	}
}

// crew is a service with four workers, each of which takes a request's work from a channel:
// of every tenth request there is a lot of it, in vain for the others if they wait behind it.
func crew(does func(p *play, worker gotrace.GoID, slow bool)) scene {
	idle := []string{"runtime.chanrecv2", "main.(*crew).run"}
	return scene{procs: 2,
		cast: func(p *play) {
			for k := range gotrace.GoID(4) {
				p.waits(helper+k, "", idle...)
			}
		},
		in: func(p *play, i int) {
			w := helper + gotrace.GoID(i/3%4)
			p.wakes(serving, w, "runtime.chansend1", "main.(*crew).do", "main.serve")
			p.leaves(serving, 0, "select", "runtime.selectgo", "main.(*crew).do", "main.serve")
			p.do(p.b.Busy(1))
			p.runs(w, 1)
			does(p, w, i%10 == 9)
			p.wakes(w, serving, "runtime.chansend1", "main.(*crew).run")
			p.leaves(w, 1, "chan receive", idle...)
			p.runs(serving, 0)
		},
	}
}

// parses lets a worker compute, mostly on a CPU if that is so.
func parses(long int64, onCPU bool) func(p *play, worker gotrace.GoID, slow bool) {
	return func(p *play, worker gotrace.GoID, slow bool) {
		switch at := []string{"main.parse", "main.(*crew).run"}; {
		case !slow:
			p.pass(ms / 10)
		case onCPU:
			p.computes(worker, 1, long, at...)
		default:
			p.computes(worker, 1, long)
		}
	}
}

var crewScenes = []told{
	{name: "a worker computes for long", scene: crew(parses(40*ms, true)), finding: "expensive-request", where: "main.parse"},
	{name: "a worker runs for long, but on no CPU", scene: crew(parses(40*ms, false)), alike: []string{"expensive-request", "host-contention"}},
	{name: "a worker waits for a peer", scene: crew(func(p *play, worker gotrace.GoID, slow bool) {
		if slow {
			p.leaves(worker, 1, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.(*crew).run")
			p.pass(40 * ms)
			p.wakes(0, worker)
			p.do(p.b.Busy(1))
			p.runs(worker, 1)
		}
	}), finding: "slow-dependency", where: "main.ask"},
}

func TestWhatAWorkerComputesForARequestIsItsOwn(t *testing.T) { tell(t, crewScenes) }

// Workers may wait for a peer for every request, while none waits for a worker.
func TestWhatWorkersWaitForIsNotThatTheyAreFew(t *testing.T) {
	v := cause.Judge(attributed(t, crew(func(p *play, worker gotrace.GoID, slow bool) {
		p.leaves(worker, 1, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.(*crew).run")
		p.pass(20 * ms)
		p.wakes(0, worker)
		p.do(p.b.Busy(1))
		p.runs(worker, 1)
	})), cause.Settings{})
	if len(v.Findings) == 0 || v.Findings[0].Cause != "slow-dependency" || v.Findings[0].Where.Function != "main.ask" {
		t.Errorf("%s %+v", v.Sentence, v.Findings)
	}
}

// Two workers that are at home for most of the time, and of which one is at work then, but both when many
// come at once.
func TestWorkersThatAreSeldomBusyTogetherAreSeveral(t *testing.T) {
	const workers, many = 2, 8
	idle := []string{"runtime.chanrecv2", "main.(*crew).run"}
	worker := func(k int) gotrace.GoID { return helper + gotrace.GoID(k%workers) }
	hands := func(p *play, g gotrace.GoID, on gotrace.ProcID) {
		p.leaves(g, on, "select", "runtime.selectgo", "main.(*crew).do", "main.serve")
	}
	asks := func(p *play, w gotrace.GoID) {
		p.runs(w, 1)
		p.leaves(w, 1, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.(*crew).run")
	}
	tell(t, []told{{name: "in bursts", scene: scene{procs: 2, cast: func(p *play) {
		for k := range workers {
			p.waits(worker(k), "", idle...)
		}
		crowdAtHome("main.serve")(p)
	}, in: func(p *play, i int) {
		all := []gotrace.GoID{serving}
		if i%10 == 9 {
			all = nil
			for k := range gotrace.GoID(many - 1) {
				all = append(all, crowd0+k)
				p.wakes(0, crowd0+k)
			}
			all = append(all, serving)
		}
		for k, g := range all {
			if g != serving {
				p.runs(g, 1)
			}
			if k < workers {
				p.wakes(g, worker(i+k), "runtime.chansend1", "main.(*crew).do", "main.serve")
			}
			on := gotrace.ProcID(1)
			if g == serving {
				on = 0
			}
			hands(p, g, on)
		}
		for k := range min(workers, len(all)) {
			asks(p, worker(i+k))
		}
		for k := 0; k < len(all); k += workers {
			p.pass(4 * ms)
			for j := k; j < min(k+workers, len(all)); j++ {
				w := worker(i + j)
				p.wakes(0, w)
				p.runs(w, 1)
				if p.wakes(w, all[j], "runtime.chansend1", "main.(*crew).run"); j+workers < len(all) {
					p.leaves(w, 1, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.(*crew).run")
				} else {
					p.leaves(w, 1, "chan receive", idle...)
				}
				if all[j] != serving {
					p.runs(all[j], 1)
					p.leaves(all[j], 1, "network", home...)
				}
			}
		}
		p.runs(serving, 0)
	}}, finding: "pool-exhausted"}})
}

// waitsInVain has requests wait for a receive until a deadline ends that: from the given one on, each of so many.
func waitsInVain(from, each int) scene {
	return scene{procs: 2, in: func(p *play, i int) {
		if i >= from && i%each == 0 {
			p.leaves(serving, 0, "select", "runtime.selectgo", "main.acquire", "main.serve")
			p.pass(15 * ms)
			p.expires(serving)
			p.runs(serving, 0)
		}
	}}
}

func TestPermitsThatRanOut(t *testing.T) {
	tell(t, []told{
		{name: "for all", scene: waitsInVain(300, 1), alike: []string{"pool-exhausted", "pool-leak"}},
		{name: "for some", scene: waitsInVain(300, 4)},
		{name: "always for some", scene: waitsInVain(0, 10)},
	})
}

// job is a goroutine of the service's own that has connections now and then.
var job = []string{"time.Sleep", "main.job"}

// borrowing is what the job does with a connection for so long: it asks a peer, sleeps or computes.
type borrowing func(p *play, takes int64)

func settlesBy(reason string, at ...string) borrowing {
	return func(p *play, takes int64) {
		p.leaves(helper, 1, reason, append(at, "main.settle", "main.job")...)
		p.pass(takes)
		p.wakes(0, helper)
		p.runs(helper, 1)
	}
}

var (
	settlesCall = settlesBy("network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", "net/http.(*persistConn).Read", "main.ask")
	settlesNap  = settlesBy("sleep", "time.Sleep")
)

// settlesLong has the job ask for long whenever it asks: for a moment it sleeps.
func settlesLong(p *play, takes int64) {
	if takes < ms {
		settlesNap(p, takes)
	} else {
		settlesCall(p, takes)
	}
}

// settlesMany has the job ask shortly, many times in a row.
func settlesMany(p *play, takes int64) {
	for ; takes > 0; takes -= ms {
		settlesCall(p, min(takes, ms))
	}
}

// getsMany is settlesMany by a client library, of which another goroutine reads the connection.
func getsMany(p *play, takes int64) {
	for ; takes > 0; takes -= ms {
		gets(p, helper, 1, min(takes, ms), "main.settle", "main.job")
	}
}

// gets has a goroutine on a P ask by a client library for so long, on behalf of a caller.
func gets(p *play, g gotrace.GoID, on gotrace.ProcID, takes int64, callers ...string) {
	p.leaves(g, on, "select", append([]string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "net/http.(*Client).Get", "main.ask"}, callers...)...)
	p.pass(takes)
	p.wakes(0, replies)
	p.runs(replies, 1)
	calls(replies, ms/100, "syscall.read", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop")(p)
	p.wakes(replies, g, "runtime.chansend1", "net/http.(*persistConn).readLoop")
	p.leaves(replies, 1, "network", readLoop...)
	p.runs(g, on)
}

func settlesSum(p *play, takes int64) { p.computes(helper, 1, takes, "main.settle", "main.job") }

// lent lets the job have what a request waits for: for a moment or, for every tenth request, for
// long. Others may come meanwhile. It reports whether it did anything.
func lent(p *play, i int, wait []string, does borrowing, meanwhile func()) bool {
	takes := 20 * ms
	switch i % 10 {
	case 1, 4, 7:
		takes = ms / 10
	case 9:
	default:
		return false
	}
	p.wakes(0, helper)
	p.runs(helper, 1)
	p.do(p.b.Yields(helper, "preempted", p.stack("main.settle", "main.job")))
	p.leaves(serving, 0, "select", wait...)
	meanwhile()
	p.runs(helper, 1)
	does(p, takes)
	p.wakes(helper, serving, "runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "database/sql.(*Tx).Commit", "main.settle", "main.job")
	p.leaves(helper, 1, "sleep", job...)
	p.runs(serving, 0)
	return true
}

// lends is a service with a pool of connections of which the job has all; does is what requests do
// with one.
func lends(do borrowing, does func(p *play)) scene {
	return scene{procs: 2, cast: func(p *play) { p.waits(helper, "", job...) }, in: func(p *play, i int) {
		if lent(p, i, []string{"runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.show", "main.serve"}, do, func() {}) {
			does(p)
		}
	}}
}

// readBy lets the connections of a client library be read.
func readBy(s scene) scene {
	s.cast = withReplies(s.cast)
	return s
}

// lendsTheOnly is lends with one connection for all: each gives it to the next one.
func lendsTheOnly(p *play, i int) {
	const n = 3
	if lent(p, i, connection, settlesCall, func() {
		for g := other; g < other+n; g++ {
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Task(g, "request"))
			p.leaves(g, 1, "select", connection...)
		}
	}) {
		p.pass(ms / 20)
		p.passOn(n)
	}
}

// lendsBeyondDeadlines is lends of which another request, that came before, gives up just before the job
// gives back what it has: every other time, when a request waits less for that.
func lendsBeyondDeadlines(do borrowing) scene {
	return scene{procs: 2, cast: func(p *play) {
		waitingOthers(p)
		p.waits(helper, "", job...)
	}, in: func(p *play, i int) {
		if i%20 == 18 {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.wakes(0, other)
			p.runs(other, 0)
			p.do(p.b.Task(other, "request"))
			p.leaves(other, 0, "select", connection...)
			p.runs(serving, 0)
			return
		}
		if !lent(p, i, connection, func(p *play, takes int64) {
			switch i % 20 {
			case 9:
				do(p, takes+(8+int64(i/20%5))*ms)
			case 19:
				do(p, takes+int64(i/20%5)*ms)
				p.wakes(0, other)
				p.runs(other, 0)
				p.do(p.b.Done(other))
				p.leaves(other, 0, "network", home...)
			default:
				settlesMany(p, takes)
			}
		}, func() {}) {
			return
		}
		p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", "net/http.(*persistConn).Read", "main.ask", "main.serve")
		p.pass(ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}}
}

// reports is a service with a pool of two that all use to ask a peer at one place: requests shortly, and two reports for long each tenth
// time, when a request waits for what the first of them gives back, and another one for what that one does.
func reports(p *play, i int) {
	first, second, last := other, other+1, other+2
	if i%20 == 19 {
		first, second = second, first
	}
	get := []string{"runtime.chanrecv1", "main.get", "main.query", "main.show", "main.serve"}
	asks := func(g gotrace.GoID, on gotrace.ProcID, by string) {
		p.leaves(g, on, "network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", "main.query", by, "main.serve")
	}
	if i%10 == 9 {
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		for _, g := range []gotrace.GoID{first, second} {
			p.answered(g, 1)
			p.do(p.b.Task(g, "report"))
			asks(g, 1, "main.report")
		}
		p.runs(serving, 0)
		p.leaves(serving, 0, "chan receive", get...)
		p.answered(last, 1)
		p.do(p.b.Task(last, "request"))
		p.leaves(last, 1, "chan receive", get...)
		p.pass(30 * ms)
		p.answered(first, 1)
		p.wakes(first, serving, "runtime.chansend1", "main.put", "main.query", "main.report", "main.serve")
		p.done(first, 1)
		p.runs(serving, 0)
	}
	asks(serving, 0, "main.show")
	p.pass(ms)
	p.answered(serving, 0)
	if i%10 == 9 {
		p.wakes(serving, last, "runtime.chansend1", "main.put", "main.query", "main.show", "main.serve")
		p.runs(last, 1)
		asks(last, 1, "main.show")
		p.pass(ms)
		p.answered(last, 1)
		p.done(last, 1)
		p.answered(second, 1)
		p.done(second, 1)
	}
}

// theOnlyPermit is a service whose requests compute with the only permit. Of those that wait for it most wait behind one
// that got it at once, and one in three behind one that was let in.
func theOnlyPermit() scene {
	acquire, release := []string{"runtime.chansend1", "main.acquire", "main.serve"}, []string{"runtime.chanrecv1", "main.release", "main.serve"}
	holds := func(p *play, g, next gotrace.GoID) {
		p.computes(g, 1, 10*ms, "main.scale", "main.serve")
		p.wakes(g, next, release...)
		p.do(p.b.Done(g))
		p.leaves(g, 1, "network", home...)
	}
	begins := func(p *play, g gotrace.GoID) {
		p.wakes(0, g)
		p.runs(g, 1)
		p.do(p.b.Task(g, "request"))
	}
	return scene{procs: 2, cast: func(p *play) {
		p.waits(other, "", home...)
		p.waits(other+1, "", home...)
	}, in: func(p *play, i int) {
		if i%5 != 4 {
			return
		}
		begins(p, other)
		if i%10 == 9 {
			p.do(p.b.Yields(other, "preempted", p.stack("main.scale", "main.serve")))
			begins(p, other+1)
			p.leaves(other+1, 1, "chan send", acquire...)
			p.runs(other, 1)
		}
		p.leaves(serving, 0, "chan send", acquire...)
		if i%10 == 9 {
			holds(p, other, other+1)
			p.runs(other+1, 1)
			holds(p, other+1, serving)
		} else {
			holds(p, other, serving)
		}
		p.runs(serving, 0)
	}}
}

func TestOnePermitIsALock(t *testing.T) {
	tell(t, []told{{name: "few waits tell", scene: theOnlyPermit(), finding: "lock-held-across-work", where: "main.serve"}})
}

// What always takes a caller so long is no peer that became slow: somebody holds what others want for that.
func TestWhoAlwaysHoldsAPoolForLongIsToldFromASlowPeer(t *testing.T) {
	tell(t, []told{
		{name: "two reports have all there is", scene: scene{procs: 2, cast: waitingOthers, in: reports}, finding: "pool-exhausted", where: "main.get"},
	})
}

// asksBy lets a request wait for a peer's answer by a client.
func asksBy(client string) func(p *play) {
	return func(p *play) {
		p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", client, "main.query", "main.show", "main.serve")
		p.pass(ms / 5)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}
}

var lendingScenes = []told{
	{name: "requests call nobody", scene: lends(settlesCall, func(*play) {}), finding: "pool-exhausted", where: "main.settle"},
	{name: "requests ask another peer", scene: lends(settlesCall, asksBy("example.com/driver.(*Conn).read")), finding: "pool-exhausted", where: "main.settle"},
	{name: "the job sleeps, and requests ask a peer", scene: lends(settlesNap, asksBy("net/http.(*persistConn).Read")), finding: "pool-exhausted", where: "main.settle"},
	{name: "the job computes", scene: lends(settlesSum, func(*play) {}), finding: "pool-exhausted", where: "main.settle"},
	{name: "there is one connection, as a lock", scene: scene{procs: 2, cast: func(p *play) {
		waitingOthers(p)
		p.waits(helper, "", job...)
	}, in: lendsTheOnly}, finding: "lock-held-across-wait", where: "main.ask"},
	{name: "requests may ask the same peer", scene: lends(settlesCall, asksBy("net/http.(*persistConn).Read")), finding: "slow-dependency"},
	{name: "the job computes, and asks shortly what requests ask", scene: lends(func(p *play, takes int64) {
		settlesCall(p, ms/10)
		settlesSum(p, takes)
	}, asksBy("net/http.(*persistConn).Read")), finding: "pool-exhausted", where: "main.settle"},
	{name: "the job asks many times in a row what requests ask, too", scene: lends(settlesMany, func(p *play) {
		p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", "net/http.(*persistConn).Read", "main.ask", "main.serve")
		p.pass(ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}), finding: "pool-exhausted", where: "main.settle"},
	{name: "the job asks many times in a row by a client library what requests ask, too", scene: readBy(lends(getsMany, func(p *play) {
		gets(p, serving, 0, ms, "main.show", "main.serve")
	})), finding: "pool-exhausted", where: "main.settle"},
	{name: "the job asks many times in a row, and who waits for it gives up", scene: lendsBeyondDeadlines(settlesMany), finding: "pool-exhausted", where: "main.settle"},
	{name: "the job computes, and who waits for it gives up", scene: lendsBeyondDeadlines(settlesSum), finding: "pool-exhausted", where: "main.settle"},
	{name: "the job asks once, and who waits for it gives up", scene: lendsBeyondDeadlines(settlesCall), finding: "slow-dependency"},
	{name: "the job asks once by a client library what requests ask, too", scene: readBy(lends(func(p *play, takes int64) {
		gets(p, helper, 1, takes, "main.settle", "main.job")
	}, func(p *play) {
		gets(p, serving, 0, ms, "main.show", "main.serve")
	})), finding: "slow-dependency"},
	{name: "requests may ask the same peer, which always takes as long for the job", scene: lends(settlesLong, asksBy("net/http.(*persistConn).Read")), finding: "pool-exhausted", where: "main.settle"},
}

func TestWhoHoldsAPoolForNoRequestIsToldFromWhatRequestsUseItFor(t *testing.T) {
	tell(t, lendingScenes)
}

// use is how requests use what they got of a pool: from begins to ends they wait.
type use struct {
	begins, ends func(p *play, g gotrace.GoID, proc gotrace.ProcID, by string)
}

var (
	asksThere = use{
		func(p *play, g gotrace.GoID, proc gotrace.ProcID, by string) {
			p.leaves(g, proc, "network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", "example.com/driver.(*Conn).read", by, "main.serve")
		},
		func(p *play, g gotrace.GoID, proc gotrace.ProcID, _ string) {
			p.wakes(0, g)
			p.runs(g, proc)
		},
	}
	syncsThere = use{
		func(p *play, g gotrace.GoID, _ gotrace.ProcID, by string) {
			p.do(p.b.Calls(g, p.stack("syscall.Fsync", "os.(*File).Sync", by, "main.serve")))
		},
		func(p *play, g gotrace.GoID, _ gotrace.ProcID, _ string) { p.do(p.b.Returns(g)) },
	}
)

// queuesFor is a service in which requests use for 2 ms, at main.query, what there are many of in a pool. Every fiftieth waits for that
// of another request, which uses it for 40 ms at from, and then for those of some that do for 2 ms, as all: of eleven, or of
// none, if one of ten others waits for such a one.
func queuesFor(does use, from string, alone bool) scene {
	const others = 12
	uses := func(p *play, g gotrace.GoID, takes int64, by string) {
		p.wakes(0, g)
		p.runs(g, 1)
		p.do(p.b.Task(g, "request"))
		does.begins(p, g, 1, by)
		p.leaves(serving, 0, "select", connection...)
		p.pass(takes)
		does.ends(p, g, 1, by)
		p.wakes(g, serving, "runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "main.serve")
		p.do(p.b.Done(g))
		p.leaves(g, 1, "network", home...)
		p.runs(serving, 0)
	}
	return scene{procs: 2, cast: func(p *play) {
		for g := range gotrace.GoID(others) {
			p.waits(other+g, "", home...)
		}
	}, in: func(p *play, i int) {
		if i%50 == 49 {
			uses(p, other, 40*ms, from)
			for g := range gotrace.GoID(others - 1) {
				if !alone {
					uses(p, other+1+g, 2*ms, "main.query")
				}
			}
		} else if alone && i%10 == 4 {
			uses(p, other+1+gotrace.GoID(i/10%5), 2*ms, "main.query")
		}
		does.begins(p, serving, 0, "main.query")
		p.pass(2 * ms)
		does.ends(p, serving, 0, "main.query")
	}}
}

func TestAPeerThatMadeTheQueueForAPoolIsToldFromThePool(t *testing.T) {
	tell(t, []told{
		{name: "what is asked for in 2 ms else takes 40 ms", scene: queuesFor(asksThere, "main.query", false), finding: "slow-dependency"},
		{name: "something else is asked for, which always takes 40 ms", scene: queuesFor(asksThere, "main.report", false), finding: "pool-exhausted", second: "slow-dependency"},
		{name: "what is synced in 2 ms else takes 40 ms", scene: queuesFor(syncsThere, "main.query", false), finding: "slow-disk"},
		{name: "something else is synced, which always takes 40 ms", scene: queuesFor(syncsThere, "main.report", false), finding: "pool-exhausted", second: "slow-disk"},
		{name: "what is asked for in 2 ms else takes 40 ms, of one alone", scene: queuesFor(asksThere, "main.query", true), finding: "slow-dependency"},
		{name: "something else is asked for, of one alone", scene: queuesFor(asksThere, "main.report", true), finding: "pool-exhausted", second: "slow-dependency"},
	})
}

// leases is a service whose calls go over one connection, which its reader gives back. Of ten requests two wait for it while
// somebody asks over it, for a millisecond or for 20: another request, or a job.
func leases(short, long gotrace.GoID) scene {
	const reader = other + 1
	reads := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop"}
	asks := []string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "net/http.(*Client).do", "main.ask"}
	answered := func(p *play, g gotrace.GoID, proc gotrace.ProcID, next gotrace.GoID) {
		p.wakes(0, reader)
		p.runs(reader, 1)
		p.wakes(reader, g, "runtime.selectgo", "net/http.(*persistConn).readLoop")
		if next != 0 {
			p.wakes(reader, next, "runtime.closechan", "net/http.(*Transport).tryPutIdleConn", "net/http.(*persistConn).readLoop")
		}
		p.leaves(reader, 1, "network", reads...)
		p.runs(g, proc)
	}
	uses := func(p *play, who gotrace.GoID, takes int64) {
		p.wakes(0, reader) // whoever asked before is done
		p.runs(reader, 1)
		p.leaves(reader, 1, "network", reads...)
		p.wakes(0, who)
		p.runs(who, 1)
		if who == other {
			p.do(p.b.Task(who, "request"))
		}
		p.leaves(who, 1, "select", append(asks, map[bool]string{true: "main.serve", false: "main.report"}[who == other])...)
		p.leaves(serving, 0, "select", "runtime.selectgo", "net/http.(*Transport).getConn", "net/http.(*Transport).roundTrip", "main.ask", "main.serve")
		p.pass(takes)
		answered(p, who, 1, serving)
		if who == other {
			ends(p)
		} else {
			p.leaves(who, 1, "sleep", job...)
		}
		p.runs(serving, 0)
	}
	return scene{procs: 2, cast: func(p *play) {
		p.waits(reader, "", reads...)
		p.waits(helper, "", job...)
		p.waits(other, "", home...)
	}, in: func(p *play, i int) {
		switch i % 10 {
		case 4:
			uses(p, short, ms)
		case 9:
			uses(p, long, 20*ms)
		}
		p.leaves(serving, 0, "select", append(asks, "main.serve")...)
		p.pass(ms)
		answered(p, serving, 0, 0)
	}}
}

func TestAConnectionThatIsUsedForNoRequestIsLent(t *testing.T) {
	for _, c := range []struct {
		name        string
		short, long gotrace.GoID
		lent        bool
	}{
		{"a job asks for long, requests shortly", other, helper, true},
		{"a job asks, and is sometimes answered late", helper, helper, false},
		{"requests ask, and are sometimes answered late", other, other, false},
	} {
		v := cause.Judge(attributed(t, leases(c.short, c.long)), cause.Settings{})
		lent := len(v.Findings) > 0 && v.Findings[0].Cause == "pool-exhausted" && strings.Contains(v.Sentence, "while main.ask holds it")
		if lent != c.lent {
			t.Errorf("%s: lent %t: %s", c.name, lent, v.Sentence)
			for _, f := range v.Findings {
				t.Logf("%s: %q", f.Cause, f.Evidence)
			}
			for _, r := range v.RuledOut {
				if r.Cause == "pool-exhausted" || r.Cause == "slow-dependency" {
					t.Logf("not %s: %s", r.Cause, r.Because)
				}
			}
		}
	}
}

// Several pools of one piece of code may be told apart by nothing: of one nothing comes back, and who waits for it gives up, of
// another one something does. A pool that is too small serves who waits for it, at least now and then.
func TestHardlyAnybodyIsServed(t *testing.T) {
	acquire := []string{"runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.list", "main.serve"}
	release := []string{"runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "database/sql.(*DB).putConn", "main.list", "main.serve"}
	begins := func(p *play, g gotrace.GoID) {
		p.wakes(0, g)
		p.runs(g, 1)
		p.do(p.b.Task(g, "request"))
	}
	ends := func(p *play, g gotrace.GoID) {
		p.do(p.b.Done(g))
		p.leaves(g, 1, "network", home...)
	}
	pools := func(served func(i int) bool) scene {
		s := scene{procs: 2, requests: 400, cast: func(p *play) {
			p.waits(other, "", home...)
			p.waits(other+1, "", home...)
		}}
		s.in = func(p *play, i int) {
			if i%10 != 9 {
				return
			}
			p.leaves(serving, 0, "select", acquire...)
			p.pass(20 * ms)
			if served(i) {
				begins(p, other+1)
				p.leaves(other+1, 1, "select", acquire...)
				begins(p, other)
				p.pass(ms)
				p.wakes(other, other+1, release...)
				ends(p, other)
				p.runs(other+1, 1)
				p.pass(ms)
				ends(p, other+1)
			}
			p.pass(20 * ms)
			p.expires(serving)
			p.runs(serving, 0)
		}
		return s
	}
	tell(t, []told{
		{name: "four of forty-four", scene: pools(func(i int) bool { return i%100 == 39 }), alike: []string{"pool-exhausted", "pool-leak"}},
		{name: "half of them", scene: pools(func(int) bool { return true }), finding: "pool-exhausted", where: "main.list"},
	})
}

// Where a pool is empty for most of the recording every request waits as long: that is no level that may be as it should be.
func TestALeakIsTheVerdictWhereEveryRequestWaits(t *testing.T) {
	s := pool{last: keptUnseen}
	v := cause.Judge(attributed(t, longer(s.scene(), 3000)), cause.Settings{})
	if v.Verdict != "cause" || len(v.Findings) == 0 || v.Findings[0].Cause != "pool-leak" || v.Findings[0].Contrast != cause.LevelContrast {
		t.Errorf("%s: %+v %+v", v.Verdict, v.Findings, v.Consistent)
	}
}
