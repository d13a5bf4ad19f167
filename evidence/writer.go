package evidence

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/whylate/whylate/internal/output"
)

// Writer writes an incident. Members may be written concurrently: the trace
// goes straight to the file, every other member is compressed in memory and
// appended when it is closed and the trace is not in the way. All methods may be
// called concurrently.
//
// The file appears under its name when Close succeeds, and only then.
type Writer struct {
	path    string
	started time.Time
	options Options

	mu       sync.Mutex
	file     *os.File // temporary, beside path
	zip      *zip.Writer
	manifest Manifest
	names    map[string]bool // members that were opened
	open     int             // members that are not closed yet
	trace    *MemberWriter   // while it owns the zip
	waiting  []*MemberWriter // closed while the trace owned the zip
	err      error           // the first failure to write; all later calls return it
	done     bool
}

// Create begins an incident that will appear at path, replacing what is there.
// The caller ends it with Close or with Abort. Until then its bytes are in a
// temporary file in the same folder, which only the owner may read.
func Create(path string) (*Writer, error) {
	path, special, err := output.Resolve(path)
	if err != nil {
		return nil, err // names the operation and the path
	}
	if special { // it would be replaced
		return nil, &fs.PathError{Op: "create", Path: path, Err: ErrSpecial}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: nameless(err)}
	}
	w := &Writer{
		path:    path,
		started: time.Now(),
		options: Options{}.withDefaults(),
		file:    f,
		zip:     zip.NewWriter(f),
		names:   make(map[string]bool),
	}
	// The recorder must keep up with the target and may share its CPUs: the
	// fastest level.
	w.zip.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestSpeed)
	})
	w.manifest = Manifest{Schema: Schema, Tool: toolVersion(), Started: w.started.UTC()}
	return w, nil
}

// toolVersion is the version of the running program as the go command stamped
// it.
func toolVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// Since returns the time since the incident began, on the monotonic clock: the
// zero point of all offsets in the manifest.
func (w *Writer) Since() time.Duration { return time.Since(w.started) }

// Edit calls f with the manifest, which f may change and must not keep. Schema
// is set and the entries of Recorded are added by the Writer. Edit calls exclude
// each other; f must not call methods of w.
func (w *Writer) Edit(f func(*Manifest)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.manifest)
}

// Manifest returns a copy of the manifest as it is now.
func (w *Writer) Manifest() Manifest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.manifest.clone()
}

// Member begins a member. Each may be written once. A member to which nothing
// was written when it is closed is left out of the file and may be begun again.
func (w *Writer) Member(name string) (*MemberWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return nil, w.err
	case w.done:
		return nil, fmt.Errorf("write member %s: the incident is closed", name)
	case !known(name) || name == MemberManifest:
		return nil, fmt.Errorf("write member %s: not the name of a member", quote(name))
	case w.names[name]:
		return nil, fmt.Errorf("write member %s: written already", name)
	}
	w.names[name] = true
	w.open++
	return &MemberWriter{
		w:       w,
		started: w.Since(),
		header:  zip.FileHeader{Name: name, Method: method(name), Modified: w.started},
		crc:     crc32.NewIEEE(),
		entry:   Recorded{Member: name, What: what(name)},
	}, nil
}

func method(name string) uint16 {
	if compressed(name) {
		return zip.Store
	}
	return zip.Deflate
}

// Copy takes over the manifest of in and every member of it that w has not got
// yet, so that a member can be added to an incident that exists: create the new
// file at the old path, write the member, copy, close both. Entries of the
// manifest for members that w wrote itself stay.
func (w *Writer) Copy(in *Incident) error {
	w.mu.Lock()
	own := slices.Clone(w.manifest.Recorded)
	w.manifest = in.Manifest.clone()
	w.manifest.Recorded = slices.DeleteFunc(w.manifest.Recorded, func(r Recorded) bool { return w.names[r.Member] })
	w.manifest.Recorded = append(w.manifest.Recorded, own...)
	w.mu.Unlock()
	for _, name := range in.Members() {
		if name == MemberManifest || w.has(name) {
			continue
		}
		if err := w.copyMember(in, name); err != nil {
			return fmt.Errorf("copy member %s: %w", name, err)
		}
	}
	return nil
}

func (w *Writer) has(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[name]
}

func (w *Writer) copyMember(in *Incident, name string) (err error) {
	r, err := in.Member(name)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := w.Member(name)
	if err != nil {
		return err
	}
	m.copied = true
	defer func() { err = errors.Join(err, m.Close()) }()
	_, err = io.Copy(m, r)
	return err
}

// Close writes the manifest and moves the file to its name. It fails if a
// member is still open. After a failure nothing of the incident remains.
//
// The file is not forced to the disk: the recorder may run beside the target,
// and the write-out of a large trace would disturb what is still being served.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return w.err
	}
	err := w.finish()
	if err == nil {
		err = w.file.Close()
	}
	if err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		w.discard()
		if w.err == nil { // else it is what finish returned
			w.err = &fs.PathError{Op: "write", Path: w.path, Err: nameless(err)}
		}
		return w.err
	}
	w.done = true
	return nil
}

// finish writes what is missing of the zip.
func (w *Writer) finish() error {
	if w.err != nil {
		return w.err
	}
	if w.open > 0 {
		return fmt.Errorf("%d members are not closed", w.open)
	}
	b, err := w.manifest.encode()
	if err != nil {
		return err
	}
	out, err := w.zip.CreateHeader(&zip.FileHeader{Name: MemberManifest, Method: zip.Deflate, Modified: w.started})
	if err != nil {
		return err
	}
	if _, err := out.Write(b); err != nil {
		return err
	}
	return w.zip.Close()
}

