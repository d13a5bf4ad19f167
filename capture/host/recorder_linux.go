package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// pageCost is the CPU time in ns for each page of a process that the kernel goes through to sum up its
// memory. Meanwhile it holds a lock of the process.
const pageCost = 500

// What ends a recording early.
var (
	errEnded = errors.New("the process ended")
	errFull  = errors.New("the file reached its bound")
)

// Recorder samples one process until it is stopped, its context ends, the process
// ends or the file is full.
type Recorder struct {
	pid   int
	o     Options
	done  chan struct{}
	alarm *alarm

	// What follows belongs to Start, then to the goroutine, and once done is closed to Stop.
	began   int64 // ns on CLOCK_MONOTONIC
	meter   meter
	written int64
	period  time.Duration // until the next look
	pace    pace
	static  Static
	last    Sample
	samples int
	threads *threads
	family  *children
	listen  *listeners
	peers   *peers
	cpus    unix.CPUSet // that the process may use, if these are not all
	sources []*source
	listing source
	files   []file
	after   After
	err     error
	line    []byte
	buf     []byte
}

// source is something that is read at most as often as its own cost allows; in between
// its values stay as they were.
type source struct {
	what  string
	read  func() error
	share float64 // of a CPU that it may take, 0 is sourceShare
	every int64   // ns, the least time between two readings
	due   int64   // ns on CLOCK_MONOTONIC, 0 is now
	cost  int64   // ns of CPU time of the last reading
	err   error   // the first one
}

// run reads the source if it is its time. It takes and returns the CPU time of this thread.
func (s *source) run(now, cpu int64) (int64, error) {
	if now < s.due {
		return cpu, nil
	}
	err := s.read()
	if s.err == nil {
		s.err = err
	}
	after := threadCPU()
	s.cost = after - cpu
	s.due = now + max(int64(float64(s.cost)/cmp.Or(s.share, sourceShare)), s.every)
	return after, err
}

