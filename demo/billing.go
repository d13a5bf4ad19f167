package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

var gcPause = Scenario{
	Name:  "gc-pause",
	Title: "800,000 pools in use, which each collection empties while the world stands still",
	Cause: "gc-pause", Contrast: "tail", Verdicts: []string{"cause"},
	// Marking what the pools hold takes about as long as emptying them, on slow machines longer.
	Accept:    []string{"gc-workers"},
	Rate:      300,
	Endpoints: []Endpoint{{Path: "/bill"}},
	Env:       []string{twoPs, "GOGC=85"},
	Peers:     []Peer{{Name: "tariffs", Reply: 2 * time.Millisecond}},
	New:       newBilling,
}

// billing keeps scratch space for each of its customers.
type billing struct {
	client    *http.Client
	peer      string
	customers []customer
	visits    []int // customers, in the order in which they are visited
}

// customer has a pool of its own, which is the fault: the runtime visits every
// pool used since the last collection, and it does so in the pause.
type customer struct {
	scratch sync.Pool
	entries [4]int
	total   int
}

func newBilling(ctx context.Context, peers map[string]string) (http.Handler, error) {
	b := &billing{client: newClient(), peer: peers["tariffs"], customers: make([]customer, 800_000)}
	b.visits = rand.Perm(len(b.customers))
	go b.meterAll(ctx)
	return route("/bill", b.handle), nil
}

// meterAll goes round all customers, some at a time.
func (b *billing) meterAll(ctx context.Context) {
	for ctx.Err() == nil {
		for group := range slices.Chunk(b.visits, 800) {
			for _, i := range group {
				b.customers[i].meter()
			}
			time.Sleep(200 * time.Microsecond)
		}
	}
}

func (c *customer) meter() {
	entries, ok := c.scratch.Get().(*[4]int)
	if !ok {
		entries = &c.entries
	}
	for i := range entries {
		c.total += entries[i] + i
	}
	c.scratch.Put(entries)
}

func (b *billing) handle(w http.ResponseWriter, r *http.Request) {
	ls, err := fetch(b.client, b.peer+"/tariffs")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(ls, lines(10)...))
}
