// Package timeline rebuilds from a trace's events who ran, who waited for what,
// who woke whom, and what every P executed.
//
// A [Timeline] is built in one pass by [Read] and is immutable afterwards: any
// number of goroutines may read it.
package timeline

import (
	"iter"
	"sort"

	"github.com/whylate/whylate/gotrace"
)

// Time is an instant in nanoseconds on the trace's clock.
type Time = gotrace.Time

// GID is a dense index of a goroutine in a Timeline.
type GID int32

// NoG stands for "no goroutine": the scheduler, a timer, the network poller.
const NoG GID = -1

// Kind is what a goroutine does in a segment.
type Kind uint8

// The kinds of segments.
const (
	// Running has a P and a thread; whether the thread was on a CPU a trace
	// does not tell.
	Running Kind = iota
	// Runnable waits for a P.
	Runnable
	// Waiting is blocked for a Reason, until its Waker (or nobody) woke it.
	Waiting
	// Syscall is in a system call or in C code.
	Syscall
)

func (k Kind) String() string {
	return [...]string{"running", "runnable", "waiting", "syscall"}[k]
}

// Reason is why a goroutine waits, or why it stopped running while it could go on.
type Reason uint8

// The reasons, in the runtime's words where it has some.
const (
	ReasonNone Reason = iota
	ReasonNetwork
	ReasonSync // Mutex, RWMutex, WaitGroup or a semaphore
	ReasonChanSend
	ReasonChanReceive
	ReasonSelect
	ReasonCond
	ReasonSleep
	ReasonForever
	ReasonGCAssist // waits for credit in the assist queue
	ReasonGC       // waits until a GC cycle or phase ends, or begins
	ReasonSystem   // a runtime goroutine waits for its work
	ReasonPreempted
	ReasonYield
	ReasonSwitch // was in the queue of a P that had to change threads for it (see thread)
	ReasonOther
)

var reasonNames = [...]string{"", "network", "sync", "chan send", "chan receive", "select", "sync.Cond",
	"sleep", "forever", "GC assist queue", "GC end", "system", "preempted", "yield", "thread switch", "other"}

func (r Reason) String() string { return reasonNames[r] }

// Segment is a stretch of time in which one goroutine did one thing. The
// segments of a goroutine are contiguous from its birth to its death.
//
// Its fields lie in structs of four at most, for which the compiler takes registers: what a
// pass over millions of segments does not look at costs nothing.
type Segment struct {
	Start, End Time
	Stood
	State
}

// Stood is where the goroutines of a [Segment] stood.
type Stood struct {
	// Stack is where it blocked (Waiting), what it called (Syscall) or where it
	// stopped running (Runnable); 0 when the trace does not say.
	Stack gotrace.StackID
	// WakerStack is where the waker stood when it ended this wait.
	WakerStack gotrace.StackID
}

// State is what a goroutine does in a [Segment].
type State struct {
	// Waker ended this wait; NoG when no goroutine did: network poller, timer,
	// runtime, or the end of the trace.
	Waker GID
	// P is the P of a Running segment, and of a Runnable one the P in whose queue
	// the goroutine was put when it was woken or born; -1 if neither: the queue of
	// all Ps, or it is not known.
	P      int16
	Kind   Kind
	Reason Reason
}

// Wake is one goroutine making another runnable, or giving birth to it.
type Wake struct {
	Time  Time
	Stack gotrace.StackID // where the waker stood
	whom  GID             // of a birth its complement
}

// Whom returns the goroutine that was woken, or born.
func (w *Wake) Whom() GID { return max(w.whom, ^w.whom) }

// Birth reports whether the goroutine was born.
func (w *Wake) Birth() bool { return w.whom < 0 }

// Span is a named stretch of time.
type Span struct {
	Start, End Time
	Name       string
	// Stopped is, for a stop-the-world, when the last other P had stopped: Start if
	// none ran.
	Stopped Time
	// G is the goroutine that caused it, or NoG; Stack is where it stood.
	G     GID
	Stack gotrace.StackID
}

// Goroutine is one goroutine's life within the trace.
type Goroutine struct {
	ID gotrace.GoID
	// Creator gave birth to it, at CreatorStack; NoG when born before the trace,
	// by a timer, or by the runtime.
	Creator      GID
	CreatorStack gotrace.StackID
	// Born and Died say whether birth and death lie within the trace. The times
	// are those of its first and its last segment.
	Born, Died bool
	// Bound marks one that ran on one thread only, on which nobody else did.
	Bound bool
	// System marks runtime goroutines; Observer those that record this trace.
	System, Observer bool
	yields           bool // it has segments of ReasonYield
	// Message marks what is no goroutine of the program, but stands for a message that waits in a
	// queue until a goroutine takes it: see [Timeline.Await].
	Message bool

	state int32 // of the builder, 0 if it has none
	root  int32 // in t.roots
	segs  run   // in t.segs
	wakes run   // in t.wakes
	begun Time  // the beginning of the first segment
	t     *Timeline
}

