package house

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/whylate/whylate/internal/need"
)

// oldestGo is what sdk/go.mod asks for.
const oldestGo = "go1.22.12"

// Users of the sdk may have the Go that its go.mod names.
func TestTheSDKWorksWithItsOldestGo(t *testing.T) {
	run := func(args ...string) ([]byte, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../../sdk"
		cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+oldestGo, "GOWORK=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
		return cmd.CombinedOutput()
	}
	out, err := run("version")
	if err == nil && !strings.Contains(string(out), oldestGo+" "+runtime.GOOS) {
		t.Fatalf("%s", out)
	}
	need.Feature(t, "toolchains", err)
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}} {
		if out, err := run(args...); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
