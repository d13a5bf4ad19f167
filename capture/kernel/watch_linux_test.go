//go:build amd64

package kernel

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/novdso"
)

// built is a program of testdata, as it comes from the toolchain and what is left of it in
// a small image.
func built(t *testing.T, name string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	args := append([]string{"build", "-o", file}, flags...)
	cmd := exec.Command("go", append(args, "./testdata/"+name)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// running is a program of testdata.
type running struct {
	*child
	in *bufio.Writer
}

func run(t *testing.T, file string, env ...string) *running {
	t.Helper()
	return runBy(t, (*exec.Cmd).Start, file, env...)
}

// runBy is run, with what starts the process.
func runBy(t *testing.T, start func(*exec.Cmd) error, file string, env ...string) *running {
	t.Helper()
	cmd := exec.Command(file)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	fatal(t, err)
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	fatal(t, start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &running{&child{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}, bufio.NewWriter(in)}
	if said := p.line(); said != "ready" {
		t.Fatalf("the program said %q", said)
	}
	return p
}

// do has the program do something, and returns what it counted.
func (p *running) do(what string, args ...int) []int {
	p.t.Helper()
	for _, a := range args {
		what += " " + strconv.Itoa(a)
	}
	if _, err := p.in.WriteString(what + "\n"); err != nil {
		p.t.Fatal(err)
	}
	fatal(p.t, p.in.Flush())
	return p.ints()
}

func needGCC(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("gcc")
	need.Feature(t, "gcc", err)
}

// much is a share that no test takes.
const much = 1000

// preempted is how long somebody else may have the CPU, in ns, between what a program measures and
// what a probe does: a turn of the scheduler's, or the hypervisor's.
const preempted = 4_000_000

// find is a function of C that was called.
func find(t *testing.T, c *events.CgoCalls, name string) events.CFunction {
	t.Helper()
	i := slices.IndexFunc(c.Functions, func(f events.CFunction) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no calls of %s in %+v", name, c)
	}
	return c.Functions[i]
}

func TestTimesInCAreThoseThatCMeasures(t *testing.T) {
	needEBPF(t)
	needGCC(t)
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"as it comes", nil},
		{"without symbols", []string{"-ldflags=-s -w"}},
		{"at any address", []string{"-buildmode=pie", "-ldflags=-s -w"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := run(t, built(t, "cgotarget", c.flags...))
			rec := record(t, p.pid(), Options{Sets: []string{events.Cgo}, share: much})
			sleep, burn, back := p.do("sleep", 50, 2_000_000), p.do("burn", 100, 500_000), p.do("back", 20, 300_000)
			p.do("nothing", 1000)
			a := rec.stop().After
			if a.Cgo == nil {
				t.Fatalf("nothing was counted: %+v", a.Missing)
			}
			for _, x := range []struct {
				name  string
				calls int64
				said  []int
				from  string
			}{
				{"c_sleep", 50, sleep, "main.main"},
				{"c_burn", 100, burn, "main.main"},
				{"c_inner", 20, []int{back[2], 0}, "main._Cfunc_c_inner"},
				{"c_back", 20, back, "main.main"},
				{"c_nothing", 1000, nil, "main.main"},
			} {
				f := find(t, a.Cgo, x.name)
				if f.Calls != x.calls {
					t.Errorf("%d calls of %s, there were %d", f.Calls, x.name, x.calls)
				}
				if x.said != nil { // C measures a little less: the way there and back is not C's
					sum, longest := int64(x.said[0]), int64(x.said[1])
					near(t, "ns in "+x.name, f.NS, sum, 0.03, preempted)
					// However long somebody else has the CPU on one of these ways, it is in the sum, too.
					if way := f.NS - sum; way < 0 || longest > 0 && (f.MaxNS < longest || f.MaxNS > longest+way) {
						t.Errorf("%s: %d ns, the longest %d, by C's own count %d and %d", x.name, f.NS, f.MaxNS, sum, longest)
					}
				}
				if f.Goroutine != 1 || !slices.Contains(f.Stack, x.from) || f.Stack[0] != "runtime.cgocall" {
					t.Errorf("%s: the longest from goroutine %d, %q", x.name, f.Goroutine, f.Stack)
				}
				var n int64
				for _, calls := range f.Histogram {
					n += calls
				}
				if n != f.Calls || f.Back != nil {
					t.Errorf("%s: %d calls, in the histogram %d; back %v", x.name, f.Calls, n, f.Back)
				}
			}
			slept := find(t, a.Cgo, "c_sleep")
			least, most := int64(0), int64(0)
			for i, calls := range slept.Histogram { // calls that took 2^i ns, and less than twice as long
				least, most = least+calls<<i, most+calls<<(i+1)
			}
			if slept.NS < least || slept.NS > most {
				t.Errorf("sleeping for 2 ms: %d ns, from %d to %d by %v", slept.NS, least, most, slept.Histogram)
			}
			// A call is two hits, whatever C does.
			if calls := int64(50 + 100 + 20 + 20 + 1000); a.Cgo.Hits != 2*calls || a.Cgo.Lost != 0 || a.Cgo.Short || a.Cgo.HitNS < 20 {
				t.Errorf("%+v, want %d hits", a.Cgo.Burst, 2*calls)
			}
			t.Logf("a hit takes %d ns", a.Cgo.HitNS)
		})
	}
}

func TestTheWayBackFromCIsAskedFor(t *testing.T) {
	needEBPF(t)
	needGCC(t)
	p := run(t, built(t, "cgotarget"))
	rec := record(t, p.pid(), Options{Sets: []string{events.CgoReturn}, share: much})
	p.do("burn", 100, 100_000)
	a := rec.stop().After
	if a.Cgo == nil {
		t.Fatalf("nothing was counted: %+v", a.Missing)
	}
	f := find(t, a.Cgo, "c_burn")
	if f.Back == nil || f.Back.Calls != 100 || f.Back.NS <= 0 || f.Back.NS > f.NS || a.Cgo.Hits != 300 {
		t.Errorf("%+v, %d hits", f.Back, a.Cgo.Hits)
	}
}

func TestSampledAllocationsAreThoseThatTheRuntimeSamples(t *testing.T) {
	needEBPF(t)
	p := run(t, built(t, "gotarget", "-ldflags=-s -w"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Alloc}, share: much})
	sampled := p.do("alloc", 20_000, 2_000)[0]
	m := rec.stop().After.Allocs
	if m == nil || m.Samples != m.Hits || len(m.Sites) < 2 {
		t.Fatalf("%+v", m)
	}
	// What the program samples of itself for the profile is the only other thing.
	near(t, "samples", m.Samples, int64(sampled), 0.02, 3)
	// A sample is as likely as the allocation is large: two of 2,000 bytes each are as many
	// as one of 4,000, from another function, and are half as many bytes.
	var one, more events.AllocSite
	for _, s := range m.Sites {
		of := &one
		if slices.Contains(s.Stack, "main.allocateMore") {
			of = &more
		}
		if slices.Contains(s.Stack, "main.allocate") {
			of.Samples += s.Samples
			of.Bytes += s.Bytes
		}
	}
	t.Logf("of one function %d samples, of the other %d", one.Samples, more.Samples)
	if min(one.Samples, more.Samples)*2 < max(one.Samples, more.Samples) { // some 150 each
		t.Errorf("of one function %d samples, of the other, which allocates as much, %d", one.Samples, more.Samples)
	}
	// The classes of those sizes. One sample of some thousand has the other's stack.
	if off := max(one.Bytes-one.Samples*2048, 0) + max(more.Samples*4096-more.Bytes, 0); off > 2*2048 {
		t.Errorf("%+v and %+v are not of 2,000 and 4,000 bytes", one, more)
	}
}

