package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAQuotaLastsAsLongAsItsScenario(t *testing.T) {
	s, _ := Lookup("quota-too-low")
	r := start(t, s, RunOptions{Duration: time.Hour})
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", r.PID))
	if err != nil || !strings.Contains(string(groups), groupPrefix) {
		t.Errorf("the service is in %s, %v", groups, err)
	}
	own := fmt.Sprintf("%s%d-", groupPrefix, os.Getpid())
	left := func() (dirs []string) {
		tops, err := hierarchies()
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range tops {
			found, _ := filepath.Glob(filepath.Join(top, own+"*"))
			dirs = append(dirs, found...)
		}
		return dirs
	}
	dirs := left()
	if len(dirs) != 1 {
		t.Fatalf("cgroups %v", dirs)
	}
	quota, err := os.ReadFile(filepath.Join(dirs[0], "cpu.max"))
	if errors.Is(err, os.ErrNotExist) {
		quota, err = os.ReadFile(filepath.Join(dirs[0], "cpu.cfs_quota_us"))
	}
	if err != nil || !strings.HasPrefix(string(quota), "50000") {
		t.Errorf("the quota is %q, %v", quota, err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if dirs := left(); len(dirs) != 0 {
		t.Errorf("left behind: %v", dirs)
	}
}

func TestACgroupOfADeadProcessIsRemoved(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{groupPrefix + "999999999-1", groupPrefix + fmt.Sprint(os.Getpid()) + "-1", "other"} {
		if err := os.Mkdir(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweep(top)
	entries, err := os.ReadDir(top)
	if err != nil || len(entries) != 2 || entries[1].Name() != fmt.Sprintf("%s%d-1", groupPrefix, os.Getpid()) {
		t.Errorf("%v, %v", entries, err)
	}
}
