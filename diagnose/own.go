package diagnose

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/timeline"
)

// profiles are the members that a request for a profile of its own filled: taking
// them may stop the target. The CPU profile does not.
var profiles = []string{evidence.MemberAllocsBefore, evidence.MemberAllocsAfter, evidence.MemberMutex, evidence.MemberBlock, evidence.MemberGoroutine}

// own returns the spans of the trace's clock in which profiles were asked for, in
// order and without overlap. The offsets of the manifest are fixed to the trace by
// its own beginning, which was asked for a round trip before origin.
func own(m *evidence.Manifest, t *timeline.Timeline, origin timeline.Time) []timeline.Span {
	trace := slices.IndexFunc(m.Recorded, func(r evidence.Recorded) bool { return r.Member == evidence.MemberTrace })
	if trace < 0 {
		return nil
	}
	var out []timeline.Span
	for _, r := range m.Recorded {
		if !slices.Contains(profiles, r.Member) || r.EndedNS <= r.StartedNS {
			continue
		}
		at := func(ns int64) timeline.Time { return origin + timeline.Time(ns-m.Recorded[trace].StartedNS) }
		if s := (timeline.Span{Start: at(r.StartedNS), End: at(r.EndedNS), Name: r.Member, G: timeline.NoG}); s.End > t.Start && s.Start < t.End {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b timeline.Span) int { return cmp.Compare(a.Start, b.Start) })
	for i := 1; i < len(out); i++ {
		out[i].Start = max(out[i].Start, out[i-1].End)
		out[i].End = max(out[i].End, out[i].Start)
	}
	return out
}
