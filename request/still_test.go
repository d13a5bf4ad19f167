package request

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whylate/whylate/gotrace"
)

// standing counts the goroutines of net/http's handlers that wait for a lock or a channel.
func standing() int {
	buf := make([]byte, 1<<20)
	n := 0
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(g, "net/http.HandlerFunc.ServeHTTP") && (strings.Contains(head, "[sync.Mutex.Lock") || strings.Contains(head, "[chan receive")) {
			n++
		}
	}
	return n
}

// A service whose requests stand still for all of a recording does nothing that a trace could hold.
func TestRequestsOfAServiceThatStandsStillHang(t *testing.T) {
	const stuck, subscribed = 3, 2
	var lock sync.Mutex
	lock.Lock()
	done := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(stuck + subscribed)
	mux := http.NewServeMux()
	mux.HandleFunc("/cart", func(http.ResponseWriter, *http.Request) {
		inside.Done()
		lock.Lock()
		defer lock.Unlock()
	})
	mux.HandleFunc("/news", func(http.ResponseWriter, *http.Request) {
		inside.Done()
		<-done
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	var clients sync.WaitGroup
	for i := range stuck + subscribed {
		clients.Go(func() {
			path := "/cart"
			if i >= stuck {
				path = "/news"
			}
			if r, err := http.Get(s.URL + path); err == nil {
				r.Body.Close()
			}
		})
	}
	inside.Wait()
	for standing() < stuck+subscribed {
		runtime.Gosched()
	}
	f := record(t, Options{}, func() { time.Sleep(50 * time.Millisecond) })
	lock.Unlock()
	close(done)
	clients.Wait()

	hang := 0
	for _, r := range f.Requests {
		if r.InFlight && r.Start() == f.t.Start && r.End() == f.t.End && f.Roles[r.Role].Name == "net/http" {
			hang++
		}
	}
	stand := 0
	for _, s := range f.Still {
		stand += s.N
	}
	if hang != stuck || stand != subscribed {
		t.Errorf("%d of %d hang, and %d of %d stand still: %+v, %+v", hang, stuck, stand, subscribed, f.Requests, f.Still)
	}
}

// A request that waited for a lock when the trace began, and on for long, is late for at least that time.
func TestRequestsThatWaitedBeforeTheTraceCount(t *testing.T) {
	const writer, late, soon = 1, 2, 3
	lock := []string{"sync.(*RWMutex).RLock", "main.show", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
	for name, c := range map[string]struct {
		first bool
		want  int
	}{"where it begins": {true, 1}, "in a later part": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			b := newScript(t)
			b.do(b.Busy(0))
			inside, home := b.Stack(lock...), b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek", "net/http.(*conn).serve")
			writes := b.Stack("syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write", "net/http.(*conn).serve")
			b.do(b.Waits(late, "", inside))
			b.do(b.Waits(soon, "", inside))
			b.do(b.Runs(writer, 0, 0))
			release := func(g gotrace.GoID) {
				b.do(b.Wakes(writer, 0, g, b.Stack("sync.(*RWMutex).Unlock", "main.load")))
				b.do(b.Yields(writer, "preempted", b.Stack("main.load")))
				b.do(b.Runs(g, 0, 0))
				b.do(b.Calls(g, writes))
				b.pass(1e3)
				b.do(b.Returns(g))
				b.do(b.Waits(g, "network", home))
				b.do(b.Runs(writer, 0, 0))
			}
			b.pass(1e6)
			release(soon)
			b.pass(300e6)
			release(late)
			b.pass(1e6)
			for range 3 { // usual ones
				b.do(b.Yields(writer, "preempted", b.Stack("main.load")))
				b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, late, 0))
				b.do(b.Runs(late, 0, 0))
				b.do(b.Calls(late, home))
				b.pass(1e3)
				b.do(b.Returns(late))
				b.do(b.Calls(late, writes))
				b.pass(1e3)
				b.do(b.Returns(late))
				b.do(b.Waits(late, "network", home))
				b.do(b.Runs(writer, 0, 0))
				b.pass(1e6)
			}
			tl := b.read()
			tl.First = c.first
			f := Find(tl, Options{})
			n := 0
			for _, r := range f.Requests {
				if r.Start() == tl.Start && !r.InFlight && r.Duration() > 300e6 {
					n++
				}
			}
			if n != c.want || len(f.Requests) != n+3 {
				t.Errorf("%d are late, want %d: %+v", n, c.want, f.Requests)
			}
		})
	}
}
