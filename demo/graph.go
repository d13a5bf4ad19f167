package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"time"
)

var gcWorkers = Scenario{
	Name:  "gc-workers",
	Title: "background allocation over a large heap keeps the collector on the Ps",
	Cause: "gc-workers", Contrast: "tail", Accept: []string{"gc-assist"}, Verdicts: []string{"cause"},
	Rate:      300,
	Endpoints: []Endpoint{{Path: "/friends"}},
	Env:       []string{"GOMAXPROCS=1", "GOGC=26"},
	New:       newGraph,
}

// graph holds a large social graph and imports changes to it all the time.
type graph struct {
	people []*post
	recent [][]byte
	jobs   chan chan line
}

func newGraph(ctx context.Context, _ map[string]string) (http.Handler, error) {
	g := &graph{people: newPosts(3_000_000), recent: make([][]byte, 64), jobs: make(chan chan line)}
	for range 4 {
		go g.render()
	}
	go g.importAll(ctx)
	return route("/friends", g.handle), nil
}

// importAll is what drives the collector.
func (g *graph) importAll(ctx context.Context) {
	for n := 0; interval(ctx, time.Millisecond); n++ {
		g.recent[n%len(g.recent)] = make([]byte, 64<<10)
	}
}

func (g *graph) render() {
	for out := range g.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

func (g *graph) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(10)
	var sum [sha256.Size]byte
	for range rounds(500 * time.Microsecond) {
		sum = sha256.Sum256(sum[:])
	}
	ls[9].Stock = int(sum[0])
	out := make(chan line, 1)
	for i := range 4 {
		g.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
