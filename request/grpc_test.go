package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
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
		do(b.Ends(call0 + i))
	}
	b.Sample(gotrace.NoGoroutine, 0)
	tl := b.read()
	f := Find(tl, Options{})
	got := map[string]int{}
	for _, r := range f.Roles {
		got[r.Name] = r.Count
	}
	if got["grpc-go unary"] != calls || got["grpc-go streaming"] != calls {
		t.Errorf("found %v", got)
	}
}
