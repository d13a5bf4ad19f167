package diagnose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/whylate/whylate/capture/dependency/dependencytest"
	"github.com/whylate/whylate/capture/kernel"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/capture/symbols"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/report"
)

// Where the kernel lets us, a recording holds scheduling events that cover its trace and
// know its threads; a diagnosis uses them, and they do not spoil the sums.
func TestARecordingHoldsTheSchedulingEventsOfItsThreads(t *testing.T) {
	need.Feature(t, "ebpf", kernel.Check())
	s := dependencytest.Redis(t)
	target := openShop(t, "redis", s.Addr)
	record := func(o RecordOptions) string {
		file := filepath.Join(t.TempDir(), "shop.whylate")
		o.Capture = pprofhttp.Options{For: time.Second, NoProbe: true}
		if _, err := Record(t.Context(), target, file, o); err != nil {
			t.Fatal(err)
		}
		return file
	}
	in := open(t, record(RecordOptions{}))
	tl, err := readTimeline(in, AnalyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := kernelEvents(in, tl)
	if err != nil || watch == nil {
		t.Fatal(watch, err)
	}
	var parts [events.States]int64
	for _, p := range tl.Procs {
		for i, held := range p.Threads {
			until := tl.End
			if i+1 < len(p.Threads) {
				until = p.Threads[i+1].From
			}
			for state, ns := range watch.Split(int(held.M), int64(held.From), int64(until)) {
				parts[state] += ns
			}
		}
	}
	if parts[events.OnCPU] == 0 || parts[events.Slept] == 0 {
		t.Errorf("threads with a P: %v", parts)
	}
	if k := in.Manifest.Cost.Kernel; k.Events != int64(len(watch.Stretches)) || k.ProbeRuns == 0 || k.ProbeSeconds <= 0 {
		t.Errorf("cost %+v, %d stretches", k, len(watch.Stretches))
	}
	d, err := Analyse(in, AnalyseOptions{Check: true})
	if err != nil || d.Check.Requests == 0 || d.Check.WorstNS != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	without := open(t, record(RecordOptions{NoKernel: true}))
	if without.Has("kernel.events") || !slices.ContainsFunc(without.Manifest.NotRecorded, func(n evidence.NotRecorded) bool { return n.What == kernelWord }) {
		t.Errorf("recorded with --no-kernel: %+v", without.Manifest.NotRecorded)
	}
}

// Calls that probes saw are the requests, also of a file, unless the user says otherwise.
func TestCallsOfANamedFunctionAreTheRequests(t *testing.T) {
	need.Feature(t, "ebpf", kernel.Check())
	s := dependencytest.Redis(t)
	target := openShop(t, "redis", s.Addr)
	file := filepath.Join(t.TempDir(), "shop.whylate")
	_, err := Record(t.Context(), target, file, RecordOptions{
		Capture: pprofhttp.Options{For: time.Second, NoProbe: true},
		Probes:  []string{events.Func}, Func: regexp.MustCompile(`diagnose\.askRedis\.func2$`),
	})
	if err != nil {
		t.Fatal(err)
	}
	in := open(t, file)
	d, err := Analyse(in, AnalyseOptions{Check: true})
	if err != nil {
		t.Fatal(err)
	}
	f := d.Kernel.Func
	if f == nil || f.Calls == 0 || len(f.Functions) != 1 {
		t.Fatalf("calls %+v, not recorded %+v", f, d.NotRecorded)
	}
	if d.Requests.FoundBy != "function" || d.Requests.Count == 0 || int64(d.Requests.Count+d.Requests.InFlight) > f.Calls || d.Check.WorstNS != 0 {
		t.Errorf("%+v of %d calls, %+v", d.Requests, f.Calls, d.Check)
	}
	noted := func(d *report.Diagnosis, what string) bool {
		return slices.ContainsFunc(d.Notes, func(n string) bool { return strings.Contains(n, what) })
	}
	if noted(d, "fast ones are missing") || noted(d, "had taken their share") != f.Short {
		t.Errorf("short: %v, notes %q", f.Short, d.Notes)
	}
	d, err = Analyse(in, AnalyseOptions{Request: regexp.MustCompile(`diagnose\.askRedis\.func2$`)})
	if err != nil || !noted(d, "are left out") || !noted(d, "fast ones are missing") {
		t.Errorf("with --request: %v, notes %q", err, d.Notes)
	}
}

// A process that has no endpoint gets the kernel's evidence, and what could not be recorded
// of what was asked for is said.
func TestAProcessWithoutAnEndpointIsProbed(t *testing.T) {
	need.Feature(t, "ebpf", kernel.Check())
	file := filepath.Join(t.TempDir(), "own.whylate")
	stop := make(chan struct{})
	defer close(stop)
	for range 4 {
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
			}
		}()
	}
	// Else somebody would get the answer to another question.
	o := RecordOptions{
		Capture: pprofhttp.Options{For: time.Second},
		Probes:  []string{events.Gosched, events.Func}, Func: regexp.MustCompile(`^no\.such$`),
	}
	if _, err := Record(t.Context(), strconv.Itoa(os.Getpid()), file, o); err == nil || !strings.Contains(err.Error(), "no function matches") {
		t.Fatalf("%v", err)
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) > 0 {
		t.Fatalf("%v, %v", list, err)
	}
	o.Probes, o.Func = []string{events.Gosched, events.Cgo}, nil
	if _, err := Record(t.Context(), strconv.Itoa(os.Getpid()), file, o); err != nil {
		t.Fatal(err)
	}
	d, err := Analyse(open(t, file), AnalyseOptions{})
	if err != nil || d.Reason != "no-trace" {
		t.Fatal(d, err)
	}
	if d.Kernel == nil || d.Kernel.Gosched == nil || d.Kernel.Gosched.N == 0 || len(d.Kernel.RunQueue.Columns) == 0 {
		t.Errorf("nothing of goroutines' waits: %+v", d.Kernel)
	}
	missing := slices.ContainsFunc(d.NotRecorded, func(n report.NotRecorded) bool {
		return n.What == probes[events.Cgo] && strings.Contains(n.Why, "runtime.cgocall")
	})
	if cgo := callsC(t); missing == cgo || cgo != (d.Kernel.Cgo != nil) {
		t.Errorf("it can call C: %v, its calls are counted: %v, not recorded: %+v", cgo, d.Kernel.Cgo != nil, d.NotRecorded)
	}
}

// callsC tells whether this program has the function through which C is called.
func callsC(t *testing.T) bool {
	t.Helper()
	b, err := symbols.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	_, ok := b.Func("runtime.cgocall")
	return ok
}
