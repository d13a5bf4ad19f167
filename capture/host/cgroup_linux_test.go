package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/cgroup"
	"github.com/whylate/whylate/internal/need"
)

// tree makes files below a temporary folder: the path, then its text.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	top := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(top, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestTheGroupsOfAProcessAreThoseUpToTheRoot(t *testing.T) {
	// A pod: its group has no limit, the container in it has one.
	v2 := tree(t,
		"cgroup.procs", "", "cpu.stat", "usage_usec 9\n",
		"pods/cgroup.type", "domain", "pods/cpu.max", "max 100000\n", "pods/memory.max", "max\n", "pods/cpu.stat", "",
		"pods/a b/cgroup.type", "domain", "pods/a b/cpu.max", "50000 100000\n", "pods/a b/memory.max", "1048576\n", "pods/a b/cpu.stat", "")
	v1cpu := tree(t,
		"release_agent", "", "pod/cpu.cfs_quota_us", "250000\n", "pod/cpu.cfs_period_us", "100000\n", "pod/cpu.stat", "",
		"pod/x/cpu.cfs_quota_us", "-1\n", "pod/x/cpu.cfs_period_us", "100000\n", "pod/x/cpu.stat", "", "pod/x/cpuacct.usage", "5\n")
	v1mem := tree(t, "release_agent", "", "pod/x/memory.limit_in_bytes", "4096\n", "other/memory.limit_in_bytes", "8192\n", "free/memory.limit_in_bytes", "9223372036854771712\n")
	namespace := filepath.Join(v2, "pods") // as it looks from inside: its top is no root
	mounts := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	line := func(root, point, kind, super string) string {
		return fmt.Sprintf("31 23 0:28 %s %s rw,relatime shared:9 - %s x %s", root, strings.ReplaceAll(point, " ", `\040`), kind, super)
	}
	container := []Group{{Path: "/pods/a b", QuotaUS: 50000, PeriodUS: 100000, MemoryLimit: 1048576}, {Path: "/pods"}}
	v1groups := []Group{{Path: "/pod/x", MemoryLimit: 4096}, {Path: "/pod", QuotaUS: 250000, PeriodUS: 100000}}
	for _, c := range []struct {
		name, mounts, cgroup string
		want                 []Group
		ancestors            bool
		missing              string
	}{
		{"v2", mounts(line("/", v2, "cgroup2", "rw")), "0::/pods/a b\n", container, true, ""},
		{"v2, the root", mounts(line("/", v2, "cgroup2", "rw")), "0::/\n", nil, true, ""},
		{"v2, a namespace", mounts(line("/", namespace, "cgroup2", "rw")), "0::/a b\n", []Group{{Path: "/a b", QuotaUS: 50000, PeriodUS: 100000, MemoryLimit: 1048576}, {Path: "/"}}, false, "hidden by a cgroup namespace"},
		{"v2, a part is mounted", mounts(line("/pods", namespace, "cgroup2", "rw")), "0::/pods/a b\n", container, false, "hidden by a cgroup namespace"},
		{"v2, outside of the part", mounts(line("/pods", namespace, "cgroup2", "rw")), "0::/podsx\n", nil, false, "outside of what is mounted"},
		{"v2, outside of the namespace", mounts(line("/", v2, "cgroup2", "rw")), "0::/../other\n", nil, false, "outside of what is mounted"},
		{"v2, the group is gone", mounts(line("/", v2, "cgroup2", "rw")), "0::/pods/c\n", nil, false, "no such file"},
		{"v1", mounts(line("/", v1cpu, "cgroup", "rw,cpu,cpuacct"), line("/", v1mem, "cgroup", "rw,memory")), "2:cpu,cpuacct:/pod/x\n1:memory:/pod/x\n", v1groups, true, ""},
		{"hybrid: the CPU controller is on v1", mounts(line("/", v2, "cgroup2", "rw"), line("/", v1cpu, "cgroup", "rw,cpu,cpuacct"), line("/", v1mem, "cgroup", "rw,memory")), "2:cpu,cpuacct:/pod/x\n1:memory:/pod/x\n0::/pods\n", v1groups, true, ""},
		{"hybrid: the CPU controller is on v2", mounts(line("/", v2, "cgroup2", "rw"), line("/", v1mem, "cgroup", "rw,memory")), "1:memory:/pod/x\n0::/pods/a b\n", container, true, ""},
		{"v1, memory has groups of its own", mounts(line("/", v1cpu, "cgroup", "rw,cpu,cpuacct"), line("/", v1mem, "cgroup", "rw,memory")), "2:cpu,cpuacct:/pod\n1:memory:/other\n", []Group{v1groups[1], {Path: "/other", MemoryLimit: 8192}}, true, "usage_ns"},
		{"v1, no memory limit", mounts(line("/", v1cpu, "cgroup", "rw,cpu,cpuacct"), line("/", v1mem, "cgroup", "rw,memory")), "2:cpu,cpuacct:/pod\n1:memory:/free\n", v1groups[1:], true, "usage_ns"},
		{"nothing is mounted", "", "0::/a\n", nil, false, "no cgroup hierarchy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := readGroups(cgroup.Mounts(c.mounts), cgroup.Memberships(c.cgroup))
			var got []Group
			for _, x := range g.list {
				got = append(got, x.Group)
			}
			if !reflect.DeepEqual(got, c.want) || g.ancestors != c.ancestors {
				t.Errorf("got %+v, all ancestors: %v\nwant %+v, %v", got, g.ancestors, c.want, c.ancestors)
			}
			if text := fmt.Sprint(g.missing); (c.missing == "") != (len(g.missing) == 0) || !strings.Contains(text, c.missing) {
				t.Errorf("missing: %v, want %q", g.missing, c.missing)
			}
		})
	}
}

