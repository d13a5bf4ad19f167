package blame

import (
	"slices"
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// The runtime's own locks: what takes them and gives them back, and how it waits
// meanwhile, or ends the wait of others.
// Source: package runtime, lock_futex.go, lock_sema.go and lock_spinbit.go of Go 1.22
// to 1.26.
var (
	lockFrames = []string{"runtime.lock2", "runtime.unlock2", "runtime.unlock2Wake"}
	spinFrames = []string{
		"runtime.procyield", "runtime.procyieldAsm", "runtime.osyield", "runtime.usleep",
		"runtime.futexsleep", "runtime.futexwakeup", "runtime.futex", "runtime.semasleep", "runtime.semawakeup",
	}
	// aside are prefixes of functions that take such a lock for somebody who is another
	// cause: a mutex or condition of the program, the collector, a recording.
	aside = []string{
		"runtime.semacquire", "runtime.semrelease", "runtime.notifyList", "runtime.gcAssist", "runtime.gcDrain",
		"runtime.trace", "runtime.(*trace", "runtime.profilealloc",
	}
)

// RuntimeLock returns the function of the runtime for which a lock of the runtime is
// taken or given back at the top of frames, innermost first, "" if none is; spins says
// whether somebody waits for it meanwhile.
func RuntimeLock(frames []gotrace.Frame) (of string, spins bool) {
	locks := false
	for _, f := range frames {
		switch {
		case slices.Contains(lockFrames, f.Func):
			locks = true
		case !strings.HasPrefix(f.Func, "runtime.") && !strings.HasPrefix(f.Func, "internal/runtime/"):
			return of, spins && of != ""
		case !locks:
			spins = spins || slices.Contains(spinFrames, f.Func)
		case hasAny(f.Func, aside):
			return "", false
		case !strings.HasPrefix(f.Func, "runtime.lock") && !strings.HasPrefix(f.Func, "runtime.unlock"):
			of = f.Func // the outermost is what the program called
		}
	}
	return of, spins && of != ""
}
