package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

var poolExhausted = Scenario{
	Name:  "pool-exhausted",
	Title: "two permits for a back end whose calls are short, under bursts",
	Cause: "pool-exhausted", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*quotes).ask",
	Rate:      120,
	Bursts:    Bursts{Mean: 900 * time.Millisecond, Size: 24},
	Endpoints: []Endpoint{{Path: "/quote"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "market", Reply: 2 * time.Millisecond}},
	New:       newQuotes,
}

// quotes asks a market for each quote, with at most two questions at a time.
type quotes struct {
	client  *http.Client
	market  string
	permits chan struct{}
}

func newQuotes(_ context.Context, peers map[string]string) (http.Handler, error) {
	q := &quotes{client: newClient(), market: peers["market"], permits: make(chan struct{}, 2)}
	for range cap(q.permits) {
		q.permits <- struct{}{}
	}
	return route("/quote", q.handle), nil
}

// ask is the fault: two permits are enough on average and too few in a burst.
func (q *quotes) ask() (answer []line, err error) {
	<-q.permits
	defer func() { q.permits <- struct{}{} }()
	resp, err := q.client.Get(q.market + "/quote")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (q *quotes) handle(w http.ResponseWriter, r *http.Request) {
	answer, err := q.ask()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(answer, lines(20)...))
}
