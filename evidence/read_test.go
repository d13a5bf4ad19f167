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
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
)

const (
	goodManifest = `{"schema":"whylate.incident/1","target":{"kind":"pprof"},"recorded":[],"not_recorded":[],"cost":{}}`
	traceHeader  = "go 1.26 trace\x00\x00\x00"
)

// entry is one entry of a zip that a test builds by hand.
type entry struct {
	name string
	body []byte
	mode fs.FileMode
	raw  *zip.FileHeader // written as it is, with body as the compressed bytes
}

func text(name, body string) entry { return entry{name: name, body: []byte(body)} }

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		var out io.Writer
		var err error
		if e.raw != nil {
			out, err = z.CreateRaw(e.raw)
		} else {
			h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
			if e.mode != 0 {
				h.SetMode(e.mode)
			}
			out, err = z.CreateHeader(h)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(e.body) > 0 {
			if _, err := out.Write(e.body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(b []byte, o Options) (*Incident, error) { return Read(bytes.NewReader(b), int64(len(b)), o) }

func readMember(in *Incident, name string) ([]byte, error) {
	r, err := in.Member(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// manyEntries is a zip with n entries besides the manifest.
func manyEntries(t testing.TB, n int) []byte {
	entries := []entry{text(MemberManifest, goodManifest)}
	for i := range n {
		entries = append(entries, text(fmt.Sprintf("x%d", i), ""))
	}
	return zipOf(t, entries...)
}

func TestReadRefusesWhatIsNoIncident(t *testing.T) {
	good := zipOf(t, text(MemberManifest, goodManifest), text(MemberTrace, traceHeader))
	lyingCount := slices.Clone(manyEntries(t, 200))
	binary.LittleEndian.PutUint16(lyingCount[len(lyingCount)-endLen+8:], 3)
	binary.LittleEndian.PutUint16(lyingCount[len(lyingCount)-endLen+10:], 3)
	var cpu, allocs bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		t.Fatal(err)
	}
	pprof.StopCPUProfile()
	if err := pprof.Lookup("allocs").WriteTo(&allocs, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		file []byte
		want error
		text string
	}{
		{"an empty file is named as empty", nil, ErrNotIncident, "empty"},
		{"a pprof profile is named", []byte("\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04"), ErrNotIncident, "a pprof profile"},
		{"a gzipped pprof profile is named", gzipOf(t, []byte("\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03")), ErrNotIncident, "gzip of a pprof profile"},
		{"a CPU profile of this Go is named", cpu.Bytes(), ErrNotIncident, "gzip of a pprof profile"},
		{"an allocation profile of this Go is named", allocs.Bytes(), ErrNotIncident, "gzip of a pprof profile"},
		{"an HTML page is named", []byte("\n <!DOCTYPE html><html>"), ErrNotIncident, "an HTML page"},
		{"JSON is named", []byte(`{"a":1}`), ErrNotIncident, "JSON"},
		{"noise that begins like JSON is none", []byte("[\x00\x83\x11\xfe\x02\x9c\x7f"), ErrNotIncident, "something else"},
		{"a stack dump is named", []byte("goroutine 1 [running]:\n"), ErrNotIncident, "goroutine stacks"},
		{"other bytes are quoted, at most eight", []byte("\x1b[31mattack"), ErrNotIncident, `"\x1b[31matt"`},
		{"a trace of Go 1.21 says which Go is needed", []byte("go 1.21 trace\x00\x00\x00"), ErrVersion, "Go 1.22 and newer"},
		{"a trace header that is cut short is refused", []byte("go 1.26 tr"), ErrNotIncident, ""},
		{"a trace header with another tail is refused", []byte("go 1.26 trace!!!"), ErrNotIncident, ""},
		{"gzip magic without gzip is malformed", []byte("\x1f\x8bxxxxxxxxxxxxxxxxxx"), ErrMalformed, ""},
		{"gzip that is cut before its content is no incident", gzipOf(t, []byte(traceHeader))[:14], ErrNotIncident, ""},

		{"a zip without a manifest is none", zipOf(t, text(MemberTrace, traceHeader)), ErrNotIncident, "without manifest.json"},
		{"a zip that was cut short says so", good[:len(good)-30], ErrMalformed, "cut short"},
		{"a zip of four bytes is malformed", good[:4], ErrMalformed, "cut short"},
		{"a zip with a comment is refused", append(slices.Clone(good[:len(good)-2]), 1, 0, 'x'), ErrMalformed, ""},
		{"a manifest of another program is none", zipOf(t, text(MemberManifest, `{"schema":"other/1"}`)), ErrNotIncident, `"other/1"`},
		{"a manifest without schema is none", zipOf(t, text(MemberManifest, `[]`)), ErrNotIncident, ""},
		{"a newer major schema asks for a newer tool", zipOf(t, text(MemberManifest, `{"schema":"whylate.incident/2","target":7}`)), ErrVersion, "newer whylate"},
		{"a schema without a number is malformed", zipOf(t, text(MemberManifest, `{"schema":"whylate.incident/x"}`)), ErrMalformed, ""},
		{"a manifest that is not JSON is malformed", zipOf(t, text(MemberManifest, `{"schema`)), ErrMalformed, ""},
		{"a manifest with a wrong type is malformed", zipOf(t, text(MemberManifest, `{"schema":"whylate.incident/1","target":7}`)), ErrMalformed, ""},
		{"a manifest above 1 MiB is too large", zipOf(t, text(MemberManifest, `{"schema":"whylate.incident/1","tool":"`+strings.Repeat("0123456789abcdefghij", 60_000)+`"}`)), ErrTooLarge, ""},

		{"a name with a slash is refused", zipOf(t, text(MemberManifest, goodManifest), text("a/trace", "x")), ErrMalformed, "path"},
		{"a name with a backslash is refused", zipOf(t, text(MemberManifest, goodManifest), text(`..\trace`, "x")), ErrMalformed, "path"},
		{"a name that climbs is refused", zipOf(t, text(MemberManifest, goodManifest), text("../trace", "x")), ErrMalformed, "path"},
		{"an absolute name is refused", zipOf(t, text(MemberManifest, goodManifest), text("/etc/passwd", "x")), ErrMalformed, "path"},
		{"a drive name is refused", zipOf(t, text(MemberManifest, goodManifest), text("C:trace", "x")), ErrMalformed, "path"},
		{"two dots are refused", zipOf(t, text(MemberManifest, goodManifest), text("..", "x")), ErrMalformed, "not a file name"},
		{"an empty name is refused", zipOf(t, text(MemberManifest, goodManifest), text("", "x")), ErrMalformed, "not a file name"},
		{"a name with an escape sequence is refused and quoted", zipOf(t, text(MemberManifest, goodManifest), text("\x1b[2J", "x")), ErrMalformed, `"\x1b[2J"`},
		{"a folder is refused", zipOf(t, text(MemberManifest, goodManifest), text("sub/", "")), ErrMalformed, "path"},
		{"a symbolic link is refused", zipOf(t, text(MemberManifest, goodManifest), entry{name: MemberTrace, body: []byte("/etc/passwd"), mode: fs.ModeSymlink | 0o777}), ErrMalformed, "not a regular file"},
		{"a member that occurs twice is refused", zipOf(t, text(MemberManifest, goodManifest), text(MemberTrace, "a"), text(MemberTrace, "b")), ErrMalformed, "twice"},
		{"an unknown compression method is refused", zipOf(t, text(MemberManifest, goodManifest), entry{raw: &zip.FileHeader{Name: MemberTrace, Method: 99}}), ErrMalformed, "method 99"},
		{"an encrypted member is refused", zipOf(t, text(MemberManifest, goodManifest), entry{raw: &zip.FileHeader{Name: MemberTrace, Flags: 1}}), ErrMalformed, "encrypted"},
		{"more than 64 members are refused", manyEntries(t, maxMembers), ErrTooLarge, "at most 64"},
		{"a false number of members is refused", lyingCount, ErrMalformed, ""},
		{"a false number of members in a 64-bit end record is refused", zip64(good, 1<<40), ErrTooLarge, "at most 64"},
		{"a directory that goes on for megabytes is refused", hugeDirectory(t), ErrTooLarge, "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := read(c.file, Options{})
			if err == nil {
				t.Fatalf("opened as %s with members %v", in.Kind, in.Members())
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q, want %v with %q", err, c.want, c.text)
			}
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("error is not one clean line: %q", err)
			}
		})
	}
}

// zip64 gives a zip of two members a 64-bit end record, which announces records.
func zip64(file []byte, records uint64) []byte {
	end := slices.Clone(file[len(file)-endLen:])
	size, at := binary.LittleEndian.Uint32(end[12:]), binary.LittleEndian.Uint32(end[16:])
	end64 := append([]byte("PK\x06\x06"), make([]byte, end64Len-4)...)
	binary.LittleEndian.PutUint64(end64[4:], end64Len-12)
	binary.LittleEndian.PutUint64(end64[24:], records)
	binary.LittleEndian.PutUint64(end64[32:], records)
	binary.LittleEndian.PutUint64(end64[40:], uint64(size))
	binary.LittleEndian.PutUint64(end64[48:], uint64(at))
	locator := append([]byte("PK\x06\x07"), make([]byte, locatorLen-4)...)
	binary.LittleEndian.PutUint64(locator[8:], uint64(len(file)-endLen))
	binary.LittleEndian.PutUint32(locator[16:], 1)
	for i := 8; i < 20; i++ {
		end[i] = 0xff // "see the 64-bit record"
	}
	return slices.Concat(file[:len(file)-endLen], end64, locator, end)
}

func TestALargeIncidentWithA64BitEndIsRead(t *testing.T) {
	in, err := read(zip64(zipOf(t, text(MemberManifest, goodManifest), text(MemberTrace, traceHeader)), 2), Options{})
	if err != nil || !in.Has(MemberTrace) {
		t.Errorf("error %v", err)
	}
}

// hugeDirectory is a zip of 65536+2 entries that announces 2: the zip package
// compares the number modulo 65536.
func hugeDirectory(t testing.TB) []byte {
	one := zipOf(t, text("x", ""))
	directory := one[bytes.Index(one, []byte("PK\x01\x02")):bytes.Index(one, []byte("PK\x05\x06"))]
	end := slices.Clone(one[len(one)-endLen:])
	binary.LittleEndian.PutUint16(end[8:], 2)
	binary.LittleEndian.PutUint16(end[10:], 2)
	binary.LittleEndian.PutUint32(end[12:], uint32(len(directory)*(65536+2)))
	binary.LittleEndian.PutUint32(end[16:], 4)
	return slices.Concat([]byte("PK\x03\x04"), bytes.Repeat(directory, 65536+2), end)
}

func TestReadBoundsWhatAMemberGives(t *testing.T) {
	const mib = 1 << 20
	random := make([]byte, 3*mib) // incompressible enough: a Weyl sequence
	for i := range random {
		random[i] = byte(uint64(i) * 0x9E3779B97F4A7C15 >> 53)
	}
	zeros := make([]byte, 20*mib)
	for _, c := range []struct {
		name    string
		member  string
		body    []byte
		options Options
		want    error
	}{
		{"a member that fits exactly is given whole", MemberHost, random[:2*mib], Options{MaxMember: 2 * mib}, nil},
		{"a member one byte too long is refused", MemberHost, random[:2*mib+1], Options{MaxMember: 2 * mib}, ErrTooLarge},
		{"the trace has its own bound", MemberTrace, random, Options{MaxMember: mib}, nil},
		{"a trace above its bound is refused", MemberTrace, random, Options{MaxTrace: mib}, ErrTooLarge},
		{"a member that expands a thousand times is refused", MemberHost, zeros, Options{}, ErrTooLarge},
		{"the ratio is an option", MemberHost, zeros, Options{MaxRatio: 2000}, nil},
		{"a small member of zeros is no bomb", MemberHost, zeros[:10*mib], Options{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := read(zipOf(t, text(MemberManifest, goodManifest), entry{name: c.member, body: c.body}), c.options)
			if err != nil {
				t.Fatal(err)
			}
			got, err := readMember(in, c.member)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && !bytes.Equal(got, c.body) {
				t.Errorf("%d bytes that differ from the %d written", len(got), len(c.body))
			}
			if most := c.options.withDefaults().most(c.member); int64(len(got)) > most {
				t.Errorf("%d bytes given, bound %d", len(got), most)
			}
		})
	}
}

func TestReadDoesNotBelieveSizesInHeaders(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 100)
	for _, c := range []struct {
		name         string
		packed, size uint64
		crc          uint32
	}{
		{"a size that is too small", uint64(len(body)), 10, 0},
		{"a size that is too large", uint64(len(body)), 1 << 40, 0},
		{"a compressed size beyond the file", 1 << 40, 1 << 40, 0},
		{"a checksum that differs", uint64(len(body)), uint64(len(body)), 12345},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &zip.FileHeader{Name: MemberHost, Method: zip.Store, CompressedSize64: c.packed, UncompressedSize64: c.size, CRC32: c.crc}
			in, err := read(zipOf(t, text(MemberManifest, goodManifest), entry{raw: h, body: body}), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := readMember(in, MemberHost); !errors.Is(err, ErrMalformed) {
				t.Errorf("%d bytes, error %v; want ErrMalformed", len(got), err)
			}
		})
	}
}

