package clock

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/whylate/whylate/internal/novdso"
	"github.com/whylate/whylate/sdk/clock"
)

const childEnv = "WHYLATE_TEST_CLOCK_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	f := found{Cost: clock.Check()}
	times := map[time.Time]bool{}
	for range 1000 {
		times[clock.Coarse()] = true
	}
	f.Times = len(times)
	json.NewEncoder(os.Stdout).Encode(f)
}

type found struct {
	Cost clock.Cost
	// Times is how many different ones a thousand reads of the coarse clock gave.
	Times int
}

// check returns what a process of its own finds of its clock.
func check(t *testing.T, start func(*exec.Cmd) error) (f found) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	err = json.NewDecoder(out).Decode(&f)
	if wait := cmd.Wait(); err != nil || wait != nil {
		t.Fatal(err, wait)
	}
	t.Log(f.Cost)
	return f
}

func TestAProcessWithoutTheVDSOIsFoundOut(t *testing.T) {
	with := check(t, (*exec.Cmd).Start)
	if with.Cost.Path != clock.VDSO {
		t.Skipf("this machine's clock is slow: %v", with.Cost)
	}
	without := check(t, novdso.Start)
	if without.Cost.Path != clock.NoVDSO || without.Cost.Ratio < 2*with.Cost.Ratio {
		t.Errorf("%+v beside %+v", without.Cost, with.Cost)
	}
	// /proc/self/auxv still has the address, so the coarse clock is the kernel's there, and
	// not time.Now, which no two reads have in common.
	if without.Times > 500 {
		t.Errorf("the coarse clock gave %d times in 1000 reads", without.Times)
	}
}
