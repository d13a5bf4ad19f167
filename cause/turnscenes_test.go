package cause_test

import (
	"fmt"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

var fetching = []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.fetch", "main.refresh", "main.loop"}

var syncing = []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.fetch", "main.sync", "main.loop"}

var own = []string{"sync.(*Mutex).Lock", "main.refresh", "main.loop"}

// waitsOn makes g wait on a P.
func waitsOn(reason string, d int64, at []string) func(p *play, g gotrace.GoID, on gotrace.ProcID) {
	return func(p *play, g gotrace.GoID, on gotrace.ProcID) {
		p.leaves(g, on, reason, at...)
		p.pass(d)
		p.wakes(0, g)
		p.runs(g, on)
	}
}

// allInTurn is a service in which all requests wait for a millisecond, with a lock, and every tenth one
// comes when many others do, of whom the first has the lock for so long.
func allInTurn(reason string, at []string, first int64) scene {
	return allInTurnOn(reason, at, at, first)
}

// allInTurnOn is allInTurn where the others come to where they wait on another way.
func allInTurnOn(reason string, others, at []string, first int64) scene {
	return scene{procs: 2, cast: crowdAtHome("main.loop"), in: func(p *play, i int) {
		if i%10 == 9 {
			convoyOf(own, unlock, func(p *play, g gotrace.GoID) {
				d := int64(ms)
				if g == crowd0 {
					d = first
				}
				waitsOn(reason, d, others)(p, g, 1)
			})(p)
		}
		waitsOn(reason, ms, at)(p, serving, 0)
	}}
}

// manyInTurn is allInTurn where who has the lock first waits so many times for a millisecond.
func manyInTurn(reason string, at []string, many int) scene {
	return scene{procs: 2, cast: crowdAtHome("main.loop"), in: func(p *play, i int) {
		if i%10 == 9 {
			convoyOf(own, unlock, func(p *play, g gotrace.GoID) {
				for n := range many {
					if n == 0 || g == crowd0 {
						waitsOn(reason, ms, at)(p, g, 1)
					}
				}
			})(p)
		}
		waitsOn(reason, ms, at)(p, serving, 0)
	}}
}

// longBeside is a service in which one of ten times somebody has the lock for one call of 120 ms, while others make short
// calls of the same peer without it.
func longBeside(at []string) scene {
	const beside = crowd0 + crowd
	return scene{procs: 2, cast: func(p *play) {
		crowdAtHome("main.loop")(p)
		p.waits(beside, "", "time.Sleep", "main.loop")
	}, in: func(p *play, i int) {
		if i%10 == 9 {
			convoyOf(own, unlock, func(p *play, g gotrace.GoID) {
				if g != crowd0 {
					waitsOn("network", ms, at)(p, g, 1)
					return
				}
				p.leaves(g, 1, "network", at...)
				for range 60 {
					p.wakes(0, beside)
					p.runs(beside, 1)
					waitsOn("network", ms, at)(p, beside, 1)
					p.leaves(beside, 1, "sleep", "time.Sleep", "main.loop")
					p.pass(ms)
				}
				p.wakes(0, g)
				p.runs(g, 1)
			})(p)
		}
		waitsOn("network", ms, at)(p, serving, 0)
	}}
}

var dozing = []string{"time.Sleep", "main.fetch", "main.refresh", "main.loop"}

func TestWhoWaitsWithALockAsAllDo(t *testing.T) {
	tell(t, []told{
		{name: "many short calls, one after the other", scene: allInTurn("network", fetching, ms), finding: "lock-held-across-wait", where: "main.fetch"},
		{name: "many short naps, one after the other", scene: allInTurn("sleep", dozing, ms), finding: "lock-held-across-wait", where: "main.fetch"},
		{name: "many short calls, on another way", scene: allInTurnOn("network", syncing, fetching, ms), finding: "lock-held-across-wait", where: "main.fetch"},
		{name: "one of them takes long, on another way", scene: allInTurnOn("network", syncing, fetching, 60*ms), finding: "slow-dependency", where: "main.fetch"},
		{name: "one of them makes many short calls in a row", scene: manyInTurn("network", fetching, 80), finding: "lock-held-across-wait", where: "main.fetch"},
		{name: "one of the calls takes long, beside short ones without the lock", scene: longBeside(fetching), finding: "slow-dependency", where: "main.fetch"},
		{name: "one of the calls takes long", scene: allInTurn("network", fetching, 60*ms), finding: "slow-dependency", where: "main.fetch"},
	})
}

// A lock that is held while a token is fetched by HTTP, and requests that ask somebody else by HTTP:
// the goroutines that read all answers have the same stack.
func TestWhoAsksSomebodyElseDoesNotDoWhatTheHolderDoes(t *testing.T) {
	reads := append(home[:3:3], "net/http.(*persistConn).readLoop")
	asks := func(p *play, g, reader gotrace.GoID, on gotrace.ProcID, d int64, by ...string) {
		p.leaves(g, on, "select", append([]string{"runtime.selectgo", "net/http.(*persistConn).roundTrip"}, by...)...)
		p.pass(d)
		p.wakes(0, reader)
		p.runs(reader, on)
		p.wakes(reader, g, "runtime.chansend1", "net/http.(*persistConn).readLoop")
		p.leaves(reader, on, "network", reads...)
		p.runs(g, on)
	}
	cast := func(p *play) {
		waitingHelper(p)
		p.waits(crowd0, "", reads...)
		p.waits(crowd0+1, "", reads...)
	}
	token := func(stack ...string) []string { return append(stack, "main.token", "main.serve") }
	tell(t, []told{{name: "by one helper, from the function that holds the lock and from its caller", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
		if i%10 == 9 {
			behindHelper("sync", token("sync.(*Mutex).Lock"), token("sync.(*Mutex).Unlock"), func(p *play) { asks(p, helper, crowd0, 1, 20*ms, token("main.ask")...) })(p)
		}
		asks(p, serving, crowd0+1, 0, ms, "main.ask", "main.serve")
	}}, finding: "lock-held-across-wait", where: "main.token"}, {name: "by one helper, under a lock that one function takes for another", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
		if i%10 == 9 {
			behindHelper("sync", []string{"sync.(*Mutex).Lock", "example.com/shop/guard.Acquire", "example.com/shop/guard.With", "main.serve"}, []string{"sync.(*Mutex).Unlock", "example.com/shop/guard.With", "main.loop"},
				func(p *play) {
					asks(p, helper, crowd0, 1, 20*ms, "main.ask", "main.settle", "example.com/shop/guard.With", "main.loop")
				})(p)
		}
		asks(p, serving, crowd0+1, 0, ms, "main.ask", "main.serve")
	}}, finding: "lock-held-across-wait"}, {name: "by one helper, and two call the function that holds the lock", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
		by := "main.serve"
		if i%20 > 9 {
			by = "main.answer"
		}
		if i%10 == 9 {
			behindHelper("sync", []string{"sync.(*Mutex).Lock", "main.token", by}, []string{"sync.(*Mutex).Unlock", "main.token", by}, func(p *play) { asks(p, helper, crowd0, 1, 20*ms, token("main.ask")...) })(p)
		}
		asks(p, serving, crowd0+1, 0, ms, "main.ask", by)
	}}, finding: "lock-held-across-wait", where: "main.token"}, {name: "by one helper, with the lock and then again in the function that held it", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
		if i%10 == 9 {
			behindHelper("sync", token("sync.(*Mutex).Lock"), token("sync.(*Mutex).Unlock"), func(p *play) { asks(p, helper, crowd0, 1, 20*ms, token("main.ask")...) })(p)
		}
		asks(p, serving, crowd0+1, 0, ms, token("main.ask")...)
	}}, finding: "slow-dependency", where: "main.ask"}, {name: "by HTTP", scene: scene{procs: 2, cast: cast, in: func(p *play, i int) {
		if i%10 == 9 {
			behindHelper("sync", mutex, unlock, func(p *play) { asks(p, helper, crowd0, 1, 20*ms, "main.askAuth", "main.refresh", "main.loop") })(p)
		}
		asks(p, serving, crowd0+1, 0, ms, "main.ask", "main.serve")
	}}, finding: "lock-held-across-wait", where: "main.refresh"}})
}

