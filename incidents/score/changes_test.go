package score

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/report"
)

func TestChangesAreTheCasesWithOtherResults(t *testing.T) {
	named := func(c string) *report.Diagnosis {
		return &report.Diagnosis{Verdict: "cause", Findings: []cause.Finding{{Cause: c}}}
	}
	locked := &Truth{Case: "locked", Causes: []Planted{{Cause: "lock-convoy"}}}
	calm := &Truth{Case: "calm"}
	healthy := &report.Diagnosis{Verdict: "healthy"}
	at := func(d ...*report.Diagnosis) (all []*Incident) {
		for i, x := range d {
			all = append(all, New("x", []*Truth{locked, locked, locked, calm}[i], x, 1, nil))
		}
		return all
	}
	var b strings.Builder
	err := Changes(&b, [2]string{"before", "after"}, [2][]*Incident{
		at(named("cpu-hog"), named("cpu-hog"), named("lock-convoy"), named("cpu-hog")),
		at(named("lock-convoy"), named("lock-convoy"), named("lock-convoy"), healthy),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| | before | after |", "| right | 0.33 (1 of 3) | 1.00 (3 of 3) |", "| false alarms on controls | 1.00 (1 of 1) | 0.00 (0 of 1) |",
		"| locked | wrong: cpu-hog | right: lock-convoy | 2 |\n", "| calm |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "| locked |"); n != 1 {
		t.Errorf("locked stands there %d times", n)
	}
}
