package clock

import (
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAGuardDistrustsWhoWasLate(t *testing.T) {
	const ms = time.Millisecond
	type seen struct {
		age   time.Duration
		times int
		trust bool // after the last of them
	}
	for _, c := range []struct {
		name       string
		ages       []seen
		violations uint64
		oldest     time.Duration
	}{
		{"always on time", []seen{{10 * ms, 10_000, true}}, 0, 10 * ms},
		{"at the limit", []seen{{50 * ms, 10, true}}, 0, 50 * ms},
		{"late once, until it was on time a hundred times", []seen{{51 * ms, 1, false}, {10 * ms, 99, false}, {10 * ms, 1, true}}, 1, 51 * ms},
		{"late meanwhile, and the hundred begin again", []seen{{60 * ms, 1, false}, {10 * ms, 99, false}, {90 * ms, 1, false}, {10 * ms, 99, false}, {10 * ms, 1, true}}, 1, 60 * ms},
		{"late again, for twice as long", []seen{{60 * ms, 1, false}, {10 * ms, 100, true}, {60 * ms, 1, false}, {10 * ms, 199, false}, {10 * ms, 1, true}}, 2, 60 * ms},
		{"long on time, and it is trusted as before", []seen{{60 * ms, 1, false}, {10 * ms, 100, true}, {60 * ms, 1, false}, {10 * ms, 200, true}, {10 * ms, 4000, true}, {60 * ms, 1, false}, {10 * ms, 99, false}, {10 * ms, 1, true}}, 3, 60 * ms},
	} {
		g := guard{limit: 50 * ms}
		for i, s := range c.ages {
			trust := false
			for n := 0; n < s.times; n++ {
				trust = g.observe(s.age)
			}
			if trust != s.trust {
				t.Errorf("%s: step %d: trust %v", c.name, i, trust)
			}
		}
		if g.stats.Violations != c.violations || g.stats.Oldest != c.oldest {
			t.Errorf("%s: %+v, want %d violations, oldest %v", c.name, g.stats, c.violations, c.oldest)
		}
	}
}

// The wait for the end of a distrust grows, and has an end itself.
func TestADistrustHasAnEnd(t *testing.T) {
	g := guard{limit: time.Second}
	for i := 0; i < 100; i++ {
		if g.observe(2 * time.Second) {
			t.Fatal("it trusts who was late")
		}
		n := 1
		for ; !g.observe(0); n++ {
			if n > mostPenalty {
				t.Fatalf("after %d violations it does not end in %d", i+1, n)
			}
		}
		if n < leastPenalty {
			t.Fatalf("it ended after %d", n)
		}
	}
}

func TestACachedClockFollowsTheTimeUntilItIsStopped(t *testing.T) {
	c, err := NewCached(CachedOptions{Every: time.Millisecond, Limit: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	first := c.Now()
	var wg sync.WaitGroup
	for g := 0; g < 4; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for last := first; last.Sub(first) < 5*time.Millisecond; {
				now := c.Now()
				if now.Before(last) || now.After(time.Now()) {
					t.Errorf("%v after %v", now, last)
					return
				}
				last = now
			}
		}()
	}
	wg.Wait()
	if s := c.Stats(); s.Updates == 0 || s.Oldest <= 0 || s.Guarded {
		t.Errorf("%+v", s)
	}
	c.Stop()
	c.Stop()
	if c.now.Load() != nil {
		t.Error("the time stands still after Stop")
	}
	if now := c.Now(); time.Since(now) < 0 || !strings.Contains(now.String(), " m=") {
		t.Errorf("after Stop it is %v", now)
	}
}

func TestACachedClockThatIsStoppedDoesNotGoBackward(t *testing.T) {
	for i := 0; i < 50; i++ { // a stored time is later than the last tick, nearly always
		c, err := NewCached(CachedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before := c.Now()
		c.Stop()
		if after := c.Now(); after.Before(before) {
			t.Fatalf("it went back by %v", before.Sub(after))
		}
	}
}

func TestACachedClockTellsItsStatistics(t *testing.T) {
	c, err := NewCached(CachedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	got := map[string]bool{}
	c.Metrics(func(name string, v float64) { got[name] = v >= 0 })
	for _, name := range []string{"clock_cached_updates_total", "clock_cached_violations_total", "clock_cached_oldest_seconds", "clock_cached_guarded"} {
		if !got[name] {
			t.Errorf("%s is not told", name)
		}
	}
}

func TestOptionsThatCannotBeKeptAreErrors(t *testing.T) {
	for _, o := range []CachedOptions{
		{Every: time.Microsecond}, {Every: time.Minute}, {Every: -1}, {Every: time.Second, Limit: time.Second}, {Limit: -1},
	} {
		if c, err := NewCached(o); err == nil {
			c.Stop()
			t.Errorf("%+v is taken", o)
		}
	}
}

func BenchmarkCached(b *testing.B) {
	c, err := NewCached(CachedOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Stop()
	b.ReportAllocs()
	var t time.Time
	for i := 0; i < b.N; i++ {
		t = c.Now()
	}
	sink = t
}
