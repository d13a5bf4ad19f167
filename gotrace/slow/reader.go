// Package slow reads traces with the Go team's reader, golang.org/x/exp/trace. What package
// gotrace reads has to be the same: this is for the case of doubt. It takes a multiple of the
// time, and ends at the first damage.
package slow

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/whylate/whylate/gotrace"
)

// Reader reads the events of one trace like [gotrace.Reader]. It is not safe for concurrent use.
type Reader struct {
	r      *trace.Reader
	in     *countingReader
	stacks *gotrace.Stacks
	// cache maps the decoder's stack handles, valid within a generation, to ids.
	cache  map[trace.Stack]gotrace.StackID
	header string
	// good and before are the bytes consumed at the last two KindSync.
	good, before int64
	err          error
}

const headerLen = 16

// NewReader returns a Reader over r, which must begin with the trace's header.
// The error wraps [gotrace.ErrFormat] when r is no trace or one of an unsupported version.
func NewReader(r io.Reader) (*Reader, error) {
	in := &countingReader{r: bufio.NewReaderSize(r, 1<<20)}
	head, err := in.r.Peek(headerLen)
	var minor int
	if err == nil {
		_, err = fmt.Sscanf(string(head), "go 1.%d trace\x00\x00\x00", &minor)
	}
	if err != nil || minor < 22 {
		return nil, fmt.Errorf("%w: it begins with %.16q", gotrace.ErrFormat, head)
	}
	tr, err := newExpReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", gotrace.ErrFormat, err)
	}
	return &Reader{r: tr, in: in, stacks: gotrace.NewStacks(), cache: map[trace.Stack]gotrace.StackID{}, header: fmt.Sprintf("go1.%d", minor)}, nil
}

// newExpReader opens the decoder; damaged input makes it panic in rare cases.
func newExpReader(r io.Reader) (tr *trace.Reader, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoder: %v", p)
		}
	}()
	return trace.NewReader(r)
}

// Version returns the trace format's version, "go1.26". The format of a trace
// can be older than the toolchain that wrote it: go1.24 writes "go1.23".
func (r *Reader) Version() string { return r.header }

// Stacks returns the table of the stacks that events refer to. It grows while
// the Reader reads.
func (r *Reader) Stacks() *gotrace.Stacks { return r.stacks }

// Offset returns the number of bytes consumed.
func (r *Reader) Offset() int64 { return r.in.n }

// Next reads the next event into ev. It returns [io.EOF] at the end and a
// [*gotrace.CorruptError] where the trace is damaged; both are final.
func (r *Reader) Next(ev *gotrace.Event) error {
	if r.err != nil {
		return r.err
	}
	for {
		e, err := r.readEvent()
		if err != nil {
			if err != io.EOF {
				err = r.corrupt(err)
			}
			r.err = err
			return err
		}
		ok, err := r.convert(ev, &e)
		if err != nil {
			r.err = r.corrupt(err)
			return r.err
		}
		if ok {
			return nil
		}
	}
}

func (r *Reader) corrupt(err error) error {
	// Behind that the decoder prints its state: kilobytes.
	why, _, _ := strings.Cut(err.Error(), ": frontier:")
	return &gotrace.CorruptError{Offset: r.in.n, Good: r.complete(), Err: errors.New(why)}
}

// complete returns how many bytes were consumed up to the last generation that
// could be read.
func (r *Reader) complete() int64 {
	if r.good == r.in.n {
		return r.before
	}
	return r.good
}

func (r *Reader) readEvent() (e trace.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoder: %v", p)
		}
	}()
	return r.r.ReadEvent()
}

