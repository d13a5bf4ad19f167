package main

import (
	"io"
	"testing"

	"github.com/whylate/whylate/report"
)

// What comes next shows the recording there is, and makes one only if there is none.
func TestWhatIsUnexplainedIsShown(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"http://127.0.0.1:6060"}, "whylate diagnose http://127.0.0.1:6060 --save FILE.whylate && whylate show FILE.whylate"},
		{[]string{"http://127.0.0.1:6060", "--for", "9s", "--save", "my file.whylate"}, "whylate show 'my file.whylate'"},
		{[]string{lockIncident}, "whylate show " + lockIncident},
	} {
		cmd, _, err := newRoot(io.Discard, io.Discard).Find([]string{"diagnose"})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if got := next(cmd, &report.Diagnosis{Verdict: report.VerdictInconclusive, Reason: "unexplained"}); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
}
