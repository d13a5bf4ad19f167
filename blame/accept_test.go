package blame

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
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

// Three clients come while who accepts is away, and wait for him; one comes when he
// is there. What is taken for their waits together is about what they waited.
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
	late := 0
	for _, x := range a.Accepts(0) {
		if x.Waited < timeline.Time(time.Millisecond) {
			continue
		}
		late++
		if x.Waited > timeline.Time(10*nap) || a.Sites[x.Away].Func[len(a.Sites[x.Away].Func)-4:] != ".nap" {
			t.Errorf("%v in %s", time.Duration(x.Waited), a.Sites[x.Away].Func)
		}
	}
	if n := len(a.Accepts(0)); n < requests-1 || late < requests/4 || late > requests/2 {
		t.Errorf("%d of %d connections waited", late, n)
	}
}
