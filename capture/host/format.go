// Package host records what the operating system knows about a local process
// while its execution trace is taken: whether its threads got a CPU when they
// wanted one, whether its cgroup was throttled, what the machine was doing.
//
// A [Recorder] writes the member host.jsonl of an incident; [Read] reads it back,
// on any platform. Everything in the file is sampled: it supports shares over
// many requests and their correlation with slow ones, never a statement about a
// single request.
package host

// Schema names the format of host.jsonl: one JSON object per line, each with
// exactly one of the fields of [Line]. The first line is static, the last after.
const Schema = "whylate.host/1"

// Line is one line of host.jsonl.
type Line struct {
	Static *Static `json:"static,omitempty"`
	Sample *Sample `json:"sample,omitempty"`
	After  *After  `json:"after,omitempty"`
}

// Static is what does not change while a recording runs.
type Static struct {
	Schema string `json:"schema"`
	// PID is the process as whylate sees it, NSPID the ids it has in each of its
	// own pid namespaces, outermost first; the last is what the process calls itself.
	PID   int   `json:"pid"`
	NSPID []int `json:"nspid,omitempty"`
	// PeriodNS is the time between the first samples. It is chosen so that recording
	// stays below a hundredth of a CPU, and follows what looking costs; After says how it went.
	PeriodNS int64 `json:"period_ns"`
	// TickNS is the resolution of CPU times in jiffies (10 ms on most machines).
	TickNS int64 `json:"tick_ns"`
	// CPUs are online on the machine; Allowed is how many of them the process
	// may use: the union of the affinities of its threads, of the first MaxAffinities; 0 if unknown.
	CPUs    int `json:"cpus"`
	Allowed int `json:"allowed,omitempty"`
	// Clocksource is the kernel's current one.
	Clocksource string `json:"clocksource,omitempty"`
	// Groups are the cgroups that limit or account the CPU of the process, the
	// leaf first, then its ancestors without the root. Ancestors tells whether all of them up to
	// the root could be seen; inside a cgroup namespace they cannot. With cgroup v1, groups of the
	// memory hierarchy alone come last; their counters are zero.
	Groups    []Group `json:"groups,omitempty"`
	Ancestors bool    `json:"ancestors"`
	// Stdout and Stderr say what file descriptors 1 and 2 are: "pipe", "file",
	// "tty", "socket", "null" or "" if unknown.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Missing are the names of fields that could not be read, with the reason.
	Missing []Missing `json:"missing,omitempty"`
}

// MaxAffinities is of how many threads the CPUs that they may use are asked for.
const MaxAffinities = 256

// Group is one cgroup.
type Group struct {
	Path string `json:"path"`
	// QuotaUS of CPU time in every PeriodUS, both in microseconds; QuotaUS 0 is
	// no limit.
	QuotaUS  int64 `json:"quota_us,omitempty"`
	PeriodUS int64 `json:"period_us,omitempty"`
	// MemoryLimit in bytes, 0 if there is none.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
}

// MissingDelays is Missing.What of a kernel that does not count how long threads
// wait for a CPU.
const MissingDelays = "threads, delay_ns"

// Missing is evidence that could not be had.
type Missing struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

