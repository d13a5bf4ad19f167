package request

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"regexp"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// The servers of these tests are traced; their clients are this binary, run
// again as a child process, so that the trace has one side of each connection.

const clientEnv = "WHYLATE_REQUEST_CLIENT"

func TestMain(m *testing.M) {
	if kind := os.Getenv(clientEnv); kind != "" {
		took, err := clientKinds[kind](os.Args[1], 4, 100)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = json.NewEncoder(os.Stdout).Encode(took)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// clientKinds send n requests on each of conns connections and return how long
// each took, in nanoseconds.
var clientKinds = map[string]func(addr string, conns, n int) ([]int64, error){
	"lines": func(addr string, conns, n int) ([]int64, error) {
		return askLines(addr, conns, n, time.Millisecond)
	},
	"thinking": func(addr string, conns, n int) ([]int64, error) {
		return askLines(addr, conns, n, 15*time.Millisecond)
	},
	// It is the one that listens.
	"broker": func(addr string, conns, n int) ([]int64, error) {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		return onEach(conns, func() (took []int64, err error) {
			c, err := l.Accept()
			if err != nil {
				return nil, err
			}
			return talk(c, n, 5*time.Millisecond)
		})
	},
	"datagrams": func(addr string, conns, n int) ([]int64, error) {
		return onDialled("udp", addr, conns, func(c net.Conn) (took []int64, err error) {
			buf := make([]byte, 100)
			for i := range n {
				start := time.Now()
				fmt.Fprintf(c, "%d\n", i)
				if _, err := c.Read(buf); err != nil {
					return took, err
				}
				took = append(took, int64(time.Since(start)))
				time.Sleep(time.Millisecond)
			}
			return took, nil
		})
	},
	// Two at once, in one buffer, then their answers.
	"pairs": func(addr string, conns, n int) ([]int64, error) {
		return onDialled("tcp", addr, conns, func(c net.Conn) (took []int64, err error) {
			r := bufio.NewReader(c)
			for i := range n / 2 {
				start := time.Now()
				fmt.Fprintf(c, "%d\n%d\n", 2*i, 2*i+1)
				for range 2 {
					if _, err := r.ReadString('\n'); err != nil {
						return took, err
					}
					took = append(took, int64(time.Since(start)))
				}
				time.Sleep(time.Millisecond)
			}
			return took, nil
		})
	},
	"http": askHTTP,
	// Five at once, then their five answers.
	"bursts": func(addr string, conns, n int) ([]int64, error) {
		return onDialled("udp", addr, conns, func(c net.Conn) (took []int64, err error) {
			buf := make([]byte, 100)
			for range n / 5 {
				start := time.Now()
				for i := range 5 {
					fmt.Fprintf(c, "%d\n", i)
				}
				for range 5 {
					if _, err := c.Read(buf); err != nil {
						return took, err
					}
					took = append(took, int64(time.Since(start)))
				}
				time.Sleep(time.Millisecond)
			}
			return took, nil
		})
	},
	"calls": func(addr string, conns, n int) ([]int64, error) {
		return onEach(conns, func() (took []int64, err error) {
			for i := range n {
				start := time.Now()
				c, err := net.Dial("tcp", addr)
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(c, "%d\n", i)
				if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
					return took, err
				}
				took = append(took, int64(time.Since(start)))
				c.Close()
			}
			return took, nil
		})
	},
	// The next request is sent while the last one is worked on.
	"pipelined": func(addr string, conns, n int) ([]int64, error) {
		return onDialled("tcp", addr, conns, func(c net.Conn) (took []int64, err error) {
			send := func() { fmt.Fprintf(c, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n") }
			r := bufio.NewReader(c)
			send()
			for i := range n {
				start := time.Now()
				time.Sleep(time.Millisecond) // the server is at it, and will find the next one in its buffer
				if i+1 < n {
					send()
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					return took, err
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				took = append(took, int64(time.Since(start)))
			}
			return took, nil
		})
	},
	"upgraded": func(addr string, conns, n int) ([]int64, error) {
		return onDialled("tcp", addr, conns, func(c net.Conn) (took []int64, err error) {
			fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			r := bufio.NewReader(c)
			if _, err := r.ReadString('!'); err != nil {
				return nil, err
			}
			for i := range n {
				fmt.Fprintf(c, "%d\n", i)
				if _, err := r.ReadString('\n'); err != nil {
					return took, err
				}
				took = append(took, 0)
			}
			return took, nil
		})
	},
	"observe": func(addr string, conns, n int) ([]int64, error) {
		go func() { _, _ = http.Get("http://" + addr + "/debug/pprof/profile?seconds=1") }()
		for range 20 {
			resp, err := http.Get("http://" + addr + "/debug/pprof/goroutine?debug=1")
			if err != nil {
				return nil, err
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return askHTTP(addr, conns, n)
	},
}

// askLines sends lines on connections of its own, each some time after the answer to the last.
func askLines(addr string, conns, n int, pause time.Duration) ([]int64, error) {
	return onEach(conns, func() ([]int64, error) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		return talk(c, n, pause)
	})
}

// talk is askLines on a connection, which it closes.
func talk(c net.Conn, n int, pause time.Duration) (took []int64, err error) {
	defer c.Close()
	r := bufio.NewReader(c)
	for i := range n {
		start := time.Now()
		fmt.Fprintf(c, "%d\n", i)
		if _, err := r.ReadString('\n'); err != nil {
			return took, err
		}
		took = append(took, int64(time.Since(start)))
		time.Sleep(pause)
	}
	return took, nil
}

func askHTTP(addr string, conns, n int) ([]int64, error) {
	return onEach(conns, func() (took []int64, err error) {
		c := &http.Client{Transport: &http.Transport{}}
		for i := range n {
			start := time.Now()
			resp, err := c.Get("http://" + addr + []string{"/a", "/b"}[i%2])
			if err != nil {
				return took, err
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			took = append(took, int64(time.Since(start)))
			time.Sleep(time.Millisecond)
		}
		return took, nil
	})
}

func onEach(conns int, f func() ([]int64, error)) (all []int64, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			took, e := f()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if e != nil {
				err = e
			}
		}()
	}
	wg.Wait()
	return all, err
}

// onDialled is onEach with a connection of its own for each.
func onDialled(network, addr string, conns int, f func(c net.Conn) ([]int64, error)) ([]int64, error) {
	return onEach(conns, func() ([]int64, error) {
		c, err := net.Dial(network, addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return f(c)
	})
}

// askFromOutside runs a client in a child process and returns what it measured.
func askFromOutside(t *testing.T, kind, addr string) []int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0], addr)
	cmd.Env = append(os.Environ(), clientEnv+"="+kind)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client %s: %v", kind, err)
	}
	var took []int64
	if err := json.Unmarshal(out, &took); err != nil {
		t.Fatalf("client %s: %v", kind, err)
	}
	return took
}

// record traces f and finds the requests in it.
func record(t *testing.T, o Options, f func()) *Found {
	t.Helper()
	found := Find(traced(t, f), o)
	check(t, found)
	return found
}

// traced is the timeline of what f does.
func traced(t *testing.T, f func()) *timeline.Timeline {
	t.Helper()
	var buf bytes.Buffer
	if err := trace.Start(&buf); err != nil {
		t.Fatal(err)
	}
	f()
	trace.Stop()
	if dir := os.Getenv("WHYLATE_KEEP_TRACES"); dir != "" {
		_ = os.WriteFile(dir+"/"+strings.ReplaceAll(t.Name(), "/", "_")+".trace", buf.Bytes(), 0o644)
	}
	r, err := gotrace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(r, timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// check tests what must hold of everything that was found.
func check(t *testing.T, f *Found) {
	t.Helper()
	var last timeline.Time
	flying := false
	for i := range f.Requests {
		r := &f.Requests[i]
		for k, p := range r.Parts {
			if p.End < p.Start || k > 0 && p.Start != r.Parts[k-1].End {
				t.Fatalf("request %d: parts %v", i, r.Parts)
			}
			g := &f.t.Gs[p.G]
			if p.Start < g.Start() || p.End > g.End() {
				t.Errorf("request %d: part %v outside of its goroutine's life [%d, %d]", i, p, g.Start(), g.End())
			}
			if !f.Entry(p.G) {
				t.Errorf("request %d: goroutine %d carries it and is no entry", i, p.G)
			}
			if mid := (p.Start + p.End) / 2; f.RequestAt(p.G, mid) < 0 {
				t.Errorf("request %d: RequestAt does not find it", i)
			}
		}
		if r.InFlight {
			flying = true
		} else if flying || r.End() < last {
			t.Errorf("request %d is out of order", i)
		}
		last = r.End()
		if r.Role >= len(f.Roles) || r.Endpoint >= len(f.Endpoints) {
			t.Fatalf("request %d: role %d, endpoint %d", i, r.Role, r.Endpoint)
		}
	}
}

// inner sums the durations that a server measures itself: from the end of its
// read to the end of its write. It is a lower bound of what is found.
type inner struct{ ns, n atomic.Int64 }

func (m *inner) since(start time.Time) {
	m.ns.Add(int64(time.Since(start)))
	m.n.Add(1)
}

func sum(ns []int64) (s int64) {
	for _, n := range ns {
		s += n
	}
	return s
}

// agrees tests that found requests are as many as sent, not shorter in total
// than the server's own measurement of a part of them, nor longer than the client's.
func agrees(t *testing.T, f *Found, m *inner, sent []int64, names ...string) {
	t.Helper()
	n, ns := 0, int64(0)
	var took []int64
	for i := range f.Requests {
		if r := &f.Requests[i]; !r.InFlight {
			n++
			ns += int64(r.Duration())
			took = append(took, int64(r.Duration()))
		}
	}
	slices.Sort(took)
	slices.Sort(sent)
	if len(took) > 0 && len(sent) > 0 {
		t.Logf("p50 %.3f ms (client %.3f), p99 %.3f ms (client %.3f)", float64(took[len(took)/2])/1e6, float64(sent[len(sent)/2])/1e6,
			float64(took[len(took)*99/100])/1e6, float64(sent[len(sent)*99/100])/1e6)
	}
	describe(t, f)
	t.Logf("%d sent, %d found; sums: server %.1f ms, found %.1f ms, client %.1f ms", len(sent), n,
		float64(m.ns.Load())/1e6, float64(ns)/1e6, float64(sum(sent))/1e6)
	if slack := len(sent)/100 + 1; n < len(sent)-slack || n > len(sent)+slack {
		t.Errorf("%d sent, %d found", len(sent), n)
	}
	if low := m.ns.Load(); float64(ns) < 0.97*float64(low) {
		t.Errorf("found %d ns in total, the server alone measured %d", ns, low)
	}
	if high := sum(sent); float64(ns) > 1.02*float64(high) {
		t.Errorf("found %d ns in total, the client measured %d", ns, high)
	}
	if len(f.Roles) != len(names) {
		t.Errorf("%d roles, want %q", len(f.Roles), names)
	}
	for i := range names {
		if i < len(f.Roles) && f.Roles[i].Name != names[i] {
			t.Errorf("role %q, want %q", f.Roles[i].Name, names[i])
		}
	}
}

func describe(t *testing.T, f *Found) {
	t.Helper()
	for _, r := range f.Roles {
		t.Logf("role %+v", r)
	}
	t.Logf("endpoints %v outgoing %v excluded %v share %.2f", f.Endpoints, f.Outgoing, f.Excluded, f.LargestShare)
}

// regions makes 60 regions on one goroutine.
func regions() {
	for range 60 {
		trace.WithRegion(context.Background(), "job", func() { time.Sleep(100 * time.Microsecond) })
	}
}

const pkg = "github.com/whylate/whylate/request."

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

// work takes 1 to 4 ms, in an order that repeats.
func work(i int) { time.Sleep(time.Duration(1+i%4) * time.Millisecond) }

type lineServer struct{ inner }

func (s *lineServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		start := time.Now()
		i, _ := strconv.Atoi(strings.TrimSpace(line))
		work(i)
		fmt.Fprintf(c, "%d\n", i)
		s.since(start)
	}
}

func TestConnectionGoroutineAnswersItself(t *testing.T) {
	l, s := listen(t), &lineServer{}
	go accept(l, s.serve)
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "lines", l.Addr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"(*lineServer).serve")
	if len(f.Roles) == 0 || f.Roles[0].Shape != Connection {
		t.Errorf("roles %+v", f.Roles)
	}
}

// passing asks another server for each line, on a connection of its own, in one function.
type passing struct {
	inner
	to string
}

func (s *passing) serve(c net.Conn) {
	defer c.Close()
	peer, err := net.Dial("tcp", s.to)
	if err != nil {
		return
	}
	defer peer.Close()
	asked, answered := bufio.NewReader(c), bufio.NewReader(peer)
	for {
		line, err := asked.ReadSlice('\n')
		if err != nil {
			return
		}
		start := time.Now()
		_, _ = peer.Write(line)
		if line, err = answered.ReadSlice('\n'); err != nil {
			return
		}
		_, _ = c.Write(line)
		s.since(start)
	}
}

// Its requests begin with what its clients send, and wait for the peer: they are not halves.
func TestWhoPassesOnLinesReadsFromTwoConnections(t *testing.T) {
	peer, l := listen(t), listen(t)
	s := &passing{to: peer.Addr().String()}
	go accept(peer, (&lineServer{}).serve)
	go accept(l, s.serve)
	f := record(t, Options{}, func() { askFromOutside(t, "thinking", l.Addr().String()) })
	n, ns := 0, int64(0)
	for i := range f.Requests {
		if r := &f.Requests[i]; !r.InFlight && strings.HasSuffix(f.Roles[r.Role].Name, "(*passing).serve") {
			n++
			ns += int64(r.Duration())
		}
	}
	if asked := s.n.Load(); int64(n) < asked*99/100-1 || int64(n) > asked+1 || float64(ns) < 0.97*float64(s.ns.Load()) {
		t.Errorf("%d asked for %.1f ms, found %d of %.1f ms", asked, float64(s.ns.Load())/1e6, n, float64(ns)/1e6)
	}
}

// dialled returns connections to a broker that is about to listen.
func dialled(t *testing.T, addr string, n int) (out []net.Conn) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); len(out) < n; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			out = append(out, c)
		} else if time.Now().After(until) {
			t.Fatal(err)
		}
	}
	return out
}