// However many queues a request stands in shortly before, the long one is measured.
func TestManyQueuesBeforeALongOne(t *testing.T) {
	tell(t, []told{{name: "twelve short ones", scene: scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
		for k := range 12 {
			name := fmt.Sprintf("main.small%d", k)
			behindHelper("sync", []string{"sync.(*Mutex).Lock", name, "main.serve"}, []string{"sync.(*Mutex).Unlock", name, "main.loop"}, func(p *play) { p.computes(helper, 1, ms/20, name, "main.loop") })(p)
		}
		behindHelper("sync", mutex, unlock, naps(20*ms, "main.refresh", "main.loop"))(p)
	})}, finding: "lock-held-across-wait", where: "main.refresh"}})
}

// How long holders hold a lock has nothing to do with what requests wait for before.
func TestAConvoyBehindAnotherQueue(t *testing.T) {
	answer := []string{"runtime.chansend1", "main.answer", "main.loop"}
	tell(t, []told{{name: "they wait for a worker, and then for the lock",
		scene: scene{procs: 2, cast: func(p *play) { waitingHelper(p); crowdAtHome("main.loop")(p) }, in: every(10, func(p *play) {
			behindHelper("chan receive", receive, answer, naps(16*ms, "main.flush", "main.loop"))(p)
			convoy(mutex, unlock)(p)
		})},
		finding: "lock-convoy", second: "single-worker", where: "main.refresh",
	}})
}

// Whether most requests do themselves what they wait for is asked of all requests, although only some
// are taken apart, and of the slow ones more.
func TestWhoWaitsWithALockWhereFewRequestsAreTakenApart(t *testing.T) {
	hold := func(d int64) func(p *play) {
		return behindHelper("sync", mutex, unlock, func(p *play) { waitsOn("network", d, fetching)(p, helper, 1) })
	}
	s := scene{procs: 2, requests: 2000, cast: waitingHelper, in: func(p *play, i int) {
		if i%10 != 9 {
			hold(ms / 2)(p)
			return
		}
		hold(12 * ms)(p)
		waitsOn("network", ms/4, fetching)(p, serving, 0)
	}}
	for _, limit := range []int{0, 200} {
		s.limit = limit
		v := cause.Judge(attributed(t, s), cause.Settings{})
		if len(v.Findings) == 0 || v.Findings[0].Cause != "lock-held-across-wait" {
			t.Errorf("%d taken apart at most: %s", limit, v.Sentence)
		}
	}
}
