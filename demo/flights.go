package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

var retryStorm = Scenario{
	Name:  "retry-storm",
	Title: "an airline does not answer a third of the calls, and each is made again after 20 ms",
	Cause: "retry-storm", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*flights).ask",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/fares"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "airline", Reply: 2 * time.Millisecond, Slow: time.Second, SlowShare: 0.33}},
	New:       newFlights,
}

// flights looks up what a flight costs today.
type flights struct {
	client  *http.Client
	airline string
}

func newFlights(_ context.Context, peers map[string]string) (http.Handler, error) {
	s := &flights{client: newClient(), airline: peers["airline"]}
	return route("/fares", s.handle), nil
}

// ask is one attempt.
func (s *flights) ask(ctx context.Context) (answer []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.airline+"/fares", nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

// today is the fault: as many attempts as it takes, however many there are already.
func (s *flights) today(ctx context.Context) (answer []line, err error) {
	for {
		answer, err = s.ask(ctx)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *flights) handle(w http.ResponseWriter, r *http.Request) {
	answer, err := s.today(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(answer, lines(40)...))
}
