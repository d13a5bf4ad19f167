package timeline_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// events is a source of what no runtime writes.
type events struct {
	list   []gotrace.Event
	stacks *gotrace.Stacks
}

func (e *events) Next(ev *gotrace.Event) error {
	if len(e.list) == 0 {
		return io.EOF
	}
	*ev, e.list = e.list[0], e.list[1:]
	return nil
}

func (e *events) Stacks() *gotrace.Stacks { return e.stacks }
func (e *events) Version() string         { return "go1.26" }

// A stop within another one would be looked at for each stint of each P.
func TestStopsOfTheWorldAreApart(t *testing.T) {
	src := &events{stacks: gotrace.NewStacks()}
	stop := func(kind gotrace.Kind, at gotrace.Time, g gotrace.GoID) {
		src.list = append(src.list, gotrace.Event{Kind: kind, Time: at, Name: "stop-the-world (read mem stats)", Scope: gotrace.ScopeGo, G: g, Go: g, M: 1, Proc: gotrace.NoProc})
	}
	stop(gotrace.KindRangeBegin, 10, 1)
	stop(gotrace.KindRangeBegin, 20, 2)
	stop(gotrace.KindRangeEnd, 30, 2)
	stop(gotrace.KindRangeBegin, 40, 3)
	stop(gotrace.KindRangeEnd, 50, 1)
	stop(gotrace.KindRangeEnd, 60, 3)
	stop(gotrace.KindRangeBegin, 70, 2)
	stop(gotrace.KindRangeEnd, 80, 2)
	tl, err := timeline.Read(src, timeline.Options{})
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

// Five kilobytes of trace can say that GOMAXPROCS changes a thousand times between 1 and 32,767.
func TestChangesOfGOMAXPROCSAreBoundedByThePs(t *testing.T) {
	src := &events{stacks: gotrace.NewStacks()}
	for i := range 1100 {
		src.list = append(src.list, gotrace.Event{Kind: gotrace.KindMetric, Time: gotrace.Time(1000 + 10*i), Name: "/sched/gomaxprocs:threads", Value: uint64(1 + i%2*32766), G: 1, P: 0, M: 1})
	}
	src.list = append(src.list, gotrace.Event{Kind: gotrace.KindProc, Time: 100_000, Proc: 0, From: gotrace.Undetermined, To: gotrace.Running, M: 1, G: gotrace.NoGoroutine, P: gotrace.NoProc, Go: gotrace.NoGoroutine})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tl, err := timeline.Read(src, timeline.Options{})
	runtime.ReadMemStats(&after)
	if err != nil || len(tl.Procs) != 32767 {
		t.Fatalf("%v, %d Ps", err, len(tl.Procs))
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 200<<20 {
		t.Errorf("%d bytes allocated for %d events", n, len(src.list))
	}
}
