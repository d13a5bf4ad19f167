package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

var poolLeak = Scenario{
	Name:  "pool-leak",
	Title: "a service with six printers does not give one back after each paper change",
	Cause: "pool-leak", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*labels).take",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/label"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "printer", Reply: 20 * time.Millisecond}},
	New:       newLabels,
}

// labels prints labels on a few printers, which are one peer here.
type labels struct {
	client   *http.Client
	printer  string
	printers chan struct{} // full when all of them print
	printed  atomic.Int64
}

// paper is how many labels are printed on a roll.
const paper = 40

func newLabels(_ context.Context, peers map[string]string) (http.Handler, error) {
	s := &labels{client: newClient(), printer: peers["printer"], printers: make(chan struct{}, 6)}
	return route("/label", s.handle), nil
}

// take reserves a printer, and reports false if none is free in time.
func (s *labels) take(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	select {
	case s.printers <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *labels) give() { <-s.printers }

// print is the fault: when the roll is at its end, it returns with the printer.
func (s *labels) print(ctx context.Context) ([]line, error) {
	if !s.take(ctx) {
		return nil, nil // to be printed later
	}
	answer, err := fetch(s.client, s.printer+"/print")
	if s.printed.Add(1)%paper == 0 {
		return answer, err
	}
	s.give()
	return answer, err
}

// handle prints three of ten labels; for the others a preview is enough.
func (s *labels) handle(w http.ResponseWriter, r *http.Request) {
	if rand.Float64() >= 0.3 {
		reply(w, lines(20))
		return
	}
	answer, err := s.print(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(answer, lines(20)...))
}
