package demo

import (
	"context"
	"net/http"
)

var controlIdleGoroutines = Scenario{
	Name:     "idle-goroutines",
	Title:    "control: 100,000 goroutines that do nothing",
	Verdicts: []string{"healthy", "cause"}, Contrast: "tail",
	// Recording so many goroutines is felt sometimes, and whylate says so.
	Accept:    []string{"observer"},
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
