package gctune

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/whylate/whylate/sdk/internal/cgroup"
	"github.com/whylate/whylate/sdk/internal/groups"
	"github.com/whylate/whylate/sdk/internal/quotatest"
)

const child = "WHYLATE_GCTUNE_CHILD"

// memoryGroup makes a control group with a limit of memory. It returns its path and the files of its limit and of its processes. Where
// that cannot be had the test is skipped, or fails if WHYLATE_REQUIRE lists cgroup.
func memoryGroup(t *testing.T, bytes int64) (group, limit, procs string) {
	t.Helper()
	f := groups.Host()
	of := cgroup.Memberships(f.Text("/proc/self/cgroup")).Of("memory")
	at, found, _ := of.Find(cgroup.Mounts(f.Text("/proc/self/mountinfo")))
	if !found {
		quotatest.Need(t, errors.New("no control groups for memory are mounted"))
	}
	name := fmt.Sprintf("whylate-gctune-%d", os.Getpid())
	folder := filepath.Join(at.Folder(), name)
	quotatest.Need(t, os.Mkdir(folder, 0o755))
	t.Cleanup(func() {
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
	})
	limit = filepath.Join(folder, "memory.max")
	if of.Version == 1 {
		limit = filepath.Join(folder, "memory.limit_in_bytes")
	}
	quotatest.Need(t, os.WriteFile(limit, []byte(fmt.Sprint(bytes)), 0))
	return filepath.Join(of.Path, name), limit, filepath.Join(folder, "cgroup.procs")
}

// A child in a real group finds its limit and follows it when it is changed.
func TestTheLimitOfARealGroupIsTheBudgetAndIsFollowed(t *testing.T) {
	if os.Getenv(child) != "" {
		follow()
		return
	}
	group, limitFile, procs := memoryGroup(t, 512*mb)
	c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), child+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer in.Close() // the child ends then
	out := bufio.NewReader(pipe)
	say := func(want string) {
		t.Helper()
		if got, err := out.ReadString('\n'); got != want+"\n" {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if err := os.WriteFile(procs, []byte(fmt.Sprint(c.Process.Pid)), 0); err != nil {
		t.Error(err)
		return
	}
	of := func(bytes int64) int64 { return bytes - bytes/20 }
	io.WriteString(in, "go\n")
	say(fmt.Sprintf("%s %d %d", group, of(512*mb), limit(of(512*mb))))
	if err := os.WriteFile(limitFile, []byte(fmt.Sprint(384*mb)), 0); err != nil {
		t.Error(err)
		return
	}
	say(fmt.Sprintf("%s %d %d", group, of(384*mb), limit(of(384*mb))))
}

// follow prints the budget and the limit, and again when they have changed.
func follow() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n') // it is in the group now
	tuner, err := New(Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tuner.Stop()
	s := tuner.State()
	print := func() { fmt.Println(s.Source, s.Budget, inForce().limit) }
	print()
	before := s.Budget
	until(func() bool { s = tuner.State(); return s.Budget != before })
	print()
	in.ReadString('\n')
}
