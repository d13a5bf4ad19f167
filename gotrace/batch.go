package gotrace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// batch is one as it stands in a trace: events of one thread in order of time, or a table.
type batch struct {
	kind   byte
	gen    uint64
	thread uint64
	time   uint64
	// head is all before the size, data all behind it. They begin in the trace at from and at.
	head, data []byte
	from, at   int64
	// cut says that the trace ends within the batch; then head is what there is before the data.
	cut bool
}

// batches reads the batches of a trace.
type batches struct {
	r      *bufio.Reader
	header [headerLen]byte
	minor  int
	n      int64 // bytes consumed
	head   []byte
	data   []byte
	out    batch
	done   bool
}

// readSize is how much is read at a time.
const readSize = 128 << 10

// newBatches reads the header of a trace.
func newBatches(r io.Reader) (*batches, error) {
	b := &batches{r: bufio.NewReaderSize(r, readSize), n: headerLen}
	if _, err := io.ReadFull(b.r, b.header[:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("%w: shorter than its header", ErrFormat)
		}
		return nil, err
	}
	if _, err := fmt.Sscanf(string(b.header[:]), "go 1.%d trace\x00\x00\x00", &b.minor); err != nil {
		return nil, fmt.Errorf("%w: it begins with %.16q", ErrFormat, b.header)
	}
	switch {
	case b.minor < oldestMinor:
		return nil, fmt.Errorf("%w: written by go1.%d; go1.%d or newer is needed", ErrFormat, b.minor, oldestMinor)
	case b.minor > newestMinor:
		return nil, fmt.Errorf("%w: written by go1.%d; up to go1.%d is known", ErrNewer, b.minor, newestMinor)
	case b.minor == 24:
		return nil, fmt.Errorf("%w: no Go writes the format go1.%d", ErrFormat, b.minor)
	}
	return b, nil
}

// errCut: the trace ends within a batch.
var errCut = errors.New("the end is missing")

// next returns the next batch, valid until the one after it, and io.EOF at the end. A batch
// that is cut is the last one.
func (b *batches) next() (*batch, error) {
	if b.done {
		return nil, io.EOF
	}
	err := b.read()
	switch {
	case errors.Is(err, errCut):
		b.done, b.out.cut = true, true
		return &b.out, nil
	case err == io.EOF:
		b.done = true
		return nil, io.EOF
	case err != nil:
		return nil, err
	}
	return &b.out, nil
}

func (b *batches) read() error {
	b.head = b.head[:0]
	out := &b.out
	*out = batch{from: b.n}
	kind, err := b.r.ReadByte()
	if err != nil {
		return err
	}
	b.n++
	b.head = append(b.head, kind)
	out.kind, out.head = kind, b.head
	switch kind {
	case evEndOfGeneration:
		return nil
	case evExperimentalBatch:
		c, err := b.r.ReadByte()
		if err != nil {
			return cutOr(err)
		}
		b.n++
		b.head = append(b.head, c)
	case evEventBatch:
	default:
		return b.corrupt("there is no batch but an event of kind %d", kind)
	}
	for _, to := range []*uint64{&out.gen, &out.thread, &out.time} {
		*to, err = b.uvarint()
		out.head = b.head
		if err != nil {
			return err
		}
	}
	if out.gen == 0 {
		return b.corrupt("generation 0")
	}
	before := len(b.head)
	size, err := b.uvarint()
	out.head = b.head
	if err != nil {
		return err
	}
	if size > maxBatch {
		return b.corrupt("a batch of %d bytes, at most %d", size, maxBatch)
	}
	if cap(b.data) < int(size) {
		b.data = make([]byte, size, maxBatch)
	}
	b.data = b.data[:size]
	out.at = b.n
	n, err := io.ReadFull(b.r, b.data)
	b.n += int64(n)
	if err != nil {
		out.data = b.data[:n] // counted, and not looked at
		return cutOr(err)
	}
	out.head, out.data = b.head[:before], b.data
	return nil
}

