package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func mustRun(t *testing.T, cfg Config) Result {
	t.Helper()
	res, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestEveryOfferedRequestIsAResponseOrAnError(t *testing.T) {
	var hits atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	res := mustRun(t, Config{
		Targets: []Target{
			{URL: url + "/a?x=1", Weight: 3},
			{URL: url + "/missing", Method: "POST", Body: []byte("{}"), Name: "missing"},
		},
		Rate: 500, Duration: 300 * time.Millisecond, Arrivals: Uniform, Seed: 1,
	})
	if res.Offered != 150 || res.Responses != 150 || hits.Load() != 150 {
		t.Fatalf("offered %d, responses %d, served %d; want 150 each", res.Offered, res.Responses, hits.Load())
	}
	a, b := res.Endpoints[0], res.Endpoints[1]
	if a.Name != "GET /a" || b.Name != "missing" {
		t.Errorf("names %q and %q", a.Name, b.Name)
	}
	if a.Status[200]+b.Status[404] != 150 || a.Status[200] <= b.Status[404] || b.Status[404] == 0 {
		t.Errorf("status %v and %v do not follow the weights", a.Status, b.Status)
	}
	if res.Latency.Count() != 150 || res.SendLag.Count() != 150 || len(res.Errors) != 0 {
		t.Errorf("latencies %d, lags %d, errors %v", res.Latency.Count(), res.SendLag.Count(), res.Errors)
	}
	if res.Latency.Quantile(0.5) > res.Latency.Quantile(1) || res.Latency.Quantile(0) <= 0 {
		t.Errorf("quantiles are not ordered: %v", res.Latency.Sorted())
	}
}

// The server sees the pause between the halves of a body, and has to wait for room
// where an answer is not read; connections without a pause are others.
func TestAClientThatPausesIsWaitedFor(t *testing.T) {
	const pause = 30 * time.Millisecond
	var mu sync.Mutex
	waited := map[string][]time.Duration{}
	peers := map[string]string{} // of connections: the path they are used for
	answer := make([]byte, 8<<20)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		half := make([]byte, 500)
		if r.Method == http.MethodPost {
			if _, err := io.ReadFull(r.Body, half); err != nil {
				t.Error(err)
			}
		}
		begun := time.Now()
		if rest, err := io.ReadAll(r.Body); err != nil || r.Method == http.MethodPost && len(rest) != 500 {
			t.Errorf("%d bytes behind the first half: %v", len(rest), err)
		}
		if r.Method == http.MethodGet {
			w.Write(answer)
		}
		mu.Lock()
		defer mu.Unlock()
		waited[r.URL.Path] = append(waited[r.URL.Path], time.Since(begun))
		if before := peers[r.RemoteAddr]; before != "" && (before == "/quick") != (r.URL.Path == "/quick") {
			t.Errorf("%s was used for %s and for %s", r.RemoteAddr, before, r.URL.Path)
		}
		peers[r.RemoteAddr] = r.URL.Path
	})
	res := mustRun(t, Config{
		Targets: []Target{
			{URL: url + "/quick", Method: "POST", Body: make([]byte, 1000)},
			{URL: url + "/upload", Method: "POST", Body: make([]byte, 1000), Pause: pause},
			{URL: url + "/visit", Pause: pause},
		},
		Rate: 60, Duration: 500 * time.Millisecond, Arrivals: Uniform, Seed: 1,
	})
	if res.Responses != res.Offered || len(waited["/quick"]) == 0 {
		t.Fatalf("%d responses: %v", res.Responses, res.Errors)
	}
	for _, path := range []string{"/upload", "/visit"} {
		if len(waited[path]) == 0 {
			t.Errorf("no %s", path)
		}
		i := slices.IndexFunc(res.Endpoints, func(e EndpointResult) bool { return strings.HasSuffix(e.Name, path) })
		if i < 0 || res.Endpoints[i].Latency.Quantile(0) < pause {
			t.Errorf("%s: a client did not pause: %+v", path, res.Endpoints)
		}
		// Where there is no CPU for it, the server reads the first half late.
		if slices.Sort(waited[path]); len(waited[path]) > 0 && waited[path][len(waited[path])/2] < pause/2 {
			t.Errorf("%s waited %v", path, waited[path])
		}
	}
}

