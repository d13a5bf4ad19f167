package pace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ways are all that there are; where threads cannot be lowered they are all Parks.
var ways = []Way{Lowered, Nice, Parks}

func each(t *testing.T, test func(t *testing.T, way Way)) {
	for _, way := range ways {
		t.Run(way.String(), func(t *testing.T) { test(t, way) })
	}
}

// pacer makes one that is stopped when the test ends.
func pacer(t *testing.T, o Options) *Pacer {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	return p
}

func stop(t *testing.T, p *Pacer) {
	t.Helper()
	if err := p.Stop(limited(t)); err != nil {
		t.Error(err)
	}
}

// limited is a context that ends long after anything that is waited for has to have happened.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, p *Pacer, fn func(ctx context.Context)) {
	t.Helper()
	if err := p.Go(limited(t), fn); err != nil {
		t.Fatal(err)
	}
}

// await waits for what the pacer's own goroutines do.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it did not come to that: ", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestNoMoreRunThanThereArePermitsAndEachHasItsTurn(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		p := pacer(t, Options{Way: way, Permits: 1, Slice: minSlice})
		const n = 5
		var runs atomic.Int32
		var most atomic.Int32
		var had atomic.Int32 // how many had their turns
		var turns sync.WaitGroup
		turns.Add(n)
		for i := 0; i < n; i++ {
			start(t, p, func(ctx context.Context) {
				defer turns.Done()
				// Nobody ends before: who is left alone has no turn.
				for mine := 0; had.Load() < n; {
					// Between Pace and Pace one runs only. (A thread that the kernel does not run stays the one.)
					if r := runs.Add(1); r > most.Load() {
						most.Store(r)
					}
					for t := time.Now(); time.Since(t) < 10*time.Microsecond; {
					}
					before := p.turns.Load()
					runs.Add(-1)
					if p.Pace(ctx) != nil {
						t.Error("it is over before each had its turn")
						return
					}
					if p.turns.Load() != before {
						if mine++; mine == 3 {
							had.Add(1)
						}
					}
				}
			})
		}
		turns.Wait()
		// On threads of usual priority one that gets no CPU for a tenth of a second counts as waiting.
		if most.Load() > 1 && p.State().Lent == 0 {
			t.Errorf("%d ran at once", most.Load())
		}
	})
}

func TestWhoWaitsGivesItsPermitBack(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		p := pacer(t, Options{Way: way, Permits: 1})
		first, second := make(chan bool), make(chan bool)
		start(t, p, func(ctx context.Context) {
			if err := p.Blocking(ctx, func() { first <- true; <-second }); err != nil {
				t.Error(err)
			}
			first <- true
		})
		<-first
		start(t, p, func(ctx context.Context) { second <- true })
		<-first
	})
}

// Functions that wait for each other, and do not say so, must not hang.
func TestThePermitOfWhoWaitsIsLent(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		p := pacer(t, Options{Way: way, Permits: 1})
		work, done := make(chan int), make(chan int)
		start(t, p, func(ctx context.Context) {
			sum := 0
			for n := range work {
				sum += n
			}
			done <- sum
		})
		start(t, p, func(ctx context.Context) {
			for i := 1; i <= 3; i++ {
				work <- i
			}
			close(work)
		})
		if sum := <-done; sum != 6 {
			t.Error(sum)
		}
		await(t, "a permit was lent", func() bool { return p.State().Lent > 0 }) // it is counted when it was
	})
}

