package blame

import "testing"

// What is taken at one line of the program is one thing, on whatever way its takers come there: who had it
// before waited for it, too, and did not hold it meanwhile.
func TestHoldsOfWhatIsTakenOnTwoWays(t *testing.T) {
	_, a := attribute(t, `procs 2
stack take = runtime.chanrecv1 < main.take < main.ask < main.handle
stack give = runtime.chansend1 < main.give < main.ask < main.handle
stack job  = runtime.chanrecv1 < main.take < main.ask < main.job
stack gave = runtime.chansend1 < main.give < main.ask < main.job
stack peer = internal/poll.runtime_pollWait < net.(*conn).Read < main.ask < main.job
stack root = main.handle
request /last g5 0ms-20ms
0ms p1 idle
0ms p0 busy
0ms p0 starts g2 as root
0ms p0 starts g3 as root
0ms p0 starts g4 as root
0ms p0 starts g5 as root
0ms g2 runs on p0
0ms g2 waits network at peer
0ms g3 runs on p0
0ms g3 waits chan receive at job
0ms g4 runs on p0
0ms g4 waits chan receive at job
0ms g5 runs on p0
0ms g5 waits chan receive at take
0ms p0 idle
5ms poller wakes g2
5ms g2 runs on p0
5ms g2 wakes g3 at gave
5ms g2 ends
5.001ms g3 runs on p0
5.001ms g3 waits network at peer
5.001ms p0 idle
10ms poller wakes g3
10ms g3 runs on p0
10ms g3 wakes g4 at gave
10ms g3 ends
10.001ms g4 runs on p0
10.001ms g4 waits network at peer
10.001ms p0 idle
15ms poller wakes g4
15ms g4 runs on p0
15ms g4 wakes g5 at gave
15ms g4 ends
15.001ms g5 runs on p0
20ms end
`, "")
	if r := queued(&a.Requests[0]); r.Holders != 3 || r.Longest > 5.001e6 || r.Held != 15e6 {
		t.Errorf("%d holders, longest %d ns, together %d ns", r.Holders, r.Longest, r.Held)
	}
}

// Who finds that marking is done waits for who found it before: that is the collector's only as long
// as it marks.
func TestWhoEndsTheMarkingWaitsForAP(t *testing.T) {
	_, a := attribute(t, `procs 2
stack done = runtime.gcMarkDone < runtime.gcAssistAlloc < main.handle
stack free = runtime.gcMarkDone < runtime.gcAssistAlloc < main.other
stack root = main.handle
request /x g1 0ms-12ms
0ms p0 busy
0ms p1 busy
0ms p0 starts g1 as root
0ms g1 runs on p0
0ms p0 enters GC concurrent mark phase
0ms g1 waits sync at done
0ms g2 runs on p0
0ms g3 runs on p1
2ms p0 leaves GC concurrent mark phase
10ms g2 wakes g1 at free
10ms g2 ends
10ms g1 runs on p0
12ms end
`, "")
	by := map[LeafKind]int64{}
	for _, p := range a.Requests[0].Pieces {
		by[a.Keys[p.Key].Kind] += p.NS
	}
	if by[GCWait] != 2e6 || by[Behind] != 8e6 {
		t.Errorf("%v", by)
	}
}
