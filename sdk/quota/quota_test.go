package quota

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/whylate/whylate/sdk/internal/groups"
)

const (
	v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	v2  = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	pod = "30 23 0:26 /kubepods/pod1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
)

func tree(files map[string]string) groups.Tree {
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return groups.Tree{FS: fs}
}

func TestGroupsAreReadFromTheLeafUpwards(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  map[string]string
		groups []Group
		memory []MemoryGroup
		hidden string
	}{
		{"version 2, the tighter limit is above", map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/cgroup.procs": "",
			"sys/fs/cgroup/a/cpu.max":    "50000 100000\n", "sys/fs/cgroup/a/cgroup.type": "domain\n", "sys/fs/cgroup/a/memory.max": "1000000\n",
			"sys/fs/cgroup/a/cpu.stat":  "usage_usec 7\nnr_periods 10\nnr_throttled 4\nthrottled_usec 250\n",
			"sys/fs/cgroup/a/b/cpu.max": "300000 100000\n", "sys/fs/cgroup/a/b/cgroup.type": "domain\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.high": "1500000\n",
		}, []Group{{"/a/b", 3, 100 * time.Millisecond, 0, 0, 0}, {"/a", 0.5, 100 * time.Millisecond, 10, 4, 250 * time.Microsecond}},
			[]MemoryGroup{{"/a/b", 1500000, true}, {"/a", 1000000, false}}, ""},
		{"version 1, controllers of their own", map[string]string{
			"proc/self/mountinfo": v1, "proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/c\n",
			"sys/fs/cgroup/cpu/release_agent": "", "sys/fs/cgroup/memory/release_agent": "",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes": "2097152\n",
			"sys/fs/cgroup/cpu/c/cpu.cfs_quota_us":         "20000\n", "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "10000\n",
			"sys/fs/cgroup/cpu/c/cpu.stat": "nr_periods 3\nnr_throttled 1\nthrottled_time 5000\n",
		}, []Group{{"/c", 2, 10 * time.Millisecond, 3, 1, 5 * time.Microsecond}}, []MemoryGroup{{"/m", 2097152, false}}, ""},
		{"no quota", map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/cgroup.procs": "",
			"sys/fs/cgroup/a/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cgroup.type": "domain\n",
		}, nil, nil, ""},
		{"a part is mounted", map[string]string{
			"proc/self/mountinfo": pod, "proc/self/cgroup": "0::/kubepods/pod1/main\n",
			"sys/fs/cgroup/cgroup.type": "domain\n", "sys/fs/cgroup/cgroup.procs": "",
			"sys/fs/cgroup/main/cpu.max": "100000 100000\n", "sys/fs/cgroup/main/cgroup.type": "domain\n",
		}, []Group{{"/kubepods/pod1/main", 1, 100 * time.Millisecond, 0, 0, 0}}, nil,
			`the groups above "/kubepods/pod1" are hidden`},
		{"outside of the namespace", map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/../x\n"}, nil, nil, "outside of this cgroup namespace"},
		{"not mounted", map[string]string{"proc/self/mountinfo": "x\n", "proc/self/cgroup": "0::/x\n"}, nil, nil, "not mounted here"},
		{"no folder", map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/gone\n"}, nil, nil, "no folder"},
		{"no proc", nil, nil, nil, "no control group"},
		{"too long", map[string]string{"proc/self/mountinfo": v2 + strings.Repeat("x", groups.MaxFile), "proc/self/cgroup": "0::/a\n"}, nil, nil, "not mounted here"},
		{"too deep", map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::" + strings.Repeat("/a", 100) + "\n",
			"sys/fs/cgroup" + strings.Repeat("/a", 100) + "/cgroup.type": "domain\n",
		}, nil, nil, "only the innermost 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Report
			r.readGroups(tree(c.files))
			if !reflect.DeepEqual(r.Groups, c.groups) || !reflect.DeepEqual(r.Memory, c.memory) || !strings.Contains(r.Hidden, c.hidden) || c.hidden == "" && r.Hidden != "" {
				t.Errorf("%+v\n%+v\n%q", r.Groups, r.Memory, r.Hidden)
			}
		})
	}
}

