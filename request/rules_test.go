package request

import (
	"bufio"
	"expvar"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whylate/whylate/gotrace"
)

func TestRareSlowPathIsNoEndpointOfItsOwn(t *testing.T) {
	rare := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { time.Sleep(10 * time.Millisecond) })
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n.Add(1)%50 == 0 {
			rare.ServeHTTP(rw, r)
			return
		}
		time.Sleep(time.Millisecond)
	}))
	defer s.Close()
	f := record(t, Options{}, func() { askFromOutside(t, "http", s.Listener.Addr().String()) })
	if want := pkg + "TestRareSlowPathIsNoEndpointOfItsOwn.func2"; len(f.Endpoints) != 1 || f.Endpoints[0] != want {
		t.Errorf("endpoints %q, want %q", f.Endpoints, want)
	}
}

func TestRequestsBehindAMiddlewareAreToldApart(t *testing.T) {
	w := &web{}
	inner := w.handler()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Microsecond) // an event of the middleware's own
		inner.ServeHTTP(rw, r)
	}))
	defer s.Close()
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "http", s.Listener.Addr().String()) })
	halves(t, f, sent, "(*web).fast", "(*web).slow") // what the middleware does says nothing against either
}

// A handler that a library has ready is an endpoint, whatever of the program it calls.
func TestHandlersOfLibrariesAreEndpoints(t *testing.T) {
	if expvar.Get(t.Name()) == nil { // it is for ever
		expvar.Publish(t.Name(), expvar.Func(func() any {
			time.Sleep(time.Millisecond)
			return 1
		}))
	}
	w, mux := &web{}, http.NewServeMux()
	mux.Handle("/a", expvar.Handler())
	mux.HandleFunc("/b", w.slow)
	s := httptest.NewServer(mux)
	defer s.Close()
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "http", s.Listener.Addr().String()) })
	by := map[string]int{}
	for _, r := range f.Requests {
		by[f.Endpoints[r.Endpoint]]++
	}
	for _, e := range []string{"expvar.expvarHandler", pkg + "(*web).slow"} {
		if n := by[e]; n < len(sent)/2-5 || n > len(sent)/2+5 {
			t.Errorf("%d requests of %s in %v", n, e, by)
		}
	}
}

// A listener that looks at what comes in first, as one for several protocols does.
type peeking struct{ net.Listener }

type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

func (l peeking) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	_, _ = r.Peek(4)
	return &peeked{c, r}, nil
}

// A request that was read before its connection was accepted begins with the connection's goroutine.
func TestRequestsThatTheListenerHasRead(t *testing.T) {
	for _, alive := range []bool{true, false} {
		w := &web{}
		s := httptest.NewUnstartedServer(w.handler())
		s.Config.SetKeepAlivesEnabled(alive)
		s.Listener = peeking{s.Listener}
		s.Start()
		var sent []int64
		f := record(t, Options{}, func() { sent = askFromOutside(t, "http", s.Listener.Addr().String()) })
		s.Close()
		if n, want := len(f.Requests), int(w.n.Load()); n < want-want/50-1 || n > want+want/50+1 {
			t.Errorf("kept alive: %v: %d found, %d served, %d sent", alive, n, want, len(sent))
		}
	}
}

// Below net/http's TimeoutHandler handlers run on goroutines of their own, also where it is nested.
func TestRequestsBehindATimeoutAreToldApart(t *testing.T) {
	for _, depth := range []int{1, 2} {
		w := &web{}
		h := w.handler()
		for range depth {
			h = http.TimeoutHandler(h, time.Second, "late")
		}
		s := httptest.NewServer(h)
		var sent []int64
		f := record(t, Options{}, func() { sent = askFromOutside(t, "http", s.Listener.Addr().String()) })
		s.Close()
		t.Logf("%d times", depth)
		halves(t, f, sent, "(*web).fast", "(*web).slow")
	}
}

// copying serves requests, and copies each to another handler without waiting for that.
type copying struct{ to http.Handler }

