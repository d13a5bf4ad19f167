package diagnose

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	rtrace "runtime/trace"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/capture/symbols"
)

// muxes are programs' own, with what they register of net/http/pprof.
var muxes = []struct {
	name string
	has  []string
}{
	{"index, profile and trace", []string{"", "profile", "trace"}},
	{"profile and trace", []string{"profile", "trace"}},
	{"all but the trace", []string{"", "profile"}},
	{"nothing", nil},
}

func serveSome(t *testing.T, has []string) *httptest.Server {
	t.Helper()
	all := map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "trace": pprof.Trace}
	mux := http.NewServeMux()
	for _, name := range has {
		if name == "" && len(has) == 2 { // Index serves a trace by no other name
			mux.HandleFunc("/debug/pprof/{$}", all[name])
			continue
		}
		mux.HandleFunc("/debug/pprof/"+name, all[name])
	}
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// The socket says whose the endpoint is, and the trace whether it is that process's.
func TestAnEndpointWithoutTheCommandLineIsFoundAndIdentified(t *testing.T) {
	for _, c := range muxes {
		t.Run(c.name, func(t *testing.T) {
			s := serveSome(t, c.has)
			want := ""
			if traces := strings.Contains(strings.Join(c.has, " "), "trace"); traces {
				want = s.URL
				client, err := pprofhttp.Connect(t.Context(), pprofhttp.Target{URL: s.URL}, pprofhttp.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if pid, err := localPID(t.Context(), client); pid != os.Getpid() || err != nil {
					t.Errorf("by the URL it is process %d, %v; want %d", pid, err, os.Getpid())
				}
			}
			if got, _, err := endpoint(t.Context(), os.Getpid()); got != want || err != nil {
				t.Errorf("by the process it is %q, %v; want %q", got, err, want)
			}
		})
	}
}

// A socket that two processes hold may be the other's from one connection to the next.
func TestAnEndpointWithoutTheCommandLineIsNotTakenFromASharedSocket(t *testing.T) {
	s := serveSome(t, []string{"", "profile", "trace"})
	f, err := s.Listener.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other := exec.Command("sleep", "60")
	other.ExtraFiles = []*os.File{f}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() }) // it is killed
	if err := unix.SetNonblock(int(f.Fd()), true); err != nil {      // to hand it over made accept block
		t.Fatal(err)
	}
	if got, _, err := endpoint(t.Context(), os.Getpid()); got != "" || err != nil {
		t.Errorf("by the process it is %q, %v", got, err)
	}
	client, err := pprofhttp.Connect(t.Context(), pprofhttp.Target{URL: s.URL}, pprofhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if pid, err := localPID(t.Context(), client); pid != 0 || !errors.Is(err, errNoCommandLine) {
		t.Errorf("by the URL it is process %d, %v", pid, err)
	}
}

// proxyProgram forwards to the address that it is given, and says where it listens.
const proxyProgram = `package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	_ "net/http/pprof"
	"net/url"
	"os"
)

func main() {
	u, err := url.Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	panic(http.Serve(l, httputil.NewSingleHostReverseProxy(u)))
}
`

