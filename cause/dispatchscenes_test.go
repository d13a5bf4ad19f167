package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// dispatcher plays one that starts a goroutine for each piece of work, which asks a peer for so long, but no more than limit at a time:
// it waits itself until one is done. Several others come just before every tenth request. busy says where it waits instead of that,
// if it does, for a timer of its own.
func dispatcher(limit, others int, takes func(i int) int64, busy bool) func(p *play, i int) {
	answer := []string{"runtime.chanrecv1", "main.submit", "main.serve"}
	take := []string{"runtime.chanrecv1", "main.dispatch"}
	full := []string{"runtime.chansend1", "main.acquire", "main.dispatch"}
	asks := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.work"}
	job := gotrace.GoID(10_000)
	return func(p *play, i int) {
		var all []gotrace.GoID
		if i%10 == 9 {
			for g := range gotrace.GoID(others) {
				all = append(all, other+g)
			}
		}
		comeBefore(p, all, answer...)
		p.wakes(serving, helper, "runtime.chansend1", "main.submit", "main.serve")
		p.leaves(serving, 0, "chan receive", answer...)
		p.pass(ms / 100)
		p.runs(helper, 1)
		all = append(all, serving)
		for len(all) > 0 {
			n := min(limit, len(all))
			for k := range n {
				p.do(p.b.Starts(helper, 1, job+gotrace.GoID(k), p.stack("main.dispatch"), p.stack("main.work")))
			}
			switch {
			case n < len(all) && busy:
				p.leaves(helper, 1, "sleep", "time.Sleep", "main.poll", "main.dispatch")
			case n < len(all):
				p.leaves(helper, 1, "chan send", full...)
			default:
				p.leaves(helper, 1, "chan receive", take...)
			}
			for k := range n {
				p.runs(job+gotrace.GoID(k), 1)
				p.leaves(job+gotrace.GoID(k), 1, "network", asks...)
			}
			p.pass(takes(i))
			for k := range n {
				p.wakes(0, job)
				p.runs(job, 1)
				p.wakes(job, all[k], "runtime.chansend1", "main.work")
				if k == n-1 && n < len(all) && !busy {
					p.wakes(job, helper, "runtime.chanrecv1", "main.work")
				}
				p.do(p.b.Ends(job))
				p.do(p.b.Idle(1, gotrace.NoProc))
				p.runs(all[k], 0)
				if all[k] != serving {
					p.do(p.b.Done(all[k]))
					p.leaves(all[k], 0, "network", home...)
				}
				job++
			}
			if n < len(all) {
				if busy {
					p.pass(2 * ms)
					p.wakes(0, helper)
				}
				p.runs(helper, 1)
			}
			all = all[n:]
		}
	}
}

// Whoever starts a goroutine for each request, a few at a time, is a worker, or a pool, whatever those wait for; but where they take
// longer it is that, and where something else holds him back it is that.
func TestADispatcherWithALimitIsAQueue(t *testing.T) {
	always := func(int) int64 { return 2 * ms }
	late := func(i int) int64 {
		if i%10 == 9 {
			return 12 * ms
		}
		return 2 * ms
	}
	tell(t, []told{
		{name: "one at a time", scene: scene{procs: 2, cast: atDesk, in: dispatcher(1, 5, always, false)}, finding: "single-worker", where: "main.submit"},
		{name: "two at a time", scene: scene{procs: 2, cast: atDesk, in: dispatcher(2, 5, func(int) int64 { return 5 * ms }, false)}, finding: "pool-exhausted", where: "main.submit"},
		{name: "enough at a time", scene: scene{procs: 2, cast: atDesk, in: dispatcher(6, 5, late, false)}, finding: "slow-dependency", where: "main.ask"},
		{name: "one at a time, and the peer is slow", scene: scene{procs: 2, cast: atDesk, in: dispatcher(1, 5, late, false)}, finding: "slow-dependency", where: "main.ask"},
		{name: "he looks for the next one now and then", scene: scene{procs: 2, cast: atDesk, in: dispatcher(1, 5, always, true)}, finding: "timer-wait", where: "main.poll"},
	})
}

// One who does most of what he is asked for himself, and starts somebody for what takes long, keeps nobody.
func TestWhoStartsOthersForWhatTakesLongIsNoWorker(t *testing.T) {
	answer := []string{"runtime.chanrecv1", "main.order", "main.serve"}
	take := []string{"runtime.chanrecv2", "main.engine"}
	tell(t, []told{{name: "he starts one that computes", scene: scene{procs: 2, cast: atDesk, in: func(p *play, i int) {
		p.wakes(serving, helper, "runtime.chansend1", "main.order", "main.serve")
		p.leaves(serving, 0, "chan receive", answer...)
		p.pass(ms / 100)
		p.runs(helper, 1)
		if i%20 != 19 {
			p.wakes(helper, serving, "runtime.chansend1", "main.engine")
			p.leaves(helper, 1, "chan receive", take...)
			p.runs(serving, 0)
			return
		}
		big := gotrace.GoID(20_000 + i)
		p.do(p.b.Starts(helper, 1, big, p.stack("main.engine"), p.stack("main.engine.func1")))
		p.leaves(helper, 1, "chan receive", take...)
		p.runs(big, 1)
		p.computes(big, 1, 20*ms, "main.price", "main.engine.func1")
		p.wakes(big, serving, "runtime.chansend1", "main.engine.func1")
		p.do(p.b.Ends(big))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}, finding: "expensive-request", where: "main.price"}})
}
