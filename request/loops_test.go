package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// An event loop asks the kernel which of its sockets are ready. In each fifth round two are. It handles what it
// reads itself, and answers at once or in the next round, or another goroutine does.
func TestEventLoopsAnswerWhatTheyRead(t *testing.T) {
	const ms, rounds, loop, worker = int64(1e6), 60, gotrace.GoID(1), gotrace.GoID(2)
	for _, c := range []struct {
		name  string
		away  bool // another goroutine handles it
		later bool // the answer is written in the next round
		both  timeline.Time
	}{
		{name: "at once", both: 4e6},
		{name: "in the next round", later: true, both: 4e6},
		{name: "by another goroutine", away: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newScript(t)
			do, pass := b.do, b.pass
			polls := b.Stack("syscall.Syscall6", "golang.org/x/sys/unix.EpollWait", "lib.(*Poller).Polling", "lib.(*loop).run")
			read := b.Stack("syscall.Syscall", "golang.org/x/sys/unix.read", "golang.org/x/sys/unix.Read", "lib.(*loop).read", "lib.(*loop).run")
			write := b.Stack("syscall.Syscall", "golang.org/x/sys/unix.write", "golang.org/x/sys/unix.Write", "lib.(*loop).write", "lib.(*loop).run")
			idle := b.Stack("runtime.chanrecv1", "lib.(*pool).work")
			calls := func(what gotrace.StackID, ns int64) {
				do(b.Calls(loop, what))
				pass(ns)
				do(b.Returns(loop))
			}
			do(b.Busy(0))
			do(b.Runs(worker, 0, idle))
			do(b.Waits(worker, "chan receive", idle))
			do(b.Runs(loop, 0, polls))
			for i := range rounds {
				calls(polls, 10*ms)
				n := 1
				if i%5 == 4 && !c.away {
					n = 2
				}
				for range n {
					calls(read, ms/1000)
					if !c.away {
						pass(2 * ms)
					} else {
						do(b.Wakes(loop, 0, worker, b.Stack("runtime.chansend1", "lib.(*loop).run")))
						do(b.Yields(loop, "runtime.Gosched", polls))
						do(b.Runs(worker, 0, 0))
						pass(2 * ms)
						do(b.Waits(worker, "chan receive", idle))
						do(b.Runs(loop, 0, 0))
					}
					if !c.later {
						calls(write, ms/1000)
					}
				}
				if c.later {
					calls(polls, 0)
					for range n {
						calls(write, ms/1000)
					}
				}
			}
			b.Sample(gotrace.NoGoroutine, 0)
			f := Find(b.read(), Options{})
			check(t, f)
			if len(f.Roles) != 1 || f.Roles[0].Name != "lib.(*Poller).Polling" || f.Roles[0].Count < rounds {
				t.Fatalf("found %+v", f.Roles)
			}
			slow := 0
			for _, r := range f.Requests {
				switch d := r.Duration(); {
				case d >= 2e6 && d < 2e6+1e5:
				case d >= c.both && d < c.both+1e5 && c.both > 0:
					slow++
				default:
					t.Fatalf("one takes %d ns, in %v", d, r.Parts)
				}
			}
			if least := rounds / 5; c.both > 0 && slow < least {
				t.Errorf("%d waited for another one, want %d", slow, least)
			}
		})
	}
}
