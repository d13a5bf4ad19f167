package batch

import (
	"sync/atomic"
	"testing"
	"time"
)

// turns is a batcher whose yields take as long as the test says.
func turns(t *testing.T) (g *gate, cost *atomic.Int64, yields *atomic.Int64) {
	g = newGate(t, Options{})
	cost, yields = new(atomic.Int64), new(atomic.Int64)
	var passed atomic.Int64
	g.now = func() time.Time { return time.Unix(0, passed.Load()) }
	g.gosched = func() { yields.Add(1); passed.Add(cost.Load()) }
	return g, cost, yields
}

// one runs a batch of one item after one that had several and took some microseconds.
func (g *gate) one() {
	g.mu.Lock()
	g.together, g.took = true, 10*time.Microsecond
	g.mu.Unlock()
	done := make(chan result, 1)
	go func() {
		out, err := g.Do(bg, 1)
		done <- result{out, err}
	}()
	<-g.got
	g.pass <- nil
	want(g.T, done, 2, "")
}

func TestADearYieldIsNotRepeatedButTriedByWhoseCallIsOver(t *testing.T) {
	g, cost, yields := turns(t)
	for i := 0; i < 10; i++ {
		g.one()
	}
	if n := yields.Load(); n != 10 {
		t.Fatalf("%d cheap yields of 10 batches", n)
	}
	cost.Store(int64(10 * time.Millisecond))
	g.one()
	for _, patience := range []uint{64, 128, 256} {
		yields.Store(0)
		end := g.resume
		if g.patience != patience || end < g.batches+patience-1 || end > g.batches+patience {
			t.Fatalf("patience %d until %d of %d, want %d", g.patience, end, g.batches, patience)
		}
		for g.batches < end-1 {
			g.one()
		}
		if n := yields.Load(); n != 0 {
			t.Fatalf("%d yields within the patience of %d", n, patience)
		}
		g.one()
		if n := yields.Load(); n != 1 || g.leading {
			t.Fatalf("%d yields after the patience of %d, leading %v", n, patience, g.leading)
		}
	}
	cost.Store(0)
	for g.resume != 0 {
		g.one()
	}
	yields.Store(0)
	g.one()
	if n := yields.Load(); n != 1 {
		t.Errorf("%d yields when they are cheap again", n)
	}
}

func TestPatienceHasAnEnd(t *testing.T) {
	g, _, _ := turns(t)
	for i := 0; i < 100; i++ {
		g.stopYields()
	}
	if g.patience != patienceMax {
		t.Error(g.patience)
	}
}

// However long a leader's yield lasts, who comes does not wait for it, nor does an item that waits already.
func TestACallThatComesDuringADearYieldLeads(t *testing.T) {
	g, _, _ := turns(t)
	var now atomic.Int64
	g.now = func() time.Time { return time.Unix(0, now.Load()) }
	yielded, goOn := make(chan struct{}), make(chan struct{})
	g.gosched = func() { close(yielded); <-goOn }
	g.together, g.took = true, 10*time.Microsecond
	one := g.do(bg, Medium, 1)
	<-yielded
	now.Store(int64(20 * time.Microsecond)) // not dear yet
	two := g.do(bg, Medium, 2)
	now.Store(int64(time.Millisecond))
	three := g.do(bg, Medium, 3) // the third does not look at the clock
	four := g.do(bg, Medium, 4)
	g.wantBatch(1, 2, 3, 4)
	if g.resume == 0 {
		t.Error("leaders go on to yield")
	}
	g.pass <- nil
	want(t, two, 4, "")
	want(t, three, 6, "")
	want(t, four, 8, "")
	close(goOn)
	want(t, one, 2, "")
	if s := g.Stats(); s.Batches != 1 || s.Items != 4 || g.leading {
		t.Errorf("%+v, leading %v", s, g.leading)
	}
}

// With 1,000 callers it takes long until all of them have come again, and that is what the yield is for.
func TestAYieldInWhichManyCameIsNotDear(t *testing.T) {
	g, _, _ := turns(t)
	var now atomic.Int64
	g.now = func() time.Time { return time.Unix(0, now.Load()) }
	now.Store(int64(500 * time.Microsecond))
	if g.stats.Items = 1000; g.isDear(time.Unix(0, 0), 0) {
		t.Error("500 µs for 1000 callers are dear")
	}
	if g.stats.Items = 10; !g.isDear(time.Unix(0, 0), 0) {
		t.Error("500 µs for 10 callers are cheap")
	}
}
