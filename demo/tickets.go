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
	Title: "a million sync.Pools, one for each user, all of which every cycle empties while the world is stopped",
	Cause: "gc-pause", Contrast: "tail", Verdicts: []string{"cause", "inconclusive"},
	Accept:    []string{"gc-workers"}, // where CPUs are scarce, marking takes longer than the stop
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/ticket"}},
	Env:       []string{twoPs},
	New:       newTickets,
}

// tickets keeps buffers for every user.
type tickets struct{ users []*user }

type user struct{ buffers sync.Pool }

func newTickets(ctx context.Context, _ map[string]string) (http.Handler, error) {
	t := &tickets{}
	for range 1_000_000 {
		t.users = append(t.users, &user{})
	}
	rand.Shuffle(len(t.users), func(i, j int) { t.users[i], t.users[j] = t.users[j], t.users[i] })
	go t.touch(ctx)
	return route("/ticket", t.handle), nil
}

// touch lets all users be active within a second or so.
func (t *tickets) touch(ctx context.Context) {
	for n := 0; interval(ctx, time.Millisecond); {
		for range 2000 {
			u := t.users[n%len(t.users)]
			u.buffers.Put(u)
			n++
		}
	}
}

func (t *tickets) handle(w http.ResponseWriter, r *http.Request) { reply(w, lines(20)) }
