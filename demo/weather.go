package demo

import (
	"context"
	"net/http"
	"time"
)

var hostContention = Scenario{
	Name:  "host-contention",
	Title: "a neighbour on every CPU computes for 60 ms at a higher priority now and then",
	Cause: "host-contention", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:       200,
	Endpoints:  []Endpoint{{Path: "/weather"}},
	Env:        []string{twoPs},
	Neighbours: Neighbours{Busy: 60 * time.Millisecond, Every: 600 * time.Millisecond},
	Peers:      []Peer{{Name: "stations", Reply: 6 * time.Millisecond, Remote: true}},
	New:        newWeather,
}

// weather asks its stations; nothing is wrong with it.
type weather struct {
	client *http.Client
	peer   string
}

func newWeather(_ context.Context, peers map[string]string) (http.Handler, error) {
	v := &weather{client: newClient(), peer: peers["stations"]}
	return route("/weather", v.handle), nil
}

func (v *weather) handle(w http.ResponseWriter, r *http.Request) {
	ls, err := fetch(v.client, v.peer+"/observations")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(ls, lines(20)...))
}
