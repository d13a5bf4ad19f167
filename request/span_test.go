package request

import (
	"slices"
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

// A program that begins a task where it reads a message, and ends it where a worker is done with it: the request is the
// way of the message, not what the reader does meanwhile.
func TestATaskThatAnotherGoroutineEnds(t *testing.T) {
	const reader, worker, queue = 1, 2, 3
	b := newScript(t)
	rests := b.Stack("time.Sleep", "main.read")
	takes := b.Stack("runtime.chanrecv2", "main.work")
	sends := b.Stack("runtime.chansend1", "main.read")
	delivers := b.Stack("time.Sleep", "main.deliver", "main.work")
	b.do(b.Busy(0))
	b.do(b.Busy(1))
	b.do(b.Waits(reader, "", rests))
	b.do(b.Waits(worker, "", takes))
	b.do(b.Idle(0, gotrace.NoProc))
	b.do(b.Idle(1, gotrace.NoProc))
	runs := func(g gotrace.GoID, p gotrace.ProcID, by gotrace.GoID) {
		if b.do(b.Busy(p)); by == gotrace.NoGoroutine {
			b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
		}
		b.do(b.Runs(g, p, 0))
	}
	delivered := func() {
		b.do(b.Waits(worker, "sleep", delivers))
		b.do(b.Idle(1, gotrace.NoProc))
		b.pass(2e6)
		runs(worker, 1, gotrace.NoGoroutine)
	}
	for range 60 {
		b.pass(10e6)
		runs(reader, 0, gotrace.NoGoroutine)
		b.do(b.Task(reader, "message"))
		b.pass(1e5)
		b.do(b.Hands(reader, worker))
		b.do(b.Wakes(reader, 0, worker, sends))
		runs(worker, 1, reader)
		b.do(b.Task(reader, "message"))
		b.pass(1e5)
		b.do(b.Hands(reader, queue))
		b.do(b.Waits(reader, "sleep", rests))
		b.do(b.Idle(0, gotrace.NoProc))
		delivered()
		b.do(b.Done(worker))
		b.do(b.Hands(queue, worker))
		delivered()
		b.do(b.Done(worker))
		b.do(b.Waits(worker, "chan receive", takes))
		b.do(b.Idle(1, gotrace.NoProc))
	}
	b.pass(1e6)
	tl := b.read()
	f := Find(tl, Options{})
	if len(f.Roles) != 1 || f.Roles[0].Shape != Annotated || len(f.Requests) != 120 {
		t.Fatalf("%d requests of %+v", len(f.Requests), f.Roles)
	}
	read, ok := tl.G(reader)
	works, ok2 := tl.G(worker)
	if !ok || !ok2 {
		t.Fatal("no goroutines")
	}
	for _, r := range f.Requests {
		var took []timeline.Time
		for _, p := range r.Parts {
			took = append(took, p.End-p.Start)
		}
		first, last := r.Parts[0].G, r.Parts[len(r.Parts)-1].G
		if first != read || last != works {
			t.Fatalf("parts %+v", r.Parts)
		}
		switch len(took) {
		case 2:
			if took[0] != 1e5 || took[1] != 21e5 {
				t.Fatalf("who was taken at once: %d", took)
			}
		case 3:
			if m := &tl.Gs[r.Parts[1].G]; !m.Message || took[0] != 1e5 || took[1] != 2e6 || took[2] != 2e6 {
				t.Fatalf("who waited in the queue: %d", took)
			}
		default:
			t.Fatalf("parts %+v", r.Parts)
		}
	}
}

// Where the request of a task is, that another goroutine ends, tells who woke whom, or gave birth to him.
func TestWhereATaskIs(t *testing.T) {
	const reader, worker = 1, 2
	us := func(n timeline.Time) timeline.Time { return n * 1000 }
	type took struct {
		g       int // 0 for the queue
		partial timeline.Time
	}
	works := func(b *script, runs func(gotrace.GoID, gotrace.ProcID), idle func(gotrace.ProcID)) {
		runs(worker, 1)
		b.pass(1000e3)
		b.do(b.Done(worker))
		b.do(b.Waits(worker, "chan receive", b.Stack("runtime.chanrecv2", "main.work")))
		idle(1)
	}
	for name, c := range map[string]struct {
		parent gotrace.TaskID
		in     func(b *script, runs func(g gotrace.GoID, p gotrace.ProcID), idle func(p gotrace.ProcID))
		want   []took
	}{
		"the reader waits for the rest before it hands it over": {gotrace.BackgroundTask, func(b *script, runs func(gotrace.GoID, gotrace.ProcID), idle func(gotrace.ProcID)) {
			b.pass(100e3)
			b.do(b.Waits(reader, "network", b.Stack("internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "main.body", "main.read")))
			idle(0)
			b.pass(5000e3)
			b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
			runs(reader, 0)
			b.do(b.Hands(reader, worker))
			b.do(b.Wakes(reader, 0, worker, b.Stack("runtime.chansend1", "main.read")))
			works(b, runs, idle)
		}, []took{{reader, us(5100)}, {worker, us(1000)}}},
		"it lies within one of the whole program": {1000, func(b *script, runs func(gotrace.GoID, gotrace.ProcID), idle func(gotrace.ProcID)) {
			b.do(b.Hands(reader, worker))
			b.do(b.Wakes(reader, 0, worker, b.Stack("runtime.chansend1", "main.read")))
			works(b, runs, idle)
		}, []took{{worker, us(1000)}}},
		"somebody else passes it on": {gotrace.BackgroundTask, func(b *script, runs func(gotrace.GoID, gotrace.ProcID), idle func(gotrace.ProcID)) {
			b.pass(100e3)
			b.do(b.Hands(reader, worker))
			b.do(b.Waits(reader, "sleep", b.Stack("time.Sleep", "main.read")))
			b.do(b.Idle(0, gotrace.NoProc))
			b.pass(2000e3)
			b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, worker, 0))
			works(b, runs, idle)
			b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
			runs(reader, 0)
		}, []took{{reader, us(100)}, {0, us(2000)}, {worker, us(1000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newScript(t)
			rests := b.Stack("time.Sleep", "main.read")
			b.do(b.Busy(0))
			b.do(b.Busy(1))
			b.do(b.Waits(reader, "", rests))
			b.do(b.Waits(worker, "", b.Stack("runtime.chanrecv2", "main.work")))
			idle := func(p gotrace.ProcID) { b.do(b.Idle(p, gotrace.NoProc)) }
			idle(0)
			idle(1)
			runs := func(g gotrace.GoID, p gotrace.ProcID) {
				b.do(b.Busy(p))
				b.do(b.Runs(g, p, 0))
			}
			for range 60 {
				b.pass(10e6)
				b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
				runs(reader, 0)
				b.do(b.TaskWithin(reader, "message", rests, c.parent))
				c.in(b, runs, idle)
				b.do(b.Waits(reader, "sleep", rests))
				idle(0)
			}
			b.pass(1e6)
			tl := b.read()
			f := Find(tl, Options{})
			if len(f.Roles) != 1 || f.Roles[0].Shape != Annotated || len(f.Requests) != 60 {
				t.Fatalf("%d requests of %+v", len(f.Requests), f.Roles)
			}
			for _, r := range f.Requests {
				var got []took
				for _, p := range r.Parts {
					g := 0
					if m := &tl.Gs[p.G]; !m.Message {
						g = int(m.ID)
					}
					got = append(got, took{g, p.End - p.Start})
				}
				if !slices.Equal(got, c.want) {
					t.Fatalf("%v, want %v", got, c.want)
				}
			}
		})
	}
}