// Version 1 has a file of its own for the CPU time used.
func TestTheCounterOfAnotherFileStays(t *testing.T) {
	c := GroupCounters{UsageNS: 9}
	c.parse([]byte("nr_periods 10\nnr_throttled 4\nthrottled_time 5000\n"))
	if want := (GroupCounters{10, 4, 5000, 9}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

// limited makes a group with a quota of 20 ms in 100 ms and one without below it, of either
// version of cgroups, and returns the folder of the lower.
func limited(t *testing.T) (folder, path string, err error) {
	text, err := readText("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	var point, quota, value string
	for _, m := range cgroup.Mounts(text) {
		if (cgroup.Group{Version: 1, Controller: "cpu"}).In(m) {
			point, quota, value = m.Point, "cpu.cfs_quota_us", "20000"
			break
		}
		if m.Kind == "cgroup2" && point == "" {
			point, quota, value = m.Point, "cpu.max", "20000 100000"
		}
	}
	if point == "" {
		return "", "", errors.New("no cgroups are mounted")
	}
	path = fmt.Sprintf("/whylate-test-%d", os.Getpid())
	folder = point + path + "/leaf"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", "", err
	}
	t.Cleanup(func() {
		waitFor(t, func() bool { return os.Remove(folder) == nil || !exists(folder) }) // busy until the child is gone
		_ = os.Remove(filepath.Dir(folder))
	})
	return folder, path, os.WriteFile(filepath.Join(point+path, quota), []byte(value), 0o644)
}

func TestAnAncestorThatThrottlesIsSeen(t *testing.T) {
	c := start(t, "spin 1 60", nil)
	c.line()
	folder, path, err := limited(t)
	need.Feature(t, "cgroup", err)
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	err = os.WriteFile(folder+"/cgroup.procs", []byte(strconv.Itoa(c.pid)), 0o644)
	need.Feature(t, "cgroup", err)
	rec := record(t, c.pid)
	c.next()
	c.line()
	got := rec.stop()
	s := got.Static
	if len(s.Groups) < 2 || s.Groups[0].Path != path+"/leaf" || s.Groups[0].QuotaUS != 0 ||
		s.Groups[1].Path != path || s.Groups[1].QuotaUS != 20000 || s.Groups[1].PeriodUS != 100000 {
		t.Fatalf("groups %+v", s.Groups)
	}
	d, err := Describe(c.pid)
	if q := d.Host.Quotas; err != nil || len(q) != 1 || q[0].Cgroup != path || q[0].QuotaUS != 20000 {
		t.Errorf("quotas %+v, %v", q, err)
	}
	u := got.Over([]Span{got.Span()})
	if leaf, quota := u.Groups[0], u.Groups[1]; quota.Throttled < 1 || quota.ThrottledNS <= 0 || quota.Periods < 2 || leaf.Throttled != 0 {
		t.Errorf("60 ms of CPU time at 20 ms each 100 ms: leaf %+v, its parent %+v", leaf, quota)
	}
	if got.Samples[0].Machine.BusyNS == 0 || got.After.Ended != "" {
		t.Errorf("machine %+v, ended: %s", got.Samples[0].Machine, got.After.Ended)
	}
}
