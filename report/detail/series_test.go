package detail

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/evidence"
)

// recorded is what the operating system told of an incident, nil if it was not asked.
func recorded(t *testing.T, file string) *host.Recording {
	t.Helper()
	in, err := evidence.Open(file, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if !in.Has(evidence.MemberHost) {
		return nil
	}
	m, err := in.Member(evidence.MemberHost)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	h, err := host.Read(m)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Nothing takes more than all of the time, nor more CPUs than there are. What is cut off is what a
// look takes, and no step of a counter that was not read before.
func TestNoSeriesExceedsWhatThereIs(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../cause/*/testdata/*.whylate", "../../diagnose/testdata/*.whylate"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	seen := map[string]bool{}
	for _, file := range files {
		h := recorded(t, file)
		if h == nil {
			continue
		}
		span := h.Span()
		for what, list := range map[string]struct {
			series []Series
			over   float64
		}{
			"drawn":   {series(h, span.From, span.To), 1},
			"counted": {counted(h, span.From, span.To), 1.1},
		} {
			for _, s := range list.series {
				seen[s.Name] = true
				if v := slices.Max(s.Values); v > list.over*most(h, s.Unit) {
					t.Errorf("%s: %s: %g are %s of %g", file, s.Name, v, what, most(h, s.Unit))
				}
			}
		}
	}
	if len(seen) < len(counters)-1 { // none of them lacked memory
		t.Errorf("the incidents have %d of %d series: %v", len(seen), len(counters), seen)
	}
}
