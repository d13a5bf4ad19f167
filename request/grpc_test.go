package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// From v1.85 on grpc-go processes unary calls and streams in one function.
func TestCallsAndStreamsOfOneFunctionOfGRPC(t *testing.T) {
	const ms, calls, reader, stream, call0 = int64(1e6), 20, gotrace.GoID(1), gotrace.GoID(2), gotrace.GoID(10)
	b := newScript(t)
	do, pass := b.do, b.pass
	process := []string{"google.golang.org/grpc.(*Server).processRPC", "google.golang.org/grpc.(*Server).handleStream", "google.golang.org/grpc.(*Server).serveStreams.func2.1"}
	message := []string{"runtime.selectgo", "google.golang.org/grpc/internal/transport.(*recvBufferReader).readMessageHeader", "google.golang.org/grpc.(*parser).recvMsg", "google.golang.org/grpc.(*serverStream).RecvMsg"}
	stack := func(parts ...[]string) gotrace.StackID {
		var all []string
		for _, p := range parts {
			all = append(all, p...)
		}
		return b.Stack(all...)
	}
	next := stack(message, []string{"main.server.Chat"}, process)
	unary := []string{"main.server.Get", "google.golang.org/grpc.(*Server).register.(*Server).wrapUnaryHandler.func1"}
	reply := []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "main.(*session).ask", "main.server.Get"} // no client that is known
	frames := stack([]string{"internal/poll.(*FD).Read", "net.(*conn).Read", "google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams", "google.golang.org/grpc.(*Server).handleRawConn.func1"})
	do(b.Busy(0))
	do(b.Runs(reader, 0, frames))
	do(b.Waits(reader, "network", frames))
	do(b.Runs(stream, 0, next))
	do(b.Waits(stream, "select", next))
	for i := range gotrace.GoID(calls) {
		pass(ms)
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
		do(b.Runs(reader, 0, 0))
		do(b.Wakes(reader, 0, stream, b.Stack("google.golang.org/grpc/internal/transport.(*http2Server).handleData")))
		do(b.Starts(reader, 0, call0+i, frames, b.Stack(process[2])))
		do(b.Waits(reader, "network", frames))
		do(b.Runs(stream, 0, 0))
		pass(ms)
		do(b.Waits(stream, "select", next))
		do(b.Runs(call0+i, 0, 0))
		body := stack(message, unary, process) // the message is not all there
		do(b.Waits(call0+i, "select", body))
		pass(ms)
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, call0+i, 0))
		do(b.Runs(call0+i, 0, 0))
		pass(ms)
		do(b.Waits(call0+i, "network", stack(reply, unary, process)))
		pass(ms)
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, call0+i, 0))
		do(b.Runs(call0+i, 0, 0))
		do(b.Ends(call0 + i))
	}
	b.Sample(gotrace.NoGoroutine, 0)
	tl := b.read()
	f := Find(tl, Options{})
	got := map[string]int{}
	for _, r := range f.Roles {
		got[r.Name] = r.Count
	}
	for g := range tl.Gs {
		for _, s := range tl.Gs[g].Waits() {
			if s.Reason == timeline.ReasonNetwork && tl.Gs[g].Root() == process[2] && f.Home(timeline.GID(g), s) {
				t.Fatal("a call rests where it waits for a peer's answer")
			}
		}
	}
	if got["grpc-go unary"] != calls || got["grpc-go streaming"] != calls {
		t.Errorf("found %v", got)
	}
}

