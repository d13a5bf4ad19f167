package blame

import "testing"

// What a deadline ends in a request of a broker's client waits for an answer, whoever reads it; elsewhere nobody knows for what.
func TestARequestOfABrokerThatTimesOutWaitsForAnAnswer(t *testing.T) {
	for call, want := range map[string]LeafKind{
		"github.com/nats-io/nats%2ego.(*Conn).requestWithContext": Network,
		"main.receive": Awaited,
	} {
		_, a := attribute(t, `procs 2
stack home = internal/poll.runtime_pollWait < net.(*conn).Read < main.serve
stack wait = runtime.selectgo < `+call+` < main.ask < main.serve
stack put = runtime.chansend1 < main.loop
stack fire = time.goFunc
stack cancel = runtime.closechan < context.(*cancelCtx).cancel < time.goFunc
request /a g1 1ms-3.1ms
request /a g1 4ms-9.1ms
0ms g1 waits at home
0ms g2 waits at home
0ms p0 busy
0ms p1 busy
1ms p0 wakes g1
1ms g1 runs on p0
1.1ms g1 waits select at wait
2ms p1 wakes g2
2ms g2 runs on p1
2.1ms g2 wakes g1 at put
2.2ms g2 waits network at home
3ms g1 runs on p0
3.1ms g1 waits network at home
4ms p0 wakes g1
4ms g1 runs on p0
4.1ms g1 waits select at wait
9ms p1 starts g3 as fire at fire
9ms g3 runs on p1
9ms g3 wakes g1 at cancel
9ms g3 ends
9ms g1 runs on p0
9.1ms g1 waits network at home
9.9ms end
`, "")
		found := false
		for _, p := range a.Requests[len(a.Requests)-1].Pieces {
			if k := a.Keys[p.Key]; p.NS > 4e6 {
				if found = true; k.Kind != want || k.Flags&TimedOut == 0 {
					t.Errorf("%s: %v, flags %b, want %v", call, k.Kind, k.Flags, want)
				}
			}
		}
		if !found {
			t.Errorf("%s: nothing takes long", call)
		}
	}
}
