//go:build amd64 || arm64

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/internal/need"
)

// recording is a recording into memory.
type recording struct {
	t    testing.TB
	r    *Recorder
	file bytes.Buffer
}

func record(t testing.TB, pid int, o Options) *recording {
	t.Helper()
	rec := &recording{t: t}
	o.W = &rec.file
	var err error
	rec.r, err = Start(pid, o)
	fatal(t, err)
	t.Cleanup(func() { _, _ = rec.r.Stop() })
	return rec
}

// stop ends the recording and reads it back.
func (rec *recording) stop() *events.Recording {
	rec.t.Helper()
	after, err := rec.r.Stop()
	fatal(rec.t, err)
	got, err := events.Read(bytes.NewReader(rec.file.Bytes()))
	fatal(rec.t, err)
	if got.After == nil || got.After.Stretches != int64(len(got.Stretches)) || got.After.EndNS != after.EndNS {
		rec.t.Fatalf("Stop returned %+v, the file has %d stretches and ends with %+v", after, len(got.Stretches), got.After)
	}
	rec.t.Logf("%d stretches, %d lost, reading took %.1f ms, programs %+v", after.Stretches, after.Lost, float64(after.CPUNS)/1e6, after.Programs)
	return got
}

// sums are those of the stretches of one thread that ended after an instant.
type sums struct {
	onNS, queueNS, throttledNS  int64
	slept, preempted, throttled int64 // how often the thread came to be off
	list                        []events.Stretch
}

func sum(rec *events.Recording, tid int, after int64) (s sums) {
	for _, x := range rec.Stretches {
		if x.TID != tid || x.Out <= after {
			continue
		}
		s.list = append(s.list, x)
		s.onNS += x.OnNS
		if x.Flags&events.Throttled != 0 {
			s.throttledNS += x.OffNS
			s.throttled++
		} else {
			s.queueNS += x.QueueNS
		}
		if x.Flags&events.Preempted != 0 {
			s.preempted++
		} else {
			s.slept++
		}
	}
	return s
}

// near fails if got differs from want by more than a part of it and something.
func near(t testing.TB, what string, got, want int64, part float64, more int64) {
	t.Helper()
	t.Logf("%s: %d, by the kernel's own count %d: %+.2f %%", what, got, want, 100*(float64(got)/float64(want)-1))
	if diff := max(got-want, want-got); want <= 0 || float64(diff) > part*float64(want)+float64(more) {
		t.Errorf("%s is %d, want %d within %g %% and %d", what, got, want, 100*part, more)
	}
}

// lastCPU is a CPU that this process may use.
func lastCPU(t testing.TB) int {
	t.Helper()
	var cpus unix.CPUSet
	fatal(t, unix.SchedGetaffinity(0, &cpus))
	last := -1
	for i := range 1024 {
		if cpus.IsSet(i) {
			last = i
		}
	}
	return last
}

// burned is what was recorded of a thread that burns CPU time, from its sleep before to
// the one after it, and the kernel's own counts of it.
func burned(t testing.TB, c *child, rec *recording, tid int) (s sums, by counts) {
	t.Helper()
	stolen := stolenNS(t)
	c.next() // so that the recorder has seen the thread
	if said := c.line(); said != "awake" {
		t.Fatal(said)
	}
	before, from := c.asleep(tid), monotonic()
	c.next()
	if said := c.line(); said != "done" {
		t.Fatal(said)
	}
	after := c.asleep(tid)
	s = sum(rec.stop(), tid, from)
	if len(s.list) == 0 {
		t.Fatal("no stretch of the thread was recorded")
	}
	return s, counts{after.runNS - before.runNS, after.delayNS - before.delayNS, stolenNS(t) - stolen, after.voluntary - before.voluntary, after.involuntary - before.involuntary}
}

// stolenNS is what the hypervisor took from the last CPU so far, in steps of stolenStep ns.
// The kernel's own count of a thread's time on a CPU is without it
// (update_rq_clock_task in kernel/sched/core.c); from when to when the thread had the CPU
// is with it.
func stolenNS(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	fatal(t, err)
	cpu := fmt.Sprintf("cpu%d", lastCPU(t))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 8 && f[0] == cpu {
			n, err := strconv.ParseInt(f[8], 10, 64)
			fatal(t, err)
			return n * stolenStep
		}
	}
	t.Fatalf("/proc/stat has no %s", cpu)
	return 0
}

