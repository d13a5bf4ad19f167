package blame

import (
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// sweepFrames are the functions that sweep for who allocates: before it gets a span, and when its
// allocation begins a cycle that has to wait for the end of the last one's sweep (runtime,
// go1.22 to go1.26).
var sweepFrames = []string{"runtime.sweepone", "runtime.deductSweepCredit", "runtime.(*sweepLocked).sweep"}

// sweeps reports whether a goroutine sweeps on a stack of the trace: that is the garbage collector's
// work, done by who allocates, as an assist is.
func (a *Attribution) sweeps(s gotrace.StackID) bool {
	sweeps, known := a.sweepStacks[s]
	if known {
		return sweeps
	}
	for _, f := range a.t.Stacks.Frames(s) {
		if hasAny(f.Func, sweepFrames) {
			sweeps = true
		}
		if sweeps || !strings.HasPrefix(f.Func, "runtime.") && !strings.HasPrefix(f.Func, "internal/runtime/") {
			break
		}
	}
	a.sweepStacks[s] = sweeps
	return sweeps
}
