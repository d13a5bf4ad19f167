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

// lentTo plays requests that each start somebody who does something, but no more than limit of all of them at a time: who
// comes then waits until another one's is done. The n-th is, so long after the one before. Several others come just before every tenth request.
func lentTo(limit, others int, why string, does []string, after func(i, n int) int64) func(p *play, i int) {
	request := []string{"golang.org/x/sync/errgroup.(*Group).Go", "main.inspect", "main.serve"}
	full := append([]string{"runtime.chansend1"}, request...)
	result := []string{"runtime.chanrecv1", "main.inspect", "main.serve"}
	root := "golang.org/x/sync/errgroup.(*Group).Go.func1"
	does = append(does, "main.inspect.func1", root)
	job := gotrace.GoID(10_000)
	return func(p *play, i int) {
		var asking, waiting []gotrace.GoID
		jobs := map[gotrace.GoID]gotrace.GoID{} // of whom
		comes := func(g gotrace.GoID) {
			if len(asking) == limit {
				p.leaves(g, 0, "chan send", full...)
				waiting = append(waiting, g)
				return
			}
			p.do(p.b.Starts(g, 0, job, p.stack(request...), p.stack(root)))
			p.leaves(g, 0, "chan receive", result...)
			p.runs(job, 0)
			p.leaves(job, 0, why, does...)
			asking, jobs[g] = append(asking, g), job
			job++
		}
		if i%10 == 9 {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			for g := range gotrace.GoID(others) {
				p.wakes(0, other+g)
				p.runs(other+g, 0)
				p.do(p.b.Task(other+g, "request"))
				comes(other + g)
			}
			p.runs(serving, 0)
		}
		comes(serving)
		for n := 0; len(asking) > 0; n++ {
			p.pass(after(i, n))
			g := asking[0]
			mine := jobs[g]
			p.wakes(0, mine)
			p.runs(mine, 0)
			p.wakes(mine, g, "runtime.chansend1", "main.inspect.func1", root)
			asking = asking[1:]
			if len(waiting) > 0 {
				p.wakes(mine, waiting[0], "runtime.chanrecv1", "golang.org/x/sync/errgroup.(*Group).done", root)
			}
			p.do(p.b.Ends(mine))
			p.runs(g, 0)
			if g != serving {
				p.do(p.b.Done(g))
				p.leaves(g, 0, "network", home...)
			}
			if len(waiting) > 0 {
				next := waiting[0]
				waiting = waiting[1:]
				if g == serving {
					p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
				}
				p.runs(next, 0)
				comes(next)
				if g == serving {
					p.runs(serving, 0)
				}
			}
		}
	}
}

// Somebody who is started for each use of a pool holds what the one who starts him has got.
func TestWhoIsStartedForAUseOfAPoolHoldsIt(t *testing.T) {
	asks := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask"}
	tell(t, []told{
		{name: "all are in use", scene: scene{procs: 2, cast: atDesk, in: lentTo(2, 6, "sleep", []string{"time.Sleep", "main.print"}, func(int, int) int64 { return 3 * ms })}, finding: "pool-exhausted", where: "main.inspect"},
		{name: "the peer is slow", scene: scene{procs: 2, cast: atDesk, in: lentTo(2, 6, "network", asks, func(i, n int) int64 {
			if i%10 == 9 && n == 0 {
				return 60 * ms
			}
			return 3 * ms
		})}, finding: "slow-dependency", where: "main.ask"}, // the median request takes less than a level
	})
}
