package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

var memoryLimitThrash = Scenario{
	Name:  "memory-limit-thrash",
	Title: "what the service holds fills its memory limit for half of every second",
	Cause: "memory-limit-thrash", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      100,
	Endpoints: []Endpoint{{Path: "/offer"}},
	Env:       []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=100MiB"},
	New:       newOffers,
}

// offers holds what is for sale, and twice a second a second edition beside it.
type offers struct {
	posts  []*post
	recent [][]byte
	jobs   chan chan line
}

func newOffers(ctx context.Context, _ map[string]string) (http.Handler, error) {
	o := &offers{posts: newPosts(200_000), recent: make([][]byte, 64), jobs: make(chan chan line)}
	for range 4 {
		go o.render()
	}
	go o.edit(ctx)
	go o.importAll(ctx)
	return route("/offer", o.handle), nil
}

// edit is what fills the memory.
func (o *offers) edit(ctx context.Context) {
	for interval(ctx, 700*time.Millisecond) {
		edition := make([][]byte, 75)
		for i := range edition {
			edition[i] = make([]byte, 1<<20)
		}
		interval(ctx, 250*time.Millisecond)
		clear(edition)
	}
}

func (o *offers) importAll(ctx context.Context) {
	for n := 0; interval(ctx, time.Millisecond); n++ {
		o.recent[n%len(o.recent)] = make([]byte, 64<<10)
	}
}

func (o *offers) render() {
	for out := range o.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

func (o *offers) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(10)
	out := make(chan line, 1)
	for i := range 4 {
		o.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