func TestWhatAProxyForwardsIsNotItsOwn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "proxy.go")
	if err := os.WriteFile(file, []byte(proxyProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(dir, "proxy")
	build := exec.Command("go", "build", "-trimpath", "-o", built, file)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build` has compiled what it imports
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := serveSome(t, []string{"", "profile", "trace"})
	proxy := exec.Command(built, s.URL)
	stdout, err := proxy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Process.Kill(); _ = proxy.Wait() }) // it is killed
	var addr string
	if _, err := fmt.Fscan(stdout, &addr); err != nil {
		t.Fatal(err)
	}
	if got, _, err := endpoint(t.Context(), proxy.Process.Pid); got != "" || err != nil {
		t.Errorf("by the process it is %q, %v", got, err)
	}
	client, err := pprofhttp.Connect(t.Context(), pprofhttp.Target{URL: "http://" + addr}, pprofhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := localPID(t.Context(), client); !errors.Is(err, host.ErrOtherProcess) {
		t.Errorf("by the URL: %v", err)
	}
	// Threads may have the same ids in two pid namespaces. Then the functions tell.
	for _, c := range []struct {
		file string
		own  bool
	}{{"/proc/self/exe", true}, {built, false}} {
		b, err := symbols.Open(c.file)
		if err != nil {
			t.Fatal(err)
		}
		bias := uint64(0)
		if c.own {
			if bias, err = symbols.Bias(os.Getpid(), b); err != nil {
				t.Fatal(err)
			}
		}
		_, stacks, err := writer(ownTrace(t))
		if err != nil {
			t.Fatal(err)
		}
		n, of := inPlace(b, bias, stacks)
		t.Logf("%s: %d of %d", c.file, n, of)
		if of < 10 || c.own != (float64(n) >= sameFunctions*float64(of)) {
			t.Errorf("%s has %d of %d functions where they are", c.file, n, of)
		}
	}
}

// ownTrace is a trace of this process.
func ownTrace(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := rtrace.Start(&b); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // as long as a glimpse
	rtrace.Stop()
	return b.Bytes()
}

// A service that has too much to do answers late; one that never answers does not keep another one from being
// found.
func TestAnEndpointThatAnswersLateIsFound(t *testing.T) {
	hung := make(chan struct{})
	deaf := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	defer deaf.Close()
	defer close(hung)
	if got, no, err := endpoint(t.Context(), os.Getpid()); got != "" || err != nil || !slices.Equal(no.silent, []string{deaf.Listener.Addr().String()}) {
		t.Errorf("%q, %q silent, %v", got, no.silent, err)
	}
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second) // it has other things to do
		pprof.Cmdline(w, r)
	}))
	defer late.Close()
	if got, _, err := endpoint(t.Context(), os.Getpid()); got != late.URL || err != nil {
		t.Errorf("%q, %v, want %q", got, err, late.URL)
	}
}

// A listener that wants TLS, or to know who asks, may have an endpoint: it is not said that there is none, but what to try.
func TestAnEndpointThatRefusesIsSaid(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	for _, c := range []struct {
		name  string
		start func(http.Handler) *httptest.Server
		h     http.Handler
		says  string
		try   string
	}{
		{"TLS", httptest.NewTLSServer, mux, "speaks TLS", "whylate diagnose https://"},
		{"a password", httptest.NewServer, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), "answers 401 Unauthorized", "whylate diagnose http://"},
		{"another path", httptest.NewServer, http.RedirectHandler("/elsewhere", http.StatusFound), "answers 302 Found", "whylate diagnose http://"},
		{"nothing of it", httptest.NewServer, http.NotFoundHandler(), "", AddEndpoint},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.start(c.h)
			defer s.Close()
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			addr := s.Listener.Addr().String()
			got, no, err := endpoint(t.Context(), os.Getpid())
			if got != "" || err != nil {
				t.Fatalf("found %q, %v", got, err)
			}
			why, advice := no.why(1)
			if c.says != "" && (!strings.Contains(why, addr+" "+c.says) || !strings.HasPrefix(advice, c.try+addr)) || c.says == "" && (strings.Contains(why, addr) || advice != c.try) {
				t.Errorf("%s: %s", why, advice)
			}
		})
	}
}

// What is asked of listeners that have nothing of it are questions of a kind that every server knows.
func TestOthersAreOnlyAskedForTheirPages(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+(&url.URL{Path: r.URL.Path, RawQuery: r.URL.RawQuery}).String())
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer s.Close()
	if got, _, err := endpoint(t.Context(), os.Getpid()); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if len(asked) != 1 || asked[0] != "GET /debug/pprof/cmdline" {
		t.Errorf("asked for %q", asked)
	}
}

// The ports that net/http/pprof is usually given are asked first, the others in their order.
func TestUsualPortsAreAskedFirst(t *testing.T) {
	got := []string{"127.0.0.1:80", "127.0.0.1:606", "127.0.0.1:6065", "[::1]:6060", "nonsense", "127.0.0.1:60600"}
	want := []string{"127.0.0.1:6065", "[::1]:6060", "127.0.0.1:80", "127.0.0.1:606", "nonsense", "127.0.0.1:60600"}
	if likely(got); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