// uvarint reads a number of a batch's head.
func (b *batches) uvarint() (uint64, error) {
	var v uint64
	for i := range binary.MaxVarintLen64 {
		c, err := b.r.ReadByte()
		if err != nil {
			return 0, cutOr(err)
		}
		b.n++
		b.head = append(b.head, c)
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, nil
		}
	}
	return 0, b.corrupt("a number of more than 64 bits")
}

func cutOr(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errCut
	}
	return err
}

func (b *batches) corrupt(format string, args ...any) error {
	return &CorruptError{Offset: b.n, Err: fmt.Errorf(format, args...)}
}

// resume finds the first batch behind damage: something that has the form of one, and behind it
// the form of others, younger than a generation and a time in the trace, which are 0 if they are
// not known. It reports whether there is one.
func (b *batches) resume(gen, time uint64) bool {
	for !b.done {
		ahead, err := b.r.Peek(b.r.Size())
		for i := 0; i < len(ahead); i++ {
			j := bytes.IndexByte(ahead[i:], evEventBatch)
			if j < 0 {
				break
			}
			i += j
			if h, ok := head(ahead[i:]); ok && h.follows(gen, time) && h.followed(ahead[i:], time, err != nil) {
				b.skip(i)
				return true
			}
		}
		if err != nil {
			b.skip(len(ahead))
			b.done = true
			break
		}
		// A batch that begins in the second half is looked at when all of it is there, and the head
		// behind it.
		b.skip(len(ahead) - maxBatch - 2*maxHead - 1)
	}
	return false
}

// maxGap is how many generations damage may hide.
const maxGap = 1 << 10

func (b *batches) skip(n int) {
	m, _ := b.r.Discard(n)
	b.n += int64(m)
}

// heading is the head of a batch; the batch ends end bytes behind where it begins.
type heading struct {
	gen, time uint64
	end       int
}

// maxHead is the length of the longest head of a batch.
const maxHead = 2 + 4*binary.MaxVarintLen64

// head reads the head of a batch.
func head(data []byte) (h heading, ok bool) {
	if len(data) == 0 {
		return h, false
	}
	at := 1
	switch data[0] {
	case evEventBatch:
	case evExperimentalBatch:
		at = 2
	default:
		return h, false
	}
	var thread, size uint64
	for _, to := range []*uint64{&h.gen, &thread, &h.time, &size} {
		if at >= len(data) {
			return h, false
		}
		v, n := binary.Uvarint(data[at:])
		if n <= 0 {
			return h, false
		}
		*to = v
		at += n
	}
	if h.gen == 0 || size > maxBatch || thread > math.MaxInt64 && thread != math.MaxUint64 {
		return h, false
	}
	h.end = at + int(size)
	return h, true
}

// follows reports whether a batch can be behind a generation that began at a time, both 0 if
// they are not known. No trace is longer than maxLength.
func (h heading) follows(gen, time uint64) bool {
	return (gen == 0 || h.gen > gen && h.gen-gen <= maxGap) && (time == 0 || h.time >= time && h.time-time < maxLength)
}

// maxLength is a number of ticks: an hour if they are of a CPU, three days on Linux.
const maxLength = 1 << 42

// followed reports whether what begins with the batch goes on with another one and, as far as
// data is there, a third, or ends with one of them.
func (h heading) followed(data []byte, time uint64, last bool) bool {
	for n := range 2 {
		if h.end > len(data) {
			return n > 0
		}
		data = data[h.end:]
		if len(data) > 0 && data[0] == evEndOfGeneration {
			data = data[1:]
		}
		if len(data) == 0 {
			return n > 0 || last
		}
		next, ok := head(data)
		if !ok {
			return n > 0 && !last && len(data) < maxHead
		}
		if next.gen-h.gen > 1 || !next.follows(0, time) {
			return false
		}
		h = next
	}
	return true
}
