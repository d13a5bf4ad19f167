package cause_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
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

// Who makes sessions answers late meanwhile: where a pool gives up connections all the time, answers that are awaited while somebody connects
// need no slow peer, unless they were late before.
func TestAnswersWhileOthersConnectAreDoubted(t *testing.T) {
	const transport = "net/http.(*Transport)."
	answer := []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.call", "main.serve"}
	shakes := []string{"net.(*conn).Read", "crypto/tls.(*Conn).HandshakeContext", transport + "dialConn", transport + "getConn", "main.call", "main.serve"}
	closes := []string{"syscall.Close", "internal/poll.(*FD).destroy", "net.(*netFD).Close", "net/http.(*persistConn).readLoop.func1", "net/http.(*persistConn).readLoop"}
	service := func(before int64, gives bool) scene {
		return scene{procs: 2, requests: 100, cast: crowdOf(1), in: func(p *play, i int) {
			if i%10 != 9 {
				peerWaits(p, ms, answer...)
				return
			}
			p.wakes(0, crowd0)
			p.runs(crowd0, 1)
			p.do(p.b.Task(crowd0, "request"))
			asks, connects := serving, gotrace.GoID(crowd0)
			if i%20 == 9 {
				asks, connects = connects, asks
			}
			on := func(g gotrace.GoID) gotrace.ProcID { return map[bool]gotrace.ProcID{true: 0, false: 1}[g == serving] }
			p.leaves(asks, on(asks), "network", answer...)
			if before > 0 { // the other one is about to
				p.pass(before)
			}
			p.leaves(connects, on(connects), "network", shakes...)
			p.pass(15 * ms)
			for _, g := range []gotrace.GoID{crowd0, serving} {
				p.pass(ms)
				p.wakes(0, g)
				p.runs(g, on(g))
				if gives && g == connects {
					p.does(g, closes)
				}
				if g == crowd0 {
					p.do(p.b.Done(crowd0))
					p.leaves(crowd0, 1, "network", home...)
				}
			}
		}}
	}
	for _, c := range []struct {
		name    string
		scene   scene
		doubted bool
	}{
		{"somebody connects all the time", service(0, true), true},
		{"the answer was late before", service(4*ms, true), false},
		{"no connection is given up", service(0, false), false},
	} {
		v := cause.Judge(attributed(t, c.scene), cause.Settings{})
		named := slices.ContainsFunc(v.Findings, func(f cause.Finding) bool { return f.Cause == "slow-dependency" })
		told := false
		for _, x := range v.Consistent {
			told = told || strings.Contains(strings.Join(x.Evidence, " "), "while somebody connects anew")
		}
		if told != c.doubted || named && c.doubted {
			t.Errorf("%s: told %v, named %v: %s", c.name, told, named, v.Sentence)
			for _, f := range v.Findings {
				t.Log(f.Cause, f.Share, f.Evidence)
			}
			for _, f := range v.Consistent {
				t.Log(f.Causes, f.Share, f.Evidence)
			}
		}
	}
}
