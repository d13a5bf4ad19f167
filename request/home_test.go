package request

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whylate/whylate/timeline"
)

// times sums the waiting time of goroutines whose root ends in suffix, by the
// application's function in which they wait, and the part of it at home.
func times(f *Found, suffix string) (home, all map[string]timeline.Time) {
	home, all = map[string]timeline.Time{}, map[string]timeline.Time{}
	for i := range f.t.Gs {
		g := &f.t.Gs[i]
		if !strings.HasSuffix(g.Root(), suffix) {
			continue
		}
		for _, s := range g.Segs() {
			fr, ok := AppFrame(f.t.Stacks.Frames(s.Stack))
			if s.Kind != timeline.Waiting || !ok {
				continue
			}
			name := fr.Func[strings.LastIndexByte(fr.Func, '.')+1:]
			all[name] += s.End - s.Start
			if f.Home(timeline.GID(i), s) {
				home[name] += s.End - s.Start
			}
		}
	}
	return home, all
}

// refresher sleeps, and then works for a while under a lock that others want.
type refresher struct {
	mu   sync.Mutex
	stop chan struct{}
}

func (r *refresher) loop() {
	for range 30 {
		time.Sleep(9 * time.Millisecond)
		r.refresh()
	}
	close(r.stop)
}

func (r *refresher) refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
}

func TestHomeOfALoopIsItsSleepAndNotItsWork(t *testing.T) {
	r := &refresher{stop: make(chan struct{})}
	f := record(t, Options{}, func() {
		go r.loop()
		for range 3 {
			go func() {
				for {
					select {
					case <-r.stop:
						return
					case <-time.After(2 * time.Millisecond):
					}
					r.mu.Lock()
					//lint:ignore SA2001 only the wait counts
					r.mu.Unlock()
				}
			}()
		}
		<-r.stop
	})
	home, all := times(f, "(*refresher).loop")
	if all["loop"] == 0 || 10*home["loop"] < 9*all["loop"] || home["refresh"] != 0 || all["refresh"] == 0 {
		t.Errorf("at home %v of %v", home, all)
	}
}

// batcher answers what it collected whenever its timer fires.
type batcher struct{ in chan chan int }

func (b *batcher) loop() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var waiting []chan int
	for {
		select {
		case c, ok := <-b.in:
			if !ok {
				return
			}
			waiting = append(waiting, c)
		case <-tick.C:
			for _, c := range waiting {
				c <- 1
			}
			waiting = waiting[:0]
		}
	}
}

func (b *batcher) ask() {
	c := make(chan int, 1)
	b.in <- c
	<-c
}

func TestTimerOfABatcherIsNoHomeIfOthersWaitForIt(t *testing.T) {
	b := &batcher{make(chan chan int)}
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { b.ask() }))
	defer s.Close()
	f := record(t, Options{}, func() {
		go b.loop()
		askFromOutside(t, "http", s.Listener.Addr().String())
		close(b.in)
	})
	// It is at home only while nobody waits: clients start, and think.
	n, at := 0, 0
	for i := range f.Requests {
		r := &f.Requests[i]
		if r.Duration() < 5e6 {
			continue
		}
		for g := range f.t.Gs {
			if !strings.HasSuffix(f.t.Gs[g].Root(), "(*batcher).loop") {
				continue
			}
			b := &f.t.Gs[g]
			if k := b.SegmentAt((r.Start() + r.End()) / 2); k < b.Len() && b.Seg(k).Kind == timeline.Waiting {
				if n++; f.Home(timeline.GID(g), b.Seg(k)) {
					at++
				}
			}
		}
	}
	// Beside other programs a request may be long because its answer was written late.
	if at > n/10 {
		t.Errorf("at home during %d of %d requests", at, n)
	}
	if home, all := times(f, "(*batcher).loop"); n == 0 {
		t.Errorf("at home %v of %v", home, all)
	}
}

// worker is fed through a channel and is busy most of the time.
type worker struct{ in chan func() }

func (w *worker) loop() {
	for f := range w.in {
		f()
	}
}

func TestHomeOfABusyWorkerIsItsChannelAndJobsHaveNone(t *testing.T) {
	w := &worker{make(chan func(), 100)}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		done := make(chan int)
		w.in <- func() { time.Sleep(300 * time.Microsecond); close(done) }
		<-done
		once(done)
	}))
	defer s.Close()
	go w.loop()
	defer close(w.in)
	f := record(t, Options{}, func() { askFromOutside(t, "http", s.Listener.Addr().String()) })
	home, all := times(f, "(*worker).loop")
	if home["loop"] == 0 || home["func1"] != 0 || len(home) != 1 {
		t.Errorf("at home %v of %v", home, all)
	}
	if home, all := times(f, "request.once.func1"); len(home) != 0 || len(all) == 0 {
		t.Errorf("jobs at home %v of %v", home, all)
	}
}

