package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// timely is a service that serves each request in a goroutine of its own, as
// net/http.TimeoutHandler does, and waits for that and for a deadline: does says what it
// does there.
func timely(cast func(p *play), does func(p *play, child gotrace.GoID, slow bool)) scene {
	child := gotrace.GoID(1000)
	return scene{procs: 2, cast: cast, in: func(p *play, i int) {
		child++
		p.seen[child] = true
		p.do(p.b.Starts(serving, gotrace.NoProc, child, p.stack("net/http.(*timeoutHandler).ServeHTTP", "main.serve"), p.stack("net/http.(*timeoutHandler).ServeHTTP.func1")))
		p.leaves(serving, 0, "select", "runtime.selectgo", "net/http.(*timeoutHandler).ServeHTTP", "main.serve")
		p.do(p.b.Busy(1))
		p.runs(child, 1)
		does(p, child, i%10 == 9)
		p.wakes(child, serving, "runtime.closechan", "net/http.(*timeoutHandler).ServeHTTP.func1")
		p.do(p.b.Ends(child))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
	}}
}

// The helper refreshes what requests need: it asks a peer, whose answer the reader brings,
// and holds a lock meanwhile.
var (
	queries = []string{"runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.ask", "main.refresh"}
	needs   = []string{"sync.(*Mutex).Lock", "main.lookup", "main.show", "net/http.(*timeoutHandler).ServeHTTP.func1"}
	brings  = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop"}
)

const bringer = helper + 1

// heldMeanwhile lets the child wait for the lock, which the helper holds while it waits.
func heldMeanwhile(p *play, child gotrace.GoID, slow bool) {
	if !slow {
		p.pass(ms / 10)
		return
	}
	p.wakes(0, helper)
	p.do(p.b.Busy(0))
	p.runs(helper, 0)
	p.leaves(helper, 0, "select", queries...)
	p.leaves(child, 1, "sync", needs...)
	p.pass(20 * ms)
	p.wakes(0, bringer)
	p.do(p.b.Busy(0))
	p.runs(bringer, 0)
	p.wakes(bringer, helper, "runtime.chansend1", "net/http.(*persistConn).readLoop")
	p.waits(bringer, "network", brings...)
	p.runs(helper, 0)
	p.wakes(helper, child, "sync.(*Mutex).Unlock", "main.refresh")
	p.leaves(helper, 0, "sleep", "time.Sleep", "main.refresh")
	p.do(p.b.Busy(1))
	p.runs(child, 1)
}

var childScenes = []told{
	{name: "the child waits for a lock that is held across a call", scene: timely(func(p *play) {
		p.waits(helper, "", "time.Sleep", "main.refresh")
		p.waits(bringer, "", brings...)
	}, heldMeanwhile), finding: "lock-held-across-wait", where: "main.refresh"},
	{name: "the child computes for long", scene: timely(nil, func(p *play, child gotrace.GoID, slow bool) {
		if slow {
			p.computes(child, 1, 40*ms, "main.parse", "main.show", "net/http.(*timeoutHandler).ServeHTTP.func1")
		}
	}), finding: "expensive-request", where: "main.parse"},
}

// A wait for one's own child is no queue: the queues are where the child waits.
func TestWhatAChildWaitsForIsTold(t *testing.T) { tell(t, childScenes) }
