package gctune

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"

	"github.com/whylate/whylate/sdk/internal/groups"
)

// with runs the rest of a test with GOGC and the memory limit as given, and restores them.
func with(t *testing.T, gogc int, limit int64) {
	g, l := debug.SetGCPercent(gogc), debug.SetMemoryLimit(limit)
	t.Cleanup(func() { debug.SetGCPercent(g); debug.SetMemoryLimit(l) })
}

func inForce() settings {
	r := newGauge().read()
	return settings{r.gogc, r.limit}
}

// lines is a place for log lines that any goroutine may write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// until collects garbage until something is so; a test's time limit ends it else.
func until(so func() bool) {
	for !so() {
		runtime.GC()
		runtime.Gosched()
	}
}

func TestStopRestoresWhatWasSetBefore(t *testing.T) {
	for _, before := range []settings{{100, math.MaxInt64}, {-1, math.MaxInt64}, {55, 3 << 30}, {0, math.MaxInt64}} {
		with(t, before.gogc, before.limit)
		var log lines
		tuner, err := New(Options{Budget: 1 << 30, Logger: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		if got := inForce(); got != (settings{ceiling, limit(1 << 30)}) {
			t.Errorf("before %+v: %+v is in force", before, got)
		}
		if s := tuner.State(); s.Mode != Within || s.GOGC != ceiling || s.Limit != limit(1<<30) || s.Source != "Options.Budget" || s.Decisions != 1 {
			t.Errorf("%+v", s)
		}
		if _, err := New(Options{Budget: 1 << 30}); !errors.Is(err, ErrRunning) {
			t.Errorf("a second one: %v", err)
		}
		tuner.Stop()
		tuner.Stop()
		if got := inForce(); got != before {
			t.Errorf("before %+v, after %+v", before, got)
		}
		if s := tuner.State(); s.Mode != Stopped || s.GOGC != before.gogc || s.Limit != before.limit {
			t.Errorf("%+v", s)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "gctune begins") || !strings.Contains(got, "gctune stops: what was set before is in force again") {
			t.Errorf("log: %s", got)
		}
	}
}

func TestAHeapLargerThanTheBudgetIsLetGoOfInARealProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("allocates 100 MB")
	}
	with(t, 100, math.MaxInt64)
	type node struct {
		next *node
		_    [120]byte
	}
	var live *node
	for range 40 << 20 / 128 {
		live = &node{next: live}
	}
	var log lines
	tuner, err := New(Options{Budget: 32 << 20, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Stop()
	// With a budget below the live heap any load makes the collector run all the time.
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			var garbage []byte
			for tuner.State().Mode != Over {
				for range 100 {
					garbage = make([]byte, 8<<10)
				}
			}
			runtime.KeepAlive(garbage)
		}()
	}
	workers.Wait()
	s := tuner.State()
	if s.LetGo != 1 || s.Limit != math.MaxInt64 || s.GOGC < floor || s.GOGC > ceiling {
		t.Errorf("%+v", s)
	}
	tuner.Stop() // what is said of a decision is said after it can be seen
	if !strings.Contains(log.String(), "level=WARN msg=\"gctune lets go of the limit: ") {
		t.Errorf("log: %s", log.String())
	}
	if got := inForce(); got != (settings{100, math.MaxInt64}) {
		t.Errorf("%+v is left", got)
	}
	runtime.KeepAlive(live)
}

