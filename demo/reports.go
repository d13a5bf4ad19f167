package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

var controlMixture = Scenario{
	Name:     "mixture",
	Title:    "control: one endpoint in ten requests takes 25 ms by design",
	Verdicts: []string{"healthy", "inconclusive"}, Contrast: "tail", Mix: true,
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/summary", Weight: 9}, {Path: "/report", Weight: 1}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "warehouse", Reply: 25 * time.Millisecond}},
	New:       newReports,
}

// reports answers summaries from memory and reports from a data warehouse.
type reports struct {
	client *http.Client
	peer   string
}

func newReports(_ context.Context, peers map[string]string) (http.Handler, error) {
	s := &reports{client: newClient(), peer: peers["warehouse"]}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /summary", s.summary)
	mux.HandleFunc("GET /report", s.report)
	return mux, nil
}

func (s *reports) summary(w http.ResponseWriter, r *http.Request) { reply(w, lines(40)) }

func (s *reports) report(w http.ResponseWriter, r *http.Request) {
	resp, err := s.client.Get(s.peer + "/facts")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	var facts []line
	if err := json.NewDecoder(resp.Body).Decode(&facts); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(facts, lines(40)...))
}