// Messages come in on connections that the process opened; its server has nobody to serve.
func TestWhoTakesMessagesFromABrokerIsAnEntry(t *testing.T) {
	defer httptest.NewServer(http.NotFoundHandler()).Close()
	l, s := listen(t), &lineServer{}
	addr := l.Addr().String()
	l.Close()
	sent := make(chan []int64, 1)
	go func() { sent <- askFromOutside(t, "broker", addr) }()
	conns := dialled(t, addr, 4)
	var took []int64
	f := record(t, Options{}, func() {
		for _, c := range conns {
			go s.serve(c)
		}
		took = <-sent
	})
	agrees(t, f, &s.inner, took, pkg+"(*lineServer).serve")
}

// several hands each line of one connection to one of two workers, who answer on it themselves.
type several struct{ inner }

func (s *several) read(c net.Conn, to [2]chan job) {
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		i, _ := strconv.Atoi(strings.TrimSpace(line))
		to[i/2%2] <- job{i, time.Now()}
	}
}

func (s *several) work(c net.Conn, jobs <-chan job) {
	for j := range jobs {
		work(j.i)
		fmt.Fprintf(c, "%d\n", j.i)
		s.since(j.start)
	}
}

func TestWorkersAnswerMessagesOfABrokerThemselves(t *testing.T) {
	defer httptest.NewServer(http.NotFoundHandler()).Close()
	l, s := listen(t), &several{}
	addr := l.Addr().String()
	l.Close()
	sent := make(chan []int64, 1)
	go func() { sent <- askFromOutside(t, "broker", addr) }()
	conns := dialled(t, addr, 4)
	var took []int64
	f := record(t, Options{}, func() {
		for _, c := range conns {
			to := [2]chan job{make(chan job, 9), make(chan job, 9)}
			go s.read(c, to)
			for _, jobs := range to {
				go s.work(c, jobs)
			}
		}
		took = <-sent
	})
	agrees(t, f, &s.inner, took, pkg+"(*several).read")
}

