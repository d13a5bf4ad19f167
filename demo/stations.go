package demo

import (
	"context"
	"net/http"
)

var observer = Scenario{
	Name:  "observer",
	Title: "250,000 goroutines on one CPU, which nobody feels until each of them has to be listed for a trace",
	Cause: "observer", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/station"}},
	Env:       []string{"GOMAXPROCS=1"},
	New:       newStations,
}

// stations keeps a goroutine for every weather station that has not reported yet.
type stations struct{ reports chan int }

func newStations(context.Context, map[string]string) (http.Handler, error) {
	s := &stations{reports: make(chan int)}
	for range 250_000 {
		go s.listen()
	}
	return route("/station", s.handle), nil
}

func (s *stations) listen() { <-s.reports }

func (s *stations) handle(w http.ResponseWriter, r *http.Request) { reply(w, lines(40)) }
