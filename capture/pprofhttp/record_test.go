package pprofhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	rpprof "runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/whylate/whylate/evidence"
)

var quiet = log.New(io.Discard, "", 0)

// short is a recording that takes about a second: the CPU profile's least.
var short = Options{For: 300 * time.Millisecond, NoProbe: true}

// recordAll connects, probes and records into w.
func recordAll(ctx context.Context, w *evidence.Writer, target Target, options Options) (*Result, error) {
	c, err := Connect(ctx, target, options)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	plan, err := c.Probe(ctx)
	if err != nil {
		return nil, err
	}
	return c.Record(ctx, w, plan)
}

// recordFile records into a new incident at path; after an error there is none.
func recordFile(ctx context.Context, path string, target Target, options Options) (*Result, error) {
	w, err := evidence.Create(path)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	result, err := recordAll(ctx, w, target, options)
	if err != nil {
		return nil, err
	}
	return result, w.Close()
}

func why(in *evidence.Incident, what string) string {
	for _, n := range in.Manifest.NotRecorded {
		if n.What == what {
			return n.Why
		}
	}
	return ""
}

func notes(in *evidence.Incident) string { return strings.Join(in.Manifest.Notes, "\n") }

func readTrace(t *testing.T, in *evidence.Incident) []byte {
	t.Helper()
	r, err := in.Member(evidence.MemberTrace)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.TraceFormat(b); err != nil {
		t.Error(err)
	}
	return b
}

