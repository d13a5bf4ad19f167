package gotrace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/exp/trace"
)

// told is one event as text: everything that a Reader promises about it.
type told struct {
	kind, text string
}

// fromReader tells what the Reader under test reads.
func fromReader(data []byte) (out []told, last error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return tell(r)
}

// tell reads to the end, or to what is damaged.
func tell(r *Reader) (out []told, last error) {
	stack := func(id StackID) string {
		var b strings.Builder
		for _, f := range r.Stacks().Frames(id) {
			fmt.Fprintf(&b, "\n\t%x %s %s:%d", f.PC, f.Func, f.File, f.Line)
		}
		return b.String()
	}
	var ev Event
	for {
		if err := r.Next(&ev); err != nil {
			return out, err
		}
		at := fmt.Sprintf("%d g%d p%d m%d", ev.Time, ev.G, ev.P, ev.M)
		switch ev.Kind {
		case KindSync:
			out = append(out, told{"sync", fmt.Sprint(ev.Time, ev.Wall)})
		case KindGo:
			out = append(out, told{"go", fmt.Sprintf("%s: g%d %v -> %v %q by%s\nat%s", at, ev.Go, ev.From, ev.To, ev.Reason, stack(ev.Stack), stack(ev.GoStack))})
		case KindProc:
			out = append(out, told{"proc", fmt.Sprintf("%s: p%d %v -> %v", at, ev.Proc, ev.From, ev.To)})
		case KindRangeBegin, KindRangeActive, KindRangeEnd:
			what := map[Kind]string{KindRangeBegin: "begins", KindRangeActive: "active", KindRangeEnd: "ends"}[ev.Kind]
			out = append(out, told{"range " + what, fmt.Sprintf("%s: %s scope %d g%d p%d%s", at, ev.Name, ev.Scope, ev.Go, ev.Proc, stack(ev.Stack))})
		case KindLabel:
			out = append(out, told{"label", fmt.Sprintf("%s: g%d %s", at, ev.Go, ev.Name)})
		case KindSample:
			out = append(out, told{"sample", at + stack(ev.Stack)})
		case KindTaskBegin, KindTaskEnd:
			out = append(out, told{"task", fmt.Sprintf("%s: %d %q within %d ends %t", at, ev.Task, ev.Name, ev.Parent, ev.Kind == KindTaskEnd)})
		case KindRegionBegin, KindRegionEnd:
			out = append(out, told{"region", fmt.Sprintf("%s: %d %q ends %t", at, ev.Task, ev.Name, ev.Kind == KindRegionEnd)})
		case KindMetric:
			out = append(out, told{"metric", fmt.Sprintf("%s: %s %d", at, ev.Name, ev.Value)})
		default:
			return out, fmt.Errorf("event of kind %d", ev.Kind)
		}
	}
}

