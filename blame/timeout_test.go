package blame

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/request"
)

// A handler gives up on what it started; what it waited for is where that was.
func TestALiveTimeoutBelongsToTheChildThatWasAwaited(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Millisecond)
		defer cancel()
		answer := make(chan int, 1)
		go func() { answer <- supplier() }()
		select {
		case <-answer:
			t.Error("the supplier was too fast")
		case <-ctx.Done():
		}
	}))
	defer s.Close()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		get(t, s.Client(), s.URL)
	}
	trace.Stop()
	tl := read(t, &b)
	a := Attribute(tl, request.Find(tl, request.Options{}), Options{})
	everything(t, a)
	var awaited, all int64
	for _, r := range a.Requests {
		all += r.D
		for _, p := range r.Pieces {
			if k := a.Keys[p.Key]; k.Kind == Timer && k.Flags&TimedOut != 0 && strings.HasSuffix(a.Sites[k.Site].Func, ".supplier") {
				awaited += p.NS
			}
		}
	}
	if len(a.Requests) < 50 || 2*awaited < all {
		t.Errorf("%d of %d ns in %d requests are the supplier's", awaited, all, len(a.Requests))
	}
}

// Nobody is seen to end a wait at a socket's deadline, but nobody reads after it either.
// Each time the handler asks again is an attempt.
func TestALiveDeadlineOfASocketIsATimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go thirdTime(l)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for err = os.ErrDeadlineExceeded; errors.Is(err, os.ErrDeadlineExceeded); err = ask(c) {
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		get(t, s.Client(), s.URL)
	}
	trace.Stop()
	tl := read(t, &b)
	a := Attribute(tl, request.Find(tl, request.Options{}), Options{})
	everything(t, a)
	late, answered := 0, 0
	for i := range a.Requests {
		for _, x := range a.Attempts(i) {
			switch ask := strings.HasSuffix(a.Sites[x.Site].Func, ".ask"); {
			case ask && x.TimedOut:
				late++
			case ask:
				answered++
			}
		}
	}
	if n := len(a.Requests); n < 50 || late < 2*n || answered < n*9/10 || answered > n {
		t.Errorf("%d time-outs and %d answers in %d requests", late, answered, n)
	}
	var timedOut, all int64
	for _, r := range a.Requests {
		all += r.D
		for _, p := range r.Pieces {
			if k := a.Keys[p.Key]; k.Kind == Network && k.Flags&TimedOut != 0 && strings.HasSuffix(a.Sites[k.Site].Func, ".ask") {
				timedOut += p.NS
			}
		}
	}
	if 2*timedOut < all {
		t.Errorf("%d of %d ns are time-outs", timedOut, all)
	}
}

// ask writes, and then waits 20 ms for an answer.
func ask(c net.Conn) error {
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	return err
}

// thirdTime answers each connection when it is asked for the third time.
func thirdTime(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			if _, err := io.ReadFull(c, make([]byte, 3)); err == nil {
				time.Sleep(time.Millisecond)
				c.Write([]byte("!"))
				io.Copy(io.Discard, c)
			}
		}()
	}
}

// supplier takes far longer than its caller waits.
func supplier() int {
	time.Sleep(time.Second)
	return 1
}
