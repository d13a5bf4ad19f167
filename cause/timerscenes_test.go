package cause_test

import (
	"slices"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// TestTimersThatNobodyRunsAreToldFromWaitsOnPurpose plays requests that sleep for 2 ms,
// of which one in ten has to wait for more.
func TestTimersThatNobodyRunsAreToldFromWaitsOnPurpose(t *testing.T) {
	nap := []string{"time.Sleep", "main.step", "main.serve"}
	sleeps := func(p *play, ns int64) {
		p.leaves(serving, 0, "sleep", nap...)
		p.pass(ns)
		p.wakes(0, serving)
	}
	// computes has the helper take the only P for 20 ms, asleep milliseconds after the
	// request fell asleep, and wakes the request when it is done.
	computes := func(p *play, asleep int64) {
		p.leaves(serving, 0, "sleep", nap...)
		p.pass(asleep)
		if asleep > 2*ms {
			p.wakes(0, serving)
		}
		p.wakes(0, helper)
		p.runs(helper, 0)
		p.computes(helper, 0, 20*ms, "main.rank", "main.loop")
		if asleep <= 2*ms {
			p.wakes(0, serving)
		}
		p.leaves(helper, 0, "chan receive", "runtime.chanrecv1", "main.loop")
		p.runs(serving, 0)
	}
	for _, c := range []struct {
		name    string
		do      func(p *play)
		finding string
		where   string
	}{
		{"the timer is due while somebody computes", func(p *play) { computes(p, ms/2) }, "late-timer", "main.rank"},
		{"the timer was run, but somebody computes", func(p *play) { computes(p, 2*ms+1) }, "cpu-hog", "main.rank"},
		{"the wait is longer, and the P idle", func(p *play) { sleeps(p, 22*ms); p.runs(serving, 0) }, "timer-wait", "main.step"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, scene{procs: 1, cast: waitingHelper, in: func(p *play, i int) {
				if i%10 == 9 {
					c.do(p)
					return
				}
				sleeps(p, 2*ms)
				p.runs(serving, 0)
			}}), cause.Settings{})
			check(t, v, c.finding, nil)
			if len(v.Findings) > 0 && (v.Findings[0].Where == nil || v.Findings[0].Where.Function != c.where) {
				t.Errorf("at %+v, not %s", v.Findings[0].Where, c.where)
			}
		})
	}
}

// Who sleeps while the collector marks is woken late: if the longer waits are those, they
// may not be meant to be longer. One request in ten is slow, and nobody looks at the host.
func TestSleepsThatTheCollectorMakesLongerAreNotMeantToBe(t *testing.T) {
	nap := []string{"time.Sleep", "main.step", "main.serve"}
	unalike := []string{"host-contention", "quota-too-low", "gomaxprocs-over-quota"} // without evidence of the host
	slow := func(i int) bool { return i%10 == 9 }
	every := func(int) bool { return true }
	late := func(i int) []int64 { return []int64{int64(10+5*(i/10%7)) * ms} }
	for _, c := range []struct {
		name  string
		marks func(i int) bool
		at    []string
		naps  func(i int) []int64 // of slow requests
		alike []string            // beside timer-wait, which is named if it is nil
	}{
		{"marking in slow requests only", slow, byHeap, late, append([]string{"gc-workers"}, unalike...)},
		{"collections on demand", slow, byCall, late, append([]string{"forced-gc"}, unalike...)},
		{"collections of the recording's", slow, byTracer, late, append([]string{"observer"}, unalike...)},
		{"marking in typical requests too", every, byHeap, late, unalike},
		{"no marking", func(int) bool { return false }, nil, late, unalike},
		{"one length, marking in typical requests too", every, byHeap, func(int) []int64 { return []int64{20 * ms} }, nil},
		{"more naps of the same length, while marking", slow, byHeap, func(int) []int64 { return slices.Repeat([]int64{2 * ms}, 10) }, nil},
	} {
		sleeps := func(p *play, d int64, marks bool) {
			p.leaves(serving, 0, "sleep", nap...)
			if marks {
				p.wakes(0, helper)
				p.runs(helper, 0)
				p.do(p.b.Range(gotrace.KindRangeBegin, helper, markPhase, p.stack(c.at...)))
				p.do(p.b.Label(helper, "GC (dedicated)"))
			}
			for left := d; left > 0; left -= 5 * ms {
				p.pass(min(left, 5*ms))
				if marks {
					p.b.Sample(helper, p.stack("runtime.gcDrain", "runtime.gcBgMarkWorker"))
				}
			}
			if marks {
				p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, markPhase, 0))
				p.waits(helper, "system goroutine wait", collector...)
			}
			p.wakes(0, serving)
			p.runs(serving, 0)
		}
		v := cause.Judge(attributed(t, scene{procs: 2, cast: worker, in: func(p *play, i int) {
			naps := []int64{2 * ms}
			if slow(i) {
				naps = c.naps(i)
			}
			for _, d := range naps {
				sleeps(p, d, c.marks(i))
			}
		}}), cause.Settings{})
		switch {
		case c.alike == nil:
			check(t, v, "timer-wait", nil)
		case len(v.Findings) > 0 || len(v.Consistent) == 0 || !slices.Equal(v.Consistent[0].Causes, append([]string{"timer-wait"}, c.alike...)):
			t.Errorf("%s: %+v, consistent with %+v: %s", c.name, v.Findings, v.Consistent, v.Sentence)
		}
	}
}

