package blame

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whylate/whylate/timeline"
)

// queue is a script in which so many requests wait for a lock one after the other, and whoever
// holds it waits until a worker has made many calls.
func queue(requests, calls int) string {
	const first = 10
	var s strings.Builder
	fmt.Fprint(&s, `procs 2
stack lock   = sync.(*Mutex).Lock < main.commit < main.handle
stack unlock = sync.(*Mutex).Unlock < main.commit < main.handle
stack stall  = runtime.chanrecv1 < main.stall < main.commit < main.handle
stack room   = runtime.chansend1 < main.compact
stack read   = syscall.pread < os.(*File).ReadAt < main.compact
`)
	end := 2 * requests * (2*calls + 10) // in µs, more than it takes
	for i := range requests {
		fmt.Fprintf(&s, "request /commit g%d 0ms-%dus\n", first+i, (i+1)*(2*calls+10))
	}
	fmt.Fprintf(&s, "0ms g3 runs on p1\n0ms g%d runs on p0\n", first)
	for i := 1; i < requests; i++ {
		fmt.Fprintf(&s, "0ms g%d waits at lock\n", first+i)
	}
	for i := range requests {
		fmt.Fprintf(&s, "+5us g%d waits chan receive at stall\n+0us p0 idle\nrepeat %d\n+1us g3 calls at read\n+1us g3 returns\nagain\n", first+i, calls)
		fmt.Fprintf(&s, "+1us g3 wakes g%d at room\n+1us p0 busy\n+0us g%d runs on p0\n+2us ", first+i, first+i)
		if i+1 < requests {
			fmt.Fprintf(&s, "g%d wakes g%d at unlock\n+1us g%d ends\n+0us g%d runs on p0\n", first+i, first+i+1, first+i, first+i+1)
		} else {
			fmt.Fprintf(&s, "g%d ends\n", first+i)
		}
	}
	fmt.Fprintf(&s, "%dus end\n", end)
	return s.String()
}

// What the worker did is walked once for all who wait for it, and each gets the same as if it had
// been walked for it alone.
func TestAQueueCostsItsHistoryOnce(t *testing.T) {
	const requests, calls = 60, 200
	_, a := attribute(t, queue(requests, calls), "")
	if len(a.Requests) != requests {
		t.Fatalf("%d requests", len(a.Requests))
	}
	var inCalls timeline.Time
	for i := range a.Requests {
		alone := map[KeyID]int64{}
		for _, s := range a.Path(i) { // the way itself is not remembered
			for _, p := range s.Pieces {
				alone[p.Key] += p.NS
			}
		}
		for _, p := range a.Requests[i].Pieces {
			if alone[p.Key] != p.NS {
				t.Fatalf("request %d has %d ns of %+v, alone %d", i, p.NS, a.Keys[p.Key], alone[p.Key])
			}
			if a.Keys[p.Key].Kind == Syscall {
				inCalls += timeline.Time(p.NS)
			}
		}
		if len(alone) != len(a.Requests[i].Pieces) {
			t.Errorf("request %d has %d pieces, alone %d", i, len(a.Requests[i].Pieces), len(alone))
		}
	}
	if least := timeline.Time(requests * requests / 2 * calls * 1000); inCalls < least/2 {
		t.Errorf("requests waited %v for the worker's calls, not %v", inCalls, least)
	}
	w := a.walker()
	for i := range a.Requests {
		w.request(i)
	}
	if steps, history := w.total+w.steps, requests*calls*2; steps > 10*history {
		t.Errorf("%d steps for a history of %d", steps, history)
	}
}
