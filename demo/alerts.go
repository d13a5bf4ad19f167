package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

var goroutineLeak = Scenario{
	Name:  "goroutine-leak",
	Title: "every request leaves a goroutine behind that wakes at each change of prices",
	Cause: "goroutine-leak", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*alerts).watch",
	Rate:      300,
	Endpoints: []Endpoint{{Path: "/watch"}},
	Env:       []string{twoPs},
	New:       newAlerts,
}

// alerts watches prices for its customers.
type alerts struct {
	mu     sync.Mutex
	change chan struct{} // closed at the next change
	jobs   chan chan line
}

func newAlerts(ctx context.Context, _ map[string]string) (http.Handler, error) {
	a := &alerts{change: make(chan struct{}), jobs: make(chan chan line)}
	for range 4 {
		go a.render()
	}
	go a.follow(ctx)
	return route("/watch", a.handle), nil
}

func (a *alerts) follow(ctx context.Context) {
	for interval(ctx, 400*time.Millisecond) {
		a.mu.Lock()
		close(a.change)
		a.change = make(chan struct{})
		a.mu.Unlock()
	}
}

func (a *alerts) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.change
}

// watch compares prices at each change. It is the fault that it never ends.
func (a *alerts) watch() {
	var sum [sha256.Size]byte
	for {
		<-a.next()
		for range rounds(40 * time.Microsecond) {
			sum = sha256.Sum256(sum[:])
		}
	}
}

func (a *alerts) render() {
	for out := range a.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

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