func TestWaitsOfGoroutinesAreThoseThatTheyMeasure(t *testing.T) {
	needEBPF(t)
	p := run(t, built(t, "gotarget", "-ldflags=-s -w"), "GOMAXPROCS=1")
	rec := record(t, p.pid(), Options{Sets: []string{events.Gosched}, share: much})
	said := p.do("yield", 100, 1_500_000)
	w := rec.stop().After.Waits
	if w == nil {
		t.Fatal("nothing was counted")
	}
	// The other one waits, too, for next to nothing; and a few of the runtime's.
	if w.N < 200 || w.N > 400 || w.Hits < 2*w.N {
		t.Errorf("%d waits, %d hits, want 200 waits and a few", w.N, w.Hits)
	}
	near(t, "ns of waits", w.NS, int64(said[0]), 0.03, preempted)
	near(t, "the longest", w.MaxNS, int64(said[1]), 0.03, 1_000_000)
	// A wait is longer where others have the CPU meanwhile, never shorter. Which slot it is in the program knows, but for
	// what is at its edges.
	slots := append(w.Histogram, make([]int64, 21)...)
	long := 0
	for _, n := range slots[20:] {
		long += int(n)
	}
	if off := int(slots[20]) - int(said[2]); long < 95 || off < -2 || off > 2 {
		t.Errorf("%d waits of 1.5 ms or more, want 100; %d of 1 to 2 ms, by the program's own count %d: %v", long, slots[20], said[2], w.Histogram)
	}
	if w.Goroutine != 1 {
		t.Errorf("goroutine %d waited longest, it is 1", w.Goroutine)
	}
}

