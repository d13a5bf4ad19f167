package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// deskScript is a script of goroutines that read messages and hand each to a worker, who answers.
type deskScript struct {
	*script
	read, home, lock, write, send gotrace.StackID
}

func newDeskScript(t *testing.T) *deskScript {
	b := &deskScript{script: newScript(t)}
	b.read = b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "main.read")
	b.home = b.Stack("runtime.chanrecv1", "main.work")
	b.lock = b.Stack("sync.(*Mutex).Lock", "main.handle", "main.work")
	b.write = b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "main.work")
	b.send = b.Stack("runtime.chansend1", "main.read")
	b.do(b.Busy(0))
	return b
}

// starts lets a goroutine wait at home.
func (b *deskScript) starts(g gotrace.GoID, why string, at gotrace.StackID) {
	b.t.Helper()
	b.do(b.Runs(g, 0, at))
	b.do(b.Waits(g, why, at))
}

// calls lets a goroutine call the system for 1 µs.
func (b *deskScript) calls(g gotrace.GoID, at gotrace.StackID) {
	b.t.Helper()
	b.do(b.Calls(g, at))
	b.pass(1e3)
	b.do(b.Returns(g))
}

// brings lets a reader read one message, and hand it to worker unless he is at work.
func (b *deskScript) brings(reader, worker gotrace.GoID, atWork bool) {
	b.t.Helper()
	b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
	b.do(b.Runs(reader, 0, 0))
	b.calls(reader, b.read)
	if !atWork {
		b.do(b.Wakes(reader, 0, worker, b.send))
	}
	b.do(b.Waits(reader, "network", b.read))
	if !atWork {
		b.do(b.Runs(worker, 0, 0))
	}
}

// alike checks that so many requests were found, but for one or two at the ends of the trace, each of a duration
// between least and most, in nanoseconds.
func alike(t *testing.T, f *Found, want int, least, most timeline.Time) {
	t.Helper()
	if n := len(f.Requests); n < want-2 || n > want {
		t.Fatalf("found %d of %d: %+v", n, want, f.Roles)
	}
	for i := range f.Requests {
		if d := f.Requests[i].Duration(); d < least || d > most {
			t.Fatalf("%d takes %d ns", i, d)
		}
	}
}

// A worker that hangs has a message, and others wait behind it: neither is forgotten because it got no answer.
func TestMessagesBehindAWorkerThatHangsAreInFlight(t *testing.T) {
	const reader, worker, good, behind = 1, 2, 200, 15
	for name, hangs := range map[string]bool{"hangs": true, "goes on": false} {
		t.Run(name, func(t *testing.T) {
			b := newDeskScript(t)
			b.starts(reader, "network", b.read)
			b.starts(worker, "chan receive", b.home)
			for i := range good + 1 {
				b.pass(10e6)
				b.brings(reader, worker, false)
				if i == good && hangs {
					b.do(b.Waits(worker, "sync", b.lock))
					break
				}
				b.pass(2e6)
				b.calls(worker, b.write)
				b.do(b.Waits(worker, "chan receive", b.home))
			}
			for range behind {
				b.pass(10e6)
				if hangs {
					b.brings(reader, worker, true)
				}
			}
			b.pass(1e9)
			b.Sample(gotrace.NoGoroutine, 0)
			f := Find(b.script.read(), Options{})
			inFlight := 0
			for i := range f.Requests {
				if r := &f.Requests[i]; r.InFlight {
					if inFlight++; r.Duration() < 1e9 {
						t.Errorf("%d: one in flight takes %d ns", i, r.Duration())
					}
				}
			}
			want := 0
			if hangs {
				want = 1 + behind
			}
			if done := len(f.Requests) - inFlight; inFlight != want || done < good {
				t.Errorf("found %d, and %d in flight, want %d and %d", done, inFlight, good, want)
			}
		})
	}
}

// Messages that want no answer, of readers of their own, are no requests, and do not hide those that want one.
func TestMessagesThatWantNoAnswerAreForgotten(t *testing.T) {
	const reader, silent, worker, rounds = 1, 3, 2, 200
	b := newDeskScript(t)
	b.starts(reader, "network", b.read)
	b.starts(silent, "network", b.read)
	b.starts(worker, "chan receive", b.home)
	for range rounds {
		b.pass(10e6)
		b.brings(reader, worker, false)
		b.pass(2e6)
		b.calls(worker, b.write)
		b.do(b.Waits(worker, "chan receive", b.home))
		b.pass(10e6)
		b.brings(silent, worker, false)
		b.pass(1e5)
		b.do(b.Waits(worker, "chan receive", b.home))
	}
	b.Sample(gotrace.NoGoroutine, 0)
	alike(t, Find(b.script.read(), Options{}), rounds, 2e6, 3e6)
}

