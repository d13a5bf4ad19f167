// Package jsonl reads files of one JSON value per line that come from anywhere:
// their size and that of each line are bounded, and a file that was cut, even within
// a line, gives what precedes the cut.
package jsonl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/whylate/whylate/evidence"
)

// Reader yields lines. It is for one goroutine.
type Reader struct {
	lines *bufio.Reader
	buf   []byte
	left  int64
	line  int
}

// NewReader reads from r at most most bytes, in lines of at most longest bytes.
func NewReader(r io.Reader, most int64, longest int) *Reader {
	return &Reader{lines: bufio.NewReaderSize(io.LimitReader(r, most+1), 64<<10), left: most, line: longest}
}

// Next returns the next line, valid until the one after it. It is the last one if the
// file ends without its newline: then the line may be cut, or empty. Errors wrap
// [evidence.ErrTooLarge] or that of the underlying reader.
func (r *Reader) Next() (line []byte, last bool, err error) {
	line = r.buf[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		line = append(line, part...)
		r.buf = line
		r.left -= int64(len(part))
		switch {
		case r.left < 0:
			return nil, false, fmt.Errorf("more bytes than any recording has: %w", evidence.ErrTooLarge)
		case len(line) > r.line:
			return nil, false, fmt.Errorf("longer than %d bytes: %w", r.line, evidence.ErrTooLarge)
		case err == nil:
			return line, false, nil
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF): // the latter is of a cut compressed file
			return line, true, nil
		case err != bufio.ErrBufferFull:
			return nil, false, err
		}
	}
}

// Each calls do with each line, until it returns an error. A last line that is no
// JSON, because it was cut or is empty, is left out. Errors tell what is read and
// the number of the line.
func (r *Reader) Each(what string, do func(line []byte) error) error {
	for n := 1; ; n++ {
		line, last, err := r.Next()
		if err == nil && last && !json.Valid(line) {
			return nil
		}
		if err == nil {
			err = do(line)
		}
		if err != nil {
			return fmt.Errorf("read %s, line %d: %w", what, n, err)
		}
		if last {
			return nil
		}
	}
}

// CheckSchema reports whether got, of the first line of what a file should be, has the
// name and the major version of want, such as "whylate.host/1". Errors wrap
// [evidence.ErrMalformed] or, if only the version is another one, [evidence.ErrVersion].
func CheckSchema(got, want string) error {
	name, version, _ := strings.Cut(got, "/")
	wanted, major, _ := strings.Cut(want, "/")
	version, _, _ = strings.Cut(version, ".")
	switch n, err := strconv.Atoi(version); {
	case name != wanted || err != nil || n < 1:
		return fmt.Errorf("%w: schema %.60q, want %q", evidence.ErrMalformed, got, want)
	case version != major:
		return fmt.Errorf("%w: schema %.60q, this whylate reads %q: use a newer whylate", evidence.ErrVersion, got, want)
	}
	return nil
}
