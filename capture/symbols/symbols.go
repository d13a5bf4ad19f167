// Package symbols finds the functions of a Go program in its executable, also where it was
// stripped: Go's runtime needs the table of its functions itself. Nothing runs, and no
// process is touched.
//
// The executable is ELF of amd64 or arm64, of Go 1.20 or newer. It is as hostile as any
// file: what it says of itself is checked, and the memory to read it is bounded by its size.
package symbols

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sort"
	"strconv"
	"strings"
)

// ErrNotGo: the file is no executable with a table of Go's functions.
var ErrNotGo = errors.New("no executable of a Go program")

// Func is a function. The addresses are those of the executable; where a process has it is
// so much further as [Bias] says.
type Func struct {
	Name       string
	Entry, End uint64 // End is behind it
}

// Binary are the functions of an executable. It does not change; use it from anywhere.
type Binary struct {
	version  string
	machine  elf.Machine
	fixed    bool // it runs at the addresses that the file says
	segments []segment

	text  uint64 // where the table counts from
	table []byte // the whole of it
	n     int    // functions
	ftab  []byte // n+1 pairs: from text to the entry, from ftab to what is known of it
	names []byte
}

// segment is a part of the file that is mapped.
type segment struct {
	addr, offset uint64
	data         []byte // as far as it is in the file
	exec         bool
}

const (
	// maxFile bounds what is read of an executable.
	maxFile = 1 << 30
	// maxName is how long a name may be. Those of generic functions are long.
	maxName = 4096
)

// Open reads the functions of an executable, such as /proc/PID/exe. It takes as much
// memory as the file is long, for as long as the result is used, and no file stays open.
//
// Errors wrap [ErrNotGo], or are those of reading the file.
func Open(file string) (*Binary, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return OpenFile(f)
}

// OpenFile is Open of a file that is open, and stays the caller's; errors have its name.
func OpenFile(f *os.File) (*Binary, error) {
	file := f.Name()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrNotGo, file)
	}
	b, err := read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

// What a file may have of what looks like a table of functions, each of which is looked for
// in all of it, and of segments: linkers make one, and a handful.
const maxTables, maxSegments = 16, 64

// maxRecords is how many words may be the address of such a table: the runtime's record is
// one of them.
const maxRecords = 1024

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotGo}, args...)...)
}

func read(r io.ReaderAt, size int64) (*Binary, error) {
	if size > maxFile {
		return nil, malformed("it is larger than %d bytes", maxFile)
	}
	if err := checkSections(r); err != nil {
		return nil, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, malformed("%v", err)
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || f.Machine != elf.EM_X86_64 && f.Machine != elf.EM_AARCH64 {
		return nil, malformed("%v %v %v, only amd64 and arm64 are known", f.Class, f.Data, f.Machine)
	}
	b := &Binary{machine: f.Machine, fixed: f.Type == elf.ET_EXEC}
	var all int64
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		if p.Off > uint64(size) || p.Filesz > uint64(size)-p.Off {
			return nil, malformed("a segment goes beyond its end")
		}
		if len(b.segments) == maxSegments {
			return nil, malformed("it has more than %d segments", maxSegments)
		}
		if all += int64(p.Filesz); all > size {
			return nil, malformed("its segments are larger than itself")
		}
		data := make([]byte, p.Filesz)
		if _, err := r.ReadAt(data, int64(p.Off)); err != nil {
			return nil, fmt.Errorf("read a segment: %w", err)
		}
		b.segments = append(b.segments, segment{p.Vaddr, p.Off, data, p.Flags&elf.PF_X != 0})
	}
	if err := b.find(relocated(f, r, size)); err != nil {
		return nil, err
	}
	if info, err := buildinfo.Read(r); err == nil { // without it, nobody knows
		b.version = info.GoVersion
	}
	b.keepCode()
	return b, nil
}

// What a file may have of sections, and of bytes in their names: debug/elf makes a copy of
// each name, which may go on to the end.
const maxSections, maxSectionNames = 1024, 64 << 10

// checkSections bounds what debug/elf makes of the sections of a file.
func checkSections(r io.ReaderAt) error {
	var h elf.Header64
	if err := binary.Read(io.NewSectionReader(r, 0, int64(binary.Size(h))), binary.LittleEndian, &h); err != nil {
		return malformed("it has no header")
	}
	switch {
	case h.Shoff == 0: // stripped of them
		return nil
	case h.Shnum == 0 || h.Shnum > maxSections || int(h.Shentsize) != binary.Size(elf.Section64{}):
		return malformed("it has %d sections of %d bytes", h.Shnum, h.Shentsize)
	case h.Shstrndx >= h.Shnum || h.Shoff > maxFile:
		return malformed("its sections have no names")
	}
	var s elf.Section64
	at := int64(h.Shoff) + int64(h.Shstrndx)*int64(h.Shentsize)
	if err := binary.Read(io.NewSectionReader(r, at, int64(h.Shentsize)), binary.LittleEndian, &s); err != nil {
		return malformed("its sections are cut")
	}
	if s.Size > maxSectionNames || elf.SectionFlag(s.Flags)&elf.SHF_COMPRESSED != 0 {
		return malformed("the names of its sections have %d bytes, or are compressed", s.Size)
	}
	return nil
}

