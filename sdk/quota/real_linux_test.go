package quota

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whylate/whylate/sdk/internal/cgroup"
)

const child = "WHYLATE_QUOTA_CHILD"

// A child in a real group, below one that has a real quota, finds that and is throttled.
func TestARealQuotaIsFoundAndThrottles(t *testing.T) {
	if os.Getenv(child) != "" {
		beThrottled()
		return
	}
	parent, procs := realGroup(t)
	c := exec.Command(os.Args[0], "-test.run", "^TestARealQuotaIsFoundAndThrottles$")
	c.Env = append(os.Environ(), child+"=1")
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
		t.Fatal(err)
	}
	var got struct {
		Cores      float64
		Group      string
		Text       string
		Throttling Throttling
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err, out.String())
	}
	if got.Cores != 0.2 || got.Group != parent {
		t.Errorf("%v cores by %q, want 0.2 by %q", got.Cores, got.Group, parent)
	}
	if got.Throttling.Path != parent || got.Throttling.Throttled < 3 || got.Throttling.Stopped <= 0 {
		t.Errorf("%+v", got.Throttling)
	}
	t.Log(got.Text)
}

func beThrottled() {
	bufio.NewReader(os.Stdin).ReadString('\n') // it is in the group now
	before := Check()
	var stop atomic.Bool
	for i := 0; i < 2; i++ {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	now := before
	for start := time.Now(); now.Since(before).Throttled < 3 && time.Since(start) < 30*time.Second; {
		time.Sleep(10 * time.Millisecond)
		now = Check()
	}
	stop.Store(true)
	cores, group := now.Cores()
	json.NewEncoder(os.Stdout).Encode(map[string]any{"Cores": cores, "Group": group, "Throttling": now.Since(before), "Text": now.String()})
}

// realGroup makes a group of 0.2 cores and one without a quota in it, and returns the first's path and the file that
// takes processes of the second.
func realGroup(t *testing.T) (parent, procs string) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	need(t, err)
	own, _ := os.ReadFile("/proc/self/cgroup")
	of := cgroup.Memberships(string(own)).Of("cpu")
	at, found, _ := of.Find(cgroup.Mounts(string(text)))
	if !found {
		need(t, errors.New("no control groups for CPU time are mounted"))
	}
	name := fmt.Sprintf("whylate-quota-%d", os.Getpid())
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
		err = os.WriteFile(filepath.Join(top, "cpu.max"), []byte("20000 100000"), 0)
	} else if err = os.WriteFile(filepath.Join(top, "cpu.cfs_period_us"), []byte("100000"), 0); err == nil {
		err = os.WriteFile(filepath.Join(top, "cpu.cfs_quota_us"), []byte("20000"), 0)
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
