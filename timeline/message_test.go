package timeline_test

import (
	"testing"

	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

func TestMessagesAreGoroutinesUntilTheyAreForgotten(t *testing.T) {
	b := timelinetest.NewBuilder()
	stack := b.Stack("runtime.chansend1", "main.read")
	b.Procs(1)
	for _, err := range []error{b.Busy(0), b.Runs(1, 0, b.Stack("main.read")), b.At(1000), b.Waits(1, "network", stack)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tl, err := timeline.Read(b.Source(), timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reader, n := timeline.GID(0), len(tl.Gs)
	one, other := tl.Await(reader, reader, stack, 100, 250), tl.Await(reader, reader, stack, 300, 500)
	for i, g := range []timeline.GID{one, other} {
		m := &tl.Gs[g]
		want := [][2]timeline.Time{{100, 250}, {300, 500}}[i]
		if s := m.Seg(0); m.Len() != 1 || s.Start != want[0] || s.End != want[1] || s.Kind != timeline.Waiting || s.Waker != reader || s.Stack != stack || s.Reason != timeline.ReasonChanReceive {
			t.Errorf("message %d: %+v of %d", i, s, m.Len())
		}
		if m.Root() != tl.Gs[reader].Root() || !m.Message || m.Born || m.Died || len(m.Wakes()) != 0 {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	if s := tl.Gs[tl.Await(reader, timeline.NoG, stack, 300, 500)].Seg(0); s.Waker != timeline.NoG || s.Reason != timeline.ReasonSleep {
		t.Errorf("until a timer goes off: %+v", s)
	}
	if tl.ForgetMessages(); len(tl.Gs) != n {
		t.Errorf("%d goroutines, %d before there were messages", len(tl.Gs), n)
	}
}
