// Package quota tells what CPU time and memory this process may use, who set GOMAXPROCS, and whether the kernel
// stops the process for a part of each period because it has used up its quota.
//
//	before := quota.Check()
//	… // load
//	r := quota.Check()
//	fmt.Println(r)               // what is allowed and what does not fit it
//	fmt.Println(r.Since(before)) // how often it was throttled meanwhile
//
// It is a check and sets nothing: since Go 1.25 the runtime sets GOMAXPROCS from the quota itself.
package quota

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/whylate/whylate/sdk/internal/cgroup"
	"github.com/whylate/whylate/sdk/internal/groups"
)

const (
	// smallest is the least GOMAXPROCS that the runtime chooses for a quota, if there are as many CPUs: see
	// adjustCgroupGOMAXPROCS in runtime/cgroup_linux.go of Go 1.25.
	smallest = 2
)

// Group is a control group with a quota of CPU time.
type Group struct {
	// Path is the group's name, as /proc/self/cgroup has it.
	Path string
	// Cores is the CPU time allowed per time.
	Cores float64
	// Period is the time after which the quota is filled up.
	Period time.Duration
	// Periods is how many of them some process of the group ran in, Throttled in how many of these the group was
	// stopped, both since the group was made.
	Periods, Throttled int64
	// Stopped is how long, the sum over CPUs.
	Stopped time.Duration
}

// MemoryGroup is a control group with a limit of memory.
type MemoryGroup struct {
	Path string
	// Limit is in bytes.
	Limit int64
	// High is whether the kernel makes who exceeds it wait until memory is reclaimed (memory.high), rather than kill it.
	High bool
}

// Setter is who set GOMAXPROCS.
type Setter uint8

// A program that sets the value that the runtime would choose cannot be told from one that sets none, though
// the first freezes it.
const (
	ByProgram     Setter = iota // runtime.GOMAXPROCS was called, by the program or a library
	ByEnvironment               // the variable GOMAXPROCS
	ByQuota                     // the runtime, from the quota of the leaf group; it follows changes unless GODEBUG says updatemaxprocs=0
	ByCPUs                      // the runtime, from the number of CPUs
)

func (s Setter) String() string {
	return [...]string{"the program", "the environment", "the runtime, from the quota", "the runtime, from the number of CPUs"}[min(s, ByCPUs)]
}

// Report is what is allowed and set. It is a value of its own, to be kept and compared.
type Report struct {
	// CPUs is how many there are for the process: runtime.NumCPU, the affinity when it started.
	CPUs int
	// Groups are those with a quota, Memory those with a limit, from the process's own group upwards.
	Groups []Group
	Memory []MemoryGroup
	// Hidden says why groups may be missing; "" if all were seen.
	Hidden string

	// GOMAXPROCS and GOMEMLIMIT are those in force; math.MaxInt64 is no memory limit.
	GOMAXPROCS int
	SetBy      Setter
	GOMEMLIMIT int64

	leaf     float64 // cores of the leaf's quota, 0 if it has none
	follows  bool    // the runtime looks at the quota
	disabled string  // else why
}

// Check reads the control groups and the runtime's settings: a few files of each group, about 0.2 ms in all. What
// cannot be read is said in Hidden.
func Check() Report {
	r := Report{
		CPUs:       runtime.NumCPU(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		GOMEMLIMIT: debug.SetMemoryLimit(-1),
	}
	if runtime.GOOS == "linux" {
		r.readGroups(groups.Host())
	} else {
		r.Hidden = "no control groups on " + runtime.GOOS
	}
	r.follows, r.disabled = follows()
	r.SetBy = r.setBy(os.Getenv("GOMAXPROCS"))
	return r
}

func (r *Report) readGroups(t groups.Tree) {
	cpu := t.Climb("cpu", func(own cgroup.Group, name, folder string) {
		limit := ""
		if own.Version == 1 {
			limit = t.Text(folder+"/cpu.cfs_quota_us") + " " + t.Text(folder+"/cpu.cfs_period_us")
		} else {
			limit = t.Text(folder + "/cpu.max")
		}
		quota, period := cgroup.Quota(limit)
		if quota == 0 {
			return
		}
		g := Group{Path: name, Cores: float64(quota) / float64(period), Period: microseconds(period)}
		c := cgroup.ParseCounters([]byte(t.Text(folder + "/cpu.stat")))
		g.Periods, g.Throttled, g.Stopped = c.Periods, c.Throttled, time.Duration(c.ThrottledNS)
		if name == own.Path {
			r.leaf = g.Cores
		}
		r.Groups = append(r.Groups, g)
	})
	memory := t.Climb("memory", func(own cgroup.Group, name, folder string) {
		for i, file := range groups.MemoryFiles(own.Version) {
			if n := cgroup.MemoryLimit(t.Text(folder + "/" + file)); n > 0 {
				r.Memory = append(r.Memory, MemoryGroup{name, n, i > 0})
			}
		}
	})
	if r.Hidden = cpu; cpu == "" {
		r.Hidden = memory
	}
}

func microseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}

