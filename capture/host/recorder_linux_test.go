package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

func addr(b *[1]byte) uintptr { return uintptr(unsafe.Pointer(b)) }

func TestCPUTimeIsThatOfTheProcess(t *testing.T) {
	c := start(t, "spin 1 60", nil)
	c.line()
	rec := record(t, c.pid)
	before, _ := processCPU(c.pid)
	c.next()
	own := int64(c.ints()[0])
	got := rec.stop()
	after, _ := processCPU(c.pid)
	u := got.Over([]Span{got.Span()})
	if most := after - before + 50e6; u.RunNS < float64(own) || u.RunNS > float64(most) {
		t.Errorf("recorded %g ns of CPU time; the child measured %d meanwhile, we around it %d", u.RunNS, own, most)
	}
	if u.UserNS+u.SystemNS < 30e6 {
		t.Errorf("%g ns in ticks, the child used %d", u.UserNS+u.SystemNS, own)
	}
	if u.BusyNS < 30e6 {
		t.Errorf("the machine was busy for %g ns, the child alone for %d", u.BusyNS, own)
	}
	first, last := got.Samples[0], got.Samples[len(got.Samples)-1]
	if first.Net == nil || last.Net == nil || last.Voluntary+last.Involuntary <= first.Voluntary+first.Involuntary {
		t.Errorf("network counters %v, %v; context switches %d, then %d", first.Net, last.Net, first.Voluntary+first.Involuntary, last.Voluntary+last.Involuntary)
	}
	if a := got.After; a.ThreadsRead < 3 || a.ThreadsRead > a.Threads || a.EndNS <= 0 || a.EndNS >= a.CPUNS {
		t.Errorf("after: %+v", a)
	}
	if got.After.CPUNS <= 0 || got.After.WallNS <= 0 || got.After.Samples != len(got.Samples) || got.After.Ended != "" {
		t.Errorf("after: %+v", got.After)
	}
	if m := got.After.Memory; m == nil || m.RSS < 1<<20 || m.PSS <= 0 || last.RSS < 1<<20 {
		t.Errorf("memory: %+v, resident %d", m, last.RSS)
	}
}

// Three threads want the same CPU: together they wait at least as long as two of them run.
func TestWaitingForACPUIsSeenWhenThreadsShareOne(t *testing.T) {
	c := start(t, "spin 3 60", nil)
	c.line()
	rec := record(t, c.pid)
	c.next()
	c.line()
	got := rec.stop()
	if u := got.Over([]Span{got.Span()}); u.DelayNS < 60e6 {
		t.Errorf("three threads that need one CPU for 60 ms each waited for %g ns", u.DelayNS)
	}
	gone := 0
	for _, s := range got.Samples {
		gone += len(s.Gone)
	}
	if gone < 3 {
		t.Errorf("%d threads ended, want the three at least", gone)
	}
}

func TestAThreadInUninterruptibleSleepIsSeenAsLongAsItSleeps(t *testing.T) {
	c := start(t, "block", nil)
	tid := c.ints()[0]
	waitFor(t, func() bool { return taskState(c.pid, tid) == 'D' })
	rec := record(t, c.pid)
	c.next()
	c.line()
	got := rec.stop()
	first, last := got.Samples[0], got.Samples[len(got.Samples)-1]
	if !slices.Equal(first.Blocked, []int{tid}) || len(last.Blocked) != 0 {
		t.Errorf("blocked at first %v, at last %v; want thread %d, then none", first.Blocked, last.Blocked, tid)
	}
}

