package blame

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/unpack"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// anyRequests makes requests of any intervals within the trace, of one to three
// parts on any goroutines: alive or not, with and without a home.
func anyRequests(tl *timeline.Timeline, rng *rand.Rand) *request.Found {
	var rs []request.Request
	if len(tl.Gs) > 0 && tl.Duration() > 0 {
		for i := range 1 + rng.IntN(12) {
			r := request.Request{Endpoint: i % 2, InFlight: i == 5, ByNetwork: i%3 == 0}
			at := tl.Start + timeline.Time(rng.Int64N(int64(tl.Duration())))
			for range 1 + rng.IntN(3) {
				end := at + timeline.Time(rng.Int64N(int64(tl.End-at)+1))
				r.Parts = append(r.Parts, request.Part{G: timeline.GID(rng.IntN(len(tl.Gs))), Start: at, End: end})
				at = end
			}
			rs = append(rs, r)
		}
	}
	homes := rng.Uint64()
	return request.Fixed(tl, rs, []string{"/a", "/b"}, func(g timeline.GID) gotrace.StackID {
		if homes>>(g%64)&1 == 0 || tl.Gs[g].Len() == 0 {
			return 0
		}
		return tl.Gs[g].Seg(0).Stack
	})
}

// anyGuards switches guards off at random: sums must be exact whatever the rules.
func anyGuards(bits uint64) Guards {
	on := func(i int) bool { return bits>>(2*i)&3 == 0 }
	return Guards{NoIdlePoll: on(0), NoBacklog: on(1), NoWakerIdle: on(2), NoTimeout: on(3), NoCover: on(4), NoInFlight: on(5), NoArrival: on(6), NoOnlyRelease: on(7), NoStitch: on(8)}
}

// anyWatch makes up what the kernel told of a trace's threads.
func anyWatch(tl *timeline.Timeline, rng *rand.Rand) *events.Recording {
	var out []events.Stretch
	if tl.Duration() <= 0 {
		return nil
	}
	for _, p := range tl.Procs {
		for _, held := range p.Threads {
			at := int64(tl.Start)
			for n := 0; at < int64(tl.End) && n < 20; n++ {
				length := func() int64 { return rng.Int64N(int64(tl.Duration())/4 + 2) }
				s := events.Stretch{TID: int(held.M), CPU: rng.IntN(2), OffNS: length(), OnNS: length(), Flags: events.Flags(rng.IntN(16)), NR: []int{-1, 0, 281}[rng.IntN(3)]}
				s.QueueNS = rng.Int64N(s.OffNS + 1)
				s.Out = at + s.OffNS + s.OnNS - rng.Int64N(2)*rng.Int64N(s.OffNS+1) // some overlap
				s.OnNS = min(s.OnNS, s.Out)
				s.OffNS = min(s.OffNS, s.Out-s.OnNS)
				s.QueueNS = min(s.QueueNS, s.OffNS)
				out = append(out, s)
				at = s.Out
			}
		}
	}
	return events.New(events.Header{CPUs: 1 + rng.IntN(3), Arch: "amd64"}, nil, out)
}

// everything runs all that reads an attribution.
func everything(t *testing.T, a *Attribution) {
	t.Helper()
	sound(t, a)
	paths(t, a)
	cols := make(Columns, len(a.Keys))
	for i, k := range a.Keys {
		cols[i] = int(k.Kind)
	}
	for role := range a.f.Roles {
		a.Caller(role)
		p := a.Population(role)
		if p.Len() > 0 {
			exact(t, p.TailContrast(cols, int(leafKinds)))
			p.LevelContrast(cols, int(leafKinds), nil)
		}
	}
	for site := range a.Sites {
		a.Queue(SiteID(site))
		a.PerActivation(SiteID(site))
		if h := a.Holds(SiteID(site)); (h.Holders < 1) != (h.Usual == 0) {
			t.Errorf("%+v", h)
		}
		a.Waits(SiteID(site))
		if n := a.Turns(SiteID(site)); n.Decided > n.Waits || n.Decided > 0 && n.Holders < 1 {
			t.Errorf("%+v", n)
		}
	}
	a.LateWakeup()
	all := make([]int, len(a.Requests))
	for i := range all {
		all[i] = i
	}
	if a.Arrival(all) < 0 {
		t.Error("lateness before the wake-up is negative")
	}
}

