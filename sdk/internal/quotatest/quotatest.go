// Package quotatest makes control groups with a quota of CPU time, for tests.
package quotatest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/sdk/internal/cgroup"
)

// Group makes a control group with a quota, of microseconds in each 100,000, and one without a quota in it. It returns the
// first's path and the file that takes processes of the second. Both are removed when the test ends: its processes have
// to have ended by then. Where no quota can be had the test is skipped, or fails if WHYLATE_REQUIRE lists cgroup.
func Group(t *testing.T, quota int) (parent, procs string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	need(t, err)
	own, _ := os.ReadFile("/proc/self/cgroup")
	of := cgroup.Memberships(string(own)).Of("cpu")
	at, found, _ := of.Find(cgroup.Mounts(string(text)))
	if !found {
		need(t, errors.New("no control groups for CPU time are mounted"))
	}
	name := fmt.Sprintf("whylate-%s-%d", strings.ToLower(t.Name()), os.Getpid())
	top := filepath.Join(at.Folder(), name)
	inner := filepath.Join(top, "inner")
	for _, folder := range []string{top, inner} {
		need(t, os.Mkdir(folder, 0o755))
		t.Cleanup(func() {
			if err := os.Remove(folder); err != nil {
				t.Error(err)
			}
		})
		if of.Version == 2 && folder == top {
			os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+cpu"), 0)
		}
	}
	if of.Version == 2 {
		err = os.WriteFile(filepath.Join(top, "cpu.max"), []byte(fmt.Sprint(quota, " 100000")), 0)
	} else if err = os.WriteFile(filepath.Join(top, "cpu.cfs_period_us"), []byte("100000"), 0); err == nil {
		err = os.WriteFile(filepath.Join(top, "cpu.cfs_quota_us"), []byte(fmt.Sprint(quota)), 0)
	}
	need(t, err)
	return filepath.Join(of.Path, name), filepath.Join(inner, "cgroup.procs")
}

// need skips a test where a quota cannot be had, as err says; where WHYLATE_REQUIRE lists cgroup, it fails.
func need(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), "cgroup"):
		t.Fatal("WHYLATE_REQUIRE lists cgroup: ", err)
	default:
		t.Skip("no quota can be made here: ", err)
	}
}
