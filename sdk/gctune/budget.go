package gctune

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"github.com/whylate/whylate/sdk/internal/cgroup"
)

// Bounds of what is read: bytes of a file, groups upwards from the process's own, and groups below one.
const (
	maxFile   = 4 << 20
	maxLevels = 64
	maxGroups = 4096
)

// budget is how much memory there is for the runtime, and where that is from.
type budget struct {
	bytes   int64 // less the reserve
	source  string
	reserve int64 // 0: a twentieth
	root    fs.FS // nil: it does not change

	// enforced is whether the kernel kills who exceeds it, or a little more.
	enforced bool
}

// findBudget returns the budget. set is the memory limit in force, math.MaxInt64 is none.
func findBudget(o Options, set int64) (budget, error) {
	if runtime.GOOS == "linux" {
		return budgetOf(o, set, files{os.DirFS("/")})
	}
	return budgetOf(o, set, files{})
}

const advice = "set Options.Budget to the bytes that this process may use"

// budgetOf is findBudget for any root.
func budgetOf(o Options, set int64, f files) (budget, error) {
	if o.Budget > 0 {
		return budget{bytes: o.Budget - o.Reserve, source: "Options.Budget"}, nil
	}
	b, err := groupBudget(o, f)
	// The budget of which a limit is that limit.
	if whole := set + min(set, math.MaxInt64/2)/15; set < math.MaxInt64/2 && whole >= smallest && (err != nil || whole < b.bytes) {
		b, err = budget{bytes: whole, source: "GOMEMLIMIT", enforced: err == nil}, nil
	}
	if err == nil && o.Ceiling > 0 && o.Ceiling < b.bytes {
		return budget{}, fmt.Errorf("gctune: Ceiling is %s: it has to be %s, the budget by %s, at least", size(o.Ceiling), size(b.bytes), b.source)
	}
	return b, err
}

// groupBudget is the budget by the process's control groups.
func groupBudget(o Options, f files) (budget, error) {
	if f.FS == nil {
		return budget{}, fmt.Errorf("%w: there are no control groups on %s: %s", ErrNoBudget, runtime.GOOS, advice)
	}
	l, why := f.lowest()
	if l.bytes == 0 {
		return budget{}, fmt.Errorf("%w: %s: %s", ErrNoBudget, why, advice)
	}
	if o.Reserve == 0 {
		if others := f.others(l.folder, os.Getpid()); others != "" {
			return budget{}, fmt.Errorf("%w: %s counts against the %s of %q: %s, or Options.Reserve to what the others need", ErrShared, others, size(l.bytes), l.group, advice)
		}
	}
	b := budget{root: f.FS, reserve: o.Reserve, enforced: true}
	if b.take(l); b.bytes < smallest {
		return budget{}, fmt.Errorf("%w: the limit of %q less Options.Reserve is %s, below %s: %s", ErrNoBudget, l.group, size(b.bytes), size(smallest), advice)
	}
	return b, nil
}

// again looks whether the limit has changed. One that cannot be read any more, or is none any more, is kept.
func (b *budget) again() {
	if b.root == nil {
		return
	}
	if l, _ := (files{b.root}).lowest(); l.bytes > 0 {
		b.take(l)
		b.bytes = max(smallest, b.bytes)
	}
}

func (b *budget) take(l limited) {
	reserve := b.reserve
	if reserve == 0 {
		reserve = l.bytes / 20
	}
	b.bytes, b.source = l.bytes-reserve, l.group
}

// limited is a group with a memory limit.
type limited struct {
	bytes         int64
	group, folder string
}

// files reads texts below a root.
type files struct{ fs.FS }

// text returns a file, "" if there is none or it is too long.
func (f files) text(name string) string {
	file, err := f.Open(inside(name))
	if err != nil {
		return ""
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil || len(b) > maxFile {
		return ""
	}
	return string(b)
}

// inside makes of a path what fs.FS wants.
func inside(name string) string { return path.Join(".", path.Clean("/" + name)[1:]) }

// lowest returns the group with the lowest limit, the process's own or one above; or why there is none.
func (f files) lowest() (lowest limited, why string) {
	of := cgroup.Memberships(f.text("/proc/self/cgroup")).Of("memory")
	at, found, _ := of.Find(cgroup.Mounts(f.text("/proc/self/mountinfo")))
	if of.Version == 0 || of.Outside() || !found {
		return limited{}, "the process's control group for memory cannot be seen here"
	}
	names := []string{"memory.max", "memory.high"} // above high the kernel makes the group wait until memory is reclaimed
	if of.Version == 1 {
		names = []string{"memory.limit_in_bytes"}
	}
	folder, group := at.Folder(), of.Path
	for level := 0; level < maxLevels; level++ {
		for _, name := range names {
			if n := cgroup.MemoryLimit(f.text(folder + "/" + name)); n > 0 && (lowest.bytes == 0 || n < lowest.bytes) {
				lowest = limited{n, group, folder}
			}
		}
		if folder == path.Clean(at.Point) {
			break
		}
		folder, group = path.Dir(folder), path.Dir(group)
	}
	return lowest, fmt.Sprintf("neither the control group %q nor one above it that can be seen has a memory limit", of.Path)
}

// others says which other processes are in a group or below it, "" if there are none.
func (f files) others(folder string, self int) string {
	first, number := "", 0
	for folders := []string{folder}; len(folders) > 0 && number < maxGroups; number++ {
		folder, folders = folders[0], folders[1:]
		for _, pid := range strings.Fields(f.text(folder + "/cgroup.procs")) {
			switch {
			case pid == strconv.Itoa(self):
			case pid == "0": // of another namespace
				first = "a process of another container"
			default:
				return "process " + pid
			}
		}
		below, err := fs.ReadDir(f, inside(folder))
		if err != nil {
			continue
		}
		for _, e := range below {
			if e.IsDir() {
				folders = append(folders, path.Join(folder, e.Name()))
			}
		}
	}
	return first
}
