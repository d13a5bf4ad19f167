package main

import (
	"testing"

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
