//go:build !race

package breaker

// Hours of calls, by one goroutine: the race detector makes them half a minute. `make test` runs them
// without it.

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestErrorsThatComeBackFastTeachNothing(t *testing.T) {
	for _, well := range []time.Duration{0, 10 * time.Minute, time.Hour} {
		t.Run(well.String(), func(t *testing.T) {
			t.Parallel()
			s := stage(t, Options{})
			s.calls(lognormal, well)
			s.outage(12 * time.Minute)
			s.calls(lognormal, 10*time.Minute)
			if s.State() != Closed || len(s.changes) > 0 {
				t.Errorf("%v of calls, an outage, and a callee that is well again: %+v", well, s.changes)
			}
		})
	}
}

// Nine in ten of the answers are errors, as slow as others, from now on: only the slow ones would be left to judge by.
func TestErrorsThatDoNotCountAreNoSlowCalls(t *testing.T) {
	t.Parallel()
	s := stage(t, Options{})
	s.calls(lognormal, 10*time.Minute)
	for end := s.at + 10*time.Minute; s.at < end && s.State() == Closed; s.at += time.Millisecond {
		var err error
		if s.r.Float64() < 0.9 {
			err = errRefused
		}
		p, _ := s.AllowAt(s.now())
		p.DoneIn(time.Duration(lognormal(s.r)*1e6), err)
	}
	s.want(Closed)
}

func TestANightWithoutCallsIsNoReasonToForget(t *testing.T) {
	t.Parallel()
	s := stage(t, Options{})
	s.calls(lognormal, 10*time.Minute)
	before := s.judge.base.n
	s.at += 8 * time.Hour
	s.calls(lognormal, time.Second)
	if after := s.judge.base.n; after < 0.9*before {
		t.Errorf("of %.0f calls %.0f are left", before, after)
	}
	// Neither are hours in which none came back well.
	s.outage(time.Hour)
	s.calls(lognormal, time.Second)
	if after := s.judge.base.n; after < 0.9*before {
		t.Errorf("of %.0f calls %.0f are left after the outage", before, after)
	}
	s.want(Closed)
}

// Goals: at most half a false alarm per hour, 5 % of calls x20 found within a second in 99 of 100
// cases. sdk/bench/breaker has the numbers of six hours; here it is one hour of each.
func TestFalseAlarmsAreRareAndFaultsAreFound(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name        string
		part, times float64
		within      time.Duration
	}{
		{"5 % x20", 0.05, 20, time.Second},
		{"20 % x10", 0.2, 10, time.Second},
		{"all x2", 1, 2, time.Second},
		{"all x4", 1, 4, 500 * time.Millisecond},
	}
	for i, d := range distributions {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		j := newJudge(1.8, 500, 0)
		if took := run(j, r, d.draw, time.Hour); took != 0 {
			t.Errorf("%s: a false alarm after %v", d.name, took)
		}
		for _, f := range faults {
			var took []time.Duration
			for i := 0; i < 200; i++ {
				c := *j
				run(&c, r, d.draw, 2*time.Second)
				found := run(&c, r, slower(d.draw, f.part, f.times), 30*time.Second)
				if found == 0 {
					found = time.Hour
				}
				took = append(took, found)
			}
			slices.Sort(took)
			if p99 := took[198]; p99 > f.within {
				t.Errorf("%s, %s: found within %v in 99 of 100 cases, want %v", d.name, f.name, p99, f.within)
			}
		}
	}
}
