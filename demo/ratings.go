package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

var slowDependency = Scenario{
	Name:  "slow-dependency",
	Title: "the service it calls takes 40 ms for 4 % of the calls",
	Cause: "slow-dependency", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*ratings).fetch",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/ratings"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "reviews", Slow: 40 * time.Millisecond, SlowShare: 0.04}},
	New:       newRatings,
}

// ratings is a thin layer over a peer: each request is one call.
type ratings struct {
	client *http.Client
	peer   string
}

func newRatings(_ context.Context, peers map[string]string) (http.Handler, error) {
	s := &ratings{client: newClient(), peer: peers["reviews"]}
	return route("/ratings", s.handle), nil
}

func (s *ratings) fetch() (answer []line, err error) {
	resp, err := s.client.Get(s.peer + "/reviews")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (s *ratings) handle(w http.ResponseWriter, r *http.Request) {
	answer, err := s.fetch()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(answer, lines(40)...))
}
