package host

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// restless is how many looks a thread stays active after it last ran.
	restless = 10
	// statusThreads is up to how many threads context switches are counted: each takes 30 us, twice;
	// and up to how many the state of those is read that did not run since recording began.
	statusThreads = 200
)

// thread is what is known of one thread. Its state is read only when it ran
// since the look before, or was in uninterruptible sleep then: without running no thread changes
// its state.
type thread struct {
	tid             int
	visits          int // how often its counters were read
	schedstat, stat int // open descriptors, -1 if there is none
	last            Thread
	known           bool // last was read
	old             bool // it was there before the first look: what it waited until it is first read does not count
	still           int  // looks since it last ran
	blocked         bool
	io              int64 // -1 until it is read
	listed          int   // number of the listing that last had it
}

// ring is a list of threads that are read in turn.
type ring struct {
	list []*thread
	at   int
}

func (r *ring) add(t *thread) { r.list = append(r.list, t) }

// current is the thread whose turn it is.
func (r *ring) current() *thread {
	if r.at >= len(r.list) {
		r.at = 0
	}
	return r.list[r.at]
}

// drop takes the current thread out; its place takes the last one.
func (r *ring) drop() {
	end := len(r.list) - 1
	r.list[r.at] = r.list[end]
	r.list[end] = nil
	r.list = r.list[:end]
}

// keepFrom is the visit of a thread from which on its files stay open, up to a bound. To read an
// open file takes 2 us, to open and close it another 4 in total, but 7 if it was kept open meanwhile: that
// pays from the third visit on, and of thousands of threads most are visited once or twice.
const keepFrom = 2

// threads reads the counters of a process's threads.
type threads struct {
	task          int // descriptor of /proc/PID/task, so that another process of the same id is never taken for it
	folder        string
	all           map[int]*thread
	active, quiet ring
	blocked       map[int]bool
	lists         int  // listings of task
	listing       bool // one is under way
	open, most    int  // descriptors
	byPath        bool
	failed        error // the first thing that went wrong with a living thread
	plain         bool  // only what they ran and waited for a CPU is read
	inner         bool  // the process is in a pid namespace of its own: its threads have other ids there
	delay, io     int64 // since the first look
	switches      map[int][2]int64
	cpus          unix.CPUSet // that threads may use, of those that were asked
	asked, known  int         // threads that were asked for their CPUs, and that were read at least once
	seen          int         // threads there were
	path          []byte
	buf           [2048]byte
	names         [1 << 13]byte
}

func openThreads(pid int) (*threads, error) {
	task, err := open(procDir(pid) + "/task")
	if err != nil {
		return nil, err
	}
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // 1024 is what one may expect
	return &threads{
		task: task.fd, folder: task.path, all: make(map[int]*thread), blocked: make(map[int]bool),
		most: int(min(limit.Cur/2, 1<<15)), switches: make(map[int][2]int64),
	}, nil
}

func (ts *threads) close() {
	for _, t := range ts.all {
		ts.shut(t)
	}
	if ts.task >= 0 {
		closeRaw(ts.task)
		ts.task = -1
	}
}

func (ts *threads) shut(t *thread) {
	for _, fd := range []int{t.schedstat, t.stat} {
		if fd >= 0 {
			closeRaw(fd)
			ts.open--
		}
	}
	t.schedstat, t.stat = -1, -1
}

// list goes on looking for new threads, for at most so much CPU time or one portion of a few
// hundred: the first time the kernel takes 3 us for each.
func (ts *threads) list(most int64) error {
	if !ts.listing {
		if err := rewind(ts.task); err != nil {
			return err
		}
		ts.listing = true
		ts.lists++
	}
	for from := threadCPU(); ; {
		switch n, err := listNumbers(ts.task, ts.names[:], ts.found); {
		case err != nil:
			return err
		case n == 0:
			ts.listing = false
			return nil
		case n > len(ts.names)/2 && threadCPU()-from >= most: // else that was all, probably
			return nil
		}
	}
}

// found takes a thread of a listing.
func (ts *threads) found(tid int) {
	t := ts.all[tid]
	if t == nil {
		t = &thread{tid: tid, schedstat: -1, stat: -1}
		ts.all[tid] = t
		ts.seen++
		if ts.lists == 1 {
			t.old, t.io = true, -1
			ts.quiet.add(t) // read in turn
		} else {
			ts.active.add(t)
		}
	}
	t.listed = ts.lists
}

// sweep forgets threads that ended without having been read since, as the
// last listing says.
func (ts *threads) sweep(s *Sample) {
	for _, r := range []*ring{&ts.active, &ts.quiet} {
		for r.at = 0; r.at < len(r.list); {
			if t := r.list[r.at]; t.listed < ts.lists {
				ts.end(t, s)
				r.drop()
				continue
			}
			r.at++
		}
	}
}

func (ts *threads) end(t *thread, s *Sample) {
	ts.shut(t)
	delete(ts.all, t.tid)
	delete(ts.blocked, t.tid)
	if t.known {
		s.Gone = append(s.Gone, t.tid)
	}
}

