package blame

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whylate/whylate/request"
)

// halves is a body that is read in two parts, the second one after 5 ms.
func halves() io.Reader {
	return io.MultiReader(strings.NewReader(strings.Repeat("x", 1000)), &later{}, strings.NewReader(strings.Repeat("y", 1000)))
}

type later struct{}

func (*later) Read([]byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return 0, io.EOF
}

// What a live server waits for its own client is that, whatever the protocol: a pause
// in the middle of a body, or before the answer is read.
func TestALiveServersWaitsForItsClientAreKnown(t *testing.T) {
	upload := func(t *testing.T, c *http.Client, url string, _ *atomic.Int64) {
		resp, err := c.Post(url, "text/plain", halves())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	visit := func(t *testing.T, c *http.Client, url string, written *atomic.Int64) {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		// The client takes nothing until the server can send no more. How long the
		// server needs to fill what lies between them depends on the machine.
		for before := int64(-1); before != written.Load(); {
			before = written.Load()
			time.Sleep(25 * time.Millisecond)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for _, c := range []struct {
		name  string
		http2 bool
		do    func(t *testing.T, c *http.Client, url string, written *atomic.Int64)
	}{
		{"a body over HTTP/1", false, upload},
		{"a body over HTTP/2", true, upload},
		{"an answer over HTTP/1", false, visit},
		{"an answer over HTTP/2", true, visit},
	} {
		t.Run(c.name, func(t *testing.T) {
			var written atomic.Int64
			part := make([]byte, 64<<10)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if r.Method == http.MethodGet {
					for range 128 {
						n, _ := w.Write(part)
						written.Add(int64(n))
					}
				}
			}))
			s.EnableHTTP2 = c.http2
			if c.http2 {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			client := s.Client()
			client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err == nil {
					err = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
				}
				return conn, err
			}
			var b bytes.Buffer
			if err := trace.Start(&b); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				c.do(t, client, s.URL, &written)
			}
			trace.Stop()
			tl := read(t, &b)
			a := Attribute(tl, request.Find(tl, request.Options{}), Options{})
			everything(t, a)
			var inbound, other, all int64
			n := 0
			for _, r := range a.Requests {
				if !strings.HasPrefix(a.f.Roles[a.f.Requests[r.Request].Role].Name, "net/http") {
					continue
				}
				n, all = n+1, all+r.D
				for _, p := range r.Pieces {
					switch k := a.Keys[p.Key]; {
					case k.Kind == Network && k.Flags&Inbound != 0 && a.Sites[k.Site].Kind == SiteInbound:
						inbound += p.NS
					case k.Kind == Network:
						other += p.NS
					}
				}
			}
			if n < 18 || inbound < int64(n)*2e6 || 10*other > all { // of 5 and 25 ms
				t.Errorf("%d requests wait for %d of %d ns for their client, for %d ns for others", n, inbound, all, other)
			}
		})
	}
}
