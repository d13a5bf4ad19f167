package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

var slowClock = Scenario{
	Name:  "slow-clock",
	Title: "every entry gets its own time stamp, and reading the clock is a system call",
	Cause: "slow-clock", Contrast: "tail", Verdicts: []string{"cause"},
	// Without evidence of system calls it is the request's own CPU time.
	Accept:    []string{"expensive-request"},
	Place:     symbol + "(*timesheets).stamp",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/entries"}},
	Env:       []string{twoPs},
	NoVDSO:    true,
	New:       newTimesheets,
}

// The look-alike: the clock is as fast as it should be, and the longest lists are
// ten times as long.
var timesheetsLong = Scenario{
	Name:  "timesheets-long",
	Title: "the program of slow-clock with a fast clock, and more entries to stamp",
	Cause: "expensive-request", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*timesheets).stamp",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/entries"}},
	Env:       []string{twoPs},
	New: func(context.Context, map[string]string) (http.Handler, error) {
		return route("/entries", (&timesheets{longest: 400_000}).handle), nil
	},
}

// timesheets imports lists of entries, most of them short.
type timesheets struct{ longest int }

func newTimesheets(context.Context, map[string]string) (http.Handler, error) {
	return route("/entries", (&timesheets{longest: 40_000}).handle), nil
}

// stamp reads the clock once for each entry: 2 ms for 40,000 of them, unless the
// vDSO is missing.
func (t *timesheets) stamp(entries []time.Time) {
	for i := range entries {
		entries[i] = time.Now()
	}
}

func (t *timesheets) handle(w http.ResponseWriter, r *http.Request) {
	n := 500
	if rand.IntN(25) == 0 {
		n = t.longest
	}
	entries := make([]time.Time, n)
	t.stamp(entries)
	ls := lines(20)
	ls[0].Stock = int(entries[n-1].Sub(entries[0]))
	reply(w, ls)
}