// stolenStep is the unit of /proc/stat, USER_HZ, in ns.
const stolenStep = 10_000_000

// kernels are the ways to learn what older kernels tell otherwise. All of them work on a
// new one.
var kernels = map[string]Options{"with what this kernel tells": {}, "with what older ones tell": {old: true}}

func TestTimeOnCPUAndInQueueAreTheKernelsOwn(t *testing.T) {
	for name, o := range kernels {
		t.Run(name, func(t *testing.T) {
			needEBPF(t)
			cpu := lastCPU(t)
			other := crowd(t, cpu)
			c := spawn(t, cpu, nil, "burn", "400", "400")
			tid := c.ints()[0]
			c.asleep(tid)
			rec := record(t, c.pid(), o)
			s, by := burned(t, c, rec, tid)

			// For the kernel a thread is preempted when who preempts it is woken, some us
			// before it leaves (rq_clock_skip_update in kernel/sched).
			late := 1e6 + 8000*by.involuntary
			near(t, "time on the CPU", s.onNS, by.runNS, 0.02, late+by.stolenNS+stolenStep)
			near(t, "time in the queue", s.queueNS, by.delayNS, 0.02, late)
			// Of either there may be one more or less: the first sleep began before.
			near(t, "sleeps", s.slept, by.voluntary, 0, 2)
			near(t, "preemptions", s.preempted, by.involuntary, 0, 2)
			if s.queueNS < s.onNS/2 {
				t.Errorf("only %d ns in the queue: there was no contention", s.queueNS)
			}
			if s.throttledNS != 0 {
				t.Errorf("%d ns are called throttled, and there is no quota", s.throttledNS)
			}
			if first := s.list[0]; first.NR != unix.SYS_READ || first.Flags != 0 || first.OffNS <= first.QueueNS {
				t.Errorf("the thread was in read, recorded is %+v", first)
			}
			inUser, behind := int64(0), int64(0)
			for _, x := range s.list {
				if x.Behind == other {
					behind += x.QueueNS
				}
				if x.Flags&events.Preempted != 0 && x.QueueNS != x.OffNS {
					t.Errorf("a preempted thread is in the queue from then on: %+v", x)
				}
				if x.Flags&events.Preempted != 0 && x.NR < 0 {
					inUser++
				}
				if x.CPU != cpu {
					t.Errorf("the thread may run on CPU %d only: %+v", cpu, x)
				}
			}
			if 2*behind < s.queueNS {
				t.Errorf("%d ns of %d in the queue are behind process %d, which wants that CPU all the time", behind, s.queueNS, other)
			}
			if named := rec.stop().Process(other); named.Name == "" {
				t.Errorf("process %d has no name: %+v", other, rec.stop().After.Processes)
			}
			if inUser < s.preempted/2 {
				t.Errorf("a thread that was in user space for most of the time was in a system call in %d of %d preemptions", s.preempted-inUser, s.preempted)
			}
		})
	}
}

// crowd begins a process that wants a CPU all the time, and returns its number.
func crowd(t testing.TB, cpu int) int {
	c := spawn(t, cpu, nil, "burn", "100000", "100000")
	c.line()
	c.next()
	c.line()
	c.next()
	return c.pid()
}

func TestTheQueueOfAWokenThreadBeginsWithTheWakeUp(t *testing.T) {
	needEBPF(t)
	cpu := lastCPU(t)
	crowd(t, cpu)
	c := spawn(t, cpu, nil, "burn", "200", "2")
	tid := c.ints()[0]
	c.asleep(tid)
	s, by := burned(t, c, record(t, c.pid(), Options{}), tid)
	near(t, "time in the queue", s.queueNS, by.delayNS, 0.02, 1e6+8000*by.involuntary)
	near(t, "sleeps", s.slept, by.voluntary, 0, 2)
	naps, slept, queue := int64(0), int64(0), int64(0)
	for _, x := range s.list {
		if x.NR != unix.SYS_NANOSLEEP || x.Flags != 0 {
			continue
		}
		naps++
		queue += x.QueueNS
		slept += x.OffNS - x.QueueNS
	}
	t.Logf("%d naps of together %d ns, then %d ns in the queue", naps, slept, queue)
	if naps < 50 || slept < naps*1e6 || slept > naps*2e6 || queue == 0 {
		t.Errorf("it slept %d times for 1 ms, together for %d ns, and %d ns in the queue", naps, slept, queue)
	}
}

