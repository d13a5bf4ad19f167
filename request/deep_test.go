package request

import (
	"slices"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// A chain of middleware may be deeper than the stacks that the runtime records: then the
// server's loop is not on them, and the connection is still one.
func TestRequestsOfAHandlerTooDeepForItsStack(t *testing.T) {
	const (
		fast             = "github.com/valyala/fasthttp."
		listener, worker = gotrace.GoID(1), gotrace.GoID(2)
		n, ms            = 20, int64(1e6)
	)
	loop := []string{fast + "(*Server).serveConnCounted", fast + "(*Server).serveConn", fast + "(*workerPool).workerFunc", fast + "(*workerPool).getCh.func1"}
	home := append([]string{"internal/poll.(*FD).Read", "net.(*conn).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek"}, loop...)
	write := append([]string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "bufio.(*Writer).Flush"}, loop...)
	deep := append([]string{"time.Sleep"}, slices.Repeat([]string{"main.wrapped"}, 127)...)
	idle := append([]string{"runtime.chanrecv1"}, loop[2:]...)

	for _, c := range []struct {
		name    string
		handler []string
		want    int
	}{{"deep", deep, n}, {"the worker waits for another connection", idle, 0}} {
		b := newScript(t)
		do := b.do
		at := int64(0)
		pass := func() { at += ms; do(b.At(at)) }
		do(b.Busy(0))
		do(b.Runs(listener, 0, 0))
		do(b.Starts(listener, gotrace.NoProc, worker, b.Stack("main.accept"), b.Stack(loop[len(loop)-1])))
		do(b.Waits(listener, "network", b.Stack("net.(*TCPListener).Accept", "main.accept")))
		do(b.Runs(worker, 0, 0))
		do(b.Waits(worker, "network", b.Stack(home...)))
		do(b.Idle(0, gotrace.NoProc))
		for range n {
			pass()
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
			do(b.Runs(worker, 0, 0))
			do(b.Waits(worker, "sleep", b.Stack(c.handler...)))
			do(b.Idle(0, gotrace.NoProc))
			pass()
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
			do(b.Runs(worker, 0, 0))
			do(b.Calls(worker, b.Stack(write...)))
			do(b.Returns(worker))
			do(b.Waits(worker, "network", b.Stack(home...)))
			do(b.Idle(0, gotrace.NoProc))
		}
		pass()
		tl, err := timeline.Read(b.Source(), timeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f := Find(tl, Options{}); len(f.Requests) != c.want {
			t.Errorf("%s: %d requests, want %d", c.name, len(f.Requests), c.want)
		}
	}
}
