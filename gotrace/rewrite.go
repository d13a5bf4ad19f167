package gotrace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Use says what the strings of a trace are there for. One string may have several uses:
// the runtime writes each text once in a generation.
type Use uint8

// The uses. A string without any is in the table and nowhere else.
const (
	// UseWord is a word of the runtime: why a goroutine waits, why the world stops, what a
	// worker of the collector is.
	UseWord Use = 1 << iota
	// UseFunc and UseFile are of stacks.
	UseFunc
	UseFile
	// UseName is the name of a task or a region, UseLog the category or the text of what the
	// program wrote with runtime/trace.Log.
	UseName
	UseLog
)

// MaxString is the length in bytes beyond which readers refuse a string of a trace.
const MaxString = 1 << 10

// Rewritten is what [Rewrite] did.
type Rewritten struct {
	// Strings is how many were passed to rename.
	Strings int64
	// Dropped are batches of experiments (GODEBUG=traceallocfree): they hold names of types in
	// formats that change.
	Dropped int64
	// Cut is how many bytes stand behind the last whole batch, because the end is missing. It is
	// missing in what was written, too.
	Cut int64
}

// Rewrite copies a trace with other strings. All else stays as it is: events, times, program
// counters and lines. open is called twice, and must give the same bytes each time: what a
// string is used for is known when its generation has been read. rename gets each entry of
// the tables of strings; what it returns is cut to [MaxString]. An entry that stacks share
// with annotations is passed once for each, and becomes two.
//
// Memory is bounded by the strings of a generation. Nothing is copied that was not understood:
// a trace that is damaged, or has kinds of events that this version does not know, gives a
// [*CorruptError], one of another version an error that wraps [ErrFormat].
func Rewrite(w io.Writer, open func() (io.ReadCloser, error), rename func(Use, string) string) (Rewritten, error) {
	var both [2]*batches
	for i := range both {
		in, err := open()
		if err != nil {
			return Rewritten{}, err
		}
		defer in.Close()
		if both[i], err = newBatches(in); err != nil {
			return Rewritten{}, err
		}
	}
	ahead, behind := both[0], both[1]
	x := rewriter{out: bufio.NewWriterSize(w, 64<<10), rename: rename}
	x.out.Write(behind.header[:])
	scan := scanner{in: ahead}
	gen, begun := uint64(0), false
	for {
		b, err := behind.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return x.Rewritten, err
		}
		if b.kind != evEndOfGeneration && (!begun || b.gen != gen) {
			gen, begun = b.gen, true
			if err := scan.generation(); err != nil {
				return x.Rewritten, err
			}
			x.uses, x.framed = scan.uses, scan.framed()
		}
		if err := x.batch(b); err != nil {
			return x.Rewritten, err
		}
	}
	return x.Rewritten, x.out.Flush()
}

// maxStrings bounds the strings that events of a generation refer to: a program that writes a
// hundred thousand lines a second with trace.Log has as many.
const maxStrings = 4 << 20

// strung is which of an event's numbers are strings, and for what.
var strung = map[byte][]struct {
	at  int
	use Use
}{
	evGoStop: {{1, UseWord}}, evGoBlock: {{1, UseWord}}, evSTWBegin: {{1, UseWord}}, evGoLabel: {{1, UseWord}},
	evUserTaskBegin: {{3, UseName}}, evUserRegionBegin: {{2, UseName}}, evUserRegionEnd: {{2, UseName}},
	evUserLog: {{2, UseLog}, {3, UseLog}},
}

// scanner reads ahead and learns what strings are used for.
type scanner struct {
	in   *batches
	next *batch // of the generation after the last one
	uses map[uint64]Use
	// last is the largest id of a string.
	last uint64
	// named are pairs of a function and a file, which frames repeat all the time.
	named map[[2]uint64]bool
}

// framed returns the new ids of the strings that frames of stacks share with events: frames get
// entries of their own.
func (s *scanner) framed() map[uint64]uint64 {
	out := map[uint64]uint64{}
	for id := range s.uses {
		if id <= maxID { // what is beyond is in no table
			s.last = max(s.last, id)
		}
	}
	for id, u := range s.uses {
		if u&inFrames != 0 && u&^inFrames != 0 {
			s.last++
			out[id] = s.last
		}
	}
	return out
}

