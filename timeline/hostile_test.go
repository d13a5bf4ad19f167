package timeline_test

import (
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// readEvents builds the timeline of what no runtime writes.
func readEvents(list []gotrace.Event) (*timeline.Timeline, error) {
	return timeline.Read(timelinetest.Events(list, gotrace.NewStacks()), timeline.Options{})
}

// A stop within another one would be looked at for each stint of each P.
func TestStopsOfTheWorldAreApart(t *testing.T) {
	var list []gotrace.Event
	stop := func(kind gotrace.Kind, at gotrace.Time, g gotrace.GoID) {
		list = append(list, gotrace.Event{Kind: kind, Time: at, Name: "stop-the-world (read mem stats)", Scope: gotrace.ScopeGo, G: g, Go: g, M: 1, Proc: gotrace.NoProc})
	}
	stop(gotrace.KindRangeBegin, 10, 1)
	stop(gotrace.KindRangeBegin, 20, 2)
	stop(gotrace.KindRangeEnd, 30, 2)
	stop(gotrace.KindRangeBegin, 40, 3)
	stop(gotrace.KindRangeEnd, 50, 1)
	stop(gotrace.KindRangeEnd, 60, 3)
	stop(gotrace.KindRangeBegin, 70, 2)
	stop(gotrace.KindRangeEnd, 80, 2)
	tl, err := readEvents(list)
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]timeline.Time{{10, 50}, {50, 60}, {70, 80}}
	if len(tl.STW) != len(want) {
		t.Fatalf("%+v", tl.STW)
	}
	for i, s := range tl.STW {
		if s.Start != want[i][0] || s.End != want[i][1] || s.Stopped < s.Start {
			t.Errorf("stop %d: %+v, want %v", i, s, want[i])
		}
	}
}

