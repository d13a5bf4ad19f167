package gotrace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// generation is the part of a trace, about a second of it, that has tables of its own: what
// the events refer to stands behind them. It is read whole before its first event comes out.
type generation struct {
	number uint64
	// begin and end are where it stands in the trace.
	begin, end int64
	frequency
	least   uint64 // time of the first batch
	wall    int64  // the wall clock in nanoseconds at snap, 0 if not known
	snap    uint64
	snapped bool
	streams []stream
	byID    map[uint64]int
	texts   texts
	stacks  stackTable
	samples []sample
	// tables: of events only the tables are kept to which they refer.
	tables bool
}

// stream is what one thread wrote, in order of time.
type stream struct {
	thread  ThreadID
	batches []span // whose data is gone when it has been read
}

// span is the events of a batch.
type span struct {
	data []byte
	at   int64 // in the trace
	time uint64
}

// sample is one of the CPU profile.
type sample struct {
	time  Time
	ticks uint64
	m     ThreadID
	p     ProcID
	g     GoID
	stack uint64
}

// frequency is the length of a tick in nanoseconds; whole is the same where it is a whole number.
type frequency struct {
	tick  float64
	whole uint64
}

func (f frequency) nanos(ticks uint64) Time {
	if f.whole != 0 && ticks < 1<<40 {
		return Time(ticks * f.whole)
	}
	return Time(float64(ticks) * f.tick)
}

func (g *generation) reset() {
	g.number, g.begin, g.end = 0, 0, 0
	g.frequency = frequency{}
	g.least, g.wall, g.snap, g.snapped = 0, 0, 0, false
	for i := range g.streams {
		clear(g.streams[i].batches)
		g.streams[i].batches = g.streams[i].batches[:0]
	}
	if len(g.streams) > 1024 {
		g.byID = nil // to clear it takes as long as to fill it, and the next generation may be small
	}
	g.streams = g.streams[:0]
	clear(g.byID)
	g.texts.reset()
	g.stacks.reset()
	g.samples = g.samples[:0]
}

// errNoEnd: a trace of Go 1.26 or newer ends without saying so.
var errNoEnd = errors.New("the last generation has no end")

// loader reads generations.
type loader struct {
	in *batches
	// held is a batch of the generation behind the one that was read last.
	held *batch
	// adrift: where the next batch begins is not known.
	adrift bool
	// number and time are those of the last good generation, 0 before the first: what a damaged
	// one says of itself is not believed.
	number, time uint64
}

// next reads the next generation into g. What was read is good if it reports so, even if
// there is an error, which then is of what stands behind. Without both it is the end.
func (l *loader) next(g *generation) (good bool, err error) {
	g.reset()
	g.begin = l.in.n
	if l.held != nil {
		g.begin = l.held.from
	}
	for {
		b := l.held
		l.held = nil
		if b == nil {
			if b, err = l.in.next(); err == nil && b.cut {
				err = l.in.corrupt("%w", errCut)
			}
			l.adrift = err != nil
		}
		switch {
		case err == io.EOF && g.number == 0:
			return false, nil
		case err == io.EOF && l.marked():
			return false, l.in.corrupt("%w", errNoEnd)
		case err == io.EOF:
			err = nil
			return l.finish(g, nil)
		case err != nil && !l.marked() && g.number != 0:
			// Where generations end without saying so this may be the next one's.
			g.end = l.in.out.from
			return l.finish(g, err)
		case err != nil:
			return false, err
		case b.kind == evEndOfGeneration && !l.marked():
			return false, l.in.corrupt("an end of a generation, which go1.%d does not write", l.in.minor)
		case b.kind == evEndOfGeneration:
			return l.finish(g, nil)
		case g.number == 0:
			g.number = b.gen
		case b.gen != g.number && (l.marked() || b.gen != g.number+1):
			l.hold(b)
			return false, &CorruptError{Offset: b.at, Err: fmt.Errorf("generation %d within generation %d", b.gen, g.number)}
		case b.gen != g.number:
			l.held = b
			g.end = b.from
			return l.finish(g, nil)
		}
		if err := g.add(b, l.in.minor); err != nil {
			return false, &CorruptError{Offset: b.at, Err: err}
		}
	}
}

