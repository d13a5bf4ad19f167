// Package evidence reads and writes the incident file: everything that is known
// about one recording of a Go service, in one zip.
//
// Every member is in a standard format under a fixed name (see the Member
// constants), so that go tool trace, go tool pprof and jq can open what unzip
// takes out. The manifest says what was recorded, what was not and why, and on
// which clocks. The file needs nothing else: it may be recorded in a pod and
// diagnosed on a laptop.
//
// Reading is safe on hostile input. Members are found by exact name and never
// extracted to paths; numbers of members, sizes and compression ratios are
// bounded by counting what is really read. A bare Go execution trace, also
// gzipped, opens as an incident with a minimal manifest.
package evidence

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What reading and writing can fail with; errors wrap one of them or one of the
// operating system's.
var (
	// ErrNotIncident: the file is something else.
	ErrNotIncident = errors.New("not an incident")
	// ErrTooLarge: a bound of Options was reached.
	ErrTooLarge = errors.New("too large")
	// ErrMalformed: the file is damaged, cut short or hostile.
	ErrMalformed = errors.New("malformed incident")
	// ErrCut: the end of the file is missing. It is an ErrMalformed too.
	ErrCut = fmt.Errorf("%w, cut short", ErrMalformed)
	// ErrVersion: the file has a format that this version does not read.
	ErrVersion = errors.New("unsupported version")
	// ErrSpecial: an incident cannot replace what is there, such as a device or a pipe.
	ErrSpecial = errors.New("it is there, and no regular file")
	// ErrOld: an ErrVersion of something too old; others are newer than this whylate.
	ErrOld = fmt.Errorf("%w, too old", ErrVersion)
)

// Incident is an opened incident file. Its methods may be called concurrently,
// and several members may be read at the same time; the readers must be closed
// before the incident.
type Incident struct {
	// Manifest belongs to the caller. Its text comes from the file: quote it
	// before printing it to a terminal.
	Manifest Manifest
	// Path is what Open opened; "" after Read.
	Path string
	// Kind is what the file was.
	Kind Kind
	// Unknown lists members of the zip that this version does not know, in the
	// order of the zip. They cannot be opened.
	Unknown []string

	options Options
	source  *io.SectionReader
	files   map[string]*zip.File // nil if Kind is not KindIncident
	closer  io.Closer
}

// Open opens the incident, bare trace or gzipped trace at path. The caller
// closes it.
func Open(path string, options Options) (*Incident, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err // names the operation and the path
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is not a regular file: %w", ErrNotIncident)}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	in, err := Read(f, info.Size(), options)
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	in.closer, in.Path = f, path
	if in.Kind != KindIncident {
		in.Manifest.Target.File = filepath.Base(path)
	}
	return in, nil
}

// Read opens the incident, bare trace or gzipped trace of size bytes in r. It
// keeps r, and reads no more of it than the directory and the manifest until a
// member is opened.
func Read(r io.ReaderAt, size int64, options Options) (*Incident, error) {
	kind, err := Sniff(r, size)
	if err != nil {
		return nil, err
	}
	in := &Incident{Kind: kind, options: options.withDefaults(), source: io.NewSectionReader(r, 0, size)}
	if kind == KindIncident {
		err = in.readZip(r, size)
	} else {
		err = in.bareTrace(size)
	}
	if err != nil {
		return nil, err
	}
	return in, nil
}

// bareTrace fills the manifest of an incident that is only a trace.
func (in *Incident) bareTrace(size int64) error {
	r, err := in.Member(MemberTrace)
	if err != nil {
		return err
	}
	defer r.Close()
	head := make([]byte, TraceHeaderLen)
	if _, err := io.ReadFull(r, head); err != nil {
		return fmt.Errorf("read the header of the trace: %w", err)
	}
	format, err := TraceFormat(head)
	if err != nil {
		return err
	}
	in.Manifest = Manifest{
		Schema: Schema,
		Target: Target{Kind: "file", TraceFormat: format},
		NotRecorded: []NotRecorded{{
			What:    "profiles, host and kernel evidence",
			Why:     "the file is a bare Go execution trace",
			Command: "whylate record URL",
		}},
	}
	trace := Recorded{Member: MemberTrace, What: what(MemberTrace)}
	if in.Kind == KindTrace {
		trace.Bytes = size // of gzip it is not known before all of it is read
	}
	in.Manifest.Recorded = []Recorded{trace}
	return nil
}

// readZip reads the directory and the manifest.
func (in *Incident) readZip(r io.ReaderAt, size int64) error {
	if err := checkEnd(r, size); err != nil {
		return err
	}
	budget := &budgetReaderAt{r: r, left: maxDirectory}
	z, err := zip.NewReader(budget, size)
	if errors.Is(err, errBudget) {
		return fmt.Errorf("read the directory: %w: %w", ErrTooLarge, err)
	}
	if err != nil {
		return fmt.Errorf("read the directory: %w: %w", ErrMalformed, err)
	}
	budget.open = true
	z.RegisterDecompressor(zip.Deflate, inflater(in.options.MaxRatio))
	if err := in.index(z.File); err != nil {
		return err
	}
	return in.readManifest()
}

// The end of a zip: the end record, and before it, if a field of it overflows,
// the locator of a 64-bit end record (APPNOTE.TXT 4.3.14 to 4.3.16).
const (
	endLen     = 22
	locatorLen = 20
	end64Len   = 56
)

