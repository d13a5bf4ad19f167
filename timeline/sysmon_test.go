package timeline_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// The thread of P 0 gets no CPU from 4 to 14 ms, and the network delivers at 3 and at 15 ms.
func TestOnlySysmonTellsThatNobodyWaitedForTheNetwork(t *testing.T) {
	const other = 9
	for name, c := range map[string]struct {
		first, second gotrace.ThreadID
		want          int64
	}{
		"a thread that never has a P":      {other, other, 5e6},
		"it delivers for the first time":   {gotrace.NoThread, other, 14e6},
		"a thread that has had a P":        {0, 0, 14e6},
		"threads that are not told":        {gotrace.NoThread, gotrace.NoThread, 14e6},
		"two that deliver once":            {other, other + 1, 14e6},
		"one with a P does before":         {0, other, 14e6},
		"one with a P does, sysmon before": {other, 0, 14e6},
	} {
		t.Run(name, func(t *testing.T) {
			b := timelinetest.NewBuilder()
			do := func(ns int64, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				if err := b.At(ns); err != nil {
					t.Fatal(err)
				}
			}
			read := b.Stack("internal/poll.runtime_pollWait", "main.read")
			b.Procs(2)
			do(0, b.Runs(1, 0, 0))
			do(0, b.Runs(2, 1, read))
			do(0, b.Waits(3, "", read))
			do(1e6, b.Waits(1, "network", read))
			do(3e6, b.Idle(0, gotrace.NoProc))
			b.On(gotrace.NoProc, c.first)
			do(3e6, b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, 1, 0))
			do(3e6, b.Busy(0))
			do(4e6, b.Runs(1, 0, 0))
			do(4e6, b.Wakes(1, gotrace.NoProc, 3, 0))
			do(14e6, b.Waits(1, "network", read))
			do(15e6, b.Runs(3, 0, 0))
			b.On(gotrace.NoProc, c.second)
			do(16e6, b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, 1, 0))
			b.Sample(gotrace.NoGoroutine, 0)
			tl, err := timeline.Read(b.Source(), timeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			at := timelinetest.Epoch + 15e6
			if got := int64(tl.LastPoll(0, at) - timelinetest.Epoch); got != c.want {
				t.Errorf("the last poll is at %d ns, want %d", got, c.want)
			}
		})
	}
}