// skip goes to where the generation behind g begins, which could not be read. It reports whether
// there is one.
func (l *loader) skip(g *generation) bool {
	for l.held == nil {
		if l.adrift && !l.in.resume(l.number, l.time) {
			return false
		}
		b, err := l.in.next()
		if l.adrift = err != nil && err != io.EOF; l.adrift {
			continue
		}
		if err == io.EOF || b.cut {
			return false
		}
		if b.kind == evEndOfGeneration {
			return true
		}
		if b.gen != g.number {
			l.hold(b)
		}
	}
	return true
}

// hold keeps a batch that is behind a damaged generation, if it can be one.
func (l *loader) hold(b *batch) {
	h := heading{gen: b.gen, time: b.time}
	if l.adrift = !h.follows(l.number, l.time); !l.adrift {
		l.held = b
	}
}

// marked reports whether ends of generations are in the trace.
func (l *loader) marked() bool { return l.in.minor >= 26 }

// finish checks what a generation needs.
func (l *loader) finish(g *generation, behind error) (bool, error) {
	if g.end == 0 {
		g.end = l.in.n
	}
	var err error
	switch {
	case g.tick == 0:
		err = errors.New("no frequency of the clock")
	case !g.snapped && l.in.minor >= 25:
		err = errors.New("no reading of the clocks")
	default:
		err = g.stacks.check(&g.texts)
	}
	if err != nil {
		if behind != nil { // it is the reason
			return false, behind
		}
		return false, &CorruptError{Offset: g.end, Err: err}
	}
	l.number, l.time = g.number, g.least
	for i := range g.samples {
		g.samples[i].time = g.nanos(g.samples[i].ticks)
	}
	slices.SortFunc(g.samples, func(a, b sample) int { return cmp.Compare(a.time, b.time) })
	return true, behind
}

// add adds a batch to the generation.
func (g *generation) add(b *batch, minor int) error {
	if g.least == 0 || b.time < g.least {
		g.least = b.time
	}
	if b.kind == evExperimentalBatch || len(b.data) == 0 {
		return nil
	}
	switch first := b.data[0]; {
	case first == evStrings:
		return g.texts.add(bytes.Clone(b.data))
	case first == evStacks:
		return g.stacks.add(bytes.Clone(b.data))
	case first == evCPUSamples:
		return g.addSamples(b.data[1:])
	case first == evSync && minor >= 25:
		return g.clocks(b.data[1:], b.time)
	case first == evFrequency && minor < 25:
		return g.clocks(b.data, b.time)
	}
	i, ok := g.byID[b.thread]
	if !ok {
		if b.thread > math.MaxInt64 && b.thread != math.MaxUint64 {
			return fmt.Errorf("a thread of number %d", b.thread)
		}
		if g.byID == nil {
			g.byID = map[uint64]int{}
		}
		i = len(g.streams)
		g.byID[b.thread] = i
		if i < cap(g.streams) { // with the memory of its list
			g.streams = g.streams[:i+1]
		} else {
			g.streams = append(g.streams, stream{})
		}
		g.streams[i].thread = ThreadID(b.thread)
	}
	if g.tables {
		return nil
	}
	s := &g.streams[i]
	s.batches = append(s.batches, span{data: bytes.Clone(b.data), at: b.at, time: b.time})
	return nil
}

// addSamples reads a batch of samples of the CPU profile.
func (g *generation) addSamples(data []byte) error {
	return numbered(data, func(kind byte) int { return only(kind, evCPUSample, 5) }, func(_ byte, v []uint64) {
		s := sample{ticks: v[0], m: ThreadID(v[1]), p: ProcID(v[2]), g: GoID(v[3]), stack: v[4]}
		if s.g == 0 {
			s.g = NoGoroutine
		}
		g.samples = append(g.samples, s)
	})
}

// clocks reads what a generation says about its clock.
func (g *generation) clocks(data []byte, at uint64) (err error) {
	bad := numbered(data, func(kind byte) int { return only(kind, evFrequency, 1) + only(kind, evClockSnapshot, 4) }, func(kind byte, v []uint64) {
		switch {
		case kind == evFrequency && (g.tick != 0 || v[0] == 0):
			err = errors.New("a second frequency of the clock, or none")
		case kind == evFrequency:
			// Ticks per second, as time.Duration counts them.
			g.tick = 1 / (float64(v[0]) / 1e9)
			if w := uint64(g.tick); float64(w) == g.tick && w <= 1<<20 {
				g.whole = w
			}
		case g.snapped:
			err = errors.New("a second reading of the clocks")
		default:
			g.snapped, g.snap = true, at+v[0]
			g.wall = time.Unix(int64(v[2]), int64(v[3])).UnixNano()
		}
	})
	return cmp.Or(bad, err)
}
