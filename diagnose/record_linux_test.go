package diagnose

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/dependency/dependencytest"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/evidence"
)

// onceOnly forwards its first connection; later ones get no answer. It returns when the
// second one came, on the clock of the host's evidence.
func onceOnly(t *testing.T, addr string) (own string, second *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second = new(atomic.Int64)
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			if n > 0 {
				var now unix.Timespec
				_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it has no way to fail
				second.CompareAndSwap(0, now.Nano())
				continue
			}
			peer, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(peer, c); peer.Close() }() // until one of them closes
			go func() { _, _ = io.Copy(c, peer); c.Close() }()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), second
}

// What the host's evidence says last is the state at the trace's end.
func TestAHungDependencyDoesNotProlongTheHostsEvidence(t *testing.T) {
	s := dependencytest.Redis(t)
	hung, second := onceOnly(t, s.Addr)
	file := filepath.Join(t.TempDir(), "shop.whylate")
	if _, err := Record(t.Context(), openShop(t, "redis", s.Addr), file, RecordOptions{
		Capture: pprofhttp.Options{For: time.Second, NoProbe: true}, Dependencies: []dependency.Target{redisAt(t, hung)},
	}); err != nil {
		t.Fatal(err)
	}
	in, err := evidence.Open(file, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, err := dependencies(in)
	if err != nil || len(said) != 1 || said[0].Answered() || !strings.Contains(said[0].Missing[0].Why, "after the recording: no answer") {
		t.Fatalf("%+v, %v", said, err)
	}
	r, err := in.Member(evidence.MemberHost)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, err := host.Read(r)
	if err != nil || second.Load() == 0 {
		t.Fatalf("asked again at %d: %v", second.Load(), err)
	}
	if over := rec.Span().To - second.Load(); over > 0 {
		t.Errorf("the host was looked at for %s after the dependency had been asked again", time.Duration(over))
	}
}

func TestOfAProcessWithoutAnEndpointNoDependencyIsAsked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bare.whylate")
	if _, err := Record(t.Context(), strconv.Itoa(os.Getpid()), file, RecordOptions{
		Capture: pprofhttp.Options{For: 10 * time.Millisecond}, Dependencies: []dependency.Target{redisAt(t, "127.0.0.1:1"), redisAt(t, "127.0.0.1:2")},
	}); err != nil {
		t.Fatal(err)
	}
	d, err := Run(t.Context(), file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range d.NotRecorded {
		if strings.HasPrefix(x.What, "redis 127.0.0.1:") && strings.Contains(x.Why, "without a trace") && x.Command == AddEndpoint {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%+v", d.NotRecorded)
	}
}