// seg is a segment as it is stored: it begins where the one before it ends.
type seg struct {
	end Time
	// by is the waker of a Waiting segment, the P of a Running or Runnable one.
	by   int32
	what int32 // in Timeline.whats
}

// what is what segments have in common: there are few.
type what struct {
	stack, wakerStack gotrace.StackID
	kind              Kind
	reason            Reason
	// gap marks one that does not begin where the one before it ends, but as Timeline.gaps says.
	gap bool
}

// stored is a what, with -1 for what its segments do not have, else 0: to tell by their kind takes
// longer than all the rest of reading them.
type stored struct {
	what
	noWaker, noP int32
}

// gap is a segment of a goroutine, behind a time in which that was dead: one that the runtime gives
// to threads of C comes again, and in a damaged trace any may.
type gap struct {
	id  gotrace.GoID
	seg int
}

// Root returns the function it was started with, or "" if never seen.
func (g *Goroutine) Root() string { return g.t.roots[g.root] }

// Len returns the number of its segments.
func (g *Goroutine) Len() int { return int(g.segs.n) }

// Seg returns its segment i, from 0 to Len()-1.
func (g *Goroutine) Seg(i int) Segment {
	if uint(i) >= uint(g.segs.n) {
		panic("timeline: no such segment")
	}
	// As g.t.segs.of does, in less time: this is called more often than anything else.
	segs, k := g.t.segs.chunks[g.segs.at>>slabBits], int(g.segs.at&(1<<slabBits-1))+i
	start := g.begun
	if i > 0 {
		start = segs[k-1].end
	}
	w := &g.t.whats[segs[k].what]
	if w.gap {
		start = g.t.gaps[gap{g.ID, i}]
	}
	return w.segment(start, segs[k])
}

// segment is the one that is stored as x.
func (w *stored) segment(start Time, x seg) Segment {
	return Segment{start, x.end, Stood{w.stack, w.wakerStack}, State{GID(x.by | w.noWaker), int16(x.by | w.noP), w.kind, w.reason}}
}

// Segs yields its segments, in order of time, with their indices.
func (g *Goroutine) Segs() iter.Seq2[int, Segment] { return g.those(0, every) }

// SegsFrom yields its segments from i on, which may be Len(), in order of time, with their indices.
func (g *Goroutine) SegsFrom(i int) iter.Seq2[int, Segment] { return g.those(i, every) }

// Waits yields its segments that are Waiting, in order of time, with their indices.
func (g *Goroutine) Waits() iter.Seq2[int, Segment] { return g.those(0, 1<<Waiting) }

// Blocked yields its segments that are Waiting or Syscall, in order of time, with their indices.
func (g *Goroutine) Blocked() iter.Seq2[int, Segment] { return g.those(0, 1<<Waiting|1<<Syscall) }

// every is the set of all kinds.
const every = 1<<Running | 1<<Runnable | 1<<Waiting | 1<<Syscall

// those yields the segments from i on that are of a set of kinds: to look at the kind before the
// rest is decoded takes half as long.
func (g *Goroutine) those(i int, kinds uint8) iter.Seq2[int, Segment] {
	return func(yield func(int, Segment) bool) {
		segs, whats, start := g.t.segs.of(g.segs), g.t.whats, g.begun
		if i > 0 {
			start = segs[i-1].end
		}
		for ; i < len(segs); i++ {
			x := segs[i]
			w := &whats[x.what]
			if kinds == every || kinds>>w.kind&1 != 0 {
				if w.gap {
					start = g.t.gaps[gap{g.ID, i}]
				}
				if !yield(i, w.segment(start, x)) {
					return
				}
			}
			start = x.end
		}
	}
}

// Wakes returns whom it woke or gave birth to, in order of time. The slice belongs to the
// Timeline.
func (g *Goroutine) Wakes() []Wake { return g.t.wakes.of(g.wakes) }

// Start returns the beginning of the first segment.
func (g *Goroutine) Start() Time {
	return g.begun
}

// End returns the end of the last segment.
func (g *Goroutine) End() Time {
	if g.segs.n == 0 {
		return 0
	}
	return g.t.segs.of(g.segs)[g.segs.n-1].end
}

// SegmentAt returns the index of the segment that contains t, half open on the
// left: Start < t <= End. Ends of waits so belong to the wait. It returns
// Len() when t is after the last segment.
func (g *Goroutine) SegmentAt(t Time) int {
	segs := g.t.segs.of(g.segs)
	return sort.Search(len(segs), func(i int) bool { return segs[i].end >= t })
}

// SegmentNear is SegmentAt for who knows about where it is: it looks around the segment near first,
// which may be any number.
func (g *Goroutine) SegmentNear(t Time, near int) int {
	segs := g.t.segs.of(g.segs)
	from, to := 0, len(segs) // it is not before from, and not after to
	for at, step := near, 1; at >= from && at < to; step *= 2 {
		if segs[at].end < t {
			from = at + 1
			at += step
		} else {
			to = at
			at -= step
		}
	}
	for from < to {
		if at := int(uint(from+to) / 2); segs[at].end < t {
			from = at + 1
		} else {
			to = at
		}
	}
	return from
}