func TestStopEndsTheFunctionsAndGivesAllBack(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		before := runtime.GOMAXPROCS(0)
		p := pacer(t, Options{Way: way, Target: time.Second})
		ended := make(chan error, 8)
		for i := 0; i < cap(ended); i++ {
			start(t, p, func(ctx context.Context) {
				for {
					if err := p.Pace(ctx); err != nil {
						if again := p.Pace(ctx); again == nil {
							err = errors.New("Pace forgot that it is over")
						}
						ended <- err
						return
					}
				}
			})
		}
		await(t, "each has a turn", func() bool { return p.State().Turns > 20 })
		s := p.State()
		if way == s.Way && way != Parks && (s.Raised != before+s.Permits || runtime.GOMAXPROCS(0) != s.Raised) {
			t.Errorf("GOMAXPROCS is %d, raised to %d from %d for %d permits", runtime.GOMAXPROCS(0), s.Raised, before, s.Permits)
		}
		stop(t, p)
		for i := 0; i < cap(ended); i++ {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if now := runtime.GOMAXPROCS(0); now != before {
			t.Errorf("GOMAXPROCS is %d, was %d", now, before)
		}
		if s := p.State(); s.Workers != 0 || s.Waiting != 0 || s.Used <= 0 || s.Raised != 0 {
			t.Errorf("%+v", s)
		}
		if err := p.Go(context.Background(), func(context.Context) {}); err != ErrStopped {
			t.Error(err)
		}
	})
}

func TestAFunctionIsCalledEvenIfItIsTooLate(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		p := pacer(t, Options{Way: way, Permits: 1})
		ctx, cancel := context.WithCancel(context.Background())
		holds, release := make(chan bool), make(chan bool)
		start(t, p, func(context.Context) { holds <- true; <-release })
		<-holds
		called := make(chan error)
		if err := p.Go(ctx, func(ctx context.Context) { called <- ctx.Err() }); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-called; err != context.Canceled {
			t.Error(err)
		}
		close(release)
	})
}

func TestStopTellsWhatDoesNotEnd(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		before := runtime.GOMAXPROCS(0)
		p := pacer(t, Options{Way: way})
		release, runs := make(chan bool), make(chan bool)
		start(t, p, func(context.Context) { close(runs); <-release })
		<-runs
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if now := runtime.GOMAXPROCS(0); now != before {
			t.Errorf("GOMAXPROCS is %d, was %d", now, before)
		}
		close(release)
	})
}

func TestAFunctionThatEndsItsGoroutineGivesItsPermitBack(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		p := pacer(t, Options{Way: way, Permits: 1})
		start(t, p, func(context.Context) { runtime.Goexit() })
		start(t, p, func(ctx context.Context) {
			defer runtime.Goexit()
			defer func() {
				if recover() != "no" {
					t.Error("the panic is lost")
				}
			}()
			panic("no")
		})
		done := make(chan bool)
		start(t, p, func(context.Context) { close(done) })
		<-done
	})
}

