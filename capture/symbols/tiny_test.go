package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tiny is an executable with two functions, main.a and main.b, and nothing else.
func tiny() []byte {
	const text, data, dataAt, table, module, names, functions = 0x401000, 0x402000, 0x2000, 0, 0x200, 72, 128
	le := binary.LittleEndian
	var b bytes.Buffer
	_ = binary.Write(&b, le, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Entry: text,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2,
	})
	_ = binary.Write(&b, le, []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: 0x1000, Vaddr: text, Filesz: 32, Memsz: 32},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: dataAt, Vaddr: data, Filesz: 0x400, Memsz: 0x400},
	})
	file := make([]byte, dataAt+0x400)
	copy(file, b.Bytes())
	for i := range 32 {
		file[0x1000+i] = 0xcc // INT3, with which linkers fill up
	}
	copy(file[0x1000:], "\x55\x48\x89\xe5\x5d\xc3")     // PUSH BP, MOV SP BP, POP BP, RET
	copy(file[0x1010:], "\x90\xe8\xea\xff\xff\xff\xc3") // NOP, CALL main.a, RET
	d := file[dataAt:]
	le.PutUint32(d, magic)
	d[6], d[7] = 1, 8
	le.PutUint64(d[nfuncAt:], 2)
	le.PutUint64(d[namesAt:], names)
	le.PutUint64(d[functionsAt:], functions)
	copy(d[names:], "main.a\x00main.b\x00")
	for i, x := range []uint32{0, 24, 16, 32, 32, 0 /* and what is known of each: */, 0, 0, 16, 7} {
		le.PutUint32(d[functions+4*i:], x)
	}
	le.PutUint64(d[module:], data+table)
	le.PutUint64(d[module+ftabLenAt:], 3)
	for at, x := range map[int]uint64{minpcAt: text, maxpcAt: text + 32, textAt: text, etextAt: text + 32} {
		le.PutUint64(d[module+at:], x)
	}
	return file
}

func openTiny(data []byte) (*Binary, error) { return read(bytes.NewReader(data), int64(len(data))) }