func TestThrottledTimeIsThatOfTheCgroup(t *testing.T) {
	for name, o := range kernels {
		t.Run(name, func(t *testing.T) {
			needEBPF(t)
			g := newGroup(t, 20)
			c := spawn(t, lastCPU(t), nil, "burn", "200", "200", g.dir) // on one CPU, as the group's time is counted for each
			tid := c.ints()[0]
			g.write("cgroup.procs", fmt.Sprint(c.pid()))
			c.asleep(tid)
			rec := record(t, c.pid(), o)
			s, by := burned(t, c, rec, tid)
			at := c.ints()
			ours := int64(0) // before and after it the thread sleeps; others of the process may use the quota
			for _, x := range s.list {
				if off := x.Out - x.OnNS - x.OffNS; x.Flags&events.Throttled != 0 && int64(at[0]) < off && off < int64(at[1]) {
					ours += x.OffNS
				}
			}
			// When the quota is there again, others may have the CPU for a slice.
			near(t, "throttled time", ours, int64(at[3]-at[2]), 0.02, 1e6+4e6*s.throttled)
			if s.throttled < 5 {
				t.Errorf("it was throttled %d times: it used 200 ms of 20 in 100", s.throttled)
			}
			near(t, "time on the CPU", s.onNS, by.runNS, 0.02, 1e6+8000*by.involuntary+by.stolenNS+stolenStep)
			// The kernel counts both as the time in which a thread waits for a CPU.
			near(t, "time throttled or in the queue", s.throttledNS+s.queueNS, by.delayNS, 0.02, 1e6+8000*by.involuntary)
			if t.Failed() {
				t.Logf("by the kernel's counts %+v, throttled at %v; what was recorded: %+v", by, at, s.list)
			}
		})
	}
}

// onDisk returns the name of a file whose content is on a block device.
func onDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	var st unix.Stat_t
	fatal(t, unix.Stat(dir, &st))
	var err error
	if unix.Major(st.Dev) == 0 {
		err = fmt.Errorf("the file system of %s has no device; TMPDIR may name one that has", dir)
	}
	need.Feature(t, "disk", err)
	return filepath.Join(dir, "file")
}

func TestFaultsThatWaitForTheDiskAreInNoSystemCall(t *testing.T) {
	needEBPF(t)
	t.Setenv("GODEBUG", "asyncpreemptoff=1") // the thread must not wait for its turn between faults
	c := spawn(t, -1, nil, "fault", onDisk(t))
	tid := c.ints()[0]
	c.asleep(tid)
	rec := record(t, c.pid(), Options{})
	from := monotonic()
	c.next()
	said := c.ints()
	major, slept := int64(said[0]), int64(said[1])
	c.asleep(tid)
	waits, unknown := int64(0), int64(0)
	for _, x := range sum(rec.stop(), tid, from).list {
		switch {
		case x.NR == -1 && x.Flags == events.Uninterruptible|events.BlockIO:
			waits++
		case x.OnNS == 0 && x.OffNS == 0:
			unknown++
		}
	}
	t.Logf("%d pages were read, the thread slept %d times, %d times it is not known how it got the CPU", major, slept, unknown)
	if major < 100 {
		t.Fatalf("only %d pages had to be read: the file was not dropped from memory", major)
	}
	// A page may come before the thread sleeps for it: a disk of a virtual machine may be
	// the memory of its host. It sleeps for nothing else, and in no system call. A switch is
	// not known if the kernel does not tell it: here, when an agent of the virtual machine
	// leaves a CPU (perf does not see it, either).
	if unknown > slept/4 {
		t.Errorf("%d of %d waits are not known", unknown, slept)
	}
	near(t, "waits for pages", waits, slept, 0.02, 1+unknown)
}