func TestARecordingHoldsTheTraceAndTheProfilesAroundIt(t *testing.T) {
	rest := busy(t)
	options := short
	options.NoProbe = false
	var phases []Phase
	options.Progress = func(p Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
	}
	path := filepath.Join(t.TempDir(), "a.whylate")
	result, err := recordFile(t.Context(), path, Target{URL: withUser(t, serve(t, endpoint()).URL)}, options)
	rest()
	if err != nil {
		t.Fatal(err)
	}
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	want := []string{evidence.MemberManifest, evidence.MemberTrace, evidence.MemberCPU, evidence.MemberAllocsBefore, evidence.MemberAllocsAfter, evidence.MemberGoroutine}
	if !slices.Equal(in.Members(), want) {
		t.Errorf("members %v, want %v", in.Members(), want)
	}
	if n := int64(len(readTrace(t, in))); n != result.Bytes || result.Lost != "" || result.Asked != options.For || result.Plan.BytesPerSecond <= 0 {
		t.Errorf("%d bytes of trace, result %+v", n, result)
	}
	m := in.Manifest
	if m.Target.Kind != "pprof" || m.Target.Program != filepath.Base(os.Args[0]) || m.Target.TraceFormat == "" || m.Target.Goroutines < 3 || strings.Contains(m.Target.URL, "hunter2") {
		t.Errorf("target %+v", m.Target)
	}
	if m.DurationNS != options.For.Nanoseconds() || m.Cost.Requests < 8 || m.Cost.CPUSeconds <= 0 {
		t.Errorf("duration %d, cost %+v", m.DurationNS, m.Cost)
	}
	for _, what := range []string{"mutex profile", "block profile"} {
		if !strings.Contains(why(in, what), "does not sample") {
			t.Errorf("%s: %q, want that sampling is off", what, why(in, what))
		}
	}
	if want := []Phase{PhaseConnect, PhaseProbe, PhaseBefore, PhaseTrace, PhaseAfter}; !slices.Equal(phases, want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
	assertCPUCoversTrace(t, in)
}

// assertCPUCoversTrace checks that the CPU profile began before the trace and
// ended after it.
func assertCPUCoversTrace(t *testing.T, in *evidence.Incident) {
	t.Helper()
	r, err := in.Member(evidence.MemberCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := profile.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(in.Manifest.Recorded, func(r evidence.Recorded) bool { return r.Member == evidence.MemberCPU })
	j := slices.IndexFunc(in.Manifest.Recorded, func(r evidence.Recorded) bool { return r.Member == evidence.MemberTrace })
	if cpu, trace := in.Manifest.Recorded[i], in.Manifest.Recorded[j]; cpu.StartedNS > trace.StartedNS || cpu.EndedNS < trace.EndedNS {
		t.Errorf("CPU profile %+v, trace %+v", cpu, trace)
	}
	if p.DurationNanos < in.Manifest.DurationNS || len(p.Sample) == 0 {
		t.Errorf("CPU profile of %d ns with %d samples, trace of %d ns", p.DurationNanos, len(p.Sample), in.Manifest.DurationNS)
	}
}

// record records into a new incident.
func record(t *testing.T, url string, options Options) (*Result, *evidence.Incident) {
	t.Helper()
	w, reopen := writer(t)
	result, err := recordAll(t.Context(), w, Target{URL: url}, options)
	if err != nil {
		t.Fatal(err)
	}
	return result, reopen()
}

func TestTheProbeKeepsTheTraceBelowItsBound(t *testing.T) {
	busy(t)
	client, err := Connect(t.Context(), Target{URL: serve(t, endpoint()).URL}, Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	plan, err := client.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bytes := plan.BytesPerSecond * plan.For.Seconds()
	if plan.For >= 10*time.Second || bytes > 1<<20 && plan.For > shortest || !strings.Contains(plan.Reason, "instead of 10s") {
		t.Errorf("plan %+v: %.0f bytes", plan, bytes)
	}
}

func TestReadingStopsAtTheByteBound(t *testing.T) {
	busy(t)
	options := Options{For: 20 * time.Second, MaxBytes: 300_000, NoProbe: true, NoCPUProfile: true}
	result, in := record(t, serve(t, endpoint()).URL, options)
	if n := len(readTrace(t, in)); n != 300_000 || result.Bytes != 300_000 {
		t.Errorf("%d bytes, result %+v", n, result)
	}
	if !strings.Contains(result.Lost, "bound") || result.Advice != "--max-bytes 1MiB" {
		t.Errorf("lost %q, advice %q", result.Lost, result.Advice)
	}
	if r := in.Manifest.Recorded[1]; r.Member != evidence.MemberTrace || r.Incomplete != result.Lost {
		t.Errorf("recorded %+v", r)
	}
	if !in.Has(evidence.MemberAllocsAfter) {
		t.Error("a trace that was cut ends the recording without its other half")
	}
}

func TestAMuxWithTheTraceAloneGivesTheTrace(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	_, in := record(t, serve(t, mux).URL, short)
	if want := []string{evidence.MemberManifest, evidence.MemberTrace}; !slices.Equal(in.Members(), want) {
		t.Errorf("members %v, want %v", in.Members(), want)
	}
	for _, what := range []string{"allocs profile before the trace", "allocs profile after the trace", "mutex profile", "block profile", "goroutine profile", "CPU profile"} {
		if why(in, what) == "" {
			t.Errorf("%s is not recorded and the manifest does not say why", what)
		}
	}
	for _, n := range in.Manifest.NotRecorded {
		if !strings.HasPrefix(n.Command, "mux.Handle") {
			t.Errorf("%s: command %q, want the line that registers it", n.What, n.Command)
		}
	}
}

func TestACPUProfileOfSomebodyElseIsNoObstacle(t *testing.T) {
	if err := rpprof.StartCPUProfile(io.Discard); err != nil {
		t.Fatal(err)
	}
	defer rpprof.StopCPUProfile()
	result, in := record(t, serve(t, endpoint()).URL, short)
	if result.Lost != "" || in.Has(evidence.MemberCPU) || !strings.Contains(why(in, "CPU profile"), "somebody else") {
		t.Errorf("result %+v, CPU profile: %q", result, why(in, "CPU profile"))
	}
}

// oldPprof refuses what older versions of net/http/pprof refuse, in their words.
func oldPprof(writeTimeout float64) http.Handler {
	mux := endpoint()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && s >= writeTimeout {
			http.Error(w, "profile duration exceeds server's WriteTimeout", http.StatusBadRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func TestADurationAboveTheWriteTimeoutIsShortened(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  float64 // WriteTimeout in seconds
		options Options
		least   time.Duration
		cpu     bool
	}{
		{"together with the CPU profile", 2, Options{For: 3 * time.Second, NoProbe: true}, time.Second, true},
		{"without a CPU profile if that takes too long", 1, Options{For: 1500 * time.Millisecond, NoProbe: true}, 700 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, in := record(t, serve(t, oldPprof(c.server)).URL, c.options)
			if result.Asked < c.least || result.Asked.Seconds() >= c.server || result.Lost != "" {
				t.Errorf("result %+v", result)
			}
			if !strings.Contains(notes(in), "WriteTimeout") || in.Has(evidence.MemberCPU) != c.cpu {
				t.Errorf("notes %q, members %v", notes(in), in.Members())
			}
		})
	}
}

func TestAServerThatRefusesEveryDurationSaysWhatToChange(t *testing.T) {
	w, _ := writer(t)
	_, err := recordAll(t.Context(), w, Target{URL: serve(t, oldPprof(0.01)).URL}, Options{})
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Cause, "WriteTimeout") || !strings.Contains(e.Advice, "srv.WriteTimeout") {
		t.Errorf("error %v", err)
	}
}

// cutting serves h, and cuts answers after a second: middleware that hides the connection keeps net/http/pprof from extending the
// server's WriteTimeout.
func cutting(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	}))
	s.Config.WriteTimeout = time.Second
	s.Config.ErrorLog = quiet
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestAConnectionThatIsCutLeavesWhatCame(t *testing.T) {
	rest := busy(t)
	s := cutting(t, endpoint())
	result, in := record(t, s.URL, Options{For: 3 * time.Second, NoProbe: true, NoCPUProfile: true})
	rest()
	if !strings.Contains(result.Lost, "the target is alive") || result.Advice != "--for 1s" || result.Bytes == 0 {
		t.Errorf("result %+v", result)
	}
	if int64(len(readTrace(t, in))) != result.Bytes || !in.Has(evidence.MemberGoroutine) {
		t.Errorf("members %v", in.Members())
	}
}

// Behind a proxy, or where it is started again at once, somebody answers who is not the target.
func TestWhoAnswersAfterTheTargetHasDiedIsNotTheTarget(t *testing.T) {
	for _, c := range []struct {
		name  string
		after http.HandlerFunc
		want  string
	}{
		{"another process", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/heap") {
				fmt.Fprint(w, "heap profile: 0: 0 [0: 0] @ heap/1048576\n# NumGC = 1\n# PauseNs = [5 0]\n# PauseEnd = [7 0]\n")
			} else {
				endpoint().ServeHTTP(w, r)
			}
		}, "has been restarted"},
		{"a proxy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "does not answer any more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rest := busy(t)
			defer rest()
			for range 3 {
				runtime.GC() // this process has had more than one
			}
			mux, begun := endpoint(), atomic.Bool{}
			s := cutting(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if begun.Load() {
					c.after(w, r)
					return
				}
				begun.Store(strings.HasSuffix(r.URL.Path, "/trace"))
				mux.ServeHTTP(w, r)
			}))
			result, in := record(t, s.URL, Options{For: 3 * time.Second, NoProbe: true, NoCPUProfile: true})
			if !strings.Contains(result.Lost, c.want) || result.Bytes == 0 || in.Has(evidence.MemberGoroutine) {
				t.Errorf("result %+v, members %v", result, in.Members())
			}
		})
	}
}

