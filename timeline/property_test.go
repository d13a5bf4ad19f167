package timeline_test

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/unpack"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

func TestLivesAreContiguousFromBirthToDeath(t *testing.T) {
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		for i := range tl.Gs {
			g := &tl.Gs[i]
			if g.Len() == 0 {
				continue
			}
			if !g.Born && g.Start() != tl.Start {
				t.Errorf("g%d begins at %d, the trace at %d", g.ID, g.Start(), tl.Start)
			}
			if !g.Died && g.End() != tl.End {
				t.Errorf("g%d ends at %d, the trace at %d", g.ID, g.End(), tl.End)
			}
			for k, s := range g.Segs() {
				if s.Start > s.End || k > 0 && s.Start != g.Seg(k-1).End {
					t.Errorf("g%d: segment %d is %+v", g.ID, k, s)
				}
				if s.Kind == timeline.Running && s.P < 0 || s.Kind != timeline.Running && s.Kind != timeline.Runnable && s.P >= 0 {
					t.Errorf("g%d: %v on p%d", g.ID, s.Kind, s.P)
				}
				if s.Kind != timeline.Waiting && s.Waker != timeline.NoG {
					t.Errorf("g%d: %v has a waker", g.ID, s.Kind)
				}
				if s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNone && s.Stack != 0 {
					t.Errorf("g%d: a wait without a reason", g.ID)
				}
			}
		}
	})
}

func TestSegmentsAreTheSameInWhateverWayTheyAreAskedFor(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		for i := range tl.Gs {
			g := &tl.Gs[i]
			var all, waits, blocked []timeline.Segment
			for k := range g.Len() {
				s := g.Seg(k)
				all = append(all, s)
				if s.Kind == timeline.Waiting {
					waits = append(waits, s)
				}
				if s.Kind == timeline.Waiting || s.Kind == timeline.Syscall {
					blocked = append(blocked, s)
				}
			}
			from := rng.IntN(g.Len() + 1)
			for what, x := range map[string]struct {
				got  iter.Seq2[int, timeline.Segment]
				want []timeline.Segment
			}{
				"Segs": {g.Segs(), all}, "SegsFrom": {g.SegsFrom(from), all[from:]},
				"Waits": {g.Waits(), waits}, "Blocked": {g.Blocked(), blocked},
			} {
				n := 0
				for k, s := range x.got {
					if n >= len(x.want) || s != x.want[n] || s != all[k] {
						t.Fatalf("g%d, %s: segment %d is %+v", g.ID, what, k, s)
					}
					n++
				}
				if n != len(x.want) {
					t.Errorf("g%d, %s: %d segments, not %d", g.ID, what, n, len(x.want))
				}
			}
			last := -1
			for k := range g.Len() {
				if got := g.WaitBefore(k); got != last {
					t.Fatalf("g%d: segment %d waits last before %d, not %d", g.ID, last, k, got)
				}
				if g.Seg(k).Kind == timeline.Waiting {
					last = k
				}
			}
			for range 10 {
				at := tl.Start - 1 + timeline.Time(rng.Int64N(int64(tl.Duration())+2))
				if g.Len() > 0 && rng.IntN(2) == 0 {
					at = g.Seg(rng.IntN(g.Len())).End
				}
				near := rng.IntN(g.Len()+3) - 1
				if got, want := g.SegmentNear(at, near), g.SegmentAt(at); got != want {
					t.Fatalf("g%d: segment %d contains %d, not %d, which is what is found near %d", g.ID, want, at, got, near)
				}
			}
		}
	})
}

func TestStintsOfEveryPCoverTheTrace(t *testing.T) {
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		if len(tl.Procs) == 0 || tl.GOMAXPROCS != len(tl.Procs) {
			t.Errorf("%d Ps, GOMAXPROCS %d", len(tl.Procs), tl.GOMAXPROCS)
		}
		for _, p := range tl.Procs {
			at := tl.Start
			for _, s := range p.Stints() {
				if s.Start != at || s.End <= s.Start {
					t.Errorf("p%d: %+v after %d", p.ID, s, at)
				}
				at = s.End
			}
			if at != tl.End {
				t.Errorf("p%d ends at %d, the trace at %d", p.ID, at, tl.End)
			}
		}
	})
}

