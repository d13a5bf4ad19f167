package timeline_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// What a goroutine waits for that waited when the recording began its stack tells.
func TestTheStackTellsWhatAWaitThatBeganBeforeIsFor(t *testing.T) {
	for _, c := range []struct {
		stack []string
		want  timeline.Reason
	}{
		{[]string{"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).Write", "os.(*File).Write", "main.log"}, timeline.ReasonSync},
		{[]string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).Lock", "main.get"}, timeline.ReasonSync},
		{[]string{"runtime.chanrecv1", "main.take"}, timeline.ReasonChanReceive},
		{[]string{"main.odd"}, timeline.ReasonOther},
	} {
		b := timelinetest.NewBuilder()
		b.Procs(1)
		for _, err := range []error{
			b.Busy(0), b.Waits(1, "", b.Stack(c.stack...)), b.At(1e6), b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, 1, 0), b.Runs(1, 0, 0), b.At(2e6),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		b.Sample(gotrace.NoGoroutine, 0)
		tl, err := timeline.Read(b.Source(), timeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := tl.Gs[0].Seg(0).Reason; got != c.want {
			t.Errorf("%v: %v", c.stack, got)
		}
	}
}
