//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/cgroup"
	"github.com/whylate/whylate/internal/need"
)

// group is a cgroup of the test's own with a CPU quota.
type group struct {
	t   testing.TB
	dir string
	v2  bool
}

// newGroup makes one of a tenth of a CPU or more per quota of 10 ms, in periods of 100 ms.
func newGroup(t testing.TB, quotaMS int) *group {
	t.Helper()
	g, err := makeGroup(t)
	need.Feature(t, "cgroup", err)
	t.Cleanup(func() { _ = os.Remove(g.dir) }) // after the end of whoever is in there
	quota := strconv.Itoa(quotaMS * 1000)
	if g.v2 {
		g.write("cpu.max", quota+" 100000")
	} else {
		g.write("cpu.cfs_period_us", "100000")
		g.write("cpu.cfs_quota_us", quota)
	}
	return g
}

func makeGroup(t testing.TB) (*group, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for _, m := range cgroup.Mounts(string(b)) {
		g := &group{t: t, v2: m.Kind == "cgroup2"}
		switch {
		case m.Kind == "cgroup" && slices.Contains(m.Options, "cpu"):
		case g.v2 && hasCPU(m.Point):
			if err := os.WriteFile(filepath.Join(m.Point, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
				return nil, err
			}
		default:
			continue
		}
		g.dir, err = os.MkdirTemp(m.Point, "whylate-kernel-test-")
		return g, err
	}
	return nil, errors.New("no cgroup hierarchy with the CPU controller is mounted")
}

// hasCPU tells whether a group of version 2 may hand out CPU time.
func hasCPU(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(b)), "cpu")
}

func (g *group) write(file, value string) {
	g.t.Helper()
	fatal(g.t, os.WriteFile(filepath.Join(g.dir, file), []byte(value), 0))
}

// throttledNS is for how long its quota stopped the group of a directory, by the kernel's count.
func throttledNS(dir string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "throttled_time":
			return n, nil
		case "throttled_usec":
			return n * 1000, nil
		}
	}
	return 0, fmt.Errorf("%s/cpu.stat does not say for how long: %q", dir, b)
}
