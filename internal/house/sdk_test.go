package house

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/need"
)

// What the sdk hands to C, in the builds that look closest, and over a library of other people.
func TestTheSDKIsCleanInItsStricterBuilds(t *testing.T) {
	_, noCompiler := exec.LookPath("gcc")
	_, noZlib := os.Stat("/usr/include/zlib.h")
	for _, c := range []struct {
		name, needs string
		missing     error
		folder      string
		environment string
		args        []string
	}{
		{"cgocheck2", "gcc", noCompiler, "sdk", "GOEXPERIMENT=cgocheck2", []string{"./cgobatch/...", "./clock"}},
		{"cgobatch's debug build", "gcc", noCompiler, "sdk", "", []string{"-tags", "cgobatchdebug", "./cgobatch/..."}},
		{"zlib", "zlib", noZlib, "sdk/bench", "", []string{"-tags", "zlib", "./cgobatch/zlib"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			need.Feature(t, c.needs, c.missing)
			cmd := exec.Command("go", append([]string{"test"}, c.args...)...)
			cmd.Dir = "../../" + c.folder
			cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1")
			if c.environment != "" {
				cmd.Env = append(cmd.Env, c.environment)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("go test %s: %v\n%s", strings.Join(c.args, " "), err, out)
			}
		})
	}
}