func TestWhoSetGOMAXPROCS(t *testing.T) {
	for _, c := range []struct {
		name        string
		environment string
		cpus, is    int
		leaf        float64
		follows     bool
		want        Setter
	}{
		{"all CPUs", "", 8, 8, 0, true, ByCPUs},
		{"the quota, rounded up", "", 8, 3, 2.5, true, ByQuota},
		{"the quota, at least two", "", 8, 2, 0.5, true, ByQuota},
		{"a quota that is rounded up to all CPUs", "", 2, 2, 0.5, true, ByQuota},
		{"a quota above the CPUs", "", 8, 8, 20, true, ByCPUs},
		{"an older runtime beside a quota", "", 8, 8, 2, false, ByCPUs},
		{"an older runtime and automaxprocs", "", 8, 2, 2, false, ByProgram},
		{"a call", "", 8, 5, 2, true, ByProgram},
		{"all CPUs, though there is a quota", "", 8, 8, 2, true, ByProgram},
		{"the environment", "4", 8, 4, 2, true, ByEnvironment},
		{"a call after the environment", "4", 8, 2, 2, true, ByProgram},
		{"an environment that is no number", "x", 8, 2, 2, true, ByQuota},
		{"one that is no number of threads", "0", 8, 8, 0, true, ByCPUs},
	} {
		r := Report{CPUs: c.cpus, GOMAXPROCS: c.is, leaf: c.leaf, follows: c.follows}
		if got := r.setBy(c.environment); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFindingsSayWhatDoesNotFit(t *testing.T) {
	quota := func(cores float64) []Group {
		return []Group{{Path: "/q", Cores: cores, Period: 100 * time.Millisecond}}
	}
	for _, c := range []struct {
		name string
		r    Report
		want []string // in the lines, in order
	}{
		{"nothing", Report{CPUs: 8, GOMAXPROCS: 8, SetBy: ByCPUs, GOMEMLIMIT: math.MaxInt64, follows: true}, nil},
		{"what fits", Report{CPUs: 8, GOMAXPROCS: 3, SetBy: ByQuota, Groups: quota(3), leaf: 3, follows: true}, nil},
		{"an older runtime", Report{CPUs: 8, GOMAXPROCS: 8, SetBy: ByCPUs, Groups: quota(2), leaf: 2, disabled: "too old"},
			[]string{"all stand still for 75ms in each 100ms", "too old"}},
		{"a quota above", Report{CPUs: 8, GOMAXPROCS: 8, SetBy: ByCPUs, Groups: quota(4), follows: true},
			[]string{"50ms in each 100ms", "a group above"}},
		{"half a core", Report{CPUs: 8, GOMAXPROCS: 2, SetBy: ByQuota, Groups: quota(0.5), leaf: 0.5, follows: true},
			[]string{"75ms in each 100ms", "at least 2"}},
		{"set too high", Report{CPUs: 8, GOMAXPROCS: 6, SetBy: ByProgram, Groups: quota(2.5), leaf: 2.5, follows: true},
			[]string{"GOMAXPROCS is 6 (by the program)", "own choice is 3"}},
		{"set too low", Report{CPUs: 8, GOMAXPROCS: 2, SetBy: ByEnvironment, follows: true}, []string{"is 2 (by the environment) where 8 cores"}},
		{"throttled, and no GOMEMLIMIT", Report{CPUs: 8, GOMAXPROCS: 2, SetBy: ByQuota, GOMEMLIMIT: math.MaxInt64, follows: true, leaf: 2,
			Groups: []Group{{Path: "/q", Cores: 2, Periods: 10, Throttled: 4, Stopped: time.Second}}, Memory: []MemoryGroup{{"/m", 1 << 20, false}, {"/", 1 << 30, false}}},
			[]string{`"/q" was stopped in 4 of 10 periods, for 1s`, `GOMEMLIMIT is not set where "/m" allows 1048576`}},
		{"a GOMEMLIMIT that is too high", Report{CPUs: 1, GOMAXPROCS: 1, GOMEMLIMIT: 2000, Memory: []MemoryGroup{{"/m", 1000, true}}}, []string{"2000 bytes"}},
	} {
		got := c.r.Findings()
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: %q", c.name, got)
		}
		if text := c.r.String(); strings.Count(text, "\n") != len(got) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

func TestSinceTakesTheGroupThatWasThrottledMost(t *testing.T) {
	before := Report{Groups: []Group{{Path: "/a", Periods: 10, Throttled: 10, Stopped: 5}, {Path: "/b"}, {Path: "/new", Periods: 9}}}
	after := Report{Groups: []Group{{Path: "/a", Periods: 20, Throttled: 11, Stopped: 8}, {Path: "/b", Periods: 10, Throttled: 5, Stopped: 7}, {Path: "/new", Periods: 8, Throttled: 8}, {Path: "/c", Throttled: 9}}}
	if got, want := after.Since(before), (Throttling{"/b", 10, 5, 7}); got != want || got.Share() != 0.5 {
		t.Errorf("%v", got)
	}
	if got := after.Since(Report{}).String(); got != "no quota, so no throttling" {
		t.Error(got)
	}
}

func TestMetrics(t *testing.T) {
	got := map[string]float64{}
	r := Report{CPUs: 4, GOMAXPROCS: 4, Groups: []Group{{Path: "/a", Cores: 9, Periods: 1}, {Path: "/b", Cores: 2, Periods: 7, Throttled: 3, Stopped: time.Second}}}
	r.Metrics(func(name string, v float64) { got[name] = v })
	want := map[string]float64{"quota_cores": 2, "quota_cpus": 4, "quota_gomaxprocs_threads": 4, "quota_memory_limit_bytes": 0, "quota_findings": 3,
		"quota_periods_total": 7, "quota_throttled_periods_total": 3, "quota_throttled_seconds_total": 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

// Whatever the files say, nothing panics, and limits are above 0.
func FuzzReadGroups(f *testing.F) {
	f.Add(v2, "0::/a\n", "50000 100000", "nr_periods 3", "100")
	f.Add(v1, "4:cpu:/a\n", "-1", "", "max")
	f.Add(pod, "0::/kubepods/pod1/../../x\n", "1 9223372036854775807", "throttled_usec 99999999999999999999", "-1")
	f.Fuzz(func(t *testing.T, mounts, own, limit, stat, memory string) {
		r := Report{CPUs: 2, GOMAXPROCS: 2}
		r.readGroups(tree(map[string]string{
			"proc/self/mountinfo": mounts, "proc/self/cgroup": own,
			"sys/fs/cgroup/a/cpu.max": limit, "sys/fs/cgroup/a/cpu.stat": stat, "sys/fs/cgroup/a/memory.max": memory,
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": limit, "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000",
		}))
		cores, _ := r.Cores()
		bytes, _ := r.MemoryLimit()
		if len(r.Groups)+len(r.Memory) > 3*64 || cores <= 0 || bytes < 0 || r.String() == "" {
			t.Errorf("%+v", r)
		}
	})
}