func TestEqualSeedsOfferEqualLoad(t *testing.T) {
	cfg := Config{Rate: 1000, Duration: time.Second, Seed: 7, Bursts: Bursts{Mean: 100 * time.Millisecond, Size: 5}}
	eps := []endpoint{{weight: 1}, {weight: 2}}
	list := func(seed uint64) (as []arrival) {
		c := cfg
		c.Seed = seed
		s := newSchedule(c, eps)
		for a, ok := s.next(); ok; a, ok = s.next() {
			as = append(as, a)
		}
		return as
	}
	a, b, c := list(7), list(7), list(8)
	if len(a) == 0 || len(a) != len(b) {
		t.Fatalf("%d and %d arrivals", len(a), len(b))
	}
	same := len(a) == len(c)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("arrival %d: %v and %v", i, a[i], b[i])
		}
		if i > 0 && a[i].at < a[i-1].at {
			t.Fatalf("arrival %d goes back in time", i)
		}
		same = same && a[i] == c[i]
	}
	if same {
		t.Error("another seed gives the same arrivals")
	}
}

func TestABurstSharesOneIntendedTime(t *testing.T) {
	s := newSchedule(Config{Duration: time.Hour, Bursts: Bursts{Mean: time.Second, Size: 4}}, []endpoint{{weight: 1}})
	times := map[time.Duration]int{}
	for a, ok := s.next(); ok; a, ok = s.next() {
		times[a.at]++
	}
	if len(times) == 0 {
		t.Fatal("no bursts in an hour of one per second")
	}
	for at, n := range times {
		if n != 4 {
			t.Errorf("%d requests at %v", n, at)
		}
	}
}

// A server that answers nothing for a while must delay every request that was
// due meanwhile, not only the one in flight: this is what a closed loop hides.
func TestAStallCountsForEveryRequestThatWasDueInIt(t *testing.T) {
	var once sync.Once
	open := make(chan struct{})
	var waiting atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			go func() {
				time.Sleep(200 * time.Millisecond)
				close(open)
			}()
		})
		waiting.Add(1)
		<-open
	})
	// One connection: without intended times every request but the first would
	// look fast.
	res := mustRun(t, Config{
		Targets: []Target{{URL: url}}, Rate: 100, Duration: 200 * time.Millisecond,
		Arrivals: Uniform, MaxOutstanding: 1, Drain: time.Minute,
	})
	if res.Responses != 20 {
		t.Fatalf("%d responses, want 20; errors %v", res.Responses, res.Errors)
	}
	if waiting.Load() != 20 || res.Connections != 1 {
		t.Fatalf("%d handled over %d connections, want 20 over 1", waiting.Load(), res.Connections)
	}
	// Request i is due 10i ms after the first, and none ends before the stall does.
	ns := res.Latency.Sorted()
	for i, v := range ns {
		if least := time.Duration(i) * 10 * time.Millisecond; time.Duration(v) < least {
			t.Errorf("the %d-th shortest latency is %v, below %v", i, time.Duration(v), least)
		}
	}
	if lag := res.SendLag.Quantile(0.9); lag < 100*time.Millisecond {
		t.Errorf("the wait for the only slot is not in the send lag: p90 %v", lag)
	}
}

func TestRequestsInFlightAtTheEndCountWithTheirAge(t *testing.T) {
	hold := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { <-hold })
	t.Cleanup(func() { close(hold) })
	res := mustRun(t, Config{
		Targets: []Target{{URL: url}}, Rate: 100, Duration: 100 * time.Millisecond,
		Arrivals: Uniform, MaxOutstanding: 4, Drain: 50 * time.Millisecond,
	})
	if res.Offered != 10 || res.Responses != 0 || res.Errors[Unfinished] != 4 || res.Errors[Unsent] != 6 {
		t.Fatalf("offered %d, responses %d, errors %v; want 10, 0, 4 unfinished, 6 unsent", res.Offered, res.Responses, res.Errors)
	}
	if res.Latency.Count() != 10 || res.Latency.Quantile(0) < 50*time.Millisecond {
		t.Errorf("%d latencies, shortest %v", res.Latency.Count(), res.Latency.Quantile(0))
	}
}