func (c *copying) short(rw http.ResponseWriter, r *http.Request) {
	go c.to.ServeHTTP(nil, r)
	time.Sleep(200 * time.Microsecond)
}

func (c *copying) long(rw http.ResponseWriter, r *http.Request) {
	go c.to.ServeHTTP(nil, r)
	time.Sleep(time.Millisecond)
}

// What a handler starts and does not wait for says nothing of what the request is.
func TestACopyOfARequestForAnotherHandlerIsNotTheRequest(t *testing.T) {
	c := &copying{http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(200 * time.Microsecond) })}
	mux := http.NewServeMux()
	mux.HandleFunc("/a", c.short)
	mux.HandleFunc("/b", c.long)
	s := httptest.NewServer(mux)
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "http", s.Listener.Addr().String()) })
	s.Close()
	halves(t, f, sent, "(*copying).short", "(*copying).long")
}

func TestRequestsInFlightAreLowerBounds(t *testing.T) {
	release, entered := make(chan int), make(chan int)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		entered <- 1
		<-release
	}))
	defer s.Close()
	f := record(t, Options{}, func() {
		go func() {
			if resp, err := http.Get(s.URL); err == nil {
				resp.Body.Close()
			}
		}()
		<-entered
		time.Sleep(20 * time.Millisecond)
	})
	close(release)
	if len(f.Requests) != 1 || !f.Requests[0].InFlight || f.Requests[0].Duration() < 20e6 || f.Roles[0].Count != 0 {
		t.Errorf("%+v %+v", f.Requests, f.Roles)
	}
}

func TestLongPollsAreExcluded(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/poll", func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(1100 * time.Millisecond):
		}
	})
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) { time.Sleep(time.Millisecond) })
	s := httptest.NewServer(mux)
	defer s.Close()
	f := record(t, Options{}, func() {
		visit(t, 4, s.URL, "/", "/poll", "/")
	})
	if len(f.Requests) != 8 || excluded(f, classPoll) != 4 {
		t.Errorf("%d requests, excluded %v", len(f.Requests), f.Excluded)
	}
}

func TestDatagramsThatComeTogetherStartAtTheirOwnReads(t *testing.T) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := &datagramServer{c: c}
	go s.read()
	var sent []int64
	f := record(t, Options{}, func() { sent = askFromOutside(t, "bursts", c.LocalAddr().String()) })
	agrees(t, f, &s.inner, sent, pkg+"(*datagramServer).read")
}

func TestRegionsDefineTheRequestsIfThereAreNoTasks(t *testing.T) {
	f := record(t, Options{}, regions)
	if len(f.Roles) != 1 || f.Roles[0].Shape != Annotated || f.Roles[0].Count != 60 || f.Endpoints[0] != "job" {
		t.Errorf("%+v %v", f.Roles, f.Endpoints)
	}
}

func TestAppFrameIsTheInnermostOfTheApplication(t *testing.T) {
	for _, c := range []struct{ stack, want string }{
		{"runtime.chanrecv1 main.(*pool).get main.main", "main.(*pool).get"},
		{"net.(*conn).Read bufio.(*Reader).fill github.com/redis/go-redis/v9.(*baseClient).Process example.com/app.Load net/http.(*conn).serve", "example.com/app.Load"},
		{"sync.(*Mutex).Lock app/cache.(*Cache[go.shape.string]).Get", "app/cache.(*Cache[go.shape.string]).Get"},
		{"slices.SortFunc[go.shape.[]example.com/x.T] runtime.goexit", ""},
		{"vendor/golang.org/x/net/http2.f type:.eq.main.T go.shape.int", ""},
		{"main._Cfunc_pack main.encode", "main.encode"},
		{"", ""},
	} {
		var frames []gotrace.Frame
		for _, name := range strings.Fields(c.stack) {
			frames = append(frames, gotrace.Frame{Func: name})
		}
		f, ok := AppFrame(frames)
		if f.Func != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v", c.stack, f.Func, ok)
		}
	}
}