// pairServer reads on one goroutine and answers on another, through a channel.
type pairServer struct {
	inner
}

type job struct {
	i     int
	start time.Time
}

func (s *pairServer) read(c net.Conn, jobs chan<- job) {
	defer close(jobs)
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		start := time.Now()
		i, _ := strconv.Atoi(strings.TrimSpace(line))
		jobs <- job{i, start}
	}
}

func (s *pairServer) write(c net.Conn, jobs <-chan job) {
	defer c.Close()
	for j := range jobs {
		work(j.i)
		fmt.Fprintf(c, "%d\n", j.i)
		s.since(j.start)
	}
}

func TestReaderHandsOverToItsWriter(t *testing.T) {
	l, s := listen(t), &pairServer{}
	go accept(l, func(c net.Conn) {
		jobs := make(chan job, 10)
		go s.write(c, jobs)
		s.read(c, jobs)
	})
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "lines", l.Addr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"TestReaderHandsOverToItsWriter.func1")
	if len(f.Roles) == 0 || f.Roles[0].Shape != ReaderWriter {
		t.Errorf("roles %+v", f.Roles)
	}
}

func TestReaderHandsOverToWorkersAndTheyToItsWriter(t *testing.T) {
	l, s := listen(t), &pairServer{}
	type item struct {
		job
		out chan<- job
	}
	pool := make(chan item)
	for range 4 {
		go func() {
			for it := range pool {
				work(it.i)
				it.out <- it.job
			}
		}()
	}
	go accept(l, func(c net.Conn) {
		in, out := make(chan job, 10), make(chan job)
		go func() {
			for j := range out {
				fmt.Fprintf(c, "%d\n", j.i)
				s.since(j.start)
			}
		}()
		r := bufio.NewReader(c)
		_ = in
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				close(out)
				return
			}
			i, _ := strconv.Atoi(strings.TrimSpace(line))
			pool <- item{job{i, time.Now()}, out}
		}
	})
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "lines", l.Addr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"TestReaderHandsOverToWorkersAndTheyToItsWriter.func2")
	close(pool)
}