func TestFsyncIsTheSystemCallInWhichAThreadWaits(t *testing.T) {
	needEBPF(t)
	const times = 20
	c := spawn(t, -1, nil, "sync", onDisk(t), fmt.Sprint(times))
	tid := c.ints()[0]
	c.asleep(tid)
	rec := record(t, c.pid(), Options{})
	before, from := c.asleep(tid), monotonic()
	c.next()
	c.line()
	after := c.asleep(tid)
	s := sum(rec.stop(), tid, from)
	syncs := 0
	for _, x := range s.list {
		if x.NR == unix.SYS_FSYNC && x.Flags&events.Uninterruptible != 0 {
			syncs++
		}
	}
	t.Logf("%d waits in %d calls of fsync", syncs, times)
	if syncs < times {
		t.Errorf("%d uninterruptible waits in fsync, it was called %d times", syncs, times)
	}
	near(t, "sleeps", s.slept, after.voluntary-before.voluntary, 0, 2)
}

// switches is how often all threads of a child left a CPU, by the kernel's count.
func (c *child) switches() (n int64) {
	c.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", c.pid()))
	fatal(c.t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		fatal(c.t, err)
		for line := range strings.Lines(string(b)) {
			if key, value, _ := strings.Cut(line, ":"); strings.HasSuffix(key, "ctxt_switches") {
				var v int64
				_, err := fmt.Sscan(value, &v)
				fatal(c.t, err)
				n += v
			}
		}
	}
	return n
}

// With a buffer for 73 stretches most of them are lost. None vanishes.
func TestWhatDoesNotFitInTheBufferIsCounted(t *testing.T) {
	needEBPF(t)
	for _, x := range []struct {
		name   string
		buffer int
		loses  bool
	}{{"a buffer of a page", 1, true}, {"a usual one", 0, false}} {
		t.Run(x.name, func(t *testing.T) {
			c := spawn(t, -1, nil, "pong", "20000")
			for _, tid := range c.ints() {
				c.asleep(tid)
			}
			rec := record(t, c.pid(), Options{Buffer: x.buffer})
			before := c.switches()
			c.next()
			c.line()
			all := c.switches() - before
			got := rec.stop()
			if lost := got.After.Lost; lost > 0 != x.loses {
				t.Errorf("%d are lost", lost)
			}
			near(t, "stretches and lost ones", got.After.Stretches+got.After.Lost, all, 0.01, 20)
			for _, s := range got.Stretches {
				if s.OffNS > 1e9 || s.OnNS > 1e9 {
					t.Errorf("no thread was on or off for a second: %+v", s)
				}
			}
		})
	}
}

// programs are the ids of our programs in the kernel, of any process.
func programs(t testing.TB) map[ebpf.ProgramID]bool {
	t.Helper()
	ids := map[ebpf.ProgramID]bool{}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return ids
		}
		fatal(t, err)
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // gone meanwhile
		}
		fatal(t, err)
		info, err := p.Info()
		fatal(t, errors.Join(err, p.Close()))
		if strings.HasPrefix(info.Name, "whylate_") {
			ids[id] = true
		}
	}
}

// more is how many programs are there that were not before.
func more(t testing.TB, before map[ebpf.ProgramID]bool) (n int) {
	for id := range programs(t) {
		if !before[id] {
			n++
		}
	}
	return n
}

// fewer tells whether no program is there that was not before.
func fewer(t testing.TB, before map[ebpf.ProgramID]bool) bool { return more(t, before) == 0 }

