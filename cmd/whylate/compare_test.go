package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/whylate/whylate/experiment"
)

const (
	lockIncident  = "../../cause/lock-held-across-wait/testdata/lock-held-across-wait.whylate"
	quotaIncident = "../../cause/quota-too-low/testdata/quota-too-low.whylate"
)

func TestCompareSaysWhatAppeared(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		code    int
		verdict string
	}{
		{lockIncident, lockIncident, exitOK, experiment.VerdictSame},
		{healthyTrace, lockIncident, exitCause, experiment.VerdictWorse},
		{lockIncident, healthyTrace, exitOK, experiment.VerdictBetter},
	} {
		code, stdout, stderr := whylate(t, "compare", c.a, c.b, "-o", "json")
		var got experiment.Comparison
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != c.code || stderr != "" || got.Verdict != c.verdict {
			t.Errorf("%s, %s: exit %d, %v, %q, %s: %s", c.a, c.b, code, err, stderr, got.Verdict, got.Sentence)
			continue
		}
		if got.Verdict == experiment.VerdictSame {
			if len(got.Differences) != 0 {
				t.Errorf("with itself: %+v", got.Differences)
			}
			continue
		}
		if len(got.Causes) != 1 || got.Causes[0].Cause != "lock-held-across-wait" {
			t.Errorf("%+v", got.Causes)
		}
	}
	// The one has no evidence of the host, so it cannot deny what only the host decides.
	code, stdout, _ := whylate(t, "compare", lockIncident, quotaIncident)
	if code != exitInconclusive || !strings.HasPrefix(stdout, "p99 ") || !strings.Contains(stdout, "quota-too-low") || !strings.Contains(stdout, "What else differs") {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

func TestCompareRefusesWhatItCannotCompare(t *testing.T) {
	for _, args := range [][]string{{"compare"}, {"compare", healthyTrace}, {"compare", healthyTrace, "http://127.0.0.1:1"}, {"compare", healthyTrace, healthyTrace, "-o", "html"}} {
		if code, _, stderr := whylate(t, args...); code != exitUsage || stderr == "" {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
	if code, stdout, stderr := whylate(t, "compare", healthyTrace, "none.whylate"); code != exitFailure || stdout != "" || !strings.Contains(stderr, "none.whylate") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}
