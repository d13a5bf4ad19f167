package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// period is that of the quotas: the kernel's default, and every container
// runtime's.
const period = 100 * time.Millisecond

// A cgroup is a group of our own with a CPU quota, directly below the root of the
// hierarchy that has the CPU controller.
type cgroup struct{ dir string }

// newCgroup makes a group of an unused name that may use that many CPUs. It needs
// the right to write to the hierarchy, of version 1 or 2.
func newCgroup(cpus float64) (*cgroup, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	root, v2, err := hierarchy(f)
	if err != nil {
		return nil, err
	}
	if v2 { // only the root may have processes and hand out controllers at once
		if err := write(filepath.Join(root, "cgroup.subtree_control"), "+cpu"); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(root, "whylate-e2e-")
	if err != nil {
		return nil, err
	}
	g := &cgroup{dir}
	if err := g.limit(cpus, v2); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// hierarchy finds, among the mounts of /proc/self/mountinfo (proc(5)), the one
// with the CPU controller. A controller is in one hierarchy only: where version 1
// has it, version 2 does not.
func hierarchy(mountinfo io.Reader) (root string, v2 bool, err error) {
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		mount, fs, ok := strings.Cut(lines.Text(), " - ")
		m, f := strings.Fields(mount), strings.Fields(fs)
		if !ok || len(m) < 5 || len(f) < 3 {
			continue
		}
		switch {
		case f[0] == "cgroup" && slices.Contains(strings.Split(f[2], ","), "cpu"):
			return m[4], false, nil
		case f[0] == "cgroup2":
			b, err := os.ReadFile(filepath.Join(m[4], "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(b)), "cpu") {
				root, v2 = m[4], true
			}
		}
	}
	if root == "" {
		return "", false, errors.New("no cgroup hierarchy with the CPU controller is mounted")
	}
	return root, v2, nil
}

func (g *cgroup) limit(cpus float64, v2 bool) error {
	quota := strconv.FormatInt(int64(cpus*float64(period.Microseconds())), 10)
	every := strconv.FormatInt(period.Microseconds(), 10)
	if v2 {
		return write(filepath.Join(g.dir, "cpu.max"), quota+" "+every)
	}
	return errors.Join(
		write(filepath.Join(g.dir, "cpu.cfs_period_us"), every),
		write(filepath.Join(g.dir, "cpu.cfs_quota_us"), quota))
}

// add moves a process with all its threads into the group.
func (g *cgroup) add(pid int) error {
	return write(filepath.Join(g.dir, "cgroup.procs"), strconv.Itoa(pid))
}

// throttled is the part of the periods so far in which the quota stopped the group.
func (g *cgroup) throttled() (float64, error) {
	b, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	count := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			count[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return count["nr_throttled"] / max(1, count["nr_periods"]), nil
}

// remove puts what is in the group back into the one above, and removes it.
func (g *cgroup) remove() error {
	b, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	errs := []error{err}
	for _, pid := range strings.Fields(string(b)) {
		errs = append(errs, write(filepath.Join(filepath.Dir(g.dir), "cgroup.procs"), pid))
	}
	return errors.Join(append(errs, os.Remove(g.dir))...)
}

// write sets a file of the kernel's; it is never made here.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// ticks is the unit of CPU times in /proc: USER_HZ, 100 on every architecture
// that Go has.
const ticks = 10 * time.Millisecond

// cpuTime returns the CPU time that a process has used, from /proc/PID/stat.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name before the last parenthesis may hold anything. utime and stime are
	// the 14th and 15th field of all (proc(5)), the 12th and 13th after it.
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	user, err := strconv.ParseUint(f[11], 10, 48)
	system, err2 := strconv.ParseUint(f[12], 10, 48)
	return time.Duration(user+system) * ticks, errors.Join(err, err2)
}
