package cause_test

import (
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// ms is a millisecond in the clock of a play.
const ms = int64(1e6)

// play writes a recording of a service: requests are tasks on goroutine 1, which
// comes from its home wait every period. What happens in a request is the
// scene's.
type play struct {
	tb  testing.TB
	b   *timelinetest.Builder
	now int64
	// seen are goroutines that had their first event.
	seen map[gotrace.GoID]bool
	// deadlines counts the goroutines that expired deadlines have started.
	deadlines gotrace.GoID
}

// serving is the goroutine that carries the requests.
const serving = gotrace.GoID(1)

// deadline0 is below the ids of goroutines that expired deadlines start.
const deadline0 = gotrace.GoID(1_000_000)

func (p *play) do(err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Fatalf("at %.3f ms: %v", float64(p.now)/1e6, err)
	}
}

// pass lets time pass.
func (p *play) pass(ns int64) {
	p.now += ns
	p.do(p.b.At(p.now))
}

// vary is a time or a quarter of it more or less, another one in each slow request of seven
// in a row.
func (p *play) vary(ns int64) int64 { return ns + (p.now/ms%7-3)*ns/12 }

func (p *play) stack(functions ...string) gotrace.StackID {
	if len(functions) == 0 {
		return 0
	}
	return p.b.Stack(functions...)
}

// waits blocks a running goroutine. One that was never seen waits from the start.
func (p *play) waits(g gotrace.GoID, reason string, functions ...string) {
	p.tb.Helper()
	if !p.seen[g] {
		p.seen[g], reason = true, ""
	}
	p.do(p.b.Waits(g, reason, p.stack(functions...)))
}

// leaves makes a goroutine that ran on a P wait, and the P idle.
func (p *play) leaves(g gotrace.GoID, on gotrace.ProcID, reason string, functions ...string) {
	p.tb.Helper()
	p.waits(g, reason, functions...)
	p.do(p.b.Idle(on, gotrace.NoProc))
}

func (p *play) runs(g gotrace.GoID, on gotrace.ProcID) {
	p.tb.Helper()
	p.do(p.b.Runs(g, on, 0))
}

// wakes makes a goroutine runnable; by 0 is the poller.
func (p *play) wakes(by, whom gotrace.GoID, functions ...string) {
	p.tb.Helper()
	if by == 0 {
		p.do(p.b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, whom, 0))
		return
	}
	p.do(p.b.Wakes(by, gotrace.NoProc, whom, p.stack(functions...)))
}

// answered lets a goroutine that waits for the network run on a P.
func (p *play) answered(g gotrace.GoID, on gotrace.ProcID) {
	p.tb.Helper()
	p.wakes(0, g)
	p.runs(g, on)
}

// done ends the request of a goroutine on a P, which waits for the next one.
func (p *play) done(g gotrace.GoID, on gotrace.ProcID) {
	p.tb.Helper()
	p.do(p.b.Done(g))
	p.leaves(g, on, "network", home...)
}

// expires ends a wait by the deadline of its context, on P 1.
func (p *play) expires(whom gotrace.GoID) {
	p.tb.Helper()
	p.deadlines++
	by := deadline0 + p.deadlines
	p.do(p.b.Busy(1))
	p.do(p.b.Starts(gotrace.NoGoroutine, 1, by, 0, p.stack("time.goFunc")))
	p.runs(by, 1)
	p.wakes(by, whom, "context.(*cancelCtx).cancel", "context.(*timerCtx).cancel", "context.WithDeadlineCause.func1", "time.goFunc")
	p.do(p.b.Ends(by))
	p.do(p.b.Idle(1, gotrace.NoProc))
}

// computes lets a running goroutine run on. Every 10 ms it is sampled, if it is
// said where, and preempted, as the runtime does.
func (p *play) computes(g gotrace.GoID, on gotrace.ProcID, ns int64, functions ...string) {
	p.tb.Helper()
	for ; ns > 0; ns -= 10 * ms {
		p.pass(min(ns, 10*ms))
		if ns < 10*ms {
			return
		}
		if len(functions) > 0 {
			p.b.Sample(g, p.stack(functions...))
		}
		p.do(p.b.Yields(g, "preempted", p.stack(functions...)))
		p.runs(g, on)
	}
}

// home is where the serving goroutine waits for requests.
var home = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.serve"}

// scene is what a service does.
type scene struct {
	procs int
	// requests come every period; each takes a millisecond of its own beside what
	// happens in it.
	requests int
	period   int64
	// cast brings helpers to their home waits, before anything happens.
	cast func(p *play)
	// in is what happens in request i, while it runs on P 0.
	in func(p *play, i int)
	// plain: there are no tasks, and no time of their own; in brings the serving goroutine, which
	// reads requests for others, home itself.
	plain bool
	// task names request i; nil: all alike.
	task func(i int) string
	// last leaves the last request open for so long, waiting for nobody, or for a
	// lock if stuck says where.
	last  int64
	stuck []string
	// quiet is for how long nothing happens in the end.
	quiet int64
	// limit is how many requests are taken apart at most; 0: all.
	limit int
}

// attribute plays a scene and takes its requests apart.
func (s scene) attribute(tb testing.TB) *blame.Attribution {
	tb.Helper()
	p := &play{tb: tb, b: timelinetest.NewBuilder(), seen: map[gotrace.GoID]bool{}}
	p.b.Procs(s.procs)
	for i := range s.procs {
		p.do(p.b.Busy(gotrace.ProcID(i)))
	}
	p.waits(serving, "", home...)
	if s.cast != nil {
		s.cast(p)
	}
	for i := range s.procs {
		p.do(p.b.Idle(gotrace.ProcID(i), gotrace.NoProc))
	}
	for i := range s.requests {
		due := int64(i+1) * s.period
		if due > p.now {
			p.pass(due - p.now)
		}
		p.wakes(0, serving)
		p.runs(serving, 0)
		if s.plain {
			s.in(p, i)
			continue
		}
		name := "request"
		if s.task != nil {
			name = s.task(i)
		}
		p.do(p.b.Task(serving, name))
		p.pass(ms / 2)
		if s.in != nil {
			s.in(p, i)
		}
		p.pass(ms / 2)
		p.do(p.b.Done(serving))
		p.leaves(serving, 0, "network", home...)
	}
	if s.last > 0 {
		p.pass(s.period)
		p.wakes(0, serving)
		p.runs(serving, 0)
		p.do(p.b.Task(serving, "request"))
		if s.stuck != nil {
			p.leaves(serving, 0, "sync", s.stuck...)
		} else {
			p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.hang", "main.serve")
		}
		p.pass(s.last)
	} else {
		p.pass(s.period + s.quiet)
	}
	p.b.Sample(gotrace.NoGoroutine, 0)
	t, err := timeline.Read(p.b.Source(), timeline.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return blame.Attribute(t, request.Find(t, request.Options{}), blame.Options{MaxRequests: s.limit})
}

// onItsMachine adds to settings that the machine has as many CPUs as the scene has Ps, if they do not say.
func (s scene) onItsMachine(set cause.Settings) cause.Settings {
	if set.Target.NumCPU == 0 {
		set.Target.NumCPU = s.procs
	}
	return set
}

// every returns a scene's part for every nth request.
func every(n int, do func(p *play)) func(*play, int) {
	return func(p *play, i int) {
		if i%n == n-1 {
			do(p)
		}
	}
}
