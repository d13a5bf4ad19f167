// Package events is what the kernel's scheduler told about the threads of a process:
// the member kernel.events of an incident. It needs no privilege and no Linux; package
// kernel records what is read here.
package events

// Schema names the format of kernel.events: one JSON value per line. The first line is
// an object with a header, the last one with what is known after the recording; those between
// are arrays with the numbers of a [Stretch] in the order of [Fields], or a [Call] each.
const Schema = "whylate.kernel/1"

// Fields are the names of the numbers of a stretch, as the header lists them; of the last one recordings of
// earlier versions know nothing.
var Fields = []string{"tid", "cpu", "out", "on", "off", "queue", "flags", "nr", "behind"}

// Known are those that every recording has.
var Known = Fields[:8:8]

// The sets of probes.
const (
	// Sched: stretches.
	Sched = "sched"
	// Clock: readings of the clock.
	Clock = "clock"
	// Cgo: calls into C. CgoReturn adds what the goroutine then waits for.
	Cgo       = "cgo"
	CgoReturn = "cgo-return"
	// Alloc: allocations that the runtime of Go samples.
	Alloc = "alloc"
	// Func: calls of functions that the user named.
	Func = "func"
	// GC: cycles of the garbage collector.
	GC = "gc"
	// TCP: what connections send again, and resets.
	TCP = "tcp"
	// Gosched: waits of runnable goroutines, from the states that the runtime gives them.
	Gosched = "gosched"
)

// Header is what does not change while a recording runs.
type Header struct {
	Schema string `json:"schema"`
	// PID is the process as whoever recorded saw it.
	PID int `json:"pid"`
	// Recorder is the process that recorded, as the initial pid namespace sees it, 0 if that is not known.
	Recorder int `json:"recorder,omitempty"`
	// Kernel and Arch are the machine's.
	Kernel string `json:"kernel,omitempty"`
	Arch   string `json:"arch,omitempty"`
	// CPUs is how many the process may use.
	CPUs int `json:"cpus"`
	// StartNS is when the recording began, on CLOCK_MONOTONIC: the clock of Go traces,
	// too. So are all instants here.
	StartNS int64 `json:"start_ns"`
	// Probes are the sets of probes that were recorded: [Sched], and others for a part of
	// the recording.
	Probes []string `json:"probes"`
	// Fields are the names of the numbers in a line.
	Fields []string `json:"fields"`
}

// Stretch is a time for which a thread had a CPU, and the time before it for which it
// had none. All times are nanoseconds.
type Stretch struct {
	// TID is the thread's id as the process itself sees it.
	TID int
	// CPU is on which it ran.
	CPU int
	// Out is when it left the CPU, OnNS how long it had had it.
	Out, OnNS int64
	// OffNS is how long it had had none before, 0 if that is not known. The last QueueNS
	// of it the thread was ready to run: since it was woken, or all the time if it had
	// been made to leave.
	OffNS, QueueNS int64
	// Flags say how it came to be off.
	Flags Flags
	// NR is the number of the system call that it was in when it left, -1 if it was in
	// none: then it was preempted, waits for a page that it touched, or was stopped.
	NR int
	// Behind is the process that had the CPU until the thread got it, as the initial pid namespace sees it: a thread of the
	// kernel is a process of its own. 0 if none had it, or if that is not known.
	Behind int
}

// In is when the thread got the CPU.
func (s *Stretch) In() int64 { return s.Out - s.OnNS }

// From is when the thread had lost the CPU before that, In if that is not known.
func (s *Stretch) From() int64 { return s.In() - s.OffNS }

// Flags say how a thread came to be off the CPU.
type Flags uint8

const (
	// Preempted: it would have gone on.
	Preempted Flags = 1 << iota
	// Throttled: a quota of its cgroup was used up.
	Throttled
	// Uninterruptible: it slept as threads do for devices and pages.
	Uninterruptible
	// BlockIO: it waited for a block device.
	BlockIO
	allFlags = 1<<iota - 1
)