func TestAThreadThatDoesNotRunIsWrittenOnce(t *testing.T) {
	c := start(t, "sleep 3", nil)
	ids := c.ints()
	for _, id := range ids {
		waitFor(t, func() bool { return asleep(c.pid, id) })
	}
	ts := threadsOf(t, c.pid)
	var first, second Sample
	ts.look(&ts.quiet, math.MaxInt, math.MaxInt64, &first)
	ts.look(&ts.quiet, math.MaxInt, math.MaxInt64, &second)
	for _, id := range ids {
		is := func(th Thread) bool { return th.TID == id }
		if !slices.ContainsFunc(first.Threads, is) || slices.ContainsFunc(second.Threads, is) {
			t.Errorf("thread %d, which sleeps, is not in the first look alone: %v, %v", id, first.Threads, second.Threads)
		}
	}
}

// asleep tells whether a thread sleeps and has not run for a moment: one that is on its way
// to sleep may do so several times.
func asleep(pid, tid int) bool {
	ran := func() string {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid)) // "" if it ended
		return string(b)
	}
	before := ran()
	time.Sleep(50 * time.Millisecond)
	return taskState(pid, tid) == 'S' && before != "" && ran() == before
}

func taskState(pid, tid int) byte {
	line, _ := readText(fmt.Sprintf("%s/task/%d/stat", procDir(pid), tid))
	st, _ := parseStat([]byte(line))
	return st.state
}

// waitFor asks again until the test's own time is up.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		if t.Context().Err() != nil {
			t.Fatal("it never came")
		}
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 1000})
	}
}

