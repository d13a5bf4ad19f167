package demo

import (
	"context"
	"net/http"
	"sync"
	"time"
)

var hung = Scenario{
	Name:  "hung",
	Title: "after three seconds one goroutine keeps the mutex for ever",
	Cause: "", Contrast: "tail", Accept: []string{"lock-held-across-wait"},
	Verdicts:  []string{"cause", "inconclusive"},
	Place:     symbol + "(*bookings).closeDay",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/book"}},
	Env:       []string{twoPs},
	New:       newBookings,
}

// bookings numbers its bookings and closes the day once.
type bookings struct {
	once   sync.Once
	mu     sync.Mutex
	number int
	sealed chan struct{}
}

func newBookings(context.Context, map[string]string) (http.Handler, error) {
	b := &bookings{sealed: make(chan struct{})}
	return route("/book", b.handle), nil
}

// closeDay is the fault: nobody ever seals the day, and the mutex is held until
// somebody does.
func (b *bookings) closeDay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	<-b.sealed
}

func (b *bookings) handle(w http.ResponseWriter, r *http.Request) {
	b.once.Do(func() { time.AfterFunc(3*time.Second, b.closeDay) })
	ls := lines(60)
	b.mu.Lock()
	b.number++
	ls[0].Stock = b.number
	b.mu.Unlock()
	reply(w, ls)
}