// What a reader hands to several kinds of goroutines for one message, the last of which writes the answer, is one request; who only
// watches its deadlines answers none.
func TestReaderHandsOneMessageToSeveralKinds(t *testing.T) {
	l, s := listen(t), &pairServer{}
	audit := make(chan int)
	go func() {
		for i := range audit {
			work(i % 2)
		}
	}()
	type ask struct {
		i    int
		done chan<- int
	}
	shards := make([]chan ask, 2)
	for i := range shards {
		shards[i] = make(chan ask)
		go func() {
			for a := range shards[i] {
				work(a.i)
				a.done <- a.i
			}
		}()
	}
	go accept(l, func(c net.Conn) {
		out, deadlines, done := make(chan job), make(chan time.Time), make(chan int)
		go func() {
			for j := range out {
				fmt.Fprintf(c, "%d\n", j.i)
				s.since(j.start)
			}
		}()
		go func() {
			for range deadlines { // nobody is late
			}
		}()
		defer close(out)
		defer close(deadlines)
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			start := time.Now()
			i, _ := strconv.Atoi(strings.TrimSpace(line))
			audit <- i
			shards[i%len(shards)] <- ask{i, done}
			out <- job{<-done, start}
			deadlines <- time.Now()
		}
	})
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "lines", l.Addr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"TestReaderHandsOneMessageToSeveralKinds.func3")
	close(audit)
	for _, c := range shards {
		close(c)
	}
}