func threadsOf(t *testing.T, pid int) *threads {
	t.Helper()
	ts, err := openThreads(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ts.close)
	if err := ts.list(math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	return ts
}

func openFDs(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// Whoever has more threads than descriptors may be open is read all the same.
func TestThreadsBeyondTheBoundOfOpenFilesAreReadByPath(t *testing.T) {
	c := start(t, "sleep 30", nil)
	c.line()
	ts := threadsOf(t, c.pid)
	ts.most = 10
	before := openFDs(t)
	var s Sample
	for range keepFrom {
		ts.look(&ts.quiet, math.MaxInt, math.MaxInt64, &s)
		ts.look(&ts.active, math.MaxInt, math.MaxInt64, &s)
	}
	if n := openFDs(t) - before; n != 10 || ts.open != 10 || !ts.byPath {
		t.Errorf("%d descriptors more are open, want 10; by path: %v", n, ts.byPath)
	}
	read := make(map[int]bool)
	for _, th := range s.Threads {
		read[th.TID] = true
	}
	if len(read) != len(ts.all) || len(read) < 30 || ts.known != len(read) {
		t.Errorf("%d threads were read, %d as it says itself, there are %d", len(read), ts.known, len(ts.all))
	}
}

// A process of many threads is listed in portions; none is taken to have ended meanwhile. A
// signal may end one of the kernel's answers early, which then is no portion.
func TestThreadsAreListedInPortions(t *testing.T) {
	runtime.LockOSThread() // its CPU time is counted, as the recorder's
	defer runtime.UnlockOSThread()
	c := start(t, "sleep 2000", nil)
	ids := c.ints()
	ts, err := openThreads(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	defer ts.close()
	portions := 0
	for portions == 0 || ts.listing {
		if err := ts.list(0); err != nil {
			t.Fatal(err)
		}
		portions++
	}
	if portions < 2 || ts.lists != 1 {
		t.Errorf("%d portions, %d listings", portions, ts.lists)
	}
	for _, id := range ids {
		if ts.all[id] == nil {
			t.Errorf("thread %d was not found", id)
		}
	}
}

func TestARecordingLeavesNoDescriptorOpen(t *testing.T) {
	c := start(t, "sleep 5", nil)
	c.line()
	record(t, os.Getpid()).stop() // opens what the runtime keeps
	before := openFDs(t)
	record(t, c.pid).stop()
	if _, err := Start(context.Background(), c.pid, Options{W: failing{errors.New("full")}}); err == nil {
		t.Error("a writer that fails went unnoticed")
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestAProcessThatEndsEndsTheRecording(t *testing.T) {
	for _, reaped := range []bool{false, true} {
		t.Run(fmt.Sprintf("reaped %v", reaped), func(t *testing.T) {
			c := start(t, "sleep 3", nil)
			c.line()
			rec := record(t, c.pid)
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if reaped {
				_ = c.cmd.Wait()
			}
			<-rec.r.done // without Stop
			got := rec.stop()
			if got.After.Ended != errEnded.Error() || len(got.After.Missing) != 0 {
				t.Errorf("after: %+v", got.After)
			}
		})
	}
}

func TestACancelledRecordingIsComplete(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var file bytes.Buffer
	r, err := Start(ctx, os.Getpid(), Options{W: &file})
	if err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("enough"))
	<-r.done
	if _, err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&file)
	if err != nil || got.After == nil || got.After.Ended != "enough" || got.After.Memory == nil || len(got.Samples) < 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAFileThatIsFullEndsTheRecording(t *testing.T) {
	const most = 6 << 10
	var file bytes.Buffer
	r, err := Start(context.Background(), os.Getpid(), Options{W: &file, MaxBytes: most})
	if err != nil {
		t.Fatal(err)
	}
	<-r.done
	after, err := r.Stop()
	if err != nil || !strings.Contains(after.Ended, errFull.Error()) {
		t.Errorf("%+v, %v", after, err)
	}
	last := bytes.LastIndexByte(bytes.TrimSuffix(file.Bytes(), []byte("\n")), '\n')
	if last > most {
		t.Errorf("%d bytes before the last line, at most %d", last, most)
	}
	if got, err := Read(&file); err != nil || got.After == nil {
		t.Errorf("read: %v", err)
	}
}

// failsLater fails after some lines.
type failsLater struct{ lines int }

func (f *failsLater) Write(p []byte) (int, error) {
	if f.lines--; f.lines < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestAWriterThatFailsEndsTheRecording(t *testing.T) {
	r, err := Start(context.Background(), os.Getpid(), Options{W: &failsLater{3}})
	if err != nil {
		t.Fatal(err)
	}
	<-r.done
	if _, err := r.Stop(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Stop: %v", err)
	}
}

func TestThereHasToBeAProcess(t *testing.T) {
	c := start(t, "sleep 0", nil)
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	for _, pid := range []int{c.pid, 0, -1, 1 << 30} {
		if _, err := Start(context.Background(), pid, Options{W: io.Discard}); !errors.Is(err, ErrNoProcess) {
			t.Errorf("Start(%d): %v", pid, err)
		}
		if _, err := Describe(pid); !errors.Is(err, ErrNoProcess) {
			t.Errorf("Describe(%d): %v", pid, err)
		}
		if err := Same(pid, "", nil); !errors.Is(err, ErrNoProcess) {
			t.Errorf("Same(%d): %v", pid, err)
		}
	}
}

func TestDescribeKnowsAGoProgram(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c := start(t, "sleep 1", func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "GOGC=77", "GOMEMLIMIT=1GiB", "GODEBUG=madvdontneed=1", "SECRET=hidden")
		cmd.Stderr = null
	})
	c.line()
	d, err := Describe(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"GOMAXPROCS": "2", "GOGC": "77", "GOMEMLIMIT": "1GiB", "GODEBUG": "madvdontneed=1"}
	if fmt.Sprint(d.Target.Env) != fmt.Sprint(want) {
		t.Errorf("environment %v, want %v", d.Target.Env, want)
	}
	if d.Target.PID != c.pid || d.Target.Program != filepath.Base(os.Args[0]) || !strings.HasPrefix(d.Target.Go, "go1.") ||
		d.Target.ModulesFrom != "build info" || d.Target.Main != "github.com/whylate/whylate" {
		t.Errorf("target %+v", d.Target)
	}
	s := d.Static
	if s.Stdout != "pipe" || s.Stderr != "null" {
		t.Errorf("stdout %q, stderr %q; want pipe and null", s.Stdout, s.Stderr)
	}
	if s.CPUs < 1 || s.Allowed < 1 || s.Allowed > s.CPUs || d.Host.CPUs != s.CPUs || d.Host.Kernel == "" || d.Host.Clocksource == "" {
		t.Errorf("host %+v, static %+v", d.Host, s)
	}
	if len(s.NSPID) < 1 || s.NSPID[0] != c.pid || s.TickNS != 10e6 {
		t.Errorf("static %+v", s)
	}
}

func TestAProgramThatIsNotGoIsRecordedAllTheSame(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	waitFor(t, func() bool {
		exe, _ := os.Readlink(procDir(cmd.Process.Pid) + "/exe")
		return strings.Contains(exe, "bin/")
	})
	d, err := Describe(cmd.Process.Pid)
	if err != nil || !missing(d.Static.Missing, "build info") || d.Target.Go != "" || d.Target.Program != "sleep" {
		t.Errorf("%+v, %v", d, err)
	}
	if got := record(t, cmd.Process.Pid).stop(); len(got.Samples) < 2 || got.Samples[0].NumThreads != 1 {
		t.Errorf("%+v", got)
	}
}

// What only the owner of a process may read is missing; the rest is recorded.
func TestAProcessOfAnotherUserIsRecordedAsFarAsItMayBe(t *testing.T) {
	needs(t, "root", os.Geteuid() == 0, "only root can be another user")
	target := start(t, "sleep 2", nil)
	target.line()
	c := start(t, fmt.Sprintf("record %d", target.pid), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	got, err := Read(c.out)
	if err != nil {
		t.Fatal(err)
	}
	if !missing(got.Static.Missing, "stdout") || !missing(got.After.Missing, "sockets") || !missing(got.After.Missing, "memory") {
		t.Errorf("missing before: %+v, after: %+v", got.Static.Missing, got.After.Missing)
	}
	for _, m := range got.After.Missing {
		if m.Command == "" {
			t.Errorf("nothing says how to get %s", m.What)
		}
	}
	if len(got.Samples) < 2 || len(got.Samples[0].Threads) < 3 || got.Samples[0].RSS == 0 {
		t.Errorf("samples: %+v", got.Samples)
	}
}

// What is sent again must be placed in time, and reading it is dear.
func TestTheNetworksCountersAreReadNowAndThen(t *testing.T) {
	c := start(t, "spin 1 1200", nil)
	c.line()
	rec := record(t, c.pid)
	c.next()
	c.ints()
	got := rec.stop()
	n, last := 0, int64(0)
	for _, s := range got.Samples[:len(got.Samples)-1] { // the last one has them if they are not dear
		if s.Net == nil {
			continue
		}
		if n++; n > 1 && s.MonoNS-last < int64(netEvery)*9/10 {
			t.Errorf("read again after %d ms", (s.MonoNS-last)/1e6)
		}
		last = s.MonoNS
	}
	if most := int(got.After.WallNS/int64(netEvery)) + 1; n < 2 || n > most {
		t.Errorf("read %d times in %d ms, want between 2 and %d", n, got.After.WallNS/1e6, most)
	}
	i := slices.IndexFunc(rec.r.sources, func(s *source) bool { return s.what == "net" })
	if cost := rec.r.sources[i].cost; got.Samples[len(got.Samples)-1].Net == nil && cost < int64(endsCost/2) {
		t.Errorf("not read at the end, although a reading takes %d us of CPU time", cost/1e3)
	}
}

func TestAThreadIsNoProcess(t *testing.T) {
	tids, err := os.ReadDir("/proc/self/task")
	if err != nil || len(tids) < 2 {
		t.Fatal(tids, err)
	}
	for _, tid := range tids {
		n, err := strconv.Atoi(tid.Name())
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("is a thread of process %d", os.Getpid())
		_, err = Describe(n)
		if _, gone := os.Stat("/proc/self/task/" + tid.Name()); gone != nil {
			continue
		}
		if (n != os.Getpid()) != (err != nil && errors.Is(err, ErrNoProcess) && strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v", n, err)
		}
	}
}
