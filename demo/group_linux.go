package demo

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// groupPrefix begins the name of a cgroup of ours; the id of the process that
// made it follows.
const groupPrefix = "whylate-demo-"

// quotaPeriod is the kernel's default for a CPU quota.
const quotaPeriod = 100 * time.Millisecond

// newGroup makes a cgroup that may use so many CPUs, in the first cpu hierarchy
// in which that is possible, and returns its directory.
func newGroup(cpus float64) (string, error) {
	tops, err := hierarchies()
	if err != nil {
		return "", err
	}
	errs := []error{errors.New("it needs a cgroup that controls the CPU")}
	for _, top := range tops {
		sweep(top)
		dir, err := os.MkdirTemp(top, fmt.Sprintf("%s%d-", groupPrefix, os.Getpid()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err = limit(dir, cpus); err == nil {
			return dir, nil
		}
		errs = append(errs, err, removeGroup(dir))
	}
	return "", oneLine(errs)
}

// oneLine joins errors for a line of text.
func oneLine(errs []error) error {
	var parts []string
	for _, err := range errs {
		if err != nil {
			parts = append(parts, err.Error())
		}
	}
	return errors.New(strings.Join(parts, "; "))
}

// hierarchies are the mount points of cgroups that may control the CPU: those of
// version 1 with this controller, then those of version 2.
func hierarchies() ([]string, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var v1, v2 []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // device, mount point, type, options
		switch {
		case len(fields) < 4:
		case fields[2] == "cgroup" && slices.Contains(strings.Split(fields[3], ","), "cpu"):
			v1 = append(v1, fields[1])
		case fields[2] == "cgroup2":
			v2 = append(v2, fields[1])
		}
	}
	return append(v1, v2...), lines.Err()
}

// limit sets the quota of a cgroup of either version. A group of version 2 has the
// file only if its parent hands the controller down; version 1 always has it.
func limit(dir string, cpus float64) error {
	period := quotaPeriod.Microseconds()
	quota := int64(cpus * float64(period))
	err := setting(dir, "cpu.max", fmt.Sprintf("%d %d", quota, period))
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return setting(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

// setting writes one of a cgroup's files, which must exist.
func setting(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// sweep removes what processes left that were killed.
func sweep(top string) {
	dirs, _ := filepath.Glob(filepath.Join(top, groupPrefix+"*")) // the pattern is good
	for _, dir := range dirs {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if pid, err := strconv.Atoi(id); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			os.Remove(dir)
		}
	}
}

// removeGroup removes a cgroup whose processes have ended. The kernel may need a
// moment to forget them.
func removeGroup(dir string) error {
	var err error
	for range 50 {
		if err = syscall.Rmdir(dir); err != syscall.EBUSY {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// enterGroup puts this process into the cgroup and executes it anew, so that its
// runtime starts under the quota.
func enterGroup(dir string) error {
	if err := setting(dir, "cgroup.procs", "0"); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	os.Unsetenv(groupEnv)
	return &os.PathError{Op: "exec", Path: exe, Err: syscall.Exec(exe, os.Args, os.Environ())}
}
