package house

import (
	"os"
	"testing"
)

// The two modules cannot import each other's internal packages.
func TestWhatIsInBothModulesIsTheSame(t *testing.T) {
	for _, name := range []string{"internal/cgroup/cgroup.go"} {
		ours, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile("../../sdk/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if string(ours) != string(theirs) {
			t.Errorf("%s and sdk/%[1]s differ: copy the one that is right over the other", name)
		}
	}
}
