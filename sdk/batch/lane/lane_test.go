package lane

import (
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// held returns lanes whose only worker waits until it is let go.
func held(t *testing.T, o Options) (l *Lanes, let func()) {
	t.Helper()
	l, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	if err := l.Post(High, func() { close(begun); <-end }); err != nil {
		t.Fatal(err)
	}
	<-begun
	return l, func() { close(end) }
}

func TestHighGoesFirstAndEachEighthIsOfALowerLane(t *testing.T) {
	l, let := held(t, Options{}) // the first of eight
	var order []string
	post := func(p Priority, n int) {
		for i := 0; i < n; i++ {
			if err := l.Post(p, func() { order = append(order, fmt.Sprint(p.String()[:1], i)) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	post(Low, 3)
	post(Medium, 3)
	post(High, 12)
	let()
	l.Stop()
	if got, want := strings.Join(order, " "), "h0 h1 m0 h2 h3 h4 l0 h5 h6 h7 m1 h8 h9 h10 l1 h11 m2 l2"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestAFullLaneIsAnErrorAndTheOthersAreNot(t *testing.T) {
	l, let := held(t, Options{Size: 2})
	ran := 0
	for i := 0; i < 2; i++ {
		if err := l.Post(Low, func() { ran++ }); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Post(Low, func() { ran++ }); err != ErrFull {
		t.Errorf("a third one: %v", err)
	}
	if err := l.Post(High, func() { ran++ }); err != nil {
		t.Error(err)
	}
	if err := l.Post(High, nil); err == nil {
		t.Error("nothing was posted")
	}
	let()
	l.Stop()
	l.Stop()
	if err := l.Post(High, func() { ran++ }); err != ErrStopped {
		t.Errorf("after Stop: %v", err)
	}
	if ran != 3 {
		t.Errorf("%d were run", ran)
	}
	got := map[string]float64{}
	l.Metrics(func(name string, v float64) { got[name] = v })
	if got["lane_low_full_total"] != 1 || got["lane_low_run_total"] != 2 || got["lane_high_run_total"] != 2 || got["lane_low_waiting_callbacks"] != 0 || got["lane_low_wait_max_seconds"] <= 0 {
		t.Errorf("%v", got)
	}
}

func TestAPanicIsToldAndTheWorkerGoesOn(t *testing.T) {
	var told any
	l, err := Start(Options{OnPanic: func(v any, stack []byte) {
		told = v
		if !strings.Contains(string(stack), "lane_test.go") {
			t.Errorf("a stack of something else: %s", stack)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	l.Post(High, func() { panic("bad") })
	l.Post(High, func() { ran = true })
	l.Stop()
	if told != "bad" || !ran {
		t.Errorf("told %v, went on %v", told, ran)
	}
}

func TestACallbackThatEndsItsGoroutineEndsNoWorker(t *testing.T) {
	for _, onPanic := range []func(any, []byte){nil, func(v any, _ []byte) { t.Errorf("told of a panic: %v", v) }} {
		l, err := Start(Options{OnPanic: onPanic})
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for i := 0; i < 3; i++ {
			l.Post(High, runtime.Goexit)
			l.Post(High, func() { ran++ })
		}
		l.Post(Low, runtime.Goexit)
		l.Stop()
		if ran != 3 {
			t.Errorf("%d callbacks were run, want 3", ran)
		}
	}
}

func TestAPanicWithNilIsToldAndTheWorkerGoesOn(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	told, ran := 0, false
	l, err := Start(Options{OnPanic: func(v any, stack []byte) {
		if told++; v != nil || !strings.Contains(string(stack), "lane_test.go") {
			t.Errorf("told of %v, %s", v, stack)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.Post(High, func() { panic(nil) })
	l.Post(High, func() { ran = true })
	l.Stop()
	if told != 1 || !ran {
		t.Errorf("told %d times, went on %v", told, ran)
	}
}

func TestAPlaceInALaneIsAsLargeAsOptionsSay(t *testing.T) {
	if got := unsafe.Sizeof(entry{}); got != 16 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("%d bytes", got)
	}
}

func TestAQuantileIsNoLessThanTheWaitAndAtMostTwiceIt(t *testing.T) {
	var w Waits
	for i := 1; i <= 1000; i++ {
		wait := time.Duration(i) * time.Microsecond
		w.Count++
		w.Max = max(w.Max, wait)
		for b := 0; ; b++ {
			if wait < 1<<b {
				w.below[b]++
				break
			}
		}
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		want := time.Duration(q*1000) * time.Microsecond
		if got := w.Quantile(q); got < want || got > 2*want {
			t.Errorf("%v: %v, want %v to twice that", q, got, want)
		}
	}
	if (Waits{}).Quantile(0.99) != 0 {
		t.Error("nobody waited")
	}
}

func TestOptionsThatMakeNoSenseAreErrors(t *testing.T) {
	for _, o := range []Options{{Size: -1}, {Workers: -1}, {Size: 1 << 25}} {
		if l, err := Start(o); err == nil {
			l.Stop()
			t.Errorf("%+v", o)
		}
	}
}

// Each callback that was taken is run once, by whichever worker, and none that was refused.
func TestNoCallbackIsLostOrRunTwice(t *testing.T) {
	for _, workers := range []int{1, 4} {
		l, err := Start(Options{Size: 64, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		const posters, each = 8, 2000
		var mu sync.Mutex
		ran := map[int]int{}
		taken := map[int]bool{}
		refused := 0
		var all sync.WaitGroup
		for g := 0; g < posters; g++ {
			all.Add(1)
			r := rand.New(rand.NewSource(int64(g)))
			go func() {
				defer all.Done()
				for i := 0; i < each; i++ {
					id := g*each + i
					err := l.Post(Priority(r.Intn(3)), func() {
						mu.Lock()
						ran[id]++
						mu.Unlock()
					})
					mu.Lock()
					if err == nil {
						taken[id] = true
					} else {
						refused++
					}
					mu.Unlock()
				}
			}()
		}
		all.Wait()
		l.Stop()
		if len(ran) != len(taken) || len(taken)+refused != posters*each {
			t.Errorf("%d were run, %d taken, %d refused", len(ran), len(taken), refused)
		}
		for id, n := range ran {
			if n != 1 || !taken[id] {
				t.Errorf("%d was run %d times, taken %v", id, n, taken[id])
			}
		}
		var count uint64
		for _, p := range order {
			count += l.Waits(p).Count
		}
		if count != uint64(len(ran)) {
			t.Errorf("%d waits of %d", count, len(ran))
		}
	}
}

func Example() {
	l, err := Start(Options{})
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	if err := l.Post(High, func() { fmt.Println("answered"); close(done) }); err != nil {
		fmt.Println("too busy:", err) // answer it here, or refuse it
	}
	<-done
	l.Stop()
	// Output: answered
}
