package request

import (
	"cmp"
	"slices"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// stay is the time, in ms, that one goroutine of a connection is in the handler of
// events, to which it sends something every 50 ms, or only an answer at its end if it
// is quiet: it waits for a lock. One from -1 on began before the recording.
type stay struct {
	from, to int64
	quiet    bool
}

func TestStreamsThatTheRecordingCutsAreStreams(t *testing.T) {
	const end = 3000 // ms, of the recording; stays beyond it are cut
	long := []stay{{from: 100, to: 1300}, {from: 200, to: 1400}, {from: 1400, to: 2600}}
	for _, c := range []struct {
		name              string
		stays             []stay
		streams, requests int
	}{
		{"streams that ended", long, 3, 0},
		{"streams cut at the end", append([]stay{{from: 2500, to: 9000}, {from: 2990, to: 9000}, {from: 2800, to: 9000, quiet: true}}, long...), 6, 0},
		{"a stream that ended early", append([]stay{{from: 500, to: 1100}}, long...), 4, 0},
		{"known from one that began before the recording", []stay{{from: -1, to: 1400}, {from: 2500, to: 9000}}, 1, 0},
		{"known from one that fills the recording", []stay{{from: -1, to: 9000}, {from: 2500, to: 9000}}, 1, 0},
		{"no stream is known", []stay{{from: 2500, to: 9000}, {from: 200, to: 700}}, 0, 2},
		{"one that hangs", append([]stay{{from: 1500, to: 9000, quiet: true}}, long...), 3, 1},
		{"one that refuses", append([]stay{{from: 500, to: 501, quiet: true}}, long...), 3, 1},
		{"most that take as long are none", append([]stay{
			{from: 2500, to: 9000}, {from: 500, to: 1100, quiet: true}, {from: 500, to: 1200, quiet: true}, {from: 500, to: 1300, quiet: true},
		}, long...), 3, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Find(connections(t, c.stays, end), Options{})
			pushes, hang := 0, false
			for i := range f.Requests {
				r := &f.Requests[i]
				switch push := f.Roles[r.Role].Name == rolePushes; {
				case !push:
					hang = hang || r.InFlight
				case !r.InFlight && r.Duration() > 1e5:
					t.Errorf("a push of %d ns is not from the end of a wait to its write", r.Duration())
					fallthrough
				default:
					pushes++
				}
			}
			if n := excluded(f, classPush); n != c.streams || len(f.Requests)-pushes != c.requests {
				t.Errorf("%d streams and %d requests, want %d and %d", n, len(f.Requests)-pushes, c.streams, c.requests)
			}
			// Where hardly anything else is a request, what streams send is, every 50 ms; one that
			// hangs is what matters.
			if pushes < 10*c.streams && !hang || pushes > 0 && hang {
				t.Errorf("%d pushes of %d streams beside %d requests", pushes, c.streams, c.requests)
			}
		})
	}
}

