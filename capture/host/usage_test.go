package host

import (
	"math"
	"testing"
)

// steps is a recording of four samples, 10 ns apart from time 100 on, in which
// counters grow by 1, 2 and 4.
func steps() *Recording {
	at := func(t, n int64, blocked ...int) Sample {
		return Sample{
			MonoNS: t, RunNS: n, DelayNS: 10 * n, Blocked: blocked, UserNS: 100 * n, MajorFaults: n, IODelayNS: 3 * n,
			Groups:  []GroupCounters{{Periods: n, Throttled: n, ThrottledNS: 5 * n, UsageNS: 7 * n}},
			Machine: Machine{CPUTimes: CPUTimes{BusyNS: 20 * n, IdleNS: 30 * n, StealNS: 2 * n}, CPUSomeNS: 4 * n},
		}
	}
	return &Recording{
		Static:  Static{Groups: []Group{{Path: "/"}}},
		Samples: []Sample{at(100, 50), at(110, 51, 1), at(120, 53, 1, 2), at(130, 57)},
	}
}

func TestUsageIsInterpolatedBetweenSamples(t *testing.T) {
	for _, c := range []struct {
		name         string
		spans        []Span
		wall, n      float64 // n: growth of RunNS
		blockedNanos float64
	}{
		{"the whole recording", []Span{{100, 130}}, 30, 7, 5 + 15 + 10},
		{"one period", []Span{{110, 120}}, 10, 2, 15},
		{"a part of a period", []Span{{112, 117}}, 5, 1, 7.5},
		{"parts of two periods", []Span{{115, 125}}, 10, 3, 7.5 + 5},
		{"two stretches", []Span{{100, 110}, {120, 130}}, 20, 5, 5 + 10},
		{"what lies outside of the recording does not count", []Span{{0, 105}, {125, 999}}, 10, 0.5 + 2, 2.5 + 5},
		{"before the recording", []Span{{0, 100}}, 0, 0, 0},
		{"behind the recording", []Span{{130, 140}}, 0, 0, 0},
		{"an empty stretch", []Span{{115, 115}}, 0, 0, 0},
		{"a reversed stretch", []Span{{120, 110}}, 0, 0, 0},
		{"no stretch", nil, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := steps().Over(c.spans)
			for _, v := range []struct {
				name      string
				got, want float64
			}{
				{"wall", u.WallNS, c.wall}, {"run", u.RunNS, c.n}, {"delay", u.DelayNS, 10 * c.n}, {"blocked", u.BlockedNS, c.blockedNanos},
				{"user", u.UserNS, 100 * c.n}, {"faults", u.MajorFaults, c.n}, {"I/O delay", u.IODelayNS, 3 * c.n},
				{"periods", u.Groups[0].Periods, c.n}, {"usage", u.Groups[0].UsageNS, 7 * c.n},
				{"CPUs", u.CPUNS(), 52 * c.n}, {"busy", u.BusyNS, 20 * c.n}, {"idle", u.IdleNS, 30 * c.n}, {"steal", u.StealNS, 2 * c.n}, {"pressure", u.CPUSomeNS, 4 * c.n},
			} {
				if math.Abs(v.got-v.want) > 1e-9 {
					t.Errorf("%s: %g, want %g", v.name, v.got, v.want)
				}
			}
		})
	}
}

func TestACounterThatFallsAddsNothing(t *testing.T) {
	r := steps()
	r.Samples[2].RunNS = 0
	if u := r.Over([]Span{r.Span()}); u.RunNS != 1+57 {
		t.Errorf("run %g, want 58: 1 before the fall, 57 after it", u.RunNS)
	}
	r = steps()
	r.Samples[1].Groups = nil
	if u := r.Over([]Span{r.Span()}); u.Groups[0].Periods != 4 {
		t.Errorf("periods %g, want those between samples that have both", u.Groups[0].Periods)
	}
}