// Two messages out of one buffer that are handed to two kinds, each of which answers, are two requests.
func TestReaderHandsMessagesOfOneBufferToKindsThatAnswer(t *testing.T) {
	l, s := listen(t), &pairServer{}
	go accept(l, func(c net.Conn) {
		even, odd := make(chan job, 10), make(chan job, 10)
		go s.write(c, even)
		go func() {
			for j := range odd {
				time.Sleep(time.Millisecond)
				fmt.Fprintf(c, "odd %d\n", j.i)
				s.since(j.start)
			}
		}()
		defer close(even)
		defer close(odd)
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			i, _ := strconv.Atoi(strings.TrimSpace(line))
			if j := (job{i, time.Now()}); i%2 == 0 {
				even <- j
			} else {
				odd <- j
			}
		}
	})
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "pairs", l.Addr().String()) })
	describe(t, f)
	if n, want := len(f.Requests), int(s.n.Load()); n < want-want/20 || n > want+want/50 {
		t.Errorf("%d found, %d served, %d sent", n, want, len(sent))
	}
}

// datagramServer reads on one goroutine and answers each datagram on a new one.
type datagramServer struct {
	inner
	c *net.UDPConn
}

func (s *datagramServer) read() {
	for {
		buf := make([]byte, 100)
		n, from, err := s.c.ReadFromUDP(buf)
		if err != nil {
			return
		}
		go s.answer(string(buf[:n]), from, time.Now())
	}
}