// look reads up to n threads of a ring into s, while its CPU time is less than most.
// It returns how many it read.
func (ts *threads) look(r *ring, n int, most int64, s *Sample) int {
	from := threadCPU()
	n = min(n, len(r.list))
	for i := range n {
		if i%16 == 15 && threadCPU()-from > most {
			return i
		}
		t := r.current()
		alive := ts.read(t, s)
		to := &ts.quiet
		if t.still < restless || t.blocked {
			to = &ts.active
		}
		switch {
		case !alive:
			ts.end(t, s)
			r.drop()
		case to != r:
			r.drop()
			to.add(t)
		default:
			r.at++
		}
	}
	return n
}

// read reads the counters of one thread, and its state if it may have changed. It
// returns whether the thread is alive.
func (ts *threads) read(t *thread, s *Sample) bool {
	t.visits++
	line, err := ts.pread(t, &t.schedstat, "/schedstat\x00")
	if err != nil {
		return ts.alive(err)
	}
	var f [3]int64 // CPU time and waiting in a run queue in ns, time slices
	if numbers(line, f[:]) < len(f) {
		return true
	}
	now := Thread{TID: t.tid, RunNS: f[0], DelayNS: f[1], Slices: f[2]}
	t.still++
	if t.known && now == t.last && !t.blocked {
		return true
	}
	if first := !t.known; first || now != t.last {
		was := t.last.DelayNS
		if first && t.old || now.DelayNS < was { // the latter is another thread of the same id
			was = now.DelayNS
		}
		ts.delay += now.DelayNS - was
		s.Threads = append(s.Threads, now)
		if first && ts.inner {
			s.Threads[len(s.Threads)-1].NSTID = ts.innerID(t.tid)
		}
		t.last, t.known = now, true
		if t.still = 0; first && t.old {
			t.still = restless // nothing tells that it ran lately
		}
		if ts.plain {
			return true
		}
		if first {
			ts.met(t)
			if t.old && len(ts.all) > statusThreads {
				return true
			}
		}
	}
	return ts.plain || ts.state(t)
}

// met takes note of a thread that was read for the first time.
func (ts *threads) met(t *thread) {
	ts.known++
	if ts.asked < MaxAffinities {
		ts.asked++
		addAffinity(t.tid, &ts.cpus)
	}
}

// innerID is a thread's id in the innermost pid namespace of the process, 0 if it
// cannot be read.
func (ts *threads) innerID(tid int) int {
	status, err := readText(fmt.Sprintf("%s/%d/status", ts.folder, tid))
	if err != nil {
		return 0
	}
	if ids := nspids(status); len(ids) > 1 {
		return ids[len(ids)-1]
	}
	return 0
}

// state reads whether a thread is in uninterruptible sleep, and what it waited for I/O.
func (ts *threads) state(t *thread) bool {
	line, err := ts.pread(t, &t.stat, "/stat\x00")
	if err != nil {
		return ts.alive(err)
	}
	st, ok := parseStat(line)
	if !ok {
		return true
	}
	if t.blocked = st.state == 'D'; t.blocked {
		ts.blocked[t.tid] = true
	} else {
		delete(ts.blocked, t.tid)
	}
	if t.io >= 0 {
		ts.io += max(st.blkioNS-t.io, 0)
	}
	t.io = st.blkioNS
	return true
}

// pread reads a file of a thread, whose name ends with NUL, by its descriptor if it has one.
func (ts *threads) pread(t *thread, fd *int, name string) ([]byte, error) {
	if *fd >= 0 {
		n, err := pread(*fd, ts.buf[:])
		return ts.buf[:n], err
	}
	ts.path = append(strconv.AppendInt(ts.path[:0], int64(t.tid), 10), name...)
	f, err := openat(ts.task, ts.path)
	if err != nil {
		return nil, err
	}
	n, err := pread(f, ts.buf[:])
	switch {
	case t.visits < keepFrom:
		closeRaw(f)
	case ts.open < ts.most:
		*fd = f
		ts.open++
	default:
		ts.byPath = true
		closeRaw(f)
	}
	return ts.buf[:n], err
}

// alive tells an ended thread from one that cannot be read.
func (ts *threads) alive(err error) bool {
	if gone(err) {
		return false
	}
	if ts.failed == nil {
		ts.failed = fmt.Errorf("threads: %w", err)
	}
	return true
}

// inSleep are the threads in uninterruptible sleep, in order of their ids.
func (ts *threads) inSleep() []int {
	if len(ts.blocked) == 0 {
		return nil
	}
	ids := make([]int, 0, len(ts.blocked))
	for id := range ts.blocked {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// contextSwitches sums the context switches of all threads that it ever saw, or
// returns false for too many threads.
func (ts *threads) contextSwitches() (voluntary, involuntary int64, ok bool) {
	if len(ts.all) > statusThreads {
		return 0, 0, false
	}
	for tid := range ts.all {
		status, err := readText(fmt.Sprintf("%s/%d/status", ts.folder, tid))
		if err != nil {
			continue
		}
		ts.switches[tid] = [2]int64{value([]byte(status), "voluntary_ctxt_switches:"), value([]byte(status), "nonvoluntary_ctxt_switches:")}
	}
	for _, n := range ts.switches {
		voluntary += n[0]
		involuntary += n[1]
	}
	return voluntary, involuntary, true
}
