package demo

import (
	"context"
	"net/http"
)

var controlIdleGoroutines = Scenario{
	Name:     "idle-goroutines",
	Title:    "control: 100,000 goroutines that do nothing",
	Verdicts: []string{"healthy", "cause"}, Contrast: "tail",
	Accept:    []string{"observer"}, // listing them is what a trace costs
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/device"}},
	Env:       []string{twoPs},
	New:       newDevices,
}

// devices keeps a goroutine for every device that has not reported yet.
type devices struct{ reports chan struct{} }

func newDevices(context.Context, map[string]string) (http.Handler, error) {
	d := &devices{reports: make(chan struct{})}
	for range 100_000 {
		go d.listen()
	}
	return route("/device", d.handle), nil
}

func (d *devices) listen() { <-d.reports }

func (d *devices) handle(w http.ResponseWriter, r *http.Request) { reply(w, lines(40)) }

var observer = Scenario{
	Name:  "observer",
	Title: "30,000 idle goroutines and no room in the heap: a trace makes the collector run",
	Cause: "observer", Contrast: "tail", Verdicts: []string{"cause", "healthy"},
	Rate:      100,
	Endpoints: []Endpoint{{Path: "/device"}},
	Env:       []string{"GOMAXPROCS=1", "GOGC=3"},
	New:       newFewDevices,
}

func newFewDevices(context.Context, map[string]string) (http.Handler, error) {
	d := &devices{reports: make(chan struct{})}
	for range 30_000 {
		go d.listen()
	}
	return route("/device", d.handle), nil
}
