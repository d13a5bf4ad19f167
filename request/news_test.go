package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// A request that waits for what requests of another kind bring takes as long as these do not come, one that waits for what others
// give back does not, nor one whose work somebody does.
func TestRequestsThatWaitForNews(t *testing.T) {
	const ms, rounds = int64(1e6), 60
	const poll, post, other, hub, open0 = gotrace.GoID(1), gotrace.GoID(2), gotrace.GoID(3), gotrace.GoID(4), gotrace.GoID(10)
	for _, x := range []struct {
		name  string
		hub   bool  // it ends the wait, not the post
		works int64 // for how long it works until then, of 21 ms
		waits bool  // who posts waits in the same place for another post
		early bool  // it has come before
		asks  bool  // who waits has had somebody write to the network before
		tells bool  // who waits has had somebody wake another request before
		half  bool  // every other one does not wait
		takes bool  // who posts takes what they wait to give
		local bool  // who posts does not come by the network
		open  int   // so many wait in the end
		polls int   // that are left out
	}{
		{name: "until one is posted", polls: rounds},
		{name: "until one is posted, and some wait in the end", open: 30, polls: rounds + 30},
		{name: "until somebody is told that one is posted", hub: true, polls: rounds},
		{name: "until somebody has done something", hub: true, works: 10 * ms},
		{name: "until those who may wait as well give something back", waits: true},
		{name: "until one that was there is done", early: true},
		{name: "until one answers what they have asked", asks: true},
		{name: "until one answers what somebody has told another one", tells: true},
		{name: "half of them", half: true},
		{name: "until one takes what they give", takes: true},
		{name: "until one is posted by the process itself", local: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newScript(t)
			do, pass := b.do, b.pass
			serve := []string{"net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
			stack := func(in ...string) gotrace.StackID { return b.Stack(append(in, serve...)...) }
			home := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek", "net/http.(*conn).serve")
			write := b.Stack("syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write", "net/http.(*conn).serve")
			rests := b.Stack("runtime.chanrecv1", "main.hub")
			pipe := b.Stack("runtime.selectgo", "net.(*pipe).read", "net.(*pipe).Read", "net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek", "net/http.(*conn).serve")
			begins := func(g gotrace.GoID) {
				do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
				do(b.Runs(g, 0, 0))
			}
			ends := func(g gotrace.GoID) {
				do(b.Calls(g, write))
				pass(1e3)
				do(b.Returns(g))
				if x.local && g == post {
					do(b.Waits(g, "select", pipe))
					return
				}
				do(b.Waits(g, "network", home))
			}
			wait := stack("runtime.chanrecv1", "main.next")
			if x.waits {
				wait = stack("runtime.chanrecv1", "main.take", "main.next")
			}
			why, from := "chan receive", b.Stack("runtime.chansend1", "main.send")
			if x.takes {
				why, wait, from = "select", stack("runtime.selectgo", "main.next"), b.Stack("runtime.chanrecv1", "main.send")
			}
			posts := func() {
				if !x.local {
					begins(post)
					return
				}
				do(b.Wakes(hub, 0, post, rests))
				do(b.Waits(hub, "chan receive", rests))
				do(b.Runs(post, 0, 0))
			}
			do(b.Busy(0))
			for _, g := range []gotrace.GoID{poll, post, other} {
				do(b.Runs(g, 0, 0))
				do(b.Waits(g, "network", home))
			}
			for i := range x.open {
				do(b.Runs(open0+gotrace.GoID(i), 0, 0))
				do(b.Waits(open0+gotrace.GoID(i), "network", home))
			}
			do(b.Runs(hub, 0, 0))
			do(b.Waits(hub, "chan receive", rests))
			for i := range rounds {
				pass(ms)
				if x.early {
					begins(post)
					do(b.Waits(post, "sleep", stack("time.Sleep", "main.post")))
				}
				if x.tells {
					begins(other)
					do(b.Waits(other, "chan receive", stack("runtime.chanrecv1", "main.fetch")))
				}
				begins(poll)
				if x.half && i%2 == 0 {
					pass(1e3)
					do(b.Wakes(poll, 0, hub, stack("runtime.chansend1", "main.next")))
					ends(poll)
					do(b.Runs(hub, 0, 0))
					do(b.Waits(hub, "chan receive", rests))
					continue
				}
				if x.asks || x.tells {
					pass(1e3)
					do(b.Wakes(poll, 0, hub, stack("runtime.chansend1", "main.next")))
				}
				do(b.Waits(poll, why, wait))
				if x.tells {
					do(b.Runs(hub, 0, 0))
					pass(1e3)
					do(b.Wakes(hub, 0, other, b.Stack("runtime.chansend1", "main.hub")))
					do(b.Waits(hub, "chan receive", rests))
					do(b.Runs(other, 0, 0))
					pass(1e5)
					ends(other)
				}
				if x.asks {
					do(b.Runs(hub, 0, 0))
					do(b.Calls(hub, b.Stack("syscall.Write", "internal/poll.(*FD).Write", "net.(*conn).Write", "main.hub")))
					pass(1e3)
					do(b.Returns(hub))
					do(b.Waits(hub, "chan receive", rests))
				}
				if pass(ms); x.works == 0 {
					pass(20 * ms)
				} else {
					pass(10 * ms)
				}
				switch {
				case x.early:
					begins(post)
				case x.local:
					do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, hub, 0))
					do(b.Runs(hub, 0, 0))
					posts()
				default:
					posts()
				}
				if x.waits {
					do(b.Waits(post, "chan receive", stack("runtime.chanrecv1", "main.take", "main.post")))
					begins(other)
					pass(1e4)
					do(b.Wakes(other, 0, post, stack("runtime.chansend1", "main.post")))
					ends(other)
					do(b.Runs(post, 0, 0))
				}
				by := post
				if x.hub {
					do(b.Wakes(post, 0, hub, stack("runtime.chansend1", "main.post")))
					ends(post)
					do(b.Runs(hub, 0, 0))
					pass(x.works + 1e3)
					by = hub
				}
				do(b.Wakes(by, 0, poll, from))
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
			for i := range x.open {
				g := open0 + gotrace.GoID(i)
				begins(g)
				pass(1e3)
				do(b.Waits(g, why, wait))
			}
			pass(20 * ms)
			b.Sample(gotrace.NoGoroutine, 0)
			f := Find(b.read(), Options{})
			if got := excluded(f, classPoll); got != x.polls || len(f.Requests) < rounds-1 {
				t.Errorf("%d polls are left out, %d requests remain: %+v", got, len(f.Requests), f.Endpoints)
			}
		})
	}
}