// convert fills ev from e and reports whether the event is of a kind we return.
func (r *Reader) convert(ev *gotrace.Event, e *trace.Event) (ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoder: %v", p)
		}
	}()
	*ev = gotrace.Event{
		Time: gotrace.Time(e.Time()),
		G:    gotrace.GoID(e.Goroutine()), P: gotrace.ProcID(e.Proc()), M: gotrace.ThreadID(e.Thread()),
		Go: gotrace.NoGoroutine, Proc: gotrace.NoProc,
	}
	switch e.Kind() {
	case trace.EventSync:
		clear(r.cache)
		// The generation that begins here has been read whole, unless reading it
		// failed: then this Sync is the last event.
		r.before, r.good = r.good, r.in.n
		ev.Kind = gotrace.KindSync
		if c := e.Sync().ClockSnapshot; c != nil {
			ev.Time, ev.Wall = gotrace.Time(c.Trace), c.Wall.UnixNano()
		}
	case trace.EventStateTransition:
		return r.transition(ev, e), nil
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		return r.span(ev, e), nil
	case trace.EventLabel:
		l := e.Label()
		if l.Resource.Kind != trace.ResourceGoroutine {
			return false, nil
		}
		ev.Kind, ev.Name, ev.Go = gotrace.KindLabel, l.Label, gotrace.GoID(l.Resource.Goroutine())
	case trace.EventStackSample:
		ev.Kind, ev.Stack = gotrace.KindSample, r.intern(e.Stack())
	case trace.EventTaskBegin, trace.EventTaskEnd:
		t := e.Task()
		ev.Kind, ev.Name, ev.Task, ev.Parent = gotrace.KindTaskBegin, t.Type, gotrace.TaskID(t.ID), gotrace.TaskID(t.Parent)
		if t.Parent == trace.NoTask {
			ev.Parent = gotrace.BackgroundTask
		}
		if e.Kind() == trace.EventTaskEnd {
			ev.Kind, ev.Parent = gotrace.KindTaskEnd, gotrace.BackgroundTask
		}
		ev.Stack = r.intern(e.Stack())
	case trace.EventRegionBegin, trace.EventRegionEnd:
		g := e.Region()
		ev.Kind, ev.Name, ev.Task = gotrace.KindRegionBegin, g.Type, gotrace.TaskID(g.Task)
		if e.Kind() == trace.EventRegionEnd {
			ev.Kind = gotrace.KindRegionEnd
		}
	case trace.EventMetric:
		m := e.Metric()
		if m.Value.Kind() != trace.ValueUint64 {
			return false, nil
		}
		ev.Kind, ev.Name, ev.Value = gotrace.KindMetric, m.Name, m.Value.Uint64()
	default:
		return false, nil
	}
	return true, nil
}

func (r *Reader) transition(ev *gotrace.Event, e *trace.Event) bool {
	st := e.StateTransition()
	switch st.Resource.Kind {
	case trace.ResourceGoroutine:
		from, to := st.Goroutine()
		ev.Kind, ev.Go = gotrace.KindGo, gotrace.GoID(st.Resource.Goroutine())
		ev.From, ev.To = goStates[from], goStates[to]
		ev.Reason = st.Reason
		ev.Stack, ev.GoStack = r.intern(e.Stack()), r.intern(st.Stack)
	case trace.ResourceProc:
		from, to := st.Proc()
		ev.Kind, ev.Proc = gotrace.KindProc, gotrace.ProcID(st.Resource.Proc())
		ev.From, ev.To = procStates[from], procStates[to]
	default:
		return false
	}
	return true
}

func (r *Reader) span(ev *gotrace.Event, e *trace.Event) bool {
	g := e.Range()
	ev.Name = g.Name
	ev.Stack = r.intern(e.Stack())
	switch e.Kind() {
	case trace.EventRangeBegin:
		ev.Kind = gotrace.KindRangeBegin
	case trace.EventRangeActive:
		ev.Kind = gotrace.KindRangeActive
	default:
		ev.Kind = gotrace.KindRangeEnd
	}
	switch g.Scope.Kind {
	case trace.ResourceGoroutine:
		ev.Scope, ev.Go = gotrace.ScopeGo, gotrace.GoID(g.Scope.Goroutine())
	case trace.ResourceProc:
		ev.Scope, ev.Proc = gotrace.ScopeProc, gotrace.ProcID(g.Scope.Proc())
	case trace.ResourceThread:
		ev.Scope = gotrace.ScopeThread
	}
	return true
}

var goStates = [...]gotrace.State{
	trace.GoUndetermined: gotrace.Undetermined, trace.GoNotExist: gotrace.NotExist, trace.GoRunnable: gotrace.Runnable,
	trace.GoRunning: gotrace.Running, trace.GoWaiting: gotrace.Waiting, trace.GoSyscall: gotrace.Syscall,
}

var procStates = [...]gotrace.State{
	trace.ProcUndetermined: gotrace.Undetermined, trace.ProcNotExist: gotrace.NotExist,
	trace.ProcRunning: gotrace.Running, trace.ProcIdle: gotrace.Idle,
}

func (r *Reader) intern(s trace.Stack) gotrace.StackID {
	if s == trace.NoStack {
		return 0
	}
	if id, ok := r.cache[s]; ok {
		return id
	}
	id := r.stacks.Intern(frames(s))
	r.cache[s] = id
	return id
}

func frames(s trace.Stack) iter.Seq[gotrace.Frame] {
	return func(yield func(gotrace.Frame) bool) {
		for f := range s.Frames() {
			if !yield(gotrace.Frame{PC: f.PC, Func: f.Func, File: f.File, Line: int(f.Line)}) {
				return
			}
		}
	}
}

// countingReader counts the bytes that the decoder has taken.
type countingReader struct {
	r *bufio.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
