package breaker

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// distribution draws durations whose median is about a millisecond.
type distribution struct {
	name string
	draw func(r *rand.Rand) float64
}

func lognormal(r *rand.Rand) float64 { return math.Exp(r.NormFloat64() * 0.5) }

func mixed(part float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		x := lognormal(r)
		if r.Float64() < part {
			x *= 20
		}
		return x
	}
}

// distributions are the four that the goals are stated for.
var distributions = []distribution{
	{"lognormal", lognormal},
	{"lognormal + 0.5 % x20", mixed(0.005)},
	{"lognormal + 1 % x20", mixed(0.01)},
	{"Pareto 2", func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -0.5) }},
}

// run gives a judge calls at 1,000 a second for some time, in virtual time, and returns how
// long it took until it opened, 0 if it did not.
func run(j *judge, r *rand.Rand, draw func(*rand.Rand) float64, for_ time.Duration) time.Duration {
	var w window
	for t := interval; t <= for_; t += interval {
		w = window{n: 100}
		for i := 0; i < w.n; i++ {
			w.count[bucket(int64(draw(r)*1e6))]++
		}
		if why, _ := j.observe(&w, interval, nil); why != None {
			j.reset()
			return t
		}
	}
	return 0
}

func TestHeightGrowsWithTheRateSoThatFalseAlarmsDoNot(t *testing.T) {
	j := newJudge(1.8, 500, 0)
	for _, c := range []struct{ rate, want float64 }{{0, 12}, {1, 12}, {1000, 17.18}, {1e6, 24.08}} {
		j.rate = c.rate
		if got := j.height(); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%v calls/s: %v, want %v", c.rate, got, c.want)
		}
	}
}

func TestABucketHasTheDurationsFromItsEdgeToTheNext(t *testing.T) {
	for i := 1; i < buckets-1; i++ {
		if bucket(edge(i)) != i || bucket(edge(i+1)-1) != i {
			t.Fatalf("bucket %d: its edge %d is in %d, %d in %d", i, edge(i), bucket(edge(i)), edge(i+1)-1, bucket(edge(i+1)-1))
		}
		if width := float64(edge(i+1)) / float64(edge(i)); width > 1.0626 {
			t.Errorf("bucket %d is %v wide", i, width)
		}
	}
	for ns, want := range map[int64]int{-5: 0, 0: 0, 1023: 0, math.MaxInt64: buckets - 1} {
		if got := bucket(ns); got != want {
			t.Errorf("%d is in %d, want %d", ns, got, want)
		}
	}
}

func TestAQuantileIsRightToAFewPercent(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var w window
	var all []float64
	for i := 0; i < 100_000; i++ {
		x := lognormal(r) * 1e6
		all = append(all, x)
		w.count[bucket(int64(x))]++
		w.n++
	}
	slices.Sort(all)
	var h history
	h.add(&w)
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999} {
		want := all[int(q*float64(len(all)))]
		if got := float64(h.quantile(q)); math.Abs(got-want) > 0.03*want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}

func TestFewCallsOfACalleeDoNotMakeASureBaseline(t *testing.T) {
	for i, d := range distributions {
		for seed := uint64(0); seed < 100; seed++ {
			j := newJudge(1.8, 500, 0)
			if took := run(j, rand.New(rand.NewPCG(seed, uint64(i))), d.draw, 10*time.Second); took != 0 {
				t.Errorf("%s, seed %d: a false alarm %v after the start", d.name, seed, took)
			}
		}
	}
}

func TestThereAreFourShardsForEachPAndNotTooMany(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for procs, want := range map[int]int{1: 4, 2: 8, 3: 16, 16: 64, 100: 64} {
		runtime.GOMAXPROCS(procs)
		c := newCounters()
		if len(c.shards) != want {
			t.Errorf("%d shards for %d procs, want %d", len(c.shards), procs, want)
		}
		c.of().n[7].Add(1)
		c.of().errors.Add(1)
		var w window
		if c.take(&w); w.n != 1 || w.count[7] != 1 || w.errors != 1 {
			t.Errorf("%d procs: %d calls, %d errors", procs, w.n, w.errors)
		}
	}
}

func TestAPermitThatWasLostIsForgottenAfterTheLongestAge(t *testing.T) {
	var f flight
	slot := f.enter(0)
	aged, overdue := 0, 0
	for now := int64(0); now < 300*1000; now += 5 {
		a, o := f.older(now, 10, 1000)
		aged, overdue = aged+a, overdue+o
	}
	if aged != recounts || overdue != recounts {
		t.Errorf("counted %d and %d times", aged, overdue)
	}
	if f.start[slot-1].Load() == 0 {
		t.Error("forgotten too early")
	}
	f.older(302*1000, 10, 1000)
	if f.start[slot-1].Load() != 0 {
		t.Error("not forgotten")
	}
}
