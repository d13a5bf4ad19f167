package demo

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync/atomic"
	"time"
)

var controlBusy = Scenario{
	Name:     "busy-ok",
	Title:    "control: one P that is busy two thirds of the time, but never for long",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/price"}},
	Env:       []string{"GOMAXPROCS=1"},
	New:       newTicker,
}

// ticker answers with prices that it averages all the time.
type ticker struct{ price atomic.Int64 }

func newTicker(ctx context.Context, _ map[string]string) (http.Handler, error) {
	t := &ticker{}
	go t.average(ctx)
	return route("/price", t.handle), nil
}

// average takes what is left of the P, in pieces after which it lets go: a P polls
// the network when it has nothing to run.
func (t *ticker) average(ctx context.Context) {
	var sum [sha256.Size]byte
	for ctx.Err() == nil {
		for range rounds(150 * time.Microsecond) {
			sum = sha256.Sum256(sum[:])
		}
		t.price.Store(int64(sum[0]))
		time.Sleep(20 * time.Microsecond)
	}
}

func (t *ticker) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	ls[0].Cents = int(t.price.Load())
	reply(w, ls)
}
