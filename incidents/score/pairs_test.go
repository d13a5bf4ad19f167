package score

import (
	"path/filepath"
	"testing"
)

func TestSeverityIsTheLeastRise(t *testing.T) {
	x := &Truth{Pairs: []Pair{{WithNS: 40, WithoutNS: 10}, {WithNS: 30, WithoutNS: 10}, {WithNS: 90, WithoutNS: 10}}}
	if got := x.Severity(); got != 3 {
		t.Errorf("severity %v, want 3", got)
	}
	if got := (&Truth{}).Severity(); got != 0 {
		t.Errorf("severity %v without pairs", got)
	}
}

func TestWhatWasPlantedIsConfirmedByThreePairs(t *testing.T) {
	pair := Pair{WithNS: 2, WithoutNS: 1}
	planted := []Planted{{Cause: "slow-disk"}}
	for _, c := range []struct {
		truth Truth
		want  bool
	}{{Truth{}, true}, {Truth{Causes: planted, Pairs: []Pair{pair, pair}}, false}, {Truth{Causes: planted, Pairs: []Pair{pair, pair, pair}}, true}} {
		if got := c.truth.Confirmed(); got != c.want {
			t.Errorf("%+v: confirmed %v", c.truth, got)
		}
	}
}

func TestATruthFileIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x"+Suffix)
	x := &Truth{Schema: Schema, Host: "shop", Case: "shop-disk", Causes: []Planted{{Cause: "slow-disk", Share: 0.9}}, Pairs: []Pair{{WithNS: 2, WithoutNS: 1}}}
	if err := x.Write(file); err != nil {
		t.Fatal(err)
	}
	y, err := ReadTruth(file)
	if err != nil || y.Severity() != 2 || y.Causes[0].Share != 0.9 {
		t.Errorf("%+v, %v", y, err)
	}
	x.Causes[0].Share = -1
	if err := x.Write(file); err == nil {
		t.Error("a negative share was written")
	}
}
