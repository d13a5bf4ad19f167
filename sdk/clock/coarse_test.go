package clock

import (
	"io"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

func needCoarse(t *testing.T) {
	t.Helper()
	if !CoarseSupported() {
		t.Skipf("no coarse clock on %s/%s, or in this sandbox", runtime.GOOS, runtime.GOARCH)
	}
}

func TestCoarseIsSupportedWhereItIsSaidToBe(t *testing.T) {
	if want := runtime.GOOS == "linux" && runtime.GOARCH == "amd64"; CoarseSupported() != want {
		t.Errorf("supported: %v on %s/%s", !want, runtime.GOOS, runtime.GOARCH)
	}
	if got := Resolution(); (got > 0) != CoarseSupported() || got > 100*time.Millisecond {
		t.Errorf("a tick of %v", got)
	}
}

func TestCoarseIsNeverAheadAndNeverGoesBack(t *testing.T) {
	var newest atomic.Pointer[time.Time]
	var wg sync.WaitGroup
	for g := 0; g < 4; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < 100_000; i++ {
				seen := newest.Load()
				got := Coarse()
				if seen != nil && got.Before(*seen) {
					t.Errorf("it went back by %v", seen.Sub(got))
					return
				}
				if now := time.Now(); got.After(now) {
					t.Errorf("it is %v ahead", got.Sub(now))
					return
				}
				if i%64 == 0 {
					newest.CompareAndSwap(seen, &got)
				}
			}
		}()
	}
	wg.Wait()
}

func TestCoarseIsAFewTicksOldAtMost(t *testing.T) {
	needCoarse(t)
	// The kernel's tick may be late on a CPU that is not given to it, so not two but many.
	limit := 50 * Resolution()
	for i := 0; i < 100_000; i++ {
		if before := time.Now(); before.Sub(Coarse()) > limit {
			t.Fatalf("%v old", before.Sub(Coarse()))
		}
	}
}

func TestCoarseTimesHaveAMonotonicPart(t *testing.T) {
	got := Coarse()
	if !strings.Contains(got.String(), " m=") {
		t.Errorf("%v has none", got)
	}
	if d := time.Since(got.Round(0)); d < 0 || d > time.Minute {
		t.Errorf("the wall part is %v old", d)
	}
}

func TestCoarseFollowsAClockThatIsSet(t *testing.T) {
	needCoarse(t)
	for _, set := range []time.Duration{time.Hour, -time.Hour, time.Millisecond, -time.Millisecond} {
		before := Coarse()
		// For who anchored when the wall clock was an hour less it was set by one hour.
		o := latest.Load().origin
		wrong := tick{origin: origin{at: o.at, time: shifted(o.time, -set)}}
		sec, nsec := readCoarse()
		got := wrong.next(sec, nsec)
		if off := got.Round(0).Sub(before.Round(0)) - got.Sub(before); off.Abs() > step {
			t.Errorf("set by %v: off by %v", set, off)
		}
		if got.Before(before) {
			t.Errorf("set by %v: it went back by %v", set, before.Sub(got))
		}
		if latest.Load().due <= sec*1e9 {
			t.Errorf("set by %v: it looks again with every tick", set)
		}
	}
}

// shifted returns t with its wall part moved and its monotonic part as it was.
func shifted(t time.Time, by time.Duration) time.Time {
	// Add moves both; there is no way in package time to move one of them, but by its own fields.
	type fields struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}
	moved := t.Add(by)
	(*fields)(unsafe.Pointer(&moved)).ext = (*fields)(unsafe.Pointer(&t)).ext
	return moved
}

func TestAnInterruptedReadIsNoClockThatIsSet(t *testing.T) {
	at := time.Now()
	n := 0
	_, moved := reset(at, func() time.Time {
		if n++; n == 3 {
			return at.Add(time.Millisecond)
		}
		return shifted(at.Add(time.Millisecond), 40*time.Microsecond)
	})
	if moved != 0 {
		t.Errorf("moved by %v: one of the reads was not interrupted", moved)
	}
}

// The kernel's code runs on the stack of the goroutine: at every depth, also where the
// stack is about to grow.
func TestCoarseRunsAtEveryDepthOfAStack(t *testing.T) {
	var wg sync.WaitGroup
	for start := 0; start < 64; start++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if deep(start) == (time.Time{}) {
				t.Error("no time")
			}
		}()
	}
	wg.Wait()
}

//go:noinline
func deep(n int) time.Time {
	var room [8]byte
	got := Coarse()
	room[n%8] = 1
	if n < 2000 {
		if later := deep(n + 1); later.Before(got) || room[n%8] != 1 {
			return time.Time{}
		}
	}
	return got
}

// Signals come while the kernel's code runs, from the profiler and to preempt; stacks grow
// and the garbage collector reads them meanwhile.
func TestCoarseBearsSignalsAndTheCollector(t *testing.T) {
	if err := pprof.StartCPUProfile(io.Discard); err == nil { // who profiles the tests has signals, too
		defer pprof.StopCPUProfile()
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := 0; g < 4; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
					deep(1900)
				}
			}
		}()
	}
	for i := 0; i < 20; i++ {
		runtime.GC()
		pprof.Lookup("goroutine").WriteTo(io.Discard, 1) // stops the world
	}
	close(stop)
	wg.Wait()
}

func TestCoarseDoesNotAllocate(t *testing.T) {
	Coarse()
	// A tick has an allocation of its own.
	if n := testing.AllocsPerRun(100_000, func() { Coarse() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var sink time.Time

func BenchmarkCoarse(b *testing.B) {
	b.ReportAllocs()
	var t time.Time
	for i := 0; i < b.N; i++ {
		t = Coarse()
	}
	sink = t
}
