package cgroup

import (
	"path"
	"reflect"
	"strings"
	"testing"
)

const (
	hybrid = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
32 31 0:29 / /sys/fs/cgroup/cpu\040x rw,relatime shared:9 - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	part = "1301 1299 0:29 /docker/8f2a /sys/fs/cgroup/cpu ro,nosuid master:13 - cgroup cgroup rw,cpu,cpuacct\n"
	pod  = "612 605 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"
	both = "1 1 0:30 /other /mnt rw - cgroup2 cgroup rw\n2 1 0:30 /pods /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
)

func TestTheFolderOfAGroupIsWhereItsHierarchyIsMounted(t *testing.T) {
	for _, c := range []struct {
		name, mounts, text string
		folder             string
		version            int
		mounted            bool
	}{
		{"version 1 beside 2", hybrid, "9:name=systemd:/\n2:cpuacct:/\n1:cpu:/batch/job 7\n0::/\n", "/sys/fs/cgroup/cpu x/batch/job 7", 1, true},
		{"the controller is on version 2", hybrid, "4:memory:/x\n0::/a:b\n", "/sys/fs/cgroup/unified/a:b", 2, true},
		{"controllers that share a hierarchy, and a part of it is mounted", part, "12:cpu,cpuacct:/docker/8f2a/sub\n", "/sys/fs/cgroup/cpu/sub", 1, true},
		{"the part's own group", part, "12:cpu,cpuacct:/docker/8f2a\n", "/sys/fs/cgroup/cpu", 1, true},
		{"a group beside the part", part, "12:cpu,cpuacct:/docker/8f2ab\n", "", 1, true},
		{"the mount that shows the group, not the first", both, "0::/pods/x\n", "/sys/fs/cgroup/x", 2, true},
		{"outside of the namespace", pod, "0::/../x\n", "", 2, true},
		{"a name that begins with two dots", pod, "0::/..x\n", "/sys/fs/cgroup/..x", 2, true},
		{"not mounted", part, "0::/x\n", "", 2, false},
		{"no group", pod, "3:cpuset:/x\n1:cpu:no path\nx\n", "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Memberships(c.text).Of("cpu")
			at, found, mounted := g.Find(Mounts(c.mounts))
			folder := ""
			if found {
				folder = at.Folder()
			}
			if folder != c.folder || g.Version != c.version || mounted != c.mounted {
				t.Errorf("%+v at %q, mounted: %v; want %q of version %d, %v", g, folder, mounted, c.folder, c.version, c.mounted)
			}
		})
	}
}

func TestMountsAreRead(t *testing.T) {
	want := []Mount{{"/docker/8f2a", "/sys/fs/cgroup/cpu", "cgroup", []string{"ro", "nosuid", "rw", "cpu", "cpuacct"}}}
	if got := Mounts("\n1 2 3\n1 2 3 / /x rw\n" + part + "1 2 3 4 5 6 - 7 8\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for text, want := range map[string]string{`/a\040b\134c`: `/a b\c`, `/a\9`: `/a\9`, `\04`: `\04`, `\777`: `\777`, "": ""} {
		if got := unescape(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestLimitsAreRead(t *testing.T) {
	for text, want := range map[string][2]int64{
		"50000 100000\n": {50000, 100000}, "max 100000\n": {}, "max\n": {}, "-1 100000": {}, "": {}, "5 0": {}, "x y": {}, "1 2 3": {}, "9223372036854775808 1": {},
	} {
		if q, p := Quota(text); [2]int64{q, p} != want {
			t.Errorf("quota %q: %d in %d", text, q, p)
		}
	}
	for text, want := range map[string]int64{"1048576\n": 1048576, "max\n": 0, "9223372036854771712\n": 0, "-1": 0, "": 0} {
		if got := MemoryLimit(text); got != want {
			t.Errorf("memory limit %q: %d", text, got)
		}
	}
}

func TestCountersOfBothVersionsAreRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Counters
	}{
		{"v1", "nr_periods 10\nnr_throttled 4\nthrottled_time 5000\nnr_bursts 0\n", Counters{Periods: 10, Throttled: 4, ThrottledNS: 5000}},
		{"v2", "usage_usec 7\nuser_usec 4\nsystem_usec 3\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5\n", Counters{10, 4, 5000, 7000}},
		{"v2 without the cpu controller", "usage_usec 7\nuser_usec 4\n", Counters{UsageNS: 7000}},
		{"without the last line break", "nr_periods 12", Counters{Periods: 12}},
		{"nothing", "", Counters{}},
		{"what is no number", "nr_periods -1\nnr_throttled x\nthrottled_usec\nusage_usec 99999999999999999999\n", Counters{}},
		{"large ones", "throttled_time 9223372036854775790\nusage_usec 9223372036854000\n", Counters{ThrottledNS: 9223372036854775790, UsageNS: 9223372036854000000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ParseCounters([]byte(c.text)); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	text := []byte(strings.Repeat("usage_usec 7\n", 3))
	if n := testing.AllocsPerRun(10, func() { ParseCounters(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzTexts(f *testing.F) {
	for _, s := range []string{hybrid, part, pod, "1:cpu:/a\n0::/../b\n", "nr_periods 99999999999999999999\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g := Memberships(text).Of("cpu")
		at, found, _ := g.Find(Mounts(text))
		clean := strings.HasPrefix(at.Point, "/") && path.Clean(at.Point) == at.Point
		if found && clean && !strings.HasPrefix(at.Folder(), at.Point) {
			t.Errorf("%q is outside of %q", at.Folder(), at.Point)
		}
		if c := ParseCounters([]byte(text)); min(c.Periods, c.Throttled, c.ThrottledNS, c.UsageNS) < 0 {
			t.Errorf("%+v", c)
		}
		if q, p := Quota(text); min(q, p) < 0 || MemoryLimit(text) < 0 {
			t.Errorf("%d in %d", q, p)
		}
	})
}