// A stream's handler hands its messages to workers, who call a peer and send the answers: those of messages for
// which no worker was woken waited in a queue.
func TestMessagesOfAStreamThatWorkersAnswer(t *testing.T) {
	const us, ms, rounds = int64(1e3), int64(1e6), 60
	const reader, stream, worker, writer = gotrace.GoID(1), gotrace.GoID(2), gotrace.GoID(3), gotrace.GoID(4)
	b := newScript(t)
	do, pass := b.do, b.pass
	next := b.Stack("runtime.selectgo", "google.golang.org/grpc/internal/transport.(*recvBufferReader).readMessageHeader", "google.golang.org/grpc.(*parser).recvMsg", "google.golang.org/grpc.(*serverStream).RecvMsg",
		"main.server.Chat", "google.golang.org/grpc.(*Server).processRPC", "google.golang.org/grpc.(*Server).handleStream", "google.golang.org/grpc.(*Server).serveStreams.func2.1")
	frames := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams", "google.golang.org/grpc.(*Server).handleRawConn.func1")
	arrives := b.Stack("google.golang.org/grpc/internal/transport.(*http2Server).handleData")
	hands := b.Stack("runtime.chansend1", "main.server.Chat")
	home := b.Stack("runtime.chanrecv1", "main.work")
	ask := b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "main.ask", "main.work")
	get := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.work")
	idle := b.Stack("runtime.selectgo", "google.golang.org/grpc/internal/transport.(*controlBuffer).get", "google.golang.org/grpc/internal/transport.(*loopyWriter).run", "google.golang.org/grpc/internal/transport.newHTTP2Server.func2")
	write := b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "google.golang.org/grpc/internal/transport.(*loopyWriter).run", "google.golang.org/grpc/internal/transport.newHTTP2Server.func2")
	sends := b.Stack("google.golang.org/grpc/internal/transport.(*controlBuffer).put", "google.golang.org/grpc.(*serverStream).SendMsg", "main.work")
	calls := func(g gotrace.GoID, at gotrace.StackID) {
		do(b.Calls(g, at))
		pass(us)
		do(b.Returns(g))
	}
	starts := func(g gotrace.GoID, why string, at gotrace.StackID) {
		do(b.Runs(g, 0, at))
		do(b.Waits(g, why, at))
	}
	message := func(first bool) {
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
		do(b.Runs(reader, 0, 0))
		do(b.Wakes(reader, 0, stream, arrives))
		do(b.Waits(reader, "network", frames))
		do(b.Runs(stream, 0, 0))
		pass(us)
		if first {
			do(b.Wakes(stream, 0, worker, hands))
		}
		do(b.Waits(stream, "select", next))
	}
	do(b.Busy(0))
	starts(reader, "network", frames)
	starts(stream, "select", next)
	starts(worker, "chan receive", home)
	starts(writer, "select", idle)
	for range rounds { // two messages, of which the second waits
		pass(10 * ms)
		message(true)
		do(b.Runs(worker, 0, 0))
		calls(worker, ask)
		do(b.Waits(worker, "network", get))
		message(false)
		answers := func() {
			pass(5 * ms)
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
			do(b.Runs(worker, 0, 0))
			calls(worker, get)
			do(b.Wakes(worker, 0, writer, sends))
		}
		sent := func() {
			do(b.Runs(writer, 0, 0))
			calls(writer, write)
			do(b.Waits(writer, "select", idle))
		}
		answers()
		calls(worker, ask)
		do(b.Waits(worker, "network", get))
		sent()
		answers()
		do(b.Waits(worker, "chan receive", home))
		sent()
	}
	b.Sample(gotrace.NoGoroutine, 0)
	f := Find(b.read(), Options{})
	if n := len(f.Requests); len(f.Roles) != 1 || f.Roles[0].Name != "grpc-go streaming" || n < 2*rounds-2 || n > 2*rounds {
		t.Fatalf("found %d of %d: %+v", n, 2*rounds, f.Roles)
	}
	waited := 0
	for i := range f.Requests {
		switch d := int64(f.Requests[i].Duration()); {
		case d > 10*ms && d < 11*ms:
			waited++
		case d < 5*ms || d > 6*ms:
			t.Fatalf("%d takes %d ns", i, d)
		}
	}
	if waited < rounds-1 {
		t.Errorf("%d waited for the worker, %d did", waited, rounds)
	}
}