func TestCallsOfANamedFunctionAreWhenItSaysItRan(t *testing.T) {
	needEBPF(t)
	p := run(t, built(t, "gotarget", "-ldflags=-s -w"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Func}, Func: regexp.MustCompile(`^main\.handle$`), share: much})
	from := monotonic()
	said := p.do("handle", 50, 2_000_000)
	to := monotonic()
	got := rec.stop()
	f := got.After.Func
	if f == nil {
		t.Fatalf("%+v", got.After.Missing)
	}
	if !slices.Equal(f.Functions, []string{"main.handle"}) || f.Calls != 50 || len(got.Calls) != 50 || f.Hits != 50*3*2 || f.Lost != 0 {
		t.Fatalf("%+v, %d calls in the file", f, len(got.Calls))
	}
	var sum int64
	seen := map[int64]bool{}
	for _, c := range got.Calls {
		if c.From < from || c.To > to || c.To-c.From < 2_000_000 || seen[c.Goroutine] || c.Func != 0 {
			t.Errorf("%+v, between %d and %d", c, from, to)
		}
		seen[c.Goroutine] = true
		sum += c.To - c.From
	}
	near(t, "ns in the function", sum, int64(said[1]), 0.02, preempted)
}

// Goroutines that are in the function when the probes come and go are not mixed up: each
// call that began is told, and none twice.
func TestCallsOfAFunctionThatAlwaysRuns(t *testing.T) {
	needEBPF(t)
	p := run(t, built(t, "gotarget"))
	const goroutines, ns = 8, 200_000
	p.do("serve", goroutines, ns)
	for range 5 {
		rec := record(t, p.pid(), Options{Sets: []string{events.Func}, Func: regexp.MustCompile(`^main\.handle$`), share: much})
		time.Sleep(300 * time.Millisecond)
		got := rec.stop()
		f := got.After.Func
		if f == nil {
			t.Fatalf("%+v", got.After.Missing)
		}
		open, ended, calls := map[int64]int{}, map[int64]int{}, map[int64][]events.Call{}
		for _, c := range got.Calls { // in order of their ends
			calls[c.Goroutine] = append(calls[c.Goroutine], c)
			if c.Open {
				open[c.Goroutine]++
			} else {
				ended[c.Goroutine]++
			}
			if took := c.To - c.From; !c.Open && took < ns {
				t.Errorf("%+v took %d ns, each sleeps for %d", c, took, ns)
			}
		}
		for g, n := range open {
			if n > 1 || ended[g] == 0 {
				t.Errorf("goroutine %d: %d calls ended, %d have not", g, ended[g], n)
			}
		}
		for g, list := range calls {
			for i := range list[1:] {
				if a, b := list[i], list[i+1]; b.From < a.To {
					t.Errorf("goroutine %d is in two calls at a time: %+v and %+v", g, a, b)
				}
			}
		}
		if len(ended) != goroutines || f.Lost != 0 || f.Calls != int64(len(got.Calls)) {
			t.Errorf("%d goroutines, %+v, %d calls", len(ended), f, len(got.Calls))
		}
		if f.Unended != 0 {
			t.Errorf("%d calls are said not to have returned", f.Unended)
		}
		// Each call hits twice, but while probes come and go.
		near(t, "twice the calls", 2*f.Calls, f.Hits, 0.2, 4*goroutines)
	}
}

// Calls that do not return are told once for each, and none of the goroutine's next calls
// is taken for a part of them.
func TestCallsThatDoNotReturn(t *testing.T) {
	needEBPF(t)
	p := run(t, built(t, "gotarget"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Func}, Func: regexp.MustCompile(`^main\.(fail|handle)$`), share: much})
	const n = 20
	p.do("panic", n, 100_000)
	p.do("handle", n, 100_000)
	got := rec.stop()
	f := got.After.Func
	if f == nil {
		t.Fatalf("%+v", got.After.Missing)
	}
	if f.Unended != 2*n || f.Calls != n || len(got.Calls) != n || f.Lost != 0 {
		t.Errorf("%+v, want %d without an end, and %d calls", f, 2*n, n)
	}
	for _, c := range got.Calls {
		if c.Open || f.Functions[c.Func] != "main.handle" {
			t.Errorf("%+v", c)
		}
	}
}

