package cause_test

import (
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// askStack is where requests ask a peer, whatever they hold.
var askStack = []string{"internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", "main.ask", "main.serve"}

// asWell is a channel of one as a lock: five have it one after the other each tenth time, and ask a peer; who had it may ask
// the same peer at the same place once more, without it.
func asWell(again bool) func(p *play, i int) {
	return func(p *play, i int) {
		if i%10 != 9 {
			p.leaves(serving, 0, "network", askStack...)
			p.pass(ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
			return
		}
		p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
		all := []gotrace.GoID{other, other + 1, other + 2, other + 3, serving}
		for k, g := range all {
			if g != serving {
				p.wakes(0, g)
				p.runs(g, 0)
				p.do(p.b.Task(g, "request"))
			} else {
				p.runs(g, 0)
			}
			if k == 0 {
				p.leaves(g, 0, "network", askStack...)
			} else {
				p.leaves(g, 0, "chan send", takes...)
			}
		}
		done := func(g gotrace.GoID) {
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Done(g))
			p.leaves(g, 1, "network", home...)
		}
		for k, g := range all {
			p.pass(10 * ms)
			if again && k >= 2 {
				done(all[k-2])
			}
			p.wakes(0, g)
			p.runs(g, 0)
			if k+1 < len(all) {
				p.wakes(g, all[k+1], gives...)
			}
			if g == serving {
				if again {
					done(all[k-1])
				}
				return
			}
			if again {
				p.leaves(g, 0, "network", askStack...)
			} else {
				p.do(p.b.Done(g))
				p.leaves(g, 0, "network", home...)
			}
			p.runs(all[k+1], 0)
			p.leaves(all[k+1], 0, "network", askStack...)
		}
	}
}

// parents: the handler takes a permit, a goroutine that it starts works for it and gives it back, and it waits for that one.
// The queue is four deep.
func parents(p *play, i int) {
	child := gotrace.GoID(10000 + 10*i)
	work := func(g gotrace.GoID, k int) gotrace.GoID { // g runs on 0, and has a permit
		c := child + gotrace.GoID(k)
		p.do(p.b.Starts(g, 0, c, p.stack("main.take", "main.serve"), p.stack("main.part")))
		p.leaves(g, 0, "chan receive", "runtime.chanrecv1", "main.result", "main.serve")
		p.do(p.b.Busy(1))
		p.runs(c, 1)
		p.leaves(c, 1, "sleep", "time.Sleep", "main.part")
		return c
	}
	if i%10 != 9 {
		c := work(serving, 0)
		p.pass(ms)
		p.wakes(0, c)
		p.runs(c, 1)
		p.wakes(c, serving, "runtime.chansend1", "main.part")
		p.do(p.b.Ends(c))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
		return
	}
	p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
	all := []gotrace.GoID{other, other + 1, other + 2, other + 3, other + 4, other + 5, other + 6, other + 7, other + 8, serving}
	var cs []gotrace.GoID
	for k, g := range all {
		if g != serving {
			p.wakes(0, g)
			p.runs(g, 0)
			p.do(p.b.Task(g, "request"))
		} else {
			p.runs(g, 0)
		}
		if k < 2 {
			cs = append(cs, work(g, k))
			p.pass(ms / 10)
		} else {
			p.leaves(g, 0, "chan send", takes...)
		}
	}
	for k, g := range all {
		p.pass(5 * ms)
		c := cs[k]
		p.wakes(0, c)
		p.runs(c, 1)
		if k+2 < len(all) {
			p.wakes(c, all[k+2], "runtime.chanrecv1", "main.part")
		}
		p.wakes(c, g, "runtime.chansend1", "main.part")
		p.do(p.b.Ends(c))
		p.do(p.b.Idle(1, gotrace.NoProc))
		if k+2 < len(all) {
			p.runs(all[k+2], 0)
			cs = append(cs, work(all[k+2], k+2))
		}
		p.runs(g, 0)
		if g == serving {
			return
		}
		p.do(p.b.Done(g))
		p.leaves(g, 0, "network", home...)
	}
}

// slowsDown is a pool of two of database/sql, of which a peer takes 30 ms instead of one from a request on.
func slowsDown(from int) func(p *play, i int) {
	return func(p *play, i int) {
		first, second, last := other, other+1, other+2
		if i%2 == 1 {
			first, second = second, first
		}
		get := []string{"runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.query", "main.show", "main.serve"}
		put := []string{"runtime.chansend1", "database/sql.(*DB).putConnDBLocked", "database/sql.(*Rows).Close", "main.query", "main.show", "main.serve"}
		asks := func(g gotrace.GoID, on gotrace.ProcID) {
			p.leaves(g, on, "network", "internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitRead", "net.(*conn).Read", "main.query", "main.show", "main.serve")
		}
		d := ms
		if i >= from {
			d = 30 * ms
		}
		if i >= from || i%3 == 2 {
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			for _, g := range []gotrace.GoID{first, second} {
				p.answered(g, 1)
				p.do(p.b.Task(g, "request"))
				asks(g, 1)
			}
			p.runs(serving, 0)
			p.leaves(serving, 0, "select", get...)
			p.answered(last, 1)
			p.do(p.b.Task(last, "request"))
			p.leaves(last, 1, "select", get...)
			p.pass(d)
			p.answered(first, 1)
			p.wakes(first, serving, put...)
			p.done(first, 1)
			p.runs(serving, 0)
			asks(serving, 0)
			p.pass(d / 10)
			p.answered(second, 1)
			p.wakes(second, last, put...)
			p.done(second, 1)
			p.runs(last, 1)
			asks(last, 1)
			p.pass(d)
			p.answered(serving, 0)
			p.answered(last, 1)
			p.done(last, 1)
			return
		}
		asks(serving, 0)
		p.pass(d)
		p.answered(serving, 0)
	}
}

// What looks like what the rules about pools look for, and is something else.
func TestLookAlikesOfPools(t *testing.T) {
	tell(t, []told{
		{name: "a channel as a lock", scene: scene{procs: 2, cast: waitingOthers, in: asWell(false)}, finding: "lock-held-across-wait"},
		{name: "a channel as a lock, and who had it asks the same again", scene: scene{procs: 2, cast: waitingOthers, in: asWell(true)}, finding: "lock-held-across-wait"},
		{name: "permits that a goroutine gives back which who took them started", scene: scene{procs: 2, cast: func(p *play) {
			for g := other; g < other+9; g++ {
				p.waits(g, "", home...)
			}
		}, in: parents}, finding: "pool-exhausted"},
	})
	for _, from := range []int{285, 295, 305} {
		v := cause.Judge(attributed(t, scene{procs: 2, cast: waitingOthers, in: slowsDown(from)}), cause.Settings{})
		if v.Verdict != "cause" || v.Findings[0].Cause != "slow-dependency" {
			t.Errorf("a peer that is slow from %d on: %s", from, v.Sentence)
		}
	}
}