// once does something on a goroutine of its own.
func once(done chan int) {
	c := make(chan int)
	go func() {
		time.Sleep(100 * time.Microsecond)
		close(c)
	}()
	<-c
}

func TestServersWhoseConnectionsTakeOneRequestEach(t *testing.T) {
	l, s := listen(t), &lineServer{}
	go accept(l, func(c net.Conn) {
		defer c.Close()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return
		}
		start := time.Now()
		i, _ := strconv.Atoi(strings.TrimSpace(line))
		work(i)
		fmt.Fprintf(c, "%d\n", i)
		s.since(start)
	})
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "calls", l.Addr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"TestServersWhoseConnectionsTakeOneRequestEach.func1")
}

// A few goroutines each serve one connection after the other, which they accept themselves, or get from who accepts it; for each they
// ask somebody else, too, on a connection of their own.
func TestConnectionsThatAreServedInTurn(t *testing.T) {
	const workers = 12
	for _, handed := range []bool{false, true} {
		l, s, peer := listen(t), &lineServer{}, listen(t)
		go accept(peer, func(c net.Conn) {
			defer c.Close()
			for b := make([]byte, 1); ; {
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				time.Sleep(2 * time.Millisecond)
				c.Write(b)
			}
		})
		conns := make(chan net.Conn, 100)
		for range workers {
			p, err := net.Dial("tcp", peer.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if handed {
				go s.serveFrom(conns, p)
			} else {
				go s.serveAll(l, p)
			}
		}
		if handed {
			go acceptFor(l, conns)
		}
		var sent []int64
		f := record(t, Options{}, func() { sent = askFromOutside(t, "calls", l.Addr().String()) })
		close(conns)
		want := map[bool]string{false: "(*lineServer).serveAll", true: "acceptFor"}[handed]
		n, took := 0, timeline.Time(0)
		for _, r := range f.Requests {
			if f.Roles[r.Role].Name == pkg+want {
				n, took = n+1, took+r.Duration()
			}
		}
		server := timeline.Time(s.ns.Load())
		least := len(sent) - len(sent)/50
		if handed {
			least -= workers // of the wait in which the trace begins it has no stack
		}
		if n < least || n > len(sent)+len(sent)/50 || took < server-server/20 || took > server+server/4 {
			t.Errorf("handed over: %v: %d of %d found, of %v ms, the server measured %v: %+v", handed, n, len(sent), took/1e6, server/1e6, f.Roles)
		}
	}
}

func (s *lineServer) serveAll(l net.Listener, peer net.Conn) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.answer(c, peer)
	}
}

func acceptFor(l net.Listener, to chan<- net.Conn) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		to <- c
	}
}

func (s *lineServer) serveFrom(conns <-chan net.Conn, peer net.Conn) {
	for c := range conns {
		s.answer(c, peer)
	}
}

func (s *lineServer) answer(c, peer net.Conn) {
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return
	}
	start := time.Now()
	b := []byte{1}
	peer.Write(b)
	io.ReadFull(peer, b)
	fmt.Fprint(c, line)
	s.since(start)
}

// The client closes each connection after its answer: the read that finds this is no request. Nor are connections that bring none.
func TestConnectionsThatEndAfterOneRequest(t *testing.T) {
	l, s := listen(t), &lineServer{}
	go accept(l, func(c net.Conn) {
		defer c.Close()
		for lines := bufio.NewScanner(c); lines.Scan(); {
			start := time.Now()
			i, _ := strconv.Atoi(lines.Text())
			work(i)
			fmt.Fprintf(c, "%d\n", i)
			s.since(start)
		}
	})
	var sent []int64
	f := record(t, Options{}, func() {
		for range 5 {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		sent = askFromOutside(t, "calls", l.Addr().String())
	})
	agrees(t, f, &s.inner, sent, pkg+"TestConnectionsThatEndAfterOneRequest.func1")
}

func TestConnectionsThatWaitedBeforeTheTraceBegan(t *testing.T) {
	w, addr := serveHTTP(t)
	var conns []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	ask := func() {
		for _, c := range conns {
			fmt.Fprintf(c, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Error(err)
			} else {
				resp.Body.Close()
			}
		}
	}
	ask()
	f := record(t, Options{}, ask)
	describe(t, f)
	if n := int(w.n.Load()) / 2; len(f.Requests) != n {
		t.Errorf("%d requests of %d", len(f.Requests), n)
	}
}