// After is what is known when a recording has ended.
type After struct {
	// EndNS is when it did.
	EndNS int64 `json:"end_ns"`
	// Stretches is how many were written, Lost how many were not: the reader was too
	// slow for them.
	Stretches int64 `json:"stretches"`
	Lost      int64 `json:"lost"`
	// Full says that the recording ended at its bound in bytes.
	Full bool `json:"full,omitempty"`
	// Missing are sets of probes that were asked for and could not be recorded.
	Missing []Missing `json:"missing,omitempty"`
	// Readings is what was counted of the clock; nil if nothing was.
	Readings *Readings `json:"clock,omitempty"`
	// Cgo, Allocs, GC and Waits are what was counted in functions of Go's runtime; nil if
	// nothing was.
	Cgo    *CgoCalls   `json:"cgo,omitempty"`
	Allocs *Allocs     `json:"alloc,omitempty"`
	GC     *Cycles     `json:"gc,omitempty"`
	Waits  *Goroutines `json:"gosched,omitempty"`
	// TCP is what went wrong with connections; nil if that was not recorded.
	TCP *Connections `json:"tcp,omitempty"`
	// Func is about the calls of functions that the user named; nil if there were none.
	Func *Calls `json:"func,omitempty"`
	// Processes are those behind which threads waited for a CPU, those for the longest time first.
	Processes []Process `json:"processes,omitempty"`
	// Programs is what the probes took, by the kernel's own count: of a part of the time,
	// from which that of all is estimated.
	Programs []Program `json:"programs,omitempty"`
	// CPUNS is the CPU time of reading and writing the events.
	CPUNS int64 `json:"cpu_ns"`
}

// Missing says why a set of probes was not recorded.
type Missing struct {
	Probes string `json:"probes"`
	Why    string `json:"why"`
}

// Readings are the system calls by which a process read the wall's or the monotonic clock
// in a part of the recording. A process that can read them in its own memory, as mostly,
// makes none of them.
type Readings struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
	// Calls is how many ended, NS what they took in the kernel, MaxNS the longest one.
	Calls int64 `json:"calls"`
	NS    int64 `json:"ns"`
	MaxNS int64 `json:"max_ns"`
	// Short says that counting ended early, because it had taken its share.
	Short bool `json:"short,omitempty"`
	// Callers are the stacks of one call in 32, the most frequent first; nothing if the
	// process is no Go program.
	Callers []Caller `json:"callers,omitempty"`
}

// Stack are names of functions, the innermost first. What is not Go is one "[not Go]".
type Stack []string

// Caller is how often something came from a stack.
type Caller struct {
	N     int64 `json:"n"`
	Stack Stack `json:"stack"`
}

// Burst is for how long functions of a process were watched, and what it took.
type Burst struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
	// Hits is how often a thread of the process went to the kernel for it, HitNS what that
	// takes here by a measurement before, in ns of CPU time.
	Hits  int64 `json:"hits"`
	HitNS int64 `json:"hit_ns"`
	// Lost is how many events found no room in a table, or in the file.
	Lost int64 `json:"lost,omitempty"`
	// Short says that it ended early, because it had taken its share.
	Short bool `json:"short,omitempty"`
}

// Histogram has in slot i how many times were 2^i ns or longer, and less than twice as
// long. What follows the last slot is 0.
type Histogram []int64

// CgoCalls are the calls into C that ended in a part of the recording.
type CgoCalls struct {
	Burst
	// Functions are those that took longest in all, the first one most; More is how many
	// are left out.
	Functions []CFunction `json:"functions"`
	More      int         `json:"more,omitempty"`
}

// CFunction is what is known of one function of C. Times are ns.
type CFunction struct {
	// Name is C's, taken from Go, the function in Go that calls it; that one's if it was not
	// made by cgo.
	Name  string `json:"name"`
	Go    string `json:"go"`
	Calls int64  `json:"calls"`
	// NS is the time in C in all, MaxNS that of the longest call, Histogram that of each.
	NS        int64     `json:"ns"`
	MaxNS     int64     `json:"max_ns"`
	Histogram Histogram `json:"histogram"`
	// Goroutine and Stack are those of the longest call.
	Goroutine int64 `json:"goroutine,omitempty"`
	Stack     Stack `json:"stack,omitempty"`
	// Back is how long goroutines then took to run Go code again, with [CgoReturn].
	Back *Back `json:"back,omitempty"`
}

