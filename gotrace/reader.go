package gotrace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"golang.org/x/exp/trace"
)

// ErrFormat reports that the input is not a Go execution trace that can be read:
// something else, older than go1.22, or newer than this decoder.
var ErrFormat = errors.New("not a readable Go execution trace")

// ErrNewer is an ErrFormat: the trace was written by a Go newer than this decoder.
var ErrNewer = fmt.Errorf("%w, use a newer whylate", ErrFormat)

// A CorruptError ends the reading of a damaged or truncated trace. What was
// returned before it is good.
type CorruptError struct {
	// Offset is how many bytes of the trace were consumed, an upper bound for
	// the position of the damage.
	Offset int64
	// Good is about how many bytes of it became events: those read up to the
	// last complete generation.
	Good int64
	Err  error
}

func (e *CorruptError) Error() string {
	// Behind that the decoder prints its state: kilobytes.
	why, _, _ := strings.Cut(fmt.Sprint(e.Err), ": frontier:")
	return fmt.Sprintf("trace damaged or cut within its first %d bytes: %s", e.Offset, why)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Reader reads the events of one trace in an order in which every event comes
// after those it depends on. It is not safe for concurrent use.
type Reader struct {
	r      *trace.Reader
	in     *countingReader
	stacks *Stacks
	// cache maps the decoder's stack handles, valid within a generation, to ids.
	cache  map[trace.Stack]StackID
	header string
	// good and before are the bytes consumed at the last two KindSync.
	good, before int64
	err          error
}

// NewReader returns a Reader over r, which must begin with the trace's header.
// The error wraps [ErrFormat] when r is no trace or one of an unsupported version.
func NewReader(r io.Reader) (*Reader, error) {
	in := &countingReader{r: bufio.NewReaderSize(r, 1<<20)}
	head, err := in.r.Peek(headerLen)
	if err != nil {
		return nil, fmt.Errorf("%w: shorter than its header", ErrFormat)
	}
	var minor int
	if _, err := fmt.Sscanf(string(head), "go 1.%d trace\x00\x00\x00", &minor); err != nil {
		return nil, fmt.Errorf("%w: it begins with %.16q", ErrFormat, head)
	}
	if minor < 22 {
		return nil, fmt.Errorf("%w: written by go1.%d; go1.22 or newer is needed", ErrFormat, minor)
	}
	tr, err := newExpReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: written by go1.%d: %v", ErrNewer, minor, err)
	}
	return &Reader{r: tr, in: in, stacks: NewStacks(), cache: map[trace.Stack]StackID{}, header: fmt.Sprintf("go1.%d", minor)}, nil
}

const headerLen = 16

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
func (r *Reader) Stacks() *Stacks { return r.stacks }

// Offset returns the number of bytes consumed.
func (r *Reader) Offset() int64 { return r.in.n }