func (s *datagramServer) answer(line string, to *net.UDPAddr, start time.Time) {
	i, _ := strconv.Atoi(strings.TrimSpace(line))
	work(i)
	_, _ = s.c.WriteToUDP([]byte(line), to)
	s.since(start)
}

func TestReaderGivesBirthToAGoroutineForEachDatagram(t *testing.T) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := &datagramServer{c: c}
	go s.read()
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "datagrams", c.LocalAddr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"(*datagramServer).read")
	if f.Endpoints[0] != pkg+"(*datagramServer).answer" {
		t.Errorf("endpoints %v", f.Endpoints)
	}
	if len(f.Roles) == 0 || f.Roles[0].Shape != PerRequest {
		t.Errorf("roles %+v", f.Roles)
	}
}

// permitServer is a datagramServer that answers at most so many at a time: its
// reader waits for one of them before it reads on.
type permitServer struct {
	datagramServer
	permits chan struct{}
}

func (s *permitServer) read(ctx context.Context) {
	for {
		buf := make([]byte, 100)
		n, from, err := s.c.ReadFromUDP(buf)
		if err != nil {
			return
		}
		start := time.Now()
		select {
		case s.permits <- struct{}{}:
		case <-ctx.Done():
			return
		}
		go func() {
			defer func() { <-s.permits }()
			s.answer(string(buf[:n]), from, start)
		}()
	}
}

// A goroutine that g gave birth to for one job brings no work to it, although g
// waits for some of them, and longer than for datagrams.
func TestPermitsForTheGoroutinesOfAReaderAreNotItsHome(t *testing.T) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := &permitServer{datagramServer{c: c}, make(chan struct{}, 2)}
	go s.read(t.Context())
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "bursts", c.LocalAddr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"(*permitServer).read")
	home, all := times(f, "(*permitServer).read")
	t.Logf("at home %v of %v", home, all)
	if len(f.Roles) == 0 || f.Roles[0].Shape != PerRequest {
		t.Errorf("roles %+v", f.Roles)
	}
}

