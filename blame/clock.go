package blame

import "github.com/whylate/whylate/gotrace"

// clockFrames are the functions of the standard library that read the clock and
// nothing else (runtime, time; go1.22 to go1.26). A sample in the kernel's part of
// it is attributed to the innermost of them.
var clockFrames = map[string]bool{
	"runtime._VDSO": true, "runtime.nanotime1": true, "runtime.nanotime": true, "runtime.walltime": true,
	"runtime.walltime1": true, "runtime.time_now": true, "time.now": true, "time.runtimeNow": true,
	"time.runtimeNano": true, "time.Now": true, "time.Since": true, "time.Until": true,
}

// ReadsClock returns the stack of whoever reads the clock at the top of frames,
// innermost first; ok is false if nobody does.
func ReadsClock(frames []gotrace.Frame) (caller []gotrace.Frame, ok bool) {
	for len(frames) > 0 && IsClock(frames[0].Func) {
		frames, ok = frames[1:], true
	}
	return frames, ok
}

// IsClock reports whether a function is one by which a program reads the clock, the runtime's or package time's.
func IsClock(name string) bool { return clockFrames[name] }

// readsClock is ReadsClock for a stack of the trace.
func (a *Attribution) readsClock(s gotrace.StackID) bool {
	reads, known := a.clockStacks[s]
	if !known {
		_, reads = ReadsClock(a.t.Stacks.Frames(s))
		a.clockStacks[s] = reads
	}
	return reads
}
