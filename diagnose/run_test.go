package diagnose

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whylate/whylate/capture/pprofhttp"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// serveUnderLoad starts a service in which every request waits for a timer of 100 ms,
// and clients that each send one after the other until the test ends. It returns its
// address.
func serveUnderLoad(t *testing.T, clients int) string {
	t.Helper()
	url, _ := serveUntil(t, clients, 100*time.Millisecond)
	return url
}

// serveUntil is serveUnderLoad, with how long every request waits and what ends the load.
func serveUntil(t *testing.T, clients int, wait time.Duration) (url string, rest func()) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/order", func(w http.ResponseWriter, _ *http.Request) { backOff(wait) })
	s := httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	for range clients {
		sending.Go(func() {
			for ctx.Err() == nil {
				resp, err := http.Get(s.URL + "/order")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // it is empty
				resp.Body.Close()
			}
		})
	}
	rest = func() {
		cancel()
		sending.Wait()
	}
	t.Cleanup(func() {
		rest()
		s.Close()
	})
	return s.URL, rest
}

//go:noinline
func backOff(wait time.Duration) { time.Sleep(wait) }

// attempts is how often a live target is recorded while something else has the
// machine's CPUs, which then is the truth.
const attempts = 4

// disturbed reports whether a diagnosis names the host, or does not rule it out.
func disturbed(d *report.Diagnosis) bool {
	return slices.ContainsFunc(d.Findings, func(f cause.Finding) bool { return f.Cause == "host-contention" }) ||
		slices.ContainsFunc(d.ConsistentWith, func(c cause.Consistent) bool { return slices.Contains(c.Causes, "host-contention") })
}

