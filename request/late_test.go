package request

import (
	"fmt"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// Whoever reads a connection for many requests may be ready long before it runs: of those that it then
// reads one after the other the first was there when it was woken, and the others came since.
func TestRequestsThatAReaderCouldNotReadWereThere(t *testing.T) {
	const ms = int64(1e6)
	late, atOnce := []int64{10 * ms, 20 * ms, 30 * ms, 40 * ms, 50 * ms}, []int64{10 * ms, 10*ms + 3e4, 10*ms + 5e4, 10*ms + 7e4, 10*ms + 9e4}
	http2 := [2]string{"net/http.(*http2serverConn).readFrames", "net/http.(*http2serverConn).runHandler"}
	own := [2]string{"main.(*conn).read", "main.(*conn).handle"}
	for _, c := range []struct {
		roots [2]string // of the reader and of a handler
		runs  int64     // when the reader runs, after it was woken at 10 ms
		want  []int64   // when the requests were there
	}{
		{http2, 60 * ms, late},
		{http2, 10*ms + 1e4, atOnce}, // it reads each when it came
		{own, 60 * ms, late},
		{own, 10*ms + 1e4, atOnce},
	} {
		t.Run(fmt.Sprintf("%s, %d ms", c.roots[0], c.runs/ms), func(t *testing.T) {
			b := timelinetest.NewBuilder()
			b.Procs(1)
			now := int64(0)
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("at %d ns: %v", now, err)
				}
			}
			pass := func(until int64) {
				now = until
				do(b.At(now))
			}
			reads := b.Stack("internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", c.roots[0])
			read := b.Stack("syscall.read", "internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", c.roots[0])
			start, handler := b.Stack(c.roots[0]), b.Stack(c.roots[1])
			write := b.Stack("syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", c.roots[1])
			const reader, other = 1, 2
			do(b.Busy(0))
			do(b.Runs(reader, 0, reads))
			do(b.Waits(reader, "network", reads))
			do(b.Runs(other, 0, b.Stack("main.work")))
			pass(10 * ms)
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
			pass(c.runs)
			do(b.Waits(other, "sleep", b.Stack("time.Sleep", "main.work")))
			do(b.Runs(reader, 0, 0))
			for i := range c.want {
				pass(c.runs + int64(i)*2e4 + 2e4 - 1e4)
				do(b.Calls(reader, read))
				do(b.Returns(reader))
				pass(c.runs + int64(i)*2e4 + 2e4 - 1)
				do(b.Starts(reader, gotrace.NoProc, gotrace.GoID(10+i), start, handler))
			}
			do(b.Waits(reader, "network", reads))
			const more = 40 // that come one by one, and are read at once
			for i := range more {
				pass(now + ms)
				do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
				do(b.Runs(reader, 0, 0))
				pass(now + 1e4)
				do(b.Calls(reader, read))
				do(b.Returns(reader))
				do(b.Starts(reader, gotrace.NoProc, gotrace.GoID(10+len(c.want)+i), start, handler))
				do(b.Waits(reader, "network", reads))
			}
			for i := range len(c.want) + more {
				g := gotrace.GoID(10 + i)
				do(b.Runs(g, 0, 0))
				pass(now + ms)
				do(b.Calls(g, write))
				do(b.Returns(g))
				do(b.Ends(g))
			}
			b.Sample(gotrace.NoGoroutine, 0)
			tl, err := timeline.Read(b.Source(), timeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := Find(tl, Options{})
			if len(f.Requests) != len(c.want)+more {
				t.Fatalf("%d requests of %d", len(f.Requests), len(c.want))
			}
			for i := range c.want {
				if got := int64(f.Requests[i].Start() - tl.Start); got < c.want[i]-2e4 || got > c.want[i]+2e4 {
					t.Errorf("request %d was there after %d ns, want %d", i, got, c.want[i])
				}
			}
		})
	}
}