func TestUsageNeedsTwoSamples(t *testing.T) {
	r := steps()
	r.Samples = r.Samples[:1]
	if u := r.Over([]Span{{0, 1000}}); u.WallNS != 0 || u.RunNS != 0 || r.Span() != (Span{}) {
		t.Errorf("one sample gives usage %+v over %v", u, r.Span())
	}
}

func TestStopsLieBeforeTheirCount(t *testing.T) {
	for _, c := range []struct {
		span Span
		want float64
	}{
		{Span{100, 130}, 35},
		{Span{100, 110}, 5},
		{Span{110, 120}, 10 + 10}, // the last stop, counted at 130, took 20
		{Span{120, 130}, 10},
		{Span{115, 125}, 5 + 10},
		{Span{130, 140}, 0},
	} {
		if u := steps().Over([]Span{c.span}); math.Abs(u.Groups[0].ThrottledNS-c.want) > 1e-9 {
			t.Errorf("%v: %g, want %g", c.span, u.Groups[0].ThrottledNS, c.want)
		}
	}
}

// A child is found up to a second after it began to use CPU time; what is read in every look is where it belongs.
func TestTheTimeOfChildrenIsSpreadOverTheTimeInWhichTheyWereNotSeen(t *testing.T) {
	const second = 1e9
	r := &Recording{}
	for i := range int64(6) {
		r.Samples = append(r.Samples, Sample{MonoNS: 1 + i*second/2, Machine: Machine{CPUTimes: CPUTimes{IdleNS: 1 + i}}})
	}
	r.Samples[4].ChildrenNS, r.Samples[5].ChildrenNS = 800, 900
	r.smooth()
	var got [6]int64
	for i, s := range r.Samples {
		got[i] = s.ChildrenNS
	}
	if want := [6]int64{0, 0, 0, 400, 800, 900}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// What is drawn has no steps where a counter was not read, and none where nothing was counted for long.
func TestEvenCountersGrowFromOneReadingToTheNext(t *testing.T) {
	const look = 50e6
	for _, c := range []struct {
		name             string
		counted, growing []int64
		value            func(*Sample) *int64
	}{
		{"pressure", []int64{7, 7, 47, 47, 47, 47, 47, 47, 87}, []int64{7, 27, 47, 47, 47, 57, 67, 77, 87}, func(s *Sample) *int64 { return &s.Machine.CPUSomeNS }},
		{"CPU time", []int64{7, 7, 47, 47, 47, 47, 47, 47, 107}, []int64{7, 27, 47, 57, 67, 77, 87, 97, 107}, func(s *Sample) *int64 { return &s.RunNS }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Recording{Samples: make([]Sample, len(c.counted))}
			for i := range r.Samples {
				r.Samples[i].MonoNS = 1 + int64(i)*look
				*c.value(&r.Samples[i]) = c.counted[i]
			}
			even := r.Even()
			for i := range r.Samples {
				if got := *c.value(&even.Samples[i]); got != c.growing[i] {
					t.Errorf("sample %d: %d, want %d", i, got, c.growing[i])
				}
				if *c.value(&r.Samples[i]) != c.counted[i] {
					t.Errorf("sample %d was changed in the recording itself", i)
				}
			}
		})
	}
}

func TestUsageIsThatOfTheCPUsThatTheProcessMayUse(t *testing.T) {
	r := steps()
	for i := range r.Samples {
		r.Samples[i].Confined = &CPUTimes{IdleNS: 3 * r.Samples[i].RunNS}
	}
	if u := r.Over([]Span{r.Span()}); !u.Confined || u.IdleNS != 21 || u.BusyNS != 0 || u.CPUSomeNS != 28 {
		t.Errorf("%+v", u)
	}
	r.After = &After{Allowed: 4} // threads may use other CPUs too
	if u := r.Over([]Span{r.Span()}); u.Confined || u.IdleNS != 210 {
		t.Errorf("%+v", u)
	}
}