// keepCode forgets what is no code.
func (b *Binary) keepCode() {
	for i := range b.segments {
		if !b.segments[i].exec {
			b.segments[i].data = nil
		}
	}
}

// relocated are the words that the loader writes if the executable may be anywhere: by
// address, what they would be if it were where the file says (R_X86_64_RELATIVE,
// R_AARCH64_RELATIVE).
func relocated(f *elf.File, r io.ReaderAt, size int64) map[uint64]uint64 {
	const entry = 24
	s := f.Section(".rela.dyn")
	if s == nil || s.Type != elf.SHT_RELA || s.Size > uint64(size) {
		return nil
	}
	data := make([]byte, s.Size/entry*entry)
	if _, err := r.ReadAt(data, int64(s.Offset)); err != nil {
		return nil
	}
	words := map[uint64]uint64{}
	for ; len(data) >= entry; data = data[entry:] {
		switch elf.R_TYPE64(binary.LittleEndian.Uint64(data[8:])) {
		case uint32(elf.R_X86_64_RELATIVE), uint32(elf.R_AARCH64_RELATIVE):
			words[binary.LittleEndian.Uint64(data)] = binary.LittleEndian.Uint64(data[16:])
		}
	}
	return words
}

// The header of the table (runtime.pcHeader, src/runtime/symtab.go).
const (
	magic       = 0xfffffff1 // since Go 1.20
	nfuncAt     = 8
	namesAt     = 32
	functionsAt = 64
	headerBytes = 72
)

// find finds the table of functions by what it looks like, as other tools strip the
// sections, and the record of the runtime (runtime.moduledata) that says where code begins:
// the table does not, since Go 1.26.
func (b *Binary) find(words map[uint64]uint64) error {
	var want [8]byte
	binary.LittleEndian.PutUint32(want[:], magic)
	want[6], want[7] = 1, 8
	if b.machine == elf.EM_AARCH64 {
		want[6] = 4
	}
	reason := malformed("it has no table of functions")
	tries := 0
	for _, s := range b.segments {
		for at := 0; ; at += len(want) {
			i := bytes.Index(s.data[min(at, len(s.data)):], want[:])
			if i < 0 {
				break
			}
			at += i
			if tries++; tries > maxTables {
				return malformed("more than %d tables of functions", maxTables)
			}
			t, err := newTable(s.data[at:])
			if err != nil {
				reason = err
				continue
			}
			if t.text, err = b.textOf(s.addr+uint64(at), t.n, words); err != nil {
				reason = err
				continue
			}
			b.text, b.table, b.n, b.ftab, b.names = t.text, t.table, t.n, t.ftab, t.names
			return nil
		}
	}
	return reason
}

// newTable checks a table of functions that begins with its header.
func newTable(data []byte) (*Binary, error) {
	if len(data) < headerBytes {
		return nil, malformed("its table of functions is cut")
	}
	n, names, functions := binary.LittleEndian.Uint64(data[nfuncAt:]), binary.LittleEndian.Uint64(data[namesAt:]), binary.LittleEndian.Uint64(data[functionsAt:])
	if names > uint64(len(data)) || functions > uint64(len(data)) || n == 0 || n >= (uint64(len(data))-functions)/8 {
		return nil, malformed("its table of functions is larger than the file")
	}
	t := &Binary{table: data, n: int(n), names: data[names:], ftab: data[functions:]}
	for i := 1; i <= t.n; i++ {
		if t.entry(i) < t.entry(i-1) {
			return nil, malformed("its functions are in no order")
		}
	}
	return t, nil
}

// The words of runtime.moduledata (src/runtime/symtab.go, Go 1.20 to 1.26) that are used.
const (
	ftabLenAt   = 136
	minpcAt     = 160
	maxpcAt     = 168
	textAt      = 176
	etextAt     = 184
	moduleBytes = 192
)