// The runtime gives a thread of C that calls Go one goroutine, which dies when the thread ends and
// is born again for another thread. A damaged trace can say so of any.
func TestAGoroutineThatComesAgainWasDeadMeanwhile(t *testing.T) {
	for _, in := range []gotrace.State{gotrace.Syscall, gotrace.Running} {
		var list []gotrace.Event
		for _, x := range []struct {
			at       gotrace.Time
			from, to gotrace.State
		}{{100, gotrace.NotExist, in}, {200, in, gotrace.NotExist}, {500, gotrace.NotExist, in}, {700, in, gotrace.NotExist}, {900, gotrace.NotExist, in}} {
			list = append(list, gotrace.Event{Kind: gotrace.KindGo, Time: x.at, Go: 7, G: gotrace.NoGoroutine, P: 0, M: 1, Proc: gotrace.NoProc, From: x.from, To: x.to})
		}
		list = append(list, gotrace.Event{Kind: gotrace.KindSample, Time: 1000, G: gotrace.NoGoroutine})
		tl, err := readEvents(list)
		if err != nil {
			t.Fatal(err)
		}
		g, ok := tl.G(7)
		me := &tl.Gs[g]
		var got [][2]timeline.Time
		for i, s := range me.Segs() {
			if s != me.Seg(i) {
				t.Errorf("%v: segment %d is %+v and %+v", in, i, s, me.Seg(i))
			}
			got = append(got, [2]timeline.Time{s.Start, s.End})
		}
		if want := [][2]timeline.Time{{100, 200}, {500, 700}, {900, 1000}}; !ok || !slices.Equal(got, want) || me.Start() != 100 || me.End() != 1000 || !me.Died {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
}

// Five kilobytes of trace can say that GOMAXPROCS changes a thousand times between 1 and 32,767.
func TestChangesOfGOMAXPROCSAreBoundedByThePs(t *testing.T) {
	var list []gotrace.Event
	for i := range 1100 {
		list = append(list, gotrace.Event{Kind: gotrace.KindMetric, Time: gotrace.Time(1000 + 10*i), Name: "/sched/gomaxprocs:threads", Value: uint64(1 + i%2*32766), G: 1, P: 0, M: 1})
	}
	list = append(list, gotrace.Event{Kind: gotrace.KindProc, Time: 100_000, Proc: 0, From: gotrace.Undetermined, To: gotrace.Running, M: 1, G: gotrace.NoGoroutine, P: gotrace.NoProc, Go: gotrace.NoGoroutine})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tl, err := readEvents(list)
	runtime.ReadMemStats(&after)
	if err != nil || len(tl.Procs) != 32767 {
		t.Fatalf("%v, %d Ps", err, len(tl.Procs))
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 200<<20 {
		t.Errorf("%d bytes allocated for %d events", n, len(list))
	}
}

// A P beyond those that are taken from a trace is not one of them.
func TestAPOfALargeNumberIsNone(t *testing.T) {
	var list []gotrace.Event
	for i, p := range []gotrace.ProcID{1 << 16, 32768, 32767} {
		at := gotrace.Time(100 * (i + 1))
		list = append(list,
			gotrace.Event{Kind: gotrace.KindGo, Time: at, Go: 7, G: 7, P: p, M: 1, Proc: gotrace.NoProc, From: gotrace.Runnable, To: gotrace.Running},
			gotrace.Event{Kind: gotrace.KindGo, Time: at + 50, Go: 7, G: 7, P: p, M: 1, Proc: gotrace.NoProc, From: gotrace.Running, To: gotrace.Runnable})
	}
	list[0].From = gotrace.NotExist
	tl, err := readEvents(list)
	if err != nil {
		t.Fatal(err)
	}
	var got []int16
	for _, s := range tl.Gs[0].Segs() {
		if s.Kind == timeline.Running {
			got = append(got, s.P)
		}
	}
	if !slices.Equal(got, []int16{-1, -1, 32767}) {
		t.Errorf("it ran on %v", got)
	}
}

// A snapshot is of every P: many of them must not make many snapshots, nor may times that are
// far apart, which a damaged clock makes.
func TestSnapshotsAreBoundedByThePsAndByTime(t *testing.T) {
	const procs, changes = 8192, 8000
	for gap, most := range map[timeline.Time]uint64{1e3: 5 << 19, 60e9: 48 << 20} {
		list := []gotrace.Event{{Kind: gotrace.KindMetric, Time: 1, Name: "/sched/gomaxprocs:threads", Value: procs, G: 1, P: 0, M: 1}}
		for i, s := range slices.Repeat([][2]gotrace.State{{gotrace.Runnable, gotrace.Running}, {gotrace.Running, gotrace.Runnable}}, changes/2) {
			list = append(list, gotrace.Event{Kind: gotrace.KindGo, Time: 1 + gap*timeline.Time(i+1), Go: 7, G: gotrace.NoGoroutine, P: 0, M: 1, Proc: gotrace.NoProc, From: s[0], To: s[1]})
		}
		list[1].From = gotrace.NotExist
		tl, err := readEvents(list)
		if err != nil {
			t.Fatal(err)
		}
		const mine = timeline.ClassGoroutines
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o := tl.Occupancy(int(mine)+1, func(timeline.GID, timeline.Time) timeline.ClassID { return mine })
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%d ns apart: %d bytes allocated for %d changes", gap, n, changes)
		}
		out := make([]timeline.Time, mine+1)
		o.Executed(tl.Start, tl.End, out, nil)
		var all timeline.Time
		for _, d := range out {
			all += d
		}
		if want := gap * changes / 2; all != procs*tl.Duration() || out[mine] < want-changes*200 || out[mine] > want+changes*200 {
			t.Errorf("%d ns apart: %d ns of %d, ran for %d, not %d", gap, all, procs*tl.Duration(), out[mine], want)
		}
	}
}

// Who stopped when a GC worker went on is not asked of each of many Ps for each of many workers.
func TestSuspensionsAreNotLookedForOnEachP(t *testing.T) {
	const times = 1 << 15
	var took [2]time.Duration
	for i, procs := range []uint64{3, 32767} {
		list := suspensions(times, procs)
		begun := time.Now()
		tl, err := readEvents(list)
		if err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(begun)
		n := 0
		for _, s := range tl.Procs[0].Stints() {
			if s.What == timeline.Suspending {
				n++
			}
		}
		if n != times {
			t.Errorf("%d Ps: %d times the worker waits for another P's goroutine to stop, not %d", procs, n, times)
		}
	}
	if took[1] > 10*took[0]+time.Second {
		t.Errorf("it took %v with three Ps, and %v with many", took[0], took[1])
	}
}

// suspensions is a trace of a GC worker that so many times waits for a goroutine of another P to stop.
func suspensions(times int, procs uint64) []gotrace.Event {
	const step = 200e3
	list := []gotrace.Event{{Kind: gotrace.KindMetric, Time: 1, Name: "/sched/gomaxprocs:threads", Value: procs, G: 1, P: 0, M: 1}}
	turn := func(at gotrace.Time, g gotrace.GoID, from, to gotrace.State, p gotrace.ProcID) {
		list = append(list, gotrace.Event{Kind: gotrace.KindGo, Time: at, Go: g, G: gotrace.NoGoroutine, P: p, M: 1, Proc: gotrace.NoProc, From: from, To: to})
	}
	ready, runs, waits := gotrace.Runnable, gotrace.Running, gotrace.Waiting
	for p, g := range []gotrace.GoID{7, 8, 9} {
		turn(2, g, gotrace.NotExist, waits, gotrace.ProcID(p))
	}
	for i := range gotrace.Time(times) {
		at := 4 + step*i
		turn(at, 8, waits, ready, 1)
		turn(at, 8, ready, runs, 1)
		turn(at, 7, waits, ready, 0)
		turn(at, 7, ready, runs, 0)
		list = append(list, gotrace.Event{Kind: gotrace.KindLabel, Time: at, Name: "GC (idle)", Go: 7, G: 7, P: 0, M: 1, Proc: gotrace.NoProc})
		turn(at+10, 9, waits, ready, gotrace.NoProc)
		turn(at+step-20, 8, runs, waits, 1)
		turn(at+step-10, 7, runs, waits, 0)
		turn(at+step-9, 9, ready, runs, 2)
		turn(at+step-8, 9, runs, waits, 2)
	}
	return list
}

// What happens in a generation may be stamped later than the next one's KindSync, since go1.25 by
// some microseconds, in a damaged trace by years: it is no part's but the one's which has it.
func TestAPartEndsBehindItsLastEvent(t *testing.T) {
	for _, sync := range []timeline.Time{970, 5, -1 << 40, 1 << 62} {
		at := func(k gotrace.Kind, at timeline.Time, begins uint64) gotrace.Event {
			return gotrace.Event{Kind: k, Time: at, Value: begins, G: gotrace.NoGoroutine, Go: 7, P: 0, M: 1, Proc: gotrace.NoProc, From: gotrace.Running, To: gotrace.Runnable}
		}
		src := timelinetest.Events([]gotrace.Event{
			at(gotrace.KindSync, 100, 0), at(gotrace.KindGo, 200, 0), at(gotrace.KindGo, 1000, 0),
			at(gotrace.KindSync, sync, 1000), at(gotrace.KindGo, 1002, 0), at(gotrace.KindGo, 9000, 0),
		}, gotrace.NewStacks())
		tl, err := timeline.PartsUntil(src, 1000).Next()
		if err != nil {
			t.Fatal(err)
		}
		if tl.Start != 100 || tl.Until <= 1000 || tl.End < tl.Until {
			t.Errorf("a part from %d until %d, to %d: the next generation says %d", tl.Start, tl.Until, tl.End, sync)
		}
		if end := tl.Gs[0].End(); end > tl.End {
			t.Errorf("a segment ends at %d, the trace at %d", end, tl.End)
		}
	}
}

// standing is a source of which each event has so many bytes.
type standing struct {
	timeline.Source
	each, at int64
}

func (s *standing) Next(ev *gotrace.Event) error {
	s.at += s.each
	return s.Source.Next(ev)
}

func (s *standing) Position() int64 { return s.at }

// A part is read on for a sixteenth of its time. Behind a minute in which nothing happens that may be
// all that is left.
func TestAPartBehindAnIdleTimeIsNoLonger(t *testing.T) {
	const events, parts, each = 200_000, 10, 10
	list := []gotrace.Event{{Kind: gotrace.KindSync, Time: 1, G: gotrace.NoGoroutine, P: gotrace.NoProc, M: gotrace.NoThread, Go: gotrace.NoGoroutine, Proc: gotrace.NoProc}}
	turn := func(at gotrace.Time, from, to gotrace.State) {
		list = append(list, gotrace.Event{Kind: gotrace.KindGo, Time: at, Go: 7, G: gotrace.NoGoroutine, P: 0, M: 1, Proc: gotrace.NoProc, From: from, To: to})
	}
	turn(2, gotrace.NotExist, gotrace.Running)
	for i := range gotrace.Time(events / 2) {
		turn(60e9+4000*i, gotrace.Running, gotrace.Runnable)
		turn(60e9+4000*i+2000, gotrace.Runnable, gotrace.Running)
	}
	src := timelinetest.Events(list, gotrace.NewStacks())
	all := timeline.PartsEvery(&standing{src, each, 0}, events*each/parts, parts)
	n, until := 0, timeline.Time(0)
	for {
		tl, err := all.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n++; tl.Events > events/parts*3/2 {
			t.Errorf("part %d has %d of %d events", n, tl.Events, events)
		}
		if tl.End < tl.Until || n > 1 && tl.Start != until {
			t.Errorf("part %d is from %d until %d, to %d; the one before it was until %d", n, tl.Start, tl.Until, tl.End, until)
		}
		until = tl.Until
	}
	if n != parts {
		t.Errorf("%d parts", n)
	}
}
