// Package quotatest makes control groups with a quota of CPU time, for tests, and runs tests in them.
package quotatest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	Need(t, err)
	own, _ := os.ReadFile("/proc/self/cgroup")
	of := cgroup.Memberships(string(own)).Of("cpu")
	at, found, _ := of.Find(cgroup.Mounts(string(text)))
	if !found {
		Need(t, errors.New("no control groups for CPU time are mounted"))
	}
	name := fmt.Sprintf("whylate-%s-%d", strings.ToLower(t.Name()), os.Getpid())
	top := filepath.Join(at.Folder(), name)
	inner := filepath.Join(top, "inner")
	for _, folder := range []string{top, inner} {
		Need(t, os.Mkdir(folder, 0o755))
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
	Need(t, err)
	return filepath.Join(of.Path, name), filepath.Join(inner, "cgroup.procs")
}

// Need skips a test that cannot have a control group, as err says; where WHYLATE_REQUIRE lists cgroup, it fails.
func Need(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), "cgroup"):
		t.Fatal("WHYLATE_REQUIRE lists cgroup: ", err)
	default:
		t.Skip("no control group can be made here: ", err)
	}
}

// Child runs the calling test in a process of its own, which finds the variable environment set, and waits in InGroup until it is
// in the group of the file procs. It returns what that prints.
func Child(t *testing.T, procs, environment string) string {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), environment+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c.Stdout, c.Stderr = &out, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(procs, []byte(fmt.Sprint(c.Process.Pid)), 0); err != nil {
		t.Error(err)
	}
	in.Write([]byte("go\n"))
	if err := c.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	return out.String()
}

// InGroup reports whether this process is the child of environment; if so, it returns when the process is in its group.
func InGroup(environment string) bool {
	if os.Getenv(environment) == "" {
		return false
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	return true
}