func TestModulesOfAProgramAreNotTheApplication(t *testing.T) {
	const cache, trimmed, vendored, own = "/go/pkg/mod/a.org/kv@v1.4.3/db.go", "a.org/kv@v1.4.3/db.go", "/src/shop/vendor/a.org/kv/db.go", "/src/shop/store.go"
	frame := func(fn, file string) gotrace.Frame { return gotrace.Frame{Func: fn, File: file} }
	for _, c := range []struct {
		rule   string
		frames []gotrace.Frame
		want   string
	}{
		{"the program called it", []gotrace.Frame{frame("os.(*File).Sync", ""), frame("a.org/kv.(*DB).Update", cache), frame("shop.(*store).put", own), frame("net/http.(*conn).serve", "")}, "shop.(*store).put"},
		{"built with -trimpath", []gotrace.Frame{frame("a.org/kv.(*DB).Update", trimmed), frame("main.put", own)}, "main.put"},
		{"vendored", []gotrace.Frame{frame("a.org/kv.(*DB).Update", vendored), frame("main.put", own)}, "main.put"},
		{"a callback", []gotrace.Frame{frame("main.put.func1", own), frame("a.org/kv.(*DB).Update", cache), frame("main.put", own)}, "main.put.func1"},
		{"a goroutine of its own", []gotrace.Frame{frame("time.Sleep", ""), frame("a.org/kv.(*DB).sweep", cache), frame("a.org/kv.(*DB).loop", cache)}, "a.org/kv.(*DB).sweep"},
		{"its handler, in a wrapper", []gotrace.Frame{frame("a.org/kv.read", cache), frame("a.org/kv.(*API).ServeHTTP", cache), frame("main.logged.func1", own), frame("net/http.HandlerFunc.ServeHTTP", "")}, "a.org/kv.read"},
		{"its handling function, in a wrapper", []gotrace.Frame{frame("a.org/kv.handle", cache), frame("net/http.HandlerFunc.ServeHTTP", ""), frame("main.logged.func1", own)}, "a.org/kv.handle"},
		{"a router between", []gotrace.Frame{frame("time.Sleep", ""), frame("github.com/go-chi/chi/v5.(*Mux).routeHTTP", ""), frame("main.logged.func1", own)}, "main.logged.func1"},
	} {
		if f, ok := AppFrame(c.frames); f.Func != c.want || !ok {
			t.Errorf("%s: %q, %v, want %q", c.rule, f.Func, ok, c.want)
		}
	}
}

func TestCallersAreOfTheProgramAndInsideOfItsHandler(t *testing.T) {
	const cache, mine = "/go/pkg/mod/a.org/kv@v1.4.3/db.go", "/src/shop/store.go"
	frame := func(fn, file string) gotrace.Frame { return gotrace.Frame{Func: fn, File: file} }
	send, get, price, logged := frame("net/http.send", ""), frame("client.get", mine), frame("main.price", mine), frame("main.logged", mine)
	for _, c := range []struct {
		rule   string
		frames []gotrace.Frame
		want   string
	}{
		{"the innermost first", []gotrace.Frame{send, get, price}, "client.get main.price"},
		{"what the library calls back passes on", []gotrace.Frame{frame("main.(*counting).RoundTrip", mine), send, price}, "main.price"},
		{"a module is not the program", []gotrace.Frame{send, frame("a.org/kv.Get", cache), price}, "main.price"},
		{"a module's router ends the handler", []gotrace.Frame{send, price, frame("a.org/kv.(*Router).ServeHTTP", cache), logged}, "main.price"},
		{"nothing else is there", []gotrace.Frame{frame("main.(*counting).RoundTrip", mine), send, frame("a.org/kv.Get", cache)}, "main.(*counting).RoundTrip"},
		{"nothing of its own", []gotrace.Frame{send, frame("a.org/kv.Get", cache)}, ""},
	} {
		var got []string
		for _, f := range Callers(c.frames) {
			got = append(got, f.Func)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.rule, s, c.want)
		}
	}
}

