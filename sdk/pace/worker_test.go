package pace

import (
	"context"
	"testing"
	"time"
)

// working makes a worker that has the only permit of a pacer whose controller does not run, with a rest for
// each 1024 ns of work.
func working(t *testing.T, rest int64) *worker {
	t.Helper()
	p := pacer(t, Options{Way: Parks})
	p.permits.set(1)
	p.slice.Store(int64(defaultSlice))
	p.rest.Store(rest)
	w := newWorker(context.Background(), p)
	t.Cleanup(w.cancel)
	p.workers[w] = struct{}{}
	t.Cleanup(func() { p.leave(w) })
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWhoRestsKeepsItsPermitThoughOthersWait(t *testing.T) {
	w := working(t, 1024)
	other := newWorker(context.Background(), w.p)
	defer other.cancel()
	w.p.permits.take(other)
	defer w.p.permits.give(other)
	w.owed = int64(time.Hour)
	w.seen.Store(now() - int64(time.Second))
	rested := make(chan bool)
	go func() { w.rest(); close(rested) }()
	await(t, "it sleeps", func() bool { return w.seen.Load() > now() })
	if w.p.steer.lend(); !w.p.permits.holds(w) {
		t.Error("its permit is lent")
	}
	w.cancel()
	<-rested
}

func TestAllThatWasUsedIsRestedForUnlessTheAllowanceComesBack(t *testing.T) {
	w := working(t, 1024)
	w.owed = int64(300 * time.Millisecond)
	start := time.Now()
	if w.rest(); w.owed >= int64(time.Millisecond) || time.Since(start) < 299*time.Millisecond {
		t.Errorf("%v are owed after %v", time.Duration(w.owed), time.Since(start))
	}
	w.owed = int64(time.Hour)
	rested := make(chan bool)
	go func() { w.rest(); close(rested) }()
	w.p.rest.Store(0)
	if <-rested; w.owed != 0 {
		t.Errorf("%v are owed", time.Duration(w.owed))
	}
}

func TestWhatIsUsedBeforeAWaitIsRestedFor(t *testing.T) {
	w := working(t, 1024)
	w.cpu -= int64(20 * time.Millisecond)
	if err := w.p.Blocking(w, func() {
		if w.owed >= int64(time.Millisecond) {
			t.Errorf("%v are owed", time.Duration(w.owed))
		}
	}); err != nil {
		t.Error(err)
	}
}

func TestAFunctionThatIsShorterThanASliceRests(t *testing.T) {
	p := pacer(t, Options{Way: Parks})
	var w *worker
	start(t, p, func(ctx context.Context) {
		w = ctx.(*worker)
		w.cpu -= int64(5 * time.Millisecond)
		p.rest.Store(1024)
	})
	await(t, "it ends", func() bool { return p.atWork() == 0 })
	if w.owed >= int64(time.Millisecond) {
		t.Errorf("%v are owed", time.Duration(w.owed))
	}
}

func TestTimeWithoutPaceIsNoWorkWhereThreadsAreNotLowered(t *testing.T) {
	w := working(t, 0)
	before := now() - int64(time.Minute)
	w.looked, w.began, w.cpu = before, before, before
	if err := w.check(); err != nil || w.p.busy.Load() > int64(time.Second) {
		t.Errorf("%v were used, %v", time.Duration(w.p.busy.Load()), err)
	}
}

func TestAPermitIsTakenAgainThoughTheWaitPanics(t *testing.T) {
	w := working(t, 0)
	func() {
		defer func() {
			if recover() != "no" {
				t.Error("the panic is lost")
			}
		}()
		w.p.Blocking(w, func() { panic("no") })
	}()
	if w.p.permits.holds(w) {
		t.Error("it was not given back")
	}
	for i := 0; i < every; i++ {
		if err := w.p.Pace(w); err != nil {
			t.Fatal(err)
		}
	}
	if !w.p.permits.holds(w) {
		t.Error("it goes on without a permit")
	}
}
