package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// Of HTTP/3 the requests are what the goroutines do that quic-go starts for them, not the packets that come in, nor what else
// it starts for a connection.
func TestRequestsOfHTTP3(t *testing.T) {
	const ms, n, listener, conn, others, call0 = int64(1e6), 60, gotrace.GoID(1), gotrace.GoID(2), gotrace.GoID(3), gotrace.GoID(10)
	b := newScript(t)
	packets := b.Stack("internal/poll.runtime_pollWait", "internal/poll.(*FD).ReadMsgInet4", "net.(*UDPConn).ReadMsgUDP", "github.com/quic-go/quic-go.(*oobConn).ReadPacket", "github.com/quic-go/quic-go.(*Transport).listen", "github.com/quic-go/quic-go.(*Transport).init.func1.1")
	streams := b.Stack("runtime.selectgo", "github.com/quic-go/quic-go.(*incomingStreamsMap[...]).AcceptStream", "github.com/quic-go/quic-go/http3.(*Server).handleConn", "net/http.Serve")
	other := b.Stack("runtime.selectgo", "github.com/quic-go/quic-go.(*incomingStreamsMap[...]).AcceptStream", "github.com/quic-go/quic-go/http3.(*Server).handleConn.func1")
	root := "github.com/quic-go/quic-go/http3.(*Server).handleConn.func3"
	sleeps := b.Stack("time.Sleep", "main.show", "net/http.HandlerFunc.ServeHTTP", "github.com/quic-go/quic-go/http3.(*rawConn).handleRequestStream", root)
	b.do(b.Busy(0))
	b.do(b.Waits(listener, "", packets))
	b.do(b.Runs(conn, 0, streams))
	b.do(b.Starts(conn, 0, others, streams, b.Stack("github.com/quic-go/quic-go/http3.(*Server).handleConn.func1")))
	b.do(b.Waits(conn, "select", streams))
	b.do(b.Runs(others, 0, 0))
	b.do(b.Waits(others, "select", other))
	for i := range gotrace.GoID(n) {
		b.pass(10 * ms)
		b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, listener, 0))
		b.do(b.Runs(listener, 0, 0))
		b.do(b.Wakes(listener, 0, conn, b.Stack("github.com/quic-go/quic-go.(*Conn).handlePacket")))
		b.do(b.Waits(listener, "network", packets))
		b.do(b.Runs(conn, 0, 0))
		b.do(b.Starts(conn, 0, call0+i, streams, b.Stack(root)))
		b.do(b.Waits(conn, "select", streams))
		b.do(b.Runs(call0+i, 0, 0))
		b.do(b.Waits(call0+i, "sleep", sleeps))
		b.pass(ms)
		b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, call0+i, 0))
		b.do(b.Runs(call0+i, 0, 0))
		b.do(b.Ends(call0 + i))
	}
	b.pass(ms)
	b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, others, 0)) // the connection ends
	b.do(b.Runs(others, 0, 0))
	b.do(b.Ends(others))
	b.pass(ms)
	f := Find(b.read(), Options{})
	if len(f.Roles) != 1 || f.Roles[0].Name != roleHTTP3 || f.Roles[0].Count != n || len(f.Requests) != n || f.Endpoints[f.Requests[0].Endpoint] != "main.show" {
		t.Errorf("%d requests of %+v, endpoints %v", len(f.Requests), f.Roles, f.Endpoints)
	}
	for _, r := range f.Requests {
		if d := int64(r.Duration()); d < ms || d > ms+ms/10 {
			t.Fatalf("one takes %d ns", d)
		}
	}
}
