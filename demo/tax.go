package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

var levelSlow = Scenario{
	Name:  "level",
	Title: "every request waits 50 ms for another service: no tail, all are slow",
	Cause: "slow-dependency", Contrast: "level", Verdicts: []string{"cause", "inconclusive"},
	Place:     symbol + "(*tax).rates",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/tax"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "revenue", Reply: 50 * time.Millisecond}},
	New:       newTax,
}

// tax asks a peer for the rates of each request.
type tax struct {
	client *http.Client
	peer   string
}

func newTax(_ context.Context, peers map[string]string) (http.Handler, error) {
	t := &tax{client: newClient(), peer: peers["revenue"]}
	return route("/tax", t.handle), nil
}

// rates is the fault: they change once a year and could be kept.
func (t *tax) rates() (answer []line, err error) {
	resp, err := t.client.Get(t.peer + "/rates")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (t *tax) handle(w http.ResponseWriter, r *http.Request) {
	answer, err := t.rates()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(answer, lines(40)...))
}
