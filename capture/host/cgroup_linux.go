package host

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/whylate/whylate/internal/cgroup"
)

// group is a cgroup with the files of its counters. On cgroup v1 usage has a file
// of its own.
type group struct {
	Group
	stat, usage string // paths, "" if there is none
}

// groups are a process's cgroups, and whether all of its ancestors can be seen.
type groups struct {
	list      []group
	ancestors bool
	missing   []Missing
}

// findGroups finds the cgroups that limit or account for the CPU of a process,
// the leaf first. The root of the whole hierarchy is left out: it has no limit, and its usage is that
// of the machine.
func findGroups(pid int) groups {
	mountinfo, err := readText("/proc/self/mountinfo")
	if err != nil {
		return groups{missing: []Missing{{What: "groups", Why: err.Error()}}}
	}
	own, err := readText(procDir(pid) + "/cgroup")
	if err != nil {
		return groups{missing: []Missing{{What: "groups", Why: err.Error()}}}
	}
	return readGroups(cgroup.Mounts(mountinfo), cgroup.Memberships(own))
}

func readGroups(mounts []cgroup.Mount, of cgroup.Membership) groups {
	var g groups
	cpu := of.Of("cpu")
	switch cpu.Version {
	case 1:
		g.walk(mounts, cpu, isRootV1, groupV1)
		g.addUsage(mounts, of.Of("cpuacct"))
		g.addMemory(mounts, of.Of("memory"))
	case 2:
		g.walk(mounts, cpu, isRootV2, groupV2)
	default:
		g.miss("groups", "the process is in no cgroup that governs its CPU time")
	}
	return g
}

func (g *groups) miss(what, why string) { g.missing = append(g.missing, Missing{What: what, Why: why}) }

// walk adds a group and its ancestors up to the top of the mount, except the root.
func (g *groups) walk(mounts []cgroup.Mount, of cgroup.Group, isRoot func(folder string) bool, read func(folder string) group) {
	at, found, mounted := of.Find(mounts)
	switch {
	case !mounted:
		g.miss("groups", "no cgroup hierarchy with CPU accounting is mounted")
		return
	case !found:
		g.miss("groups", fmt.Sprintf("the cgroup %.200q is outside of what is mounted here", of.Path))
		return
	}
	leaf, name := at.Folder(), of.Path
	for folder := leaf; ; folder, name = path.Dir(folder), path.Dir(name) {
		if isRoot(folder) {
			g.ancestors = true
			return
		}
		if len(g.list) == maxGroups {
			g.miss("groups", fmt.Sprintf("only the innermost %d cgroups are recorded", maxGroups))
			return
		}
		if _, err := os.Stat(folder); err != nil {
			g.miss("groups", err.Error())
			return
		}
		level := read(folder)
		level.Path = name
		g.list = append(g.list, level)
		if folder == path.Clean(at.Point) {
			g.miss("ancestors", "the cgroups above "+strconv.Quote(name)+" are hidden by a cgroup namespace or mount; run whylate on the host")
			return
		}
	}
}

// Only the root of all has no file cgroup.type on v2, and a release_agent on v1; the root of
// a cgroup namespace looks like any other group.
func isRootV2(folder string) bool {
	return exists(folder+"/cgroup.procs") && !exists(folder+"/cgroup.type")
}
func isRootV1(folder string) bool { return exists(folder + "/release_agent") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func groupV2(folder string) group {
	g := group{stat: folder + "/cpu.stat"}
	text, _ := readText(folder + "/cpu.max") // none without the cpu controller, then there is no limit
	g.QuotaUS, g.PeriodUS = cgroup.Quota(text)
	text, _ = readText(folder + "/memory.max")
	g.MemoryLimit = cgroup.MemoryLimit(text)
	return g
}

// addUsage adds the file of the CPU time used, which on version 1 belongs to another controller. If that
// has a hierarchy of its own, a group of the same path is meant only if the process is in it too.
func (g *groups) addUsage(mounts []cgroup.Mount, acct cgroup.Group) {
	for i := range g.list {
		if !within(acct.Path, g.list[i].Path) {
			continue
		}
		same := acct
		same.Path = g.list[i].Path
		if at, found, _ := same.Find(mounts); found && exists(at.Folder()+"/cpuacct.usage") {
			g.list[i].usage = at.Folder() + "/cpuacct.usage"
		}
	}
	if len(g.list) > 0 && g.list[0].usage == "" {
		g.miss("groups.usage_ns", "the process is in no group of that path in the hierarchy of cpuacct")
	}
}

// addMemory adds the limits of memory, to the same groups where there are such.
func (g *groups) addMemory(mounts []cgroup.Mount, of cgroup.Group) {
	var memory groups
	if of.Version != 1 {
		return // without the CPU controller a group of version 2 is not where limits are
	}
	memory.walk(mounts, of, isRootV1, memoryV1)
	for _, limited := range memory.list {
		if limited.MemoryLimit == 0 {
			continue
		}
		if i := g.index(limited.Path); i >= 0 {
			g.list[i].MemoryLimit = limited.MemoryLimit
		} else if len(g.list) < maxGroups {
			g.list = append(g.list, limited)
		}
	}
}

func (g *groups) index(path string) int {
	for i := range g.list {
		if g.list[i].Path == path {
			return i
		}
	}
	return -1
}

// within tells whether a group is another or below it.
func within(group, other string) bool {
	return group == other || other == "/" || strings.HasPrefix(group, other+"/")
}

func groupV1(folder string) group {
	g := group{stat: folder + "/cpu.stat"}
	quota, _ := readText(folder + "/cpu.cfs_quota_us")
	period, _ := readText(folder + "/cpu.cfs_period_us")
	g.QuotaUS, g.PeriodUS = cgroup.Quota(quota + " " + period)
	return g
}

func memoryV1(folder string) group {
	text, _ := readText(folder + "/memory.limit_in_bytes")
	return group{Group: Group{MemoryLimit: cgroup.MemoryLimit(text)}}
}

// parse parses cpu.stat. On version 1 the CPU time used comes from another file.
func (c *GroupCounters) parse(text []byte) {
	usage := c.UsageNS
	if *c = GroupCounters(cgroup.ParseCounters(text)); c.UsageNS == 0 {
		c.UsageNS = usage
	}
}