func TestAFullFileRemovesThePrograms(t *testing.T) {
	needEBPF(t)
	before := programs(t)
	c := spawn(t, -1, nil, "pong", "20000")
	c.line()
	const stretches = 64 << 10 // bytes; the rest is kept for the last line
	const most = 640<<10 + stretches
	rec := record(t, c.pid(), Options{MaxBytes: most})
	if fewer(t, before) {
		t.Fatal("no program was found in the kernel while it is recorded")
	}
	c.next()
	eventually(t, "the programs are gone, and the recorder was not stopped", func() bool { return fewer(t, before) })
	got := rec.stop()
	if !got.After.Full || rec.file.Len() > most || rec.file.Len() < stretches*3/4 {
		t.Errorf("%d bytes of %d, full: %v", rec.file.Len(), most, got.After.Full)
	}
	if last := got.Stretches[len(got.Stretches)-1].Out; got.After.EndNS > last+1e9 {
		t.Errorf("the recording ended at %d, the last stretch at %d", got.After.EndNS, last)
	}
	known := 0
	until := map[int]int64{}
	for _, s := range got.Stretches {
		if s.Out >= got.After.EndNS { // some of the others may be missing
			break
		}
		known++
		if s.OffNS > 0 && until[s.TID] > 0 && s.From() != until[s.TID] {
			t.Errorf("thread %d: nothing from %d to %d, and all is said to be known until %d", s.TID, until[s.TID], s.From(), got.After.EndNS)
		}
		until[s.TID] = s.Out
	}
	// What a CPU had not sent when the file was full is there, too, however old it is.
	if n := len(got.Stretches); known < n*9/10 {
		t.Errorf("of %d stretches %d lie before the end of what is known", n, known)
	}
}

// What programs take is estimated from a part of the time, also if somebody else has the
// kernel measure all the time.
func TestWhatProgramsTakeIsEstimated(t *testing.T) {
	needEBPF(t)
	always, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	fatal(t, err)
	defer always.Close()
	c := spawn(t, -1, nil, "pong", "1000000")
	c.line()
	before := programs(t)
	rec := record(t, c.pid(), Options{Sets: []string{}})
	c.next()
	time.Sleep(2200 * time.Millisecond)
	var runs int64
	for id := range programs(t) {
		if before[id] {
			continue
		}
		p, err := ebpf.NewProgramFromID(id)
		fatal(t, err)
		info, err := p.Info()
		fatal(t, err)
		s, err := p.Stats()
		fatal(t, err)
		if info.Name == schedProgWhylateSwitch {
			runs = int64(s.RunCount)
		}
		fatal(t, p.Close())
	}
	near(t, "runs", rec.stop().After.Programs[0].Runs, runs, 0.9, 0)
}

func TestRecordingsLeaveNothingInTheKernel(t *testing.T) {
	needEBPF(t)
	before := programs(t)
	for range 20 {
		rec := record(t, os.Getpid(), Options{})
		rec.stop()
		if again, err := rec.r.Stop(); err != nil || again.EndNS == 0 {
			t.Errorf("Stop again: %+v, %v", again, err)
		}
	}
	eventually(t, "the programs of 20 recordings are gone", func() bool { return fewer(t, before) })
}

func TestAKilledRecorderLeavesNothingInTheKernel(t *testing.T) {
	needEBPF(t)
	before := programs(t)
	c := spawn(t, -1, nil, "record", fmt.Sprint(os.Getpid()))
	if said := c.line(); said != "<nil>" {
		t.Fatal(said)
	}
	if fewer(t, before) {
		t.Fatal("no program was found in the kernel while it is recorded")
	}
	fatal(t, c.cmd.Process.Signal(syscall.SIGKILL))
	eventually(t, "the programs are gone", func() bool { return fewer(t, before) })
}