// fromOracle tells what x/exp/trace reads, of the kinds that we keep.
func fromOracle(data []byte) (out []told, last error) {
	r, err := trace.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	stack := func(s trace.Stack) string {
		var b strings.Builder
		for f := range s.Frames() {
			fmt.Fprintf(&b, "\n\t%x %s %s:%d", f.PC, f.Func, f.File, f.Line)
		}
		return b.String()
	}
	goStates := map[trace.GoState]State{trace.GoUndetermined: Undetermined, trace.GoNotExist: NotExist,
		trace.GoRunnable: Runnable, trace.GoRunning: Running, trace.GoWaiting: Waiting, trace.GoSyscall: Syscall}
	procStates := map[trace.ProcState]State{trace.ProcUndetermined: Undetermined, trace.ProcNotExist: NotExist,
		trace.ProcRunning: Running, trace.ProcIdle: Idle}
	for {
		e, err := r.ReadEvent()
		if err != nil {
			return out, err
		}
		at := fmt.Sprintf("%d g%d p%d m%d", e.Time(), e.Goroutine(), e.Proc(), e.Thread())
		switch e.Kind() {
		case trace.EventSync:
			now, wall := e.Time(), int64(0)
			if c := e.Sync().ClockSnapshot; c != nil {
				now, wall = c.Trace, c.Wall.UnixNano()
			}
			out = append(out, told{"sync", fmt.Sprint(int64(now), wall)})
		case trace.EventStateTransition:
			st := e.StateTransition()
			switch st.Resource.Kind {
			case trace.ResourceGoroutine:
				from, to := st.Goroutine()
				out = append(out, told{"go", fmt.Sprintf("%s: g%d %v -> %v %q by%s\nat%s", at, st.Resource.Goroutine(), goStates[from], goStates[to], st.Reason, stack(e.Stack()), stack(st.Stack))})
			case trace.ResourceProc:
				from, to := st.Proc()
				out = append(out, told{"proc", fmt.Sprintf("%s: p%d %v -> %v", at, st.Resource.Proc(), procStates[from], procStates[to])})
			}
		case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
			what := map[trace.EventKind]string{trace.EventRangeBegin: "begins", trace.EventRangeActive: "active", trace.EventRangeEnd: "ends"}[e.Kind()]
			g, p, scope := trace.NoGoroutine, trace.NoProc, ScopeGlobal
			switch s := e.Range().Scope; s.Kind {
			case trace.ResourceGoroutine:
				g, scope = s.Goroutine(), ScopeGo
			case trace.ResourceProc:
				p, scope = s.Proc(), ScopeProc
			case trace.ResourceThread:
				scope = ScopeThread
			}
			out = append(out, told{"range " + what, fmt.Sprintf("%s: %s scope %d g%d p%d%s", at, e.Range().Name, scope, g, p, stack(e.Stack()))})
		case trace.EventLabel:
			if l := e.Label(); l.Resource.Kind == trace.ResourceGoroutine {
				out = append(out, told{"label", fmt.Sprintf("%s: g%d %s", at, l.Resource.Goroutine(), l.Label)})
			}
		case trace.EventStackSample:
			out = append(out, told{"sample", at + stack(e.Stack())})
		case trace.EventTaskBegin, trace.EventTaskEnd:
			t := e.Task()
			if e.Kind() == trace.EventTaskEnd || t.Parent == trace.NoTask {
				t.Parent = trace.BackgroundTask // at the end the Go team's reader knows it still
			}
			out = append(out, told{"task", fmt.Sprintf("%s: %d %q within %d ends %t", at, t.ID, t.Type, t.Parent, e.Kind() == trace.EventTaskEnd)})
		case trace.EventRegionBegin, trace.EventRegionEnd:
			g := e.Region()
			out = append(out, told{"region", fmt.Sprintf("%s: %d %q ends %t", at, g.Task, g.Type, e.Kind() == trace.EventRegionEnd)})
		case trace.EventMetric:
			if m := e.Metric(); m.Value.Kind() == trace.ValueUint64 {
				out = append(out, told{"metric", fmt.Sprintf("%s: %s %d", at, m.Name, m.Value.Uint64())})
			}
		}
	}
}

func TestReaderAgreesWithTheGoTeamsReader(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			want, end := fromOracle(f.data)
			if end != io.EOF {
				t.Fatal(end)
			}
			got, end := fromReader(f.data)
			if end != io.EOF {
				t.Fatal(end)
			}
			agree(t, got, want)
			kinds := map[string]int{}
			for _, e := range got {
				kinds[e.kind]++
			}
			for _, k := range []string{"sync", "go", "proc", "range begins", "range ends", "label", "task", "region", "metric"} {
				if kinds[k] == 0 {
					t.Errorf("no event of kind %q: the fixture proves nothing about it", k)
				}
			}
			if f.name != "live" && kinds["sync"] < 3 {
				t.Errorf("%d generations", kinds["sync"]-1)
			}
		})
	}
}

func agree(t *testing.T, got, want []told) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("event %d:\n%+v\nwant\n%+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
}

func TestWhatComesBeforeACutIsReadAsByTheGoTeamsReader(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			whole, _ := fromReader(f.data)
			for i := 1; i < 5; i++ {
				cut := f.data[:len(f.data)*i/5]
				got, err := fromReader(cut)
				want, oracle := fromOracle(cut)
				var lost *CorruptError
				switch {
				case oracle == io.EOF:
					// A cut between two generations cannot be seen.
					if err != io.EOF {
						t.Errorf("cut at %d: %v, but it can be read", len(cut), err)
					}
				case !errors.As(err, &lost):
					t.Errorf("cut at %d: error %v is no CorruptError", len(cut), err)
				case lost.Offset <= 0 || lost.Offset > int64(len(cut)):
					t.Errorf("cut at %d: damage at %d", len(cut), lost.Offset)
				}
				agree(t, got, want)
				if len(got) > len(whole) {
					t.Errorf("cut at %d: %d events of %d", len(cut), len(got), len(whole))
				}
			}
		})
	}
}

// The first generation is complete long before the end: it must not be lost.
func TestACutInTheLastGenerationKeepsTheOthers(t *testing.T) {
	for _, f := range fixtures(t) {
		if f.name == "live" {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			whole, _ := fromReader(f.data)
			got, _ := fromReader(f.data[:len(f.data)-len(f.data)/20])
			syncs := func(es []told) (n int) {
				for _, e := range es {
					if e.kind == "sync" {
						n++
					}
				}
				return n
			}
			if len(got) == 0 || syncs(got) < min(2, syncs(whole)-1) {
				t.Errorf("%d events, %d syncs left of %d, %d", len(got), syncs(got), len(whole), syncs(whole))
			}
		})
	}
}
