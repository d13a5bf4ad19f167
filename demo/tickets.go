package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

var gcPause = Scenario{
	Name:  "gc-pause",
	Title: "300,000 sync.Pools, one for each user, all of which every cycle empties while the world is stopped",
	Cause: "gc-pause", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/ticket"}},
	Env:       []string{twoPs},
	New:       newTickets,
}

// tickets keeps buffers for every user.
type tickets struct {
	users []*user
	jobs  chan chan line
}

type user struct{ buffers sync.Pool }

func newTickets(ctx context.Context, _ map[string]string) (http.Handler, error) {
	t := &tickets{jobs: make(chan chan line)}
	for range 300_000 {
		t.users = append(t.users, &user{})
	}
	rand.Shuffle(len(t.users), func(i, j int) { t.users[i], t.users[j] = t.users[j], t.users[i] })
	for range 4 {
		go t.render()
	}
	go t.touch(ctx)
	return route("/ticket", t.handle), nil
}

// touch lets all users be active within a second or so.
func (t *tickets) touch(ctx context.Context) {
	for n := 0; interval(ctx, time.Millisecond); {
		for range 600 {
			u := t.users[n%len(t.users)]
			u.buffers.Put(u)
			n++
		}
	}
}

func (t *tickets) render() {
	for out := range t.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

func (t *tickets) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	out := make(chan line, 1)
	for i := range 4 {
		t.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
