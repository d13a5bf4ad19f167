package diagnose

import (
	"testing"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/timeline"
)

func TestOwnProfilesAreAlignedToTheTracesBeginning(t *testing.T) {
	tl := &timeline.Timeline{Start: 1000, End: 2000}
	member := func(name string, from, to int64) evidence.Recorded {
		return evidence.Recorded{Member: name, StartedNS: from, EndedNS: to}
	}
	m := &evidence.Manifest{Recorded: []evidence.Recorded{
		member(evidence.MemberAllocsBefore, 10, 20), // over before the trace began
		member(evidence.MemberCPU, 50, 1050),
		member(evidence.MemberTrace, 100, 1100),
		member(evidence.MemberGoroutine, 700, 900),
		member(evidence.MemberMutex, 600, 750), // at the same time
		member(evidence.MemberBlock, 800, 790), // no span
		member(evidence.MemberAllocsAfter, 1099, 1300),
	}}
	got := own(m, tl, tl.Start)
	want := []timeline.Span{{Start: 1500, End: 1650}, {Start: 1650, End: 1800}, {Start: 1999, End: 2200}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i].Start != want[i].Start || got[i].End != want[i].End {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	m.Recorded = m.Recorded[3:]
	if got := own(m, tl, tl.Start); got != nil {
		t.Errorf("without a trace: %+v", got)
	}
}