// stopped is the part of [a, b] in which g itself stopped the world: its P
// counts that as stopped.
func stopped(tl *timeline.Timeline, g timeline.GID, a, b timeline.Time) (sum timeline.Time) {
	for _, s := range tl.STW {
		if d := min(b, s.End) - max(a, s.Start); s.G == g && d > 0 {
			sum += d
			a = s.End
		}
	}
	return sum
}

// What a goroutine ran, its P says too.
func TestRunningIsTheSameSeenFromTheP(t *testing.T) {
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		ran := map[timeline.GID]timeline.Time{}
		for _, p := range tl.Procs {
			for _, s := range p.Stints() {
				switch s.What {
				case timeline.Go, timeline.Assist, timeline.GCWorker, timeline.GCIdle, timeline.Suspending:
					ran[s.G] += s.End - s.Start
				}
			}
		}
		for i := range tl.Gs {
			var sum timeline.Time
			for _, s := range tl.Gs[i].Segs() {
				if s.Kind == timeline.Running {
					sum += s.End - s.Start - stopped(tl, timeline.GID(i), s.Start, s.End)
				}
			}
			if sum != ran[timeline.GID(i)] {
				t.Errorf("g%d ran for %d, on Ps for %d", tl.Gs[i].ID, sum, ran[timeline.GID(i)])
			}
		}
	})
}

func TestWakersAndTheirWakesAreTheSameEdges(t *testing.T) {
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		type edge struct {
			at         timeline.Time
			waker, who timeline.GID
		}
		edges := map[edge]int{}
		for g := range tl.Gs {
			ws := tl.Gs[g].Wakes()
			if !sort.SliceIsSorted(ws, func(i, j int) bool { return ws[i].Time < ws[j].Time }) {
				t.Errorf("wakes of g%d are not in order", tl.Gs[g].ID)
			}
			for _, w := range ws {
				if w.Birth() {
					if c := &tl.Gs[w.Whom()]; c.Creator != timeline.GID(g) || !c.Born {
						t.Errorf("g%d is not born by g%d", c.ID, tl.Gs[g].ID)
					}
					continue
				}
				edges[edge{w.Time, timeline.GID(g), w.Whom()}]++
			}
		}
		for g := range tl.Gs {
			for _, s := range tl.Gs[g].Segs() {
				if s.Waker == timeline.NoG {
					continue
				}
				e := edge{s.End, s.Waker, timeline.GID(g)}
				if edges[e]--; edges[e] < 0 {
					t.Errorf("no wake for %+v", e)
				}
				w := &tl.Gs[s.Waker]
				// A waker runs (or starts the world) when it wakes.
				if k := w.SegmentAt(s.End); k < w.Len() && w.Seg(k).Kind == timeline.Waiting && w.Seg(k).Start < s.End {
					t.Errorf("g%d woke while it waited", w.ID)
				}
			}
		}
		for e, left := range edges {
			if left != 0 {
				t.Errorf("%d wakes ended no wait: %+v", left, e)
			}
		}
	})
}