// web is an HTTP server with two endpoints behind a logging middleware.
type web struct {
	inner
	// If upgraded is set, it is told of every connection that is taken over, and messages
	// are read when begin is closed.
	upgraded, begin chan struct{}
}

func (w *web) fast(rw http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Millisecond)
	fmt.Fprintln(rw, "a")
}

func (w *web) slow(rw http.ResponseWriter, r *http.Request) {
	w.fetch()
	fmt.Fprintln(rw, "b")
}

func (w *web) fetch() { time.Sleep(3 * time.Millisecond) }

func (w *web) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/a", w.fast)
	mux.HandleFunc("/b", w.slow)
	mux.HandleFunc("/ws", w.upgrade)
	mux.Handle("/debug/pprof/", http.DefaultServeMux)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := time.Now()
		mux.ServeHTTP(rw, r)
		if !strings.HasPrefix(r.URL.Path, "/debug") {
			w.since(start)
		}
	})
}

func (w *web) upgrade(rw http.ResponseWriter, r *http.Request) {
	c, buf, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	if w.upgraded != nil {
		w.upgraded <- struct{}{}
		<-w.begin
	}
	fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n!")
	for {
		line, err := buf.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprint(c, line)
	}
}

func serveHTTP(t *testing.T) (*web, string) {
	t.Helper()
	w := &web{}
	return w, w.serve(t)
}

func (w *web) serve(t *testing.T) (addr string) {
	t.Helper()
	s := httptest.NewServer(w.handler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestHTTPServerWithConnectionsThatAreKeptAlive(t *testing.T) {
	w, addr := serveHTTP(t)
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "http", addr) })
	agrees(t, f, &w.inner, sent, "net/http")
	halves(t, f, sent, "(*web).fast", "(*web).slow")
}

// halves expects half of what was sent to be of each of two endpoints.
func halves(t *testing.T, f *Found, sent []int64, endpoints ...string) {
	t.Helper()
	by := map[string]int{}
	for _, r := range f.Requests {
		by[f.Endpoints[r.Endpoint]]++
	}
	for _, e := range endpoints {
		if n := by[pkg+e]; n < len(sent)/2-5 || n > len(sent)/2+5 {
			t.Errorf("%d requests of %s in %v", n, e, by)
		}
	}
}

func TestNextRequestIsInTheBufferAlready(t *testing.T) {
	w, addr := serveHTTP(t)
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "pipelined", addr) })
	describe(t, f)
	if n, want := len(f.Requests), int(w.n.Load()); n < want-want/50-1 || n > want+want/50+1 {
		t.Errorf("%d found, %d served, %d sent", n, want, len(sent))
	}
}

func TestHijackedConnectionsAreExcluded(t *testing.T) {
	_, addr := serveHTTP(t)
	f := record(t, Options{}, func() { askFromOutside(t, "upgraded", addr) })
	describe(t, f)
	if len(f.Requests) != 0 {
		t.Errorf("%d requests", len(f.Requests))
	}
	if n := excluded(f, classHijacked); n != 4 {
		t.Errorf("%d excluded of 4 connections", n)
	}
}

func TestMessagesAreTheRequestsOnConnectionsTakenOverBeforeTheTrace(t *testing.T) {
	for _, served := range []bool{false, true} {
		t.Run(fmt.Sprintf("with other requests: %v", served), func(t *testing.T) {
			w := &web{upgraded: make(chan struct{}), begin: make(chan struct{})}
			addr := w.serve(t)
			sent := make(chan int)
			go func() { sent <- len(askFromOutside(t, "upgraded", addr)) }()
			for range 4 {
				<-w.upgraded
			}
			var messages int
			f := record(t, Options{}, func() {
				close(w.begin)
				messages = <-sent
				if served {
					askFromOutside(t, "http", addr)
				}
			})
			describe(t, f)
			hijacked := excluded(f, classHijacked)
			if served {
				if hijacked != 4 || len(f.Roles) != 1 || f.Roles[0].Name != "net/http" {
					t.Errorf("%d excluded of 4 connections, roles %v", hijacked, f.Roles)
				}
				return
			}
			if hijacked != 0 || len(f.Roles) != 1 || f.Roles[0].Name != roleTakenOver {
				t.Errorf("%d connections are excluded, roles %v", hijacked, f.Roles)
			}
			if n := len(f.Requests); n < messages-messages/50-1 || n > messages {
				t.Errorf("%d found of %d messages", n, messages)
			}
		})
	}
}

