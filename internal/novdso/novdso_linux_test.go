//go:build linux && (amd64 || arm64)

package novdso

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	_ "unsafe" // for go:linkname
)

// vdsoEnv makes the test binary say whether it found the vDSO.
const vdsoEnv = "WHYLATE_NOVDSO_TEST"

// vdsoClockgettimeSym is where the runtime found the fast clock, 0 if it did not.
//
//go:linkname vdsoClockgettimeSym runtime.vdsoClockgettimeSym
var vdsoClockgettimeSym uintptr

func init() {
	if os.Getenv(vdsoEnv) != "" {
		fmt.Println(vdsoClockgettimeSym != 0)
		os.Exit(0)
	}
}

func TestAProcessWithoutTheVDSODoesNotFindIt(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*exec.Cmd) error
		want  string
	}{
		"as usual":         {(*exec.Cmd).Start, "true\n"},
		"when it is taken": {Start, "false\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), vdsoEnv+"=1")
			cmd.Stdout = &out
			err := c.start(cmd)
			if err != nil && !slices.Contains(strings.Split(os.Getenv("WHYLATE_REQUIRE"), ","), "ptrace") {
				fmt.Fprintf(os.Stderr, "SKIPPED-PTRACE %s: %v\n", t.Name(), err)
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil || out.String() != c.want {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
}