func TestATargetThatDiesLeavesWhatCame(t *testing.T) {
	target := startChild(t)
	options := Options{For: 20 * time.Second, NoProbe: true}
	options.Progress = func(p Progress) {
		if p.Phase == PhaseTrace && p.Bytes > 100_000 {
			target.kill()
		}
	}
	result, in := record(t, target.url, options)
	if !strings.Contains(result.Lost, "does not answer any more") || result.Bytes <= 100_000 || int64(len(readTrace(t, in))) != result.Bytes {
		t.Errorf("result %+v", result)
	}
	for _, r := range in.Manifest.Recorded {
		if r.Member == evidence.MemberTrace && r.Incomplete != result.Lost {
			t.Errorf("whoever has the file only hears %q", r.Incomplete)
		}
	}
	for _, what := range []string{"CPU profile", "allocs profile after the trace", "goroutine profile"} {
		if why(in, what) == "" {
			t.Errorf("%s is not recorded and the manifest does not say why", what)
		}
	}
}

func TestCancellingEndsTheTraceEarly(t *testing.T) {
	for _, c := range []struct {
		name string
		keep bool
	}{
		{"and keeps it if asked", true},
		{"and throws it away if not", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rest := busy(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			options := Options{For: 20 * time.Second, NoProbe: true, KeepOnCancel: c.keep}
			options.Progress = func(p Progress) {
				if p.Phase == PhaseTrace && p.Bytes > 100_000 {
					cancel()
				}
			}
			w, reopen := writer(t)
			result, err := recordAll(ctx, w, Target{URL: serve(t, endpoint()).URL}, options)
			if !c.keep {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %v, want context.Canceled", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			rest()
			in := reopen()
			if !strings.Contains(result.Lost, "was ended after") || len(readTrace(t, in)) <= 100_000 || !in.Has(evidence.MemberAllocsAfter) {
				t.Errorf("result %+v, members %v", result, in.Members())
			}
			if !strings.Contains(why(in, "CPU profile"), "ended before") {
				t.Errorf("CPU profile: %q", why(in, "CPU profile"))
			}
		})
	}
}

func TestTheGoroutineProfileDependsOnTheirNumber(t *testing.T) {
	mux := endpoint()
	crowded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/debug/pprof/" {
			io.WriteString(w, "<tr><td>20001</td><td><a href='goroutine?debug=1'>goroutine</a></td></tr>")
			return
		}
		mux.ServeHTTP(w, r)
	})
	options := short
	options.NoCPUProfile = true
	for _, all := range []bool{false, true} {
		t.Run("opted in "+strconv.FormatBool(all), func(t *testing.T) {
			options.AllGoroutines = all
			_, in := record(t, serve(t, crowded).URL, options)
			if in.Has(evidence.MemberGoroutine) != all || in.Manifest.Target.Goroutines != 20001 {
				t.Errorf("members %v, %d goroutines", in.Members(), in.Manifest.Target.Goroutines)
			}
			if !all && !strings.Contains(why(in, "goroutine profile"), "20001 goroutines") {
				t.Errorf("goroutine profile: %q", why(in, "goroutine profile"))
			}
		})
	}
}

