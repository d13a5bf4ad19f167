package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/diagnose"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/detail"
	"github.com/whylate/whylate/report/redact"
)

// recorded diagnoses an incident of the repository, as whylate compare does.
func recorded(t *testing.T, path string) Incident {
	t.Helper()
	in, err := evidence.Open(path, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	d, err := diagnose.Analyse(in, diagnose.AnalyseOptions{Detail: &detail.Options{}})
	if err != nil {
		t.Fatal(err)
	}
	return Incident{Name: filepath.Base(path), Manifest: &in.Manifest, Diagnosis: d}
}

// Recordings of one program, the gateway, with one trouble each, and of small programs with
// and without theirs.
func TestRecordedPairs(t *testing.T) {
	const healthy = "../diagnose/testdata/"
	golden := func(cause, name string) string { return "../cause/" + cause + "/testdata/" + name + ".whylate" }
	for _, c := range []struct {
		name, a, b, verdict string
		became              []string // "became cause contrast", in order
		sentence            string
	}{
		{"a lock appears", healthy + "steady.whylate", golden("lock-held-across-wait", "lock-held-across-wait"), VerdictWorse,
			[]string{"appeared lock-held-across-wait tail"}, "appeared"},
		{"a lock goes", golden("lock-held-across-wait", "lock-held-across-wait"), healthy + "steady.whylate", VerdictBetter,
			[]string{"went lock-held-across-wait tail"}, "went"},
		{"assists appear", healthy + "gc-ok.whylate", golden("gc-assist", "gc-assist"), VerdictWorse,
			[]string{"appeared gc-assist tail"}, "appeared"},
		{"every request waits", healthy + "steady.whylate", healthy + "level.whylate", VerdictWorse,
			[]string{"appeared slow-dependency level"}, "of every request"},
		{"before requests are seen", healthy + "steady.whylate", golden("accept-queue", "accept-queue"), VerdictWorse,
			[]string{"appeared accept-queue before"}, "before requests are seen"},
		{"a smaller one may be hidden behind a larger one", golden("timer-wait", "gateway"), golden("slow-disk", "gateway"), VerdictWorse,
			[]string{"appeared slow-disk tail", "unclear timer-wait tail"}, "slow-disk appeared"},
		{"what a larger one hid did not appear", golden("slow-disk", "gateway"), golden("timer-wait", "gateway"), VerdictBetter,
			[]string{"unclear timer-wait tail", "went slow-disk tail"}, "slow-disk went"},
		{"one went and another one appeared", golden("slow-dependency", "gateway"), golden("timer-wait", "gateway"), VerdictMixed,
			[]string{"appeared timer-wait tail", "went slow-dependency tail"}, "slow-dependency went"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Compare(recorded(t, c.a), recorded(t, c.b))
			var became []string
			for _, x := range got.Causes {
				became = append(became, x.Became+" "+x.Cause+" "+x.Contrast)
			}
			if got.Verdict != c.verdict || strings.Join(became, ", ") != strings.Join(c.became, ", ") || !strings.Contains(got.Sentence, c.sentence) {
				t.Errorf("%s, %q, want %s, %q, with %q: %s", got.Verdict, became, c.verdict, c.became, c.sentence, got.Sentence)
			}
		})
	}
}

// A copy differs from its original by its names only, which cannot be compared; two copies of
// one key do not differ.
func TestARedactedCopyIsTheSame(t *testing.T) {
	const original = "../cause/lock-held-across-wait/testdata/lock-held-across-wait.whylate"
	copied := func(salt string) Incident {
		in, err := evidence.Open(original, evidence.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		path := filepath.Join(t.TempDir(), "copy.whylate")
		w, err := evidence.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := redact.Incident(in, w, redact.Options{Salt: salt}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		return recorded(t, path)
	}
	one := copied("one long secret of nobody")
	c := Compare(recorded(t, original), one)
	if c.Verdict != VerdictSame || len(c.Differences) != 1 || c.Differences[0].What != "names" || c.Causes[0].Why != "" {
		t.Errorf("%s, %+v, %+v", c.Verdict, c.Differences, c.Causes)
	}
	if c := Compare(one, copied("one long secret of nobody")); c.Verdict != VerdictSame || len(c.Differences) != 0 {
		t.Errorf("%s, %+v", c.Verdict, c.Differences)
	}
}

// A's tail does not say what A's median spends.
func TestATimeOfEveryRequestIsComparedWithTheMedian(t *testing.T) {
	level := found("timer-wait", 21*ms/2, 23*ms/2)
	level.Contrast = cause.LevelContrast
	b := incident(report.VerdictCause, 2*ms, level)
	b.Diagnosis.Requests.P50NS = 23 * ms / 2
	for p50, became := range map[int64]string{9590 * ms / 1000: Unclear, ms: Appeared} {
		a := incident(report.VerdictHealthy, 2*ms)
		a.Diagnosis.Requests.P50NS = p50
		a.Diagnosis.RuledOut = []cause.RuledOut{{Cause: "timer-wait", Absent: true, ByShare: true}}
		if c := Compare(a, b); c.Causes[0].Became != became {
			t.Errorf("p50 %d: %+v", p50, c.Causes[0])
		}
	}
}

// Neither the milliseconds of two contrasts nor two places are one cause that grew.
func TestContrastsAndPlacesAreToldApart(t *testing.T) {
	level, tail := found("timer-wait", 20*ms, 21*ms), found("timer-wait", 200*ms, 201*ms)
	level.Contrast = cause.LevelContrast
	c := Compare(incident(report.VerdictCause, 2*ms, level), incident(report.VerdictCause, 201*ms, tail))
	if len(c.Causes) != 2 || c.Causes[0].Contrast == c.Causes[1].Contrast {
		t.Errorf("%+v", c.Causes)
	}
	for _, x := range c.Causes {
		if x.A != nil && x.B != nil {
			t.Errorf("%+v", x)
		}
	}
	there := found("timer-wait", 200*ms, 201*ms)
	there.Where = &cause.Place{Function: "main.g"}
	c = Compare(incident(report.VerdictCause, 201*ms, tail), incident(report.VerdictCause, 201*ms, there))
	if x := c.Causes[0]; x.Became != Unclear || !strings.Contains(x.Why, "another place: in A in main.f, in B in main.g") {
		t.Errorf("%+v", x)
	}
}
