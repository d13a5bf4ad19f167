package doctor

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"go/version"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/whylate/whylate/internal/cgroup"
)

// process is what can be seen of a process from outside.
type process struct {
	Target
	// name is its folder in /proc: "self" or a number.
	name string
	// known tells that it is a Go program whose build could be read. For this
	// shell it is false: a program started here may be any.
	known bool
	// godebug are the defaults that its main module was built with, library a
	// library in it that sets GOMAXPROCS.
	godebug, library string
	// env holds GOMAXPROCS and GODEBUG as the process was started with; of the
	// environment nothing else is kept. envErr says why it is unknown.
	env    map[string]string
	envErr error
	// cpus is the number of CPUs that it may use, 0 if unknown.
	cpus int
	// procs is its GOMAXPROCS now, 0 if procsErr says why it is unknown.
	procs    int
	procsErr error
	// noCgroupMount tells that its file system shows no cgroup that governs CPU time.
	noCgroupMount bool
}

// shell is a Go program that would be started where this one was.
func shell(f files) *process {
	p := &process{Target: Target{UID: -1}, name: "self"}
	p.readStatus(f)
	p.readEnv(f)
	return p
}

// inspect looks at process pid. What it finds out of order is in the target's
// Problem and Limits.
func inspect(f files, pid int) *process {
	p := &process{Target: Target{PID: pid, UID: -1}, name: strconv.Itoa(pid)}
	if err := p.readStatus(f); err != nil {
		p.Problem = fmt.Sprintf("there is no process %d", pid)
		switch {
		case f.link("proc/self/ns/pid") != initPID:
			p.Problem += " in this pid namespace; a container counts its processes for itself"
		case hidepid(f) != "":
			p.Problem += ", or /proc hides it (hidepid): try as root or as its user"
		}
		return p
	}
	if len(p.NSPID) > 1 {
		p.limit("it runs in a pid namespace of its own, where it is process %d", p.NSPID[len(p.NSPID)-1])
	}
	p.readEnv(f)
	if p.envErr != nil {
		p.limit("its environment: %s", because(p.envErr))
	}
	p.readProgram(f)
	if text, err := f.text("proc/" + p.name + "/mountinfo"); err == nil {
		g := cgroup.Memberships(f.value("proc/" + p.name + "/cgroup")).Of("cpu")
		_, _, mounted := g.Find(cgroup.Mounts(text))
		p.noCgroupMount = g.Version > 0 && !mounted
	}
	return p
}

func (p *process) limit(format string, args ...any) {
	p.Limits = append(p.Limits, fmt.Sprintf(format, args...))
}

// readStatus reads /proc/PID/status. A thread's id becomes that of its process.
func (p *process) readStatus(f files) error {
	text, err := f.text("proc/" + p.name + "/status")
	if err != nil {
		return err
	}
	m := fields(text)
	if tgid, err := strconv.Atoi(m["Tgid"]); err == nil && p.PID != 0 && tgid != p.PID {
		p.limit("%d is a thread of process %d", p.PID, tgid)
		p.PID, p.name = tgid, strconv.Itoa(tgid)
		return p.readStatus(f)
	}
	p.cpus = listLen(m["Cpus_allowed_list"])
	if ids := strings.Fields(m["Uid"]); len(ids) > 1 {
		if uid, err := strconv.Atoi(ids[1]); err == nil { // the effective one
			p.UID = uid
		}
	}
	if ids := strings.Fields(m["NSpid"]); len(ids) > 1 && p.name != "self" {
		for _, s := range ids {
			if n, err := strconv.Atoi(s); err == nil {
				p.NSPID = append(p.NSPID, n)
			}
		}
	}
	return nil
}

// readEnv takes the two variables out of /proc/PID/environ. Of a repeated one the
// first counts, as in the runtime's gogetenv.
func (p *process) readEnv(f files) {
	text, err := f.text("proc/" + p.name + "/environ")
	p.env, p.envErr = make(map[string]string), err
	for entry := range strings.SplitSeq(text, "\x00") {
		key, value, _ := strings.Cut(entry, "=")
		if _, seen := p.env[key]; (key == "GOMAXPROCS" || key == "GODEBUG") && !seen {
			p.env[key] = value
		}
	}
}

// setter is a library that calls runtime.GOMAXPROCS when a program starts.
const setter = "go.uber.org/automaxprocs"

