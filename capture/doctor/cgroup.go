package doctor

import (
	"math"
	"path"
	"strings"

	"github.com/whylate/whylate/internal/cgroup"
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

// cgroups finds the groups of a process, "self" or a number, as this process sees them.
func cgroups(f files, pid string) groups {
	text, err := f.text("proc/" + pid + "/cgroup")
	if err != nil {
		return groups{hidden: "/proc/" + pid + "/cgroup: " + because(err)}
	}
	of := cgroup.Memberships(text).Of("cpu")
	if of.Version == 0 {
		return groups{hidden: "no cgroup governs its CPU time", complete: true}
	}
	g := groups{version: of.Version}
	info, err := f.text("proc/self/mountinfo")
	if err != nil {
		g.hidden = "/proc/self/mountinfo: " + because(err)
		return g
	}
	if of.Outside() {
		g.hidden = "its cgroup " + of.Path + " lies outside of this cgroup namespace"
		return g
	}
	at, found, _ := of.Find(cgroup.Mounts(info))
	if !found {
		g.hidden = "no mount shows the cgroup " + of.Path
		return g
	}
	g.list = climb(f, at, of.Version)
	if at.Root != "/" {
		g.hidden = "only a part of the hierarchy is mounted here, from " + at.Root
	} else if ns := f.link("proc/self/ns/cgroup"); ns != initCgroup {
		g.hidden = "a cgroup namespace hides what is above"
	}
	g.complete = g.hidden == ""
	return g
}

// climb reads the groups from a place up to the top of its mount.
func climb(f files, at cgroup.Place, version int) []Group {
	var list []Group
	for dir := at.Below; ; dir = path.Dir(dir) {
		list = append(list, readGroup(f, path.Join(at.Point, dir), version))
		if dir == "/" {
			return list
		}
	}
}

// readGroup reads a group's quota and how often it was throttled. Files that are
// not there are no limit: the root has none.
func readGroup(f files, dir string, version int) Group {
	name := strings.TrimPrefix(dir, "/")
	limit := f.value(name + "/cpu.max")
	if version == 1 {
		limit = f.value(name+"/cpu.cfs_quota_us") + " " + f.value(name+"/cpu.cfs_period_us")
	}
	g := Group{Path: dir}
	if quota, period := cgroup.Quota(limit); quota > 0 {
		g.CPUs, g.PeriodUS = float64(quota)/float64(period), period
	}
	c := cgroup.ParseCounters([]byte(f.value(name + "/cpu.stat")))
	g.Periods, g.Throttled = c.Periods, c.Throttled
	return g
}

// ps is what Go 1.25 and newer make of a quota (runtime.adjustCgroupGOMAXPROCS):
// rounded up, at least 2, at most the CPUs that the process may use.
func ps(cpus int, quota float64) int {
	if quota <= 0 {
		return cpus
	}
	return min(cpus, max(2, int(min(math.Ceil(quota), math.MaxInt32))))
}
