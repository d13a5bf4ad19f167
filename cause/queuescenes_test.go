package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

var (
	readsMore  = []string{"syscall.Read", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.serve"}
	takesJob   = []string{"runtime.chanrecv2", "main.worker"}
	sendsOn    = []string{"syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "main.ask", "main.worker"}
	awaitsPeer = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.worker"}
	getsBack   = []string{"syscall.Read", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.worker"}
	answersOne = []string{"syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "main.answer", "main.worker"}
)

// does makes a running goroutine call the system for a moment.
func (p *play) does(g gotrace.GoID, what []string) {
	p.tb.Helper()
	p.do(p.b.Calls(g, p.stack(what...)))
	p.pass(ms / 1000)
	p.do(p.b.Returns(g))
}

// queue is a service whose reader hands messages to workers, who ask a peer for each, which takes a
// time d, and answer themselves. They come one at a time, but each fifth time burst at once, and then take
// the time slow.
func queue(workers, burst int, d, slow int64) scene {
	worker := func(i int) gotrace.GoID { return helper + gotrace.GoID(i) }
	return scene{procs: 2, plain: true, requests: 100, period: 100 * ms, cast: func(p *play) {
		for i := range workers {
			p.waits(worker(i), "", takesJob...)
		}
	}, in: func(p *play, i int) {
		n, takes := 1, d
		if i%5 == 4 {
			n, takes = burst, slow
		}
		asks := func(g gotrace.GoID) {
			p.does(g, sendsOn)
			p.leaves(g, 1, "network", awaitsPeer...)
		}
		at := min(n, workers)
		for k := range n {
			if k > 0 {
				p.does(serving, readsMore)
			}
			if p.pass(ms / 1000); k < at {
				p.wakes(serving, worker(k), "runtime.chansend1", "main.serve")
			}
		}
		p.leaves(serving, 0, "network", home...)
		for k := range at {
			p.runs(worker(k), 1)
			asks(worker(k))
		}
		for busy := at; busy > 0; {
			p.pass(takes)
			for k := range busy {
				g := worker(k)
				p.wakes(0, g)
				p.runs(g, 1)
				p.does(g, getsBack)
				p.does(g, answersOne)
				if at < n {
					at++
					asks(g)
					continue
				}
				busy--
				p.leaves(g, 1, "chan receive", takesJob...)
			}
		}
	}}
}

func TestMessagesThatNobodyCarriesWaitForWorkers(t *testing.T) {
	tell(t, []told{
		{name: "for the only one", scene: queue(1, 10, 2*ms, 2*ms), finding: "single-worker", where: "main.ask"},
		{name: "for one of three", scene: queue(3, 30, 2*ms, 2*ms), finding: "pool-exhausted", where: "main.serve"},
		{name: "for nobody, but for its peer", scene: queue(10, 1, 2*ms, 20*ms), finding: "slow-dependency", where: "main.ask"},
	})
}