func TestATimeoutIsAnErrorAndALowerBound(t *testing.T) {
	hold := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { <-hold })
	t.Cleanup(func() { close(hold) })
	res := mustRun(t, Config{
		Targets: []Target{{URL: url}}, Rate: 50, Duration: 100 * time.Millisecond,
		Arrivals: Uniform, Timeout: 20 * time.Millisecond, Drain: time.Minute,
	})
	if res.Errors[TimedOut] != 5 || res.Latency.Quantile(0) < 20*time.Millisecond {
		t.Errorf("errors %v, shortest latency %v", res.Errors, res.Latency.Quantile(0))
	}
}

func TestADeadTargetIsAnErrorBeforeTheRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, err = Run(t.Context(), Config{Targets: []Target{{URL: "http://" + addr}}, Rate: 1, Duration: time.Hour})
	if !errors.Is(err, ErrTargetDown) {
		t.Fatalf("got %v", err)
	}
}

func TestATargetThatDiesEndsTheRun(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	var conns atomic.Int64
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateIdle && conns.Add(1) == 10 {
			go srv.Close()
		}
	}
	srv.Start()
	res, err := Run(t.Context(), Config{Targets: []Target{{URL: srv.URL}}, Rate: 1000, Duration: time.Hour})
	if !errors.Is(err, ErrTargetDown) {
		t.Fatalf("got %v", err)
	}
	if res.Responses == 0 || res.Errors[Refused] < downAfter {
		t.Errorf("responses %d, errors %v", res.Responses, res.Errors)
	}
}

func TestCancellingReturnsWhatWasMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 20 {
			cancel()
		}
	})
	res, err := Run(ctx, Config{Targets: []Target{{URL: url}}, Rate: 1000, Duration: time.Hour})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	sum := res.Responses
	for _, v := range res.Errors {
		sum += v
	}
	if res.Responses == 0 || sum != res.Offered {
		t.Errorf("responses %d, errors %v, offered %d", res.Responses, res.Errors, res.Offered)
	}
}

func TestAStaleKeepAliveConnectionIsReplaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers one request per connection, then closes it unannounced
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
		}
	}()
	res := mustRun(t, Config{
		Targets: []Target{{URL: "http://" + l.Addr().String()}}, Rate: 200, Duration: 100 * time.Millisecond,
		Arrivals: Uniform, MaxOutstanding: 1,
	})
	if res.Responses != 20 || res.Connections != 20 || len(res.Errors) != 0 {
		t.Errorf("responses %d over %d connections, errors %v", res.Responses, res.Connections, res.Errors)
	}
}

func TestAResponseThatIsNotHTTPIsAProtocolError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n")
				io.Copy(io.Discard, c)
			}()
		}
	}()
	res := mustRun(t, Config{Targets: []Target{{URL: "http://" + l.Addr().String()}}, Rate: 100, Duration: 50 * time.Millisecond, Arrivals: Uniform})
	if res.Errors[Protocol] != 5 {
		t.Errorf("errors %v", res.Errors)
	}
}

func TestHTTPSTargetsWork(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	res := mustRun(t, Config{
		Targets: []Target{{URL: srv.URL}}, Rate: 100, Duration: 100 * time.Millisecond,
		Arrivals: Uniform, TLS: &tls.Config{RootCAs: roots},
	})
	if res.Responses != 10 {
		t.Errorf("responses %d, errors %v", res.Responses, res.Errors)
	}
}

