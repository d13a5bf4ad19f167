package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

var slowClock = Scenario{
	Name:  "slow-clock",
	Title: "some requests read the clock 25,000 times, and the process has no vDSO",
	Cause: "slow-clock", Contrast: "tail", Accept: []string{"expensive-request"}, Verdicts: []string{"cause", "inconclusive"},
	Place:     symbol + "events.replay",
	Rate:      120,
	Endpoints: []Endpoint{{Path: "/event"}},
	Env:       []string{twoPs},
	NoVDSO:    true,
	New:       newEvents,
}

// events replays what happened.
type events struct{}

func newEvents(context.Context, map[string]string) (http.Handler, error) {
	return route("/event", events{}.handle), nil
}

// replay stamps every event; some users have many.
func (events) replay() (last time.Time) {
	n := 25
	if rand.Float64() < 0.05 {
		n = 25_000
	}
	for range n {
		last = time.Now()
	}
	return last
}

func (e events) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	ls[0].Stock = e.replay().Second()
	reply(w, ls)
}