func TestAnErrorOfTheWriterEndsTheRecording(t *testing.T) {
	needEBPF(t)
	before := programs(t)
	c := spawn(t, -1, nil, "pong", "20000")
	c.line()
	full := errors.New("the disk is full")
	r, err := Start(c.pid(), Options{W: failing{full}})
	fatal(t, err)
	c.next()
	eventually(t, "the programs are gone", func() bool { return fewer(t, before) })
	if _, err := r.Stop(); !errors.Is(err, full) {
		t.Errorf("Stop says %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestThreadsHaveTheIDsThatTheProcessSees(t *testing.T) {
	needEBPF(t)
	c := spawn(t, -1, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, "pong", "2000")
	ids := c.ints()
	rec := record(t, c.pid(), Options{})
	c.next()
	c.line()
	got := rec.stop()
	for _, tid := range ids {
		if tid > 1000 {
			t.Errorf("the child said %d, and should be in a namespace of its own", tid)
		}
		if n := len(sum(got, tid, 0).list); n < 100 {
			t.Errorf("%d stretches of thread %d", n, tid)
		}
	}
	if got.Header.PID != c.pid() {
		t.Errorf("the process is %d, recorded is %d", c.pid(), got.Header.PID)
	}
}

func TestTheHeaderDescribesTheProcess(t *testing.T) {
	needEBPF(t)
	c := spawn(t, lastCPU(t), nil, "burn", "1", "1")
	c.line()
	from := monotonic()
	got := record(t, c.pid(), Options{}).stop()
	h := got.Header
	if h.PID != c.pid() || h.CPUs != 1 || h.Kernel == "" || h.Arch != runtime.GOARCH || fmt.Sprint(h.Probes) != "[sched clock tcp]" || len(got.After.Missing) > 0 {
		t.Errorf("%+v: the process is %d and may use one CPU", h, c.pid())
	}
	if h.StartNS < from || got.After.EndNS < h.StartNS || got.After.EndNS > monotonic() {
		t.Errorf("recorded from %d to %d, the test began at %d", h.StartNS, got.After.EndNS, from)
	}
	if len(got.After.Programs) != 10 { // of root, as which tests that need this run
		t.Errorf("programs %+v", got.After.Programs)
	}
}

// What Check says to others than root. The test of what it says to those who may is that
// others do not pass.
func TestWhoMayRecord(t *testing.T) {
	needEBPF(t)
	needs := "needs root, or CAP_BPF and CAP_PERFMON"
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	for _, x := range []struct {
		name string
		attr syscall.SysProcAttr
		says string
	}{
		{"nobody", syscall.SysProcAttr{Credential: nobody}, needs},
		{"nobody with CAP_BPF", syscall.SysProcAttr{Credential: nobody, AmbientCaps: []uintptr{unix.CAP_BPF}}, needs},
		{"nobody with both", syscall.SysProcAttr{Credential: nobody, AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}}, "<nil>"},
		{"root in a container", syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, "pid namespace"},
	} {
		t.Run(x.name, func(t *testing.T) {
			said := spawn(t, -1, &x.attr, "check").line()
			if !strings.Contains(said, x.says) || strings.Contains(said, "MEMLOCK") {
				t.Errorf("Check says %q, want %q", said, x.says)
			}
		})
	}
}

func TestOnlyProcessesThatThereAreAreRecorded(t *testing.T) {
	needEBPF(t)
	c := spawn(t, -1, nil, "burn", "1", "1")
	thread := c.ints()[0]
	for name, pid := range map[string]int{"no process": 1 << 30, "a thread": thread, "zero": 0, "negative": -1} {
		t.Run(name, func(t *testing.T) {
			if r, err := Start(pid, Options{W: new(bytes.Buffer)}); !errors.Is(err, unix.ESRCH) {
				t.Errorf("%v", err)
				if err == nil {
					_, _ = r.Stop()
				}
			}
		})
	}
}

func TestErrorsSayWhatIsMissing(t *testing.T) {
	hint := fmt.Errorf("map create: %w (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", unix.EPERM)
	// Whoever shows it says what was not recorded.
	if err := explain(hint); !errors.Is(err, os.ErrPermission) || !strings.HasPrefix(err.Error(), "permission denied: ") || strings.Contains(err.Error(), "MEMLOCK") {
		t.Errorf("of a refusal: %v", err)
	}
	if err := explain(fmt.Errorf("no BTF: %w", ebpf.ErrNotSupported)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("of a kernel without types: %v", err)
	}
	if err := explain(unix.ENOMEM); errors.Is(err, ErrUnsupported) || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("of a lack of memory: %v", err)
	}
	if err := explain(nil); err != nil {
		t.Errorf("of none: %v", err)
	}
}

func TestBuffersHaveSizesThatTheKernelTakes(t *testing.T) {
	page := uint32(os.Getpagesize())
	for bytes, want := range map[int]uint32{-1: defaultBuffer, 0: defaultBuffer, 1: page, int(page): page, int(page) + 1: 2 * page, 3 << 20: 4 << 20, 1 << 40: 1 << 30} {
		if got := bufferSize(bytes); got != want {
			t.Errorf("%d bytes: %d, want %d", bytes, got, want)
		}
	}
}
