package symbols

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/need"
)

func needTool(t testing.TB, name string) {
	t.Helper()
	_, err := exec.LookPath(name)
	need.Feature(t, name, err)
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source is a program that imports nothing, so that it is soon built.
const source = `package main

//go:noinline
func leaf(n int) int { return n ^ 1 }

//go:noinline
func calls(n int) int { return leaf(n) + 1 }

//go:noinline
func large(n int) int {
	var room [8192]byte
	room[n] = byte(calls(n))
	return int(room[n/2]) + leaf(n)
}

//go:nosplit
//go:noinline
func unsplit(n int) int { return leaf(n) * 3 }

//go:noinline
func loops(n int) int {
	for n > 3 {
		n /= 2
	}
	return n
}

type list[T any] struct{ of []T }

//go:noinline
func (l *list[T]) add(x T) { l.of = append(l.of, x) }

func main() {
	l := new(list[string])
	l.add("x")
	println(large(2) + unsplit(3) + loops(100) + len(l.of))
}
`

const cgoSource = `package main

// static int two(void) { return 2; }
import "C"

func init() { println(C.two()) }
`

// build makes the program; env and flags are those of go build.
func build(t *testing.T, cgo bool, env []string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module m\n\ngo 1.22\n", "main.go": source}
	if cgo {
		files["c.go"] = cgoSource
	}
	for name, text := range files {
		fatal(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	args := append([]string{"build", "-o", "program"}, flags...)
	if !slices.Contains(flags, "-race") { // as what is compiled for a release, or for the race detector
		args = append(args, "-trimpath")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = dir
	on := "0"
	if cgo {
		on = "1"
	}
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED="+on), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "program")
}

// stripped is a copy without symbols.
func stripped(t *testing.T, file string) string {
	t.Helper()
	needTool(t, "strip")
	out := file + ".stripped"
	if text, err := exec.Command("strip", "-o", out, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// compare compares the functions of an executable with the symbols of one that has them.
func compare(t *testing.T, b *Binary, with string) {
	t.Helper()
	f, err := elf.Open(with)
	fatal(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	fatal(t, err)
	at := map[string][]uint64{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			name := strings.TrimSuffix(strings.TrimSuffix(s.Name, ".abi0"), ".abiinternal")
			at[name] = append(at[name], s.Value)
		}
	}
	right, n := 0, 0
	for fn := range b.Funcs() {
		if n++; fn.End < fn.Entry {
			t.Errorf("%+v", fn)
		}
		switch list := at[fn.Name]; {
		case slices.Contains(list, fn.Entry):
			right++
			if got, ok := b.At(fn.Entry); fn.End > fn.Entry && (!ok || got.Entry != fn.Entry) {
				t.Errorf("at %#x is %+v, not %+v", fn.Entry, got, fn)
			}
			if got, ok := b.At(fn.End - 1); fn.End > fn.Entry && (!ok || got.Entry != fn.Entry) {
				t.Errorf("at %#x is %+v, not %+v", fn.End-1, got, fn)
			}
		case len(list) > 0:
			t.Errorf("%s is at %#x, the symbols say %#x", fn.Name, fn.Entry, list)
		}
	}
	t.Logf("%d of %d functions are where the symbols say, version %q", right, n, b.version)
	if right < 800 || right < n*95/100 {
		t.Errorf("only %d of %d functions are among the symbols", right, n)
	}
	for _, name := range []string{"main.main", "main.large", "main.(*list[go.shape.string]).add", "runtime.casgstatus"} {
		if _, ok := b.Func(name); !ok {
			t.Errorf("no %s", name)
		}
	}
	if _, ok := b.At(b.text - 1); ok {
		t.Error("there is a function before the first one")
	}
}

func TestFunctionsOfAnyExecutable(t *testing.T) {
	for _, c := range []struct {
		name  string
		cgo   bool
		env   []string
		flags []string
	}{
		{"as it comes", false, nil, nil},
		{"with C", true, nil, nil},
		{"with C, at any address", true, nil, []string{"-buildmode=pie"}},
		{"for arm64", false, []string{"GOARCH=arm64"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cgo {
				needTool(t, "gcc")
			}
			file := build(t, c.cgo, c.env, c.flags...)
			b, err := Open(file)
			fatal(t, err)
			compare(t, b, file)
			if b.GoVersion() != runtime.Version() && !strings.HasPrefix(runtime.Version(), b.GoVersion()) {
				t.Errorf("it is of %q, not %q", b.GoVersion(), runtime.Version())
			}
			if c.env != nil {
				return // strip knows its own machine only
			}
			if b, err = Open(stripped(t, file)); err != nil {
				t.Fatal(err)
			}
			compare(t, b, file)
		})
	}
	t.Run("linked without symbols", func(t *testing.T) {
		b, err := Open(build(t, false, nil, "-ldflags=-s -w"))
		fatal(t, err)
		with := build(t, false, nil)
		compare(t, b, with)
	})
}

// toolchains are some of older lines, with each place that the id of a goroutine has had. go1.23
// and go1.24 have the same.
var toolchains = []struct {
	version string
	goid    uint64
}{{"go1.22.12", 152}, {"go1.24.11", 160}, {"go1.25.5", 152}}

func TestFunctionsOfOlderToolchains(t *testing.T) {
	needTool(t, "gcc")
	for _, c := range toolchains {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			env := []string{"GOTOOLCHAIN=" + c.version}
			if !slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), "toolchains") {
				out, err := exec.Command("go", "env", "GOMODCACHE").Output()
				fatal(t, err)
				_, err = os.Stat(filepath.Join(strings.TrimSpace(string(out)), "golang.org", "toolchain@v0.0.1-"+c.version+"."+runtime.GOOS+"-"+runtime.GOARCH))
				need.Feature(t, "toolchains", err)
			}
			kinds := [][]string{nil}
			if c == toolchains[0] { // all of the library is compiled for it
				kinds = append(kinds, []string{"-buildmode=pie"})
			}
			for _, flags := range kinds {
				file := build(t, true, env, flags...)
				b, err := Open(stripped(t, file))
				fatal(t, err)
				compare(t, b, file)
				if b.GoVersion() != c.version {
					t.Errorf("it is of %q", b.GoVersion())
				}
				if runtime.GOARCH == "amd64" {
					checkSites(t, b, file)
				}
				debug, err := elf.Open(file)
				fatal(t, err)
				if got, ok := b.GoidOffset(); !ok || got != c.goid || got != goidOf(t, debug) {
					t.Errorf("the id of a goroutine is at %d, %v; the debug information says %d", got, ok, goidOf(t, debug))
				}
			}
		})
	}
}

func TestTheIdOfAGoroutineIsWhereTheDebugInformationSays(t *testing.T) {
	file := build(t, false, nil)
	b, err := Open(file)
	fatal(t, err)
	f, err := elf.Open(file)
	fatal(t, err)
	got, ok := b.GoidOffset()
	if !ok {
		t.Skipf("the layout of %s is not known", b.GoVersion())
	}
	if want := goidOf(t, f); got != want {
		t.Errorf("%d, the debug information says %d", got, want)
	}
}

// goidOf is where the debug information has the field goid of a runtime.g.
func goidOf(t *testing.T, f *elf.File) uint64 {
	t.Helper()
	d, err := f.DWARF()
	fatal(t, err)
	r := d.Reader()
	for {
		e, err := r.Next()
		fatal(t, err)
		if e == nil {
			t.Fatal("no runtime.g in the debug information")
		}
		if name, _ := e.Val(dwarf.AttrName).(string); e.Tag != dwarf.TagStructType || name != "runtime.g" {
			continue
		}
		for {
			m, err := r.Next()
			fatal(t, err)
			if m == nil || m.Tag == 0 {
				t.Fatal("no goid in runtime.g")
			}
			if name, _ := m.Val(dwarf.AttrName).(string); name == "goid" {
				return uint64(m.Val(dwarf.AttrDataMemberLoc).(int64))
			}
		}
	}
}

// disassembled are the instructions of an executable as objdump, which is not ours, has
// them: by address, the mnemonic and what follows.
func disassembled(t *testing.T, file string) map[uint64][2]string {
	t.Helper()
	needTool(t, "objdump")
	out, err := exec.Command("objdump", "-d", "-w", "--no-show-raw-insn", file).Output()
	fatal(t, err)
	list := map[uint64][2]string{}
	for _, m := range regexp.MustCompile(`(?m)^ *([0-9a-f]+):\s+(\S+) *(.*)$`).FindAllSubmatch(out, -1) {
		addr, err := strconv.ParseUint(string(m[1]), 16, 64)
		fatal(t, err)
		list[addr] = [2]string{string(m[2]), string(m[3])}
	}
	return list
}

// checkSites compares where probes belong with another disassembler.
func checkSites(t *testing.T, b *Binary, with string) {
	t.Helper()
	code := disassembled(t, with)
	target := func(in [2]string) uint64 {
		addr, _, _ := strings.Cut(in[1], " ")
		n, _ := strconv.ParseUint(addr, 16, 64)
		return n
	}
	some, none := 0, 0
	for f := range b.Funcs() {
		site, err := b.Enter(f)
		if err != nil {
			none++
			continue
		}
		some++
		in := code[site]
		switch op := in[0]; {
		case op == "push", op == "call", op == "nop", op == "nopl", op == "nopw", op == "xchg" && in[1] == "%ax,%ax":
		case strings.HasPrefix(op, "j"):
		default:
			t.Errorf("%s is entered at %#x, which is %q", f.Name, site, in)
		}
		// Before it there is neither a call nor a jump but those to where the stack grows, and
		// nothing comes back to it but from there.
		for addr := f.Entry; addr < f.End; addr++ {
			in, ok := code[addr]
			if !ok || !strings.HasPrefix(in[0], "j") && in[0] != "call" {
				continue
			}
			to := target(in)
			if addr < site && (in[0] == "call" || !leadsToMoreStack(code, to)) {
				t.Errorf("%s: %q at %#x is before its place at %#x", f.Name, in, addr, site)
			}
			if strings.HasPrefix(in[0], "j") && to >= f.Entry && to <= site && to != f.Entry {
				t.Errorf("%s: %q at %#x comes back before its place at %#x", f.Name, in, addr, site)
			}
		}
		// A breakpoint in the middle of an instruction would make it another one.
		if list, err := b.instructions(f); err == nil {
			for _, in := range list {
				if _, ok := code[in.addr]; !ok {
					t.Fatalf("%s: %#x is in the middle of an instruction", f.Name, in.addr)
				}
			}
		}
		for _, addr := range b.Returns(f) {
			if op := code[addr][0]; op != "ret" && op != "retq" {
				t.Errorf("%s returns at %#x, which is %q", f.Name, addr, code[addr])
			}
		}
	}
	t.Logf("%d functions have a place for a probe, %d have none", some, none)
	if some < 3*none {
		t.Errorf("only %d of %d functions have a place for a probe", some, some+none)
	}
	f, ok := b.Func("runtime.cgocall")
	callee, ok2 := b.Func("runtime.exitsyscall")
	if !ok || !ok2 {
		t.Fatal("no runtime.cgocall")
	}
	if site, err := b.Enter(f); err != nil || site != f.Entry {
		t.Errorf("runtime.cgocall begins at %#x, a probe belongs at %#x, %v", f.Entry, site, err)
	}
	calls := b.CallsTo(f, "runtime.exitsyscall")
	if len(calls) == 0 || len(b.Returns(f)) == 0 {
		t.Errorf("runtime.cgocall calls runtime.exitsyscall at %#x and returns at %#x", calls, b.Returns(f))
	}
	for _, addr := range calls {
		if in := code[addr]; in[0] != "call" || target(in) != callee.Entry {
			t.Errorf("at %#x is %q, no call of runtime.exitsyscall at %#x", addr, in, callee.Entry)
		}
	}
	for _, name := range []string{"runtime.casgstatus", "runtime.gcMarkTermination", "runtime.(*gcControllerState).startCycle", "main.calls", "main.large", "main.unsplit", "main.main"} {
		f, ok := b.Func(name)
		if !ok {
			t.Errorf("no %s", name)
			continue
		}
		if site, err := b.Enter(f); err != nil || code[site] != [2]string{"push", "%rbp"} {
			t.Errorf("%s is entered at %#x, %q, %v", name, site, code[site], err)
		}
	}
}

// leadsToMoreStack tells whether what is at an address calls runtime.morestack before it
// goes anywhere else.
func leadsToMoreStack(code map[uint64][2]string, addr uint64) bool {
	for n := 0; n < 400; addr++ {
		in, ok := code[addr]
		if !ok {
			n++
			continue
		}
		switch {
		case in[0] == "call":
			return strings.Contains(in[1], "<runtime.morestack")
		case strings.HasPrefix(in[0], "j"), strings.HasPrefix(in[0], "ret"):
			return false
		}
	}
	return false
}

func TestPlacesForProbes(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only the instructions of amd64 are known")
	}
	needTool(t, "gcc")
	for _, c := range []struct{ env, flags []string }{
		{nil, nil}, {nil, []string{"-buildmode=pie"}}, {nil, []string{"-race"}}, {[]string{"GOAMD64=v3"}, nil},
	} {
		flags := c.flags
		t.Run(fmt.Sprint(c.env, flags), func(t *testing.T) {
			t.Parallel()
			file := build(t, true, c.env, flags...)
			b, err := Open(file)
			fatal(t, err)
			checkSites(t, b, file)
			leaf, _ := b.Func("main.leaf")
			if site, err := b.Enter(leaf); len(flags) == 0 && !errors.Is(err, ErrNoSite) {
				t.Errorf("main.leaf, which has no instruction of the kind, is entered at %#x, %v", site, err)
			}
		})
	}
	t.Run("of another machine", func(t *testing.T) {
		b, err := Open(build(t, false, []string{"GOARCH=arm64"}))
		fatal(t, err)
		f, _ := b.Func("main.main")
		if _, err := b.Enter(f); !errors.Is(err, ErrNoSite) || len(b.Returns(f)) != 0 || len(b.CallsTo(f, "main.large")) != 0 {
			t.Errorf("%v", err)
		}
	})
}

func TestOffsetsAreThoseOfTheFile(t *testing.T) {
	for _, flags := range [][]string{nil, {"-buildmode=pie"}} {
		file := build(t, false, nil, flags...)
		b, err := Open(file)
		fatal(t, err)
		raw, err := os.ReadFile(file)
		fatal(t, err)
		for f := range b.Funcs() {
			code, err := b.code(f)
			at, ok := b.Offset(f.Entry)
			if err != nil || !ok || !bytes.Equal(raw[at:at+uint64(len(code))], code) {
				if f.End > f.Entry {
					t.Fatalf("%+v: %v, %v", f, ok, err)
				}
			}
		}
		if _, ok := b.Offset(1); ok {
			t.Error("address 1 is in the file")
		}
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	fatal(t, os.WriteFile(text, []byte("text"), 0o666))
	for _, file := range []string{text, dir} {
		if _, err := Open(file); !errors.Is(err, ErrNotGo) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if sleep, err := exec.LookPath("sleep"); err == nil {
		if _, err := Open(sleep); !errors.Is(err, ErrNotGo) {
			t.Errorf("%s: %v", sleep, err)
		}
	}
}

func TestMinorVersions(t *testing.T) {
	for v, want := range map[string]int{"go1.26.8": 26, "go1.22": 22, "go1.27-devel_0123": 27, "go1.25rc1": 25} {
		if got, ok := minor(v); !ok || got != want {
			t.Errorf("%s: %d, %v", v, got, ok)
		}
	}
	for _, v := range []string{"", "devel +0123", "go2.1", "go1."} {
		if got, ok := minor(v); ok {
			t.Errorf("%q: %d", v, got)
		}
	}
	for v, want := range map[string]uint64{"go1.22.1": 152, "go1.24.1": 160, "go1.26.1": 152, "go1.21.1": 0, "go1.27.1": 0} {
		if got, _ := (&Binary{version: v}).GoidOffset(); got != want {
			t.Errorf("%s: %d", v, got)
		}
	}
}

// A file in which any byte is another one is refused or read, and what is read can be asked
// anything.
func FuzzOpen(f *testing.F) {
	small := tiny()
	f.Add(uint32(0), uint64(0), uint32(0))
	f.Add(uint32(0x2008), ^uint64(0), uint32(8))
	f.Add(uint32(0x2000+128), uint64(0xff), uint32(0))
	f.Fuzz(func(t *testing.T, at uint32, word uint64, cut uint32) {
		data := bytes.Clone(small)
		for i := range 8 {
			data[(int(at)+i)%len(data)] ^= byte(word >> (8 * i))
		}
		data = data[:len(data)-int(cut)%len(data)]
		b, err := openTiny(data)
		if err != nil {
			return
		}
		n := 0
		for fn := range b.Funcs() {
			if n++; n > 2000 {
				break
			}
			_, _ = b.At(fn.Entry)
			_, _ = b.Enter(fn)
			_ = b.Returns(fn)
		}
	})
}
