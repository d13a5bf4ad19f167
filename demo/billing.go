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
	Title: "800,000 pools in use, which each collection empties while the world stands still",
	Cause: "gc-pause", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      300,
	Endpoints: []Endpoint{{Path: "/bill"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "tariffs", Reply: 2 * time.Millisecond}},
	New:       newBilling,
}

// billing keeps scratch space for each of its customers.
type billing struct {
	client    *http.Client
	peer      string
	customers []*customer
}

// customer has a pool of its own, which is the fault: the runtime visits every
// pool used since the last collection, and it does so in the pause.
type customer struct {
	scratch sync.Pool
	total   [8]int
}

func newBilling(ctx context.Context, peers map[string]string) (http.Handler, error) {
	b := &billing{client: newClient(), peer: peers["tariffs"], customers: make([]*customer, 800_000)}
	for i := range b.customers {
		b.customers[i] = &customer{}
	}
	// Customers are not visited in the order in which they signed up.
	rand.Shuffle(len(b.customers), func(i, j int) {
		b.customers[i], b.customers[j] = b.customers[j], b.customers[i]
	})
	go b.meterAll(ctx)
	return route("/bill", b.handle), nil
}

// meterAll goes round all customers, some at a time.
func (b *billing) meterAll(ctx context.Context) {
	const group = 800
	for ctx.Err() == nil {
		for i := 0; i < len(b.customers); i += group {
			for _, c := range b.customers[i : i+group] {
				c.meter()
			}
			time.Sleep(200 * time.Microsecond)
		}
	}
}

func (c *customer) meter() {
	entries, ok := c.scratch.Get().(*[8]int)
	if !ok {
		entries = new([8]int)
	}
	for i := range entries {
		c.total[i] += entries[i] + i
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
