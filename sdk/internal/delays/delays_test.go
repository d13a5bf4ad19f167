package delays

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestTheRuntimesHistogramsAreRead(t *testing.T) {
	sched, pauses := New("/sched/latencies:seconds"), New("/sched/pauses/total/gc:seconds")
	if sched == nil || pauses == nil {
		t.Fatal("the runtime has none")
	}
	var wg sync.WaitGroup
	for i := 0; i < 1000; i++ {
		wg.Add(1)
		go wg.Done()
	}
	wg.Wait()
	runtime.GC()
	sched.Read()
	pauses.Read()
	if any, all := sched.Longer(-1); any == 0 || any != all {
		t.Errorf("%d of %d waited for any time", any, all)
	}
	if n, _ := sched.Longer(time.Hour); n != 0 {
		t.Errorf("%d waited for an hour", n)
	}
	if l := pauses.Longest(); l <= 0 || l > time.Hour {
		t.Errorf("the longest pause was %v", l)
	}
	pauses.Read()
	pauses.Read()
	if l := pauses.Longest(); l != 0 {
		t.Errorf("without a collection the longest pause was %v", l)
	}
}

func TestAHistogramThatIsNotThereIsEmpty(t *testing.T) {
	w := New("/no/such:seconds")
	w.Read()
	if longer, all := w.Longer(0); w != nil || longer != 0 || all != 0 || w.Longest() != 0 {
		t.Errorf("%v: %d of %d, longest %v", w, longer, all, w.Longest())
	}
}

func TestOnlyWhatCameSinceTheLastReadCounts(t *testing.T) {
	edges := []float64{math.Inf(-1), 0, 0.001, 0.010, math.Inf(1)}
	w := &Window{edges: edges, before: []uint64{0, 5, 5, 5}, now: []uint64{0, 7, 6, 5}}
	for _, c := range []struct {
		than        time.Duration
		longer, all uint64
	}{{0, 3, 3}, {time.Millisecond, 1, 3}, {5 * time.Millisecond, 0, 3}} {
		if longer, all := w.Longer(c.than); longer != c.longer || all != c.all {
			t.Errorf("than %v: %d of %d, want %d of %d", c.than, longer, all, c.longer, c.all)
		}
	}
	if l := w.Longest(); l != 10*time.Millisecond {
		t.Errorf("the longest is %v", l)
	}
	w.now[3]++
	if l := w.Longest(); l != 10*time.Millisecond {
		t.Errorf("of what has no upper edge the longest is %v", l)
	}
}