// follows reports whether the runtime sets GOMAXPROCS from the quota, else why not.
func follows() (bool, string) {
	if !builtIn {
		return false, "before Go 1.25 the runtime does not look at quotas"
	}
	settings := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "DefaultGODEBUG" {
				settings = s.Value
			}
		}
	}
	// The environment's settings come last and win.
	value := "1"
	for _, s := range strings.Split(settings+","+os.Getenv("GODEBUG"), ",") {
		if v, ok := strings.CutPrefix(s, "containermaxprocs="); ok {
			value = v
		}
	}
	if value == "0" {
		return false, "GODEBUG containermaxprocs=0, the default when the main module's go line is below 1.25"
	}
	return true, ""
}

// chosen is what the runtime makes of a quota of so many cores, 0 for none.
func (r Report) chosen(cores float64) int {
	if cores == 0 {
		return r.CPUs
	}
	return min(r.CPUs, max(smallest, int(math.Ceil(min(cores, 1<<20)))))
}

func (r *Report) setBy(environment string) Setter {
	if n, err := strconv.ParseInt(environment, 10, 32); err == nil && n > 0 {
		if r.GOMAXPROCS == int(n) {
			return ByEnvironment
		}
		return ByProgram
	}
	switch {
	case r.GOMAXPROCS != r.Default():
		return ByProgram
	case r.limits():
		return ByQuota
	}
	return ByCPUs
}

// limits reports whether the runtime takes GOMAXPROCS from the quota, even if it is rounded up to all CPUs.
func (r Report) limits() bool { return r.follows && 0 < r.leaf && r.leaf < float64(r.CPUs) }

// Default is what the runtime makes GOMAXPROCS if nobody sets it.
func (r Report) Default() int {
	if r.limits() {
		return r.chosen(r.leaf)
	}
	return r.CPUs
}

// Cores is the CPU time per time that the process may use, and what says so: the path of the group with the
// lowest quota, or "" if it is the number of CPUs.
func (r Report) Cores() (cores float64, group string) {
	cores = float64(r.CPUs)
	for _, g := range r.Groups {
		if g.Cores < cores {
			cores, group = g.Cores, g.Path
		}
	}
	return cores, group
}

// MemoryLimit is the lowest limit in bytes, be it memory.max or memory.high, and its group's path; 0 if no group has one.
func (r Report) MemoryLimit() (limit int64, group string) {
	for _, g := range r.Memory {
		if limit == 0 || g.Limit < limit {
			limit, group = g.Limit, g.Path
		}
	}
	return limit, group
}

// Throttling is what happened between two reports, in the group that was stopped in the largest part of its periods.
type Throttling struct {
	// Path is the group's, "" if none has a quota.
	Path               string
	Periods, Throttled int64
	// Stopped is the sum over CPUs.
	Stopped time.Duration
}

// Share is the part of the periods in which the group was stopped, 0 to 1.
func (t Throttling) Share() float64 { return float64(t.Throttled) / float64(max(t.Periods, 1)) }

func (t Throttling) String() string {
	if t.Path == "" {
		return "no quota, so no throttling"
	}
	return fmt.Sprintf("%s: stopped in %d of %d periods, for %v in all", strconv.Quote(t.Path), t.Throttled, t.Periods, t.Stopped)
}

// Since returns how r's groups were throttled after before. Groups that are in one of the reports only are
// left out, and those whose counters went back, as they are new ones.
func (r Report) Since(before Report) (worst Throttling) {
	for _, g := range r.Groups {
		for _, b := range before.Groups {
			if b.Path != g.Path || g.Periods < b.Periods || g.Throttled < b.Throttled {
				continue
			}
			t := Throttling{g.Path, g.Periods - b.Periods, g.Throttled - b.Throttled, g.Stopped - b.Stopped}
			if worst.Path == "" || t.Share() > worst.Share() {
				worst = t
			}
		}
	}
	return worst
}

