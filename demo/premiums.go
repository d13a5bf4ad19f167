package demo

import (
	"context"
	"net/http"
	"time"
)

var slowToStop = Scenario{
	Name:  "slow-to-stop",
	Title: "a loop that the runtime may not interrupt keeps each collection from beginning",
	Cause: "slow-to-stop", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*premiums).simulate",
	Rate:      300,
	Endpoints: []Endpoint{{Path: "/premium"}},
	Env:       []string{twoPs, "GODEBUG=asyncpreemptoff=1"},
	New:       newPremiums,
}

// premiums are what insurances cost, by a risk that is computed anew all the time.
type premiums struct {
	steps int // of a simulation
	risk  chan uint64
}

func newPremiums(ctx context.Context, _ map[string]string) (http.Handler, error) {
	const trial = 1 << 22
	p := &premiums{steps: trial, risk: make(chan uint64, 1)}
	begin := time.Now()
	p.risk <- p.simulate()
	p.steps = int(float64(trial) / time.Since(begin).Seconds() * (40 * time.Millisecond).Seconds())
	go p.renew(ctx)
	return route("/premium", p.handle), nil
}

func (p *premiums) renew(ctx context.Context) {
	for interval(ctx, 100*time.Millisecond) {
		now := p.simulate()
		<-p.risk
		p.risk <- now
	}
}

// simulate is the fault: it calls nothing, so it does not stop when it is asked to,
// unless by a signal.
func (p *premiums) simulate() uint64 {
	x := uint64(time.Now().UnixNano()) | 1
	for range p.steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func (p *premiums) handle(w http.ResponseWriter, r *http.Request) {
	risk := <-p.risk
	p.risk <- risk
	terms := make([][]byte, 40)
	for i := range terms {
		terms[i] = make([]byte, 8<<10)
	}
	ls := lines(20)
	ls[0].Stock = int(risk%100) + len(terms)
	reply(w, ls)
}