// paths checks that the steps of each request hold its pieces, and lie within each other.
func paths(t *testing.T, a *Attribution) {
	t.Helper()
	for i := range a.Requests {
		if i == 50 {
			break
		}
		sum := map[KeyID]int64{}
		var outer []Step
		for _, s := range a.Path(i) {
			var before timeline.Time // the end of the step beside it
			for len(outer) > 0 && outer[len(outer)-1].Depth >= s.Depth {
				before = outer[len(outer)-1].To
				outer = outer[:len(outer)-1]
			}
			if n := len(outer); s.To <= s.From || s.From < before || n > 0 && (s.From < outer[n-1].From || s.To > outer[n-1].To) {
				t.Fatalf("request %d: step %+v in %+v, after %d", i, s, outer, before)
			}
			outer = append(outer, s)
			for _, p := range s.Pieces {
				sum[p.Key] += p.NS
			}
		}
		for _, p := range a.Requests[i].Pieces {
			if sum[p.Key] != p.NS {
				t.Fatalf("request %d: %d ns of %+v in its steps, %d in all", i, sum[p.Key], a.Keys[p.Key], p.NS)
			}
			delete(sum, p.Key)
		}
		if len(sum) > 0 {
			t.Fatalf("request %d: its steps have pieces that it has not: %v", i, sum)
		}
	}
}

// FuzzClosure: whatever happens, the leaves of every request add up to its
// duration, exactly.
func FuzzClosure(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 7, 100, 400, 1500} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data, uint64(n))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		if len(data) > 6000 {
			return
		}
		tl, err := timeline.Read(timelinetest.Random(data).Source(), timeline.Options{GCIdleBusy: seed&1 != 0, StoppedIdle: seed&2 != 0, GoneIdle: seed&4 != 0})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		everything(t, Attribute(tl, anyRequests(tl, rng), Options{Guards: anyGuards(rng.Uint64())}))
		everything(t, Attribute(tl, anyRequests(tl, rng), Options{Watch: anyWatch(tl, rng)}))
		everything(t, Attribute(tl, request.Find(tl, request.Options{}), Options{}))
		sound(t, mispaired(Attribute(tl, anyRequests(tl, rng), Options{}), rng))
	})
}

// mispaired gives every other wait that a goroutine ended any call at all, and
// attributes again.
func mispaired(a *Attribution, rng *rand.Rand) *Attribution {
	at := func() timeline.Time { return a.t.Start + timeline.Time(rng.Int64N(int64(a.t.Duration())+1)) }
	g := func() timeline.GID { return timeline.GID(rng.IntN(len(a.t.Gs))) }
	for w := range a.t.Gs {
		for _, x := range a.t.Gs[w].Segs() {
			if x.Kind == timeline.Waiting && x.Waker != timeline.NoG && rng.IntN(2) == 0 {
				a.stitched.replies[waitID{timeline.GID(w), x.End}] = reply{call{begun: at(), handler: g(), put: at(), wrote: at()}, end{g(), g()}}
			}
		}
	}
	w := a.walker()
	for i := range a.Requests {
		a.Requests[i] = w.request(a.Requests[i].Request)
	}
	return a
}

func TestLeavesAddUpOnRecordedTraces(t *testing.T) {
	files, err := filepath.Glob("../gotrace/testdata/go1.*.trace.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no recorded traces", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := unpack.Gzip(file)
			if err != nil {
				t.Fatal(err)
			}
			tl := read(t, bytes.NewReader(data))
			rng := rand.New(rand.NewPCG(6, 6))
			for range 50 {
				a := Attribute(tl, anyRequests(tl, rng), Options{Guards: anyGuards(rng.Uint64())})
				sound(t, a)
			}
			everything(t, Attribute(tl, anyRequests(tl, rng), Options{}))
		})
	}
}

