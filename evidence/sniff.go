package evidence

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"unicode"
)

// Kind is what a file turned out to be.
type Kind int

// The kinds of file that Read and Open accept.
const (
	// KindIncident is a *.whylate zip.
	KindIncident Kind = iota + 1
	// KindTrace is a bare Go execution trace.
	KindTrace
	// KindGzipTrace is a Go execution trace compressed with gzip.
	KindGzipTrace
)

func (k Kind) String() string {
	switch k {
	case KindIncident:
		return "incident"
	case KindTrace:
		return "Go execution trace"
	case KindGzipTrace:
		return "gzip of a Go execution trace"
	}
	return "unknown"
}

const (
	// TraceHeaderLen is the length in bytes of the header of a Go execution trace.
	TraceHeaderLen = 16
	// firstTraceMinor: traces of Go 1.21 and older have another format.
	firstTraceMinor = 22
	sniffLen        = 512
)

// TraceFormat reads the 16-byte header of a Go execution trace,
// "go 1.NN trace\0\0\0", and returns its version such as "go1.26". The error is
// ErrNotIncident if b does not begin with such a header, and ErrOld if the
// format is that of Go 1.21 or older.
func TraceFormat(b []byte) (string, error) {
	if len(b) < TraceHeaderLen {
		return "", fmt.Errorf("not a Go execution trace: %w", ErrNotIncident)
	}
	rest, found := bytes.CutPrefix(b[:TraceHeaderLen], []byte("go 1."))
	digits, tail, cut := bytes.Cut(rest, []byte(" trace"))
	minor, err := strconv.ParseUint(string(digits), 10, 16)
	if !found || !cut || err != nil || len(bytes.Trim(tail, "\x00")) > 0 {
		return "", fmt.Errorf("not a Go execution trace: %w", ErrNotIncident)
	}
	if minor < firstTraceMinor {
		return "", fmt.Errorf("%w: the trace was written by Go 1.%d, whylate reads traces of Go 1.%d and newer: build the target with a newer Go", ErrOld, minor, firstTraceMinor)
	}
	return fmt.Sprintf("go1.%d", minor), nil
}

// Sniff says what kind of file r is from its first bytes. What is none of the
// kinds gives one line that names what it looks like; it wraps ErrNotIncident,
// or ErrVersion for a trace of a Go version that is too old.
func Sniff(r io.ReaderAt, size int64) (Kind, error) {
	if size <= 0 {
		return 0, fmt.Errorf("the file is empty: %w", ErrNotIncident)
	}
	head := make([]byte, min(size, sniffLen))
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return 0, fmt.Errorf("read the first bytes: %w", err)
	}
	return sniff(head[:n], io.NewSectionReader(r, 0, size))
}

func sniff(head []byte, all io.Reader) (Kind, error) {
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return KindIncident, nil
	case bytes.HasPrefix(head, []byte("go 1.")):
		_, err := TraceFormat(head)
		return KindTrace, err
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return sniffGzip(all)
	}
	return 0, fmt.Errorf("the file looks like %s, want an incident (*.whylate) or a Go execution trace: %w", Describe(head), ErrNotIncident)
}

func sniffGzip(all io.Reader) (Kind, error) {
	z, err := gzip.NewReader(all)
	if err != nil {
		return 0, fmt.Errorf("the file begins like gzip and is not: %w", ErrMalformed)
	}
	head := make([]byte, sniffLen)
	n, err := io.ReadFull(z, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, fmt.Errorf("decompress the first bytes: %w: %w", ErrMalformed, err)
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte("go 1.")) {
		_, err := TraceFormat(head)
		return KindGzipTrace, err
	}
	return 0, fmt.Errorf("the file looks like gzip of %s, want an incident (*.whylate) or a Go execution trace: %w", Describe(head), ErrNotIncident)
}

// Describe names what data with these first bytes looks like, for error
// messages: "a pprof profile", "an HTML page". It never repeats the data but
// for eight bytes, quoted.
func Describe(head []byte) string {
	text := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))))
	for _, look := range []struct {
		prefix, what string
	}{
		{"go 1.", "a Go execution trace"},
		{"\x1f\x8b", "gzip data"},
		{"pk\x03\x04", "a zip archive"},
		{"\x7felf", "a program (ELF)"},
		{"perfile2", "a perf recording"},
		{"goroutine profile:", "a goroutine profile in text form"},
		{"goroutine ", "a dump of goroutine stacks"},
		{"heap profile:", "a heap profile in text form"},
		{"--- ", "a contention profile in text form"},
		{"<!doctype html", "an HTML page"},
		{"<html", "an HTML page"},
		{"<", "an HTML or XML page"},
		{"{", "JSON"},
		{"[", "JSON"},
	} {
		if bytes.HasPrefix(text, []byte(look.prefix)) && (len(look.prefix) > 1 || !bytes.ContainsFunc(text, isControl)) {
			return look.what // one byte alone may be anything's
		}
	}
	switch {
	case len(head) == 0:
		return "nothing (it is empty)"
	case isProfile(head):
		return "a pprof profile"
	}
	return "something else (it begins with " + strconv.QuoteToASCII(string(head[:min(len(head), 8)])) + ")"
}

// isControl reports whether a character stands in no text.
func isControl(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

// isProfile reports whether head begins like the protocol buffer of a profile:
// with a sample type (field 1) or the period type (field 11), both messages that
// begin with a varint in field 1, or with the time (field 9), a varint of nine
// bytes for every ns since 1973. Which one comes first depends on the writer.
func isProfile(head []byte) bool {
	if len(head) < 10 {
		return false
	}
	switch head[0] {
	case 1<<3 | 2, 11<<3 | 2:
		return head[1] < 16 && head[2] == 1<<3
	case 9 << 3:
		for _, b := range head[1:9] {
			if b < 0x80 {
				return false
			}
		}
		return head[9] < 0x80
	}
	return false
}