// Sample is one look at the process and its machine. Counters are absolute and
// only grow. A field that could not be read is zero in every sample. What is costly to read, such
// as the CPU time of a process with 10,000 threads, is read up to once a second and repeated in between.
type Sample struct {
	// MonoNS is CLOCK_MONOTONIC, the clock of Go traces, in the middle of the
	// look; TookNS how long it took.
	MonoNS int64 `json:"mono_ns"`
	TookNS int64 `json:"took_ns"`
	// RunNS and DelayNS are the CPU time and the waiting for a CPU of all threads
	// since the first sample, those that ended included. RunNS is exact; DelayNS lacks threads that
	// lived between two samples, and of a process with thousands of threads those that did not run
	// lately are read in turn, within seconds.
	RunNS   int64 `json:"run_ns"`
	DelayNS int64 `json:"delay_ns"`
	// Threads holds those that were read for the first time, in the first sample all of them
	// unless there are hundreds, and those that changed since they were last read.
	Threads []Thread `json:"threads,omitempty"`
	// Gone are thread ids that ended.
	Gone []int `json:"gone,omitempty"`
	// Blocked are thread ids in uninterruptible sleep (state D) right now. Of a process with hundreds of
	// threads those are missing that were so before the first sample.
	Blocked []int `json:"blocked,omitempty"`
	// NumThreads of the process.
	NumThreads int `json:"num_threads"`
	// UserNS and SystemNS are CPU times of the process, in ticks; MinorFaults and
	// MajorFaults its page faults; RSS its resident memory in bytes; IODelayNS
	// what its threads waited for block I/O and swapping in, if the kernel accounts for it.
	UserNS      int64 `json:"user_ns"`
	SystemNS    int64 `json:"system_ns"`
	MinorFaults int64 `json:"minor_faults"`
	MajorFaults int64 `json:"major_faults"`
	RSS         int64 `json:"rss"`
	IODelayNS   int64 `json:"io_delay_ns,omitempty"`
	// Voluntary and Involuntary context switches, summed over all threads; read
	// in the first and the last sample only.
	Voluntary   int64 `json:"voluntary,omitempty"`
	Involuntary int64 `json:"involuntary,omitempty"`
	// Groups are the counters of Static.Groups, in their order.
	Groups []GroupCounters `json:"groups,omitempty"`
	// Machine are the counters of the whole machine.
	Machine Machine `json:"machine"`
	// Confined are CPU times of the machine on the CPUs that the process may use; there only if
	// these are not all.
	Confined *CPUTimes `json:"confined,omitempty"`
	// ChildrenNS is the CPU time of the processes that descend from this one, since the first
	// sample, in ticks. Those that were not waited for when they ended are lost.
	ChildrenNS int64 `json:"children_ns,omitempty"`
	// Peers are those processes of the same machine that the process has connections to. It stands only in
	// samples in which they were read, from the first on that found some.
	Peers *Peers `json:"peers,omitempty"`
	// Net are counters of the process's network namespace: in the first and the last sample, and in
	// those in between in which they were read, at most two in a second.
	Net *Net `json:"net,omitempty"`
	// Listen are the queues of the process's listening sockets. It stands only in samples in which
	// they were read.
	Listen *Listen `json:"listen,omitempty"`
}

// Thread is one thread's scheduling counters: CPU time, time in a run queue, and
// how often it got a CPU (/proc/PID/task/TID/schedstat).
type Thread struct {
	TID int `json:"tid"`
	// NSTID is what the process itself calls it, if that differs: its id in the
	// innermost pid namespace, which traces use. It stands where the thread is
	// first mentioned.
	NSTID   int   `json:"nstid,omitempty"`
	RunNS   int64 `json:"run_ns"`
	DelayNS int64 `json:"delay_ns"`
	Slices  int64 `json:"slices"`
}

// Inner is the thread's id as the process itself knows it.
func (t Thread) Inner() int {
	if t.NSTID != 0 {
		return t.NSTID
	}
	return t.TID
}

// GroupCounters are a cgroup's CPU counters. ThrottledNS is summed over CPUs.
type GroupCounters struct {
	Periods     int64 `json:"periods"`
	Throttled   int64 `json:"throttled"`
	ThrottledNS int64 `json:"throttled_ns"`
	UsageNS     int64 `json:"usage_ns"`
}

// Machine are the machine's CPU times, summed over CPUs, and its pressure: the
// time in which at least one (Some) or every (Full) task waited for a resource.
type Machine struct {
	CPUTimes
	// CPUSomeNS and so on come from /proc/pressure; Pressure tells whether the
	// kernel has it.
	Pressure     bool  `json:"pressure"`
	CPUSomeNS    int64 `json:"cpu_some_ns,omitempty"`
	IOSomeNS     int64 `json:"io_some_ns,omitempty"`
	IOFullNS     int64 `json:"io_full_ns,omitempty"`
	MemorySomeNS int64 `json:"memory_some_ns,omitempty"`
	MemoryFullNS int64 `json:"memory_full_ns,omitempty"`
}

// CPUTimes are summed over CPUs.
type CPUTimes struct {
	BusyNS   int64 `json:"busy_ns"`
	IdleNS   int64 `json:"idle_ns"`
	IOWaitNS int64 `json:"iowait_ns"`
	StealNS  int64 `json:"steal_ns"`
}

// Net are counters of a network namespace.
type Net struct {
	// RetransSegs are segments that were sent again, those that open a connection included.
	RetransSegs     int64 `json:"retrans_segs"`
	ListenOverflows int64 `json:"listen_overflows"`
	ListenDrops     int64 `json:"listen_drops"`
	// OutOfOrder are segments that came before one that was sent earlier.
	OutOfOrder int64 `json:"out_of_order"`
}