// A goroutine that only sleeps, and then wakes who waits for it, serves nobody. Who is let
// go in turn waits on purpose; where all are told, or some who came later, they may wait for
// news. One request in ten is slow; two others came to wait before it.
func TestWhoTakesNoWorkIsNoWorker(t *testing.T) {
	ticks := []string{"time.Sleep", "main.tick"}
	cast := func(p *play) {
		asking(p)
		p.do(p.b.Runs(ticker, 1, 0))
		p.waits(ticker, "sleep", ticks...)
	}
	first, second := crowd0+1, crowd0+2
	for _, c := range []struct {
		name    string
		turns   [][]gotrace.GoID // whom it wakes when it has slept for another 8 ms
		handed  bool             // the slow request wakes it, too
		finding string
		alike   []string
	}{
		{"one after the other", [][]gotrace.GoID{{first}, {second}, {serving}}, false, "timer-wait", nil},
		{"all at once", [][]gotrace.GoID{nil, nil, {first, second, serving}}, false, "", []string{"timer-wait"}},
		{"each his own news", [][]gotrace.GoID{{second}, {first}, {serving}}, false, "", []string{"timer-wait"}},
		{"one after the other, and each hands it something", [][]gotrace.GoID{{first}, {second}, {serving}}, true, "single-worker", nil},
	} {
		tell(t, []told{{name: c.name, finding: c.finding, alike: c.alike, scene: scene{procs: 2, cast: cast, in: every(10, func(p *play) {
			for g := first; g <= second; g++ {
				p.wakes(0, g)
				p.runs(g, 1)
				p.do(p.b.Task(g, "request"))
				p.leaves(g, 1, "chan receive", receive...)
				p.pass(us)
			}
			if c.handed {
				p.wakes(0, ticker)
				p.runs(ticker, 1)
				p.leaves(ticker, 1, "chan receive", "runtime.chanrecv1", "main.tick")
				p.wakes(serving, ticker, "runtime.chansend1", "main.ask", "main.serve")
				p.runs(ticker, 1)
				p.leaves(ticker, 1, "sleep", ticks...)
			}
			p.leaves(serving, 0, "chan receive", receive...)
			for _, whom := range c.turns {
				p.pass(8 * ms)
				p.wakes(0, ticker)
				p.runs(ticker, 1)
				for _, g := range whom {
					p.wakes(ticker, g, "runtime.chansend1", "main.tick")
				}
				p.leaves(ticker, 1, "sleep", ticks...)
				for _, g := range whom {
					if g != serving {
						p.runs(g, 1)
						p.do(p.b.Done(g))
						p.leaves(g, 1, "network", home...)
					}
				}
			}
			p.runs(serving, 0)
		})}}})
	}
}

