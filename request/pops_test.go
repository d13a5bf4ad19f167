package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// A worker takes messages from a list of Redis, computes, and puts the results in another one.
func TestMessagesFromAListOfRedisAreRequests(t *testing.T) {
	const ms, rounds, worker = int64(1e6), 60, gotrace.GoID(1)
	b := newScript(t)
	do, pass := b.do, b.pass
	stack := func(op, call string) gotrace.StackID {
		return b.Stack("internal/poll.(*FD)."+op, "net.(*netFD)."+op, "net.(*conn)."+op, "github.com/redis/go-redis/v9.(*baseClient)._process", "github.com/redis/go-redis/v9.cmdable."+call, "main.worker")
	}
	calls := func(call string, waits int64) {
		do(b.Calls(worker, stack("Write", call)))
		pass(ms / 100)
		do(b.Returns(worker))
		for range 2 { // the answer comes in two parts
			do(b.Waits(worker, "network", stack("Read", call)))
			pass(waits / 2)
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
			do(b.Runs(worker, 0, 0))
			do(b.Calls(worker, stack("Read", call)))
			do(b.Returns(worker))
		}
	}
	do(b.Busy(0))
	do(b.Runs(worker, 0, stack("Read", "BLPop")))
	do(b.Waits(worker, "network", stack("Read", "BLPop")))
	pass(ms)
	do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
	do(b.Runs(worker, 0, 0))
	for range rounds {
		calls("BLPop", 20*ms)
		pass(3 * ms)
		calls("RPush", ms)
	}
	calls("BLPop", 20*ms)
	do(b.Waits(worker, "chan receive", b.Stack("runtime.chanrecv1", "main.worker"))) // this one it does not finish
	pass(200 * ms)
	b.Sample(gotrace.NoGoroutine, 0)
	tl := b.read()
	f := Find(tl, Options{})
	if len(f.Roles) != 1 || f.Roles[0].Name != "github.com/redis/go-redis/v9.cmdable.BLPop" || f.Roles[0].Count < rounds || !f.Roles[0].Known() {
		t.Fatalf("found %+v", f.Roles)
	}
	last := f.Requests[len(f.Requests)-1]
	if !last.InFlight || last.Duration() < timeline.Time(200*ms) {
		t.Errorf("the one that hangs is in flight: %t, and takes %d ns", last.InFlight, last.Duration())
	}
	for _, r := range f.Requests[1 : len(f.Requests)-1] {
		if d := r.Duration(); d < timeline.Time(4*ms) || d > timeline.Time(4*ms+ms/10) {
			t.Fatalf("one takes %d ns", d)
		}
	}
}

// A worker that never comes back from its first message hangs.
func TestTheFirstMessageMayHang(t *testing.T) {
	const ms, worker = int64(1e6), gotrace.GoID(1)
	b := newScript(t)
	do, pass := b.do, b.pass
	pop := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "github.com/redis/go-redis/v9.(*baseClient)._process", "github.com/redis/go-redis/v9.cmdable.BLPop", "main.worker")
	do(b.Busy(0))
	do(b.Runs(worker, 0, pop))
	do(b.Waits(worker, "network", pop))
	pass(20 * ms)
	do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
	do(b.Runs(worker, 0, 0))
	do(b.Waits(worker, "chan receive", b.Stack("runtime.chanrecv1", "main.worker")))
	pass(500 * ms)
	b.Sample(gotrace.NoGoroutine, 0)
	f := Find(b.read(), Options{})
	if len(f.Requests) != 1 || !f.Requests[0].InFlight || f.Requests[0].Duration() < timeline.Time(500*ms) {
		t.Errorf("found %+v", f.Requests)
	}
}

// Who only takes messages from a queue for others, who answer, has no requests of its own.
func TestWhoFetchesMessagesForWorkersHasNoRequests(t *testing.T) {
	const rounds, worker = 100, 2
	b := newDeskScript(t)
	pop := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "github.com/redis/go-redis/v9.(*baseClient)._process", "github.com/redis/go-redis/v9.cmdable.BLPop", "main.fetch")
	ask := b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "github.com/redis/go-redis/v9.(*baseClient)._process", "github.com/redis/go-redis/v9.cmdable.BLPop", "main.fetch")
	put := b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "github.com/redis/go-redis/v9.(*baseClient)._process", "github.com/redis/go-redis/v9.cmdable.RPush", "main.handle", "main.work")
	got := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "github.com/redis/go-redis/v9.(*baseClient)._process", "github.com/redis/go-redis/v9.cmdable.RPush", "main.handle", "main.work")
	const fetcher = 1
	b.starts(fetcher, "network", pop)
	b.starts(worker, "chan receive", b.home)
	for range rounds {
		b.pass(10e6)
		b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, fetcher, 0))
		b.do(b.Runs(fetcher, 0, 0))
		b.calls(fetcher, pop)
		b.pass(3e5)
		b.do(b.Wakes(fetcher, 0, worker, b.send))
		b.calls(fetcher, ask)
		b.do(b.Waits(fetcher, "network", pop))
		b.do(b.Runs(worker, 0, 0))
		b.pass(2e6)
		b.calls(worker, put)
		b.do(b.Waits(worker, "network", got))
		b.pass(1e6)
		b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
		b.do(b.Runs(worker, 0, 0))
		b.calls(worker, got)
		b.do(b.Waits(worker, "chan receive", b.home))
	}
	b.Sample(gotrace.NoGoroutine, 0)
	f := Find(b.script.read(), Options{})
	if len(f.Roles) != 1 {
		t.Errorf("roles %+v", f.Roles)
	}
	alike(t, f, rounds, 3e6, 35e5)
}
