package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Libraries for distributed tracing begin a task for each span. One in a request of a known server is a part of that, which
// takes longer; one within another is none of its own either; where nothing else shows the requests spans are these.
func TestSpansArePartsOfRequests(t *testing.T) {
	const g = 1
	server := []string{"net/http.(*conn).serve"}
	consumer := []string{"main.consume"}
	for name, c := range map[string]struct {
		root   []string
		by     string
		parent gotrace.TaskID
		shape  Shape
		takes  timeline.Time
	}{
		"a span in a request":       {server, "go.opentelemetry.io/otel/sdk/trace.(*tracer).Start", gotrace.BackgroundTask, Connection, 3e6},
		"a task of the program's":   {server, "main.begin", gotrace.BackgroundTask, Annotated, 1e6},
		"one in another one":        {server, "main.begin", 1000, Annotated, 1e6},
		"a span, and no server":     {consumer, "go.opentelemetry.io/otel/sdk/trace.(*tracer).Start", gotrace.BackgroundTask, Annotated, 1e6},
		"a span within another one": {consumer, "go.opentelemetry.io/otel/sdk/trace.(*tracer).Start", 1000, Connection, 3e6},
	} {
		t.Run(name, func(t *testing.T) {
			b := newScript(t)
			at := func(functions ...string) gotrace.StackID { return b.Stack(append(functions, c.root...)...) }
			home := at("internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek")
			handler := []string{"main.show", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP"}
			sleeps := at(append([]string{"time.Sleep"}, handler...)...)
			begins := at(append([]string{c.by}, handler...)...)
			writes := at("syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write")
			b.do(b.Busy(0))
			b.do(b.Waits(g, "", home))
			b.do(b.Idle(0, gotrace.NoProc))
			wakes := func() {
				b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
				b.do(b.Busy(0))
				b.do(b.Runs(g, 0, 0))
			}
			naps := func() {
				b.do(b.Waits(g, "sleep", sleeps))
				b.do(b.Idle(0, gotrace.NoProc))
				b.pass(1e6)
				wakes()
			}
			for range 60 {
				b.pass(10e6)
				wakes()
				naps()
				b.do(b.TaskWithin(g, "GET /item", begins, c.parent))
				naps()
				b.do(b.Done(g))
				naps()
				b.do(b.Calls(g, writes))
				b.do(b.Returns(g))
				b.do(b.Waits(g, "network", home))
				b.do(b.Idle(0, gotrace.NoProc))
			}
			b.pass(1e6)
			f := Find(b.read(), Options{})
			if len(f.Roles) != 1 || f.Roles[0].Shape != c.shape || len(f.Requests) != 60 {
				t.Fatalf("%d requests of %+v", len(f.Requests), f.Roles)
			}
			for _, r := range f.Requests {
				if r.Duration() < c.takes || r.Duration() > c.takes+1e5 {
					t.Fatalf("one takes %d ns", r.Duration())
				}
			}
		})
	}
}