func TestNoGoroutineOfARunIsLeft(t *testing.T) {
	hold := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			<-hold
		}
	})
	t.Cleanup(func() { close(hold) })
	mustRun(t, Config{
		Targets: []Target{{URL: url}, {URL: url + "/held"}}, Rate: 500,
		Duration: 100 * time.Millisecond, Drain: 20 * time.Millisecond,
	})
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "load.(*run)") || strings.Contains(g, "load.(*pool)") {
			t.Errorf("left behind:\n%s", g)
		}
	}
}

func TestConfigurationsThatCannotRunAreRejected(t *testing.T) {
	ok := Config{Targets: []Target{{URL: "http://127.0.0.1:1/"}}, Rate: 1, Duration: time.Second}
	for name, change := range map[string]func(*Config){
		"no targets":                func(c *Config) { c.Targets = nil },
		"no duration":               func(c *Config) { c.Duration = 0 },
		"no rate":                   func(c *Config) { c.Rate = 0 },
		"a negative rate":           func(c *Config) { c.Rate = -1 },
		"bursts without a mean":     func(c *Config) { c.Bursts.Size = 3 },
		"more requests than kept":   func(c *Config) { c.Rate, c.Duration = 1e6, time.Hour },
		"a negative bound":          func(c *Config) { c.MaxOutstanding = -1 },
		"unknown arrivals":          func(c *Config) { c.Arrivals = 9 },
		"port 0":                    func(c *Config) { c.Targets = []Target{{URL: "http://127.0.0.1:0/"}} },
		"port 70000":                func(c *Config) { c.Targets = []Target{{URL: "http://127.0.0.1:70000/"}} },
		"a relative URL":            func(c *Config) { c.Targets = []Target{{URL: "/x"}} },
		"another scheme":            func(c *Config) { c.Targets = []Target{{URL: "ftp://h/"}} },
		"a negative weight":         func(c *Config) { c.Targets = []Target{{URL: "http://h/", Weight: -1}} },
		"a negative pause":          func(c *Config) { c.Targets = []Target{{URL: "http://h/", Pause: -1}} },
		"a method that is not HTTP": func(c *Config) { c.Targets = []Target{{URL: "http://h/", Method: "A B"}} },
	} {
		t.Run(name, func(t *testing.T) {
			c := ok
			change(&c)
			if _, err := Run(t.Context(), c); !errors.Is(err, ErrConfig) {
				t.Errorf("got %v, want ErrConfig", err)
			}
		})
	}
}

func TestQuantilesAreNearestRank(t *testing.T) {
	d := newDistribution([]int64{40, 10, 30, 20})
	for q, want := range map[float64]time.Duration{0: 10, .25: 10, .26: 20, .5: 20, .75: 30, .99: 40, 1: 40} {
		if got := d.Quantile(q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if d.Mean() != 25 || d.Count() != 4 {
		t.Errorf("mean %d of %d", d.Mean(), d.Count())
	}
	var zero Distribution
	if zero.Quantile(.5) != 0 || zero.Mean() != 0 {
		t.Error("the empty distribution is not zero")
	}
}

func TestResultsAreJSON(t *testing.T) {
	b, err := json.Marshal(Result{Latency: newDistribution([]int64{3})})
	if err != nil || !bytes.Contains(b, []byte(`"latency":{"count":1,"mean_ns":3,"p50_ns":3`)) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestDoneIsToldOfEveryLatency(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	var latencies []int64
	begun := time.Now()
	res, err := Run(t.Context(), Config{
		Targets: []Target{{URL: s.URL}}, Rate: 200, Duration: 300 * time.Millisecond,
		Done: func(intended time.Time, lag, latency time.Duration) {
			if intended.Before(begun) || lag < 0 || lag > latency {
				t.Errorf("due %v after the beginning, %v late, latency %v", intended.Sub(begun), lag, latency)
			}
			latencies = append(latencies, int64(latency))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(latencies)
	if want := res.Latency.Sorted(); !slices.Equal(latencies, want) || len(want) == 0 {
		t.Errorf("told of %d latencies, the result has %d", len(latencies), len(want))
	}
}