// Start takes the first look at a process and goes on in the background until ctx ends or Stop
// is called, which has to be done in any case. The period follows from what looks have cost, so
// that recording takes less than a hundredth of a CPU: 20 ms for a process with tens of threads,
// 100 ms or more for one with thousands, of which then only those are read every time that ran lately. Evidence
// that cannot be had is named in the file. An error wraps ErrNoProcess or is that of o.W.
func Start(ctx context.Context, pid int, o Options) (*Recorder, error) {
	if err := check(pid); err != nil {
		return nil, err
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	r := &Recorder{pid: pid, o: o, done: make(chan struct{}), buf: make([]byte, 4096)}
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
	r.alarm.wake()
	<-r.done
	return r.after, r.err
}

// begin opens everything, writes the first line and the first sample.
func (r *Recorder) begin() error {
	r.meter.start()
	defer r.meter.end()
	r.began = monotonic()
	var err error
	if r.alarm, err = newAlarm(); err != nil {
		return err
	}
	static, groups, cpus := describe(r.pid)
	r.static = static
	if static.Allowed < static.CPUs {
		r.cpus = cpus
		r.buf = make([]byte, 4096+cpuLine*static.CPUs)
	}
	if err := r.openChildren(); err != nil {
		return err
	}
	if err := r.openProcess(); err != nil {
		return err
	}
	r.openGroups(groups)
	r.openMachine()
	r.openNet()
	r.openListen()
	r.openPeers()
	if err := r.openThreads(); err != nil {
		return err
	}
	cpu := threadCPU()
	for _, s := range r.sources {
		var err error
		if cpu, err = s.run(r.began, cpu); gone(err) || errors.Is(err, errEnded) {
			return err
		}
		r.miss(&r.static.Missing, s.what, s.err)
	}
	r.ends(&r.static.Missing)
	if err := r.encode(Line{Static: &r.static}); err != nil {
		return err
	}
	return r.look(math.MaxInt, math.MaxInt, int64(endsCost))
}

// meter sums up the CPU time of what runs between start and its end, on whatever threads it does.
type meter struct {
	ns   int64
	from int64 // CPU time of the thread at start
	tid  int   // thread of the end before, and its CPU time then
	left int64
	wake float64 // mean of what it takes to fall asleep and to wake up, ns
}

// wakeMost is the most that a thread takes to fall asleep and to wake up, in ns; more is what
// somebody else did on it meanwhile.
const wakeMost = 100e3

// start keeps the goroutine on its thread until end is called. What the thread did since the end
// before was to sleep and to wake up, if it is the same one; if it is not, the mean counts.
func (m *meter) start() {
	runtime.LockOSThread()
	tid := threadID()
	m.from = threadCPU()
	if woke := m.from - m.left; tid == m.tid && woke < wakeMost {
		m.wake += (float64(woke) - m.wake) / 16
		m.from = m.left
	} else {
		m.ns += int64(m.wake)
	}
	m.tid = tid
}

func (m *meter) end() {
	m.left = threadCPU()
	m.ns += m.left - m.from
	runtime.UnlockOSThread()
}

// spent is the CPU time so far, between start and end.
func (m *meter) spent() int64 { return m.ns + threadCPU() - m.from }

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

func (r *Recorder) add(what string, read func() error) *source {
	s := &source{what: what, read: read}
	r.sources = append(r.sources, s)
	return s
}

// openChildren prepares the search for the processes that descend from it.
func (r *Recorder) openChildren() (err error) {
	if r.family, err = openChildren(r.pid); err != nil {
		return err
	}
	most := int64(3 * sliceCost) // the first time
	r.add("children_ns", func() error {
		err := r.family.search(most)
		most = sliceCost
		if err != nil {
			return hidden{err}
		}
		return nil
	})
	return nil
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
	first := true
	r.add("process", func() error {
		line, err := f.read(r.buf)
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
		s.ChildrenNS = max(s.ChildrenNS, r.family.sum(st.reaped, first))
		first = false
		return nil
	}).share = tellingShare
	return nil
}

// openGroups prepares the counters of the cgroups.
func (r *Recorder) openGroups(list []group) {
	r.last.Groups = make([]GroupCounters, len(list))
	for i, g := range list {
		if g.stat != "" {
			f, err := r.open(g.stat)
			r.add("groups", r.reader(f, err, func(text []byte) { r.last.Groups[i].parse(text) })).share = tellingShare
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

// openNet prepares the counters of the network namespace.
func (r *Recorder) openNet() {
	src := r.add("net", func() error {
		n, err := readNet(r.pid)
		if err != nil {
			return hidden{err}
		}
		r.last.Net = n
		return nil
	})
	src.every, src.share = int64(netEvery), tellingShare
}

// openListen prepares the queues of the listening sockets.
func (r *Recorder) openListen() {
	l, err := openListeners(r.pid)
	if err == nil {
		r.listen = l
	}
	r.add("listen", func() error {
		if err != nil {
			return hidden{err}
		}
		now, err := l.read()
		r.last.Listen = now
		if err != nil && !errors.Is(err, errNoListener) {
			return hidden{err}
		}
		return nil
	}).share = tellingShare
}

// openPeers prepares the search for the processes of the machine that the process calls, and what is
// read of them. The first search is as long as there is time for at the beginning.
func (r *Recorder) openPeers() {
	p, err := openPeers(r.pid)
	if err == nil {
		r.peers = p
	}
	most := int64(3 * sliceCost)
	search := r.add("peers", nil)
	search.share = tellingShare
	search.read = func() error {
		if err != nil {
			return hidden{err}
		}
		done, err := p.search(most)
		most = sliceCost
		switch {
		case !done:
			search.every = 0
		case len(p.live) == 0:
			search.every = peersAgain
		default:
			search.every = peersEvery
		}
		if err != nil {
			return hidden{err}
		}
		return nil
	}
	r.add("peers", func() error {
		if err != nil || len(p.found) == 0 {
			return nil
		}
		err := p.read(monotonic())
		sum := p.sum
		r.last.Peers = &sum
		if err != nil {
			return hidden{err}
		}
		return nil
	}).share = tellingShare
}

// cpuLine is what a line of a CPU in /proc/stat takes, in bytes: a name and ten numbers.
const cpuLine = 160

// openMachine prepares the counters of the machine.
func (r *Recorder) openMachine() {
	m := &r.last.Machine
	counters := m.parse
	if r.cpus.Count() > 0 {
		r.last.Confined = new(CPUTimes)
		counters = func(text []byte) {
			m.parse(text)
			r.last.Confined.on(&r.cpus, text)
		}
	}
	for _, c := range []struct {
		what, path string
		parse      func([]byte)
		every      time.Duration
	}{
		{"machine", "/proc/stat", counters, 0},
		{"machine.pressure", "/proc/pressure/cpu", func(b []byte) { m.CPUSomeNS, _ = pressure(b); m.Pressure = true }, leisurely},
		{"machine.pressure", "/proc/pressure/io", func(b []byte) { m.IOSomeNS, m.IOFullNS = pressure(b) }, leisurely},
		{"machine.pressure", "/proc/pressure/memory", func(b []byte) { m.MemorySomeNS, m.MemoryFullNS = pressure(b) }, leisurely},
	} {
		f, err := r.open(c.path)
		src := r.add(c.what, r.reader(f, err, c.parse))
		if src.every = int64(c.every); c.every == 0 {
			src.share = tellingShare
		}
	}
}

// reader returns what reads a file; of one that could not be opened it returns the error. A
// file that is missing is no sign that the process ended.
func (r *Recorder) reader(f file, openErr error, parse func([]byte)) func() error {
	return func() error {
		if openErr != nil {
			return hidden{openErr}
		}
		text, err := f.read(r.buf)
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
	r.threads.cpus = r.cpus
	most := int64(endsCost) // the first time
	r.listing = source{what: "threads", share: listShare, read: func() error {
		err := r.threads.list(most)
		most = 0
		return err
	}}
	if !exists(procDir(r.pid) + "/schedstat") {
		r.listing.read = func() error { return nil }
		r.miss(&r.static.Missing, MissingDelays, errors.New("the kernel does not count how threads are scheduled (CONFIG_SCHED_INFO)"))
	}
	_, err = r.listing.run(r.began, threadCPU())
	return err
}

// ends reads what is read in the first and in the last sample only.
func (r *Recorder) ends(missing *[]Missing) {
	var ok bool
	if r.last.Voluntary, r.last.Involuntary, ok = r.threads.contextSwitches(); !ok {
		r.miss(missing, "voluntary, involuntary", fmt.Errorf("the process has more than %d threads", statusThreads))
	}
}

// look takes one sample, with at most so many of the active and of the quiet threads, and of either
// for at most so much CPU time.
func (r *Recorder) look(active, quiet int, most int64) error {
	began, from := r.meter.from, monotonic()
	s := &r.last
	s.Threads, s.Gone = s.Threads[:0], s.Gone[:0]
	cpu := threadCPU()
	for _, src := range r.sources {
		var err error
		if cpu, err = src.run(from, cpu); errors.Is(err, errEnded) || gone(err) {
			return errEnded
		}
	}
	before := r.list(from, cpu)
	active = r.threads.look(&r.threads.active, active, most, s)
	between := threadCPU()
	quiet = r.threads.look(&r.threads.quiet, quiet, most, s)
	after := threadCPU()
	s.DelayNS, s.IODelayNS, s.Blocked = r.threads.delay, r.threads.io, r.threads.inSleep()
	s.TookNS = monotonic() - from
	s.MonoNS = from + s.TookNS/2
	r.line = append(appendSample(append(r.line[:0], `{"sample":`...), s), '}')
	if err := r.write(r.line, r.o.MaxBytes); err != nil {
		return err
	}
	s.Net, s.Listen, s.Peers, s.Voluntary, s.Involuntary = nil, nil, nil, 0, 0
	if r.samples++; r.samples > 2 { // the first ones open files and fill caches
		r.pace.learn(before-began+threadCPU()-after, between-before, after-between, active, quiet)
	}
	return nil
}

// relist is how long the list of threads is trusted while the number of threads says that
// it did not change.
const relist = int64(time.Second)

// list looks for threads that began or ended; for those that ended once a listing is complete.
func (r *Recorder) list(now, cpu int64) int64 {
	ts := r.threads
	if r.last.NumThreads == len(ts.all) && r.listing.due > 0 && now < r.listing.due+relist {
		return cpu
	}
	due := r.listing.due
	cpu, err := r.listing.run(now, cpu)
	if err == nil && r.listing.due > due && !ts.listing {
		ts.sweep(&r.last)
	}
	return cpu
}

// run looks until something ends it.
func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	defer r.close()
	defer context.AfterFunc(ctx, r.alarm.wake)()
	for {
		allowed := allowance(time.Duration(monotonic()-r.began), time.Duration(r.meter.ns))
		var active, quiet int
		r.period, active, quiet = r.pace.plan(len(r.threads.active.list), len(r.threads.quiet.list), allowed)
		woken := r.alarm.sleep(r.period)
		r.meter.start()
		var err error
		if !woken {
			err = r.look(active, quiet, int64(endsCost))
		}
		if woken || err != nil {
			r.finish(cmp.Or(err, context.Cause(ctx)))
			r.meter.end()
			return
		}
		r.meter.end()
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
		if err := r.look(math.MaxInt, math.MaxInt, min(max(r.left()-int64(endCost), int64(endsCost/5)), int64(endsCost))); err != nil {
			cause = err
		}
	}
	sampled := r.meter.spent()
	if cause != nil {
		r.after.Ended = cause.Error()
	}
	if errors.Is(cause, errEnded) {
		*missing = nil // Ended says it
	} else {
		r.lookOnce()
	}
	r.confess(missing)
	a := &r.after
	a.Samples, a.PeriodNS = r.samples, int64(r.period)
	if r.peers != nil {
		a.Peers = r.peers.list()
	}
	unlisted := max(r.last.NumThreads-len(r.threads.all), 0)
	a.Threads, a.ThreadsRead = r.threads.seen+unlisted, r.threads.known
	if n := r.threads.cpus.Count(); n > r.static.Allowed {
		a.Allowed = n
	}
	r.close()
	a.WallNS, a.CPUNS = monotonic()-r.began, r.meter.spent()
	a.EndNS = a.CPUNS - sampled
	if r.err == nil {
		r.err = r.encode(Line{After: a})
	}
}

// lookOnce reads what is read once, after the last sample.
func (r *Recorder) lookOnce() {
	a := &r.after
	var err error
	a.Sockets, a.SocketsCut, err = sockets(r.pid)
	r.miss(&a.Missing, "sockets", err)
	if cost := pageCost * (r.last.RSS / int64(os.Getpagesize())); cost > max(r.left(), int64(endsCost)) {
		a.Memory, err = memoryInUse(r.pid)
		r.miss(&a.Missing, "memory.pss, memory.anon_huge_pages", fmt.Errorf("%d MB are resident: to go through their pages takes %d ms of CPU time", r.last.RSS>>20, cost/1e6))
	} else {
		a.Memory, err = memory(r.pid)
	}
	r.miss(&a.Missing, "memory", err)
}

// left is the CPU time in ns that is left to the recording, if it ends now.
func (r *Recorder) left() int64 {
	return int64(share*float64(monotonic()-r.began)) - r.meter.spent()
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
	r.miss(missing, "children_ns", r.family.missed())
	if r.threads.byPath {
		r.miss(missing, "threads", fmt.Errorf("more threads than half of the limit of %d open files: the others are read by path, which takes longer, so they are looked at less often", 2*r.threads.most))
	}
}

// encode writes the first or the last line, which come on top of what the file may hold.
func (r *Recorder) encode(l Line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return r.write(b, math.MaxInt64)
}

// write writes a line, unless the file would become larger than most bytes.
func (r *Recorder) write(line []byte, most int64) error {
	if r.written+int64(len(line)) >= most {
		return fmt.Errorf("%w of %d bytes", errFull, most)
	}
	n, err := r.o.W.Write(append(line, '\n'))
	r.written += int64(n)
	if err != nil {
		r.err = fmt.Errorf("write host samples: %w", err)
	}
	return r.err
}

// close closes all files; it may be called again.
func (r *Recorder) close() {
	if r.alarm != nil {
		r.alarm.close()
	}
	if r.family != nil {
		r.family.close()
	}
	if r.threads != nil {
		r.threads.close()
	}
	if r.peers != nil {
		r.peers.close()
	}
	if r.listen != nil {
		r.listen.close()
		r.listen = nil
	}
	for _, f := range r.files {
		f.close()
	}
	r.files = nil
}

// memory sums up the memory of a process.
func memory(pid int) (*Memory, error) {
	return memoryOf(procDir(pid)+"/smaps_rollup", "Rss:", "Swap:")
}

// memoryInUse is what the process itself counts of it.
func memoryInUse(pid int) (*Memory, error) {
	return memoryOf(procDir(pid)+"/status", "VmRSS:", "VmSwap:")
}

func memoryOf(path, rss, swap string) (*Memory, error) {
	text, err := readText(path)
	if err != nil {
		return nil, err
	}
	kB := func(key string) int64 { return value([]byte(text), key) << 10 }
	return &Memory{RSS: kB(rss), PSS: kB("Pss:"), Swap: kB(swap), AnonHugePages: kB("AnonHugePages:")}, nil
}
