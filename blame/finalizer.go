package blame

import (
	"slices"

	"github.com/whylate/whylate/timeline"
)

// finalizing are the root functions of the goroutines that run finalizers and
// cleanups: of finalizers there is one in the process.
// Source: package runtime, runfinq in Go 1.22 to 1.24, the others since 1.25.
var finalizing = []string{"runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups"}

// finalizes reports whether g runs finalizers and cleanups.
func (a *Attribution) finalizes(g timeline.GID) bool {
	return g != timeline.NoG && slices.Contains(finalizing, a.t.Gs[g].Root())
}

// Finalizing reports whether the goroutines of a class run finalizers and cleanups, or
// are born by those that do, and by nobody else.
func (a *Attribution) Finalizing(class ClassID) bool {
	if a.finalizers == nil {
		a.finalizers = map[string]bool{}
		others := map[string]bool{}
		for g := range a.t.Gs {
			by := others
			if me := &a.t.Gs[g]; a.finalizes(timeline.GID(g)) || a.finalizes(me.Creator) {
				by = a.finalizers
			}
			by[a.t.Gs[g].Root()] = true
		}
		for root := range others {
			delete(a.finalizers, root)
		}
	}
	return a.finalizers[a.Classes[class].Root]
}
