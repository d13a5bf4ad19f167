package cause_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// told is a scene and which of several look-alikes must be told of it.
type told struct {
	name  string
	scene scene
	set   cause.Settings
	// finding is the cause of the first finding, with its place and share, if they
	// are given; second that of the next one. alike is a set of causes that cannot
	// be told apart. Nothing is named beside them.
	finding, where, second string
	share                  float64
	alike                  []string
}

// tell judges scenes.
func tell(t *testing.T, scenes []told) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, s.scene), s.scene.onItsMachine(s.set))
			var named []string
			for _, f := range v.Findings {
				named = append(named, f.Cause)
			}
			// What the sentence says of p99 is of the same requests as what a cause would take away.
			if i := strings.Index(v.Sentence, "p99 is "); i >= 0 && len(v.Findings) > 0 && v.Findings[0].P99NS > 0 && !strings.HasPrefix(v.Sentence[i+len("p99 is "):], cause.Ms(float64(v.Findings[0].P99NS))) {
				t.Errorf("p99 of %s with the cause: %s", cause.Ms(float64(v.Findings[0].P99NS)), v.Sentence)
			}
			if want := slices.DeleteFunc([]string{s.finding, s.second}, func(id string) bool { return id == "" }); !slices.Equal(named, want) {
				t.Errorf("named %q, want %q: %s", named, want, v.Sentence)
			}
			if len(named) > 0 && s.where != "" && (v.Findings[0].Where == nil || v.Findings[0].Where.Function != s.where) {
				t.Errorf("in %+v, want %s", v.Findings[0].Where, s.where)
			}
			if len(named) > 0 && s.share > 0 && math.Abs(v.Findings[0].Share-s.share) > 0.02 {
				t.Errorf("a share of %.3f, want %.3f", v.Findings[0].Share, s.share)
			}
			for _, f := range v.Findings {
				if once := slices.Compact(slices.Sorted(slices.Values(f.Fix))); len(once) != len(f.Fix) {
					t.Errorf("%s advises the same twice: %q", f.Cause, f.Fix)
				}
			}
			var suspects []string
			for _, c := range v.Consistent {
				suspects = append(suspects, c.Causes...)
			}
			for _, id := range s.alike {
				if !slices.Contains(suspects, id) {
					t.Errorf("%s is not among %q", id, suspects)
				}
			}
			if s.alike == nil && suspects != nil {
				t.Errorf("undecided between %q", suspects)
			}
			if x := sum(v); math.Abs(x-1) > 1e-6 {
				t.Errorf("shares add up to %v", x)
			}
			if t.Failed() {
				for _, r := range v.RuledOut {
					t.Logf("not %s: %s", r.Cause, r.Because)
				}
				for _, f := range v.Findings {
					t.Logf("%s: %q", f.Cause, f.Evidence)
				}
				for _, c := range v.Consistent {
					t.Logf("%q: %q", c.Causes, c.Evidence)
				}
				t.Logf("unnamed %+v", v.Unnamed)
			}
		})
	}
}
