package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// largeRSS is the resident memory in bytes above which the kernel would take too long
// to sum up a process's memory: it holds a lock of the process and walks its page tables.
const largeRSS = 4 << 30

// What ends a recording early.
var (
	errEnded = errors.New("the process ended")
	errFull  = errors.New("the file reached its bound")
)

// Recorder samples one process until it is stopped, its context ends, the process
// ends or the file is full.
type Recorder struct {
	pid    int
	o      Options
	done   chan struct{}
	waking sync.Mutex
	alarm  int // an eventfd, -1 once it is closed

	// What follows belongs to Start, then to the goroutine, and once done is closed to Stop.
	began   int64 // ns on CLOCK_MONOTONIC
	cost    int64 // ns of CPU time before from
	from    int64 // CPU time of this thread in ns
	written int64
	period  time.Duration // until the next look
	pace    pace
	static  Static
	last    Sample
	samples int
	threads *threads
	sources []*source
	listing source
	files   []file
	after   After
	err     error
	buf     [4096]byte
}

// source is something that is read at most as often as its own cost allows; in between
// its values stay as they were.
type source struct {
	what string
	read func() error
	due  int64 // ns on CLOCK_MONOTONIC, 0 is now
	cost int64 // ns of CPU time of the last reading
	err  error // the first one
}

// run reads the source if it is its time.
func (s *source) run() error {
	now := monotonic()
	if now < s.due {
		return nil
	}
	from := threadCPU()
	err := s.read()
	if s.err == nil {
		s.err = err
	}
	s.cost = threadCPU() - from
	s.due = now + int64(float64(s.cost)/sourceShare)
	return err
}