// What requests mostly give back to each other, a goroutine that only sleeps may give, too:
// it puts back what others lost.
func TestWhoPutsBackWhatOthersLostIsNotWaitedForOnPurpose(t *testing.T) {
	ticks := []string{"time.Sleep", "main.reap"}
	s := pool{}.scene()
	cast, uses := s.cast, s.in
	s.cast = func(p *play) {
		cast(p)
		p.do(p.b.Runs(ticker, 1, 0))
		p.waits(ticker, "sleep", ticks...)
	}
	s.in = func(p *play, i int) {
		if i%10 != 9 {
			uses(p, i)
			return
		}
		p.leaves(serving, 0, "select", takes...)
		p.pass(20 * ms)
		p.wakes(0, ticker)
		p.runs(ticker, 1)
		p.wakes(ticker, serving, "runtime.chansend1", "main.reap")
		p.leaves(ticker, 1, "sleep", ticks...)
		p.runs(serving, 0)
	}
	tell(t, []told{{name: "one of ten waits for it", scene: s, alike: []string{"timer-wait", "pool-leak", "pool-exhausted"}}})
}

// Who enlists with a hub waits until there is news for it: the hub takes what it is
// handed, and only passes on what another one, which sleeps, tells it.
func TestAHubThatPassesOnNewsIsNotBusy(t *testing.T) {
	ticks := []string{"time.Sleep", "main.tick"}
	tell(t, []told{{name: "one of ten waits for news", alike: []string{"single-worker", "timer-wait"}, scene: scene{procs: 2, cast: func(p *play) {
		waitingHelper(p)
		p.do(p.b.Runs(ticker, 1, 0))
		p.waits(ticker, "sleep", ticks...)
	}, in: every(10, func(p *play) {
		p.wakes(serving, helper, "runtime.chansend1", "main.ask", "main.serve")
		p.runs(helper, 1)
		p.leaves(helper, 1, "select", idle...)
		p.leaves(serving, 0, "select", choose...)
		p.pass(20 * ms)
		p.wakes(0, ticker)
		p.runs(ticker, 1)
		p.wakes(ticker, helper, "runtime.chansend1", "main.tick")
		p.leaves(ticker, 1, "sleep", ticks...)
		p.runs(helper, 1)
		p.wakes(helper, serving, "runtime.selectnbsend", "main.loop")
		p.leaves(helper, 1, "select", idle...)
		p.runs(serving, 0)
	})}}})
}

