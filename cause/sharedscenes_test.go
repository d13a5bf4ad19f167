package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// sharing is how requests wait for something that is done for all of them, and how it
// is given to them.
type sharing struct {
	reason string
	at     []string
	give   []string
}

var (
	byChannel = sharing{"chan receive", []string{"runtime.chanrecv1", "main.get", "main.serve"}, []string{"main.get", "main.serve"}}
	byGroup   = sharing{"sync", []string{"sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "main.get", "main.serve"},
		[]string{"sync.(*WaitGroup).Add", "sync.(*WaitGroup).Done", "main.get", "main.serve"}}
	byLibrary = sharing{"sync", []string{"sync.(*WaitGroup).Wait", "golang.org/x/sync/singleflight.(*Group).Do", "main.get", "main.serve"},
		[]string{"sync.(*WaitGroup).Add", "sync.(*WaitGroup).Done", "golang.org/x/sync/singleflight.(*Group).doCall", "golang.org/x/sync/singleflight.(*Group).Do", "main.get", "main.serve"}}
	byOnce = sharing{"sync", []string{"sync.(*Mutex).Lock", "sync.(*Once).doSlow", "sync.(*Once).Do", "main.get", "main.serve"},
		[]string{"sync.(*Mutex).Unlock", "sync.(*Once).doSlow", "sync.(*Once).Do", "main.get", "main.serve"}}
	// byMessage sends everybody a message of his own.
	byMessage = sharing{"chan receive", byChannel.at, []string{"runtime.chansend1", "main.get", "main.serve"}}
)

// doing is what one who runs on P 1 does for all.
type doing func(p *play, g gotrace.GoID)

// fetches is a wait for a peer.
func fetches(ns int64) doing {
	return func(p *play, g gotrace.GoID) {
		p.leaves(g, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.fetch", "main.get", "main.serve")
		p.pass(ns)
		p.wakes(0, g)
		p.runs(g, 1)
	}
}

func computesReview(p *play, g gotrace.GoID) {
	p.computes(g, 1, 20*ms, "main.review", "main.get", "main.serve")
}

// asking brings goroutines home that carry requests beside the serving one.
func asking(p *play) {
	waitingHelper(p)
	for g := range gotrace.GoID(5) {
		p.waits(crowd0+g, "", home...)
	}
}

// forAll lets others, and the request itself, wait for what another request does, of the
// crowd's first or fifth member in turn.
func (s sharing) forAll(others gotrace.GoID, do doing) func(p *play) {
	turn := gotrace.GoID(0)
	return func(p *play) {
		by := crowd0 + turn
		turn = 4 - turn
		p.wakes(0, by)
		p.runs(by, 1)
		p.do(p.b.Task(by, "request"))
		p.do(p.b.Yields(by, "preempted", p.stack("main.get", "main.serve")))
		s.await(p, others)
		p.runs(by, 1)
		do(p, by)
		s.release(p, by, others)
		p.do(p.b.Done(by))
		p.waits(by, "network", home...)
		s.leave(p, others)
	}
}

// byItself lets others wait for what the request does, a call of a peer.
func (s sharing) byItself(others gotrace.GoID) func(p *play) {
	return func(p *play) {
		p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.fetch", "main.get", "main.serve")
		for g := crowd0; g < crowd0+others; g++ {
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Task(g, "request"))
			p.leaves(g, 1, s.reason, s.at...)
		}
		p.pass(20 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
		for g := crowd0; g < crowd0+others; g++ {
			p.wakes(serving, g, s.give...)
			p.runs(g, 1)
			p.do(p.b.Done(g))
			p.leaves(g, 1, "network", home...)
		}
	}
}

// inBackground is forAll done by the helper, which carries no request.
func (s sharing) inBackground(others gotrace.GoID, do func(p *play)) func(p *play) {
	return func(p *play) {
		s.await(p, others)
		p.wakes(0, helper)
		p.runs(helper, 1)
		do(p)
		s.release(p, helper, others)
		p.waits(helper, "select", idle...)
		s.leave(p, others)
	}
}

// byReader lets others wait for their own calls on one connection, whose answers its
// reader, the helper, gives to them one by one.
func (s sharing) byReader(others gotrace.GoID) func(p *play) {
	return func(p *play) {
		s.await(p, others)
		p.pass(20 * ms)
		p.wakes(0, helper)
		p.runs(helper, 1)
		s.release(p, helper, others)
		p.waits(helper, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.receive", "main.run")
		s.leave(p, others)
	}
}

func (s sharing) await(p *play, others gotrace.GoID) {
	for g := crowd0 + 1; g <= crowd0+others; g++ {
		p.wakes(0, g)
		p.runs(g, 1)
		p.do(p.b.Task(g, "request"))
		p.waits(g, s.reason, s.at...)
	}
	p.leaves(serving, 0, s.reason, s.at...)
}

func (s sharing) release(p *play, by, others gotrace.GoID) {
	for g := crowd0 + 1; g <= crowd0+others; g++ {
		p.wakes(by, g, s.give...)
	}
	p.wakes(by, serving, s.give...)
}

func (s sharing) leave(p *play, others gotrace.GoID) {
	for g := crowd0 + 1; g <= crowd0+others; g++ {
		p.runs(g, 1)
		p.do(p.b.Done(g))
		p.waits(g, "network", home...)
	}
	p.do(p.b.Idle(1, gotrace.NoProc))
	p.runs(serving, 0)
}

// either is one part for every nth request and another for the others.
func either(n int, nth, others func(p *play)) func(p *play, i int) {
	return func(p *play, i int) {
		if i%n == n-1 {
			nth(p)
		} else {
			others(p)
		}
	}
}

// computesFor is a request that computes for another function, or for the one where others wait.
func computesFor(ns int64, function string) func(p *play) {
	return func(p *play) { p.computes(serving, 0, ns, "main.review", function, "main.serve") }
}

// andAlone is one part for a slow request of so many, in the middle between them another one.
func andAlone(n int, shared, alone func(p *play)) func(p *play, i int) {
	return func(p *play, i int) {
		switch i % n {
		case n / 2:
			alone(p)
		case n - 1:
			shared(p)
		}
	}
}

// twice is one part for two slow requests of sixteen, and another one for the others.
func twice(shared, alone func(p *play)) func(p *play, i int) {
	return func(p *play, i int) {
		switch {
		case i == 20 || i == 220:
			shared(p)
		case i%28 == 27:
			alone(p)
		}
	}
}

// twoOnces has two requests make two things at the same time, and one wait for each.
func twoOnces(p *play) {
	first, second, waits := crowd0, crowd0+3, crowd0+4
	for _, g := range []gotrace.GoID{first, second} {
		p.wakes(0, g)
		p.runs(g, 1)
		p.do(p.b.Task(g, "request"))
		p.leaves(g, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.fetch", "main.get", "main.serve")
	}
	p.wakes(0, waits)
	p.runs(waits, 1)
	p.do(p.b.Task(waits, "request"))
	p.leaves(waits, 1, byOnce.reason, byOnce.at...)
	p.leaves(serving, 0, byOnce.reason, byOnce.at...)
	p.pass(20 * ms)
	for _, x := range [][2]gotrace.GoID{{second, waits}, {first, serving}} {
		p.wakes(0, x[0])
		p.runs(x[0], 1)
		p.wakes(x[0], x[1], byOnce.give...)
		p.do(p.b.Done(x[0]))
		p.leaves(x[0], 1, "network", home...)
		if x[1] == waits {
			p.runs(waits, 1)
			p.do(p.b.Done(waits))
			p.leaves(waits, 1, "network", home...)
		}
	}
	p.runs(serving, 0)
}

// onceFor has a request wait for a one-time initialisation by another one. Of two that come meanwhile one waits, too, and the other
// one, if it needs another thing, is done before that ends, or waits for that thing until just after it.
func onceFor(same, soon bool) func(p *play) {
	const by, waits, another = crowd0, crowd0 + 1, crowd0 + 2
	begins := func(p *play, g gotrace.GoID) {
		p.pass(2 * ms)
		p.wakes(0, g)
		p.runs(g, 1)
		p.do(p.b.Task(g, "request"))
	}
	ends := func(p *play, g gotrace.GoID) {
		p.do(p.b.Done(g))
		p.leaves(g, 1, "network", home...)
	}
	alone := false
	return func(p *play) {
		begins(p, by)
		p.leaves(by, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.fetch", "main.get", "main.serve")
		p.leaves(serving, 0, byOnce.reason, byOnce.at...)
		if alone = !alone; same && alone { // two wait, and three the next time
			begins(p, waits)
			p.leaves(waits, 1, byOnce.reason, byOnce.at...)
			p.pass(20 * ms)
			p.wakes(0, by)
			p.runs(by, 1)
			p.wakes(by, waits, byOnce.give...)
			p.wakes(by, serving, byOnce.give...)
			ends(p, by)
			p.runs(waits, 1)
			ends(p, waits)
			p.runs(serving, 0)
			return
		}
		begins(p, another)
		switch {
		case same:
			p.leaves(another, 1, byOnce.reason, byOnce.at...)
		case soon:
			p.pass(ms / 10)
			ends(p, another)
		default:
			p.leaves(another, 1, "network", reply...)
		}
		begins(p, waits)
		p.leaves(waits, 1, byOnce.reason, byOnce.at...)
		p.pass(20 * ms)
		p.wakes(0, by)
		p.runs(by, 1)
		p.wakes(by, waits, byOnce.give...)
		p.wakes(by, serving, byOnce.give...)
		if same {
			p.wakes(by, another, byOnce.give...)
		}
		ends(p, by)
		p.runs(waits, 1)
		ends(p, waits)
		if same {
			p.runs(another, 1)
			ends(p, another)
		}
		p.runs(serving, 0)
		if !same && !soon {
			p.pass(us)
			p.wakes(0, another)
			p.runs(another, 1)
			ends(p, another)
		}
	}
}

var sharedScenes = []told{
	{
		name: "news for all, that another request brings",
		scene: scene{procs: 2, cast: asking, in: every(20, func(p *play) {
			const by = crowd0 + 4
			byChannel.await(p, 3)
			p.pass(20 * ms)
			p.wakes(0, by)
			p.runs(by, 1)
			p.do(p.b.Task(by, "request"))
			p.pass(ms / 10)
			byChannel.release(p, by, 3)
			p.do(p.b.Done(by))
			p.waits(by, "network", home...)
			byChannel.leave(p, 3)
		})},
		alike: []string{"cache-stampede", "timer-wait"},
	},
	{
		name: "news for all, when their time has come",
		scene: scene{procs: 2, cast: func(p *play) {
			p.waits(helper, "", "time.Sleep", "main.tick")
			for g := range gotrace.GoID(5) {
				p.waits(crowd0+g, "", home...)
			}
		}, in: every(20, func(p *play) {
			byChannel.await(p, 3)
			p.pass(20 * ms)
			p.wakes(0, helper)
			p.runs(helper, 1)
			byChannel.release(p, helper, 3)
			p.waits(helper, "sleep", "time.Sleep", "main.tick")
			byChannel.leave(p, 3)
		})},
		alike: []string{"timer-wait"},
	},
	{
		name:    "many wait for an initialisation that is made anew",
		scene:   scene{procs: 2, cast: asking, in: every(20, byOnce.forAll(3, fetches(20*ms)))},
		finding: "cache-stampede", where: "main.fetch",
	},
	{
		name:  "two wait for one",
		scene: scene{procs: 2, cast: asking, in: every(20, byOnce.forAll(1, fetches(20*ms)))},
		alike: []string{"cache-stampede", "cold-start"},
	},
	{
		name:    "two or three wait for one",
		scene:   scene{procs: 2, cast: asking, in: every(20, onceFor(true, false))},
		finding: "cache-stampede",
	},
	{
		name:  "two wait for one, and another one that comes meanwhile does not need it",
		scene: scene{procs: 2, cast: asking, in: every(20, onceFor(false, true))},
		alike: []string{"cache-stampede", "cold-start"},
	},
	{
		name:  "two wait for one, and another one that comes meanwhile, and takes as long, does not need it",
		scene: scene{procs: 2, cast: asking, in: every(20, onceFor(false, false))},
		alike: []string{"cache-stampede", "cold-start"},
	},
	{
		name:    "two wait for one each, at the same time",
		scene:   scene{procs: 2, cast: asking, in: every(20, twoOnces)},
		finding: "cold-start",
	},
	{
		name:    "few wait for one",
		scene:   scene{procs: 2, cast: asking, in: every(20, byOnce.forAll(0, fetches(20*ms)))},
		finding: "cold-start",
	},
	{
		name:    "a closed channel, and the one of them who does it waits for a peer",
		scene:   scene{procs: 2, cast: asking, in: every(20, byChannel.forAll(3, fetches(20*ms)))},
		finding: "cache-stampede", where: "main.fetch", share: 1,
	},
	{
		name:    "a WaitGroup, and the one of them who does it computes",
		scene:   scene{procs: 2, cast: asking, in: every(20, byGroup.forAll(3, computesReview))},
		finding: "cache-stampede", where: "main.review", share: 1,
	},
	{
		name:    "singleflight",
		scene:   scene{procs: 2, cast: asking, in: every(20, byLibrary.forAll(3, fetches(20*ms)))},
		finding: "cache-stampede", where: "main.fetch", share: 1,
	},
	{
		name:    "half of the slowest do it",
		scene:   scene{procs: 2, cast: asking, in: every(40, byChannel.byItself(4))},
		finding: "cache-stampede", where: "main.fetch", share: 1,
	},
	{
		name:    "some fetch it while nobody waits",
		scene:   scene{procs: 2, cast: asking, in: andAlone(100, byLibrary.forAll(1, fetches(20*ms)), byLibrary.byItself(0))},
		finding: "cache-stampede", where: "main.fetch",
	},
	{
		name:    "some compute it while nobody waits",
		scene:   scene{procs: 2, cast: asking, in: andAlone(100, byLibrary.forAll(1, computesReview), computesFor(20*ms, "main.get"))},
		finding: "cache-stampede", where: "main.review", share: 1,
	},
	{
		name:    "some compute the same for something else",
		scene:   scene{procs: 2, cast: asking, in: andAlone(100, byLibrary.forAll(1, computesReview), computesFor(110*ms, "main.list"))},
		finding: "expensive-request", where: "main.review", second: "cache-stampede",
	},
	{
		name:    "most fetch it while nobody waits",
		scene:   scene{procs: 2, cast: asking, in: twice(byLibrary.forAll(3, fetches(20*ms)), byLibrary.byItself(0))},
		finding: "slow-dependency", where: "main.fetch", share: 1,
	},
	{
		name:    "most compute it while nobody waits",
		scene:   scene{procs: 2, cast: asking, in: twice(byLibrary.forAll(3, computesReview), computesFor(40*ms, "main.get"))},
		finding: "expensive-request", where: "main.review", share: 1,
	},
	{
		name: "a goroutine of its own does it now and then",
		scene: scene{procs: 2, cast: asking, in: every(20, sharing{"chan receive", byChannel.at, []string{"main.renew", "main.loop"}}.
			inBackground(3, naps(20*ms, "main.renew", "main.loop")))},
		finding: "cache-stampede", where: "main.renew",
	},
	{
		name: "a goroutine of its own does it for all requests, in batches",
		scene: scene{procs: 2, cast: asking, in: func() func(p *play, i int) {
			s := sharing{"chan receive", byChannel.at, []string{"main.flush", "main.loop"}}
			return either(20, s.inBackground(3, naps(20*ms, "main.flush", "main.loop")), s.inBackground(3, naps(ms/10, "main.flush", "main.loop")))
		}()},
		finding: "single-worker", where: "main.flush",
	},
	{
		name: "every request needs a call, and shares it with others",
		scene: scene{procs: 2, cast: asking,
			in: either(20, byChannel.forAll(3, fetches(20*ms)), byChannel.forAll(3, fetches(ms/10)))},
		finding: "slow-dependency", where: "main.fetch",
	},
	{
		name:    "every request shares a call, and all calls are slow",
		scene:   scene{procs: 2, cast: asking, in: everyTime(byChannel.forAll(3, fetches(18*ms)))},
		finding: "slow-dependency", where: "main.fetch",
	},
	{
		name: "the peer is sometimes slow to answer those who share a call",
		scene: scene{procs: 2, cast: asking,
			in: then(every(20, byChannel.forAll(3, fetches(20*ms))), func(p *play, i int) {
				if i%10 == 1 {
					byChannel.forAll(3, fetches(ms/10))(p)
				}
			})},
		finding: "slow-dependency", where: "main.fetch",
	},
	{
		name:    "one waits for the other's call",
		scene:   scene{procs: 2, cast: asking, in: every(20, byLibrary.forAll(0, fetches(20*ms)))},
		finding: "slow-dependency", where: "main.fetch",
	},
	{
		name: "it is done once in the recording",
		scene: scene{procs: 2, requests: 60, cast: asking, in: func(p *play, i int) {
			if i == 5 {
				byChannel.forAll(3, fetches(20*ms))(p)
			}
		}},
		alike: []string{"cache-stampede", "cold-start"},
	},
	{
		name:    "the reader of a connection closes the channel of each call",
		scene:   scene{procs: 2, cast: asking, in: every(20, byChannel.byReader(3))},
		finding: "slow-dependency",
	},
	{
		name:    "one gives to several, to each his own",
		scene:   scene{procs: 2, cast: asking, in: every(20, byMessage.forAll(3, fetches(20*ms)))},
		finding: "slow-dependency", where: "main.fetch",
	},
}

func TestAStampedeIsToldFromOtherWaitsForOne(t *testing.T) { tell(t, sharedScenes) }