// readProgram reads how the program was built and its number of Ps.
func (p *process) readProgram(f files) {
	file, err := f.fs.Open("proc/" + p.name + "/exe")
	if errors.Is(err, fs.ErrNotExist) {
		p.Problem = fmt.Sprintf("process %d has no program: it ended, or it is a kernel thread", p.PID)
		return
	}
	if err != nil {
		how := fmt.Sprintf("; sudo whylate doctor %d sees it", p.PID)
		if isRoot(f) {
			how = ""
		}
		p.limit("its program: %s%s", because(err), how)
		p.procsErr = err
		return
	}
	defer file.Close()
	r, ok := file.(io.ReaderAt)
	if !ok {
		p.limit("its program cannot be read at an offset")
		return
	}
	info, err := buildInfo(r)
	if err != nil {
		p.Problem = fmt.Sprintf("process %d is no Go program: %s", p.PID, f.value("proc/"+p.name+"/comm"))
		return
	}
	p.known, p.Go, p.Main = true, info.GoVersion, info.Path
	for _, s := range info.Settings {
		if s.Key == "DefaultGODEBUG" {
			p.godebug = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Path == setter {
			p.library = m.Path + " " + m.Version
		}
	}
	p.procs, p.procsErr = liveProcs(f, p.name, r)
}

// buildInfo is buildinfo.Read for programs that may be malformed on purpose:
// debug/elf promises nothing about those.
func buildInfo(r io.ReaderAt) (info *buildinfo.BuildInfo, err error) {
	defer recovered(&err)
	return buildinfo.Read(r)
}

func recovered(err *error) {
	if x := recover(); x != nil {
		*err = fmt.Errorf("malformed program: %v", x)
	}
}

// release is the language version of a Go version as programs carry it, "go1.25";
// "" if it has none. Development builds carry "devel go1.27-0123abc ...".
func release(v string) string {
	for _, word := range strings.Fields(v) {
		word, _, _ = strings.Cut(word, "-")
		if version.IsValid(word) {
			return version.Lang(word)
		}
	}
	return ""
}

// debugSetting returns what a list of GODEBUG settings says of a key, fallback if
// nothing. The last one counts; what is no number is ignored, as in the runtime.
func debugSetting(list, key string, fallback int) int {
	for item := range strings.SplitSeq(list, ",") {
		if k, v, ok := strings.Cut(item, "="); ok && k == key {
			if n, err := strconv.ParseInt(v, 10, 32); err == nil {
				fallback = int(n)
			}
		}
	}
	return fallback
}

// maxSymbols bounds the sections of a program that are read, in bytes: kubelet's
// symbols and their names have 20 MB.
const maxSymbols = 256 << 20

// liveProcs reads the variable runtime.gomaxprocs of a running process. That
// needs its symbol table and the permission to read its memory.
func liveProcs(f files, name string, program io.ReaderAt) (n int, err error) {
	defer recovered(&err)
	e, err := elf.NewFile(program)
	if err != nil {
		return 0, err
	}
	if e.Class != elf.ELFCLASS64 {
		return 0, errors.New("only done for 64-bit programs")
	}
	address, err := symbol(e, "runtime.gomaxprocs")
	if err != nil {
		return 0, err
	}
	bias, err := loadBias(f, name, e)
	if err != nil {
		return 0, err
	}
	mem, err := f.fs.Open("proc/" + name + "/mem")
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	r, ok := mem.(io.ReaderAt)
	if !ok {
		return 0, errors.New("its memory cannot be read at an offset")
	}
	var b [4]byte
	if _, err := r.ReadAt(b[:], int64(address+bias)); err != nil {
		return 0, fmt.Errorf("its memory: %w", err)
	}
	n = int(int32(e.ByteOrder.Uint32(b[:])))
	if n < 1 || n > maxList {
		return 0, fmt.Errorf("its memory does not hold a number of Ps: %d", n)
	}
	return n, nil
}

// symbol returns the address of a variable.
func symbol(e *elf.File, name string) (uint64, error) {
	size := uint64(0)
	for _, s := range e.Sections {
		if s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_STRTAB {
			if s.Flags&elf.SHF_COMPRESSED != 0 {
				return 0, errors.New("its symbol table is compressed")
			}
			size += s.Size
		}
	}
	if size > maxSymbols {
		return 0, errors.New("its symbol table is too large")
	}
	symbols, err := e.Symbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		return 0, errors.New("the program is stripped")
	}
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == name {
			return s.Value, nil
		}
	}
	return 0, fmt.Errorf("the program has no symbol %s", name)
}

// atEntry is the type of the auxiliary vector's entry that holds the address of
// the program's entry point (include/uapi/linux/auxvec.h).
const atEntry = 9

// loadBias returns by how much the process's addresses differ from those in its
// program: 0 unless that is position-independent.
func loadBias(f files, name string, e *elf.File) (uint64, error) {
	if e.Type != elf.ET_DYN {
		return 0, nil
	}
	entry, ok, err := auxiliary(f, name, atEntry, e.ByteOrder)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, errors.New("its auxiliary vector has no entry point")
	}
	return entry - e.Entry, nil
}

// auxiliary returns an entry of a 64-bit process's auxiliary vector.
func auxiliary(f files, name string, kind uint64, order binary.ByteOrder) (value uint64, ok bool, err error) {
	text, err := f.text("proc/" + name + "/auxv")
	if err != nil {
		return 0, false, err
	}
	for b := []byte(text); len(b) >= 16; b = b[16:] {
		if order.Uint64(b) == kind {
			return order.Uint64(b[8:]), true, nil
		}
	}
	return 0, false, nil
}

// hidepid returns the option by which /proc hides other users' processes, "" if
// it does not (man 5 proc: 1 hides what is in them, 2 and 4 hide them).
func hidepid(f files) string {
	text, err := f.text("proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for _, m := range cgroup.Mounts(text) {
		if m.Kind != "proc" || m.Point != "/proc" {
			continue
		}
		for _, o := range m.Options {
			if v, ok := strings.CutPrefix(o, "hidepid="); ok && v != "0" && v != "off" {
				return v
			}
		}
	}
	return ""
}
