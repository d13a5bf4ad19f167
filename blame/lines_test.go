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
	var b [1]byte
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
	var b [1]byte
	for answer := range l.asked {
		_, _ = l.Write(b[:])
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

// isPeer has the test's program be a peer, in another process, that answers each byte after a millisecond.
const isPeer = "WHYLATE_TEST_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(isPeer) != "" {
		fmt.Fprintln(os.Stderr, bePeer())
		os.Exit(1)
	}
	os.Exit(m.Run())
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
				time.Sleep(time.Millisecond)
				if _, err := conn.Write(b[:]); err != nil {
					return
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
