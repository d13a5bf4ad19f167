//go:build linux && amd64

package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"testing"
)

// image returns this process's vDSO.
func image(t testing.TB) []byte {
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		t.Skip(err)
	}
	base := header(auxv)
	if base == 0 {
		t.Skip("no vDSO")
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer mem.Close()
	b := make([]byte, 64<<10)
	n, _ := io.ReadFull(io.NewSectionReader(mem, int64(base), int64(len(b))), b)
	return b[:n]
}

func TestASymbolIsWherePackageElfFindsIt(t *testing.T) {
	b := image(t)
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var linked uint64
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			linked = p.Vaddr - p.Off
			break
		}
	}
	for _, s := range all {
		if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS {
			continue
		}
		if got, want := symbol(b, s.Name), s.Value-linked; got != want {
			t.Errorf("%s at %#x, want %#x", s.Name, got, want)
		}
	}
	if symbol(b, "__vdso_clock_gettim") != 0 {
		t.Error("a beginning of a name was taken for it")
	}
}

func TestTheKernelTakesLittleOfTheStack(t *testing.T) {
	fn := function()
	if fn == 0 {
		t.Skip("no vDSO")
	}
	for _, id := range []int64{monotonic, monotonicCoarse} {
		if d := depth(fn, id); d < 8 || d > deepest {
			t.Errorf("clock %d: %d bytes", id, d)
		}
	}
}

func TestAClockThatTheKernelDoesNotHaveIsNoTime(t *testing.T) {
	fn := function()
	if fn == 0 {
		t.Skip("no vDSO")
	}
	if got := readClock(fn, 12345); got != -1 {
		t.Errorf("%d", got)
	}
}

func TestTheHeaderIsThatOfTheVector(t *testing.T) {
	vector := func(v ...uint64) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	for _, c := range []struct {
		name string
		auxv []byte
		want uint64
	}{
		{"empty", nil, 0},
		{"without one", vector(6, 4096, 0, 0), 0},
		{"with one", vector(6, 4096, 33, 0x7fff0000, 0, 0), 0x7fff0000},
		{"cut in it", vector(6, 4096, 33), 0},
	} {
		if got := header(c.auxv); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

func FuzzSymbol(f *testing.F) {
	f.Add(image(f))
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(t *testing.T, b []byte) { symbol(b, "__vdso_clock_gettime") })
}
