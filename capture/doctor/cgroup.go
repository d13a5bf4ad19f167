package doctor

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// initCgroup is the initial cgroup namespace as a link in /proc/PID/ns shows it;
// its number is a constant of the kernel (PROC_CGROUP_INIT_INO in
// include/linux/proc_ns.h), like those of the initial pid and user namespaces.
const (
	initCgroup = "cgroup:[4026531835]"
	initPID    = "pid:[4026531836]"
	initUser   = "user:[4026531837]"
)

// Group is a cgroup on the way from a process to the root.
type Group struct {
	// Path is where its files are.
	Path string `json:"path"`
	// CPUs is its quota divided by the period, 0 if there is none.
	CPUs float64 `json:"cpus,omitempty"`
	// PeriodUS is the length of a period in microseconds, 0 without a quota.
	PeriodUS int64 `json:"period_us,omitempty"`
	// Periods and Throttled count since the group was made.
	Periods   int64 `json:"periods,omitempty"`
	Throttled int64 `json:"throttled,omitempty"`
}

// groups are the cgroups that govern the CPU time of a process.
type groups struct {
	version int // 1 or 2, 0 without any
	// list goes from the leaf to the topmost one that can be seen.
	list []Group
	// complete tells that nothing above list can limit the process.
	complete bool
	// hidden says why list is empty or not complete.
	hidden string
}

// leaf is the quota of the process's own cgroup, 0 if there is none.
func (g *groups) leaf() float64 {
	if len(g.list) == 0 {
		return 0
	}
	return g.list[0].CPUs
}

// tightest returns the group with the lowest quota, nil if there is no quota.
func (g *groups) tightest() *Group {
	var low *Group
	for i := range g.list {
		if c := &g.list[i]; c.CPUs > 0 && (low == nil || c.CPUs < low.CPUs) {
			low = c
		}
	}
	return low
}

// mount is a line of mountinfo (man 5 proc_pid_mountinfo).
type mount struct {
	root, point, kind string
	options           []string
}

// mounts parses mountinfo; lines that do not have its form are left out.
func mounts(text string) []mount {
	var list []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		options := append(strings.Split(l[5], ","), strings.Split(r[2], ",")...)
		list = append(list, mount{unescape(l[3]), unescape(l[4]), r[0], options})
	}
	return list
}

// unescape undoes the kernel's \040 for a space and so on.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// cpuGroup returns the path of the cgroup that governs CPU time out of
// /proc/PID/cgroup, and the version of its hierarchy: 1 if a hierarchy of version
// 1 has the controller, else 2, and 0 if there is none.
func cpuGroup(text string) (where string, version int) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			if version == 0 {
				where, version = parts[2], 2
			}
		} else if slices.Contains(strings.Split(parts[1], ","), "cpu") {
			where, version = parts[2], 1
		}
	}
	return where, version
}

// governs reports whether m shows the hierarchy that governs CPU time.
func (m mount) governs(version int) bool {
	if version == 2 {
		return m.kind == "cgroup2"
	}
	return m.kind == "cgroup" && slices.Contains(m.options, "cpu")
}

// below returns the rest of a path under a folder.
func below(folder, name string) (rest string, ok bool) {
	if folder == "/" {
		return name, true
	}
	rest, ok = strings.CutPrefix(name, folder)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// cgroups finds the groups of a process, "self" or a number, as this process sees them.
func cgroups(f files, pid string) groups {
	text, err := f.text("proc/" + pid + "/cgroup")
	if err != nil {
		return groups{hidden: "/proc/" + pid + "/cgroup: " + because(err)}
	}
	where, version := cpuGroup(text)
	if version == 0 {
		return groups{hidden: "no cgroup governs its CPU time", complete: true}
	}
	g := groups{version: version}
	info, err := f.text("proc/self/mountinfo")
	if err != nil {
		g.hidden = "/proc/self/mountinfo: " + because(err)
		return g
	}
	if strings.HasPrefix(where, "/..") {
		g.hidden = "its cgroup " + where + " lies outside of this cgroup namespace"
		return g
	}
	for _, m := range mounts(info) {
		rest, ok := below(m.root, where)
		if !ok || !m.governs(version) {
			continue
		}
		g.list = climb(f, m.point, rest, version)
		if m.root != "/" {
			g.hidden = "only a part of the hierarchy is mounted here, from " + m.root
		} else if ns := f.link("proc/self/ns/cgroup"); ns != initCgroup {
			g.hidden = "a cgroup namespace hides what is above"
		}
		g.complete = g.hidden == ""
		return g
	}
	g.hidden = "no mount shows the cgroup " + where
	return g
}

// climb reads the groups from point/rest up to point.
func climb(f files, point, rest string, version int) []Group {
	var list []Group
	for dir := path.Join("/", rest); ; dir = path.Dir(dir) {
		list = append(list, readGroup(f, path.Join(point, dir), version))
		if dir == "/" {
			return list
		}
	}
}

// readGroup reads a group's quota and how often it was throttled. Files that are
// not there are no limit: the root has none.
func readGroup(f files, dir string, version int) Group {
	g := Group{Path: dir}
	name := strings.TrimPrefix(dir, "/")
	if version == 2 {
		g.CPUs, g.PeriodUS = quota(strings.Fields(f.value(name + "/cpu.max")))
	} else {
		g.CPUs, g.PeriodUS = quota([]string{f.value(name + "/cpu.cfs_quota_us"), f.value(name + "/cpu.cfs_period_us")})
	}
	for line := range strings.Lines(f.value(name + "/cpu.stat")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil || n < 0:
		case key == "nr_periods":
			g.Periods = n
		case key == "nr_throttled":
			g.Throttled = n
		}
	}
	return g
}

// quota returns CPUs and period of the two numbers of cpu.max, or of version 1's
// two files; "max" and negative quotas are none.
func quota(words []string) (cpus float64, period int64) {
	if len(words) != 2 {
		return 0, 0
	}
	q, err1 := strconv.ParseInt(words[0], 10, 64)
	p, err2 := strconv.ParseInt(words[1], 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0, 0
	}
	return float64(q) / float64(p), p
}

// ps is what Go 1.25 and newer make of a quota (runtime.adjustCgroupGOMAXPROCS):
// rounded up, at least 2, at most the CPUs that the process may use.
func ps(cpus int, quota float64) int {
	if quota <= 0 {
		return cpus
	}
	return min(cpus, max(2, int(min(math.Ceil(quota), math.MaxInt32))))
}