// Start takes the first look at a process and goes on in the background until ctx ends or Stop
// is called, which has to be done in any case. The period follows from what looks have cost, so
// that recording takes less than a hundredth of a CPU: 20 ms for a process with tens of threads,
// 100 ms for one with thousands, of which then only those are read every time that ran lately. Evidence
// that cannot be had is named in the file. An error wraps ErrNoProcess or is that of o.W.
func Start(ctx context.Context, pid int, o Options) (*Recorder, error) {
	if err := check(pid); err != nil {
		return nil, err
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	r := &Recorder{pid: pid, o: o, done: make(chan struct{}), alarm: -1}
	if err := r.begin(); err != nil {
		r.close()
		if gone(err) || errors.Is(err, errEnded) {
			return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
		}
		return nil, fmt.Errorf("record process %d: %w", pid, err)
	}
	go r.run(ctx)
	return r, nil
}

// Stop takes the last look, completes the file and returns its last line. The
// error is that of writing; the file then is what was written before. It may be called again.
func (r *Recorder) Stop() (After, error) {
	r.wake()
	<-r.done
	return r.after, r.err
}

// begin opens everything, writes the first line and the first sample.
func (r *Recorder) begin() error {
	defer r.measured()()
	r.began = monotonic()
	var err error
	if r.alarm, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	static, groups := describe(r.pid)
	r.static = static
	if err := r.openProcess(); err != nil {
		return err
	}
	r.openGroups(groups)
	r.openMachine()
	if err := r.openThreads(); err != nil {
		return err
	}
	for _, s := range r.sources {
		if err := s.run(); gone(err) || errors.Is(err, errEnded) {
			return err
		}
		r.miss(&r.static.Missing, s.what, s.err)
	}
	r.ends(&r.static.Missing)
	if err := r.write(Line{Static: &r.static}); err != nil {
		return err
	}
	return r.look(math.MaxInt, math.MaxInt, threadCPU())
}

// measured keeps the goroutine on its thread until end is called, and adds the thread's CPU
// time meanwhile to the cost.
func (r *Recorder) measured() (end func()) {
	runtime.LockOSThread()
	r.from = threadCPU()
	return func() {
		r.cost += threadCPU() - r.from
		runtime.UnlockOSThread()
	}
}

// miss names what is missing, once.
func (r *Recorder) miss(list *[]Missing, what string, err error) {
	if err != nil && !slices.ContainsFunc(*list, func(m Missing) bool { return m.What == what }) {
		*list = append(*list, Missing{What: what, Why: err.Error(), Command: asRoot(err, r.pid)})
	}
}

// open opens a file that is read in every look.
func (r *Recorder) open(path string) (file, error) {
	f, err := open(path)
	if err == nil {
		r.files = append(r.files, f)
	}
	return f, err
}

func (r *Recorder) add(what string, read func() error) {
	r.sources = append(r.sources, &source{what: what, read: read})
}

// openProcess prepares what concerns the process as a whole.
func (r *Recorder) openProcess() error {
	base, err := processCPU(r.pid)
	if err != nil {
		return err
	}
	r.add("run_ns", func() error {
		now, err := processCPU(r.pid)
		r.last.RunNS = max(now-base, r.last.RunNS)
		return err
	})
	f, err := r.open(procDir(r.pid) + "/stat")
	if err != nil {
		return err
	}
	page := int64(os.Getpagesize())
	r.add("process", func() error {
		line, err := f.read(r.buf[:])
		if err != nil {
			return err
		}
		st, ok := parseStat(line)
		if !ok {
			return fmt.Errorf("%s: %.100q is no line of numbers", f.path, line)
		}
		if (st.state == 'Z' || st.state == 'X') && st.threads <= 1 { // ended, its parent did not ask yet
			return errEnded
		}
		s := &r.last
		s.NumThreads = int(st.threads)
		s.UserNS, s.SystemNS = st.utime*tickNS, st.stime*tickNS
		s.MinorFaults, s.MajorFaults, s.RSS = st.minflt, st.majflt, st.rss*page
		return nil
	})
	return nil
}

// openGroups prepares the counters of the cgroups.
func (r *Recorder) openGroups(list []group) {
	r.last.Groups = make([]GroupCounters, len(list))
	for i, g := range list {
		if g.stat != "" {
			f, err := r.open(g.stat)
			r.add("groups", r.reader(f, err, func(text []byte) { r.last.Groups[i].parse(text) }))
		}
		if g.usage != "" {
			f, err := r.open(g.usage)
			r.add("groups.usage_ns", r.reader(f, err, func(text []byte) {
				var v [1]int64
				numbers(text, v[:])
				r.last.Groups[i].UsageNS = v[0]
			}))
		}
	}
}

// openMachine prepares the counters of the machine.
func (r *Recorder) openMachine() {
	m := &r.last.Machine
	for _, c := range []struct {
		what, path string
		parse      func([]byte)
	}{
		{"machine", "/proc/stat", m.parse},
		{"machine.pressure", "/proc/pressure/cpu", func(b []byte) { m.CPUSomeNS, _ = pressure(b); m.Pressure = true }},
		{"machine.pressure", "/proc/pressure/io", func(b []byte) { m.IOSomeNS, m.IOFullNS = pressure(b) }},
		{"machine.pressure", "/proc/pressure/memory", func(b []byte) { m.MemorySomeNS, m.MemoryFullNS = pressure(b) }},
	} {
		f, err := r.open(c.path)
		r.add(c.what, r.reader(f, err, c.parse))
	}
}

// reader returns what reads a file; of one that could not be opened it returns the error. A
// file that is missing is no sign that the process ended.
func (r *Recorder) reader(f file, openErr error, parse func([]byte)) func() error {
	return func() error {
		if openErr != nil {
			return hidden{openErr}
		}
		text, err := f.read(r.buf[:])
		if err != nil {
			return hidden{err}
		}
		parse(text)
		return nil
	}
}

// hidden is an error that says nothing about the process.
type hidden struct{ error }

// openThreads prepares the counters of the threads.
func (r *Recorder) openThreads() (err error) {
	if r.threads, err = openThreads(r.pid); err != nil {
		return err
	}
	r.threads.inner = len(r.static.NSPID) > 1
	r.listing = source{what: "threads", read: r.threads.list}
	if !exists(procDir(r.pid) + "/schedstat") {
		r.listing.read = func() error { return nil }
		r.miss(&r.static.Missing, MissingDelays, errors.New("the kernel does not count how threads are scheduled (CONFIG_SCHED_INFO)"))
	}
	return r.listing.run()
}

// ends reads what is read in the first and in the last sample only.
func (r *Recorder) ends(missing *[]Missing) {
	var err error
	r.last.Net, err = readNet(r.pid)
	r.miss(missing, "net", err)
	var ok bool
	if r.last.Voluntary, r.last.Involuntary, ok = r.threads.contextSwitches(); !ok {
		r.miss(missing, "voluntary, involuntary", fmt.Errorf("the process has more than %d threads", statusThreads))
	}
}

// look takes one sample, with at most so many of the active and of the quiet threads. What it
// costs counts from the given CPU time of this thread on.
func (r *Recorder) look(active, quiet int, cpu int64) error {
	from := monotonic()
	s := &r.last
	s.Threads, s.Gone = nil, nil
	for _, src := range r.sources {
		if err := src.run(); errors.Is(err, errEnded) || gone(err) {
			return errEnded
		}
	}
	r.list()
	before := threadCPU()
	active = r.threads.look(&r.threads.active, active, int64(endsCost), s)
	between := threadCPU()
	quiet = r.threads.look(&r.threads.quiet, quiet, int64(endsCost), s)
	after := threadCPU()
	s.DelayNS, s.IODelayNS, s.Blocked = r.threads.delay, r.threads.io, r.threads.inSleep()
	s.TookNS = monotonic() - from
	s.MonoNS = from + s.TookNS/2
	if err := r.write(Line{Sample: s}); err != nil {
		return err
	}
	s.Net, s.Voluntary, s.Involuntary = nil, 0, 0
	if r.samples++; r.samples > 2 { // the first ones open files and fill caches
		r.pace.learn(before-cpu+threadCPU()-after, between-before, after-between, active, quiet)
	}
	return nil
}

// relist is how long the list of threads is trusted while the number of threads says that
// it did not change.
const relist = int64(time.Second)

// list looks for threads that began or ended.
func (r *Recorder) list() {
	ts := r.threads
	if r.last.NumThreads == len(ts.all) && r.listing.due > 0 && monotonic() < r.listing.due+relist {
		return
	}
	n := ts.lists
	if r.listing.run() == nil && ts.lists > n {
		ts.sweep(&r.last)
	}
}

// run looks until something ends it. It sleeps in the kernel and on a thread of its own: a
// timer of the runtime would wake two threads each time, which took more CPU than the looks.
func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	defer r.close()
	defer context.AfterFunc(ctx, r.wake)()
	defer r.measured()()
	before := threadCPU()
	for {
		var active, quiet int
		r.period, active, quiet = r.pace.plan(len(r.threads.active.list), len(r.threads.quiet.list), r.spent())
		if r.sleep(r.period) {
			r.finish(context.Cause(ctx))
			return
		}
		if err := r.look(active, quiet, before); err != nil {
			r.finish(err)
			return
		}
		before = threadCPU()
	}
}

