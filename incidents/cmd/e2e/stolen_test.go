package main

import (
	"testing"
	"time"

	"github.com/whylate/whylate/load"
)

func TestStolenIsAPartOfAllCPUTime(t *testing.T) {
	before := parseCPUs("cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2 3\n")
	after := parseCPUs("cpu  150 0 60 1120 10 0 5 55 9 9\n")
	if got := after.stolenSince(before); got != 0.05 {
		t.Errorf("stolen: %v, want 0.05", got)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 x 5 6 7 8"} {
		if got := parseCPUs(bad); got != (cpuTimes{}) {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	if got := (cpuTimes{}).stolenSince(cpuTimes{}); got != 0 {
		t.Errorf("nothing known: %v", got)
	}
}

func TestALoadThatIsRefusedIsWorthNothing(t *testing.T) {
	for _, c := range []struct {
		status map[int]int
		ok     bool
	}{{map[int]int{200: 100}, true}, {map[int]int{200: 60, 204: 33, 429: 7}, true}, {map[int]int{200: 89, 503: 11}, false}, {nil, false}} {
		err := answered(load.Result{Offered: 100, Endpoints: []load.EndpointResult{{Status: c.status}}})
		if (err == nil) != c.ok {
			t.Errorf("%v: %v", c.status, err)
		}
	}
}

func TestOnlyTheftsDuringSlowRequestsDisturb(t *testing.T) {
	const n = 200 // requests, one every 10 ms, of 2 ms; three of them, the slowest 1.5 %, take 42
	slow := func(i int) bool { return i%80 == 20 }
	for _, c := range []struct {
		name         string
		theft        func(i int) time.Duration // in the 10 ms from each request on
		lag          time.Duration
		late, stolen [2]float64 // between
	}{
		{"calm", func(int) time.Duration { return 0 }, 0, [2]float64{0, 0}, [2]float64{0, 0}},
		{"always a third of the machine", func(int) time.Duration { return 6 * time.Millisecond }, 0, [2]float64{0, 0}, [2]float64{0, 0.01}},
		{"while they run", func(i int) time.Duration {
			if i >= 20 && i%80 >= 20 && i%80 < 24 {
				return 10 * time.Millisecond
			}
			return 0
		}, 0, [2]float64{0, 0}, [2]float64{0.8, 1}},
		{"while none runs", func(i int) time.Duration {
			if i%80 > 40 && i%80 < 60 {
				return 10 * time.Millisecond
			}
			return 0
		}, 0, [2]float64{0, 0}, [2]float64{0, 0}},
		{"clients that are late", func(int) time.Duration { return 0 }, 10 * time.Millisecond, [2]float64{0.25, 0.25}, [2]float64{0, 0}},
	} {
		w := &witness{}
		at, stolen := time.Now(), time.Duration(0)
		begin := at
		for i := range n {
			w.looks = append(w.looks, look{at, stolen})
			if slow(i) {
				w.done(at, c.lag, 42*time.Millisecond)
			} else {
				w.done(at, 0, 2*time.Millisecond)
			}
			at, stolen = at.Add(10*time.Millisecond), stolen+c.theft(i)
		}
		w.looks = append(w.looks, look{at, stolen})
		w.done(begin.Add(-time.Second), time.Minute, time.Minute) // before
		l := w.since(begin)
		if l.late < c.late[0] || l.late > c.late[1] || l.stolen < c.stolen[0] || l.stolen > c.stolen[1] {
			t.Errorf("%s: late %.3f, want %v, stolen %.3f, want %v", c.name, l.late, c.late, l.stolen, c.stolen)
		}
		if l.p99 != 42e6 || l.tail != 42e6 || l.typical != 2e6 {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
	if l := (&witness{}).since(time.Time{}); l != (latencies{}) {
		t.Errorf("no request: %+v", l)
	}
}
