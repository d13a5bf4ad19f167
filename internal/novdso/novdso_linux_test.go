//go:build linux && (amd64 || arm64)

package novdso

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	_ "unsafe" // for go:linkname

	"github.com/whylate/whylate/internal/need"
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
			need.Feature(t, "ptrace", err)
			if err := cmd.Wait(); err != nil || out.String() != c.want {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
}