func TestIdleSpansAreMergedDisjointAndTrue(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		spans := tl.IdleSpans()
		for i, s := range spans {
			if s.End <= s.Start || i > 0 && s.Start <= spans[i-1].End || s.Start < tl.Start || s.End > tl.End {
				t.Errorf("span %d is %+v", i, s)
			}
		}
		for range 100 {
			at := tl.Start + timeline.Time(rng.Int64N(int64(tl.Duration())+1))
			idle, last := false, tl.Start
			for _, p := range tl.Procs {
				for _, s := range p.Stints() {
					if !s.What.Free() || s.Start > at {
						continue
					}
					idle = idle || at < s.End
					last = max(last, min(at, s.End))
				}
			}
			k := sort.Search(len(spans), func(i int) bool { return spans[i].End > at })
			if got := k < len(spans) && spans[k].Start <= at; got != idle {
				t.Errorf("idle at %d: %t, want %t", at-tl.Start, got, idle)
			}
			if got := tl.LastIdle(at); got != last {
				t.Errorf("last idle at %d: %d, want %d", at-tl.Start, got-tl.Start, last-tl.Start)
			}
		}
	})
}

// Backlog by its definition: back from an instant as long as no P was idle and
// somebody was runnable.
func TestBacklogIsWhatItsDefinitionSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		var queued []timeline.Span
		for i := range tl.Gs {
			for _, s := range tl.Gs[i].Segs() {
				if s.Kind == timeline.Runnable && s.End > s.Start {
					queued = append(queued, timeline.Span{Start: s.Start, End: s.End})
				}
			}
		}
		sort.Slice(queued, func(i, j int) bool { return queued[i].Start < queued[j].Start })
		for range 100 {
			at := tl.Start + timeline.Time(rng.Int64N(int64(tl.Duration())+1))
			got := tl.Backlog(at)
			if got > at || got < tl.LastIdle(at) {
				t.Fatalf("backlog at %d begins %d, last idle %d", at-tl.Start, got-tl.Start, tl.LastIdle(at)-tl.Start)
			}
			// Somebody is runnable all the time from got to at.
			covered := got
			for _, s := range queued {
				if s.Start <= covered && s.End > covered {
					covered = s.End
				}
			}
			if covered < at {
				t.Errorf("backlog from %d to %d, but nobody was runnable at %d", got-tl.Start, at-tl.Start, covered-tl.Start)
			}
		}
	})
}

// yields reports whether a goroutine yields at an instant.
func yields(g *timeline.Goroutine, at timeline.Time) bool {
	for _, s := range g.SegsFrom(max(0, g.SegmentAt(at)-1)) {
		if s.Start >= at {
			return s.Start == at && s.Kind == timeline.Runnable && s.Reason == timeline.ReasonYield
		}
	}
	return false
}

func TestPTimeByClassAddsUpToEveryP(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	timelines(t, func(t *testing.T, tl *timeline.Timeline) {
		n := int(timeline.ClassGoroutines) + len(tl.Gs)
		own := func(g timeline.GID, _ timeline.Time) timeline.ClassID {
			return timeline.ClassGoroutines + timeline.ClassID(g)
		}
		fixed := map[timeline.Activity]timeline.ClassID{timeline.Scheduler: timeline.ClassScheduler,
			timeline.GCWorker: timeline.ClassGCWorker, timeline.Assist: timeline.ClassGCAssist, timeline.Stopped: timeline.ClassStopped}
		o := tl.Occupancy(n, own)
		var buf timeline.Scratch
		out, want := make([]timeline.Time, n), make([]timeline.Time, n)
		for i := range 40 {
			a := tl.Start + timeline.Time(rng.Int64N(int64(tl.Duration())+1))
			b := tl.Start + timeline.Time(rng.Int64N(int64(tl.Duration())+1))
			if i == 0 {
				a, b = tl.Start, tl.End
			}
			a, b = min(a, b), max(a, b)
			clear(out)
			clear(want)
			o.Executed(a, b, out, &buf)
			var sum timeline.Time
			for _, d := range out {
				sum += d
			}
			if sum != (b-a)*timeline.Time(len(tl.Procs)) {
				t.Errorf("[%d, %d]: %d ns on %d Ps", a-tl.Start, b-tl.Start, sum, len(tl.Procs))
			}
			for _, p := range tl.Procs {
				var last timeline.Stint
				for _, s := range p.Stints() {
					before := last
					last = s
					d := min(s.End, b) - max(s.Start, a)
					if d <= 0 {
						continue
					}
					c, ok := fixed[s.What]
					switch {
					case s.What == timeline.Scheduler && before.What == timeline.Go && before.G != timeline.NoG && yields(&tl.Gs[before.G], s.Start):
						c = own(before.G, 0)
					case s.What == timeline.Go || s.What == timeline.InSyscall:
						c = own(s.G, 0)
					case !ok:
						c = timeline.ClassIdle
					}
					want[c] += d
				}
			}
			for c := range out {
				if out[c] != want[c] {
					t.Errorf("[%d, %d]: class %d has %d, want %d", a-tl.Start, b-tl.Start, c, out[c], want[c])
				}
			}
		}
	})
}

