package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"
)

var forcedGC = Scenario{
	Name:  "forced-gc",
	Title: "a job collects garbage by hand after every import, over a large heap",
	Cause: "forced-gc", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*archive).importAll",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/archive"}},
	Env:       []string{"GOMAXPROCS=1"},
	New:       newArchive,
}

// archive holds every article and imports new ones now and then.
type archive struct {
	posts []*post
	jobs  chan chan line
}

func newArchive(ctx context.Context, _ map[string]string) (http.Handler, error) {
	a := &archive{posts: newPosts(1_000_000), jobs: make(chan chan line)}
	for range 4 {
		go a.render()
	}
	go a.importAll(ctx)
	return route("/archive", a.handle), nil
}

// importAll is the fault: it does not leave the collector to its own pace.
func (a *archive) importAll(ctx context.Context) {
	for interval(ctx, 400*time.Millisecond) {
		runtime.GC()
	}
}

func (a *archive) render() {
	for out := range a.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

func (a *archive) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	out := make(chan line, 1)
	for i := range 4 {
		a.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
