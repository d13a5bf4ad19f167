package blame

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// Stacks as go1.26 records them, shortened at the application's end.
func TestSitesAreKnownByTheirStacks(t *testing.T) {
	write := []string{"syscall.write", "internal/poll.(*FD).Write", "os.(*File).write", "os.(*File).Write"}
	lookup := []string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "net.dnsPacketRoundTrip", "net.(*Resolver).exchange", "net.(*Resolver).tryOneName", "net.(*Resolver).goLookupIPCNAMEOrder.func3.1"}
	handshake := []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "crypto/tls.(*Conn).readHandshake"}
	on := func(inner []string, outer ...string) []string { return append(inner[:len(inner):len(inner)], outer...) }
	for _, c := range []struct {
		name  string
		stack []string
		want  Site
	}{
		{"a bare write", on(write, "main.note", "main.serve"), Site{Kind: SiteWriteFD, Func: "main.note"}},
		{"package log", on(write, "log.(*Logger).output", "log.Printf", "main.serve"), Site{Kind: SiteWriteFD, Log: true, Func: "main.serve"}},
		{"log/slog", on(write, "log/slog.(*commonHandler).handle", "log/slog.Info", "main.serve"), Site{Kind: SiteWriteFD, Log: true, Func: "main.serve"}},
		{"zap", on(write, "go.uber.org/zap/zapcore.(*ioCore).Write", "go.uber.org/zap.(*Logger).Info", "main.serve"), Site{Kind: SiteWriteFD, Log: true, Func: "main.serve"}},
		{"zerolog", on(write, "github.com/rs/zerolog.(*Event).Msg", "main.serve"), Site{Kind: SiteWriteFD, Log: true, Func: "main.serve"}},
		{"logrus", on(write, "github.com/sirupsen/logrus.(*Entry).Info", "main.serve"), Site{Kind: SiteWriteFD, Log: true, Func: "main.serve"}},
		{"an own writer below a logger", on(write, "main.(*rotating).Write", "log.(*Logger).output", "main.serve"), Site{Kind: SiteWriteFD, Log: true, Func: "main.(*rotating).Write"}},
		{"below a logger's middleware", on(write, "main.save", "github.com/rs/zerolog/hlog.NewHandler.func1", "main.serve"), Site{Kind: SiteWriteFD, Func: "main.save"}},
		{"a logger's caller is no logger", on(write, "main.save", "log.wrap", "main.serve"), Site{Kind: SiteWriteFD, Func: "main.save"}},
		{"the logger's lock", []string{"sync.(*Mutex).Lock", "log.(*Logger).output", "main.serve"}, Site{Kind: SiteMutex, Log: true, Func: "main.serve"}},
		{"a lock of a descriptor", []string{"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).Write", "os.(*File).Write", "main.serve"}, Site{Kind: SiteMutex, Func: "main.serve"}},
		{"a lock of a descriptor below a logger", []string{"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).Write", "os.(*File).Write", "github.com/rs/zerolog.(*Event).Msg", "main.serve"}, Site{Kind: SiteMutex, Log: true, Func: "main.serve"}},
		{"a lock of a socket", []string{"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "main.serve"}, Site{Kind: SiteSocket, Func: "main.serve"}},
		{"a write at an offset", []string{"syscall.pwrite", "os.(*File).WriteAt", "main.serve"}, Site{Kind: SiteFile, Func: "main.serve"}},
		{"fsync", []string{"syscall.Fsync", "internal/poll.(*FD).Fsync", "os.(*File).Sync", "main.serve"}, Site{Kind: SiteSync, Func: "main.serve"}},
		{"a child process", []string{"syscall.wait4", "os.(*Process).blockUntilWaitable", "os.(*Process).Wait", "main.serve"}, Site{Kind: SiteOther, Func: "main.serve"}},
		{"C", []string{"main._Cfunc_pack", "main.encode", "main.serve"}, Site{C: "pack", Func: "main.encode"}},
		{"C with errno", []string{"main._C2func_pack", "main.encode"}, Site{C: "pack", Func: "main.encode"}},
		{"Go's resolver", lookup, Site{Kind: SiteDNS, Dial: true, Func: "internal/poll.(*FD).Read"}},
		{"C's resolver", []string{"net._C2func_getaddrinfo", "net.cgoLookupIP.func1"}, Site{Kind: SiteDNS, Dial: true, C: "getaddrinfo", Func: "net._C2func_getaddrinfo"}},
		{"waiting for a resolver", []string{"runtime.selectgo", "net.(*Resolver).lookupIPAddr", "net.(*Dialer).DialContext", "main.call"}, Site{Kind: SiteDNS, Dial: true, Func: "main.call"}},
		{"a client's handshake", on(handshake, "crypto/tls.(*Conn).clientHandshake", "crypto/tls.(*Conn).HandshakeContext", "net/http.(*persistConn).addTLS.func2"), Site{Kind: SiteDial, Dial: true, Func: "internal/poll.(*FD).Read"}},
		{"a server's handshake", on(handshake, "crypto/tls.(*Conn).serverHandshake", "crypto/tls.(*Conn).HandshakeContext", "net/http.(*conn).serve"), Site{Kind: SiteInbound, Func: "internal/poll.(*FD).Read"}},
		{"a new session with redis", []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "github.com/redis/go-redis/v9/internal/proto.(*Reader).ReadReply", "github.com/redis/go-redis/v9.(*baseClient)._process", "github.com/redis/go-redis/v9.(*Conn).Hello", "github.com/redis/go-redis/v9.(*baseClient).initConn", "github.com/redis/go-redis/v9.(*baseClient)._getConn", "main.load"}, Site{Kind: SiteDial, Dial: true, Func: "main.load"}},
		{"a call to redis", []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "github.com/redis/go-redis/v9/internal/proto.(*Reader).ReadReply", "github.com/redis/go-redis/v9.(*baseClient)._process", "main.load"}, Site{Kind: SiteSocket, Func: "main.load"}},
		{"a new session with postgres", []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "github.com/lib/pq.(*conn).recv", "github.com/lib/pq.(*conn).startup", "github.com/lib/pq.(*Connector).open", "github.com/lib/pq.DialOpen", "database/sql.dsnConnector.Connect", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.load"}, Site{Kind: SiteDial, Dial: true, Func: "main.load"}},
		{"a new session of an unknown driver", []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "example.org/driver.(*conn).hello", "example.org/driver.(*connector).Connect", "database/sql.(*DB).openNewConnection", "database/sql.(*DB).connectionOpener"}, Site{Kind: SiteDial, Dial: true, Func: "example.org/driver.(*conn).hello"}},
		{"a connection of gRPC", []string{"runtime.selectgo", "google.golang.org/grpc.(*pickerWrapper).pick", "google.golang.org/grpc.(*ClientConn).getTransport", "google.golang.org/grpc.(*ClientConn).Invoke", "main.call"}, Site{Kind: SiteDial, Dial: true, Func: "main.call"}},
		{"a pool that counts with a semaphore", []string{"runtime.selectgo", "golang.org/x/sync/semaphore.(*Weighted).Acquire", "github.com/jackc/puddle/v2.(*Pool[...]).acquire", "github.com/jackc/puddle/v2.(*Pool[...]).Acquire", "main.take"}, Site{Kind: SitePool, Func: "main.take"}},
		{"a pause before a call is made again", []string{"runtime.selectgo", "github.com/hashicorp/go-retryablehttp.(*Client).Do", "main.ask"}, Site{Func: "main.ask", Retries: true}},
		{"a semaphore", []string{"runtime.selectgo", "golang.org/x/sync/semaphore.(*Weighted).Acquire", "main.take"}, Site{Kind: SitePermit, Func: "main.take"}},
		{"a stream of gRPC", []string{"runtime.selectgo", "google.golang.org/grpc/internal/transport.(*http2Client).NewStream", "google.golang.org/grpc.(*ClientConn).Invoke", "main.call"}, Site{Kind: SitePermit, Func: "main.call"}},
		{"a stream of HTTP/2", []string{"sync.runtime_notifyListWait", "sync.(*Cond).Wait", "golang.org/x/net/http2.(*ClientConn).awaitOpenSlotForStreamLocked", "golang.org/x/net/http2.(*clientStream).writeRequest", "golang.org/x/net/http2.(*clientStream).doRequest"}, Site{Kind: SitePermit, Func: "sync.(*Cond).Wait"}},
		{"a file for the client", []string{"internal/poll.SendFile", "net.sendFile", "net.(*TCPConn).ReadFrom", "net/http.(*response).ReadFrom", "main.serve"}, Site{Kind: SiteInbound, Func: "main.serve"}},
		{"what is copied to the client", []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "io.copyBuffer", "net/http.(*response).ReadFrom", "main.serve"}, Site{Kind: SiteSocket, Func: "main.serve"}},
		{"an answer of fasthttp", []string{"internal/poll.(*FD).Write", "net.(*conn).Write", "bufio.(*Writer).Flush", "github.com/valyala/fasthttp.(*Server).serveConn"}, Site{Kind: SiteInbound, Func: "internal/poll.(*FD).Write"}},
		{"a one-time initialisation", []string{"time.Sleep", "main.load", "main.(*tables).open.func1", "sync.(*Once).doSlow", "sync.(*Once).Do", "main.serve"}, Site{Once: true, Func: "main.load"}},
		{"waiting for one", []string{"sync.(*Mutex).Lock", "sync.(*Once).doSlow", "sync.(*Once).Do", "main.serve"}, Site{Kind: SiteOnce, Once: true, Func: "main.serve"}},
		{"a stream that its client has not taken", []string{"runtime.selectgo", "google.golang.org/grpc/internal/transport.(*writeQuota).get", "google.golang.org/grpc/internal/transport.(*http2Server).write", "google.golang.org/grpc.(*serverStream).SendMsg", "main.export"}, Site{Kind: SiteInbound, Window: true, Func: "main.export"}},
		{"a stream that its server has not taken", []string{"runtime.selectgo", "google.golang.org/grpc/internal/transport.(*writeQuota).get", "google.golang.org/grpc/internal/transport.(*http2Client).write", "google.golang.org/grpc.(*clientStream).SendMsg", "main.upload"}, Site{Kind: SiteCall, Window: true, Func: "main.upload"}},
	} {
		b := timelinetest.NewBuilder()
		got := newSite(1, b.Stacks.Frames(b.Stack(c.stack...)))
		got = Site{Kind: got.Kind, Func: got.Func, C: got.C, Dial: got.Dial, Log: got.Log, Once: got.Once, Window: got.Window, Retries: got.Retries}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Who waits for another goroutine at two places of one function waits for two things.
func TestWaitsAreToldApartWithinAFunction(t *testing.T) {
	at := func(line int, functions ...string) string {
		var frames []gotrace.Frame
		for _, f := range functions {
			frames = append(frames, gotrace.Frame{Func: f})
		}
		frames = append(frames, gotrace.Frame{Func: "main.serve", File: "serve.go", Line: line}, gotrace.Frame{Func: "net/http.(*conn).serve", Line: line})
		return waiting(frames)
	}
	receive, send, choose := []string{"runtime.chanrecv1"}, []string{"runtime.chansend1"}, []string{"runtime.selectgo"}
	lock := []string{"sync.runtime_SemacquireMutex", "internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).Lock", "sync.(*Mutex).Lock"}
	kinds := [][]string{receive, send, choose, lock, {"time.Sleep"}, {"sync.runtime_notifyListWait", "sync.(*Cond).Wait"}, {"sync.runtime_SemacquireRWMutexR", "sync.(*RWMutex).RLock"}}
	old := []string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock"} // go1.23
	seen := map[string]bool{}
	for _, k := range kinds {
		for _, line := range []int{7, 9} {
			if s := at(line, k...); s == "" || seen[s] {
				t.Errorf("%q in line %d is %q, as another one", k, line, s)
			} else {
				seen[s] = true
			}
		}
	}
	if a, b := at(7, old...), at(7, lock...); a != b {
		t.Errorf("a lock is %q, in go1.23 %q", b, a)
	}
	if a, b := at(7, "runtime.chanrecv1"), at(7, "runtime.chanrecv2"); a != b {
		t.Errorf("a receive is %q, one that asks whether there was something %q", a, b)
	}
	for _, other := range [][]string{
		nil, {"runtime.mallocgc"}, {"syscall.Syscall", "syscall.read"}, {"sync.(*Mutex).Unlock"},
		{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read"}, // peers are told apart by what is called
	} {
		if a, b := at(7, other...), at(9, other...); a != b {
			t.Errorf("%q is at two places: %q, %q", other, a, b)
		}
	}
	if a, b := at(7, "runtime.selectgo", "net/http.(*persistConn).roundTrip"), at(9, "runtime.selectgo", "net/http.(*persistConn).roundTrip"); a == b {
		t.Errorf("waits in a library are at one place, whoever called it: %q", a)
	}
}
