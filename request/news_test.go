package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// A request that waits for what requests of another kind bring takes as long as these do not come, one that waits for what others
// give back does not, nor one whose work somebody does.
func TestRequestsThatWaitForNews(t *testing.T) {
	const ms, rounds = int64(1e6), 30
	const poll, post, other, hub = gotrace.GoID(1), gotrace.GoID(2), gotrace.GoID(3), gotrace.GoID(4)
	for _, x := range []struct {
		name  string
		by    gotrace.GoID // who ends the wait: a post, or the hub
		works int64        // for how long the hub works until then
		waits bool         // who posts waits for another post, too
		polls int          // that are left out
	}{
		{name: "until one is posted", by: post, polls: rounds},
		{name: "until somebody is told that one is posted", by: hub, polls: rounds},
		{name: "until somebody has done something", by: hub, works: 10 * ms},
		{name: "until those who may wait as well give something back", by: post, waits: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newScript(t)
			do, pass := b.do, b.pass
			serve := []string{"net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
			stack := func(in ...string) gotrace.StackID { return b.Stack(append(in, serve...)...) }
			home := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek", "net/http.(*conn).serve")
			write := b.Stack("syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write", "net/http.(*conn).serve")
			rests := b.Stack("runtime.chanrecv1", "main.hub")
			begins := func(g gotrace.GoID) {
				do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
				do(b.Runs(g, 0, 0))
			}
			ends := func(g gotrace.GoID) {
				do(b.Calls(g, write))
				pass(1e3)
				do(b.Returns(g))
				do(b.Waits(g, "network", home))
			}
			do(b.Busy(0))
			for _, g := range []gotrace.GoID{poll, post, other} {
				do(b.Runs(g, 0, 0))
				do(b.Waits(g, "network", home))
			}
			do(b.Runs(hub, 0, 0))
			do(b.Waits(hub, "chan receive", rests))
			for range rounds {
				pass(ms)
				begins(poll)
				do(b.Waits(poll, "chan receive", stack("runtime.chanrecv1", "main.next")))
				if pass(ms); x.works == 0 {
					pass(20 * ms)
				}
				begins(post)
				if x.waits {
					do(b.Waits(post, "chan receive", stack("runtime.chanrecv1", "main.post")))
					begins(other)
					pass(1e4)
					do(b.Wakes(other, 0, post, stack("runtime.chansend1", "main.post")))
					ends(other)
					do(b.Runs(post, 0, 0))
				}
				by := post
				if x.by == hub {
					do(b.Wakes(post, 0, hub, stack("runtime.chansend1", "main.post")))
					ends(post)
					do(b.Runs(hub, 0, 0))
					pass(x.works + 1e3)
					by = hub
				}
				do(b.Wakes(by, 0, poll, b.Stack("runtime.chansend1", "main.send")))
				if by == hub {
					do(b.Waits(hub, "chan receive", rests))
				} else {
					do(b.Wakes(post, 0, hub, stack("runtime.chansend1", "main.post")))
					ends(post)
					do(b.Runs(hub, 0, 0))
					do(b.Waits(hub, "chan receive", rests))
				}
				do(b.Runs(poll, 0, 0))
				ends(poll)
			}
			b.Sample(gotrace.NoGoroutine, 0)
			f := Find(b.read(), Options{})
			if got := excluded(f, classPoll); got != x.polls || len(f.Requests) < rounds-1 {
				t.Errorf("%d polls are left out, %d requests remain: %+v", got, len(f.Requests), f.Endpoints)
			}
		})
	}
}