// A stream that is answered in several parts and ends is one request, a stream on which a handler waits for news is none, and of
// a handler most of whose streams answer that holds for all, also for those that have not ended.
func TestStreamsThatAreAnsweredAndEnd(t *testing.T) {
	const ms, n, reader, stream0 = int64(1e6), 20, gotrace.GoID(1), gotrace.GoID(10)
	lock, news := []string{"sync.(*Mutex).Lock", "main.record"}, []string{"runtime.selectgo"}
	recv := []string{"runtime.selectgo", "google.golang.org/grpc/internal/transport.(*recvBufferReader).readMessageHeader", "google.golang.org/grpc.(*parser).recvMsg", "google.golang.org/grpc.(*serverStream).RecvMsg"}
	all := func(at []string) func(int) []string { return func(int) []string { return at } }
	oneOf := func(k int, one, others []string) func(int) []string {
		return func(i int) []string {
			if i%k == 0 {
				return one
			}
			return others
		}
	}
	for _, x := range []struct {
		name  string
		waits func(i int) []string // for most of its time
		eof   bool                 // it then waits for the end of what it is asked
		open  int                  // how many of the last ones do not end
		want  int                  // requests
	}{
		{"exports", all(lock), false, 0, n},
		{"exports that wait for an answer by HTTP", all([]string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "net/http.(*Client).Do", "main.ask"}), false, 0, n},
		{"exports that wait for a connection", all([]string{"runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.load"}), false, 0, n},
		{"exports that wait for their client", all([]string{"runtime.selectgo", "google.golang.org/grpc/internal/transport.(*writeQuota).get", "google.golang.org/grpc.(*serverStream).SendMsg"}), false, 0, n},
		{"exports of which some wait for news", oneOf(4, news, lock), false, 0, n},
		{"exports of which some hang", all(lock), false, 5, n},
		{"exports whose clients stay", all(lock), true, 0, n},
		{"watches", oneOf(4, lock, news), false, 0, 0},
		{"watches that go on", all(news), false, 5, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newScript(t)
			do, pass := b.do, b.pass
			root := "google.golang.org/grpc.(*Server).serveStreams.func2.1"
			process := []string{"main.server.Export", "google.golang.org/grpc.(*Server).processStreamingRPC", "google.golang.org/grpc.(*Server).handleStream", root}
			at := func(parts ...string) gotrace.StackID { return b.Stack(append(parts, process...)...) }
			frames := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams", "google.golang.org/grpc.(*Server).handleRawConn.func1")
			const writer = gotrace.GoID(2)
			idle := b.Stack("runtime.selectgo", "google.golang.org/grpc/internal/transport.(*controlBuffer).get", "google.golang.org/grpc/internal/transport.(*loopyWriter).run", "google.golang.org/grpc/internal/transport.newHTTP2Server.func2")
			write := b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "google.golang.org/grpc/internal/transport.(*loopyWriter).run", "google.golang.org/grpc/internal/transport.newHTTP2Server.func2")
			do(b.Busy(0))
			do(b.Runs(reader, 0, frames))
			do(b.Waits(reader, "network", frames))
			do(b.Runs(writer, 0, idle))
			do(b.Waits(writer, "select", idle))
			wakes := func(g gotrace.GoID) {
				do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
				do(b.Runs(g, 0, 0))
			}
			for i := range n {
				g := stream0 + gotrace.GoID(i)
				pass(ms)
				wakes(reader)
				do(b.Starts(reader, 0, g, frames, b.Stack(root)))
				do(b.Waits(reader, "network", frames))
				do(b.Runs(g, 0, 0))
				pass(ms)
				stack, reason := at(x.waits(i)...), "select"
				if x.waits(i)[0] == lock[0] {
					reason = "sync"
				}
				do(b.Waits(g, reason, stack))
				if pass(3 * ms); i >= n-x.open {
					continue
				}
				wakes(g)
				do(b.Wakes(g, 0, writer, at("google.golang.org/grpc.(*serverStream).SendMsg")))
				if x.eof {
					do(b.Waits(g, "select", at(recv...)))
				} else {
					do(b.Ends(g))
				}
				do(b.Runs(writer, 0, 0))
				do(b.Calls(writer, write))
				pass(1e3)
				do(b.Returns(writer))
				do(b.Waits(writer, "select", idle))
				if x.eof {
					pass(10 * ms)
					do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
					do(b.Runs(g, 0, 0))
					do(b.Ends(g))
				}
			}
			b.Sample(gotrace.NoGoroutine, 0)
			f := Find(b.read(), Options{})
			left, open := 0, 0
			for _, c := range f.Excluded {
				left += c.Count
			}
			for _, r := range f.Requests {
				if r.InFlight {
					open++
					continue
				}
				if d := int64(r.Duration()); f.Roles[r.Role].Name != "grpc-go streaming" || d < 4*ms || d > 5*ms {
					t.Errorf("%s takes %d ns", f.Roles[r.Role].Name, d)
				}
			}
			if len(f.Requests) != x.want || left != n-x.want || x.want > 0 && open != x.open {
				t.Errorf("%d requests, %d open, left out %+v", len(f.Requests), open, f.Excluded)
			}
		})
	}
}