// Who looks for news when its time has come, at a peer, and then tells all who wait for them, is no worker of theirs.
func TestWhoFetchesNewsInTimeServesNobody(t *testing.T) {
	rests := []string{"runtime.selectgo", "main.poll"}
	tell(t, []told{{name: "one of ten waits for news", alike: []string{"timer-wait"}, scene: scene{procs: 2, cast: func(p *play) { p.waits(ticker, "select", rests...) }, in: every(10, func(p *play) {
		p.leaves(serving, 0, "chan receive", receive...)
		p.pass(20 * ms)
		p.wakes(0, ticker)
		p.runs(ticker, 1)
		p.leaves(ticker, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.fetch", "main.poll")
		p.pass(ms / 10)
		p.wakes(0, ticker)
		p.runs(ticker, 1)
		p.wakes(ticker, serving, "runtime.closechan", "main.poll")
		p.leaves(ticker, 1, "select", rests...)
		p.runs(serving, 0)
	})}}})
}

// Who looks in time at what requests left, asks a peer for all of them, and answers each works for them.
func TestWhoAnswersEachInTimeServesThem(t *testing.T) {
	rests := []string{"runtime.selectgo", "main.(*batcher).run"}
	tell(t, []told{{name: "two of each lot", finding: "single-worker", where: "main.(*batcher).run", second: "slow-dependency", scene: scene{procs: 2, cast: func(p *play) {
		p.waits(ticker, "select", rests...)
		crowdOf(1)(p)
	}, in: every(10, func(p *play) {
		p.leaves(serving, 0, "chan receive", receive...)
		p.pass(ms)
		p.wakes(0, crowd0)
		p.runs(crowd0, 1)
		p.do(p.b.Task(crowd0, "request"))
		p.leaves(crowd0, 1, "chan receive", receive...)
		p.pass(20 * ms)
		p.wakes(0, ticker)
		p.runs(ticker, 1)
		p.leaves(ticker, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.insert", "main.(*batcher).run")
		p.pass(10 * ms)
		p.wakes(0, ticker)
		p.runs(ticker, 1)
		for _, g := range []gotrace.GoID{serving, crowd0} {
			p.wakes(ticker, g, "runtime.chansend1", "main.(*batcher).run")
		}
		p.leaves(ticker, 1, "select", rests...)
		p.runs(serving, 0)
		p.runs(crowd0, 1)
		p.do(p.b.Done(crowd0))
		p.leaves(crowd0, 1, "network", home...)
	})}}})
}

// Who keeps what it is handed until a timer of its own runs out is what those wait for who hand
// it something, although each of them but the first only ends another of its waits for more. One
// request in ten is slow; another one comes while it waits.
func TestWhoCollectsUntilATimerIsWaitedFor(t *testing.T) {
	tell(t, []told{{name: "two of each lot", finding: "single-worker", where: "main.loop", scene: scene{procs: 2, cast: crowdOf(1), in: every(10, func(p *play) {
		hands := func(g gotrace.GoID) {
			p.wakes(g, helper, "runtime.chansend1", "main.ask", "main.serve")
			p.runs(helper, 1)
			p.leaves(helper, 1, "select", idle...)
		}
		hands(serving)
		p.leaves(serving, 0, "chan receive", receive...)
		p.pass(10 * ms)
		p.wakes(0, crowd0)
		p.runs(crowd0, 0)
		p.do(p.b.Task(crowd0, "request"))
		hands(crowd0)
		p.leaves(crowd0, 0, "chan receive", receive...)
		p.pass(10 * ms)
		p.wakes(0, helper)
		p.runs(helper, 1)
		for _, g := range []gotrace.GoID{crowd0, serving} {
			p.pass(us)
			p.wakes(helper, g, "runtime.chansend1", "main.loop")
		}
		p.leaves(helper, 1, "select", idle...)
		p.runs(crowd0, 1)
		p.do(p.b.Done(crowd0))
		p.leaves(crowd0, 1, "network", home...)
		p.runs(serving, 0)
	})}}})
}

// Several may collect, each for some: most of their lots are full before a timer ends that, and those of which one is not are late.
func TestSeveralThatCollectAreWaitedFor(t *testing.T) {
	gathers := func(slow func(p *play, h gotrace.GoID)) scene {
		collector := func(i int) gotrace.GoID { return helper + gotrace.GoID(i/10%3) }
		cast := func(p *play) {
			crowdOf(1)(p)
			for i := range 2 {
				p.waits(helper+1+gotrace.GoID(i), "select", idle...)
			}
		}
		return scene{procs: 2, requests: 200, cast: cast, in: func(p *play, i int) {
			h := collector(i)
			hands := func(g gotrace.GoID) {
				p.wakes(g, h, "runtime.chansend1", "main.ask", "main.serve")
				p.runs(h, 1)
			}
			hands(serving)
			p.leaves(h, 1, "select", idle...)
			p.leaves(serving, 0, "chan receive", receive...)
			if i%10 == 9 {
				slow(p, h)
				p.wakes(h, serving, "runtime.chansend1", "main.loop")
				p.leaves(h, 1, "select", idle...)
				p.runs(serving, 0)
				return
			}
			p.pass(ms)
			p.wakes(0, crowd0)
			p.runs(crowd0, 0)
			p.do(p.b.Task(crowd0, "request"))
			hands(crowd0)
			p.leaves(crowd0, 0, "chan receive", receive...)
			p.wakes(h, crowd0, "runtime.chansend1", "main.loop")
			p.wakes(h, serving, "runtime.chansend1", "main.loop")
			p.leaves(h, 1, "select", idle...)
			p.runs(crowd0, 1)
			p.do(p.b.Done(crowd0))
			p.leaves(crowd0, 1, "network", home...)
			p.runs(serving, 0)
		}}
	}
	timer := func(p *play, h gotrace.GoID, ns int64) {
		p.pass(ns)
		p.wakes(0, h)
		p.runs(h, 1)
	}
	tell(t, []told{
		{name: "a timer ends it", finding: "single-worker", where: "main.loop", scene: gathers(func(p *play, h gotrace.GoID) { timer(p, h, 20*ms) })},
		{name: "it computes then", finding: "expensive-request", where: "main.store", scene: gathers(func(p *play, h gotrace.GoID) {
			timer(p, h, 2*ms)
			p.computes(h, 1, 20*ms, "main.store", "main.loop")
		})},
		{name: "a timer ends it, and another one looked at something else before, twice", scene: gathers(func(p *play, h gotrace.GoID) {
			for range 2 {
				timer(p, h, ms)
				p.leaves(h, 1, "select", idle...)
			}
			timer(p, h, 18*ms)
		})},
	})
}

// Who collects until a timer ends it, but has nothing yet, waits for whom it gets the first from: what that one computes is not its
// timer's. Who has something may get more from there meanwhile, and the timer's time is its own.
func TestWhoCollectsWaitsForTheFirst(t *testing.T) {
	const stage = crowd0
	takes := []string{"runtime.chanrecv2", "main.parse"}
	staged := func(p *play, d, linger int64, more, before bool) {
		parses := func() {
			p.runs(stage, 1)
			p.pass(d)
			p.wakes(stage, helper, "runtime.chansend1", "main.parse")
			p.leaves(stage, 1, "chan receive", takes...)
			p.runs(helper, 1)
			p.leaves(helper, 1, "select", idle...)
		}
		if before { // what the stage hands over while it is at work waits in a channel
			p.wakes(0, helper)
			p.runs(helper, 1)
		}
		p.wakes(serving, stage, "runtime.chansend1", "main.ask", "main.serve")
		p.leaves(serving, 0, "chan receive", receive...)
		if before {
			p.pass(us)
			p.leaves(helper, 1, "select", idle...)
		}
		parses()
		if more {
			p.pass(linger / 2)
			p.wakes(0, stage)
			d = ms / 10
			parses()
			linger /= 2
		}
		p.pass(linger)
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.pass(us)
		p.wakes(helper, serving, "runtime.chansend1", "main.loop")
		p.leaves(helper, 1, "select", idle...)
		p.runs(serving, 0)
	}
	cast := func(p *play) {
		waitingHelper(p)
		p.waits(stage, "chan receive", takes...)
	}
	unknown := []string{"quota-too-low", "gomaxprocs-over-quota", "host-contention"}
	tell(t, []told{
		{name: "one stage before it computes", alike: append([]string{"single-worker"}, unknown...), where: "main.parse", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
			d := int64(ms / 10)
			if i%10 == 9 {
				d = 18 * ms
			}
			staged(p, d, 2*ms, false, false)
		}}},
		{name: "it waits for more", finding: "single-worker", where: "main.loop", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
			linger := int64(2 * ms)
			if i%10 == 9 {
				linger = 20 * ms
			}
			staged(p, ms/10, linger, true, false)
		}}},
		{name: "it took something without a wait before", finding: "single-worker", where: "main.loop", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
			switch i % 10 {
			case 4: // as long as it lingers
				staged(p, ms/10, 11*ms, false, false)
			case 9:
				staged(p, 109*ms/10, ms, false, true)
			default:
				staged(p, ms/10, ms/10, false, false)
			}
		}}},
	})
}