// Next reads the next event into ev. It returns [io.EOF] at the end and a
// [*CorruptError] where the trace is damaged; both are final.
func (r *Reader) Next(ev *Event) error {
	if r.err != nil {
		return r.err
	}
	for {
		e, err := r.readEvent()
		if err != nil {
			if err != io.EOF {
				err = &CorruptError{Offset: r.in.n, Good: r.complete(), Err: err}
			}
			r.err = err
			return err
		}
		ok, err := r.convert(ev, &e)
		if err != nil {
			r.err = &CorruptError{Offset: r.in.n, Good: r.complete(), Err: err}
			return r.err
		}
		if ok {
			return nil
		}
	}
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
func (r *Reader) convert(ev *Event, e *trace.Event) (ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoder: %v", p)
		}
	}()
	*ev = Event{
		Time: Time(e.Time()),
		G:    GoID(e.Goroutine()), P: ProcID(e.Proc()), M: ThreadID(e.Thread()),
		Go: NoGoroutine, Proc: NoProc,
	}
	switch e.Kind() {
	case trace.EventSync:
		clear(r.cache)
		// The generation that begins here has been read whole, unless reading it
		// failed: then this Sync is the last event.
		r.before, r.good = r.good, r.in.n
		ev.Kind = KindSync
		if c := e.Sync().ClockSnapshot; c != nil {
			ev.Time, ev.Wall = Time(c.Trace), c.Wall.UnixNano()
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
		ev.Kind, ev.Name, ev.Go = KindLabel, l.Label, GoID(l.Resource.Goroutine())
	case trace.EventStackSample:
		ev.Kind, ev.Stack = KindSample, r.intern(e.Stack())
	case trace.EventTaskBegin, trace.EventTaskEnd:
		t := e.Task()
		ev.Kind, ev.Name, ev.Task = KindTaskBegin, t.Type, TaskID(t.ID)
		if e.Kind() == trace.EventTaskEnd {
			ev.Kind = KindTaskEnd
		}
		ev.Stack = r.intern(e.Stack())
	case trace.EventRegionBegin, trace.EventRegionEnd:
		g := e.Region()
		ev.Kind, ev.Name, ev.Task = KindRegionBegin, g.Type, TaskID(g.Task)
		if e.Kind() == trace.EventRegionEnd {
			ev.Kind = KindRegionEnd
		}
	case trace.EventMetric:
		m := e.Metric()
		if m.Value.Kind() != trace.ValueUint64 {
			return false, nil
		}
		ev.Kind, ev.Name, ev.Value = KindMetric, m.Name, m.Value.Uint64()
	default:
		return false, nil
	}
	return true, nil
}

func (r *Reader) transition(ev *Event, e *trace.Event) bool {
	st := e.StateTransition()
	switch st.Resource.Kind {
	case trace.ResourceGoroutine:
		from, to := st.Goroutine()
		ev.Kind, ev.Go = KindGo, GoID(st.Resource.Goroutine())
		ev.From, ev.To = goStates[from], goStates[to]
		ev.Reason = st.Reason
		ev.Stack, ev.GoStack = r.intern(e.Stack()), r.intern(st.Stack)
	case trace.ResourceProc:
		from, to := st.Proc()
		ev.Kind, ev.Proc = KindProc, ProcID(st.Resource.Proc())
		ev.From, ev.To = procStates[from], procStates[to]
	default:
		return false
	}
	return true
}

func (r *Reader) span(ev *Event, e *trace.Event) bool {
	g := e.Range()
	ev.Name = g.Name
	ev.Stack = r.intern(e.Stack())
	switch e.Kind() {
	case trace.EventRangeBegin:
		ev.Kind = KindRangeBegin
	case trace.EventRangeActive:
		ev.Kind = KindRangeActive
	default:
		ev.Kind = KindRangeEnd
	}
	switch g.Scope.Kind {
	case trace.ResourceGoroutine:
		ev.Scope, ev.Go = ScopeGo, GoID(g.Scope.Goroutine())
	case trace.ResourceProc:
		ev.Scope, ev.Proc = ScopeProc, ProcID(g.Scope.Proc())
	case trace.ResourceThread:
		ev.Scope = ScopeThread
	}
	return true
}

var goStates = [...]State{
	trace.GoUndetermined: Undetermined, trace.GoNotExist: NotExist, trace.GoRunnable: Runnable,
	trace.GoRunning: Running, trace.GoWaiting: Waiting, trace.GoSyscall: Syscall,
}

var procStates = [...]State{
	trace.ProcUndetermined: Undetermined, trace.ProcNotExist: NotExist,
	trace.ProcRunning: Running, trace.ProcIdle: Idle,
}

func (r *Reader) intern(s trace.Stack) StackID {
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

func frames(s trace.Stack) iter.Seq[Frame] {
	return func(yield func(Frame) bool) {
		for f := range s.Frames() {
			if !yield(Frame{PC: f.PC, Func: f.Func, File: f.File, Line: int(f.Line)}) {
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