// What a call has to answer is written by the goroutine that writes for its connection, whether or not the call had to wake it:
// not by another one that the call woke before, and that wrote, too.
func TestTheWriterOfAConnectionEndsItsCalls(t *testing.T) {
	const us, ms = int64(1e3), int64(1e6)
	const reader, writer, other, call0 = gotrace.GoID(1), gotrace.GoID(2), gotrace.GoID(3), gotrace.GoID(10)
	process := "google.golang.org/grpc.(*Server).serveStreams.func2.1"
	for _, c := range []struct {
		name        string
		tells, busy bool // another writer before it waits; the connection's does not wait when it answers
		want        int64
	}{
		{"it wakes the writer", false, false, 5*ms + 30*us},
		{"it wakes another one before", true, false, 5*ms + 50*us},
		{"the writer is busy", false, true, 5*ms + 130*us},
		{"the writer is busy, and it wakes another one before", true, true, 5*ms + 150*us},
	} {
		b := newScript(t)
		do, pass := b.do, b.pass
		frames := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams", "google.golang.org/grpc.(*Server).handleRawConn.func1")
		run := []string{"google.golang.org/grpc/internal/transport.(*loopyWriter).run", "google.golang.org/grpc/internal/transport.NewServerTransport.func2"}
		idle := b.Stack(append([]string{"runtime.selectgo", "google.golang.org/grpc/internal/transport.(*controlBuffer).get"}, run...)...)
		write := b.Stack(append([]string{"internal/poll.(*FD).Write", "net.(*conn).Write"}, run...)...)
		puts := b.Stack("google.golang.org/grpc/internal/transport.(*controlBuffer).put", "google.golang.org/grpc.(*Server).sendResponse", process)
		naps := b.Stack("time.Sleep", "main.server.Get", "google.golang.org/grpc.(*Server).processUnaryRPC", process)
		tells := b.Stack("main.(*bus).publish", "main.server.Get", "google.golang.org/grpc.(*Server).processUnaryRPC", process)
		flushes := b.Stack("runtime.chanrecv1", "main.(*bus).flush")
		sends := b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "main.(*bus).flush")
		writes := func(g gotrace.GoID, at gotrace.StackID) {
			do(b.Calls(g, at))
			pass(10 * us)
			do(b.Returns(g))
		}
		starts := func(g gotrace.GoID, why string, at gotrace.StackID) {
			do(b.Runs(g, 0, at))
			do(b.Waits(g, why, at))
		}
		do(b.Busy(0))
		starts(reader, "network", frames)
		starts(writer, "select", idle)
		starts(other, "chan receive", flushes)
		const calls = 20
		for i := range gotrace.GoID(calls + 1) {
			g := call0 + i
			pass(10 * ms)
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
			do(b.Runs(reader, 0, 0))
			do(b.Starts(reader, 0, g, frames, b.Stack(process)))
			do(b.Waits(reader, "network", frames))
			do(b.Runs(g, 0, 0))
			pass(10 * us)
			if c.tells {
				do(b.Wakes(g, 0, other, tells))
			}
			do(b.Waits(g, "sleep", naps))
			if c.tells {
				do(b.Runs(other, 0, 0))
				writes(other, sends)
				pass(10 * us)
				do(b.Waits(other, "chan receive", flushes))
			}
			pass(5 * ms)
			busy := c.busy && i > 0 // whom the first one wakes is known to write
			if busy {
				do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, writer, 0))
			}
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
			do(b.Runs(g, 0, 0))
			pass(10 * us)
			if !busy {
				do(b.Wakes(g, 0, writer, puts))
			}
			do(b.Ends(g))
			if busy {
				pass(100 * us)
			}
			do(b.Runs(writer, 0, 0))
			writes(writer, write)
			do(b.Waits(writer, "select", idle))
		}
		b.Sample(gotrace.NoGoroutine, 0)
		f := Find(b.read(), Options{})
		if len(f.Requests) != calls+1 || f.Roles[0].Name != "grpc-go unary" {
			t.Fatalf("%s: %d requests of %+v", c.name, len(f.Requests), f.Roles)
		}
		for _, r := range f.Requests[1:] {
			if d := int64(r.Duration()); d < c.want-us || d > c.want+us {
				t.Errorf("%s: one takes %d ns, want %d", c.name, d, c.want)
				break
			}
		}
	}
}
