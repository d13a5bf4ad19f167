package demo

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// As it happens inside a request: one in fifty does the slow part itself, while it holds what
// all others want. Its endpoint is only seen when it is late.
var lockInPassing = Scenario{
	Name:  "lock-in-passing",
	Title: "one order in fifty fetches new prices itself, under the mutex that every request takes",
	Cause: "lock-held-across-wait", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*menus).order",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/menu", Weight: 2}, {Path: "/order"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "prices", Reply: 40 * time.Millisecond}},
	New:       newMenus,
}

// menus knows what a dish costs.
type menus struct {
	client *http.Client
	peer   string

	mu     sync.Mutex
	orders int
	prices []line
}

func newMenus(_ context.Context, peers map[string]string) (http.Handler, error) {
	m := &menus{client: newClient(), peer: peers["prices"]}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /menu", m.show)
	mux.HandleFunc("GET /order", m.order)
	return mux, m.fetch()
}

func (m *menus) show(w http.ResponseWriter, r *http.Request) {
	ls := lines(5)
	m.mu.Lock()
	for i := range min(len(ls), len(m.prices)) {
		ls[i].Cents = m.prices[i].Cents
	}
	m.mu.Unlock()
	reply(w, ls)
}

// order is the fault: the prices could be fetched before the mutex is taken.
func (m *menus) order(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.orders++
	var err error
	if m.orders%50 == 0 {
		err = m.fetch()
	}
	m.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, lines(2))
}

// fetch asks for the prices.
func (m *menus) fetch() error {
	prices, err := fetch(m.client, m.peer+"/prices")
	m.prices = prices
	return err
}
