package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"
)

var forcedGC = Scenario{
	Name:  "forced-gc",
	Title: "a job hands memory back to the system three times a second, from a large heap",
	Cause: "forced-gc", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*documents).tidy",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/document"}},
	Env:       []string{"GOMAXPROCS=1"},
	New:       newDocuments,
}

// documents holds all documents in memory, and little else happens to them.
type documents struct {
	all  []*post
	jobs chan chan line
}

func newDocuments(ctx context.Context, _ map[string]string) (http.Handler, error) {
	d := &documents{all: newPosts(2_000_000), jobs: make(chan chan line)}
	for range 4 {
		go d.render()
	}
	go d.tidyAll(ctx)
	return route("/document", d.handle), nil
}

func (d *documents) tidyAll(ctx context.Context) {
	for interval(ctx, 350*time.Millisecond) {
		d.tidy()
	}
}

// tidy is the fault: nobody needs the memory, and the collection is not due.
func (d *documents) tidy() { debug.FreeOSMemory() }

func (d *documents) render() {
	for out := range d.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

func (d *documents) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(10)
	var sum [sha256.Size]byte
	for range rounds(300 * time.Microsecond) {
		sum = sha256.Sum256(sum[:])
	}
	ls[9].Stock = int(sum[0])
	out := make(chan line, 1)
	for i := range 4 {
		d.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