// Findings are what does not fit, a line each; none if all does.
func (r Report) Findings() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	cores, group := r.Cores()
	busy := min(r.GOMAXPROCS, r.CPUs) // threads that can run Go at the same time
	switch {
	case group != "" && float64(busy) > cores:
		period := time.Duration(0)
		for _, g := range r.Groups {
			if g.Path == group {
				period = g.Period
			}
		}
		// All of the quota is used up after quota/busy of a period, and then nothing runs.
		still := period - time.Duration(float64(period)*cores/float64(busy))
		say("GOMAXPROCS is %d (by %v) where %q allows %.3g cores: when that many threads are busy, all stand still for %v in each %v",
			r.GOMAXPROCS, r.SetBy, group, cores, still.Round(10*time.Microsecond), period)
		switch whole := r.chosen(cores); {
		case r.SetBy == ByCPUs && !r.follows:
			say("it is not taken from the quota: %s", r.disabled)
		case r.SetBy == ByCPUs && r.leaf == 0:
			say("it is not taken from the quota: that is of a group above the process's own, at which the runtime does not look")
		case r.SetBy == ByQuota && cores < smallest:
			say("the runtime chooses at least %d; GOMAXPROCS=1 in the environment avoids throttling, and makes a busy goroutine delay all others", smallest)
		case r.SetBy == ByProgram || r.SetBy == ByEnvironment:
			say("the runtime's own choice is %d; what is set explicitly does not follow changes of the quota", whole)
		}
	case float64(r.GOMAXPROCS) <= cores-1:
		say("GOMAXPROCS is %d (by %v) where %.3g cores are allowed", r.GOMAXPROCS, r.SetBy, cores)
	}
	for _, g := range r.Groups {
		if g.Throttled > 0 {
			say("%q was stopped in %d of %d periods, for %v in all since it was made", g.Path, g.Throttled, g.Periods, g.Stopped)
		}
	}
	if limit, of := r.MemoryLimit(); limit > 0 && r.GOMEMLIMIT > limit {
		what := strconv.FormatInt(r.GOMEMLIMIT, 10) + " bytes"
		if r.GOMEMLIMIT == math.MaxInt64 {
			what = "not set"
		}
		say("GOMEMLIMIT is %s where %q allows %d bytes: the garbage collector does not know of it", what, of, limit)
	}
	return lines
}

// String tells what is allowed and set, and the findings.
func (r Report) String() string {
	var b strings.Builder
	cores, group := r.Cores()
	fmt.Fprintf(&b, "%.3g cores", cores)
	if group != "" {
		fmt.Fprintf(&b, " (quota of %q; there are %d CPUs)", group, r.CPUs)
	}
	if limit, of := r.MemoryLimit(); limit > 0 {
		fmt.Fprintf(&b, ", %d bytes of memory (%q)", limit, of)
	}
	fmt.Fprintf(&b, "; GOMAXPROCS %d by %v", r.GOMAXPROCS, r.SetBy)
	for _, l := range r.Findings() {
		b.WriteString("\n" + l)
	}
	if r.Hidden != "" {
		b.WriteString("\nnot all is known: " + r.Hidden)
	}
	return b.String()
}

// Metrics tells the report as numbers: quota_cores, quota_cpus, quota_gomaxprocs_threads, quota_memory_limit_bytes (0
// without a limit), quota_findings, and of the group with the lowest quota, if there is one, quota_periods_total,
// quota_throttled_periods_total and quota_throttled_seconds_total.
func (r Report) Metrics(emit func(name string, value float64)) {
	cores, group := r.Cores()
	limit, _ := r.MemoryLimit()
	emit("quota_cores", cores)
	emit("quota_cpus", float64(r.CPUs))
	emit("quota_gomaxprocs_threads", float64(r.GOMAXPROCS))
	emit("quota_memory_limit_bytes", float64(limit))
	emit("quota_findings", float64(len(r.Findings())))
	for _, g := range r.Groups {
		if g.Path == group {
			emit("quota_periods_total", float64(g.Periods))
			emit("quota_throttled_periods_total", float64(g.Throttled))
			emit("quota_throttled_seconds_total", g.Stopped.Seconds())
			break
		}
	}
}