// Of all workers whom a broadcast wakes for a message, one takes it.
func TestABroadcastIsOneMessage(t *testing.T) {
	const reader, rounds = 1, 100
	workers := []gotrace.GoID{2, 3, 4}
	b := newDeskScript(t)
	home := b.Stack("sync.(*Cond).Wait", "main.work")
	wakes := b.Stack("sync.(*Cond).Broadcast", "main.read")
	b.starts(reader, "network", b.read)
	for _, g := range workers {
		b.starts(g, "sync.(*Cond).Wait", home)
	}
	for round := range rounds {
		b.pass(10e6)
		b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
		b.do(b.Runs(reader, 0, 0))
		b.calls(reader, b.read)
		for _, g := range workers {
			b.pass(1e3)
			b.do(b.Wakes(reader, 0, g, wakes))
		}
		b.do(b.Waits(reader, "network", b.read))
		for i, g := range workers {
			b.do(b.Runs(g, 0, 0))
			b.pass(1e3)
			if i == round%len(workers) {
				b.pass(2e6)
				b.calls(g, b.write)
			}
			b.do(b.Waits(g, "sync.(*Cond).Wait", home))
		}
	}
	b.Sample(gotrace.NoGoroutine, 0)
	alike(t, Find(b.script.read(), Options{}), rounds, 2e6, 21e5)
}

// Messages go from one goroutine to the next: who parses them, who answers now or, each tenth, when its ticker
// goes off, and the connection's writer.
func TestMessagesAreHandedOnAndKept(t *testing.T) {
	const reader, parser, answerer, writer, rounds = 1, 2, 3, 4, 200
	b := newDeskScript(t)
	next := b.Stack("runtime.chanrecv1", "main.parse")
	home := b.Stack("runtime.selectgo", "main.answer")
	out := b.Stack("runtime.chanrecv1", "main.write")
	write := b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "main.write")
	parsed, answers := b.Stack("runtime.chansend1", "main.parse"), b.Stack("runtime.chansend1", "main.answer")
	b.starts(reader, "network", b.read)
	b.starts(parser, "chan receive", next)
	b.starts(answerer, "select", home)
	b.starts(writer, "chan receive", out)
	for i := range rounds {
		b.pass(5e6)
		b.brings(reader, parser, false)
		b.pass(1e4)
		b.do(b.Wakes(parser, 0, answerer, parsed))
		b.do(b.Waits(parser, "chan receive", next))
		b.do(b.Runs(answerer, 0, 0))
		b.pass(1e4)
		if i%10 == 9 {
			b.do(b.Waits(answerer, "select", home))
			b.pass(10e6)
			b.do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, answerer, 0))
			b.do(b.Runs(answerer, 0, 0))
			b.pass(1e3)
		}
		b.do(b.Wakes(answerer, 0, writer, answers))
		b.do(b.Waits(answerer, "select", home))
		b.do(b.Runs(writer, 0, 0))
		b.calls(writer, write)
		b.do(b.Waits(writer, "chan receive", out))
	}
	b.Sample(gotrace.NoGoroutine, 0)
	f := Find(b.script.read(), Options{})
	if n := len(f.Requests); len(f.Roles) != 1 || f.Roles[0].Name != "main.read" || n < rounds*95/100 || n > rounds {
		t.Fatalf("found %d of %d: %+v", n, rounds, f.Roles)
	}
	kept := 0
	for i := range f.Requests {
		r := &f.Requests[i]
		if d := r.Duration(); d > 10e6 && d < 11e6 {
			kept++
		} else if d > 1e5 {
			t.Errorf("%d takes %d ns", i, d)
		}
		if len(r.Parts) < 4 {
			t.Errorf("%d has %d parts", i, len(r.Parts))
		}
	}
	if kept < rounds/10-2 {
		t.Errorf("%d were kept, found %d", rounds/10, kept)
	}
}

// Who reads a connection over which a client of this process calls, as through a tunnel, brings it answers: these are no messages, though
// whom it brings one has another one say on that connection that there is room again.
func TestAnswersForAClientAreNoMessages(t *testing.T) {
	const reader, worker, sender = 1, 2, 3
	for name, c := range map[string]struct {
		root string
		want int
	}{"a worker": {"main.work", 200}, "a client": {"net/http.(*persistConn).readLoop", 0}} {
		t.Run(name, func(t *testing.T) {
			b := newDeskScript(t)
			b.home = b.Stack("runtime.selectgo", "example.com/mux.(*Stream).Read", c.root)
			wakes, room := b.Stack("example.com/mux.(*Stream).Read", c.root), b.Stack("runtime.selectgo", "main.write")
			b.write = b.Stack("internal/poll.(*FD).Write", "net.(*conn).Write", "main.write")
			b.starts(reader, "network", b.read)
			b.starts(worker, "select", b.home)
			b.starts(sender, "select", room)
			for range 200 {
				b.pass(10e6)
				b.brings(reader, worker, false)
				b.pass(2e6)
				b.do(b.Wakes(worker, 0, sender, wakes))
				b.do(b.Waits(worker, "select", b.home))
				b.do(b.Runs(sender, 0, 0))
				b.calls(sender, b.write)
				b.do(b.Waits(sender, "select", room))
			}
			b.Sample(gotrace.NoGoroutine, 0)
			alike(t, Find(b.script.read(), Options{}), c.want, 2e6, 3e6)
		})
	}
}