func TestABareTraceIsAnIncident(t *testing.T) {
	trace := append([]byte(traceHeader), bytes.Repeat([]byte{1, 2, 3}, 1000)...)
	for _, c := range []struct {
		name string
		file []byte
		kind Kind
	}{
		{"as it is", trace, KindTrace},
		{"gzipped", gzipOf(t, trace), KindGzipTrace},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace.out")
			if err := os.WriteFile(path, c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			in, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if in.Kind != c.kind || !slices.Equal(in.Members(), []string{MemberTrace}) {
				t.Errorf("kind %s, members %v", in.Kind, in.Members())
			}
			target := in.Manifest.Target
			if target.Kind != "file" || target.File != "trace.out" || target.TraceFormat != "go1.26" || len(in.Manifest.NotRecorded) != 1 {
				t.Errorf("manifest %+v", in.Manifest)
			}
			for range 2 { // every reader begins at the beginning
				got, err := readMember(in, MemberTrace)
				if err != nil || !bytes.Equal(got, trace) {
					t.Errorf("%d bytes of %d, error %v", len(got), len(trace), err)
				}
			}
		})
	}
}

func TestAGzippedTraceIsBounded(t *testing.T) {
	bomb := gzipOf(t, append([]byte(traceHeader), make([]byte, 20<<20)...))
	for _, c := range []struct {
		name    string
		options Options
		want    error
	}{
		{"by the ratio", Options{}, ErrTooLarge},
		{"by the size", Options{MaxRatio: 5000, MaxTrace: 1 << 20}, ErrTooLarge},
		{"and passes under both", Options{MaxRatio: 5000}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := read(bomb, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := readMember(in, MemberTrace); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestUnknownMembersAreListedAndNotOpened(t *testing.T) {
	in, err := read(zipOf(t, text("flight.log", "x"), text(MemberManifest, `{"schema":"whylate.incident/1.7","future":{"a":1}}`)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(in.Unknown, []string{"flight.log"}) || !slices.Equal(in.Members(), []string{MemberManifest}) {
		t.Errorf("unknown %v, members %v", in.Unknown, in.Members())
	}
	if _, err := in.Member("flight.log"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}

func TestOpenNamesWhatIsWrongWithThePath(t *testing.T) {
	folder := t.TempDir()
	if _, err := Open(filepath.Join(folder, "missing.whylate"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(folder, Options{}); !errors.Is(err, ErrNotIncident) {
		t.Errorf("folder: %v", err)
	}
}

// FuzzRead: whatever the bytes are, reading ends, respects its bounds, and
// opens only what is in the list of members.
func FuzzRead(f *testing.F) {
	f.Add(zipOf(f, text(MemberManifest, goodManifest), text(MemberTrace, traceHeader)))
	f.Add(gzipOf(f, []byte(traceHeader)))
	f.Add([]byte(traceHeader))
	f.Fuzz(func(t *testing.T, b []byte) {
		options := Options{MaxTrace: 1 << 16, MaxMember: 1 << 16}
		in, err := read(b, options)
		if err != nil {
			return
		}
		for _, name := range append(in.Members(), in.Unknown...) {
			got, err := readMember(in, name)
			if slices.Contains(in.Unknown, name) && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("unknown member %q: %v", name, err)
			}
			if int64(len(got)) > options.withDefaults().most(name) {
				t.Errorf("member %s gave %d bytes", name, len(got))
			}
		}
	})
}
