package gotrace

import (
	"bufio"
	"errors"
	"io"
	"math"
)

// Splitter divides a trace into sections, each of which is read by a Reader of its own: one after
// the other, which bounds what has to be known at a time, or several at once. It is not safe for
// concurrent use.
type Splitter struct {
	load loader
	raw  recorder
	most int64

	end   int64 // of the section before
	ahead int64 // of the generation behind it, which was read already
	// broken: the trace cannot be read on behind ahead, or what ends there cannot be read itself;
	// over: nothing is behind it.
	broken, over bool
	err          error // instead of the end
	damages      int
	// before is what was known at the end of the section before, now what is behind ahead.
	before, now past
	gen         generation
}

// past is the number of the last good generation of what was read, and when it began, as a loader
// knows it.
type past struct{ number, time uint64 }

// Section is a part of a trace, of whole generations, with the generation behind it.
type Section struct {
	begin, end int64
	header     [headerLen]byte
	minor      int
	raw        *recorded
	before     past
}

// Split divides a trace into sections of about most bytes, which must be positive, and of a
// generation at least; damage to what its events stand in ends a section, too. Errors are those of
// [NewReader].
func Split(r io.Reader, most int64) (*Splitter, error) {
	s := &Splitter{most: most, ahead: headerLen}
	s.raw.r = r
	in, err := newBatches(&s.raw)
	if err != nil {
		return nil, err
	}
	s.load.in, s.gen.tables = in, true
	return s, nil
}

// Version is that of [Reader.Version].
func (s *Splitter) Version() string { return version(s.load.in.minor) }

// Offset returns the number of bytes consumed: after the last section the length of the trace,
// unless damage ends it.
func (s *Splitter) Offset() int64 { return s.load.in.n }

// Next returns the next section, and [io.EOF] behind the last one. Damage is told by the section's
// Reader, and so are errors of the input, but for those behind damage, which end the trace.
func (s *Splitter) Next() (*Section, error) {
	begin := s.end
	if begin == 0 {
		s.generation()
	} else if s.over && s.ahead == s.end {
		return nil, io.EOF
	}
	out := &Section{begin: begin, end: math.MaxInt64, header: s.load.in.header, minor: s.load.in.minor, before: s.before}
	last := max(begin, headerLen)
	for !s.over && !s.broken {
		end, size := s.ahead, s.ahead-last
		// Where the generation behind is as long as this one, that is as near to most as it gets.
		full := size > 0 && end-begin+size/2 >= s.most
		last, s.before = end, s.now
		s.generation()
		if full && s.ahead > end {
			s.end, out.end, out.raw = end, end, s.raw.cut(end, s.ahead)
			return out, nil
		}
	}
	out.raw = s.raw.cut(s.behind(), s.ahead)
	if s.broken {
		s.resume()
		out.end = s.end
	} else {
		s.end, out.raw.err = s.ahead, s.err
	}
	return out, nil
}

// generation reads a generation as its Reader will, but for its events.
func (s *Splitter) generation() {
	good, err := s.load.next(&s.gen)
	s.now = past{s.load.number, s.load.time}
	var lost *CorruptError
	switch s.ahead = s.load.in.n; {
	case errors.As(err, &lost):
		s.broken = true
	case err != nil || !good:
		s.over, s.err = true, err
	default:
		s.ahead = s.gen.end
	}
}

// resume goes on behind damage. What it leaves out is not recorded.
func (s *Splitter) resume() {
	s.raw.loose = true
	s.damages++
	s.over = s.damages > maxDamages || !s.load.skip(&s.gen)
	s.raw.loose, s.broken, s.before = false, false, past{s.load.number, s.load.time}
	s.end = s.behind()
	s.raw.cut(s.end, s.end)
	if s.ahead = s.end; !s.over {
		s.generation()
	}
}

// behind is where what is read next begins.
func (s *Splitter) behind() int64 {
	if s.load.held != nil {
		return s.load.held.from
	}
	return s.load.in.n
}

// Begin is where the section begins in the trace, in bytes. The first one begins with the header.
func (s *Section) Begin() int64 { return s.begin }

// End is where the next section begins, [math.MaxInt64] if there is none, where the trace ends for
// one that ends with damage behind which there is nothing. What stands from there on is in both, but
// behind damage.
func (s *Section) End() int64 { return s.end }

// Len is how many bytes it has, without the generation behind it.
func (s *Section) Len() int64 {
	if s.end != math.MaxInt64 {
		return s.end - s.begin
	}
	n := max(0, headerLen-s.begin)
	for _, b := range s.raw.blocks {
		n += int64(len(b))
	}
	return n
}

// Reader returns a Reader of the section and of the generation behind it. Its offsets are those of
// the trace, its stacks are its own, and of all states it knows nothing at first, as at the
// beginning of a trace. It takes the section's memory, bit by bit: it is the only one.
func (s *Section) Reader() *Reader {
	from := max(s.begin, headerLen)
	r := newReader(&batches{r: bufio.NewReaderSize(s.raw, readSize), header: s.header, minor: s.minor, n: from})
	r.load.number, r.load.time = s.before.number, s.before.time
	return r
}

// recorder keeps what was read.
type recorder struct {
	r    io.Reader
	from int64 // where in the trace what is kept begins
	kept [][]byte
	// loose: only what may have been read ahead is kept, with the batch before.
	loose bool
}

// recordedBlock is how many bytes are kept in a piece: more than are read ahead, and a batch.
const recordedBlock = 256 << 10

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	for p := p[:n]; len(p) > 0; {
		k := len(r.kept) - 1
		if k < 0 || len(r.kept[k]) == cap(r.kept[k]) {
			r.kept = append(r.kept, make([]byte, 0, recordedBlock))
			k++
		}
		m := min(len(p), cap(r.kept[k])-len(r.kept[k]))
		r.kept[k] = append(r.kept[k], p[:m]...)
		p = p[m:]
	}
	for r.loose && len(r.kept) > 2 {
		r.from += int64(len(r.kept[0]))
		r.kept[0] = nil
		r.kept = r.kept[1:]
	}
	return n, err
}

// cut returns what was kept of the trace up to an offset. From another one on it is kept further.
func (r *recorder) cut(at, to int64) *recorded {
	out := &recorded{}
	var rest [][]byte
	from, begin := r.from, max(r.from, headerLen)
	for _, b := range r.kept {
		end := from + int64(len(b))
		if lo, hi := max(begin, from), min(to, end); hi > lo {
			out.blocks = append(out.blocks, b[lo-from:hi-from:hi-from])
		}
		if end > at {
			rest = append(rest, b[max(0, at-from):])
		}
		from = end
	}
	r.from, r.kept = max(at, r.from), rest
	return out
}

// recorded reads what was kept, and lets go of it.
type recorded struct {
	blocks [][]byte
	err    error // instead of the end
}

func (r *recorded) Read(p []byte) (int, error) {
	if len(r.blocks) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		return 0, io.EOF
	}
	n := copy(p, r.blocks[0])
	if r.blocks[0] = r.blocks[0][n:]; len(r.blocks[0]) == 0 {
		r.blocks[0] = nil
		r.blocks = r.blocks[1:]
	}
	return n, nil
}