const inFrames = UseFunc | UseFile

// generation learns the uses of the strings of the next generation.
func (s *scanner) generation() error {
	s.uses, s.named, s.last = map[uint64]Use{}, map[[2]uint64]bool{}, 0
	gen, begun := uint64(0), false
	b := s.next
	for s.next = nil; ; b = nil {
		if b == nil {
			var err error
			if b, err = s.in.next(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		if b.kind == evEndOfGeneration {
			continue
		}
		if begun && b.gen != gen {
			s.next = b
			return nil
		}
		gen, begun = b.gen, true
		if b.cut || b.kind == evExperimentalBatch {
			continue
		}
		if err := s.batch(b.data); err != nil {
			return s.in.corrupt("%w", err)
		}
		if len(s.uses) > maxStrings {
			return s.in.corrupt("more than %d strings in a generation", maxStrings)
		}
		if len(s.named) > maxStrings {
			clear(s.named)
		}
	}
}

// batch reads one batch of events. What begins it says what is in it.
func (s *scanner) batch(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	switch rest := data[1:]; data[0] {
	case evStrings:
		return eachString(rest, func(id uint64, _ []byte) error { return s.seen(id) })
	case evStacks:
		return s.stacks(rest)
	case evCPUSamples:
		return numbered(rest, func(kind byte) int { return only(kind, evCPUSample, 5) }, nil)
	case evSync:
		return numbered(rest, func(kind byte) int { return only(kind, evFrequency, 1) + only(kind, evClockSnapshot, 4) }, nil)
	case evFrequency:
		return numbered(data, func(kind byte) int { return only(kind, evFrequency, 1) }, nil)
	}
	return numbered(data, func(kind byte) int { return int(arguments[kind]) }, func(kind byte, args []uint64) {
		for _, x := range strung[kind] {
			s.uses[args[x.at]] |= x.use
		}
	})
}

func only(kind, want byte, n int) int {
	if kind == want {
		return n
	}
	return 0
}

// seen learns an id: there has to be room for others behind it.
func (s *scanner) seen(id uint64) error {
	if id > maxID {
		return fmt.Errorf("a string of number %d", id)
	}
	s.last = max(s.last, id)
	return nil
}

// stacks reads a batch of stacks.
func (s *scanner) stacks(data []byte) error {
	var err error
	number := func() (v uint64) {
		if err == nil {
			v, data, err = uvarint(data)
		}
		return v
	}
	for len(data) > 0 && err == nil {
		if data[0] != evStack {
			return fmt.Errorf("an event of kind %d among stacks", data[0])
		}
		data = data[1:]
		number() // its id
		frames := number()
		if err == nil && frames > maxInARow {
			return fmt.Errorf("a stack of %d frames, at most %d", frames, maxInARow)
		}
		for range frames {
			number() // the program counter
			fn, file := number(), number()
			number() // the line
			if err != nil {
				return err
			}
			if pair := [2]uint64{fn, file}; !s.named[pair] {
				if err := errors.Join(s.seen(fn), s.seen(file)); err != nil {
					return err
				}
				s.named[pair] = true
				s.uses[fn] |= UseFunc
				s.uses[file] |= UseFile
			}
		}
	}
	return err
}

// numbered reads events that have nothing but numbers: so many as args says, 0 of kinds that
// must not be there.
func numbered(data []byte, args func(kind byte) int, do func(kind byte, args []uint64)) error {
	var list [8]uint64
	for len(data) > 0 {
		kind := data[0]
		n := args(kind)
		if n == 0 {
			return fmt.Errorf("an event of kind %d where there is none", kind)
		}
		data = data[1:]
		for i := range n {
			var err error
			if list[i], data, err = uvarint(data); err != nil {
				return err
			}
		}
		if do != nil {
			do(kind, list[:n])
		}
	}
	return nil
}

// eachString reads the entries of a batch of strings.
func eachString(data []byte, do func(id uint64, s []byte) error) error {
	for len(data) > 0 {
		if data[0] != evString {
			return fmt.Errorf("an event of kind %d among strings", data[0])
		}
		id, rest, err := uvarint(data[1:])
		if err != nil {
			return err
		}
		size, rest, err := uvarint(rest)
		if err != nil {
			return err
		}
		if size > MaxString || size > uint64(len(rest)) {
			return fmt.Errorf("a string of %d bytes where %d are left", size, len(rest))
		}
		if err := do(id, rest[:size]); err != nil {
			return err
		}
		data = rest[size:]
	}
	return nil
}

func uvarint(data []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, nil, errors.New("a number without an end")
	}
	return v, data[n:], nil
}

// rewriter writes batches.
type rewriter struct {
	Rewritten
	out    *bufio.Writer
	uses   map[uint64]Use
	framed map[uint64]uint64
	rename func(Use, string) string
	buf    []byte
}

// batch writes a batch; errors of the writer come with the last one.
func (x *rewriter) batch(b *batch) error {
	switch {
	case b.cut: // without its data: a reader finds the end missing here
		x.Cut = int64(len(b.head) + len(b.data))
		_, err := x.out.Write(b.head)
		return err
	case b.kind == evEndOfGeneration:
		return x.out.WriteByte(b.kind)
	case b.kind == evExperimentalBatch:
		x.Dropped++
		return nil
	case len(b.data) > 0 && b.data[0] == evStrings:
		return x.strings(b)
	case len(b.data) > 0 && b.data[0] == evStacks && len(x.framed) > 0:
		return x.stacks(b)
	}
	return x.put(b.head, b.data)
}

func (x *rewriter) put(head, data []byte) error {
	x.out.Write(head)
	x.out.Write(binary.AppendUvarint(nil, uint64(len(data))))
	_, err := x.out.Write(data)
	return err
}

// strings writes a batch of strings with others in their place.
func (x *rewriter) strings(b *batch) error {
	x.buf = append(x.buf[:0], evStrings)
	err := eachString(b.data[1:], func(id uint64, old []byte) error {
		u := x.uses[id]
		if frame, ok := x.framed[id]; ok {
			if err := x.string(b, frame, u&inFrames, old); err != nil {
				return err
			}
			u &^= inFrames
		}
		return x.string(b, id, u, old)
	})
	if err != nil {
		return err
	}
	return x.put(b.head, x.buf)
}

func (x *rewriter) string(b *batch, id uint64, u Use, old []byte) error {
	s := x.rename(u, string(old))
	x.Strings++
	if len(s) > MaxString {
		s = s[:MaxString]
	}
	entry := binary.AppendUvarint([]byte{evString}, id)
	entry = binary.AppendUvarint(entry, uint64(len(s)))
	return x.add(b, append(entry, s...))
}

// add appends an entry of a table to the batch that is being written, and begins another one
// where it would become too long.
func (x *rewriter) add(b *batch, entry []byte) error {
	if len(x.buf)+len(entry) > maxBatch {
		if err := x.put(b.head, x.buf); err != nil {
			return err
		}
		x.buf = append(x.buf[:0], b.data[0])
	}
	x.buf = append(x.buf, entry...)
	return nil
}

// stacks writes a batch of stacks with the new ids of strings.
func (x *rewriter) stacks(b *batch) error {
	x.buf = append(x.buf[:0], evStacks)
	var entry []byte
	data := b.data[1:]
	number := func() uint64 {
		v, n := binary.Uvarint(data) // the scanner has seen that it is there
		data = data[n:]
		return v
	}
	for len(data) > 0 {
		data = data[1:]
		entry = binary.AppendUvarint(append(entry[:0], evStack), number())
		frames := number()
		entry = binary.AppendUvarint(entry, frames)
		for range frames {
			for i := range 4 { // program counter, function, file, line
				v := number()
				if to, ok := x.framed[v]; ok && (i == 1 || i == 2) {
					v = to
				}
				entry = binary.AppendUvarint(entry, v)
			}
		}
		if err := x.add(b, entry); err != nil {
			return err
		}
	}
	return x.put(b.head, x.buf)
}
