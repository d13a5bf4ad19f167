package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// A connection that nobody makes is no first one: whether the peer or the way to it is to blame is
// not known.
func TestConnectionsThatComeToNothing(t *testing.T) {
	const first, n = crowd0 + 1, 20
	connecting := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "main.ask", "main.serve"}
	asks := func(g gotrace.GoID, ended bool) func(p *play) {
		return func(p *play) {
			p.wakes(0, g)
			p.runs(g, 1)
			p.do(p.b.Task(g, "request"))
			p.leaves(g, 1, "network", connecting...)
			p.pass(ms / 10)
			if ended { // it is there at once
				p.wakes(0, g)
				p.runs(g, 1)
				p.do(p.b.Done(g))
				p.leaves(g, 1, "network", home...)
			}
		}
	}
	some := func(ended int) scene {
		return scene{procs: 2, requests: 330, cast: func(p *play) {
			for g := range gotrace.GoID(n) {
				p.waits(first+g, "", home...)
			}
		}, in: func(p *play, i int) {
			if i == 299 {
				for g := range gotrace.GoID(n) {
					asks(first+g, int(g) < ended)(p)
				}
			}
		}}
	}
	tell(t, []told{
		{name: "none", scene: some(0), alike: []string{"slow-dependency", "tcp-loss"}},
		{name: "a quarter", scene: some(n / 4), alike: []string{"slow-dependency", "tcp-loss"}},
	})
}