func TestAContextMadeFromGosWillDo(t *testing.T) {
	p := pacer(t, Options{})
	type key struct{}
	done := make(chan bool)
	err := p.Go(context.WithValue(context.Background(), key{}, "mine"), func(ctx context.Context) {
		defer close(done)
		if ctx.Value(key{}) != "mine" {
			t.Error("the caller's value is lost")
		}
		inner, cancel := context.WithCancel(ctx)
		for i := 0; i < 1000; i++ {
			if err := p.Pace(inner); err != nil {
				t.Error(err)
			}
		}
		cancel()
		if err := p.Pace(inner); err != context.Canceled {
			t.Error(err)
		}
		if err := p.Blocking(inner, func() {}); err != context.Canceled {
			t.Error(err)
		}
		if err := p.Pace(ctx); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if err := p.Pace(context.Background()); err != ErrNotPaced {
		t.Error(err)
	}
	if err := p.Blocking(context.Background(), func() { t.Error("it was called") }); err != ErrNotPaced {
		t.Error(err)
	}
}

func TestANilPacerPacesNothing(t *testing.T) {
	var p *Pacer
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	if err := p.Go(ctx, func(ctx context.Context) { done <- p.Pace(ctx) == nil && p.Blocking(ctx, func() {}) == nil }); err != nil {
		t.Fatal(err)
	}
	if !<-done {
		t.Error("it wants to pace")
	}
	cancel()
	if err := p.Pace(ctx); err != context.Canceled {
		t.Error(err)
	}
	if p.Stop(ctx) != nil || p.State().Workers != 0 {
		t.Error("it does something")
	}
}

func TestAPacerThatIsNotUsedDoesNothing(t *testing.T) {
	before, goroutines := runtime.GOMAXPROCS(0), runtime.NumGoroutine()
	p := pacer(t, Options{Target: time.Second})
	if runtime.GOMAXPROCS(0) != before {
		t.Error("GOMAXPROCS is raised")
	}
	if s := p.State(); s.Permits != 0 || s.Raised != 0 {
		t.Errorf("%+v", s)
	}
	await(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	stop(t, p)
	stop(t, p)
}

func TestTooManyFunctionsAreAnError(t *testing.T) {
	p := pacer(t, Options{MaxWorkers: 2})
	release := make(chan bool)
	defer close(release)
	for i := 0; i < 2; i++ {
		start(t, p, func(context.Context) { <-release })
	}
	if err := p.Go(context.Background(), func(context.Context) {}); err != ErrTooMany {
		t.Error(err)
	}
}

func TestAGOMAXPROCSThatSomebodySetStays(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, raise := range []Raise{RaiseDefault, RaiseAlways, RaiseNever} {
		t.Run(fmt.Sprint("raise ", raise), func(t *testing.T) {
			mine := runtime.NumCPU() + 3
			runtime.GOMAXPROCS(mine)
			p, err := New(Options{Raise: raise})
			if err != nil {
				t.Fatal(err)
			}
			runs := make(chan bool)
			start(t, p, func(ctx context.Context) { close(runs); <-ctx.Done() })
			<-runs
			s := p.State()
			want := mine
			if raise == RaiseAlways && s.Way != Parks {
				want = mine + s.Permits
			}
			if now := runtime.GOMAXPROCS(0); now != want {
				t.Errorf("while it works it is %d, want %d", now, want)
			}
			stop(t, p)
			if now := runtime.GOMAXPROCS(0); now != mine {
				t.Errorf("afterwards it is %d, want %d", now, mine)
			}
		})
	}
}

func TestAGOMAXPROCSThatSomebodySetsMeanwhileStays(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	p := pacer(t, Options{})
	if p.State().Way == Parks {
		t.Skip("threads cannot be lowered here")
	}
	runs := make(chan bool)
	start(t, p, func(ctx context.Context) { close(runs); <-ctx.Done() })
	<-runs
	mine := runtime.GOMAXPROCS(0) + 1
	runtime.GOMAXPROCS(mine)
	await(t, "it is seen", func() bool { return p.State().Raised == 0 })
	stop(t, p)
	if now := runtime.GOMAXPROCS(0); now != mine {
		t.Errorf("it is %d, want %d", now, mine)
	}
}

// What one pacer sets is no choice of the user's to the other, and nothing is left of it, whichever ends first.
func TestPacersThatWorkAtOnceAddUpAndGiveAllBack(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, raise := range []Raise{RaiseDefault, RaiseAlways} {
		for _, first := range []int{0, 1} {
			t.Run(fmt.Sprintf("raise %d, number %d ends first", raise, first), func(t *testing.T) {
				two := [2]*Pacer{}
				for i := range two {
					p, err := New(Options{Raise: raise, Permits: 2 + i})
					if err != nil {
						t.Fatal(err)
					}
					if p.way == Parks {
						t.Skip("threads cannot be lowered here")
					}
					two[i] = p
				}
				for i := 0; i < 3; i++ { // as in each survey
					for k, p := range two {
						want := layout{permits: 2 + k, raises: true, raised: before + 5}
						if i == 0 && k == 0 {
							want.raised = before + 2
						}
						if _, l := processors.arrange(p); l != want || runtime.GOMAXPROCS(0) != want.raised {
							t.Errorf("%+v, GOMAXPROCS %d; want %+v", l, runtime.GOMAXPROCS(0), want)
						}
					}
				}
				processors.leave(two[first])
				if now, want := runtime.GOMAXPROCS(0), before+two[1-first].options.Permits; now != want {
					t.Errorf("with one left it is %d, want %d", now, want)
				}
				processors.leave(two[1-first])
				if now := runtime.GOMAXPROCS(0); now != before {
					t.Errorf("afterwards it is %d, want %d", now, before)
				}
			})
		}
	}
}

// Where GOMAXPROCS is not raised, what the first pacer has leaves less to the second.
func TestPacersThatWorkAtOnceLeaveAPToOthers(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	mine := runtime.NumCPU() + 3
	runtime.GOMAXPROCS(mine)
	for i, want := range []layout{{permits: mine - 1}, {permits: 1, parks: true}} {
		p, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p.way == Parks {
			t.Skip("threads cannot be lowered here")
		}
		defer processors.leave(p)
		if _, l := processors.arrange(p); l != want {
			t.Errorf("pacer %d: %+v, want %+v", i, l, want)
		}
	}
}

// Whatever a lowered thread holds when the kernel takes its CPU away, others come on.
func TestNothingHangs(t *testing.T) {
	each(t, func(t *testing.T, way Way) {
		p := pacer(t, Options{Way: way, Slice: minSlice, Target: time.Millisecond})
		hang(t, p, 64, 4)
	})
}

// hang lets functions of the background and of the foreground compute, allocate, take the same locks, exchange messages
// and collect garbage, until each has done so many rounds.
func hang(t *testing.T, p *Pacer, background, rounds int) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		b := make([]byte, 64)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			server.WriteTo(b[:n], from)
		}
	}()
	var (
		lock   sync.Mutex
		shared = map[int][]byte{}
		pool   = sync.Pool{New: func() any { return new([1 << 10]byte) }}
		all    sync.WaitGroup
		over   = make(chan bool)
	)
	round := func(i int) {
		b := pool.Get().(*[1 << 10]byte)
		lock.Lock()
		shared[i%100] = append([]byte(nil), b[:]...)
		lock.Unlock()
		pool.Put(b)
		for t := time.Now(); time.Since(t) < 50*time.Microsecond; {
		}
	}
	all.Add(background)
	for i := 0; i < background; i++ {
		start(t, p, func(ctx context.Context) {
			defer all.Done()
			for n := 0; n < rounds; n++ {
				for k := 0; k < 10; k++ {
					round(n)
					if err := p.Pace(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	var fg sync.WaitGroup
	for i := 0; i < 4; i++ {
		fg.Add(1)
		go func() {
			defer fg.Done()
			client, err := net.Dial("udp", server.LocalAddr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			b := make([]byte, 64)
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				round(n)
				// On loopback a packet that was taken is not lost.
				client.Write([]byte("ping"))
				client.Read(b)
				time.Sleep(200 * time.Microsecond) // lowered threads get hardly anything of a CPU that others want
			}
		}()
	}
	fg.Add(1)
	go func() {
		defer fg.Done()
		for {
			select {
			case <-over:
				return
			default:
				runtime.GC()
				debug.SetGCPercent(debug.SetGCPercent(100))
				time.Sleep(2 * time.Millisecond)
			}
		}
	}()
	all.Wait()
	close(over)
	fg.Wait()
}

func TestTheMetricsAreTheState(t *testing.T) {
	p := pacer(t, Options{Target: time.Second})
	start(t, p, func(ctx context.Context) {
		for p.Pace(ctx) == nil {
		}
	})
	await(t, "the probe has seen a wake-up", func() bool { return p.State().Wakeup > 0 || runtime.GOOS == "windows" })
	got := map[string]float64{}
	p.Metrics(func(name string, v float64) {
		if math.IsNaN(v) || v < 0 {
			t.Error(name, v)
		}
		got[name] = v
	})
	if got["pace_workers"] != 1 || got["pace_permits"] < 1 || got["pace_slice_seconds"] <= 0 || len(got) != 12 {
		t.Error(got)
	}
}