// Listen are the listening TCP sockets that the process had when recording began, summed up.
type Listen struct {
	// Waiting is how many connections wait right now until the process accepts them, Room how many may.
	Waiting int64 `json:"waiting"`
	Room    int64 `json:"room"`
	// Dropped counts attempts to connect that found no room, or were refused otherwise, since the
	// sockets were opened. Who tries to connect tries again after a second.
	Dropped int64 `json:"dropped"`
}

// Peers is how long the threads of After.Peers together had a CPU and waited for one, in ns since each was found.
type Peers struct {
	RunNS   int64 `json:"run_ns"`
	DelayNS int64 `json:"delay_ns"`
}

// Peer is a process of the same machine that the process had a connection to, which the process opened.
type Peer struct {
	PID int `json:"pid"`
	// Name is the kernel's, up to 15 bytes of what the program is called; Address is what was connected to, as host:port.
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	// Also are others of its addresses that were connected to, in order; with Address at most MaxAddresses.
	Also []string `json:"also,omitempty"`
	// ThrottledNS is how long quotas of its cgroups stopped it while it was recorded, summed over CPUs and cgroups.
	ThrottledNS int64 `json:"throttled_ns,omitempty"`
}

// After is what is looked at once, when the trace is over.
type After struct {
	// Memory is the sum of /proc/PID/smaps. PSS and AnonHugePages are missing if it would take too
	// long to go through the pages, from about 40 MB of resident memory on.
	Memory *Memory `json:"memory,omitempty"`
	// Sockets are the process's own TCP connections and listeners, at most
	// MaxSockets; SocketsCut tells that there were more.
	Sockets    []Socket `json:"sockets,omitempty"`
	SocketsCut bool     `json:"sockets_cut,omitempty"`
	// Peers are those that Sample.Peers sums up, at most MaxPeers.
	Peers   []Peer    `json:"peers,omitempty"`
	Missing []Missing `json:"missing,omitempty"`
	// Allowed is there if threads turned up later that may use CPUs which are not
	// in Static.Allowed: the union with theirs.
	Allowed int `json:"allowed,omitempty"`
	// Threads is how many there were, ThreadsRead how many of them were read at least once. Where
	// these are fewer, DelayNS lacks what the others waited.
	Threads     int `json:"threads,omitempty"`
	ThreadsRead int `json:"threads_read,omitempty"`
	// CPUNS is the CPU time that recording cost, from opening to closing files, EndNS the part of it
	// after the last sample. WallNS is how long it ran. Samples is their number, PeriodNS the time
	// between the last ones.
	CPUNS    int64 `json:"cpu_ns"`
	EndNS    int64 `json:"end_ns,omitempty"`
	WallNS   int64 `json:"wall_ns"`
	Samples  int   `json:"samples,omitempty"`
	PeriodNS int64 `json:"period_ns,omitempty"`
	// Ended says why recording ended early, "" if it did not.
	Ended string `json:"ended,omitempty"`
}

// Memory is the process's memory in bytes.
type Memory struct {
	RSS           int64 `json:"rss"`
	PSS           int64 `json:"pss"`
	Swap          int64 `json:"swap"`
	AnonHugePages int64 `json:"anon_huge_pages"`
}

// Socket is one TCP socket of the process.
type Socket struct {
	// Local and Remote are addresses as host:port; State is the kernel's word,
	// such as LISTEN or ESTABLISHED.
	Local  string `json:"local"`
	Remote string `json:"remote,omitempty"`
	State  string `json:"state"`
	// Inbound marks connections to one of the process's own listening ports,
	// Inside those whose other end belongs to the process too.
	Inbound bool `json:"inbound,omitempty"`
	Inside  bool `json:"inside,omitempty"`
	// Retrans is how many segments were sent again on it since it was opened. It is there for the first
	// maxAsked connections that the process opened to others, if the kernel tells: it does not of other
	// network namespaces.
	Retrans *int64 `json:"retrans,omitempty"`
	// NoDelay is TCP_NODELAY, which Go sets: without it a segment that is not full waits until the one
	// before is acknowledged. It is there for as many of them, if we may look at the process's descriptors.
	NoDelay *bool `json:"no_delay,omitempty"`
}
