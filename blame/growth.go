package blame

import (
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// growthFrames are prefixes of the functions that make room for more and copy what
// there was: of slices, stacks and maps (runtime, internal/runtime/maps and standard
// library, go1.22 to go1.26). What they call, an allocation and a copy, is theirs.
var growthFrames = []string{
	"runtime.growslice", "runtime.reflect_growslice", "bytes.growSlice", "bytes.(*Buffer).grow", "strings.(*Builder).grow",
	"runtime.copystack",
	"internal/runtime/maps.(*table).grow", "internal/runtime/maps.(*table).split", "internal/runtime/maps.(*table).rehash", "internal/runtime/maps.(*Map).growTo",
	"runtime.hashGrow", "runtime.growWork", "runtime.evacuate",
}

// Grows reports whether the standard library makes room for more at the top of
// frames, innermost first. What it does for the garbage collector meanwhile is the
// collector's.
func Grows(frames []gotrace.Frame) bool {
	for _, f := range frames {
		switch {
		case strings.HasPrefix(f.Func, "runtime.gcAssist"):
			return false
		case hasAny(f.Func, growthFrames):
			return true
		case !strings.HasPrefix(f.Func, "runtime.") && !strings.HasPrefix(f.Func, "internal/runtime/"):
			return false
		}
	}
	return false
}

// grows is Grows for a stack of the trace.
func (a *Attribution) grows(s gotrace.StackID) bool {
	grows, known := a.growthStacks[s]
	if !known {
		grows = Grows(a.t.Stacks.Frames(s))
		a.growthStacks[s] = grows
	}
	return grows
}

// sampled returns the part of a running time d of g within [from, to] that the
// samples of g among those of do say of its CPU samples there. Where there is none, the request's own goroutine counts
// as it does in all of the request; time of others counts as nothing of the kind.
func (w *walker) sampled(at *where, of map[timeline.GID][]timeline.Time, g timeline.GID, from, to, d timeline.Time) timeline.Time {
	all := w.a.SamplesIn(g, from, to)
	if all == 0 && at.depth == 0 && g == w.g {
		from, to = w.begun, w.ends
		all = w.a.SamplesIn(g, from, to)
	}
	n := within(of[g], from, to)
	if n == 0 {
		return 0
	}
	return timeline.Time(float64(d) * float64(n) / float64(all))
}