// checkEnd bounds the announced number of members before the zip package
// allocates for it. It wants the end record to be the last bytes of the file,
// without a comment: then the record it checks is the one that the zip package
// will use.
func checkEnd(r io.ReaderAt, size int64) error {
	cut := fmt.Errorf("%w: the end of the zip is missing; copy the file again", ErrCut)
	if size < endLen {
		return cut
	}
	end, err := readAt(r, size-endLen, endLen)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(end, []byte("PK\x05\x06")) || binary.LittleEndian.Uint16(end[20:]) != 0 {
		return cut
	}
	records := uint64(binary.LittleEndian.Uint16(end[10:]))
	if locatorAt := size - endLen - locatorLen; locatorAt >= 0 {
		locator, err := readAt(r, locatorAt, locatorLen)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(locator, []byte("PK\x06\x07")) {
			at := binary.LittleEndian.Uint64(locator[8:])
			if at > uint64(locatorAt) || uint64(locatorAt)-at < end64Len {
				return fmt.Errorf("the 64-bit end of the zip is not in the file: %w", ErrMalformed)
			}
			end64, err := readAt(r, int64(at), end64Len)
			if err != nil {
				return err
			}
			if records == 0xffff { // "see the 64-bit record"
				records = 0
			}
			records = max(records, binary.LittleEndian.Uint64(end64[32:]))
		}
	}
	if records > maxMembers {
		return fmt.Errorf("the zip has %d members, at most %d: %w", records, maxMembers, ErrTooLarge)
	}
	return nil
}

func readAt(r io.ReaderAt, off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := r.ReadAt(b, off); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read the end of the zip: %w", err)
	}
	return b, nil
}

// index sorts the entries of the zip into members and unknown names, and
// refuses every entry that a program which extracts files could stumble over.
func (in *Incident) index(files []*zip.File) error {
	if len(files) > maxMembers {
		return fmt.Errorf("the zip has %d members, at most %d: %w", len(files), maxMembers, ErrTooLarge)
	}
	in.files = make(map[string]*zip.File, len(files))
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		if err := checkEntry(f); err != nil {
			return fmt.Errorf("member %s: %w: %w", quote(f.Name), ErrMalformed, err)
		}
		if seen[f.Name] {
			return fmt.Errorf("member %s: %w: the name occurs twice", quote(f.Name), ErrMalformed)
		}
		seen[f.Name] = true
		if known(f.Name) {
			in.files[f.Name] = f
		} else {
			in.Unknown = append(in.Unknown, f.Name)
		}
	}
	return nil
}

func checkEntry(f *zip.File) error {
	control := func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\uFFFD' }
	switch {
	case f.Name == "" || f.Name == "." || f.Name == "..":
		return errors.New("not a file name")
	case strings.ContainsAny(f.Name, `/\:`):
		return errors.New("the name is a path")
	case strings.ContainsFunc(f.Name, control):
		return errors.New("the name has control characters")
	case !f.Mode().IsRegular():
		return fmt.Errorf("not a regular file (mode %s)", f.Mode().Type())
	case f.Flags&1 != 0:
		return errors.New("encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Errorf("compression method %d", f.Method)
	}
	return nil
}

func (in *Incident) readManifest() error {
	if !in.Has(MemberManifest) {
		return fmt.Errorf("a zip without %s: %w", MemberManifest, ErrNotIncident)
	}
	r, err := in.Member(MemberManifest)
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	in.Manifest, err = decodeManifest(b)
	return err
}

// Has reports whether the incident holds the member.
func (in *Incident) Has(name string) bool {
	if in.Kind != KindIncident {
		return name == MemberTrace
	}
	return in.files[name] != nil
}

// Members lists the known members that the incident holds, the manifest first.
// The slice is the caller's.
func (in *Incident) Members() []string {
	var names []string
	for _, m := range members {
		if in.Has(m.name) {
			names = append(names, m.name)
		}
	}
	return names
}

// Member opens a member for reading from its beginning. The reader fails with
// ErrTooLarge at the bounds of Options and with ErrMalformed where the data is
// damaged; it is for one goroutine, and the caller closes it. A member that the
// incident does not hold gives an error that is fs.ErrNotExist.
func (in *Incident) Member(name string) (io.ReadCloser, error) {
	if !in.Has(name) {
		return nil, fmt.Errorf("open member %s: %w", quote(name), fs.ErrNotExist)
	}
	r, err := in.openMember(name)
	if err != nil {
		return nil, readError(name, err)
	}
	return newBoundedReader(r, name, in.options.most(name)), nil
}

func (in *Incident) openMember(name string) (io.ReadCloser, error) {
	whole := io.NewSectionReader(in.source, 0, in.source.Size())
	switch in.Kind {
	case KindTrace:
		return io.NopCloser(whole), nil
	case KindGzipTrace:
		counted := &countingReader{r: whole}
		z, err := gzip.NewReader(counted)
		if err != nil {
			return nil, err
		}
		return &ratioReader{ReadCloser: z, in: counted, max: in.options.MaxRatio}, nil
	}
	return in.files[name].Open()
}

// Close closes the file, if Open opened it. Close the readers of members first.
func (in *Incident) Close() error {
	if in.closer == nil {
		return nil
	}
	return in.closer.Close()
}