// Classes that change after more than 4.3 s, which is 1<<32 ns.
func TestPTimeByClassOverALongTime(t *testing.T) {
	_, tl := timelinetest.Read(t, `
procs 2
0ms g1 runs on p0
0ms p1 idle
1ms g1 starts g2
20000ms p1 busy
20000ms g2 runs on p1
30000ms end`, timeline.Options{})
	o := tl.Occupancy(int(timeline.ClassGoroutines)+1, func(timeline.GID, timeline.Time) timeline.ClassID { return timeline.ClassGoroutines })
	for _, at := range []timeline.Time{1e9, 19e9, 21e9, 30e9} {
		out := make([]timeline.Time, timeline.ClassGoroutines+1)
		o.Executed(tl.Start, tl.Start+at, out, nil)
		if want := at + max(0, at-20e9); out[timeline.ClassGoroutines] != want {
			t.Errorf("goroutines ran for %v in %v, want %v", out[timeline.ClassGoroutines], at, want)
		}
	}
}

func TestOverlapIsTheNaiveSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		var spans []timeline.Span
		at := timeline.Time(0)
		for range rng.IntN(8) {
			s := timeline.Span{Start: at + timeline.Time(rng.IntN(5))}
			s.End = s.Start + timeline.Time(rng.IntN(5))
			at = s.End
			spans = append(spans, s)
		}
		a := timeline.Time(rng.IntN(40))
		b := a + timeline.Time(rng.IntN(10))
		var want timeline.Time
		for x := a; x < b; x++ {
			for _, s := range spans {
				if s.Start <= x && x < s.End {
					want++
				}
			}
		}
		if got := timeline.Overlap(spans, a, b); got != want {
			t.Fatalf("%v in [%d, %d]: %d, want %d", spans, a, b, got, want)
		}
	}
}