// textOf is where the code of a table at an address begins: it finds the record whose first
// word is that address.
func (b *Binary) textOf(table uint64, n int, words map[uint64]uint64) (uint64, error) {
	check := func(at uint64) (uint64, bool) {
		word := func(at uint64) uint64 {
			if v, ok := words[at]; ok {
				return v
			}
			v, _ := b.word(at)
			return v
		}
		text, end := word(at+textAt), word(at+etextAt)
		ok := word(at+ftabLenAt) == uint64(n)+1 && word(at+minpcAt) == text && text < word(at+maxpcAt) && word(at+maxpcAt) <= end
		return text, ok
	}
	for at, v := range words {
		if v == table {
			if text, ok := check(at); ok {
				return text, nil
			}
		}
	}
	if table == 0 { // as most words
		return 0, malformed("its table of functions is at address 0")
	}
	tries := 0
	var want [8]byte
	binary.LittleEndian.PutUint64(want[:], table)
	for _, s := range b.segments {
		for at := 0; ; at += len(want) {
			i := bytes.Index(s.data[min(at, len(s.data)):], want[:])
			if i < 0 {
				break
			}
			at += i
			if (s.addr+uint64(at))%8 != 0 { // a word of Go's lies at a multiple of its size
				at -= len(want) - 1
				continue
			}
			if tries++; tries > maxRecords {
				return 0, malformed("more than %d words are the address of its table", maxRecords)
			}
			if text, ok := check(s.addr + uint64(at)); ok {
				return text, nil
			}
		}
	}
	return 0, malformed("it does not say where its code begins")
}

// word is what the file has at an address.
func (b *Binary) word(addr uint64) (uint64, bool) {
	for _, s := range b.segments {
		if at := addr - s.addr; addr >= s.addr && at < uint64(len(s.data)) && uint64(len(s.data))-at >= 8 {
			return binary.LittleEndian.Uint64(s.data[at:]), true
		}
	}
	return 0, false
}

// entry is from where the text begins to a function; that of the number behind the last one
// is its end.
func (b *Binary) entry(i int) uint32 { return binary.LittleEndian.Uint32(b.ftab[8*i:]) }

// function is one by its number.
func (b *Binary) function(i int) Func {
	return Func{Name: b.name(i), Entry: b.text + uint64(b.entry(i)), End: b.text + uint64(b.entry(i+1))}
}

// name is "" if the table does not have it.
func (b *Binary) name(i int) string {
	const nameAt = 4 // runtime._func.nameOff
	about := uint64(binary.LittleEndian.Uint32(b.ftab[8*i+4:]))
	if about+nameAt+4 > uint64(len(b.ftab)) {
		return ""
	}
	at := uint64(binary.LittleEndian.Uint32(b.ftab[about+nameAt:]))
	if at >= uint64(len(b.names)) {
		return ""
	}
	s := b.names[at:min(at+maxName, uint64(len(b.names)))]
	if end := bytes.IndexByte(s, 0); end >= 0 {
		s = s[:end]
	}
	return string(s)
}

// GoVersion is that of the toolchain, such as "go1.26.8"; "" if the executable does not say
// it.
func (b *Binary) GoVersion() string { return b.version }

// Funcs are all functions, in order of their addresses.
func (b *Binary) Funcs() iter.Seq[Func] {
	return func(yield func(Func) bool) {
		for i := range b.n {
			if !yield(b.function(i)) {
				return
			}
		}
	}
}

// Func finds a function by its name. It looks at all of them.
func (b *Binary) Func(name string) (Func, bool) {
	for i := range b.n {
		if b.name(i) == name {
			return b.function(i), true
		}
	}
	return Func{}, false
}

// At is the function at an address. What is inlined there belongs to the function that it
// is inlined in.
func (b *Binary) At(addr uint64) (Func, bool) {
	if addr < b.text {
		return Func{}, false
	}
	at := addr - b.text
	i := sort.Search(b.n+1, func(i int) bool { return uint64(b.entry(i)) > at })
	if i == 0 || i > b.n {
		return Func{}, false
	}
	return b.function(i - 1), true
}

// Offset is where in the file the code at an address is.
func (b *Binary) Offset(addr uint64) (uint64, bool) {
	for _, s := range b.segments {
		if s.exec && addr >= s.addr && addr-s.addr < uint64(len(s.data)) {
			return addr - s.addr + s.offset, true
		}
	}
	return 0, false
}

// code is that of a function, without what the file does not have.
func (b *Binary) code(f Func) ([]byte, error) {
	for _, s := range b.segments {
		if s.exec && f.Entry >= s.addr && f.Entry < f.End && f.End-s.addr <= uint64(len(s.data)) {
			return s.data[f.Entry-s.addr : f.End-s.addr], nil
		}
	}
	return nil, malformed("the code of %s is not in it", f.Name)
}

// GoidOffset is where in a runtime.g the number of a goroutine is. It is known for Go 1.22
// to 1.26 (src/runtime/runtime2.go, where words are 64 bits).
func (b *Binary) GoidOffset() (uint64, bool) {
	minor, ok := minor(b.version)
	switch {
	case !ok || minor < 22 || minor > 26:
		return 0, false
	case minor == 23 || minor == 24:
		return 160, true
	}
	return 152, true
}

// minor is 26 of "go1.26.8", or of "go1.26-devel_0123".
func minor(version string) (int, bool) {
	s, ok := strings.CutPrefix(version, "go1.")
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	n, err := strconv.Atoi(s[:end])
	return n, err == nil
}
