package host

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// restless is how many looks a thread stays active after it last ran.
	restless = 10
	// statusThreads is up to how many threads context switches are counted: each takes 30 us, twice.
	statusThreads = 200
)

// thread is what is known of one thread. Its state is read only when it ran
// since the look before, or was in uninterruptible sleep then: without running no thread changes
// its state.
type thread struct {
	tid             int
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

// threads reads the counters of a process's threads by descriptors that stay
// open, which takes two thirds of the time of opening each file again, up to a bound.
type threads struct {
	dir           *os.File // /proc/PID, so that another process of the same id is never taken for it
	task          *os.File
	all           map[int]*thread
	active, quiet ring
	blocked       map[int]bool
	lists         int // listings of task
	open, most    int // descriptors
	byPath        bool
	failed        error // the first thing that went wrong with a living thread
	inner         bool  // the process is in a pid namespace of its own: its threads have other ids there
	delay, io     int64 // since the first look
	switches      map[int][2]int64
	buf           [2048]byte
}

func openThreads(pid int) (*threads, error) {
	dir, err := os.Open(procDir(pid))
	if err != nil {
		return nil, err
	}
	task, err := os.Open(procDir(pid) + "/task")
	if err != nil {
		dir.Close()
		return nil, err
	}
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // 1024 is what one may expect
	return &threads{
		dir: dir, task: task, all: make(map[int]*thread), blocked: make(map[int]bool),
		most: int(min(limit.Cur/2, 1<<15)), switches: make(map[int][2]int64),
	}, nil
}

func (ts *threads) close() {
	for _, t := range ts.all {
		ts.shut(t)
	}
	ts.task.Close()
	ts.dir.Close()
}

func (ts *threads) shut(t *thread) {
	for _, fd := range []int{t.schedstat, t.stat} {
		if fd >= 0 {
			unix.Close(fd)
			ts.open--
		}
	}
	t.schedstat, t.stat = -1, -1
}

// list looks for new threads.
func (ts *threads) list() error {
	if _, err := ts.task.Seek(0, 0); err != nil {
		return err
	}
	names, err := ts.task.Readdirnames(-1)
	if err != nil && len(names) == 0 {
		return err
	}
	ts.lists++
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		t := ts.all[tid]
		if t == nil {
			t = &thread{tid: tid, schedstat: -1, stat: -1}
			ts.all[tid] = t
			if ts.lists == 1 {
				t.old, t.io = true, -1
				ts.quiet.add(t) // read in turn
			} else {
				ts.active.add(t)
			}
		}
		t.listed = ts.lists
	}
	return nil
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
	line, err := ts.pread(t, &t.schedstat, "schedstat")
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
	}
	return ts.state(t)
}

// innerID is a thread's id in the innermost pid namespace of the process, 0 if it
// cannot be read.
func (ts *threads) innerID(tid int) int {
	status, err := readText(fmt.Sprintf("%s/task/%d/status", ts.dir.Name(), tid))
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
	line, err := ts.pread(t, &t.stat, "stat")
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

// pread reads a file of a thread, by its descriptor if it has one or may have one.
func (ts *threads) pread(t *thread, fd *int, name string) ([]byte, error) {
	if *fd >= 0 {
		n, err := pread(*fd, ts.buf[:])
		return ts.buf[:n], err
	}
	f, err := unix.Openat(int(ts.dir.Fd()), "task/"+strconv.Itoa(t.tid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if ts.open < ts.most {
		*fd = f
		ts.open++
	} else {
		ts.byPath = true
		defer unix.Close(f)
	}
	n, err := pread(f, ts.buf[:])
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
		status, err := readText(fmt.Sprintf("%s/task/%d/status", ts.dir.Name(), tid))
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