// What came before the damage is a timeline like any other.
func TestACutTraceGivesTheTimelineBeforeTheCut(t *testing.T) {
	data := live(t)
	whole := read(t, bytes.NewReader(data))
	lost := 0
	for i := 1; i < 20; i++ {
		r, err := gotrace.NewReader(bytes.NewReader(data[:len(data)*i/20]))
		if err != nil {
			t.Fatal(err)
		}
		tl, err := timeline.Read(r, timeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if tl.Lost != nil {
			lost++
		}
		if tl.Events > whole.Events || tl.End > whole.End {
			t.Errorf("cut at %d of 20: %d events of %d", i, tl.Events, whole.Events)
		}
		for _, p := range tl.Procs {
			if n := p.Len(); n > 0 && p.Stint(n-1).End != tl.End {
				t.Errorf("cut at %d of 20: p%d ends at %d, the trace at %d", i, p.ID, p.Stint(n-1).End, tl.End)
			}
		}
	}
	if lost == 0 {
		t.Error("no cut was noticed")
	}
}

// An error that is no damage is the caller's to handle.
func TestAnErrorOfTheSourceIsReturned(t *testing.T) {
	if _, err := timeline.Read(failing{}, timeline.Options{}); err != errBroken {
		t.Errorf("%v", err)
	}
}

var errBroken = errors.New("broken")

type failing struct{}

func (failing) Next(*gotrace.Event) error { return errBroken }
func (failing) Stacks() *gotrace.Stacks   { return gotrace.NewStacks() }
func (failing) Version() string           { return "go1.26" }

// fixture returns a recorded trace of several generations.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := unpack.Gzip("../gotrace/testdata/" + name + ".trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Of a trace with damage in it the longest part is read, and it is said how much that is.
func TestTheLongestPartOfADamagedTraceIsRead(t *testing.T) {
	data := fixture(t, "go1.25")
	whole := read(t, bytes.NewReader(data))
	for _, x := range []struct {
		name string
		at   int // of the damage, in percent
	}{{"early", 5}, {"late", 95}} {
		damaged := bytes.Clone(data)
		at := len(data) * x.at / 100
		clear(damaged[at : at+4096])
		r, err := gotrace.NewReader(bytes.NewReader(damaged))
		if err != nil {
			t.Fatal(err)
		}
		tl, err := timeline.Read(r, timeline.Options{})
		if err != nil || tl.Lost == nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if tl.Duration() < whole.Duration()/3 || tl.Duration() >= whole.Duration() || tl.Lost.Good < int64(len(data)/4) || tl.Lost.Good >= int64(len(data)) {
			t.Errorf("%s: %v ms of %v, %d bytes of %d", x.name, tl.Duration()/1e6, whole.Duration()/1e6, tl.Lost.Good, len(data))
		}
		if early := tl.Start == whole.Start; early != (x.at > 50) {
			t.Errorf("%s: begins at %d, the trace at %d", x.name, tl.Start, whole.Start)
		}
	}
}

// A trace that is read in parts tells of every instant what it tells as a whole.
func TestPartsTellWhatTheWholeTells(t *testing.T) {
	several := false
	for i, name := range []string{"go1.22", "go1.23", "go1.24", "go1.25", "go1.26", "go1.22", "go1.23", "go1.24", "go1.25", "go1.26", "go1.22", "go1.23", "go1.24", "go1.25", "go1.26"} {
		data := fixture(t, name)
		whole := read(t, bytes.NewReader(data))
		split, err := gotrace.Split(bytes.NewReader(data), int64(len(data)/3))
		if err != nil {
			t.Fatal(err)
		}
		across, cuts := i >= 5, i >= 10
		rng := rand.New(rand.NewPCG(1, 2))
		n, bytes, last := 0, int64(0), whole.Start
		until := whole.Start
		for {
			section, err := split.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			most := int64(0)
			if cuts {
				most = section.Len() / 4
			}
			parts := timeline.PartsOf(section, timeline.Options{}, across, most)
			for k := 0; ; k++ {
				tl, err := parts.Next()
				if err == io.EOF && k > 0 {
					if several = several || k > 2; !cuts && k > 1 {
						t.Fatalf("%s: %d parts of a section without damage", name, k)
					}
					break
				}
				if err != nil || tl.Lost != nil {
					t.Fatal(err, tl.Lost)
				}
				n++
				knows := k > 0 && section.Begin() == 0
				bytes += tl.Bytes
				if d := tl.Start - until; d < -1e6 || d > 1e6 {
					t.Errorf("%s: part %d begins at %d, the one before ends at %d", name, n, tl.Start, until)
				}
				until = tl.Until
				// The last events before a boundary are a little behind it.
				least, most := -timeline.Time(1), timeline.Time(1e6)
				if across && tl.Until < whole.End-1e6 {
					least, most = 0, most+(tl.Until-tl.Start)/16
				}
				if beyond := tl.End - tl.Until; beyond <= least || beyond > most {
					t.Errorf("%s: part %d of %d to %d reaches to %d", name, n, tl.Start, tl.Until, tl.End)
				}
				// Threads end a generation one after the other, so parts may overlap a little.
				if tl.Start < last {
					t.Errorf("%s: part %d begins at %d, the one before at %d", name, n, tl.Start, last)
				}
				last = tl.Start + tl.Duration()/2
				same := 0
				for range 20_000 {
					part := &tl.Gs[rng.IntN(len(tl.Gs))]
					at := tl.Start + 1 + timeline.Time(rng.Int64N(int64(tl.Duration())))
					i := part.SegmentAt(at)
					if i == part.Len() || part.Seg(i).Start >= at {
						continue
					}
					g, ok := whole.G(part.ID)
					if !ok {
						t.Fatalf("%s: g%d is in no whole", name, part.ID)
					}
					all := &whole.Gs[g]
					k := all.SegmentAt(at)
					if k == all.Len() || all.Seg(k).Kind != part.Seg(i).Kind {
						t.Fatalf("%s: g%d at %d is %+v, in the whole %+v", name, part.ID, at, part.Seg(i), all.Seg(k))
					}
					mine, its := part.Seg(i), all.Seg(k)
					// What began before a section does is not known in it.
					if known := mine.Start > tl.Start || knows; known && (mine.Reason != its.Reason || !slices.Equal(tl.Stacks.Frames(mine.Stack), whole.Stacks.Frames(its.Stack))) {
						t.Errorf("%s: part %d, g%d at %d: %s in %v, in the whole %s in %v", name, n, part.ID, at, mine.Reason, tl.Stacks.Frames(mine.Stack), its.Reason, whole.Stacks.Frames(its.Stack))
					}
					if mine.End < tl.End && its.End < tl.End && mine.Start > tl.Start {
						waker := func(tl *timeline.Timeline, s timeline.Segment) gotrace.GoID {
							if s.Waker == timeline.NoG {
								return gotrace.NoGoroutine
							}
							return tl.Gs[s.Waker].ID
						}
						if waker(tl, mine) != waker(whole, its) || mine.P != its.P {
							t.Errorf("%s: part %d, g%d at %d: %+v woken by %d, in the whole %+v by %d", name, n, part.ID, at, mine, waker(tl, mine), its, waker(whole, its))
						}
					}
					same++
				}
				occupants(t, tl, whole, rng, n)
				if same < 1000 {
					t.Errorf("%s: part %d was compared at %d instants", name, n, same)
				}
			}
		}
		if n < 2 || bytes != int64(len(data)) {
			t.Errorf("%s: %d parts with %d bytes of %d", name, n, bytes, len(data))
		}
	}
	if !several {
		t.Error("no section was cut")
	}
}

// occupants compares what the Ps of a part do with what they do in the whole.
func occupants(t *testing.T, part, whole *timeline.Timeline, rng *rand.Rand, n int) {
	t.Helper()
	id := func(tl *timeline.Timeline, g timeline.GID) gotrace.GoID {
		if g == timeline.NoG {
			return gotrace.NoGoroutine
		}
		return tl.Gs[g].ID
	}
	at := func(p *timeline.Proc, at timeline.Time) (timeline.Stint, bool) {
		for _, s := range p.Stints() {
			if s.Start < at && at < s.End {
				return s, true
			}
		}
		return timeline.Stint{}, false
	}
	for i := range part.Procs {
		p := &part.Procs[i]
		k := slices.IndexFunc(whole.Procs, func(q timeline.Proc) bool { return q.ID == p.ID })
		if k < 0 {
			t.Fatalf("part %d: p%d is in no whole", n, p.ID)
		}
		for range 50 {
			when := part.Start + 1 + timeline.Time(rng.Int64N(int64(part.Duration())))
			mine, ok := at(p, when)
			its, ok2 := at(&whole.Procs[k], when)
			if ok && ok2 && mine.End < part.End && (mine.What != its.What || id(part, mine.G) != id(whole, its.G)) {
				t.Errorf("part %d, p%d at %d: %+v, in the whole %+v", n, p.ID, when-part.Start, mine, its)
			}
		}
	}
}