// An answer that takes long to make, and is sent in pieces, is one; a stream waits for what it sends.
func TestALongAnswerInPiecesIsNoStream(t *testing.T) {
	const ms, answers = int64(1e6), 3
	for _, c := range []struct {
		name, why string
		at        []string
		streams   int
	}{
		{"it waits for news", "select", []string{"runtime.selectgo"}, answers},
		{"it computes", "", nil, 0},
		{"it waits for a lock", "sync", []string{"sync.(*Mutex).Lock"}, 0},
		{"it waits for its peer's answer", "sync.(*Cond).Wait", []string{"sync.(*Cond).Wait", "net/http.(*http2clientStream).Read"}, 0},
	} {
		b := newScript(t)
		do := b.do
		loop := []string{"net/http.(*conn).serve"}
		handler := append([]string{"main.export", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP"}, loop...)
		send := b.Stack(append([]string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write", "bufio.(*Writer).Flush"}, handler...)...)
		idle := b.Stack(append([]string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).Peek"}, loop...)...)
		wake := func() {
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, 1, 0))
			do(b.Runs(1, 0, 0))
		}
		do(b.Busy(0))
		do(b.Runs(1, 0, idle))
		do(b.Waits(1, "network", idle))
		for range answers {
			b.pass(10 * ms)
			wake()
			for range 4 {
				do(b.Calls(1, send))
				b.pass(ms)
				do(b.Returns(1))
				if c.at != nil {
					do(b.Waits(1, c.why, b.Stack(append(c.at, handler...)...)))
				}
				if b.pass(600 * ms); c.at != nil {
					wake()
				}
			}
			do(b.Waits(1, "network", idle))
		}
		b.Sample(gotrace.NoGoroutine, 0)
		f := Find(b.read(), Options{})
		pushes := 0
		for _, r := range f.Requests {
			if f.Roles[r.Role].Name == rolePushes {
				pushes++
			}
		}
		if n := excluded(f, classPush); n != c.streams || len(f.Requests)-pushes != answers-c.streams {
			t.Errorf("%s: %d streams and %d requests", c.name, n, len(f.Requests)-pushes)
		}
	}
}

// connections is a recording of a net/http server with a connection for each stay.
func connections(t *testing.T, stays []stay, end int64) *timeline.Timeline {
	loop := []string{"net/http.(*conn).serve"}
	handler := append([]string{"main.events", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP"}, loop...)
	write := []string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write", "bufio.(*Writer).Flush"}
	b := newScript(t)
	do := b.do
	send, finish := b.Stack(append(write, handler...)...), b.Stack(append(write, loop...)...)
	next := b.Stack(append([]string{"runtime.selectgo"}, handler...)...)
	idle := b.Stack(append([]string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).Peek"}, loop...)...)

	type step struct {
		at    int64
		g     gotrace.GoID
		write gotrace.StackID // 0: none
		waits gotrace.StackID
		why   string
	}
	var steps []step
	do(b.Busy(0))
	for i, s := range stays {
		g := gotrace.GoID(i + 1)
		do(b.Runs(g, 0, idle))
		if s.from < 0 {
			do(b.Waits(g, "select", next))
		} else {
			do(b.Waits(g, "network", idle))
		}
		if s.quiet {
			steps = append(steps, step{s.from, g, 0, next, "sync"})
		}
		for at := max(s.from, 0); at < s.to && !s.quiet; at += 50 {
			steps = append(steps, step{at, g, send, next, "select"})
		}
		steps = append(steps, step{s.to, g, finish, idle, "network"})
	}
	do(b.Idle(0, gotrace.NoProc))
	slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(x.at, y.at) })
	now := int64(0) // a little after the step before
	for _, s := range steps {
		if s.at > end {
			break
		}
		now = max(now+1e4, 1e6*(s.at+1))
		do(b.At(now))
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, s.g, 0))
		do(b.Runs(s.g, 0, 0))
		if s.write != 0 {
			do(b.Calls(s.g, s.write))
			now += 1e4
			do(b.At(now))
			do(b.Returns(s.g))
		}
		do(b.Waits(s.g, s.why, s.waits))
		do(b.Idle(0, gotrace.NoProc))
	}
	do(b.At(1e6 * (end + 2)))
	b.Sample(gotrace.NoGoroutine, 0)
	tl := b.read()
	return tl
}

// A handler that reads the body of its request for all of the recording, and sends on what comes by a
// connection of its own, has not taken over the connection.
func TestAnUploadThatIsPassedOnIsNotAConnectionTakenOver(t *testing.T) {
	around := []string{"main.upload", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
	for _, c := range []struct {
		name     string
		body     []string
		hijacked int
	}{
		{"the body of a request", []string{"net/http.(*body).Read"}, 0},
		{"what has come on the connection", nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newScript(t)
			do := b.do
			from := []string{"internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).Read"}
			read := b.Stack(slices.Concat(from, c.body, around)...)
			write := b.Stack(append([]string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write"}, around...)...)
			do(b.Busy(0))
			do(b.Runs(1, 0, read))
			do(b.Waits(1, "network", read))
			for i := range int64(40) {
				do(b.At((i + 1) * 50e6))
				do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, 1, 0))
				do(b.Runs(1, 0, 0))
				do(b.Calls(1, write))
				do(b.At((i+1)*50e6 + 1e5))
				do(b.Returns(1))
				do(b.Waits(1, "network", read))
			}
			b.Sample(gotrace.NoGoroutine, 0)
			tl := b.read()
			f := Find(tl, Options{})
			taken := slices.ContainsFunc(f.Roles, func(r Role) bool { return r.Name == roleTakenOver })
			if n := excluded(f, classHijacked); n != 0 || taken != (c.hijacked > 0) {
				t.Errorf("%d connections excluded, roles %+v", n, f.Roles)
			}
		})
	}
}
