package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate is a function of batches that tells what it got and waits to be let through.
type gate struct {
	*testing.T
	*Batcher[int, int]
	got  chan []int // each batch, before it is run
	pass chan error // what the next one returns
	all  sync.WaitGroup
}

func newGate(t *testing.T, o Options) *gate {
	t.Helper()
	g := &gate{T: t, got: make(chan []int), pass: make(chan error)}
	b, err := New(func(in, out []int, errs []error) error {
		g.got <- append([]int(nil), in...)
		for i, x := range in {
			out[i] = 2 * x
			if x < 0 {
				errs[i] = fmt.Errorf("%d is negative", x)
			}
		}
		return <-g.pass
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	g.Batcher = b
	return g
}

type result struct {
	out int
	err error
}

// do calls in a goroutine, and returns when the call is in the queue or leads.
func (g *gate) do(ctx context.Context, p Priority, in int) chan result {
	c := make(chan result, 1)
	before := g.seen()
	g.all.Add(1)
	go func() {
		defer g.all.Done()
		out, err := g.DoWith(ctx, p, in)
		c <- result{out, err}
	}()
	for g.seen() == before {
		runtime.Gosched()
	}
	return c
}

// seen is how many calls have come.
func (g *gate) seen() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return uint64(g.queued) + g.stats.Items + g.stats.Cancelled + g.stats.Full
}

func (g *gate) wantBatch(want ...int) {
	g.Helper()
	if got := <-g.got; fmt.Sprint(got) != fmt.Sprint(want) {
		g.Errorf("a batch of %v, want %v", got, want)
	}
}

func want(t *testing.T, c chan result, out int, err string) {
	t.Helper()
	r := <-c
	if r.out != out || (r.err == nil) != (err == "") || r.err != nil && !strings.Contains(r.err.Error(), err) {
		t.Errorf("%d, %v, want %d, %q", r.out, r.err, out, err)
	}
}

var bg = context.Background()

func TestWhoComesMeanwhileIsTheNextBatch(t *testing.T) {
	g := newGate(t, Options{})
	first := g.do(bg, Medium, 1)
	g.wantBatch(1)
	two, three, four := g.do(bg, Medium, 2), g.do(bg, Medium, -3), g.do(bg, Medium, 4)
	g.pass <- nil
	want(t, first, 2, "")
	g.wantBatch(2, -3, 4)
	g.pass <- nil
	want(t, two, 4, "")
	want(t, three, -6, "-3 is negative")
	want(t, four, 8, "")
	if s := g.Stats(); s.Batches != 2 || s.Items != 4 || s.Largest != 3 {
		t.Errorf("%+v", s)
	}
}

func TestAnErrorOfABatchIsThatOfItsItemsWithoutOne(t *testing.T) {
	g := newGate(t, Options{})
	first := g.do(bg, Medium, 1)
	g.wantBatch(1)
	two, three := g.do(bg, Medium, 2), g.do(bg, Medium, -3)
	g.pass <- nil
	want(t, first, 2, "")
	g.wantBatch(2, -3)
	g.pass <- errors.New("broken")
	want(t, two, 4, "broken")
	want(t, three, -6, "negative")
}

func TestHighGoesFirstAndPlacesAreKeptForTheOthers(t *testing.T) {
	g := newGate(t, Options{MaxSize: 8})
	var all []chan result
	add := func(p Priority, from, to int) {
		for i := from; i <= to; i++ {
			all = append(all, g.do(bg, p, i))
		}
	}
	add(Medium, 0, 0)
	g.wantBatch(0)
	add(Low, 300, 303)
	add(Medium, 200, 203)
	add(High, 100, 109)
	g.pass <- nil
	// Six of eight, and one of each that is lower.
	g.wantBatch(100, 101, 102, 103, 104, 105, 200, 300)
	g.pass <- nil
	g.wantBatch(106, 107, 108, 109, 201, 202, 203, 301)
	g.pass <- nil
	g.wantBatch(302, 303)
	g.pass <- nil
	for _, c := range all {
		if r := <-c; r.err != nil {
			t.Error(r.err)
		}
	}
}

func TestInSmallBatchesEachEighthIsOfALowerPriority(t *testing.T) {
	g := newGate(t, Options{MaxSize: 1})
	g.do(bg, High, 0)
	g.wantBatch(0)
	for i := 1; i <= 20; i++ {
		g.do(bg, High, i)
	}
	g.do(bg, Low, -1)
	g.do(bg, Medium, -2)
	for i := 2; i <= 12; i++ { // the number of the batch
		g.pass <- nil
		got := (<-g.got)[0]
		if low, medium := i == 8, i == 4; low != (got == -1) || medium != (got == -2) {
			t.Errorf("batch %d has %d", i, got)
		}
	}
	go func() {
		for range g.got {
			g.pass <- nil
		}
	}()
	g.pass <- nil
	g.all.Wait()
	close(g.got)
}

func TestACallThatIsGivenUpLeavesTheOthersAlone(t *testing.T) {
	g := newGate(t, Options{})
	first := g.do(bg, Medium, 1)
	g.wantBatch(1)
	ctx, cancel := context.WithCancel(bg)
	running, cancelRunning := context.WithCancel(bg)
	waits, two, stays := g.do(ctx, Medium, 5), g.do(running, Medium, 2), g.do(bg, Medium, 3)
	cancel()
	want(t, waits, 0, "context canceled")
	g.pass <- nil
	want(t, first, 2, "")
	g.wantBatch(2, 3)
	cancelRunning()
	// Whoever of them leads is busy with the batch; the other one returns at once.
	g.pass <- nil
	if r := <-two; r.err == nil && r.out != 4 || r.err != nil && r.err != context.Canceled {
		t.Errorf("%+v", r)
	}
	want(t, stays, 6, "")
	if s := g.Stats(); s.Cancelled != 1 || s.Items != 3 {
		t.Errorf("%+v", s)
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	if _, err := g.Do(ended, 1); err != context.Canceled {
		t.Errorf("a context that has ended: %v", err)
	}
}

func TestWhoIsToLeadAndGivesUpPassesItOn(t *testing.T) {
	// Who is told to lead just when its context ends: it is tried until it happened both ways.
	for i := 0; i < 200; i++ {
		g := newGate(t, Options{MaxSize: 1})
		first := g.do(bg, Medium, 1)
		g.wantBatch(1)
		ctx, cancel := context.WithCancel(bg)
		second, third := g.do(ctx, Medium, 2), g.do(bg, Medium, 3)
		go func() {
			for range g.got {
				g.pass <- nil
			}
		}()
		go cancel()
		g.pass <- nil
		want(t, first, 2, "")
		<-second
		want(t, third, 6, "")
		g.Close()
		g.all.Wait()
		close(g.got)
	}
}

func TestAPanicReachesEachCallOfItsBatchAndNoOther(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func()
		want string
	}{
		{"a panic", func() { panic("bad") }, "panicked: bad"},
		{"an error", func() { panic(os.ErrNotExist) }, "file does not exist"},
		{"Goexit", runtime.Goexit, "ended its goroutine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, pass := make(chan int), make(chan struct{})
			b, err := New(func(in, out []int, errs []error) error {
				got <- len(in)
				<-pass
				if in[0] == 2 {
					errs[0] = errors.New("not what counts")
					c.end()
				}
				return nil
			}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			g := &gate{T: t, Batcher: b}
			first := g.do(bg, Medium, 1)
			<-got
			two, three := g.do(bg, Medium, 2), g.do(bg, Medium, 3)
			pass <- struct{}{}
			want(t, first, 0, "")
			if n := <-got; n != 2 {
				t.Fatalf("a batch of %d", n)
			}
			pass <- struct{}{}
			var p *PanicError
			// With Goexit the call that led does not return.
			for n := 0; n < 2; n++ {
				select {
				case r := <-two:
					if !errors.As(r.err, &p) || !strings.Contains(r.err.Error(), c.want) || len(p.Stack) == 0 {
						t.Errorf("two: %v", r.err)
					}
				case r := <-three:
					if !errors.As(r.err, &p) || !strings.Contains(r.err.Error(), c.want) {
						t.Errorf("three: %v", r.err)
					}
				}
				if c.name == "Goexit" {
					break
				}
			}
			if c.name == "an error" && !errors.Is(p, os.ErrNotExist) {
				t.Error("the error is lost")
			}
			four := g.do(bg, Medium, 4)
			<-got
			pass <- struct{}{}
			want(t, four, 0, "")
			if s := b.Stats(); s.Panics != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A call that finds nobody at work has no waiter.
func TestAPanicOfASingleCallIsItsErrorAndTheNextOneRuns(t *testing.T) {
	for _, end := range []func(){func() { panic("bad") }, runtime.Goexit} {
		b, err := New(func(in, out []int, errs []error) error {
			errs[0] = errors.New("not what counts")
			if in[0] == 1 {
				end()
			}
			out[0], errs[0] = in[0]+1, nil
			return nil
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		returned, over := error(nil), make(chan struct{})
		go func() {
			defer close(over)
			_, returned = b.Do(bg, 1) // with Goexit it does not return
		}()
		<-over
		var p *PanicError
		if returned != nil && (!errors.As(returned, &p) || p.Value != "bad" || !strings.Contains(string(p.Stack), "batch_test.go")) {
			t.Errorf("%v", returned)
		}
		if out, err := b.Do(bg, 2); out != 3 || err != nil {
			t.Errorf("the next one: %d, %v", out, err)
		}
		if s := b.Stats(); s.Panics != 1 || s.Batches != 2 || b.leading {
			t.Errorf("%+v, leading: %v", s, b.leading)
		}
		b.Close()
	}
}

// An error that is another batcher's panic is no panic of this one.
func TestAReturnedPanicErrorIsAnErrorAsAnyOther(t *testing.T) {
	b, err := New(func(in, out []int, errs []error) error { return &PanicError{Value: "of a callee"} }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Do(bg, 1); err == nil || b.Stats().Panics != 0 {
		t.Errorf("%v, %+v", err, b.Stats())
	}
}

func TestAFullQueueIsAnError(t *testing.T) {
	g := newGate(t, Options{MaxQueue: 2})
	first := g.do(bg, Medium, 1)
	g.wantBatch(1)
	two, three := g.do(bg, Medium, 2), g.do(bg, High, 3)
	want(t, g.do(bg, High, 4), 0, "too many")
	g.pass <- nil
	want(t, first, 2, "")
	g.wantBatch(3, 2)
	g.pass <- nil
	want(t, two, 4, "")
	want(t, three, 6, "")
	got := map[string]float64{}
	g.Metrics(func(name string, v float64) { got[name] = v })
	if got["batch_full_total"] != 1 || got["batch_items_total"] != 3 || got["batch_waiting_items"] != 0 {
		t.Errorf("%v", got)
	}
}

func TestCloseWaitsForThoseWhoAreThere(t *testing.T) {
	g := newGate(t, Options{MaxSize: 1})
	first := g.do(bg, Medium, 1)
	g.wantBatch(1)
	two := g.do(bg, Medium, 2)
	closed := make(chan struct{})
	go func() { g.Close(); close(closed) }()
	for isClosed := false; !isClosed; runtime.Gosched() {
		g.mu.Lock()
		isClosed = g.closed
		g.mu.Unlock()
	}
	if _, err := g.Do(bg, 3); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	select {
	case <-closed:
		t.Error("it did not wait")
	default:
	}
	g.pass <- nil
	want(t, first, 2, "")
	g.wantBatch(2)
	g.pass <- nil
	want(t, two, 4, "")
	<-closed
	g.Close()
}

func TestABatchWaitsForMoreOnlyIfItIsToldTo(t *testing.T) {
	g := newGate(t, Options{MaxSize: 3, MaxWait: time.Hour})
	one, two := g.do(bg, Medium, 1), g.do(bg, Medium, 2)
	select {
	case got := <-g.got:
		t.Errorf("it did not wait: %v", got)
	default:
	}
	three := g.do(bg, Medium, 3)
	g.wantBatch(1, 2, 3)
	g.pass <- nil
	want(t, one, 2, "")
	want(t, two, 4, "")
	want(t, three, 6, "")
	g = newGate(t, Options{MaxSize: 3, MaxWait: time.Millisecond})
	one = g.do(bg, Medium, 1)
	g.wantBatch(1)
	g.pass <- nil
	want(t, one, 2, "")
}

func TestOptionsThatMakeNoSenseAreErrors(t *testing.T) {
	fn := func(in, out []int, errs []error) error { return nil }
	for _, o := range []Options{{MaxSize: -1}, {MaxSize: 1 << 21}, {MaxWait: -1}, {MaxQueue: -1}} {
		if _, err := New(fn, o); err == nil {
			t.Errorf("%+v", o)
		}
	}
	if _, err := New[int, int](nil, Options{}); err == nil {
		t.Error("no function")
	}
}

// Whatever callers do, each item that was not given up is run once, gets its own result, and
// nobody hangs.
func TestNoItemIsLostOrRunTwice(t *testing.T) {
	var gaveUp atomic.Int64
	for seed := int64(0); seed < 8; seed++ {
		var ran [4000]atomic.Int32
		r := rand.New(rand.NewSource(seed))
		size := 1 + r.Intn(20)
		b, err := New(func(in, out []int, errs []error) error {
			if len(in) == 0 || len(in) > size {
				t.Errorf("a batch of %d", len(in))
			}
			runtime.Gosched() // some are given up meanwhile
			for i, x := range in {
				ran[x].Add(1)
				out[i] = x + 1
			}
			if in[0]%97 == 0 {
				panic(in[0])
			}
			if in[0]%89 == 0 {
				return errors.New("broken")
			}
			return nil
		}, Options{MaxSize: size})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var returned atomic.Int64
		for c := 0; c < 40; c++ {
			all.Add(1)
			r := rand.New(rand.NewSource(seed*1000 + int64(c)))
			go func() {
				defer all.Done()
				for i := 0; i < 100; i++ {
					x := c*100 + i
					ctx, cancel := context.WithCancel(bg)
					if r.Intn(4) == 0 {
						go cancel()
					}
					out, err := b.DoWith(ctx, Priority(r.Intn(3)), x)
					cancel()
					var p *PanicError
					switch {
					case err == nil && out != x+1:
						t.Errorf("%d got %d", x, out)
					case err == context.Canceled:
						gaveUp.Add(1)
					case err != nil && !errors.As(err, &p) && err.Error() != "broken":
						t.Error(err)
					}
					returned.Add(1)
					if n := ran[x].Load(); n > 1 || n == 0 && err != context.Canceled {
						t.Errorf("%d was run %d times, %v", x, n, err)
					}
				}
			}()
		}
		all.Wait()
		b.Close()
		s := b.Stats()
		items := int64(0)
		for i := range ran {
			items += int64(ran[i].Load())
		}
		if items != int64(s.Items) || returned.Load() != 4000 || b.queued != 0 || b.leading {
			t.Errorf("%d items were run, %+v, %d queued, leading %v", items, s, b.queued, b.leading)
		}
	}
	if gaveUp.Load() < 100 {
		t.Errorf("%d calls were given up: too few to try anything", gaveUp.Load())
	}
}

func TestACallDoesNotAllocate(t *testing.T) {
	b, err := New(func(in, out []int, errs []error) error { return nil }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { b.Do(bg, 1) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestMeasureSaysWhetherItPays(t *testing.T) {
	cheap := func(in, out []int, errs []error) error { return nil }
	var lock sync.Mutex
	dear := func(in, out []int, errs []error) error {
		lock.Lock()
		defer lock.Unlock()
		for start := time.Now(); time.Since(start) < 20*time.Microsecond; {
		}
		return nil
	}
	for _, c := range []struct {
		fn   Func[int, int]
		pays bool
	}{{cheap, false}, {dear, true}} {
		v, err := Measure(c.fn, []int{1, 2, 3}, 16, Options{})
		if err != nil || v.Pays != c.pays || v.Alone <= 0 && c.pays || v.Size < 1 {
			t.Errorf("%v, %+v, %v", v, v, err)
		}
	}
	if _, err := Measure(cheap, nil, 1, Options{}); err == nil {
		t.Error("nothing was measured")
	}
}

// A leader may run the batches of others: in between it waits as any other call does.
func TestALeaderWhoseOwnItemStillWaitsCanGiveUp(t *testing.T) {
	g := newGate(t, Options{MaxSize: 1})
	var all []chan result
	for i := 1; i <= 7; i++ {
		all = append(all, g.do(bg, High, i))
		g.wantBatch(i)
		if i < 7 {
			g.pass <- nil
			<-all[i-1]
		}
	}
	ctx, cancel := context.WithCancel(bg)
	leader := g.do(ctx, Medium, 200)
	low := g.do(bg, Low, 300)
	g.pass <- nil
	g.wantBatch(300) // the eighth: the leader's caller runs it
	high := g.do(bg, High, 100)
	g.pass <- nil
	g.wantBatch(100) // by its own caller
	cancel()
	if r := <-leader; r.err != context.Canceled {
		t.Error(r.err)
	}
	g.pass <- nil
	for _, c := range []chan result{all[6], low, high} {
		if r := <-c; r.err != nil {
			t.Error(r.err)
		}
	}
}

// A leader that waits for more items is not bound to: its context and Close end that, and whoever leads
// then does not wait longer than the first one would have.
func TestALeaderThatWaitsForMoreGivesUpWithItsContext(t *testing.T) {
	g := newGate(t, Options{MaxSize: 3, MaxWait: time.Hour})
	ctx, cancel := context.WithCancel(bg)
	one := g.do(ctx, Medium, 1)
	cancel()
	want(t, one, 0, "context canceled")
	if s := g.Stats(); s.Cancelled != 1 || s.Items != 0 || g.queued != 0 || g.leading || !g.until.IsZero() {
		t.Errorf("%+v, %d queued, leading %v until %v", s, g.queued, g.leading, g.until)
	}
	ctx, cancel = context.WithCancel(bg)
	one = g.do(ctx, Medium, 1)
	two := g.do(bg, Medium, 2)
	g.mu.Lock()
	g.until = time.Now() // the first one's wait, begun long ago; it has its timer
	g.mu.Unlock()
	cancel()
	want(t, one, 0, "context canceled")
	g.wantBatch(2)
	g.pass <- nil
	want(t, two, 4, "")
}

func TestCloseEndsAWaitForMore(t *testing.T) {
	g := newGate(t, Options{MaxSize: 3, MaxWait: time.Hour})
	one := g.do(bg, Medium, 1)
	closed := make(chan struct{})
	go func() { g.Close(); close(closed) }()
	g.wantBatch(1)
	g.pass <- nil
	want(t, one, 2, "")
	<-closed
}

// Options.MaxSize tells when an item of High is in the next batch.
func TestHighIsInTheBatchThatOptionsSay(t *testing.T) {
	for size := 1; size <= 17; size++ {
		t.Run(fmt.Sprint("MaxSize ", size), func(t *testing.T) {
			g := newGate(t, Options{MaxSize: size})
			g.do(bg, Medium, 0)
			<-g.got
			for i := 0; i < 3*16*size; i++ { // more than can be run
				g.do(bg, Low, -1)
				g.do(bg, Medium, -2)
			}
			waits := 0 // of MaxSize 1: for how many batches the High that is there has waited
			for n := 0; n < 16; n++ {
				highs := max(size*3/4, 1) // the last has fewer than that before it
				if waits == 0 {
					for i := 0; i < highs; i++ {
						g.do(bg, High, 1)
					}
				}
				g.pass <- nil
				got := 0
				for _, x := range <-g.got {
					if x == 1 {
						got++
					}
				}
				switch {
				case got == highs:
					waits = 0
				case size == 1 && waits == 0:
					waits++
				default:
					t.Errorf("batch %d has %d of %d High", n, got, highs)
				}
			}
			go func() {
				for range g.got {
					g.pass <- nil
				}
			}()
			g.pass <- nil
			g.all.Wait()
			close(g.got)
		})
	}
}

// Those that give up are taken out without a look at the others: each look at a queue of this length
// would need its lock for as long as half of it takes.
func TestAQueueForgetsAnyOfItsItemsAtOnce(t *testing.T) {
	var q queue[int, int]
	all := make([]waiter[int, int], 5)
	for i := range all {
		all[i].in = i
		q.push(&all[i])
	}
	check := func(want ...int) {
		t.Helper()
		var there, back []int
		for w := q.first; w != nil; w = w.next {
			there = append(there, w.in)
		}
		for w := q.last; w != nil; w = w.before {
			back = append([]int{w.in}, back...)
		}
		if fmt.Sprint(there) != fmt.Sprint(want) || fmt.Sprint(back) != fmt.Sprint(want) {
			t.Errorf("%v, from the end %v, want %v", there, back, want)
		}
	}
	q.remove(&all[2])
	check(0, 1, 3, 4)
	q.remove(&all[4])
	check(0, 1, 3)
	q.remove(&all[0])
	check(1, 3)
	if w := q.pop(); w != &all[1] {
		t.Errorf("%+v", w)
	}
	check(3)
	q.remove(&all[3])
	check()
	q.push(&all[2])
	check(2)
}

func TestAPanicWithNilIsAnErrorAlsoOfWhoRanItForOthers(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	got, pass := make(chan int), make(chan struct{})
	b, err := New(func(in, out []int, errs []error) error {
		got <- in[0]
		<-pass
		if in[0] < 0 {
			panic(nil)
		}
		out[0] = 2 * in[0]
		return nil
	}, Options{MaxSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{T: t, Batcher: b}
	next := func(want int) {
		t.Helper()
		if x := <-got; x != want {
			t.Fatalf("%d is run, want %d", x, want)
		}
	}
	first := g.do(bg, High, 1)
	next(1)
	for b.batches%8 != 7 { // the next one is of Low
		again := g.do(bg, High, 1)
		pass <- struct{}{}
		want(t, first, 2, "")
		next(1)
		first = again
	}
	medium := g.do(bg, Medium, 2) // leads, and runs the other's first
	low := g.do(bg, Low, -1)
	pass <- struct{}{}
	want(t, first, 2, "")
	next(-1)
	pass <- struct{}{}
	want(t, low, 0, "panicked with nil")
	want(t, medium, 0, "panicked with nil")
	third := g.do(bg, Medium, 3)
	next(3)
	pass <- struct{}{}
	want(t, third, 6, "")
	if b.queued != 0 || b.Stats().Panics != 1 {
		t.Errorf("%d queued, %+v", b.queued, b.Stats())
	}
}

func TestMeasureCountsOnlyCallsThatWereRun(t *testing.T) {
	var most atomic.Int64
	v, err := Measure(func(in, out []int, _ []error) error {
		for n := most.Load(); int64(len(in)) > n && !most.CompareAndSwap(n, int64(len(in))); n = most.Load() {
		}
		runtime.Gosched() // the others come meanwhile
		return nil
	}, []int{1}, 16, Options{MaxQueue: 1})
	if err != nil || most.Load() < 3 { // with a queue of one there are at most two: who leads and who waits
		t.Errorf("%v, %v, batches of up to %d", v, err, most.Load())
	}
}

func TestMeasureReadsTheClockAfterEachSlowCall(t *testing.T) {
	var n atomic.Int64
	_, err := Measure(func(in, out []int, _ []error) error {
		n.Add(1)
		time.Sleep(30 * time.Millisecond) // four are enough to measure
		return nil
	}, []int{1}, 2, Options{})
	if got := n.Load(); err != nil || got > 2*2*4 {
		t.Errorf("%v, called %d times, want at most 4 by each of 2 callers, alone and in batches", err, got)
	}
}

func TestMeasureTellsOfAPanicOrAGoroutineThatEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func()
		size int // of the batch that ends so
	}{{"a panic alone", func() { panic("bad") }, 1}, {"Goexit alone", runtime.Goexit, 1}, {"a panic in a batch", func() { panic("bad") }, 2}, {"Goexit in a batch", runtime.Goexit, 2}} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int64
			_, err := Measure(func(in, out []int, _ []error) error {
				runtime.Gosched()
				if calls.Add(1) == 1 && c.size == 1 || c.size > 1 && len(in) >= c.size {
					c.end()
				}
				return nil
			}, []int{1}, 4, Options{})
			var p *PanicError
			if !errors.As(err, &p) {
				t.Error(err)
			}
		})
	}
}
