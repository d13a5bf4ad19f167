package score

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/report"
)

func finding(id string, share float64, where string) cause.Finding {
	low, high := share-0.1, share+0.1
	f := cause.Finding{Cause: id, Contrast: "tail", Share: share, ShareLow: &low, ShareHigh: &high}
	if where != "" {
		f.Where = &cause.Place{Function: where}
	}
	return f
}

func answers(verdict string, findings []cause.Finding, sets ...[]string) *report.Diagnosis {
	d := &report.Diagnosis{Verdict: verdict, Findings: findings}
	for _, s := range sets {
		d.ConsistentWith = append(d.ConsistentWith, cause.Consistent{Causes: s})
	}
	return d
}

var (
	disk      = &Truth{Causes: []Planted{{Cause: "slow-disk", Accept: []string{"page-faults"}, Place: "main.keep"}}, Beside: []string{"host-contention"}}
	control   = &Truth{Beside: []string{"host-contention"}}
	without   = &Truth{Case: "etcd-disk" + WithoutSuffix}
	even      = &Truth{Causes: []Planted{{Cause: "slow-disk", Share: 0.5, Place: "main.keep"}, {Cause: "timer-wait", Share: 0.45}}}
	composite = &Truth{Causes: []Planted{{Cause: "slow-disk", Share: 0.8}, {Cause: "timer-wait", Share: 0.2}}}
)

