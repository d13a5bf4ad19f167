package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"time"
)

var goroutineLeak = Scenario{
	Name:  "goroutine-leak",
	Title: "every request leaves a goroutine behind that works 100 µs on every beat",
	Cause: "goroutine-leak", Contrast: "tail", Verdicts: []string{"cause"},
	Accept:    []string{"netpoll-starvation"},
	Place:     symbol + "(*alerts).handle",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/alert"}},
	Env:       []string{twoPs},
	New:       newAlerts,
}

// alerts watches what its users ask for.
type alerts struct{ jobs chan chan line }

func newAlerts(context.Context, map[string]string) (http.Handler, error) {
	a := &alerts{jobs: make(chan chan line)}
	for range 4 {
		go a.render()
	}
	return route("/alert", a.handle), nil
}

// beat is when all watchers look again.
const beat = 500 * time.Millisecond

func (a *alerts) watch() {
	var sum [sha256.Size]byte
	for {
		time.Sleep(beat - time.Duration(time.Now().UnixNano())%beat)
		for range rounds(100 * time.Microsecond) {
			sum = sha256.Sum256(sum[:])
		}
	}
}

func (a *alerts) render() {
	for out := range a.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

// handle is the fault: nothing ends what it starts.
func (a *alerts) handle(w http.ResponseWriter, r *http.Request) {
	go a.watch()
	ls := lines(30)
	out := make(chan line, 1)
	for i := range 4 {
		a.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
