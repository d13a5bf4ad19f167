package host

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// unlimited: cgroup v1 says "no memory limit" with the largest number of whole
// pages; nothing that large is a limit.
const unlimited = 1 << 62

// mount is a mounted cgroup hierarchy. Root is the group that is its top folder.
type mount struct{ point, root string }

// hierarchies are the groups of a process: of cgroup v1, by controller, and of v2.
type hierarchies struct {
	v1Mounts, v1Groups map[string]string // controller to folder of its hierarchy's top, to path of the group
	v1Roots            map[string]string // controller to mount.root
	v2                 mount
	v2Group            string
}

// parseMounts reads /proc/PID/mountinfo, see proc_pid_mountinfo(5).
func (h *hierarchies) parseMounts(mountinfo string) {
	h.v1Mounts, h.v1Roots = make(map[string]string), make(map[string]string)
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 {
			continue
		}
		root, point := unescapeMount(f[3]), unescapeMount(f[4])
		switch g[0] {
		case "cgroup2":
			if h.v2.point == "" {
				h.v2 = mount{point, root}
			}
		case "cgroup":
			for _, controller := range strings.Split(g[2], ",") {
				if h.v1Mounts[controller] == "" {
					h.v1Mounts[controller], h.v1Roots[controller] = point, root
				}
			}
		}
	}
}

// parseGroups reads /proc/PID/cgroup, see cgroups(7).
func (h *hierarchies) parseGroups(cgroup string) {
	h.v1Groups = make(map[string]string)
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			h.v2Group = f[2]
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			h.v1Groups[controller] = f[2]
		}
	}
}

// unescapeMount undoes the octal escapes of blanks and backslashes in mountinfo.
func unescapeMount(s string) string {
	for _, c := range []string{" ", "\t", "\n", `\`} {
		s = strings.ReplaceAll(s, fmt.Sprintf(`\%03o`, c[0]), c)
	}
	return s
}

// folder is the folder of a group in a mounted hierarchy. A group outside of what is
// mounted, or of the reader's cgroup namespace, has none.
func (m mount) folder(group string) (string, bool) {
	if m.point == "" || !strings.HasPrefix(group, "/") || strings.HasPrefix(group, "/..") {
		return "", false
	}
	if m.root == "/" {
		return path.Join(m.point, group), true
	}
	if group != m.root && !strings.HasPrefix(group, m.root+"/") {
		return "", false
	}
	return path.Join(m.point, strings.TrimPrefix(group, m.root)), true
}

// v1 is the mount of a controller and the process's group in it.
func (h *hierarchies) v1(controller string) (mount, string) {
	return mount{h.v1Mounts[controller], h.v1Roots[controller]}, h.v1Groups[controller]
}

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
	var h hierarchies
	h.parseMounts(mountinfo)
	h.parseGroups(own)
	return h.groups()
}

func (h *hierarchies) groups() groups {
	if m, path := h.v1("cpu"); m.point != "" && path != "" {
		return h.groupsV1(m, path)
	}
	var g groups
	switch {
	case h.v2.point == "":
		g.miss("groups", "no cgroup hierarchy with CPU accounting is mounted")
	case h.v2Group == "":
		g.miss("groups", "the process is in no cgroup v2")
	default:
		g.walk(h.v2, h.v2Group, isRootV2, groupV2)
	}
	return g
}

func (g *groups) miss(what, why string) { g.missing = append(g.missing, Missing{What: what, Why: why}) }

// walk adds a group and its ancestors up to the top of the mount, except the root.
func (g *groups) walk(m mount, name string, isRoot func(folder string) bool, read func(folder string) group) {
	leaf, ok := m.folder(name)
	if !ok {
		g.miss("groups", fmt.Sprintf("the cgroup %.200q is outside of what is mounted here", name))
		return
	}
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
		found := read(folder)
		found.Path = name
		g.list = append(g.list, found)
		if folder == path.Clean(m.point) {
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
	if quota, period, ok := strings.Cut(strings.TrimSpace(text), " "); ok && quota != "max" {
		g.QuotaUS, _ = strconv.ParseInt(quota, 10, 64)
		g.PeriodUS, _ = strconv.ParseInt(period, 10, 64)
	}
	g.MemoryLimit, _ = readInt(folder + "/memory.max")
	return g
}

// groupsV1 walks the hierarchy of the CPU controller. Those of CPU accounting and of memory
// may be others: then a group of the same path belongs to it only if the process is in it, too.
func (h *hierarchies) groupsV1(cpu mount, name string) groups {
	var g groups
	acct, acctName := h.v1("cpuacct")
	g.walk(cpu, name, isRootV1, groupV1)
	for i := range g.list {
		if within(acctName, g.list[i].Path) {
			if folder, ok := acct.folder(g.list[i].Path); ok && exists(folder+"/cpuacct.usage") {
				g.list[i].usage = folder + "/cpuacct.usage"
			}
		}
	}
	if len(g.list) > 0 && g.list[0].usage == "" {
		g.miss("groups.usage_ns", "the process is in no group of that path in the hierarchy of cpuacct")
	}
	var memory groups
	m, memoryName := h.v1("memory")
	if m.point == "" {
		return g
	}
	memory.walk(m, memoryName, isRootV1, memoryV1)
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
	return g
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
	quota, err := readInt(folder + "/cpu.cfs_quota_us")
	if err == nil && quota > 0 { // -1 is no limit
		g.QuotaUS = quota
		g.PeriodUS, _ = readInt(folder + "/cpu.cfs_period_us")
	}
	return g
}

func memoryV1(folder string) group {
	limit, err := readInt(folder + "/memory.limit_in_bytes")
	if err != nil || limit >= unlimited {
		limit = 0
	}
	return group{Group: Group{MemoryLimit: limit}}
}

// counters parses cpu.stat of either version into c.
func (c *GroupCounters) parse(text []byte) {
	c.Periods = value(text, "nr_periods")
	c.Throttled = value(text, "nr_throttled")
	c.ThrottledNS = max(value(text, "throttled_time"), value(text, "throttled_usec")*1000)
	if usage := value(text, "usage_usec"); usage > 0 {
		c.UsageNS = usage * 1000
	}
}
