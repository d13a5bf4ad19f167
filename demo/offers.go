package demo

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync/atomic"
	"time"
)

var quotaTooLow = Scenario{
	Name:  "quota-too-low",
	Title: "ranking wants 0.7 of a CPU all the time, in a cgroup that has 0.5",
	Cause: "quota-too-low", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/offers"}},
	Env:       []string{twoPs},
	Quota:     0.5,
	Peers:     []Peer{{Name: "stock", Reply: 6 * time.Millisecond}},
	New:       newOffers,
}

// offers answers with offers whose ranks are computed all the time.
type offers struct {
	client *http.Client
	peer   string
	top    atomic.Int64
}

func newOffers(ctx context.Context, peers map[string]string) (http.Handler, error) {
	o := &offers{client: newClient(), peer: peers["stock"]}
	go o.rankAll(ctx)
	return route("/offers", o.handle), nil
}

// rankAll is the demand: a piece of work, a pause, and so on.
func (o *offers) rankAll(ctx context.Context) {
	var sum [sha256.Size]byte
	for ctx.Err() == nil {
		for range rounds(2 * time.Millisecond) {
			sum = sha256.Sum256(sum[:])
		}
		o.top.Store(int64(sum[0]))
		time.Sleep(800 * time.Microsecond)
	}
}

func (o *offers) handle(w http.ResponseWriter, r *http.Request) {
	ls, err := fetch(o.client, o.peer+"/stock")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	ls[0].Stock = int(o.top.Load())
	reply(w, ls)
}