func TestTheSmallestExecutable(t *testing.T) {
	b, err := openTiny(tiny())
	fatal(t, err)
	got := slices.Collect(b.Funcs())
	if want := []Func{{"main.a", 0x401000, 0x401010}, {"main.b", 0x401010, 0x401020}}; !slices.Equal(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if site, err := b.Enter(got[1]); err != nil || site != 0x401010 {
		t.Errorf("main.b is entered at %#x, %v", site, err)
	}
	if calls := b.CallsTo(got[1], "main.a"); !slices.Equal(calls, []uint64{0x401011}) {
		t.Errorf("main.b calls main.a at %#x", calls)
	}
	if at := b.Returns(got[0]); !slices.Equal(at, []uint64{0x401005}) {
		t.Errorf("main.a returns at %#x", at)
	}
	if at, ok := b.Offset(0x401010); !ok || at != 0x1010 {
		t.Errorf("main.b is at %#x in the file", at)
	}
	if _, err := Bias(1<<30, b); err != nil {
		t.Errorf("an executable at a fixed address asks where a process has it: %v", err)
	}
}

func TestTablesThatCannotBeAreRefused(t *testing.T) {
	const table = 0x2000
	for name, change := range map[string]func(b []byte){
		"no table":                  func(b []byte) { b[table] = 0 },
		"of another version":        func(b []byte) { b[table] = 0xf2 },
		"more functions than room":  func(b []byte) { binary.LittleEndian.PutUint64(b[table+nfuncAt:], 1<<40) },
		"no functions":              func(b []byte) { binary.LittleEndian.PutUint64(b[table+nfuncAt:], 0) },
		"names outside":             func(b []byte) { binary.LittleEndian.PutUint64(b[table+namesAt:], 1<<63) },
		"functions in no order":     func(b []byte) { binary.LittleEndian.PutUint32(b[table+128+8:], 64) },
		"no record of the runtime":  func(b []byte) { b[table+0x200] = 1 },
		"a record of another table": func(b []byte) { b[table+0x200+ftabLenAt] = 9 },
		"a segment beyond the end":  func(b []byte) { binary.LittleEndian.PutUint64(b[64+56+32:], 1<<40) },
		"at address 0":              func(b []byte) { binary.LittleEndian.PutUint64(b[64+56+16:], 0) },
		"too many sections":         func(b []byte) { b[40], b[60], b[61] = 64, 1, 8 },
		"sections of no size":       func(b []byte) { b[40], b[60] = 64, 2 },
		"names in no section":       func(b []byte) { b[40], b[58], b[60], b[62] = 64, 64, 2, 2 },
		"sections beyond the end":   func(b []byte) { b[44], b[58], b[60] = 1, 64, 2 },
		"names without end":         func(b []byte) { b[41], b[58], b[60] = 1, 64, 2; b[0x100+34] = 2 },
		"of 32 bits":                func(b []byte) { b[4] = byte(elf.ELFCLASS32) },
		"of another machine":        func(b []byte) { b[18] = byte(elf.EM_RISCV) },
	} {
		t.Run(name, func(t *testing.T) {
			data := tiny()
			change(data)
			if _, err := openTiny(data); !errors.Is(err, ErrNotGo) {
				t.Errorf("%v", err)
			}
		})
	}
	// Each table is looked for in all of the file.
	data := tiny()
	copy(data[table+0x300:], bytes.Repeat(data[table:table+8], maxTables))
	data[table+0x200] = 1
	if _, err := openTiny(data); err == nil || !strings.Contains(err.Error(), "more than 16 tables") {
		t.Errorf("%v", err)
	}
	// A name that is nowhere is none; the function is there.
	data = tiny()
	binary.LittleEndian.PutUint32(data[table+128+4:], 1<<31)
	b, err := openTiny(data)
	fatal(t, err)
	if f, ok := b.At(0x401000); !ok || f.Name != "" {
		t.Errorf("%+v, %v", f, ok)
	}
}

// where prints where main.main and main.large are in the process that runs, and waits.
const where = `
func init() {
	f := large
	p := **(**uintptr)(unsafe.Pointer(&f))
	println(p)
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}
`

func TestWhereAProcessHasItsFunctions(t *testing.T) {
	for _, flags := range [][]string{nil, {"-buildmode=pie"}} {
		dir := t.TempDir()
		program := strings.Replace(source, "package main\n", "package main\n\nimport (\n\t\"os\"\n\t\"unsafe\"\n)\n"+where, 1)
		fatal(t, os.WriteFile(dir+"/main.go", []byte(program), 0o666))
		fatal(t, os.WriteFile(dir+"/go.mod", []byte("module m\n\ngo 1.22\n"), 0o666))
		make := exec.Command("go", append(append([]string{"build", "-o", "program"}, flags...), ".")...)
		make.Dir = dir
		make.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
		if out, err := make.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd := exec.Command(dir + "/program")
		stdin, err := cmd.StdinPipe()
		fatal(t, err)
		out, err := cmd.StderrPipe()
		fatal(t, err)
		fatal(t, cmd.Start())
		var line [64]byte
		n, err := out.Read(line[:])
		fatal(t, err)
		addr, err := strconv.ParseUint(strings.TrimSpace(string(line[:n])), 10, 64)
		fatal(t, err)
		exe := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/exe"
		fatal(t, os.Remove(dir+"/program")) // as after an upgrade
		b, err := Open(exe)
		fatal(t, err)
		bias, err := Bias(cmd.Process.Pid, b)
		fatal(t, err)
		if f, ok := b.At(addr - bias); !ok || f.Name != "main.large" || f.Entry != addr-bias {
			t.Errorf("%v: at %#x, %#x further than the file says, is %+v", flags, addr, bias, f)
		}
		if (bias != 0) != (flags != nil) {
			t.Errorf("%v: it is %#x further than the file says", flags, bias)
		}
		stdin.Close()
		fatal(t, cmd.Wait())
		if _, err := Bias(cmd.Process.Pid, b); (err != nil) != (flags != nil) {
			t.Errorf("%v: a process that has ended: %v", flags, err)
		}
	}
}
