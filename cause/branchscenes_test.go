package cause_test

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// resolves has a request wait for a goroutine that it starts, which asks a peer.
func resolves(p *play, i int, takes int64) {
	child := gotrace.GoID(5000 + i)
	p.do(p.b.Starts(serving, 0, child, p.stack("main.serve"), p.stack("main.resolve")))
	p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.execute", "main.serve")
	p.runs(child, 0)
	gets(p, child, 0, takes, "main.resolve")
	p.wakes(child, serving, "runtime.chansend1", "main.resolve")
	p.do(p.b.Ends(child))
	p.runs(serving, 0)
}

// A third of the requests of the only endpoint miss a cache and ask a peer: that they take longer than those that do not is
// no stall, but a peer that is slow for some of them is one.
func TestThatSomeRequestsAskIsNoStall(t *testing.T) {
	third := func(i int) bool { return i%3 == 1 }
	asks := func(p *play, i int) { peerWaits(p, 4*ms+int64(i%7)*ms/4, reply...) }
	late := func(i int) bool { return i%48 == 1 }
	for _, c := range []struct {
		name  string
		does  func(p *play, i int)
		found string // "" for a healthy service, ? for look-alikes
	}{
		{"each takes its time", func(p *play, i int) {
			if third(i) {
				asks(p, i)
			}
		}, ""},
		{"by a client library", func(p *play, i int) {
			if third(i) {
				gets(p, serving, 0, 4*ms+int64(i%7)*ms/4, "main.serve")
			}
		}, ""},
		{"by a goroutine that each starts", func(p *play, i int) {
			if third(i) {
				resolves(p, i, 4*ms+int64(i%7)*ms/4)
			}
		}, ""},
		{"by a goroutine that each starts, and some take long", func(p *play, i int) {
			switch {
			case late(i):
				resolves(p, i, 20*ms)
			case third(i):
				resolves(p, i, 4*ms+int64(i%7)*ms/4)
			}
		}, "slow-dependency"},
		{"some of them take long", func(p *play, i int) {
			if third(i) {
				asks(p, i)
			}
			if late(i) {
				peerWaits(p, 20*ms, reply...)
			}
		}, "slow-dependency"},
		{"one of ten asks", func(p *play, i int) {
			if i%10 == 1 {
				asks(p, i)
			}
		}, "slow-dependency"},
		{"they come one after the other, as when a cache was emptied", func(p *play, i int) {
			if i%60 < 20 {
				asks(p, i)
			}
		}, "slow-dependency"},
		{"they sleep for long before they ask", func(p *play, i int) {
			if third(i) {
				p.leaves(serving, 0, "sleep", "time.Sleep", "main.backOff", "main.serve")
				p.pass(16*ms + int64(i%5)*ms)
				p.wakes(0, serving)
				p.runs(serving, 0)
				asks(p, i)
			}
		}, "timer-wait"},
		{"they give up", func(p *play, i int) {
			if third(i) { // nothing is read then
				peerWaits(p, 4*ms+int64(i%7)*ms/4, "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.call", "main.serve")
			}
		}, "slow-dependency"},
		{"they give up before that", func(p *play, i int) {
			if third(i) {
				peerWaits(p, 2*ms, "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.first", "main.serve")
				asks(p, i)
			}
		}, "slow-dependency"},
		{"the others ask somebody else", func(p *play, i int) {
			if third(i) {
				peerWaits(p, 9*ms+int64(i%7)*ms/4, reply...)
			} else {
				peerWaits(p, ms, "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.other", "main.serve")
			}
		}, "slow-dependency"},
		{"they write to a socket", func(p *play, i int) {
			if third(i) {
				peerWaits(p, 4*ms+int64(i%7)*ms/4, "internal/poll.runtime_pollWait", "internal/poll.(*FD).Write", "net.(*conn).Write", "main.send", "main.serve")
			}
		}, "?"},
		{"they wait for a permit of who asks", func(p *play, i int) {
			if third(i) {
				behindHelper("chan send", []string{"runtime.chansend1", "main.acquire", "main.serve"}, []string{"runtime.chanrecv1", "main.release", "main.loop"}, func(p *play) {
					p.leaves(helper, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.call", "main.loop")
					p.pass(4*ms + int64(i%7)*ms/4)
					p.wakes(0, helper)
					p.runs(helper, 1)
				})(p)
			}
		}, "back-pressure"},
		{"they connect", func(p *play, i int) {
			if third(i) {
				peerWaits(p, 4*ms+int64(i%7)*ms/4, "internal/poll.runtime_pollWait", "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "main.call", "main.serve")
			}
		}, "?"},
	} {
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 1000, cast: withReplies(waitingHelper), in: c.does}), cause.Settings{})
		got := map[bool]string{true: "?"}[v.Verdict == "inconclusive"]
		if len(v.Findings) > 0 {
			got = v.Findings[0].Cause
		}
		if got != c.found {
			t.Errorf("%s: %s, found %q, want %q: %s", c.name, v.Verdict, got, c.found, v.Sentence)
		}
		if got == "" && !strings.Contains(v.Sentence, "those that ask a peer, not a stall") {
			t.Errorf("%s: %s", c.name, v.Sentence)
		}
	}
}
