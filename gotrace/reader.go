package gotrace

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrFormat reports that the input is not a Go execution trace that can be read:
// something else, older than go1.22, or newer than this decoder.
var ErrFormat = errors.New("not a readable Go execution trace")

// ErrNewer is an ErrFormat: the trace was written by a Go newer than this decoder.
var ErrNewer = fmt.Errorf("%w, use a newer whylate", ErrFormat)

// A CorruptError ends the reading of a damaged or truncated trace, unless [Reader.Resume]
// finds something behind the damage. What was returned before it is good.
type CorruptError struct {
	// Offset is where the damage was noticed, in bytes from the beginning of the trace. What is
	// damaged is there or before.
	Offset int64
	// Good is where the generation begins in which the damage is: all before it became events,
	// but for what is lost by damage before.
	Good int64
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("trace damaged or cut within its first %d bytes: %v", e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Reader reads the events of one trace in an order in which every event comes
// after those it depends on. It holds one generation of the trace in memory, about
// a second of it. It is not safe for concurrent use.
type Reader struct {
	load   loader
	gen    generation
	order  order
	names  names
	stacks *Stacks

	cursors []cursor
	front   frontier
	second  Time     // of what is behind the first in front
	samples []sample // to come, of this generation
	// moved is 1 + the place in front of the cursor whose event was returned last, 0 for none.
	moved int
	more  []Event // to be returned next
	last  Time
	state stage
	// loaded: the generation is good so far, and its events are being read.
	loaded bool
	// behind is the error that comes when this generation has been read.
	behind error
	good   int64
	err    error
	// tried counts the events that were looked at because an earlier one had to wait, in what begins
	// at from.
	tried   int64
	from    int64
	damages int
}

// stage is what Next returns when no event of a generation is left.
type stage uint8

const (
	stageLoad stage = iota // the next generation
	stageLast              // a last KindSync, then the end
	stageEnd
)

// NewReader returns a Reader over r, which must begin with the trace's header.
// The error wraps [ErrFormat] when r is no trace or one of an unsupported version.
func NewReader(r io.Reader) (*Reader, error) {
	in, err := newBatches(r)
	if err != nil {
		return nil, err
	}
	return newReader(in), nil
}

func newReader(in *batches) *Reader {
	t := &Reader{load: loader{in: in}, stacks: NewStacks(), good: in.n, from: in.n}
	t.gen.texts.names, t.gen.stacks.all = &t.names, t.stacks
	t.order.texts = &t.gen.texts
	t.order.forget()
	return t
}

// Version returns the trace format's version, "go1.26". The format of a trace
// can be older than the toolchain that wrote it: go1.24 writes "go1.23".
func (r *Reader) Version() string { return version(r.load.in.minor) }

func version(minor int) string { return fmt.Sprintf("go1.%d", minor) }

// Stacks returns the table of the stacks that events refer to. It grows while
// the Reader reads.
func (r *Reader) Stacks() *Stacks { return r.stacks }

// Offset returns the number of bytes consumed.
func (r *Reader) Offset() int64 { return r.load.in.n }

// Position returns about where in the trace the next event stands: how many bytes were consumed, but
// for those of the generation whose events have not been read.
func (r *Reader) Position() int64 {
	at := r.good
	if r.loaded {
		at = r.gen.end
		for _, c := range r.front {
			at -= int64(len(c.data)-c.off) + c.rest
		}
	}
	return at
}

// Next reads the next event into ev. It returns [io.EOF] at the end, which is final, and a
// [*CorruptError] where the trace is damaged, which is final but for Resume.
func (r *Reader) Next(ev *Event) error {
	if r.err != nil {
		return r.err
	}
	for {
		ok, err := r.step(ev)
		if err != nil {
			if err != io.EOF {
				err = r.corrupt(err)
			}
			r.err = err
			return err
		}
		if ok {
			return nil
		}
	}
}

// step goes on by one event and reports whether it is one that is returned.
func (r *Reader) step(ev *Event) (bool, error) {
	if len(r.more) > 0 {
		*ev = r.more[0]
		r.more = append(r.more[:0], r.more[1:]...)
		ev.Time = r.tick(ev.Time)
		return true, nil
	}
	if i := r.moved - 1; i >= 0 {
		r.moved = 0
		c := r.front[i]
		ok, err := c.next(r.gen.frequency)
		switch {
		case err != nil:
			return false, err
		case ok && i == 0 && c.time <= r.second: // most often a thread goes on
		case ok:
			r.front.moved(i)
			r.second = r.front.second()
		default:
			r.front.remove(i)
			r.second = r.front.second()
		}
	}
	if len(r.samples) > 0 && (len(r.front) == 0 || r.samples[0].time < r.front[0].time) {
		s := &r.samples[0]
		r.samples = r.samples[1:]
		*ev = Event{Kind: KindSample, Time: r.tick(s.time), G: s.g, P: s.p, M: s.m, Go: NoGoroutine, Proc: NoProc, Stack: r.stack(s.stack)}
		return true, nil
	}
	if len(r.front) == 0 {
		return r.sync(ev)
	}
	i, err := r.pick()
	if err != nil {
		return false, err
	}
	c := r.front[i]
	r.moved = i + 1
	ok, err := r.convert(ev, c)
	if err != nil {
		return false, err
	}
	ev.Time = r.tick(c.time)
	for i := range r.more {
		r.more[i].Time = c.time
	}
	return ok, nil
}

// tick makes times differ: the clock's ticks are many events long.
func (r *Reader) tick(t Time) Time {
	r.last = max(min(t, latest), r.last+1)
	return r.last
}

// latest is a time that no trace has, and behind which there is room for one.
const latest = math.MaxInt64 / 2

// pick finds the earliest event that may come next.
func (r *Reader) pick() (int, error) {
	ok, err := r.order.accept(r.front[0])
	if err != nil {
		return 0, r.front[0].corrupt("%w", err)
	}
	if ok {
		return 0, nil
	}
	if r.tried += int64(len(r.front)); r.tried > maxTried+triedPerByte*(r.load.in.n-r.from) {
		return 0, r.front[0].corrupt("too often an event has to wait for those of %d threads: here is one of kind %d", len(r.front), r.front[0].kind)
	}
	r.front.sort()
	r.second = r.front.second()
	for i := 1; i < len(r.front); i++ {
		if ok, err = r.order.accept(r.front[i]); err != nil {
			return 0, r.front[i].corrupt("%w", err)
		}
		if ok {
			return i, nil
		}
	}
	return 0, r.front[0].corrupt("none of the next events of %d threads can be one: here is one of kind %d", len(r.front), r.front[0].kind)
}

// maxTried and triedPerByte bound how often pick may fail with the earliest event: each time it
// looks at one of each thread. Clocks that agree hardly ever let it fail. An event has five bytes
// or so: where they never agree that is enough for 80 threads.
const maxTried, triedPerByte = 1 << 26, 16

// sync begins the next generation, with its KindSync.
func (r *Reader) sync(ev *Event) (bool, error) {
	g := &r.gen
	if r.loaded {
		r.good, r.loaded = g.end, false
		r.order.gen++
	}
	switch r.state {
	case stageLast:
		r.state = stageEnd
		if r.behind == nil {
			r.behind = io.EOF
		}
		*ev = Event{Kind: KindSync, Time: r.tick(r.last), G: NoGoroutine, P: NoProc, M: NoThread, Go: NoGoroutine, Proc: NoProc, Value: uint64(r.good)}
		return true, nil
	case stageEnd:
		return false, r.behind
	}
	good, err := r.load.next(g)
	r.good, r.loaded = g.begin, good
	if err != nil || !good {
		r.state, r.behind = stageLast, err
	}
	if !good {
		return false, nil
	}
	return true, r.begin(ev)
}

// begin begins the generation that was loaded.
func (r *Reader) begin(ev *Event) error {
	g := &r.gen
	r.samples = g.samples
	if len(r.cursors) < len(g.streams) {
		r.cursors = make([]cursor, len(g.streams))
	}
	for i := range g.streams {
		s, c := &g.streams[i], &r.cursors[i]
		*c = cursor{thread: r.order.thread(s.thread), left: s.batches}
		for i := range s.batches {
			c.rest += int64(len(s.batches[i].data))
		}
		ok, err := c.next(g.frequency)
		if err != nil {
			return err
		}
		if ok {
			r.front.push(c)
		}
	}
	r.second = r.front.second()
	*ev = Event{Kind: KindSync, Time: r.tick(g.nanos(g.least)), G: NoGoroutine, P: NoProc, M: NoThread, Go: NoGoroutine, Proc: NoProc}
	ev.Value = uint64(g.begin)
	if g.snapped {
		ev.Time, ev.Wall = g.nanos(g.snap), g.wall
	}
	return nil
}

// Resume goes on behind the damage that Next returned, with the next generation, and reports
// whether there may be one: damage may follow on damage, but not more than a hundred times. All
// states are undetermined from there on, as at the beginning of a trace, and times may be before
// the last one, which may be damaged; how much was lost can be seen by the Value of the next
// KindSync.
func (r *Reader) Resume() bool {
	var lost *CorruptError
	if !errors.As(r.err, &lost) || r.damages == maxDamages {
		return false
	}
	r.damages++
	// In a generation that was read whole it is the events that cannot be.
	if r.state != stageLoad && !r.load.skip(&r.gen) {
		return false
	}
	r.state, r.loaded, r.behind, r.err, r.last = stageLoad, false, nil, nil, 0
	clear(r.front)
	r.front, r.samples, r.more, r.moved = r.front[:0], nil, r.more[:0], 0
	r.order.forget()
	return true
}

// maxDamages bounds Resume: who reads what is behind does so from the beginning.
const maxDamages = 100

func (r *Reader) corrupt(err error) error {
	lost := &CorruptError{}
	if !errors.As(err, &lost) {
		lost = &CorruptError{Offset: r.load.in.n, Err: err}
	}
	lost.Good = r.good
	return lost
}
