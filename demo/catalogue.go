package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

var lockHeldAcrossWait = Scenario{
	Name:  "lock-held-across-wait",
	Title: "a cache holds its mutex while it asks a slow supplier for new prices",
	Cause: "lock-held-across-wait", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*catalogue).refresh",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/prices"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "supplier", Reply: 25 * time.Millisecond}},
	New:       newCatalogue,
}

// catalogue answers with prices that it fetches from a supplier now and then.
type catalogue struct {
	client   *http.Client
	supplier string

	mu     sync.Mutex
	prices map[string]int
}

func newCatalogue(ctx context.Context, peers map[string]string) (http.Handler, error) {
	c := &catalogue{client: newClient(), supplier: peers["supplier"], prices: map[string]int{}}
	go c.keepFresh(ctx)
	return route("/prices", c.list), nil
}

func (c *catalogue) keepFresh(ctx context.Context) {
	for interval(ctx, 280*time.Millisecond) {
		c.refresh()
	}
}

// refresh is the fault: nothing of the request to the supplier needs the mutex.
func (c *catalogue) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp, err := c.client.Get(c.supplier + "/prices")
	if err != nil {
		return
	}
	defer resp.Body.Close()
	var fresh []line
	if json.NewDecoder(resp.Body).Decode(&fresh) != nil {
		return
	}
	for _, l := range fresh {
		c.prices[l.SKU] = l.Cents
	}
}

func (c *catalogue) list(w http.ResponseWriter, r *http.Request) {
	ls := lines(60)
	c.mu.Lock()
	for i := range ls {
		if cents, ok := c.prices[ls[i].SKU]; ok {
			ls[i].Cents = cents
		}
	}
	c.mu.Unlock()
	reply(w, ls)
}
