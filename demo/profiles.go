package demo

import (
	"context"
	"net/http"
	"time"
)

var controlSteady = Scenario{
	Name:     "steady",
	Title:    "control: steady load, nothing wrong",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/profile", Weight: 3}, {Path: "/friends"}},
	Env:       []string{twoPs},
	New:       newProfiles,
}

var controlBursts = Scenario{
	Name:     "bursts-ok",
	Title:    "control: bursts that the service absorbs",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      200,
	Bursts:    Bursts{Mean: 500 * time.Millisecond, Size: 6},
	Endpoints: []Endpoint{{Path: "/profile", Weight: 3}, {Path: "/friends"}},
	Env:       []string{twoPs},
	New:       newProfiles,
}

// profiles answers from memory.
type profiles struct{}

func newProfiles(context.Context, map[string]string) (http.Handler, error) {
	var p profiles
	mux := http.NewServeMux()
	mux.HandleFunc("GET /profile", p.profile)
	mux.HandleFunc("GET /friends", p.friends)
	return mux, nil
}

func (profiles) profile(w http.ResponseWriter, r *http.Request) { reply(w, lines(10)) }
func (profiles) friends(w http.ResponseWriter, r *http.Request) { reply(w, lines(40)) }