// Who takes the first of a lot at one place, and more of it at another one until a timer ends that, has it in hand there.
func TestTheFirstOfALotMayBeTakenElsewhere(t *testing.T) {
	first := []string{"runtime.chanrecv1", "main.loop"}
	more := []string{"runtime.selectgo", "main.loop"}
	const mate = crowd0
	in := func(p *play, i int) {
		gap, left := ms/10, ms/10 // timer ends 0.1 ms behind the last one
		if i%10 == 9 {
			gap, left = 19*ms, ms
		}
		p.wakes(serving, helper, "runtime.chansend1", "main.ask", "main.serve")
		p.leaves(serving, 0, "chan receive", receive...)
		p.runs(helper, 1)
		p.leaves(helper, 1, "select", more...)
		p.pass(gap)
		p.wakes(0, mate)
		p.runs(mate, 0)
		p.do(p.b.Task(mate, "request"))
		p.wakes(mate, helper, "runtime.chansend1", "main.ask", "main.serve")
		p.leaves(mate, 0, "chan receive", receive...)
		p.runs(helper, 1)
		p.leaves(helper, 1, "select", more...)
		p.pass(left)
		p.wakes(0, helper)
		p.runs(helper, 1)
		p.pass(us)
		p.wakes(helper, serving, "runtime.chansend1", "main.loop")
		p.wakes(helper, mate, "runtime.chansend1", "main.loop")
		p.leaves(helper, 1, "chan receive", first...)
		p.runs(mate, 1)
		p.do(p.b.Done(mate))
		p.leaves(mate, 1, "network", home...)
		p.runs(serving, 0)
	}
	tell(t, []told{{name: "more comes late", finding: "single-worker", where: "main.loop", scene: scene{procs: 2, cast: func(p *play) {
		p.waits(helper, "chan receive", first...)
		p.waits(mate, "network", home...)
	}, in: in}}})
}

