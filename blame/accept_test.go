package blame

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// napping is a listener that sleeps behind every third connection.
type napping struct {
	net.Listener
	n int
}

const nap = 30 * time.Millisecond

func (l *napping) Accept() (net.Conn, error) {
	if l.n++; l.n%3 == 0 {
		l.nap()
	}
	return l.Listener.Accept()
}

func (l *napping) nap() { time.Sleep(nap) }

// One client of three comes while who accepts is away, and waits for him; the others
// come when he is there.
func TestALiveListenerThatIsAwayLetsConnectionsWait(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Listener = &napping{Listener: s.Listener}
	s.Start()
	defer s.Close()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	const requests = 60
	for range requests {
		get(t, c, s.URL)
	}
	trace.Stop()
	tl := read(t, &b)
	a := Attribute(tl, request.Find(tl, request.Options{}), Options{})
	if len(a.f.Roles) == 0 {
		t.Fatal("no requests")
	}
	late, elsewhere := 0, 0 // beside others, threads are late anywhere
	for _, x := range a.Accepts(0) {
		switch {
		case x.Waited < timeline.Time(time.Millisecond):
		case strings.HasSuffix(a.Sites[x.Away].Func, ".nap"):
			late++
		default:
			elsewhere++
		}
	}
	if n := len(a.Accepts(0)); n < requests-1 || late < requests/4 || late > requests/2 || elsewhere > late {
		t.Errorf("%d of %d connections waited for the nap, %d for something else", late, n, elsewhere)
	}
}
