package timeline

import (
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// Starter is who made the garbage collector start a cycle.
type Starter uint8

// The starters.
const (
	// Paced: the heap reached its trigger, or two minutes had passed, or the trace
	// does not say.
	Paced Starter = iota
	// Forced: somebody called runtime.GC, or debug.FreeOSMemory, which does.
	Forced
	// Tracer: the execution tracer itself allocated what was too much, for its
	// list of goroutines.
	Tracer
	// Starters is their number.
	Starters
)

// Cycle is a concurrent mark phase of the garbage collector; G is the goroutine
// that started it, at Stack.
type Cycle struct {
	Span
	Starter Starter
	// Before is the size of the heap when the phase began, Live what of it was
	// found alive, Goal the size it may reach in the next cycle, all in bytes; 0
	// if the trace does not say. Goal is 0 too where GOGC=off.
	Before, Live, Goal uint64
}

// Room is by how much the heap could grow after a cycle until the next one's
// goal, as a part of what was alive; ok is false if the trace does not say.
func (c *Cycle) Room() (room float64, ok bool) {
	if c.Live == 0 || c.Goal == 0 {
		return 0, false
	}
	return float64(c.Goal)/float64(c.Live) - 1, true
}

// The metrics of a trace that a cycle takes its sizes from, as in runtime/metrics.
const (
	metricHeap  = "/memory/classes/heap/objects:bytes"
	metricGoal  = "/gc/heap/goal:bytes"
	metricProcs = "/sched/gomaxprocs:threads"
)

const markPhase = "GC concurrent mark phase"

// heap follows the size of the heap. The runtime tells the goal once it has ended
// a cycle, while the world is still stopped.
type heap struct {
	size uint64
	open bool // the last cycle has no goal yet
}

func (b *builder) metric(ev *gotrace.Event) {
	switch ev.Name {
	case metricProcs:
		if ev.Value > 0 && ev.Value <= maxProcs {
			b.resized(ev.Time, int(ev.Value))
		}
	case metricHeap:
		b.heap.size = ev.Value
	case metricGoal:
		if b.heap.open {
			b.t.Cycles[len(b.t.Cycles)-1].Goal, b.heap.open = ev.Value, false
		}
	}
}

// mark ends a mark phase. The last size told before is that of what it found alive.
func (b *builder) mark(s Span, before uint64) {
	b.t.Cycles = append(b.t.Cycles, Cycle{Span: s, Starter: b.starter(s.Stack), Before: before, Live: b.heap.size})
	b.heap.open = true
}

// starter tells from the stack at which a cycle began who wanted it.
func (b *builder) starter(s gotrace.StackID) Starter {
	for _, f := range b.t.Stacks.Frames(s) {
		switch {
		case f.Func == "runtime.GC":
			return Forced
		case strings.HasPrefix(f.Func, "runtime.traceAdvance"), f.Func == "runtime.StartTrace":
			return Tracer
		}
	}
	return Paced
}

// finishCycles puts the cycles, and the mark phases without them, in order of time.
func (b *builder) finishCycles() {
	cs := b.t.Cycles
	sort.SliceStable(cs, func(i, j int) bool { return cs[i].Start < cs[j].Start })
	for i := range cs {
		b.t.GC = append(b.t.GC, cs[i].Span)
	}
}

// StartedBy returns the mark phases that s started, in order of time.
func (t *Timeline) StartedBy(s Starter) []Span {
	var out []Span
	for i := range t.Cycles {
		if t.Cycles[i].Starter == s {
			out = append(out, t.Cycles[i].Span)
		}
	}
	return out
}