func TestAProfileThatTheTargetSamplesIsRecorded(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	busy(t)
	options := short
	options.NoCPUProfile = true
	_, in := record(t, serve(t, endpoint()).URL, options)
	if !in.Has(evidence.MemberBlock) || why(in, "block profile") != "" {
		t.Errorf("members %v, block profile: %q", in.Members(), why(in, "block profile"))
	}
	if why(in, "CPU profile") == "" {
		t.Error("the CPU profile was turned off and the manifest does not say so")
	}
}

func TestTheIndexPageShowsTheNumberOfGoroutines(t *testing.T) {
	for _, c := range []struct {
		page string
		want int
	}{
		{"<tr><td>12</td><td><a href='goroutine?debug=1'>goroutine</a></td></tr>", 12},
		{"<tr><td>7</td><td><a href=goroutine?debug=1>goroutine</a></td></tr>", 7},
		{"<tr><td>99999999999999999999</td><td><a href=goroutine?debug=1>goroutine</a></td></tr>", -1},
		{`<a href="goroutine?debug=2">full goroutine stack dump</a>`, -1},
		{"", -1},
	} {
		if got := goroutineCount([]byte(c.page)); got != c.want {
			t.Errorf("%q: %d, want %d", c.page, got, c.want)
		}
	}
}

func TestFileNamesInProfilesTellModulesAndGo(t *testing.T) {
	var b build
	b.learn(&profile.Profile{Function: []*profile.Function{
		{Filename: "/home/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64/src/runtime/proc.go"},
		{Filename: "/home/go/pkg/mod/github.com/!burnt!sushi/toml@v1.2.3/decode.go"},
		{Filename: "google.golang.org/grpc@v1.70.0/server.go"},
		{Filename: "/usr/local/go/src/net/http/server.go"},
		{Filename: "/src/app@v1/main.go"},
	}})
	var got evidence.Target
	b.fill(&got)
	want := []evidence.Module{{Path: "github.com/BurntSushi/toml", Version: "v1.2.3"}, {Path: "google.golang.org/grpc", Version: "v1.70.0"}}
	if got.Go != "go1.26.8" || !slices.Equal(got.Modules, want) || got.ModulesFrom != "profiles" {
		t.Errorf("target %+v", got)
	}
}

func TestThePauseHistoryIsTheTargetsOwn(t *testing.T) {
	runtime.GC()
	var m runtime.MemStats
	s := httptest.NewServer(http.DefaultServeMux)
	defer s.Close()
	_, in := record(t, s.URL, short)
	runtime.ReadMemStats(&m)
	p := in.Manifest.Pauses
	if p == nil || p.Stops == 0 || p.Forced == 0 || p.Cycles > int64(m.NumGC) || p.LongestNS <= 0 || p.CostNS <= 0 {
		t.Fatalf("%+v", p)
	}
	if longest := slices.Max(m.PauseNs[:]); p.LongestNS > int64(longest) {
		t.Errorf("longest stop %d, want at most %d", p.LongestNS, longest)
	}
}

func TestAPauseHistoryThatIsNoneIsAnError(t *testing.T) {
	for _, text := range []string{"", "heap profile: 0: 0", "# PauseNs = [1 2]\n", "# PauseNs = [1 x]\n# PauseEnd = [1 2]\n", "# PauseNs = [1 2]\n# PauseEnd = [1]\n"} {
		if h, err := parseHistory(strings.NewReader(text)); err == nil {
			t.Errorf("%q gives %+v", text, h)
		}
	}
}

func TestAPauseHistoryThatNeverEndsIsGivenUp(t *testing.T) {
	inner := endpoint()
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("debug") == "1" && strings.HasSuffix(r.URL.Path, "/heap") {
			io.WriteString(w, "heap profile: 0: 0 [0: 0]\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		inner.ServeHTTP(w, r)
	})).URL
	options := short
	options.Timeout = 100 * time.Millisecond
	path := filepath.Join(t.TempDir(), "a.whylate")
	if _, err := recordFile(t.Context(), path, Target{URL: url}, options); err != nil {
		t.Fatal(err)
	}
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if len(readTrace(t, in)) == 0 || in.Manifest.Pauses != nil || why(in, "pause history") == "" {
		t.Errorf("pauses %+v, not recorded: %q", in.Manifest.Pauses, why(in, "pause history"))
	}
}
