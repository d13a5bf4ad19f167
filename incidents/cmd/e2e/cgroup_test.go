package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheHierarchyWithTheCPUControllerIsFound(t *testing.T) {
	with := tree(t, map[string]string{"cgroup.controllers": "cpuset cpu io\n"})
	without := tree(t, map[string]string{"cgroup.controllers": "io\n"})
	const cpuset = "31 24 0:27 / /c/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n"
	v2 := func(dir string) string { return "30 24 0:26 / " + dir + " rw - cgroup2 cgroup2 rw\n" }
	for _, c := range []struct {
		name, mounts, root string
		v2                 bool
	}{
		{"version 1", cpuset + "32 24 0:28 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n", "/c/cpu", false},
		{"version 2", v2(with), with, true},
		{"version 1 beside a version 2 without it", v2(without) + "32 24 0:28 / /c/cpu rw - cgroup cgroup rw,cpu\n", "/c/cpu", false},
		{"neither", cpuset + v2(without) + "garbage\n1 2 -\n", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, v2, err := hierarchy(strings.NewReader(c.mounts))
			if root != c.root || v2 != c.v2 || (err != nil) != (c.root == "") {
				t.Errorf("hierarchy: %q, %v, %v; want %q, %v", root, v2, err, c.root, c.v2)
			}
		})
	}
}

func TestAQuotaIsWrittenAsItsHierarchyWantsIt(t *testing.T) {
	for _, c := range []struct {
		name string
		v2   bool
		want map[string]string
	}{
		{"version 1", false, map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "25000"}},
		{"version 2", true, map[string]string{"cpu.max": "25000 100000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			empty := map[string]string{}
			for name := range c.want {
				empty[name] = ""
			}
			g := &cgroup{tree(t, empty)}
			if err := g.limit(0.25, c.v2); err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				if b, err := os.ReadFile(filepath.Join(g.dir, name)); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v; want %q", name, b, err, want)
				}
			}
		})
	}
	t.Run("a file that the kernel does not have is an error", func(t *testing.T) {
		if err := (&cgroup{t.TempDir()}).limit(0.25, true); err == nil {
			t.Error("no error")
		}
	})
}

func TestThrottledIsAPartOfThePeriods(t *testing.T) {
	for name, want := range map[string]float64{
		"nr_periods 40\nnr_throttled 10\nthrottled_time 1\n":             0.25,
		"usage_usec 9\nnr_periods 4\nnr_throttled 4\nthrottled_usec 1\n": 1,
		"nr_periods 0\nnr_throttled 0\n":                                 0,
	} {
		got, err := (&cgroup{tree(t, map[string]string{"cpu.stat": name})}).throttled()
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", name, got, err, want)
		}
	}
	if _, err := (&cgroup{t.TempDir()}).throttled(); err == nil {
		t.Error("no error without cpu.stat")
	}
}
