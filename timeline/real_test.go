package timeline_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/need"
	"github.com/whylate/whylate/internal/unpack"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// timelines calls do with the timelines of recorded, live and random traces.
func timelines(t *testing.T, do func(t *testing.T, tl *timeline.Timeline)) {
	t.Helper()
	files, err := filepath.Glob("../gotrace/testdata/go1.*.trace.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no recorded traces", err)
	}
	random := 300
	if need.Raced {
		files, random = files[len(files)-1:], 100
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := unpack.Gzip(file)
			if err != nil {
				t.Fatal(err)
			}
			do(t, read(t, bytes.NewReader(data)))
		})
	}
	t.Run("live", func(t *testing.T) { do(t, read(t, bytes.NewReader(live(t)))) })
	rng := rand.New(rand.NewPCG(3, 4))
	t.Run("random", func(t *testing.T) {
		for range random {
			data := make([]byte, 3*rng.IntN(400))
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			tl, err := timeline.Read(timelinetest.Random(data).Source(), timeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if do(t, tl); t.Failed() {
				t.Fatalf("timelinetest.Random(%q)", data)
			}
		}
	})
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

// The runtime says who started a cycle, how large the heap was, what was alive
// and the next goal.
func TestARealForcedCycleNamesItsCaller(t *testing.T) {
	tl := read(t, bytes.NewReader(live(t)))
	forced := 0
	for _, c := range tl.Cycles {
		if c.G != timeline.NoG && (c.Before == 0 || c.Live == 0 || c.Goal <= c.Live) {
			t.Errorf("%+v", c)
		}
		if c.Starter != timeline.Forced {
			continue
		}
		forced++
		if !slices.ContainsFunc(tl.Stacks.Frames(c.Stack), func(f gotrace.Frame) bool { return strings.HasSuffix(f.Func, "timeline_test.serve") }) {
			t.Errorf("called from %v", tl.Stacks.Frames(c.Stack))
		}
	}
	if forced != 1 || len(tl.StartedBy(timeline.Forced)) != 1 || len(tl.GC) != len(tl.Cycles) {
		t.Errorf("%d forced cycles of %d", forced, len(tl.Cycles))
	}
	for _, s := range tl.STW {
		if s.Stopped < s.Start || s.Stopped > s.End {
			t.Errorf("%+v", s)
		}
	}
}

// live is the trace of a server with a lock, a worker, allocation and the network.
var live = func() func(t *testing.T) []byte {
	var once sync.Once
	var data []byte
	return func(t *testing.T) []byte {
		once.Do(func() { data = serve(t) })
		return data
	}
}()

func serve(t *testing.T) []byte {
	var mu sync.Mutex
	kept := map[int][]byte{}
	jobs := make(chan chan int)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			select {
			case reply := <-jobs:
				reply <- 1
			case <-ctx.Done():
				return
			}
		}
	}()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		kept[len(kept)%8] = make([]byte, 1<<16)
		runtime.Gosched()
		mu.Unlock()
		reply := make(chan int)
		jobs <- reply
		<-reply
	}))
	defer s.Close()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 40 {
				resp, err := s.Client().Get(s.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	runtime.GC()
	trace.Stop()
	return b.Bytes()
}

// A program that lowers GOMAXPROCS has no idle P while it keeps the one it has
// left busy, and idle ones again when it raises it.
func TestPsThatGOMAXPROCSTakesAwayAreNotIdle(t *testing.T) {
	const procs = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	runtime.GOMAXPROCS(1)
	for range 200 {
		runtime.Gosched()
	}
	runtime.GOMAXPROCS(procs)
	trace.Stop()
	tl := read(t, &b)
	var at []timeline.Time // both stops' ends
	for _, s := range tl.STW {
		if s.Name == "GOMAXPROCS" {
			at = append(at, s.End)
		}
	}
	if len(at) != 2 || tl.GOMAXPROCS != procs || len(tl.Procs) != procs {
		t.Fatalf("%d stops for GOMAXPROCS, %d of %d Ps", len(at), len(tl.Procs), tl.GOMAXPROCS)
	}
	for _, p := range tl.Procs {
		var gone timeline.Time
		for _, s := range p.Stints() {
			switch {
			case s.What == timeline.Gone:
				gone += s.End - s.Start
			case p.ID >= 1 && s.Start < at[1] && s.End > at[0] && s.What != timeline.Stopped:
				t.Errorf("p%d does %d at %d", p.ID, s.What, s.Start-tl.Start)
			}
		}
		if (gone > 0) != (p.ID >= 1) || gone > at[1]-at[0] {
			t.Errorf("p%d is gone for %d of %d ns", p.ID, gone, at[1]-at[0])
		}
	}
}

// What lies in a task or a region that began before a cut is not outermost behind it, and no part has
// as its own what began in one before.
func TestPartsKnowWhatIsOpen(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	const inner = 5000
	ctx, outer := trace.NewTask(context.Background(), "outer")
	trace.WithRegion(ctx, "around", func() {
		for range inner {
			ctx, task := trace.NewTask(ctx, "inner")
			trace.WithRegion(ctx, "within", runtime.Gosched)
			task.End()
		}
	})
	outer.End()
	trace.Stop()
	size := int64(b.Len())
	split, err := gotrace.Split(&b, 2*size)
	if err != nil {
		t.Fatal(err)
	}
	section, err := split.Next()
	if err != nil {
		t.Fatal(err)
	}
	parts := timeline.PartsOf(section, timeline.Options{}, true, size/4)
	n, own := 0, map[string]int{}
	for {
		tl, err := parts.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		before, ended := map[string]int{}, own["inner"] == inner
		for _, x := range slices.Concat(tl.Tasks, tl.Regions) {
			if x.Before {
				before[x.Name]++
				if x.Start != tl.Start || x.G == timeline.NoG {
					t.Errorf("part %d: %+v, begins at %d", n, x, tl.Start)
				}
			} else if x.Start < tl.Until {
				own[x.Name]++
			}
		}
		if b := before["around"] + before["outer"]; b != 2 && n > 0 && !ended || b > 0 && n == 0 {
			t.Errorf("part %d: %v are open from before", n, before)
		}
		n++
	}
	if n < 3 || own["outer"] != 1 || own["around"] != 1 || own["inner"] != inner || own["within"] != 0 {
		t.Errorf("%d parts have %v", n, own)
	}
}
