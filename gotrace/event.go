// Package gotrace decodes Go execution traces (go1.22 and newer) into a stream
// of flat events with interned stacks.
//
// The package is small on purpose: everything above it sees only [Event],
// [Stacks] and [Reader], never the decoder that feeds them. A [Splitter] divides
// a trace for several Readers, in little memory or on several CPUs.
package gotrace

// Time is an instant in nanoseconds on the trace's clock. On Linux that is
// CLOCK_MONOTONIC with a resolution of 64 ns.
type Time int64

// GoID, ProcID and ThreadID are the runtime's ids of a goroutine, a P and an M.
// They are never negative but for the three "none" values.
type (
	GoID     int64
	ProcID   int64
	ThreadID int64
	TaskID   uint64
)

// None values.
const (
	NoGoroutine GoID     = -1
	NoProc      ProcID   = -1
	NoThread    ThreadID = -1
	// BackgroundTask is the task of annotations made outside any task.
	BackgroundTask TaskID = 0
)

// Kind says which fields of an [Event] are meaningful.
type Kind uint8

// The kinds of events. Kinds of the decoder that nothing above needs are
// dropped by the [Reader].
const (
	// KindNone is the zero Kind; a Reader never returns it.
	KindNone Kind = iota
	// KindSync separates generations, and ends the trace. Wall is set from go1.25 on, Value is
	// where the generation begins in the trace.
	KindSync
	// KindGo is a goroutine's change of state: Go, From, To, Reason, GoStack.
	KindGo
	// KindProc is a P's change of state: Proc, From, To.
	KindProc
	// KindRangeBegin, KindRangeActive and KindRangeEnd delimit a named range
	// of time: Name, Scope and Go or Proc. Active ranges began before the
	// trace (or the generation) did.
	KindRangeBegin
	KindRangeActive
	KindRangeEnd
	// KindLabel attaches Name to goroutine Go, until it next stops running.
	KindLabel
	// KindSample is a CPU profile sample: Stack of G.
	KindSample
	// KindTaskBegin and KindTaskEnd are runtime/trace tasks: Task, Name, and where it begins Parent.
	KindTaskBegin
	KindTaskEnd
	// KindRegionBegin and KindRegionEnd are runtime/trace regions of G: Task, Name.
	KindRegionBegin
	KindRegionEnd
	// KindMetric is a sampled metric: Name (as in runtime/metrics), Value.
	KindMetric
)

// State is a state of a goroutine or a P.
type State uint8

// The states. A P is only ever Running or Idle.
const (
	Undetermined State = iota
	NotExist
	Runnable
	Running
	Waiting
	Syscall
	Idle
)

func (s State) String() string {
	return [...]string{"undetermined", "not existing", "runnable", "running", "waiting", "in a syscall", "idle"}[s]
}

// Scope says what a range belongs to.
type Scope uint8

// The scopes of ranges.
const (
	ScopeGlobal Scope = iota
	ScopeGo
	ScopeProc
	ScopeThread
)

// Event is one event of a trace. It is a value: the caller may keep copies.
type Event struct {
	Kind     Kind
	From, To State
	Scope    Scope
	// Stack is G's stack at the event, if the trace has it.
	Stack StackID
	// GoStack is the subject's stack: where a goroutine blocked, or where a
	// new one starts. For a goroutine that changes its own state it equals Stack.
	GoStack StackID
	Time    Time

	// G, P and M are where the event was emitted: the goroutine that was
	// executing, its P and its thread, or the none values.
	G GoID
	P ProcID
	M ThreadID

	// Go or Proc is the subject of the event; it may differ from G and P.
	Go   GoID
	Proc ProcID
	// Slot and GSlot are small numbers from 1 on that Go, at a KindGo, and G have while they exist,
	// or 0 if the source does not give any. Goroutines that exist at the same time have different
	// ones, so that slices can have what else needs a map; when one is dead another may get its own.
	Slot, GSlot int32
	// Reason is why the subject changed state, in the runtime's words
	// ("sync", "chan receive", "preempted", ...), possibly empty.
	Reason string

	// Name is the range, label, task, region or metric name.
	Name string
	Task TaskID
	// Parent is the task within which a new one begins, at a KindTaskBegin; BackgroundTask if there is none.
	Parent TaskID
	// Value is the value of a numeric metric, or a number of bytes at a KindSync.
	Value uint64
	// Wall is the wall clock at a KindSync, in nanoseconds since 1970, or 0.
	Wall int64
}