// Who waits with the probes has none, and then all.
func TestProbesThatBeginLater(t *testing.T) {
	needEBPF(t)
	p := run(t, built(t, "gotarget"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Func, events.Clock, events.TCP}, Func: regexp.MustCompile(`^main\.handle$`), share: much, Later: true})
	p.do("handle", 10, 100_000)
	rec.r.Begin()
	eventually(t, "the probes are there", func() bool { return p.do("handle", 1, 100_000) != nil && rec.r.begun.Load() && hits(t, rec) > 0 })
	before := monotonic()
	p.do("handle", 10, 100_000)
	got := rec.stop()
	f := got.After.Func
	if f == nil || got.After.Readings == nil || got.After.TCP == nil {
		t.Fatalf("%+v", got.After)
	}
	late := 0
	for _, c := range got.Calls {
		if c.From >= before {
			late++
		}
	}
	if late != 10 || f.FromNS > before || f.FromNS <= got.After.TCP.FromNS || got.After.Readings.FromNS <= got.After.TCP.FromNS {
		t.Errorf("%d of 10 calls, %+v", late, f)
	}
}

// hits are those of the first burst that counts any.
func hits(t *testing.T, rec *recording) (n int64) {
	for _, b := range rec.r.all {
		if w, ok := b.(*watcher); ok {
			w.ask(func() bool {
				var err error
				n, _, err = w.counts()
				fatal(t, err)
				return false
			})
		}
	}
	return n
}

// A file that is full ends the calls, too, and says how many are not in it. It has room for
// what happens until they are first looked at.
func TestCallsForWhichTheFileHasNoRoom(t *testing.T) {
	needEBPF(t)
	before := programs(t)
	p := run(t, built(t, "gotarget"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Func}, Func: regexp.MustCompile(`^main\.handle$`), share: much, MaxBytes: 640<<10 + 256<<10})
	p.do("serve", 8, 100_000)
	eventually(t, "the programs are gone, and the recorder was not stopped", func() bool { return fewer(t, before) })
	got := rec.stop()
	f := got.After.Func
	if f == nil {
		t.Fatalf("%+v", got.After.Missing)
	}
	if !got.After.Full || f.Calls == 0 || f.Calls != int64(len(got.Calls)) || f.Lost == 0 || f.Short {
		t.Errorf("%+v, full %v, %d calls", f, got.After.Full, len(got.Calls))
	}
	for _, c := range got.Calls {
		if c.To > f.ToNS {
			t.Errorf("%+v, and those until %d only are complete", c, f.ToNS)
		}
	}
}

// Who writes the file may be kept for as long as a disk likes.
func TestProbesGoInTimeThoughNobodyReads(t *testing.T) {
	needEBPF(t)
	needGCC(t)
	p := run(t, built(t, "cgotarget"))
	stuck, writes := make(chan bool), make(chan bool, 1)
	rec := record(t, p.pid(), Options{Sets: []string{events.Cgo}, Each: func(*events.Stretch) {
		select {
		case writes <- true:
		default:
		}
		<-stuck
	}})
	p.do("sleep", 100, 1_000_000)
	<-writes
	p.do("nothing", 300_000)
	eventually(t, "the probes go", rec.r.all[0].over)
	p.do("nothing", 1_000_000)
	close(stuck)
	if c := rec.stop().After.Cgo; c == nil || !c.Short || c.Hits > 1_000_000 {
		t.Errorf("%+v", c)
	}
}

// Where probes stay, their share is one of the last seconds: what a process has used before
// is no credit.
func TestTheShareIsOneOfTheLastSeconds(t *testing.T) {
	needEBPF(t)
	needGCC(t)
	p := run(t, built(t, "cgotarget"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Cgo}, Stay: true, window: 100 * time.Millisecond, share: 0.2})
	p.do("burn", 30, 100_000_000)
	p.do("nothing", 3_000_000)
	c := rec.stop().After.Cgo
	if c == nil || !c.Short || find(t, c, "c_burn").Calls != 30 {
		t.Fatalf("%+v", c)
	}
	took := time.Duration(c.Hits * c.HitNS)
	t.Logf("removed after %v", took)
	if took > 400*time.Millisecond { // of 3 s it would be 600 ms
		t.Errorf("%v of probes until they were removed", took)
	}
}

func TestWhatAProbeTakesIsMeasured(t *testing.T) {
	needEBPF(t)
	c, err := trapCosts()
	fatal(t, err)
	t.Logf("%.0f ns where the kernel emulates the instruction, %.0f ns where not", c.cheap, c.dear)
	if c.cheap < 20 || c.dear < c.cheap {
		t.Errorf("%+v", c)
	}
	for range 10 {
		inAnotherThread(func() {
			if unix.Gettid() == os.Getpid() {
				t.Error("it is the first thread")
			}
		})
	}
}