// spent is the share of a CPU that recording took so far.
func (r *Recorder) spent() float64 {
	return float64(r.cost+threadCPU()-r.from) / float64(monotonic()-r.began)
}

// sleep returns whether somebody woke it.
func (r *Recorder) sleep(d time.Duration) bool {
	until := monotonic() + int64(d)
	for {
		left := unix.NsecToTimespec(max(until-monotonic(), 0))
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(r.alarm), Events: unix.POLLIN}}, &left, nil)
		if err != unix.EINTR {
			return n != 0
		}
	}
}

// wake ends the sleep for good.
func (r *Recorder) wake() {
	r.waking.Lock()
	defer r.waking.Unlock()
	if r.alarm >= 0 {
		_, _ = unix.Write(r.alarm, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // eventfd(2): any number but 0
	}
}

// finish takes the last look, if there is something to look at, and writes the last line.
func (r *Recorder) finish(cause error) {
	if r.err != nil {
		return // nothing can be written any more
	}
	missing := &r.after.Missing
	if cause == nil || !errors.Is(cause, errEnded) && !errors.Is(cause, errFull) {
		r.ends(missing)
		for _, s := range append(r.sources, &r.listing) {
			if s.cost < int64(endsCost/2) {
				s.due = 0
			}
		}
		if err := r.look(math.MaxInt, math.MaxInt, threadCPU()); err != nil {
			cause = err
		}
	}
	if cause != nil {
		r.after.Ended = cause.Error()
	}
	if errors.Is(cause, errEnded) {
		*missing = nil // Ended says it
	} else {
		r.lookOnce()
	}
	r.confess(missing)
	r.after.Samples, r.after.PeriodNS = r.samples, int64(r.period)
	r.after.WallNS = monotonic() - r.began
	r.after.CPUNS = r.cost + threadCPU() - r.from
	if r.err == nil {
		r.o.MaxBytes = math.MaxInt64 // the last line comes on top
		r.err = r.write(Line{After: &r.after})
	}
}

// lookOnce reads what is read once, after the last sample.
func (r *Recorder) lookOnce() {
	a := &r.after
	var err error
	if a.Memory, err = memory(r.pid, r.last.RSS); err != nil {
		r.miss(&a.Missing, "memory", err)
	}
	a.Sockets, a.SocketsCut, err = sockets(r.pid)
	r.miss(&a.Missing, "sockets", err)
}

// confess lists what went wrong while recording and is not in the first line.
func (r *Recorder) confess(missing *[]Missing) {
	for _, s := range append(r.sources, &r.listing) {
		known := slices.ContainsFunc(r.static.Missing, func(m Missing) bool { return m.What == s.what })
		if !known && !gone(s.err) && !errors.Is(s.err, errEnded) {
			r.miss(missing, s.what, s.err)
		}
	}
	r.miss(missing, "threads", r.threads.failed)
	if r.threads.byPath {
		r.miss(missing, "threads", fmt.Errorf("more threads than half of the limit of %d open files: the others are read by path, which takes longer, so they are looked at less often", 2*r.threads.most))
	}
}

// write writes a line, unless the file would become too large.
func (r *Recorder) write(l Line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if l.Static == nil && r.written+int64(len(b)) >= r.o.MaxBytes {
		return fmt.Errorf("%w of %d bytes", errFull, r.o.MaxBytes)
	}
	n, err := r.o.W.Write(append(b, '\n'))
	r.written += int64(n)
	if err != nil {
		r.err = fmt.Errorf("write host samples: %w", err)
	}
	return r.err
}

func (r *Recorder) close() {
	r.waking.Lock()
	if r.alarm >= 0 {
		unix.Close(r.alarm)
		r.alarm = -1
	}
	r.waking.Unlock()
	if r.threads != nil {
		r.threads.close()
	}
	for _, f := range r.files {
		f.close()
	}
}

// memory sums up the memory of a process.
func memory(pid int, rss int64) (*Memory, error) {
	if rss > largeRSS {
		return nil, fmt.Errorf("%d MB are resident: to sum up more than %d would stop the process for too long", rss>>20, int64(largeRSS)>>20)
	}
	text, err := readText(procDir(pid) + "/smaps_rollup")
	if err != nil {
		return nil, err
	}
	kB := func(key string) int64 { return value([]byte(text), key) << 10 }
	return &Memory{RSS: kB("Rss:"), PSS: kB("Pss:"), Swap: kB("Swap:"), AnonHugePages: kB("AnonHugePages:")}, nil
}
