// Package groups reads the files of a process's control groups, from its own group upwards.
package groups

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/whylate/whylate/sdk/internal/cgroup"
)

const (
	// MaxFile bounds what is read of a file, in bytes: a mountinfo of tens of thousands of mounts.
	MaxFile = 4 << 20
	// maxLevels bounds how many groups are read from the leaf upwards.
	maxLevels = 64
)

// Tree reads texts below a root, by names that begin with a slash.
type Tree struct{ fs.FS }

// Host is the tree of this machine.
func Host() Tree { return Tree{os.DirFS("/")} }

// Text returns a file, "" if there is none or it is too long: a limit that is cut is none.
func (t Tree) Text(name string) string {
	file, err := t.Open(inside(name))
	if err != nil {
		return ""
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil || len(b) > MaxFile {
		return ""
	}
	return string(b)
}

// Folders returns the names of the folders in a folder.
func (t Tree) Folders(name string) (names []string) {
	all, _ := fs.ReadDir(t.FS, inside(name))
	for _, e := range all {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func (t Tree) has(name string) bool {
	_, err := fs.Stat(t.FS, inside(name))
	return err == nil
}

// inside makes of a path what fs.FS wants.
func inside(name string) string { return path.Join(".", path.Clean("/" + name)[1:]) }

// Climb calls read for the group that a controller governs this process by, and for each above it, up to the top of
// what is mounted: with the group's name, the folder of its files, and own, its version and the leaf's name. It returns why
// groups may be missing, "" if all were seen.
func (t Tree) Climb(controller string, read func(own cgroup.Group, name, folder string)) (hidden string) {
	own := cgroup.Memberships(t.Text("/proc/self/cgroup")).Of(controller)
	at, found, _ := own.Find(cgroup.Mounts(t.Text("/proc/self/mountinfo")))
	switch {
	case own.Version == 0:
		return "no control group is said in /proc/self/cgroup"
	case own.Outside():
		return fmt.Sprintf("the group %.200q is outside of this cgroup namespace", own.Path)
	case !found:
		return fmt.Sprintf("the group %.200q is not mounted here", own.Path)
	}
	folder, name := at.Folder(), own.Path
	for level := 0; level < maxLevels; level++ {
		if !t.has(folder) {
			return fmt.Sprintf("no folder %.200q", folder)
		}
		read(own, name, folder)
		// The root of all has a release_agent on version 1, and no cgroup.type on version 2; that of a
		// namespace or of a mount that begins below looks like any other group.
		isRoot := own.Version == 1 && t.has(folder+"/release_agent") || own.Version == 2 && t.has(folder+"/cgroup.procs") && !t.has(folder+"/cgroup.type")
		if isRoot {
			return ""
		}
		if folder == path.Clean(at.Point) {
			return "the groups above " + strconv.Quote(name) + " are hidden by a cgroup namespace or mount: theirs may be the tighter limits"
		}
		folder, name = path.Dir(folder), path.Dir(name)
	}
	return fmt.Sprintf("only the innermost %d groups were read", maxLevels)
}

// MemoryFiles are those that say how much memory a group may have: above the first the kernel kills, above the second it makes
// the group wait until memory is reclaimed.
func MemoryFiles(version int) []string {
	if version == 1 {
		return []string{"memory.limit_in_bytes"}
	}
	return []string{"memory.max", "memory.high"}
}
