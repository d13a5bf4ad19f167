package blame

import (
	"testing"

	"github.com/whylate/whylate/capture/kernel/events"
)

// Who waits for the collector waits for the quota while that stops the process: nobody marks then.
func TestTheCollectorDoesNothingWhileAQuotaStopsTheProcess(t *testing.T) {
	_, a := attribute(t, `procs 1
stack home = internal/poll.runtime_pollWait < net.(*conn).Read < main.serve
stack assist = runtime.gcAssistAlloc < main.serve
off 0 stopped 3ms-7ms
request /a g1 1ms-9.5ms
0ms g1 waits at home
0ms g2 waits at home
0ms p0 busy
1ms p0 wakes g1
1ms g1 runs on p0
1.5ms g1 waits GC mark assist wait for work at assist
2ms p0 wakes g2
2ms g2 runs on p0
9ms g2 wakes g1
9ms g2 waits network at home
9ms g1 runs on p0
9.5ms g1 waits network at home
9.9ms end
`, "")
	var stopped, waited int64
	for _, p := range a.Requests[0].Pieces {
		switch k := a.Keys[p.Key]; {
		case k.Kind == GCWait && k.Off == events.Stopped:
			stopped += p.NS
		case k.Kind == GCWait:
			waited += p.NS
		}
	}
	if stopped != 4e6 || waited != 3.5e6 {
		t.Errorf("stopped for %d ns, the rest %d", stopped, waited)
	}
}