func TestWhatSomebodyElseSetsMeanwhileIsLeft(t *testing.T) {
	t.Run("GOGC", func(t *testing.T) {
		with(t, 100, math.MaxInt64)
		tuner, err := New(Options{Budget: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		defer tuner.Stop()
		debug.SetGCPercent(123)
		until(func() bool { return tuner.State().Mode == Yielded })
		// The limit was still the tuner's.
		for range 3 {
			runtime.GC()
		}
		if s := tuner.State(); s.GOGC != 123 || s.Limit != math.MaxInt64 {
			t.Errorf("%+v", s)
		}
		if got := inForce(); got != (settings{123, math.MaxInt64}) {
			t.Errorf("%+v", got)
		}
		tuner.Stop()
		if got := inForce(); got != (settings{123, math.MaxInt64}) {
			t.Errorf("after Stop: %+v", got)
		}
	})
	t.Run("the limit", func(t *testing.T) {
		with(t, 77, math.MaxInt64)
		tuner, err := New(Options{Budget: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		defer tuner.Stop()
		debug.SetMemoryLimit(5 << 30)
		until(func() bool { return tuner.State().Mode == Yielded })
		if got := inForce(); got != (settings{77, 5 << 30}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("for a while", func(t *testing.T) {
		for _, stop := range []bool{false, true} {
			with(t, 77, math.MaxInt64)
			tuner, err := New(Options{Budget: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			defer tuner.Stop()
			old := debug.SetGCPercent(-1)
			until(func() bool { return tuner.State().Mode == Yielded })
			debug.SetGCPercent(old)
			if !stop {
				until(func() bool { return tuner.State().Mode == Within })
				if got := inForce(); got != (settings{ceiling, limit(1 << 30)}) {
					t.Errorf("%+v", got)
				}
			}
			tuner.Stop()
			if got := inForce(); got != (settings{77, math.MaxInt64}) {
				t.Errorf("after Stop: %+v", got)
			}
		}
	})
	t.Run("just before Stop, unseen until then", func(t *testing.T) {
		with(t, 77, math.MaxInt64)
		tuner, err := New(Options{Budget: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		debug.SetGCPercent(99)
		tuner.Stop()
		if got := inForce(); got != (settings{99, math.MaxInt64}) {
			t.Errorf("%+v", got)
		}
		if s := tuner.State(); s.Mode != Stopped || s.GOGC != 99 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("between the reading and the setting", func(t *testing.T) {
		with(t, 100, math.MaxInt64)
		tuner := &Tuner{gauge: newGauge(), law: newLaw(1<<30, math.MaxInt64, 100, 0.25, 0.1)}
		tuner.asked, tuner.put = settings{100, math.MaxInt64}, settings{100, math.MaxInt64}
		debug.SetGCPercent(321)
		if now := tuner.apply(settings{800, 1 << 30}); now != (settings{321, math.MaxInt64}) {
			t.Errorf("apply: %+v", now)
		}
		if got := inForce(); got != (settings{321, math.MaxInt64}) {
			t.Errorf("%+v", got)
		}
	})
}

func TestALimitThatWasSetAboveTheBudgetIsTheCeiling(t *testing.T) {
	with(t, 100, 2<<30)
	tuner, err := New(Options{Budget: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	tuner.Stop()
	if top, most := tuner.law.top(), tuner.law.most; top != 2<<30 || most != 100 {
		t.Errorf("%d, GOGC %d", top, most)
	}
}

func TestTheMetricsAreThoseOfTheState(t *testing.T) {
	with(t, 100, math.MaxInt64)
	tuner, err := New(Options{Budget: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Stop()
	got := map[string]float64{}
	tuner.Metrics(func(name string, v float64) { got[name] = v })
	if got["gctune_gogc_percent"] != ceiling || got["gctune_limit_bytes"] != float64(limit(1<<30)) || got["gctune_budget_bytes"] != 1<<30 || got["gctune_decisions_total"] != 1 {
		t.Errorf("%v", got)
	}
}

func TestAllMetricsOfTheRuntimeAreThere(t *testing.T) {
	r := newGauge().read()
	runtime.GC()
	after := newGauge().read()
	if after.cycles <= r.cycles || after.total <= 0 || after.gc <= 0 || after.live <= 0 || after.mapped <= 0 || after.heap <= 0 || after.allocs <= 0 || after.stacks <= 0 {
		t.Errorf("%+v", after)
	}
	g := newGauge()
	g.read()
	for _, s := range g.samples {
		if s.Value.Kind() == metrics.KindBad {
			t.Errorf("the runtime has no %s", s.Name)
		}
	}
	if n := testing.AllocsPerRun(100, func() { sinkReading = gaugeForAllocs.read() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var (
	gaugeForAllocs = newGauge()
	sinkReading    reading
)

func BenchmarkLook(b *testing.B) {
	g := newGauge()
	l := newLaw(1<<30, math.MaxInt64, 100, 0.25, 0.1)
	for range b.N {
		l.step(g.read())
	}
}

func BenchmarkBudget(b *testing.B) {
	f := groups.Host()
	for range b.N {
		lowest(f)
	}
}
