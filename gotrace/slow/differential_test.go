package slow

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/internal/need"
)

// The two readers read the same of what programs do that have every kind of event, with few and
// many Ps. WHYLATE_TOOLCHAINS is a list of other toolchains whose traces are compared, too:
//
//	WHYLATE_TOOLCHAINS=go1.22.12,go1.23.12,go1.24.11,go1.25.5 go test -run Differential -v ./gotrace/slow
func TestDifferential(t *testing.T) {
	toolchains := []string{"local"}
	if s := os.Getenv("WHYLATE_TOOLCHAINS"); s != "" {
		toolchains = append(toolchains, strings.Split(s, ",")...)
	}
	for _, toolchain := range toolchains {
		for _, cgo := range []string{"0", "1"} {
			t.Run(toolchain+"/cgo="+cgo, func(t *testing.T) {
				if _, err := exec.LookPath("gcc"); err != nil && cgo == "1" {
					need.Feature(t, "gcc", err)
				}
				bin := filepath.Join(t.TempDir(), "programs")
				build := exec.Command("go", "build", "-trimpath", "-o", bin, ".")
				build.Dir = "testdata/programs"
				build.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain, "CGO_ENABLED="+cgo, "GOWORK=off", "GOFLAGS=")
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				names, err := exec.Command(bin).Output()
				if err != nil {
					t.Fatal(err)
				}
				kinds, n := map[gotrace.Kind]int{}, 0
				for _, name := range strings.Fields(string(names)) {
					if cgo == "1" && name != "callbacks" && name != "calls" {
						continue // the same as without
					}
					for _, env := range [][]string{{"GOMAXPROCS=1"}, {"GOMAXPROCS=2"}, {"GOMAXPROCS=16"}, {"GOMAXPROCS=4", "FLIGHT=1"}} {
						file := filepath.Join(t.TempDir(), "trace")
						cmd := exec.Command(bin, file, name)
						// Generations of 10 ms instead of one second.
						cmd.Env = append(os.Environ(), append(env, "GODEBUG=traceadvanceperiod=10000000")...)
						if out, err := cmd.CombinedOutput(); err != nil {
							t.Fatalf("%s %v: %v\n%s", name, env, err, out)
						}
						data, err := os.ReadFile(file)
						if err != nil {
							t.Fatal(err)
						}
						seen, err := same(data)
						if err != nil {
							t.Errorf("%s %v: %v", name, env, err)
							if dir := os.Getenv("WHYLATE_KEEP"); dir != "" {
								_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.trace", toolchain, name, n)), data, 0o644)
							}
						}
						n++
						for k, c := range seen {
							kinds[k] += c
						}
					}
				}
				t.Logf("%d traces, events by kind: %v", n, kinds)
				if cgo == "1" {
					return
				}
				for k := gotrace.KindSync; k <= gotrace.KindMetric; k++ {
					if rare := []gotrace.Kind{gotrace.KindRangeActive, gotrace.KindLabel}; kinds[k] == 0 && !slices.Contains(rare, k) {
						t.Errorf("no event of kind %d", k)
					}
				}
			})
		}
	}
}

// same compares what the two readers read, and returns how many events there were of each kind.
func same(data []byte) (map[gotrace.Kind]int, error) {
	fast, err := gotrace.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	slow, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if fast.Version() != slow.Version() {
		return nil, fmt.Errorf("versions %s and %s", fast.Version(), slow.Version())
	}
	seen := map[gotrace.Kind]int{}
	for i := 0; ; i++ {
		var a, b gotrace.Event
		errA, errB := fast.Next(&a), slow.Next(&b)
		if (errA == nil) != (errB == nil) || (errA == io.EOF) != (errB == io.EOF) {
			return seen, fmt.Errorf("event %d: %v and %v", i, errA, errB)
		}
		if errA != nil {
			if a, b := fast.Stacks().Len(), slow.Stacks().Len(); a != b {
				return seen, fmt.Errorf("%d and %d stacks", a, b)
			}
			return seen, nil
		}
		if a.Kind == gotrace.KindSync {
			a.Value = 0 // where it is, the other one does not know
		}
		a.Slot, a.GSlot = 0, 0 // nor these
		if a != b {
			return seen, fmt.Errorf("event %d:\n%+v\n%+v", i, a, b)
		}
		if !slices.Equal(fast.Stacks().Frames(a.Stack), slow.Stacks().Frames(b.Stack)) {
			return seen, fmt.Errorf("event %d: other frames", i)
		}
		seen[a.Kind]++
	}
}

func TestMain(m *testing.M) {
	if runtime.GOOS != "linux" {
		fmt.Println("the programs are of Linux")
		os.Exit(0)
	}
	os.Exit(m.Run())
}
