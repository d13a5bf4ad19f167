package cgobatch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newPool(t *testing.T, o Options) *Pool[thing] {
	t.Helper()
	p, err := NewPool[thing](o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(t *testing.T, p *Pool[thing]) Arena[thing] {
	t.Helper()
	a, err := p.Get(ended)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// waiting returns when n goroutines wait for an arena.
func waiting(p *Pool[thing], n int32) {
	for p.waiting.Load() != n {
		runtime.Gosched()
	}
}

func TestNoMoreArenasAreHeldThanThereMayBe(t *testing.T) {
	const most = 70 // more than a word of the set has
	p := newPool(t, Options{Items: 1, Bytes: 16, MaxArenas: most})
	var held, worst atomic.Int32
	var wg sync.WaitGroup
	for g := 0; g < 2*most; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < 200; i++ {
				a, err := p.Get(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				n := held.Add(1)
				for w := worst.Load(); n > w && !worst.CompareAndSwap(w, n); w = worst.Load() {
				}
				items := a.Add(1)
				if len(items) != 1 {
					t.Error("the arena is not empty")
				}
				for k := range items {
					items[k].sum = uint16(i)
				}
				runtime.Gosched()
				if len(items) == 1 && items[0].sum != uint16(i) {
					t.Error("somebody else wrote into the arena")
				}
				held.Add(-1)
				a.Release()
			}
		}()
	}
	wg.Wait()
	if worst.Load() > most {
		t.Errorf("%d arenas were held at once", worst.Load())
	}
	if m := metrics(p); m["cgobatch_arenas_in_use"] != 0 || m["cgobatch_waiting"] != 0 || m["cgobatch_arenas"] != most {
		t.Errorf("in the end: %v", m)
	}
}

func TestThoseWhoWaitAreServedInOrder(t *testing.T) {
	p := newPool(t, Options{MaxArenas: 1})
	a := get(t, p)
	order := make(chan int, 3)
	for i := 0; i < 3; i++ {
		go func() {
			a, err := p.Get(context.Background())
			if err != nil {
				t.Error(err)
			}
			order <- i
			a.Release()
		}()
		waiting(p, int32(i+1))
	}
	if _, err := p.Get(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Get passes those who wait: %v", err)
	}
	a.Release()
	for want := 0; want < 3; want++ {
		if got := <-order; got != want {
			t.Errorf("waiter %d is served, want %d", got, want)
		}
	}
}

// An arena that is being handed over is not for somebody who comes now.
func TestNobodyPassesThoseWhoWait(t *testing.T) {
	p := newPool(t, Options{MaxArenas: 1})
	a := get(t, p)
	served, end, late := make(chan error), make(chan struct{}), make(chan error)
	go func() {
		a, err := p.Get(context.Background())
		served <- err
		<-end
		a.Release()
	}()
	waiting(p, 1)
	p.mu.Lock()
	go a.Release()
	for p.free[0].Load() == 0 {
		runtime.Gosched()
	}
	go func() {
		_, err := p.Get(ended)
		late <- err
	}()
	for i := 0; i < 100; i++ {
		runtime.Gosched()
	}
	p.mu.Unlock()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-late; !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	close(end)
}

func TestACancelledWaitLosesNoArena(t *testing.T) {
	p := newPool(t, Options{MaxArenas: 1})
	cause := errors.New("we close")
	for i := 0; i < 500; i++ {
		a := get(t, p)
		ctx, cancel := context.WithCancelCause(context.Background())
		result := make(chan error)
		go func() {
			a, err := p.Get(ctx)
			if err == nil {
				a.Release()
			}
			result <- err
		}()
		waiting(p, 1)
		if i%2 == 0 { // both at once: either may be first
			go a.Release()
			cancel(cause)
			if err := <-result; err != nil && !errors.Is(err, cause) {
				t.Fatal(err)
			}
		} else {
			cancel(cause)
			if err := <-result; !errors.Is(err, cause) {
				t.Fatal(err)
			}
			a.Release()
		}
		a, err := p.Get(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		a.Release()
	}
	if m := metrics(p); m["cgobatch_waits_total"] < 500 || m["cgobatch_arenas_in_use"] != 0 {
		t.Errorf("in the end: %v", m)
	}
}

func TestMemoryIsAllocatedWhenNeededAndThenKept(t *testing.T) {
	p := newPool(t, Options{MaxArenas: 64})
	if n := metrics(p)["cgobatch_bytes"]; n != 0 {
		t.Errorf("%v bytes before the first Get", n)
	}
	get(t, p).Release()
	first := metrics(p)["cgobatch_bytes"]
	b := make([]byte, 8)
	if allocs := testing.AllocsPerRun(100, func() {
		a := get(t, p)
		a.Append(thing{})
		a.Add(3)
		a.Put(b)
		a.Release()
	}); allocs > 0 && !debugging {
		t.Errorf("%v allocations per use", allocs)
	}
	if n := metrics(p)["cgobatch_bytes"]; first < 64<<10 || n != first {
		t.Errorf("%v bytes after the first Get, %v later", first, n)
	}
}

// pinned pins a buffer that nobody else has, and returns a channel that is closed when it is collected.
func pinned(t *testing.T, a Arena[thing]) <-chan struct{} {
	t.Helper()
	gone, b := make(chan struct{}), new([1000]byte)
	runtime.SetFinalizer(b, func(*[1000]byte) { close(gone) })
	if _, err := a.Pin(b[:]); err != nil {
		t.Fatal(err)
	}
	return gone
}

// collected returns whether gone is closed by one of some collections.
func collected(gone <-chan struct{}, collections int) bool {
	for i := 0; i < collections; i++ {
		runtime.GC()
		select {
		case <-gone:
			return true
		case <-time.After(time.Millisecond): // finalizers have a goroutine of their own
		}
	}
	return false
}

func TestABufferIsPinnedUntilResetOrRelease(t *testing.T) {
	p := newPool(t, Options{})
	for name, end := range map[string]func(Arena[thing]){"Reset": Arena[thing].Reset, "Release": Arena[thing].Release} {
		a := get(t, p)
		gone := pinned(t, a)
		if collected(gone, 5) {
			t.Errorf("before %s the buffer is collected", name)
		}
		end(a)
		if !collected(gone, 1000) {
			t.Errorf("after %s the buffer stays", name)
		}
	}
}

// Lost with something pinned: the runtime ends processes that lose a Pinner so.
func TestAPoolMayBeDropped(t *testing.T) {
	if !collected(pinned(t, get(t, newPool(t, Options{}))), 1000) {
		t.Error("what it had pinned stays")
	}
}