func TestOf(t *testing.T) {
	one := func(id string) []cause.Finding { return []cause.Finding{finding(id, 0.9, "")} }
	two := func(x, y string) []cause.Finding { return append(one(x), one(y)...) }
	for _, c := range []struct {
		name  string
		truth *Truth
		d     *report.Diagnosis
		want  Result
	}{
		{"the cause", disk, answers("cause", one("slow-disk")), Right},
		{"what is as true", disk, answers("cause", one("page-faults")), Right},
		{"the cause before what is real beside it", disk, answers("cause", two("slow-disk", "host-contention")), Right},
		{"what is real beside it before the cause", disk, answers("cause", two("host-contention", "slow-disk")), Wrong},
		{"what is real beside it alone", disk, answers("cause", one("host-contention")), Wrong},
		{"the cause before something that is not real", disk, answers("cause", two("slow-disk", "cpu-hog")), Wrong},
		{"something else", disk, answers("cause", one("cpu-hog")), Wrong},
		{"the cause, but not enough of it", disk, answers("inconclusive", one("slow-disk")), Honest},
		{"look-alikes", disk, answers("inconclusive", nil, []string{"slow-cgo", "slow-disk"}), Honest},
		{"look-alikes without it", disk, answers("inconclusive", nil, []string{"slow-cgo"}), Silent},
		{"it is in the second set only", disk, answers("inconclusive", nil, []string{"slow-cgo"}, []string{"slow-disk"}), Silent},
		{"something else beside the right look-alikes", disk, answers("inconclusive", one("cpu-hog"), []string{"slow-disk"}), Wrong},
		{"healthy", disk, answers("healthy", nil), Silent},
		{"nothing", disk, answers("inconclusive", nil), Silent},
		{"both, the larger first", composite, answers("cause", two("slow-disk", "timer-wait")), Right},
		{"both, the smaller first", composite, answers("cause", two("timer-wait", "slow-disk")), Wrong},
		{"two as large, either first", even, answers("cause", two("timer-wait", "slow-disk")), Right},
		{"two as large, the other one alone", even, answers("cause", one("timer-wait")), Right},
		{"two as large, and look-alikes of the other one", even, answers("inconclusive", nil, []string{"timer-wait", "host-contention"}), Honest},
		{"two as large, and something else first", even, answers("cause", two("cpu-hog", "slow-disk")), Wrong},
		{"a healthy control", control, answers("healthy", nil), Right},
		{"a control with a name", control, answers("cause", one("slow-disk")), Wrong},
		{"a noisy control", control, answers("cause", one("host-contention")), Silent},
		{"a control with look-alikes", control, answers("inconclusive", nil, []string{"slow-disk"}), Silent},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Of(c.truth, c.d); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestRanks(t *testing.T) {
	ids := Ranked(answers("inconclusive", []cause.Finding{finding("cpu-hog", 0.3, "")}, []string{"slow-cgo", "cpu-hog"}, []string{"page-faults"}))
	if strings.Join(ids, " ") != "cpu-hog slow-cgo page-faults" {
		t.Errorf("ranked %v", ids)
	}
	for k, want := range []bool{false, false, false, true, true} {
		if got := At(disk, ids, k); got != want {
			t.Errorf("among the first %d: %v", k, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		x, y string
		same bool
	}{
		{"main.keep", "main.keep", true},
		{"main.keep.func1", "main.keep", true},
		{"main.keep.func1.2", "main.keep.func3", true},
		{"main.(*box[...]).keep", "main.(*box[go.shape.int]).keep", true},
		{"main.keep", "main.keeper", false},
		{"main.keep", "other.keep", false},
		{"main.(*a).keep", "main.(*b).keep", false},
	} {
		if got := SamePlace(c.x, c.y); got != c.same {
			t.Errorf("%s and %s: %v", c.x, c.y, got)
		}
	}
	if right, known := AtPlace(disk, answers("cause", []cause.Finding{finding("slow-disk", 1, "main.keep.func1")})); !right || !known {
		t.Error("the finding's place is not right")
	}
	if right, known := AtPlace(disk, answers("cause", []cause.Finding{finding("slow-disk", 1, "")})); right || !known {
		t.Error("no place is right")
	}
	if _, known := AtPlace(even, answers("cause", []cause.Finding{finding("timer-wait", 0.5, "main.nap")})); known {
		t.Error("the place of the other one is known")
	}
	if right, known := AtPlace(even, answers("cause", []cause.Finding{finding("slow-disk", 0.5, "main.keep")})); !right || !known {
		t.Error("the place of the first one is not right")
	}
	if _, known := AtPlace(composite, answers("healthy", nil)); known {
		t.Error("a place is known that was not planted")
	}
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		name     string
		findings []cause.Finding
		distance float64
		in, of   int
	}{
		{"exact", []cause.Finding{finding("slow-disk", 0.8, ""), finding("timer-wait", 0.2, "")}, 0, 2, 2},
		{"all to the larger", []cause.Finding{finding("slow-disk", 1, "")}, 0.2, 0, 1},
		{"something else", []cause.Finding{finding("cpu-hog", 1, "")}, 1, 0, 0},
		{"nothing", nil, 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := answers("cause", c.findings)
			if got, known := Distance(composite, d); !known || math.Abs(got-c.distance) > 1e-9 {
				t.Errorf("distance %g, known %v, want %g", got, known, c.distance)
			}
			if in, of := Covered(composite, d); in != c.in || of != c.of {
				t.Errorf("%d of %d covered, want %d of %d", in, of, c.in, c.of)
			}
		})
	}
	if _, known := Distance(disk, answers("healthy", nil)); known {
		t.Error("a distance to shares that were not measured")
	}
}

func TestSum(t *testing.T) {
	guess := []Baseline{{Name: "state", Cause: "slow-disk", Place: "main.keep.func2"}}
	all := []*Incident{
		New("a", disk, answers("cause", []cause.Finding{finding("slow-disk", 1, "main.keep")}), 1, guess),
		New("b", disk, answers("inconclusive", nil, []string{"slow-cgo", "slow-disk"}), 2, guess),
		New("c", disk, answers("cause", []cause.Finding{finding("cpu-hog", 1, "")}), 3, guess),
		New("d", composite, answers("cause", []cause.Finding{finding("slow-disk", 1, "")}), 4, guess),
		New("e", control, answers("healthy", nil), 5, guess),
		New("f", control, answers("cause", []cause.Finding{finding("cpu-hog", 1, "")}), 6, guess),
		New("g", without, answers("inconclusive", nil), 6, guess),
	}
	x := Sum(all)
	for name, c := range map[string][2]Ratio{
		"right": {x.Right, {2, 4}}, "honest": {x.Honest, {1, 4}}, "wrong": {x.Wrong, {1, 4}}, "silent": {x.Silent, {0, 4}},
		"AC@1": {x.AC1, {2, 4}}, "AC@3": {x.AC3, {3, 4}}, "place": {x.Place, {1, 3}},
		"alarms": {x.Alarms, {1, 2}}, "healthy": {x.Healthy, {1, 2}},
		"alarms without": {x.WithoutAlarms, {0, 1}}, "healthy without": {x.WithoutHealthy, {0, 1}}, "covered": {x.Covered, {0, 1}},
		"baseline": {x.Baselines[0].AC1, {4, 4}}, "baseline's place": {x.Baselines[0].Place, {3, 3}},
	} {
		if c[0] != c[1] {
			t.Errorf("%s %v, want %v", name, c[0], c[1])
		}
	}
	if x.Composites != 1 || math.Abs(x.Distance-0.2) > 1e-9 || x.Longest != 6 {
		t.Errorf("%+v", x)
	}
	if m := Confusion(all); m["slow-disk"]["slow-disk"] != 2 || m["slow-disk"]["{slow-cgo, slow-disk}"] != 1 || m["healthy"]["cpu-hog"] != 1 {
		t.Errorf("confusion %v", m)
	}
}

func TestATruthFileIsChecked(t *testing.T) {
	for want, text := range map[string]string{
		"":                  `{"schema":"whylate.truth/1","host":"etcd","case":"a","causes":[{"cause":"slow-disk","share":0.9}]}`,
		"the schema is":     `{"schema":"x","host":"etcd","case":"a"}`,
		"must be named":     `{"schema":"whylate.truth/1"}`,
		"has no cause":      `{"schema":"whylate.truth/1","host":"etcd","case":"a","beside":["slow-disc"]}`,
		"unknown field":     `{"schema":"whylate.truth/1","host":"etcd","case":"a","cause":"slow-disk"}`,
		"negative share":    `{"schema":"whylate.truth/1","host":"etcd","case":"a","causes":[{"cause":"slow-disk","share":-1}]}`,
		"shares add up to":  `{"schema":"whylate.truth/1","host":"etcd","case":"a","causes":[{"cause":"slow-disk","share":2}]}`,
		"unexpected EOF":    `{"schema":"whylate.truth/1"`,
		"cannot unmarshal ": `{"schema":1}`,
	} {
		file := filepath.Join(t.TempDir(), "x.truth.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadTruth(file)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
