package clock

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestTheRatioTellsThePath(t *testing.T) {
	for _, c := range []struct {
		name          string
		ratio, direct float64
		mapped        bool
		want          Path
	}{
		{"nothing to compare with", 0, 0, true, Unknown},
		{"with a vDSO", 0.15, 0, true, VDSO},
		{"no vDSO at all", 0.96, 0, false, NoVDSO},
		{"the runtime was not told of the vDSO", 1.5, 0.12, true, NoVDSO},
		{"the vDSO makes a system call", 1.1, 1.0, true, NoMode},
		{"a vDSO that Go code may not call", 1.1, 0, true, NoMode},
	} {
		if got := classify(c.ratio, c.direct, c.mapped); got != c.want || got.Slow() != (c.ratio > slowRatio) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestACheckMeasuresTheClockOfThisProcess(t *testing.T) {
	c := Check()
	if c.Read <= 0 || c.Since <= 0 || c.Coarse <= 0 {
		t.Errorf("%+v", c)
	}
	if measured := c.System > 0 && c.Ratio > 0 && c.Path != Unknown; measured != (runtime.GOOS == "linux") {
		t.Errorf("%+v on %s", c, runtime.GOOS)
	}
	if !strings.HasPrefix(c.String(), "time.Now takes ") {
		t.Error(c)
	}
	got := map[string]float64{}
	c.Metrics(func(name string, v float64) { got[name] = v })
	if got["clock_read_ns"] != c.Read || got["clock_read_ratio"] != c.Ratio {
		t.Errorf("%v of %+v", got, c)
	}
	if _, ok := got["clock_slow"]; ok != (c.Path != Unknown) {
		t.Errorf("clock_slow of an unknown path: %v", got)
	}
}

func TestAChangeIsToldOnceItWasSeenTwice(t *testing.T) {
	// The first is that of Watch; a single slow one is an interrupted check.
	script := []Path{VDSO, VDSO, NoMode, VDSO, VDSO, NoMode, NoMode, NoMode, VDSO, VDSO}
	n := 0
	type change struct{ before, after Path }
	changes := make(chan change)
	w := watch(time.Millisecond, func() Cost {
		c := Cost{Path: script[min(n, len(script)-1)]}
		n++
		return c
	}, func(before, after Cost) { changes <- change{before.Path, after.Path} })
	for _, want := range []change{{VDSO, NoMode}, {NoMode, VDSO}} {
		if got := <-changes; got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	w.Stop()
	w.Stop()
	if got := w.Cost().Path; got != VDSO {
		t.Errorf("at the end %v", got)
	}
}

func TestAWatchWithoutACallbackKnowsTheCost(t *testing.T) {
	w := Watch(0, nil)
	defer w.Stop()
	n := 0
	w.Metrics(func(string, float64) { n++ })
	if n == 0 || w.Cost().Read <= 0 {
		t.Errorf("%d metrics of %+v", n, w.Cost())
	}
}
