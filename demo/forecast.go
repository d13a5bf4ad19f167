package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"time"
)

var cpuHog = Scenario{
	Name:  "cpu-hog",
	Title: "four background jobs compute for 20 ms each and hold both Ps",
	Cause: "cpu-hog", Contrast: "tail", Verdicts: []string{"cause"},
	Accept:    []string{"netpoll-starvation"},
	Place:     symbol + "(*forecast).model",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/forecast"}},
	Env:       []string{twoPs},
	New:       newForecast,
}

// forecast answers from models that background jobs recompute together.
type forecast struct{ jobs chan chan line }

func newForecast(ctx context.Context, _ map[string]string) (http.Handler, error) {
	f := &forecast{jobs: make(chan chan line)}
	for range 4 {
		go f.render()
	}
	go f.update(ctx)
	return route("/forecast", f.handle), nil
}

func (f *forecast) update(ctx context.Context) {
	for interval(ctx, 350*time.Millisecond) {
		for range 4 {
			go f.model()
		}
	}
}

// model is the fault: it computes without a pause on every P there is.
func (f *forecast) model() (sum [sha256.Size]byte) {
	for range rounds(15*time.Millisecond + rand.N(10*time.Millisecond)) {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

func (f *forecast) render() {
	for out := range f.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

func (f *forecast) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(30)
	out := make(chan line, 1)
	for i := range 4 {
		f.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
