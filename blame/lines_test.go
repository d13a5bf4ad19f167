package blame

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/trace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// line is a connection to a peer that many use.
type line struct {
	net.Conn
	mu    sync.Mutex
	asked chan chan struct{}
}

// read gives each who asked his answer: they come in order.
func (l *line) read() {
	var b [pieces]byte
	for {
		if _, err := io.ReadFull(l, b[:]); err != nil {
			return
		}
		(<-l.asked) <- struct{}{}
	}
}

func (l *line) ask(answer chan struct{}) {
	l.mu.Lock()
	l.asked <- answer
	_, _ = l.Write([]byte{1})
	l.mu.Unlock()
	<-answer
}

// carry asks for one after the other.
func (l *line) carry() {
	var b [pieces]byte
	for answer := range l.asked {
		_, _ = l.Write(b[:1])
		if _, err := io.ReadFull(l, b[:]); err != nil {
			return
		}
		answer <- struct{}{}
	}
}

func (l *line) hand(answer chan struct{}) {
	l.asked <- answer
	<-answer
}

// pieces is how many bytes an answer is, which come one by one.
const pieces = 4

// isPeer has the test's program be a peer, in another process, that answers each byte within milliseconds; asksAt has it be a
// client of such an address.
const isPeer, asksAt = "WHYLATE_TEST_PEER", "WHYLATE_TEST_CLIENT"

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(isPeer) != "":
		err = bePeer()
	case os.Getenv(asksAt) != "":
		err = beClient(os.Getenv(asksAt))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beClient sends datagrams, five at a time, and reads the answers to them.
func beClient(addr string) error {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	var b [1]byte
	for range 20 {
		for range 5 {
			if _, err := conn.Write(b[:]); err != nil {
				return err
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		for range 5 {
			if _, err := conn.Read(b[:]); err != nil {
				return err
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// bePeer never returns but for an error.
func bePeer() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			var b [1]byte
			for {
				if _, err := io.ReadFull(conn, b[:]); err != nil {
					return
				}
				for range pieces {
					time.Sleep(time.Millisecond / 4)
					if _, err := conn.Write(b[:]); err != nil {
						return
					}
				}
			}
		}()
	}
}

// peer starts one, and returns its address.
func peer(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), isPeer+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // its context ends before
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(addr)
}

// Who reads the answers of a connection for which somebody always waits is told from a worker that is never idle: that writes
// the questions, too.
func TestReadersOfBusyConnectionsAreToldFromBusyWorkers(t *testing.T) {
	for _, c := range []struct {
		name  string
		root  string
		serve func(*line)
		ask   func(*line, chan struct{})
		reads bool
	}{
		{"readers", "github.com/whylate/whylate/blame.(*line).read", (*line).read, (*line).ask, true},
		{"workers", "github.com/whylate/whylate/blame.(*line).carry", (*line).carry, (*line).hand, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := peer(t)
			lines := make([]*line, 3)
			for i := range lines {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				lines[i] = &line{Conn: conn, asked: make(chan chan struct{}, 8)}
				defer close(lines[i].asked)
				go c.serve(lines[i])
			}
			var n atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				c.ask(lines[n.Add(1)%3], make(chan struct{}, 1))
			}))
			defer s.Close()
			client := s.Client()
			client.Transport.(*http.Transport).MaxIdleConnsPerHost = 12
			var trc bytes.Buffer
			if err := trace.Start(&trc); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() {
					for range 40 {
						resp, err := client.Get(s.URL)
						if err != nil {
							t.Error(err)
							return
						}
						resp.Body.Close()
					}
				})
			}
			all.Wait()
			trace.Stop()
			tl := read(t, &trc)
			a := Attribute(tl, request.Find(tl, request.Options{}), Options{})
			known := 0
			for g := range tl.Gs {
				if me := &tl.Gs[g]; me.Root() == c.root {
					known++
					if got := a.NetworkHome(a.ClassAt(timeline.GID(g), me.Start())); got != c.reads {
						t.Errorf("reads answers: %v", got)
					}
				}
			}
			if known != 3 {
				t.Errorf("%d of them are known", known)
			}
		})
	}
}

// A server that starts a goroutine for each datagram, and waits for a permit before that, waits for what other requests
// give back, not for children of its own.
func TestPermitsOfAServersGoroutinesAreGivenBackByRequests(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	permits, done := make(chan struct{}, 2), make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 16)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			permits <- struct{}{}
			question := bytes.Clone(b[:n])
			go func() {
				defer func() { <-permits }()
				time.Sleep(2 * time.Millisecond)
				_, _ = conn.WriteTo(question, from)
			}()
		}
	}()
	var trc bytes.Buffer
	if err := trace.Start(&trc); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asksAt+"="+conn.LocalAddr().String())
	out, err := cmd.CombinedOutput()
	trace.Stop()
	conn.Close()
	<-done
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tl := read(t, &trc)
	a := Attribute(tl, request.Find(tl, request.Options{}), Options{})
	n := 0
	for site := range a.Sites {
		if s := &a.Sites[site]; s.Func == "github.com/whylate/whylate/blame.TestPermitsOfAServersGoroutinesAreGivenBackByRequests.func1" && len(a.releases[SiteID(site)]) >= 20 {
			n++
			if q := a.Queue(SiteID(site)); q.Peers < 0.9 || q.Children > 0.1 {
				t.Errorf("%d waits: %.2f of them ended by other requests, %.2f by children", q.Waits, q.Peers, q.Children)
			}
		}
	}
	if n == 0 {
		t.Errorf("nobody waits for a permit; found %v", a.f.Roles)
	}
}