// Abort throws the incident away. After Close it does nothing, so it can be
// deferred. Members that are still open fail at their next write.
func (w *Writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	err := w.discard()
	if w.err == nil {
		w.err = fmt.Errorf("write incident %s: aborted", w.path)
	}
	return err
}

// discard removes the temporary file. The caller holds mu.
func (w *Writer) discard() error {
	w.done = true
	w.file.Close()
	return os.Remove(w.file.Name())
}

// MemberWriter writes one member of an incident. It is for one goroutine at a
// time; different members may be written concurrently.
type MemberWriter struct {
	w       *Writer
	header  zip.FileHeader
	entry   Recorded
	started time.Duration
	copied  bool // the manifest has its entry already
	closed  bool

	out    io.Writer // nil until the first byte
	packed bytes.Buffer
	flate  *flate.Writer
	crc    interface {
		io.Writer
		Sum32() uint32
	}
}

// Write appends to the member. It fails with ErrTooLarge where a reader with
// default Options would refuse to go on; the member then holds all bytes up to
// the bound.
func (m *MemberWriter) Write(p []byte) (int, error) {
	if m.closed {
		return 0, fmt.Errorf("write member %s: it is closed", m.entry.Member)
	}
	if len(p) == 0 {
		return 0, nil
	}
	var tooLarge error
	if most := m.w.options.most(m.entry.Member); int64(len(p)) > most-m.entry.Bytes {
		p = p[:most-m.entry.Bytes]
		tooLarge = fmt.Errorf("write member %s: more than %d bytes: %w", m.entry.Member, most, ErrTooLarge)
	}
	if m.out == nil {
		if err := m.begin(); err != nil {
			return 0, err
		}
	}
	n, err := m.out.Write(p)
	m.crc.Write(p[:n])
	m.entry.Bytes += int64(n)
	if err != nil {
		return n, m.w.fail(m.entry.Member, err)
	}
	return n, tooLarge
}

// begin chooses where the bytes go: the trace to the zip, others to memory.
func (m *MemberWriter) begin() error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.w.err != nil {
		return m.w.err
	}
	if m.entry.Member == MemberTrace {
		out, err := m.w.zip.CreateHeader(&m.header)
		if err != nil {
			return fmt.Errorf("write member %s: %w", m.entry.Member, nameless(err))
		}
		m.w.trace, m.out = m, out
		return nil
	}
	if m.header.Method == zip.Store {
		m.out = &m.packed
		return nil
	}
	z, err := flate.NewWriter(&m.packed, flate.BestSpeed)
	if err != nil {
		return fmt.Errorf("write member %s: %w", m.entry.Member, err)
	}
	m.flate, m.out = z, z
	return nil
}

// fail keeps the first failure of the file, so that Close reports it.
func (w *Writer) fail(member string, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = &fs.PathError{Op: "write member " + member + " of", Path: w.path, Err: nameless(err)}
	}
	return w.err
}

// nameless returns what an operation on the temporary file failed with, without
// the name of a file that the user never asked for.
func nameless(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// Started sets when the recording of what the member holds began, as an offset
// like that of Writer.Since. Without it, it is the time of Writer.Member. Call it
// before Close.
func (m *MemberWriter) Started(at time.Duration) { m.started = at }

// Incomplete notes in the manifest why the member ends before it should. Call
// it before Close.
func (m *MemberWriter) Incomplete(why string) { m.entry.Incomplete = why }

// Close ends the member and enters it in the manifest. It must be called also
// after a failed Write. A second Close does nothing.
func (m *MemberWriter) Close() error {
	if m.closed {
		return nil
	}
	m.closed = true
	m.entry.StartedNS, m.entry.EndedNS = m.started.Nanoseconds(), m.w.Since().Nanoseconds()

	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	if w.err != nil {
		return w.err
	}
	if m.out == nil {
		delete(w.names, m.entry.Member)
		return nil
	}
	if !m.copied {
		w.manifest.Recorded = append(w.manifest.Recorded, m.entry)
	}
	if w.trace == m {
		w.trace = nil
	} else {
		w.waiting = append(w.waiting, m)
	}
	if w.trace != nil {
		return nil
	}
	if err := w.flush(); err != nil {
		w.err = err
		return err
	}
	return nil
}

// flush appends the waiting members to the zip. The caller holds mu.
func (w *Writer) flush() error {
	for _, m := range w.waiting {
		if err := m.append(); err != nil {
			return fmt.Errorf("write member %s: %w", m.entry.Member, err)
		}
	}
	w.waiting = nil
	return nil
}

// dosTime is a time as zip entries hold it: bit fields, in steps of 2 s
// (APPNOTE.TXT 4.4.6).
func dosTime(t time.Time) (date, clock uint16) {
	date = uint16(t.Day() + int(t.Month())<<5 + (t.Year()-1980)<<9)
	clock = uint16(t.Second()/2 + t.Minute()<<5 + t.Hour()<<11)
	return date, clock
}

func (m *MemberWriter) append() error {
	if m.flate != nil {
		if err := m.flate.Close(); err != nil {
			return err
		}
	}
	//lint:ignore SA1019 CreateRaw writes these two and not Modified
	m.header.ModifiedDate, m.header.ModifiedTime = dosTime(m.w.started.UTC())
	m.header.CRC32 = m.crc.Sum32()
	m.header.CompressedSize64 = uint64(m.packed.Len())
	m.header.UncompressedSize64 = uint64(m.entry.Bytes)
	out, err := m.w.zip.CreateRaw(&m.header)
	if err != nil {
		return err
	}
	_, err = m.packed.WriteTo(out)
	m.packed, m.flate = bytes.Buffer{}, nil // release the memory of a large member
	return err
}