// One recording of a live target, judged in every way in which a service that is
// slow throughout can be judged.
func TestALiveTargetInWhichEveryRequestWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "live.whylate")
	const wait = 300 * time.Millisecond // next to which what a busy machine adds is little
	url, _ := serveUntil(t, 72, wait)
	var d *report.Diagnosis
	analysing := 0
	for range attempts {
		var err error
		analysing = 0
		d, err = Run(t.Context(), url, Options{
			RecordOptions: RecordOptions{Capture: pprofhttp.Options{For: 2 * time.Second, NoProbe: true}},
			Fixed:         true, Save: file, Analysing: func() { analysing++ },
			Analyse: AnalyseOptions{Check: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !disturbed(d) {
			break
		}
		t.Logf("somebody else had the CPUs: %s", d.Sentence)
	}
	if d.Requests.FoundBy != "net/http" || d.Requests.Count < 200 || d.Requests.P50NS < int64(wait) {
		t.Errorf("%+v", d.Requests)
	}
	if d.Check.WorstNS != 0 || d.Target.Kind != "pprof" || d.Lost.Bytes != 0 || analysing != 1 {
		t.Errorf("%+v %+v %+v, analysing said %d times", d.Check, d.Target, d.Lost, analysing)
	}
	fast, err := evidence.Open(alike, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	for _, c := range []struct {
		name            string
		o               AnalyseOptions
		verdict, reason string
		against, begins string
	}{
		{"without an objective nobody knows whether that is on purpose", AnalyseOptions{}, report.VerdictInconclusive, "level", "zero", "Every request spends "},
		{"above the objective it is the cause", AnalyseOptions{SLO: wait / 2}, report.VerdictCause, "", "zero", ""},
		{"below the objective it is healthy", AnalyseOptions{SLO: 100 * wait}, report.VerdictHealthy, "", "", ""},
		{"against a fast baseline it is the cause", AnalyseOptions{Baseline: fast, BaselineName: "last week"}, report.VerdictCause, "", "last week", "Requests spend "},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Run(t.Context(), file, Options{Analyse: c.o})
			if err != nil {
				t.Fatal(err)
			}
			if d.Verdict != c.verdict || d.Reason != c.reason {
				t.Fatalf("%s (%s): %s", d.Verdict, d.Reason, d.Sentence)
			}
			if c.against == "" {
				return
			}
			if d.Level == nil || d.Level.Against != c.against || len(d.Findings) == 0 {
				t.Fatalf("level %+v, findings %+v", d.Level, d.Findings)
			}
			level := false
			for _, f := range d.Findings {
				level = level || f.Contrast == cause.LevelContrast
				if f.Cause != "timer-wait" || !strings.HasSuffix(placeName(f.Where), "diagnose.backOff") {
					t.Errorf("%s (%s) in %s", f.Cause, f.Contrast, placeName(f.Where))
				}
			}
			if !level || c.o.SLO == 0 && !strings.HasPrefix(d.Sentence, c.begins) {
				t.Errorf("level %v: %s", level, d.Sentence)
			}
		})
	}
}

// A recording whose length is left to us and that holds half the requests it
// should is made again, twice as long.
func TestARecordingWithTooFewRequestsIsMadeAgainLonger(t *testing.T) {
	analysed := 0
	d, err := Run(t.Context(), serveUnderLoad(t, 10), Options{ // 10 x 10 a second
		RecordOptions: RecordOptions{Capture: pprofhttp.Options{For: time.Second, NoProbe: true, NoCPUProfile: true}},
		Analysing:     func() { analysed++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Duration(d.DurationNS); analysed != 2 || took < 1500*time.Millisecond {
		t.Errorf("%d recordings, the last one of %s", analysed, took)
	}
	if last := d.Notes[len(d.Notes)-1]; !strings.HasPrefix(last, "The first recording held only ") {
		t.Errorf("notes %q", d.Notes)
	}
}

// A longer recording that holds nothing, as of a service that does not answer any more, does not take the place of
// the first one.
func TestALongerRecordingWithoutRequestsDoesNotReplaceTheFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kept.whylate")
	url, rest := serveUntil(t, 10, 100*time.Millisecond)
	d, err := Run(t.Context(), url, Options{
		RecordOptions: RecordOptions{Capture: pprofhttp.Options{For: time.Second, NoProbe: true, NoCPUProfile: true}},
		Save:          file, Analysing: rest,
	})
	if err != nil {
		t.Fatal(err)
	}
	if last := d.Notes[len(d.Notes)-1]; d.Requests.Count == 0 || !strings.HasPrefix(last, "A longer recording, ") {
		t.Errorf("%d requests, notes %q", d.Requests.Count, d.Notes)
	}
	kept, err := Run(t.Context(), file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if kept.Requests.Count != d.Requests.Count {
		t.Errorf("%d requests in the file, %d in the diagnosis", kept.Requests.Count, d.Requests.Count)
	}
	if left, err := filepath.Glob(file + "?*"); len(left) > 0 || err != nil {
		t.Errorf("%q lie about, %v", left, err)
	}
}

func TestRunFailures(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		target string
		want   error
	}{
		{"nobody listens", t.Context(), closed.URL, pprofhttp.ErrUnreachable},
		{"no such endpoint", t.Context(), missing.URL, pprofhttp.ErrNoEndpoint},
		{"cancelled before it began", cancelled, missing.URL, context.Canceled},
		{"no such file", t.Context(), filepath.Join(t.TempDir(), "none.whylate"), os.ErrNotExist},
		{"a directory", t.Context(), t.TempDir(), evidence.ErrNotIncident},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d, err := Run(c.ctx, c.target, Options{Fixed: true}); d != nil || !errors.Is(err, c.want) {
				t.Errorf("%v, %v, want %v", d, err, c.want)
			}
		})
	}
}

func TestRunNamesTheFile(t *testing.T) {
	d, err := Run(t.Context(), alike, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Target.Kind != "file" || filepath.Base(d.Target.File) != filepath.Base(alike) {
		t.Errorf("%+v", d.Target)
	}
}

func TestEnough(t *testing.T) {
	const s, ms = int64(time.Second), int64(time.Millisecond)
	for _, c := range []struct {
		name      string
		took      int64
		asked     time.Duration
		count     int
		p99, want int64
	}{
		{"many fast requests", 10 * s, 10 * time.Second, 5000, 20 * ms, 0},
		{"exactly enough", 10 * s, 10 * time.Second, EnoughRequests, 10 * s / EnoughP99, 0},
		{"half of the requests need twice the time", 10 * s, 10 * time.Second, 100, 20 * ms, 20 * s},
		{"a p99 of 2 s needs 40 s", 10 * s, 10 * time.Second, 5000, 2 * s, 40 * s},
		{"the larger need counts", 10 * s, 10 * time.Second, 100, 2 * s, 40 * s},
		{"never longer than the bound", 10 * s, 10 * time.Second, 1, 20 * ms, int64(MaxFor)},
		{"a little longer is not worth it", 10 * s, 10 * time.Second, 180, 20 * ms, 0},
		{"no requests are no reason to wait", 10 * s, 10 * time.Second, 0, 0, 0},
		{"a recording that was cut short is not made again", 4 * s, 10 * time.Second, 10, 20 * ms, 0},
		{"no recording", 0, 10 * time.Second, 10, 20 * ms, 0},
		{"whole seconds", 10 * s, 10 * time.Second, 150, 20 * ms, 13 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &report.Diagnosis{DurationNS: c.took, Requests: report.Requests{Count: c.count, P99NS: c.p99}}
			if got := enough(d, c.asked); got != time.Duration(c.want) {
				t.Errorf("%s, want %s", got, time.Duration(c.want))
			}
		})
	}
}

func TestIsFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "localhost:6060")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for target, want := range map[string]bool{
		"http://localhost:6060":         false,
		"https://pod/prefix/x.whylate":  false,
		"file:///tmp/x.whylate":         false,
		"localhost:6060":                true, // such a file exists
		"localhost:6061":                false,
		"example.com/prefix":            false,
		"1234":                          false,
		"":                              false,
		file:                            true,
		dir:                             true,
		"none.whylate":                  true,
		"none.trace":                    true,
		"none.out":                      true,
		"trace.out.gz":                  true,
		"./none":                        true,
		"../none":                       true,
		filepath.Join(dir, "none", "x"): true,
	} {
		if got := IsFile(target); got != want {
			t.Errorf("IsFile(%q) = %v", target, got)
		}
	}
}

func TestWhoInterruptsTooEarlyIsToldSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Record(ctx, "http://127.0.0.1:1", filepath.Join(t.TempDir(), "a.whylate"), RecordOptions{})
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted before") || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