func TestFunctionsThatTheCompilerMadeAreNotMeant(t *testing.T) {
	for name, want := range map[string]bool{
		"main.handle": false, "main.main.func1": false, "main.(*server).sleep-fm": true, "main.(*server).sleep.deferwrap1": true, "main.run.gowrap2": true, "main.deferred": false,
	} {
		if wrapper(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestFunctionsThatCannotBeWatchedAreSaid(t *testing.T) {
	needEBPF(t)
	p := run(t, built(t, "gotarget"))
	for re, want := range map[string]string{`^main\.nobody$`: "no function", `.`: "more than", "": "named"} {
		o := Options{Sets: []string{events.Func}}
		if re != "" {
			o.Func = regexp.MustCompile(re)
		}
		if m := record(t, p.pid(), o).stop().After.Missing; len(m) != 1 || !strings.Contains(m[0].Why, want) {
			t.Errorf("%q: %+v, want %q", re, m, want)
		}
	}
}

func TestProbesInFunctionsGoWhenTheyHaveTakenTheirShare(t *testing.T) {
	needEBPF(t)
	needGCC(t)
	before := programs(t)
	p := run(t, built(t, "cgotarget"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Cgo}})
	all := more(t, before)
	p.do("nothing", 300_000)
	eventually(t, "two programs are gone", func() bool { return more(t, before) == all-2 })
	p.do("nothing", 1_000_000)
	c := rec.stop().After.Cgo
	if c == nil || !c.Short || float64(c.Hits*c.HitNS) <= free || c.Hits > 1_000_000 || find(t, c, "c_nothing").Calls == 0 {
		t.Errorf("%+v", c)
	}
}

func TestCallersOfTheClockAreNamed(t *testing.T) {
	needEBPF(t)
	p := runBy(t, novdso.Start, built(t, "gotarget", "-ldflags=-s -w"))
	rec := record(t, p.pid(), Options{clockRuns: 1 << 40})
	p.do("clock", 20_000)
	r := rec.stop().After.Readings
	if r == nil || r.Calls < 40_000 || len(r.Callers) == 0 {
		t.Fatalf("%+v", r)
	}
	var n int64
	for _, c := range r.Callers {
		n += c.N
	}
	first := r.Callers[0]
	t.Logf("%d of %d calls from %q, all: %+v", first.N, n, first.Stack, r.Callers)
	if !slices.Contains(first.Stack, "main.readClock") || first.N*10 < n*9 || n > r.Calls/32+64 {
		t.Errorf("%d of %d calls are from %q", first.N, n, first.Stack)
	}
}

func TestSetsThatCannotBeRecordedAreMissing(t *testing.T) {
	needEBPF(t)
	sleep := exec.Command("sleep", "100")
	fatal(t, sleep.Start())
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	p := run(t, built(t, "gotarget"))
	for _, c := range []struct {
		pid  int
		set  string
		want string
	}{
		{sleep.Process.Pid, events.Cgo, "Go"},
		{p.pid(), "coffee", "coffee"},
	} {
		got := record(t, c.pid, Options{Sets: []string{c.set, events.Clock}}).stop()
		if m := got.After.Missing; len(m) != 1 || m[0].Probes != c.set || !strings.Contains(m[0].Why, c.want) {
			t.Errorf("%s: %+v", c.set, m)
		}
		if !slices.Equal(got.Header.Probes, []string{events.Sched, events.Clock}) || got.After.Readings == nil {
			t.Errorf("%s: %q were recorded, and %+v", c.set, got.Header.Probes, got.After)
		}
	}
}

// A program whose stacks grow and move, under all probes, comes to its end.
func TestNoProgramIsHurt(t *testing.T) {
	needEBPF(t)
	needGCC(t)
	p := run(t, built(t, "cgotarget"))
	rec := record(t, p.pid(), Options{Sets: []string{events.Cgo, events.Gosched, events.Clock}, share: much})
	for _, depth := range []int{10, 100, 1000, 10_000} {
		if said := p.do("grow", 50, depth); len(said) != 3 || said[0] == 0 {
			t.Errorf("the program said %v", said)
		}
	}
	c := rec.stop().After.Cgo
	if c == nil || find(t, c, "c_nothing").Calls != 200 || find(t, c, "c_inner").Calls != 200 || find(t, c, "c_back").Calls != 200 {
		t.Errorf("%+v", c)
	}
}