// ticker is a goroutine that only sleeps and wakes.
const ticker = gotrace.GoID(900)

// What is put off by a timer of its own begins when that has run out: until then nobody is at
// work. Where most are answered otherwise the timer is but a time-out. One request in ten is slow.
func TestWhatATimerStartsIsWaitedForOnPurpose(t *testing.T) {
	adds, flushes := []string{"runtime.chanrecv1", "main.(*batch).add", "main.serve"}, []string{"runtime.chansend1", "main.(*batch).flush"}
	batched := func(others int) scene {
		return scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
			for k := range others + 1 {
				if k == others && i%10 != 9 {
					return
				}
				p.leaves(serving, 0, "chan receive", adds...)
				p.do(p.b.Busy(1))
				if k < others {
					p.wakes(0, helper)
					p.runs(helper, 1)
					p.wakes(helper, serving, flushes...)
					p.leaves(helper, 1, "chan receive", "runtime.chanrecv1", "main.loop")
					p.runs(serving, 0)
					continue
				}
				p.do(p.b.Idle(1, gotrace.NoProc))
				p.pass(30 * ms)
				p.do(p.b.Busy(1))
				p.deadlines++
				by := deadline0 + p.deadlines
				p.do(p.b.Starts(gotrace.NoGoroutine, 1, by, 0, p.stack("main.(*batch).flush")))
				p.runs(by, 1)
				p.pass(ms / 10)
				p.wakes(by, serving, flushes...)
				p.do(p.b.Ends(by))
				p.do(p.b.Idle(1, gotrace.NoProc))
				p.runs(serving, 0)
			}
		}}
	}
	v := cause.Judge(attributed(t, batched(0)), cause.Settings{})
	check(t, v, "timer-wait", nil)
	if len(v.Findings) > 0 && (v.Findings[0].Where == nil || v.Findings[0].Where.Function != "main.(*batch).add") {
		t.Errorf("at %+v", v.Findings[0].Where)
	}
	for _, f := range cause.Judge(attributed(t, batched(1)), cause.Settings{}).Findings {
		t.Errorf("of a time-out among many answers: %+v", f)
	}
}

// A wait that timers end more often than others do, all at one time, and these before it, is one that times out.
func TestAWaitThatMostlyTimesOutIsNoSleep(t *testing.T) {
	at := []string{"runtime.selectgo", "main.take", "main.serve"}
	v := cause.Judge(attributed(t, scene{procs: 2, cast: func(p *play) { p.waits(other, "", home...) }, in: func(p *play, i int) {
		switch i % 10 {
		case 5, 6:
			p.wakes(0, other)
			p.runs(other, 1)
			p.do(p.b.Task(other, "request"))
			p.leaves(serving, 0, "select", at...)
			p.pass(ms)
			p.wakes(other, serving, gives...)
			ends(p)
		case 7, 8, 9:
			p.leaves(serving, 0, "select", at...)
			p.pass(15 * ms)
			p.wakes(0, serving)
		default:
			return
		}
		p.runs(serving, 0)
	}}), cause.Settings{})
	for _, f := range v.Findings {
		if f.Cause == "timer-wait" {
			t.Errorf("%s: %+v", v.Sentence, f)
		}
	}
}

// Who sleeps for less than a millisecond sleeps for one where the process is idle meanwhile, as the poller counts: that is no thread's doing,
// but what is longer than that may be.
func TestShortSleepsOfAnIdleProcessTakeAMillisecond(t *testing.T) {
	nap := []string{"time.Sleep", "main.poll", "main.serve"}
	for _, c := range []struct {
		each  int64
		timer bool
	}{{11 * ms / 10, true}, {31 * ms / 10, false}} {
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 400, in: func(p *play, i int) {
			n, each := 5, ms/10
			if i%20 == 19 {
				n, each = 12, c.each
			}
			for range n {
				p.leaves(serving, 0, "sleep", nap...)
				p.pass(each)
				p.wakes(0, serving)
				if i%20 == 3 { // threads are late now and then
					p.pass(ms / 2)
				}
				p.runs(serving, 0)
			}
		}}), cause.Settings{})
		if named := len(v.Findings) == 1 && v.Findings[0].Cause == "timer-wait" && v.Findings[0].Share > 0.95; named != c.timer {
			t.Errorf("sleeps of %s: %s %+v", cause.Ms(float64(c.each)), v.Sentence, v.Findings)
		}
	}
}