// A damaged trace may tell of things that cannot happen. Its leaves add up too.
func TestLeavesAddUpOnDamagedTraces(t *testing.T) {
	whole, err := unpack.Gzip("../gotrace/testdata/go1.26.trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	read := 0
	for range 100 {
		data := bytes.Clone(whole)
		for range 1 + rng.IntN(20) {
			data[16+rng.IntN(len(data)-16)] = byte(rng.Uint32())
		}
		r, err := gotrace.NewReader(bytes.NewReader(data))
		if err != nil {
			continue
		}
		tl, err := timeline.Read(r, timeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if tl.Events > 100 {
			read++
		}
		everything(t, Attribute(tl, anyRequests(tl, rng), Options{}))
		everything(t, Attribute(tl, request.Find(tl, request.Options{}), Options{}))
	}
	if read < 20 {
		t.Errorf("only %d damaged traces could be read in part", read)
	}
}

func read(t *testing.T, r io.Reader) *timeline.Timeline {
	t.Helper()
	tr, err := gotrace.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(tr, timeline.Options{})
	if err != nil || tl.Lost != nil {
		t.Fatal(err, tl.Lost)
	}
	return tl
}

// Servers with one way to wait each.
func TestLeavesOfServedRequestsAddUp(t *testing.T) {
	var mu sync.Mutex
	permits, jobs := make(chan int, 2), make(chan chan int)
	cond, free := sync.NewCond(new(sync.Mutex)), 2
	var kept [64][]byte
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			select {
			case reply := <-jobs:
				reply <- work(1000)
			case <-ctx.Done():
				return
			}
		}
	}()
	backend := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { work(1000) }))
	defer backend.Close()
	for name, handle := range map[string]func(i int){
		"a lock":     func(int) { mu.Lock(); work(2000); runtime.Gosched(); mu.Unlock() },
		"permits":    func(int) { permits <- 1; runtime.Gosched(); work(1000); <-permits },
		"a worker":   func(int) { reply := make(chan int); jobs <- reply; <-reply },
		"a pool":     func(int) { take(cond, &free); runtime.Gosched(); give(cond, &free) },
		"allocation": func(i int) { kept[i%64] = make([]byte, 1<<18) },
		"children": func(int) {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { work(1000) })
			}
			wg.Wait()
		},
		"the network": func(int) { get(t, backend.Client(), backend.URL) },
		"a file":      func(int) { _, _ = os.ReadFile("closure_test.go") },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			n := 0
			s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				n++
				i := n
				mu.Unlock()
				handle(i)
			}))
			defer s.Close()
			var b bytes.Buffer
			if err := trace.Start(&b); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 12 {
						get(t, s.Client(), s.URL)
					}
				})
			}
			wg.Wait()
			runtime.GC()
			trace.Stop()
			tl := read(t, &b)
			f := request.Find(tl, request.Options{})
			if len(f.Requests) < 90 {
				t.Errorf("%d requests", len(f.Requests))
			}
			everything(t, Attribute(tl, f, Options{}))
			everything(t, Attribute(tl, f, Options{MaxRequests: 20}))
		})
	}
}

