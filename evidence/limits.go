package evidence

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

const (
	// defaultMaxTrace is 32 times the largest trace that a recording makes unless
	// asked for more; beyond it the file is not the product of this tool.
	defaultMaxTrace = 16 << 30
	// defaultMaxMember holds a minute of host samples of 10,000 threads.
	defaultMaxMember = 64 << 20
	// defaultMaxRatio: deflate reaches 1,032:1 on zeros. Traces compress 2 to 5
	// times, repetitive JSON lines up to about 100 times.
	defaultMaxRatio = 200
	// ratioGrace is the output in bytes below which no ratio is computed: it is read
	// in a tenth of a second, and a log of equal lines may compress that well.
	ratioGrace = 16 << 20
	// maxMembers bounds the directory of the zip. Four times the known members
	// leaves room for later versions.
	maxMembers = 64
	// maxDirectory bounds what may be read of the zip before a member is opened:
	// the end record with its search window of 65 kB, and 64 directory entries.
	maxDirectory = 1 << 20
)

// Options bounds what reading an incident may cost. The zero value is the
// default of every bound.
type Options struct {
	// MaxTrace bounds the execution trace, in bytes after decompression; 0 means
	// 16 GiB.
	MaxTrace int64
	// MaxMember bounds every other member in the same way; 0 means 64 MiB.
	MaxMember int64
	// MaxRatio bounds the bytes out for each byte in of a compressed member, once
	// it has given 16 MiB; 0 means 200.
	MaxRatio int64
}

func (o Options) withDefaults() Options {
	if o.MaxTrace <= 0 {
		o.MaxTrace = defaultMaxTrace
	}
	if o.MaxMember <= 0 {
		o.MaxMember = defaultMaxMember
	}
	if o.MaxRatio <= 0 {
		o.MaxRatio = defaultMaxRatio
	}
	return o
}

// most returns the largest size of a member, in bytes after decompression.
func (o Options) most(name string) int64 {
	switch name {
	case MemberTrace:
		return o.MaxTrace
	case MemberManifest:
		return maxManifest
	}
	return o.MaxMember
}

// boundedReader reads a member and stops with ErrTooLarge after most bytes. It
// counts what it delivers: sizes in headers are claims.
type boundedReader struct {
	io.ReadCloser
	name string
	left int64
	most int64
	err  error
}

func newBoundedReader(r io.ReadCloser, name string, most int64) *boundedReader {
	return &boundedReader{ReadCloser: r, name: name, left: most, most: most}
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	// One byte more than allowed tells a member that fits exactly from one that
	// does not.
	if int64(len(p)) > r.left+1 {
		p = p[:r.left+1]
	}
	n, err := r.ReadCloser.Read(p)
	if int64(n) > r.left {
		n = int(r.left)
		err = fmt.Errorf("more than %d bytes: %w", r.most, ErrTooLarge)
	}
	r.left -= int64(n)
	r.err = readError(r.name, err)
	return n, r.err
}

// readError wraps what a decompressor or the zip package reports.
func readError(name string, err error) error {
	var disk *fs.PathError
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, ErrTooLarge), errors.As(err, &disk):
		return fmt.Errorf("read member %s: %w", name, err)
	}
	return fmt.Errorf("read member %s: %w: %w", name, ErrMalformed, err)
}

// countingReader counts the bytes taken from a compressed stream. It is not an
// io.ByteReader, so a decompressor reads it in blocks.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// ratioReader fails with ErrTooLarge when a decompressor gives more than max
// bytes for each byte it took.
type ratioReader struct {
	io.ReadCloser
	in  *countingReader
	out int64
	max int64
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.out += int64(n)
	if r.out > ratioGrace && r.out > r.max*r.in.n {
		return 0, fmt.Errorf("expands more than %d times: %w", r.max, ErrTooLarge)
	}
	return n, err
}

// inflater returns a zip decompressor that watches the ratio.
func inflater(max int64) zip.Decompressor {
	return func(r io.Reader) io.ReadCloser {
		in := &countingReader{r: r}
		return &ratioReader{ReadCloser: flate.NewReader(in), in: in, max: max}
	}
}

// budgetReaderAt passes at most left bytes. The zip package reads directory
// entries for as long as they look like entries, whatever their announced
// number; the budget is what stops it. It is used by one goroutine, before the
// incident is handed out; afterwards open lifts the bound.
type budgetReaderAt struct {
	r    io.ReaderAt
	left int64
	open bool
}

var errBudget = errors.New("the directory of the zip is too large")

func (b *budgetReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if b.open {
		return b.r.ReadAt(p, off)
	}
	if b.left <= 0 {
		return 0, errBudget
	}
	n, err := b.r.ReadAt(p, off)
	b.left -= int64(n)
	return n, err
}