func TestObserversRequestsAreExcluded(t *testing.T) {
	w, addr := serveHTTP(t)
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "observe", addr) })
	agrees(t, f, &w.inner, sent, "net/http")
	if n := excluded(f, classObserver); n < 20 {
		t.Errorf("%d excluded of 21", n)
	}
}

func excluded(f *Found, name string) int {
	for _, c := range f.Excluded {
		if c.Name == name {
			return c.Count
		}
	}
	return 0
}

func TestHTTP2HandlersEndWithTheirLastFrame(t *testing.T) {
	w := &web{}
	s := httptest.NewUnstartedServer(w.handler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	var sent []int64
	f := record(t, Options{}, func() { // client and server in one process: its calls are counted and no requests
		var err error
		sent, err = onEach(4, func() (took []int64, err error) {
			for i := range 100 {
				start := time.Now()
				resp, err := s.Client().Get(s.URL + []string{"/a", "/b"}[i%2])
				if err != nil {
					return took, err
				}
				if resp.ProtoMajor != 2 {
					return took, fmt.Errorf("HTTP/%d", resp.ProtoMajor)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				took = append(took, int64(time.Since(start)))
			}
			return took, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	agrees(t, f, &w.inner, sent, "net/http (HTTP/2)")
	if len(f.Outgoing) == 0 {
		t.Error("no outgoing calls counted")
	}
}

func TestTransportOfTheSameProcessIsNoEntry(t *testing.T) {
	w, addr := serveHTTP(t)
	var sent []int64
	f := record(t, Options{}, func() {
		var err error
		if sent, err = askHTTP(addr, 4, 100); err != nil {
			t.Error(err)
		}
	})
	agrees(t, f, &w.inner, sent, "net/http")
	if len(f.Outgoing) != 1 || f.Outgoing[0].Name != "net/http Transport" || f.Outgoing[0].Count < len(sent)*95/100 || f.Outgoing[0].Count > len(sent)*105/100 {
		t.Errorf("%d calls made, counted %v", len(sent), f.Outgoing)
	}
}

func TestTasksDefineTheRequests(t *testing.T) {
	l := listen(t)
	var m inner
	go accept(l, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			i, _ := strconv.Atoi(strings.TrimSpace(line))
			start := time.Now()
			_, task := trace.NewTask(context.Background(), []string{"even", "odd"}[i%2])
			work(i)
			fmt.Fprint(c, line)
			task.End()
			m.since(start)
		}
	})
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "lines", l.Addr().String()) })
	describe(t, f)
	if len(f.Roles) == 0 || f.Roles[0].Shape != Annotated || f.Roles[0].Count != len(sent) || len(f.Requests) != len(sent) {
		t.Errorf("roles %+v for %d sent", f.Roles, len(sent))
	}
	if len(f.Endpoints) != 2 {
		t.Errorf("endpoints %v", f.Endpoints)
	}
}

func TestFunctionNamedByTheUser(t *testing.T) {
	w, addr := serveHTTP(t)
	f := record(t, Options{Func: regexp.MustCompile(`\(\*web\)\.fetch$`)}, func() { askFromOutside(t, "http", addr) })
	describe(t, f)
	if n, want := len(f.Requests), int(w.n.Load()/2); n != want {
		t.Errorf("%d requests, %d calls", n, want)
	}
	for _, r := range f.Requests {
		if d := time.Duration(r.Duration()); d < 3*time.Millisecond {
			t.Errorf("%v", d)
		}
	}
}