func TestStandardLibraryOfThisToolchainIsKnown(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	dirs, err := os.ReadDir(filepath.Join(strings.TrimSpace(string(root)), "src"))
	if err != nil {
		t.Skip("no sources of the standard library: ", err)
	}
	for _, d := range dirs {
		if d.IsDir() && d.Name() != "cmd" && d.Name() != "builtin" && d.Name() != "testdata" && !standardRoots[d.Name()] {
			t.Errorf("%s is not known", d.Name())
		}
	}
}

func TestPackageOf(t *testing.T) {
	for name, want := range map[string]string{
		"main.main":                                  "main",
		"net/http.(*conn).serve":                     "net/http",
		"a.b/c.Map[go.shape.x/y.T].func1":            "a.b/c",
		"gopkg.in/yaml%2ev3.Unmarshal":               "gopkg.in/yaml%2ev3",
		"github.com/a/b.(*T[github.com/c/d.E]).M-fm": "github.com/a/b",
	} {
		if got := PackageOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func ExampleAppFrame() {
	f, ok := AppFrame([]gotrace.Frame{{Func: "time.Sleep"}, {Func: "main.(*cache).refresh", File: "cache.go", Line: 88}})
	fmt.Println(f.Func, f.Line, ok)
	// Output: main.(*cache).refresh 88 true
}

// visit has so many clients at a time get these paths one after the other.
func visit(t *testing.T, clients int, url string, paths ...string) {
	t.Helper()
	_, err := onEach(clients, func() ([]int64, error) {
		for _, path := range paths {
			resp, err := http.Get(url + path)
			if err != nil {
				return nil, err
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFastRequestsNobodySawAreGuesses(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/report", func(rw http.ResponseWriter, r *http.Request) { time.Sleep(20 * time.Millisecond) })
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {})
	s := httptest.NewServer(mux)
	defer s.Close()
	f := record(t, Options{}, func() {
		visit(t, 4, s.URL, "/", "/", "/report", "/", "/")
	})
	report := pkg + "TestFastRequestsNobodySawAreGuesses.func1"
	for _, r := range f.Requests {
		switch fast, name := r.Duration() < 20e6, f.Endpoints[r.Endpoint]; {
		case !fast && (r.Guessed || name != report):
			t.Errorf("a report is taken for %s, guessed: %v", name, r.Guessed)
		case fast && name == report && !r.Guessed: // seen by chance, it has another name
			t.Error("a fast request is taken for a report without a word")
		}
	}
}

func TestFastRequestsNobodySawAreOfNoneOfSeveralEndpoints(t *testing.T) {
	mux := http.NewServeMux()
	slow := []string{"/report", "/image", "/feed"}
	mux.HandleFunc(slow[0], func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Millisecond) })
	mux.HandleFunc(slow[1], func(http.ResponseWriter, *http.Request) { time.Sleep(15 * time.Millisecond) })
	mux.HandleFunc(slow[2], func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {})
	s := httptest.NewServer(mux)
	defer s.Close()
	f := record(t, Options{}, func() {
		visit(t, 2, s.URL, append(slow, "/", "/")...)
	})
	sleeps, slept := map[string]bool{}, 0
	for i := range slow {
		sleeps[fmt.Sprintf("%sTestFastRequestsNobodySawAreOfNoneOfSeveralEndpoints.func%d", pkg, i+1)] = true
	}
	for _, r := range f.Requests {
		if sleeps[f.Endpoints[r.Endpoint]] && !r.Guessed {
			slept++
		}
	}
	if slept == 0 {
		t.Fatalf("no request that sleeps was found, but %q", f.Endpoints)
	}
	for _, r := range f.Requests {
		if name := f.Endpoints[r.Endpoint]; r.Duration() < 5e6 && sleeps[name] {
			t.Errorf("a fast request is taken for %s, guessed: %v", name, r.Guessed)
		}
	}
}
