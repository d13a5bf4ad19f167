package pprofhttp

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/whylate/whylate/evidence"
)

// The tests record real Go processes: this one, or a child that can be killed.
// The execution tracer and the CPU profiler are one per process, so no test here
// runs in parallel with another.

const victim = "WHYLATE_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victim) == "" {
		os.Exit(m.Run())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	spin()
	fmt.Println(listener.Addr())
	http.Serve(listener, endpoint())
}

// spin keeps goroutines handing each other a token, so that the trace grows by
// megabytes per second; stop ends them.
func spin() (stop func()) {
	ping, pong, done := make(chan int), make(chan int), make(chan struct{})
	var group sync.WaitGroup
	relay := func(from, to chan int) {
		for {
			select {
			case n := <-from:
				select {
				case to <- n + 1:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}
	group.Go(func() { relay(ping, pong) })
	group.Go(func() { relay(pong, ping) })
	ping <- 0
	return func() { close(done); group.Wait() }
}

// busy keeps this process busy until the test ends, or rests: what is recorded then is long, and
// under the race detector to read it takes many times as long beside those who hand on the token.
func busy(t *testing.T) (rest func()) {
	t.Helper()
	rest = sync.OnceFunc(spin())
	t.Cleanup(rest)
	return rest
}

// endpoint is what importing net/http/pprof registers.
func endpoint() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// serve runs a server until the test ends, and then waits until its handlers
// have returned: until then the tracer of this process may be on.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// child is a target in a process of its own.
type child struct {
	url  string
	kill func()
}

func startChild(t *testing.T) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victim+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &child{url: "http://" + strings.TrimSpace(line), kill: kill}
}

// writer begins an incident; the function closes it and opens what was written.
func writer(t *testing.T) (*evidence.Writer, func() *evidence.Incident) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.whylate")
	w, err := evidence.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Abort() })
	return w, func() *evidence.Incident {
		t.Helper()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		in, err := evidence.Open(path, evidence.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close() })
		return in
	}
}
