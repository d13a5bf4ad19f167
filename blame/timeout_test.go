package blame

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
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

// supplier takes far longer than its caller waits.
func supplier() int {
	time.Sleep(time.Second)
	return 1
}