func get(t *testing.T, c *http.Client, url string) {
	resp, err := c.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

func work(n int) int {
	x := 1
	for i := range n {
		x = x*31 + i
	}
	runtime.KeepAlive(x)
	return x
}

func take(c *sync.Cond, free *int) {
	c.L.Lock()
	for *free == 0 {
		c.Wait()
	}
	*free--
	c.L.Unlock()
}

func give(c *sync.Cond, free *int) {
	c.L.Lock()
	*free++
	c.L.Unlock()
	c.Signal()
}

// A queue of n on one mutex is n hops deep: the last one's wait is the sum of
// all holds before it, each in its holder's own time, and none is lost to a cap.
func TestTheDeepestQueueResolvesCompletely(t *testing.T) {
	const n = 300
	var s strings.Builder
	s.WriteString("procs 1\nstack lock = sync.runtime_SemacquireMutex < sync.(*Mutex).Lock < main.get < main.handle\n" +
		"stack free = sync.(*Mutex).Unlock < main.get < main.handle\nstack nap = time.Sleep < main.get < main.handle\n" +
		"stack new = main.accept\nstack root = main.handle\n")
	fmt.Fprintf(&s, "request /last g%d 0ms-%dms\n", n, n)
	s.WriteString("0ms p0 busy\n")
	for g := 1; g <= n; g++ {
		fmt.Fprintf(&s, "0ms p0 starts g%d as root\n0ms g%d runs on p0\n", g, g)
		if g > 1 {
			fmt.Fprintf(&s, "0ms g%d waits sync at lock\n", g)
		} else {
			s.WriteString("0ms g1 waits sleep at nap\n")
		}
	}
	for g := 1; g < n; g++ {
		// Each holds for one millisecond: g1 asleep, the others running.
		if g == 1 {
			s.WriteString("1ms p0 wakes g1\n1ms g1 runs on p0\n")
		}
		fmt.Fprintf(&s, "%dms g%d wakes g%d at free\n%dms g%d ends\n%dms g%d runs on p0\n", g, g, g+1, g, g, g, g+1)
	}
	fmt.Fprintf(&s, "%dms end\n", n)
	script, a := attribute(t, s.String(), "")
	got := map[string]int64{}
	for _, p := range a.Requests[0].Pieces {
		got[leaf(script, a, a.Keys[p.Key])] += p.NS
	}
	var ahead, unknown int64
	for l, ns := range got {
		if strings.HasPrefix(l, "unresolved") || strings.HasPrefix(l, "unknown") {
			unknown += ns
		}
		if strings.HasSuffix(l, "ahead") {
			ahead += ns
		}
	}
	if unknown != 0 || a.Depth < n-1 || ahead != (n-2)*1e6 {
		t.Errorf("depth %d, unknown %d ns, ahead %d ns: %v", a.Depth, unknown, ahead, got)
	}
	r := queued(&a.Requests[0])
	if r.Holders != n-1 || r.Longest != 1e6 || r.Held != (n-1)*1e6 {
		t.Errorf("%d holders, longest %d ns, together %d ns", r.Holders, r.Longest, r.Held)
	}
}

// Those who took a lock one after the other, past a waiter, are steps beside each other.
func TestHoldersBeforeAreStepsBesideEachOther(t *testing.T) {
	_, a := attribute(t, `procs 1
stack lock = sync.runtime_SemacquireMutex < sync.(*Mutex).Lock < main.get < main.handle
stack free = sync.(*Mutex).Unlock < main.get < main.handle
stack idle = internal/poll.runtime_pollWait < main.next < main.handle
stack root = main.handle
home g2 at idle
home g3 at idle
request /last g4 0ms-40ms
0ms p0 busy
0ms p0 starts g2 as root
0ms p0 starts g3 as root
0ms p0 starts g4 as root
0ms p0 starts g5 as root
0ms p0 starts g6 as root
0ms g2 runs on p0
0ms g2 waits network at idle
0ms g3 runs on p0
0ms g3 waits network at idle
0ms g5 runs on p0
0ms g5 waits sync at lock
0ms g6 runs on p0
0ms g6 waits sync at lock
0ms g4 runs on p0
0ms g4 waits sync at lock
0ms g1 runs on p0
10ms g1 wakes g5 at free
10ms g1 ends
11ms poller wakes g2
11ms g2 runs on p0
20ms g2 wakes g6 at free
20ms g2 ends
21ms poller wakes g3
21ms g3 runs on p0
30ms g3 wakes g4 at free
30ms g3 ends
30ms g4 runs on p0
40ms end
`, "")
	paths(t, a)
	var ran []string
	for _, s := range a.Path(0) {
		if s.Segment >= 0 && a.Timeline().Gs[s.G].Seg(s.Segment).Kind == timeline.Running {
			ran = append(ran, fmt.Sprintf("%d at depth %d", a.Timeline().Gs[s.G].ID, s.Depth))
		}
	}
	if want := []string{"1 at depth 1", "2 at depth 1", "3 at depth 1", "4 at depth 0"}; !slices.Equal(ran, want) {
		t.Errorf("%q, not %q", ran, want)
	}
}

// What the holder at the head of the queue waits for elsewhere is part of its hold,
// also for requests that queue behind another waiter.
func TestAHoldAheadContainsWhatItsHolderWaitedFor(t *testing.T) {
	_, a := attribute(t, `procs 2
stack lock = sync.runtime_SemacquireMutex < sync.(*Mutex).Lock < main.get < main.handle
stack free = sync.(*Mutex).Unlock < main.get < main.handle
stack refreshed = sync.(*Mutex).Unlock < main.refresh
stack ask = runtime.selectgo < net/http.(*persistConn).roundTrip < main.refresh
stack give = runtime.chansend1 < net/http.(*persistConn).readLoop
stack read = internal/poll.runtime_pollWait < net/http.(*persistConn).readLoop
stack root = main.handle
stack new = main.accept
request /last g3 0ms-22ms
0ms p0 busy
0ms p0 starts g2 as root
0ms p0 starts g3 as root
0ms p1 idle
0ms g1 runs on p0
0ms g1 waits select at ask
0ms g4 runs on p0
0ms g4 waits network at read
0ms g2 runs on p0
0ms g2 waits sync at lock
0ms g3 runs on p0
0ms g3 waits sync at lock
0ms p0 idle
20ms poller wakes g4
20ms g4 runs on p0
20ms g4 wakes g1 at give
20ms g4 waits network at read
20ms g1 runs on p0
20ms g1 wakes g2 at refreshed
20ms g1 waits select at ask
20ms g2 runs on p0
21ms g2 wakes g3 at free
21ms g2 ends
21ms g3 runs on p0
22ms end
`, "")
	if r := queued(&a.Requests[0]); r.Holders != 2 || r.Longest != 20e6 || r.Held != 21e6 {
		t.Errorf("%d holders, longest %d ns, together %d ns", r.Holders, r.Longest, r.Held)
	}
}

// What a worker did for others, before it did it for the request, is as many holds
// as it did pieces of work.
func TestAWorkerHoldsOnceForEachPieceOfWork(t *testing.T) {
	_, a := attribute(t, `procs 2
stack done = runtime.chanrecv1 < main.ask < main.handle
stack close = runtime.closechan < main.job < main.work
stack root = main.handle
request /last g4 0ms-10ms
0ms p1 idle
0ms p0 busy
0ms p0 starts g2 as root
0ms p0 starts g3 as root
0ms p0 starts g4 as root
0ms g2 runs on p0
0ms g2 waits chan receive at done
0ms g3 runs on p0
0ms g3 waits chan receive at done
0ms g4 runs on p0
0ms g4 waits chan receive at done
0ms g1 runs on p0
3ms g1 wakes g2 at close
6ms g1 wakes g3 at close
9ms g1 wakes g4 at close
9ms g4 runs on p1
10ms end
`, "")
	if r := queued(&a.Requests[0]); r.Holders != 3 || r.Longest != 3e6 || r.Held != 9e6 {
		t.Errorf("%d holders, longest %d ns, together %d ns", r.Holders, r.Longest, r.Held)
	}
	var h Holds
	for id := range a.Sites {
		if a.Sites[id].Func == "main.ask" {
			h = a.Holds(SiteID(id))
		}
	}
	if h.Holders != 1 || h.Usual != 3e6 {
		t.Errorf("holds: %+v", h)
	}
}

// Of n items each is given back n ms after it was taken, to whoever waits for longest.
func TestHoldersAreCountedByWhoLetsInWhom(t *testing.T) {
	for items := 1; items <= 3; items++ {
		var s strings.Builder
		s.WriteString(`procs 2
stack take = runtime.selectgo < main.take < main.handle
stack again = runtime.selectgo < main.take < main.prepare < main.handle
stack give = runtime.chansend1 < main.give < main.handle
stack use = time.Sleep < main.use < main.handle
stack root = main.handle
request /first g10 0ms-20ms
0ms p0 busy
`)
		const waiters = 12
		for g := 1; g <= items+waiters; g++ {
			fmt.Fprintf(&s, "0ms p0 starts g%d as root\n", 9+g)
		}
		for g := 1; g <= items+waiters; g++ {
			at := [...]string{"select at take", "select at again"}[g%2]
			if g <= items {
				at = "sleep at use"
			}
			fmt.Fprintf(&s, "0ms g%d runs on p0\n0ms g%d waits %s\n", 9+g, 9+g, at)
		}
		for i := 1; i <= waiters; i++ {
			fmt.Fprintf(&s, "%[1]dms p0 wakes g%[2]d\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d wakes g%[3]d at give\n%[1]dms g%[2]d ends\n%[1]dms g%[3]d runs on p0\n%[1]dms g%[3]d waits sleep at use\n", i, 9+i, 9+i+items)
		}
		s.WriteString("20ms end\n")
		_, a := attribute(t, s.String(), "")
		for id := range a.Sites {
			if a.Sites[id].Func != "main.take" {
				continue
			}
			got := a.Turns(SiteID(id))
			// The first ones got theirs without a wait: as long as they hold, fewer are known.
			least := float64(items) - 0.5*float64(items-1)
			if got.Waits != waiters || got.Decided != waiters-1 || got.Holders > float64(items) || got.Holders < least {
				t.Errorf("%d items: %+v", items, got)
			}
		}
	}
}

// Where waits never last, hardly any holder is known: there are no fewer for that.
func TestFewHoldersAreKnownOfShortQueues(t *testing.T) {
	var s strings.Builder
	s.WriteString(`procs 2
stack take = runtime.selectgo < main.take < main.handle
stack give = runtime.chansend1 < main.give < main.handle
stack use = time.Sleep < main.use < main.handle
stack root = main.handle
request /first g10 0ms-5ms
0ms p0 busy
`)
	// Two have one item each and three wait: let in are two of these, by turns, and the third.
	for g := 10; g < 15; g++ {
		fmt.Fprintf(&s, "0ms p0 starts g%d as root\n", g)
	}
	for g := 10; g < 15; g++ {
		fmt.Fprintf(&s, "0ms g%d runs on p0\n0ms g%d waits %s\n", g, g, map[bool]string{true: "sleep at use", false: "select at take"}[g < 12])
	}
	for i, by := range []int{10, 11, 12} {
		fmt.Fprintf(&s, "%[1]dms p0 wakes g%[2]d\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d wakes g%[3]d at give\n%[1]dms g%[2]d ends\n%[1]dms g%[3]d runs on p0\n%[1]dms g%[3]d waits sleep at use\n", i+1, by, 12+i)
	}
	s.WriteString("5ms end\n")
	_, a := attribute(t, s.String(), "")
	for id := range a.Sites {
		if a.Sites[id].Func == "main.take" {
			if got := a.Turns(SiteID(id)); got.Waits != 3 || got.Decided != 2 || got.Holders != 1 {
				t.Errorf("%+v", got)
			}
		}
	}
}

// A reader of a connection that many share waits again after each answer. What it
// brought to others meanwhile makes the wait for one answer no more waits; what its own
// goroutine asks again, does.
func TestAWaitForOneAnswerAmongOthersIsOneWait(t *testing.T) {
	const head = `procs 2
stack call = runtime.selectgo < main.call < main.handle
stack give = runtime.chansend1 < main.(*conn).reads
stack reads = internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < main.(*conn).reads
stack got = syscall.read < internal/poll.(*FD).Read < net.(*conn).Read < main.(*conn).reads
stack write = syscall.write < internal/poll.(*FD).Write < net.(*netFD).Write < net.(*conn).Write < main.(*conn).reads
stack root = main.handle
stack away = runtime.chanrecv1 < main.other
request /a g1 1ms-9ms
0ms g4 waits at reads
0ms g2 waits at away
0ms p0 busy
0ms p1 idle
0ms p0 starts g1 as root
1ms g1 runs on p0
1ms g1 waits select at call
1ms p0 idle
3ms poller wakes g4
3ms g4 runs on p0
3ms g4 calls at got
3ms g4 returns
`
	const tail = `3.2ms g4 waits network at reads
3.2ms p0 idle
5ms poller wakes g4
5ms g4 runs on p0
5ms g4 calls at got
5ms g4 returns
5ms g4 waits network at reads
5ms p0 idle
9ms poller wakes g4
9ms g4 runs on p0
9ms g4 calls at got
9ms g4 returns
9ms g4 wakes g1 at give
9ms g4 waits network at reads
9ms g1 runs on p0
10ms end
`
	outside := func(script string) float64 {
		_, a := attribute(t, script, "")
		return a.Requests[0].Outside
	}
	if got := outside(head + "3ms g4 wakes g2 at give\n" + tail); got != 1 {
		t.Errorf("answers to others: %v waits", got)
	}
	// 2 ms, then 1.8 ms and 4 ms after a write: two waits of 2 and 5.8 ms.
	if got, want := outside(head+"3.1ms g4 calls at write\n3.2ms g4 returns\n"+tail), 7.9*7.9/(2*2+0.1*0.1+5.8*5.8); math.Abs(got-want) > 0.01 {
		t.Errorf("it writes again: %v waits, want %v", got, want)
	}
}

// A worker that serves a batch holds once for all in it, and each of them waited for
// all of its work.
func TestABatchIsOnePieceOfWork(t *testing.T) {
	_, a := attribute(t, `procs 2
stack done = runtime.chanrecv1 < main.ask < main.handle
stack close = runtime.closechan < main.flush < main.work
stack root = main.handle
request /third g4 0ms-4ms
request /next g5 0ms-7ms
0ms p1 idle
0ms p0 busy
0ms p0 starts g2 as root
0ms p0 starts g3 as root
0ms p0 starts g4 as root
0ms p0 starts g5 as root
0ms g2 runs on p0
0ms g2 waits chan receive at done
0ms g3 runs on p0
0ms g3 waits chan receive at done
0ms g4 runs on p0
0ms g4 waits chan receive at done
0ms g5 runs on p0
0ms g5 waits chan receive at done
0ms p0 starts g1
0ms g1 runs on p0
3ms g1 wakes g2 at close
3001us g1 wakes g3 at close
3002us g1 wakes g4 at close
3002us g4 runs on p1
4ms g4 ends
4ms p1 idle
6ms g1 wakes g5 at close
6ms g5 runs on p1
7ms end
`, "")
	want := []struct {
		holders    int
		hold, held int64
	}{{1, 3.002e6, 3.002e6}, {2, 3.002e6, 6e6}}
	for i, w := range want {
		if r := queued(&a.Requests[i]); r.Holders != w.holders || r.Longest != w.hold || r.Held != w.held {
			t.Errorf("request %d: %d holders, longest %d ns, together %d ns", i, r.Holders, r.Longest, r.Held)
		}
	}
}

func TestSplitIsExactAndByLargestRemainder(t *testing.T) {
	for _, c := range []struct {
		n       int64
		weights []timeline.Time
		want    string
	}{
		{10, []timeline.Time{1, 1, 1}, "[4 3 3]"}, // a tie goes to the smaller index
		{10, []timeline.Time{0, 2, 1}, "[0 7 3]"},
		{10, []timeline.Time{1, 0, 2}, "[3 0 7]"},
		{1, []timeline.Time{1, 3, 3}, "[0 1 0]"},
		{0, []timeline.Time{1, 2}, "[0 0]"},
		{7, []timeline.Time{5}, "[7]"},
	} {
		if got := fmt.Sprint(split(c.n, c.weights, nil)); got != c.want {
			t.Errorf("split(%d, %v) = %s, want %s", c.n, c.weights, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(8, 8))
	var buf []int64
	for range 20_000 {
		w := make([]timeline.Time, 1+rng.IntN(12))
		var total float64
		for i := range w {
			if rng.IntN(3) > 0 {
				w[i] = timeline.Time(rng.Int64N(1 << rng.IntN(60)))
			}
			total += float64(w[i])
		}
		if total == 0 {
			continue
		}
		n := rng.Int64N(1 << rng.IntN(60))
		buf = split(n, w, buf)
		var sum int64
		for i, x := range buf {
			sum += x
			exact := float64(n) * float64(w[i]) / total
			// A year of nanoseconds is 2^55; above that floats are too coarse to tell.
			if x < 0 || w[i] == 0 && x != 0 || n < 1<<48 && math.Abs(float64(x)-exact) > 1.01 {
				t.Fatalf("split(%d, %v) = %v: part %d should be %f", n, w, buf, i, exact)
			}
		}
		if sum != n || len(buf) != len(w) {
			t.Fatalf("split(%d, %v) = %v adds up to %d", n, w, buf, sum)
		}
	}
}

// queued sums up what a request waited for in all of its queues.
func queued(r *Attributed) Queueing { return r.In(func(SiteID) bool { return true }) }