// WaitBefore returns the index of its last Waiting segment before segment i, -1 if there is none.
func (g *Goroutine) WaitBefore(i int) int {
	segs, whats := g.t.segs.of(g.segs), g.t.whats
	for i--; i >= 0 && whats[segs[i].what].kind != Waiting; i-- {
	}
	return i
}

// Sample is a CPU profile sample taken inside the trace.
type Sample struct {
	Time  Time
	G     GID
	Stack gotrace.StackID
}

// Task is a finished runtime/trace task or an outermost region.
type Task struct {
	Name       string
	G          GID
	Start, End Time
	// Last is the goroutine that ended it, NoG if it is not known.
	Last GID
	// Stack is where a task was begun, 0 if the trace does not say.
	Stack gotrace.StackID
	// Child marks a task that was begun within another one, be it on another goroutine.
	Child bool
	// Open marks one that did not end within the trace.
	Open bool
	// Before marks one that the part of the trace before has, which it began in: Start is where this
	// part begins.
	Before bool
}

// Timeline is everything a trace says about who ran and who waited.
type Timeline struct {
	Start, End Time
	// Until is where the next part of the trace begins: what begins from there on is that one's,
	// although it is here, too. It is End if nothing is.
	Until Time
	// First says that it begins where the trace does: no other part has what went on then.
	First bool
	// Wall is the wall clock at WallAt, ns since 1970; 0 if unknown (before go1.25).
	Wall   int64
	WallAt Time
	// Version is the trace format's version.
	Version string
	Stacks  *gotrace.Stacks
	Gs      []Goroutine
	Procs   []Proc
	// STW are stop-the-world spans named by their reason, GC the concurrent
	// mark phases; both in order of time.
	STW, GC []Span
	// Cycles are the mark phases again, with what else is known of them.
	Cycles []Cycle
	// Silences are spans without any event although a P ran a goroutine: with
	// preemption every 10 ms, more than SilenceMin of it means that the
	// operating system stopped the process.
	Silences []Span
	Samples  []Sample
	Tasks    []Task
	Regions  []Task
	// Polls are the instants at which the network poller delivered something.
	Polls []Time
	// Events counts decoded events.
	Events int64
	// Lost is the damage at which this ends, or for [Read] the first damage of the trace, its Good
	// then the length of the part that this is the timeline of; nil if there is none.
	Lost *gotrace.CorruptError
	// Bytes is the length in the trace of what was read, 0 if the source does not say.
	Bytes int64

	// GOMAXPROCS is the largest number of Ps seen, 0 if the trace does not say.
	GOMAXPROCS int
	// Threads are the operating system's ids of the threads that ran goroutines,
	// as the process itself sees them, in ascending order.
	Threads []gotrace.ThreadID

	byID    ids
	segs    slab[seg]
	whats   []stored
	gaps    map[gap]Time   // beginnings
	awaits  map[what]int32 // of messages, in whats
	wakes   slab[Wake]
	roots   []string // the first is ""
	assists map[GID][]Span
	// idle and queued are the merged spans in which a P was idle and in which
	// somebody was runnable, marking those of the idle ones in which every idle P
	// ran a GC worker; parked are those in which a P had no thread, for lack of work.
	idle, queued, marking, parked []Interval
	// awake are those of idle in which the thread of such a P had a CPU, as far as that shows;
	// unpolled are the spans before sysmon polled the network, see findUnpolled.
	awake, unpolled []Interval
	// shared are those in which somebody was runnable in the queue of no P.
	shared []Interval
}

// SilenceMin is the shortest span without events that counts as a silence. The
// runtime preempts a running goroutine after 10 ms; twice that leaves room for
// a late sysmon.
const SilenceMin Time = 20e6

// G returns the index of a goroutine by the runtime's id. Ids are never reused.
func (t *Timeline) G(id gotrace.GoID) (GID, bool) {
	return t.byID.find(id, func(g GID) gotrace.GoID { return t.Gs[g].ID })
}

// Assists returns the GC mark assists of a goroutine, in order of time. The slice belongs to
// the Timeline.
func (t *Timeline) Assists(g GID) []Span { return t.assists[g] }

// Duration returns the length of the trace in nanoseconds.
func (t *Timeline) Duration() Time { return t.End - t.Start }

// Overlap returns the length of the part of [a, b] covered by spans, which must
// be in order of time and not overlap each other.
func Overlap(spans []Span, a, b Time) Time {
	var sum Time
	for i := sort.Search(len(spans), func(i int) bool { return spans[i].End > a }); i < len(spans) && spans[i].Start < b; i++ {
		sum += min(b, spans[i].End) - max(a, spans[i].Start)
	}
	return sum
}