// Back are the ends of calls into C.
type Back struct {
	Calls int64 `json:"calls"`
	NS    int64 `json:"ns"`
	MaxNS int64 `json:"max_ns"`
}

// Allocs are the allocations of which Go's runtime took a sample: one in 512 KiB, unless
// the program sets runtime.MemProfileRate.
type Allocs struct {
	Burst
	Samples int64 `json:"samples"`
	Bytes   int64 `json:"bytes"`
	MaxSize int64 `json:"max_size"`
	// Sites are the stacks from which most bytes come.
	Sites []AllocSite `json:"sites"`
}

// AllocSite is a stack, and the allocations sampled there.
type AllocSite struct {
	Samples int64 `json:"samples"`
	Bytes   int64 `json:"bytes"`
	Stack   Stack `json:"stack"`
}

// Cycles are those of Go's garbage collector that ended: how long it marked. The program
// runs meanwhile, but for two moments.
type Cycles struct {
	Burst
	N     int64 `json:"n"`
	NS    int64 `json:"ns"`
	MaxNS int64 `json:"max_ns"`
}

// Connections is what the connections of a process sent again, and how often one was reset.
type Connections struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
	// Connections are those of the process with which something was wrong, those that
	// sent most again first; More is how many are left out.
	Connections []Connection `json:"connections"`
	More        int          `json:"more,omitempty"`
	// Others is how many segments were sent again, OtherResets how many connections reset, of
	// the same network namespace that are not the process's, or were not found to be before it
	// closed them.
	Others      int64 `json:"others,omitempty"`
	OtherResets int64 `json:"other_resets,omitempty"`
	Lost        int64 `json:"lost,omitempty"`
}

// Connection is one with which something was wrong.
type Connection struct {
	Local  string `json:"local"`
	Remote string `json:"remote"`
	// Again is how many segments were sent again, Syns how many of those that begin a
	// connection or answer that: each a second late, or more.
	Again int64 `json:"again,omitempty"`
	Syns  int64 `json:"syns,omitempty"`
	// ResetsSent and ResetsGot are how often it was broken off by this side and by the other.
	ResetsSent int64 `json:"resets_sent,omitempty"`
	ResetsGot  int64 `json:"resets_got,omitempty"`
	// AtNS is when the last of Again and Syns were sent, in order.
	AtNS []int64 `json:"at_ns,omitempty"`
}

// Goroutines are the times for which goroutines were runnable before they ran.
type Goroutines struct {
	Burst
	N         int64     `json:"n"`
	NS        int64     `json:"ns"`
	MaxNS     int64     `json:"max_ns"`
	Histogram Histogram `json:"histogram"`
	// Goroutine is the one that waited longest.
	Goroutine int64 `json:"goroutine,omitempty"`
}

// Process is a process of the machine; Name is the kernel's, up to 15 bytes of what it is called, "" if it was gone
// when that was asked for.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"`
}

// Program is what one program in the kernel took: of all CPUs, for all processes.
type Program struct {
	Name string `json:"name"`
	Runs int64  `json:"runs"`
	NS   int64  `json:"ns"`
}

// Calls are those of functions that the user named: see [Recording.Calls].
type Calls struct {
	Burst
	// Functions are the names, by the numbers that calls have.
	Functions []string `json:"functions"`
	// Calls is how many were written.
	Calls int64 `json:"calls"`
	// Skipped is how many more functions match in which there is no place for probes.
	Skipped int `json:"skipped,omitempty"`
	// Unended is how many began and are not among them, because they did not return: they
	// panicked, or their goroutine ended in them.
	Unended int64 `json:"unended,omitempty"`
}

// Call is the time for which a goroutine was in a function, of those that the user named
// the outermost one. It stands in a line of its own, {"call":[17,0,99000,120000]}.
type Call struct {
	Goroutine int64
	// Func is the number of the function in [Calls].
	Func     int
	From, To int64
	// Open: it had not ended when the probes were removed, which is To; 0 in the file. Or it
	// panicked, its goroutine has not ended, and called none of the functions since from where
	// it had called this one.
	Open bool
}
