package gctune

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"github.com/whylate/whylate/sdk/internal/cgroup"
	"github.com/whylate/whylate/sdk/internal/groups"
)

// maxGroups bounds how many groups below one are looked into.
const maxGroups = 4096

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
		return budgetOf(o, set, groups.Host())
	}
	return budgetOf(o, set, groups.Tree{})
}

const advice = "set Options.Budget to the bytes that this process may use"

// budgetOf is findBudget for any root.
func budgetOf(o Options, set int64, t groups.Tree) (budget, error) {
	if o.Budget > 0 {
		return budget{bytes: o.Budget - o.Reserve, source: "Options.Budget"}, nil
	}
	b, err := groupBudget(o, t)
	// The budget of which a limit is that limit.
	if whole := set + min(set, math.MaxInt64/2)/15; set < math.MaxInt64/2 && whole >= smallest && (err != nil || whole < b.bytes) {
		b, err = budget{bytes: whole, source: "GOMEMLIMIT", enforced: b.enforced}, nil
	}
	if err == nil && o.Ceiling > 0 && o.Ceiling < b.bytes {
		return budget{}, fmt.Errorf("gctune: Ceiling is %s: it has to be %s, the budget by %s, at least", size(o.Ceiling), size(b.bytes), b.source)
	}
	return b, err
}

// groupBudget is the budget by the process's control groups. With an error it tells nothing but whether there is a limit that is enforced.
func groupBudget(o Options, t groups.Tree) (budget, error) {
	if t.FS == nil {
		return budget{}, fmt.Errorf("%w: there are no control groups on %s: %s", ErrNoBudget, runtime.GOOS, advice)
	}
	l, why := lowest(t)
	if l.bytes == 0 {
		return budget{}, fmt.Errorf("%w: %s: %s", ErrNoBudget, why, advice)
	}
	if o.Reserve == 0 {
		if others := others(t, l.folder, os.Getpid()); others != "" {
			return budget{enforced: true}, fmt.Errorf("%w: %s counts against the %s of %q: %s, or Options.Reserve to what the others need", ErrShared, others, size(l.bytes), l.group, advice)
		}
	}
	b := budget{root: t.FS, reserve: o.Reserve, enforced: true}
	if b.take(l); b.bytes < smallest {
		return budget{enforced: true}, fmt.Errorf("%w: the limit of %q less Options.Reserve is %s, below %s: %s", ErrNoBudget, l.group, size(b.bytes), size(smallest), advice)
	}
	return b, nil
}

// again looks whether the limit has changed. One that cannot be read any more, or is none any more, is kept.
func (b *budget) again() {
	if b.root == nil {
		return
	}
	if l, _ := lowest(groups.Tree{FS: b.root}); l.bytes > 0 {
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

// lowest returns the group with the lowest limit, the process's own or one above; or why there is none.
func lowest(t groups.Tree) (l limited, why string) {
	group := ""
	hidden := t.Climb("memory", func(own cgroup.Group, name, folder string) {
		group = own.Path
		for _, file := range groups.MemoryFiles(own.Version) {
			if n := cgroup.MemoryLimit(t.Text(folder + "/" + file)); n > 0 && (l.bytes == 0 || n < l.bytes) {
				l = limited{n, name, folder}
			}
		}
	})
	if group == "" {
		return limited{}, hidden
	}
	return l, fmt.Sprintf("neither the control group %q nor one above it that can be seen has a memory limit", group)
}

// others says which other processes are in a group or below it, "" if there are none.
func others(t groups.Tree, folder string, self int) string {
	first, number := "", 0
	for folders := []string{folder}; len(folders) > 0 && number < maxGroups; number++ {
		folder, folders = folders[0], folders[1:]
		for _, pid := range strings.Fields(t.Text(folder + "/cgroup.procs")) {
			switch {
			case pid == strconv.Itoa(self):
			case pid == "0": // of another namespace
				first = "a process of another container"
			default:
				return "process " + pid
			}
		}
		for _, below := range t.Folders(folder) {
			folders = append(folders, path.Join(folder, below))
		}
	}
	return first
}
