package demo

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

var lockConvoy = Scenario{
	Name:  "lock-convoy",
	Title: "every request computes 0.5 ms under one mutex, and requests come in bursts",
	Cause: "lock-convoy", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*inventory).reserve",
	Rate:      150,
	Bursts:    Bursts{Mean: 800 * time.Millisecond, Size: 40},
	Endpoints: []Endpoint{{Path: "/reserve"}},
	Env:       []string{twoPs},
	New:       newInventory,
}

// inventory reserves articles; one mutex guards all of the stock.
type inventory struct {
	mu    sync.Mutex
	stock map[string]int
	seal  [sha256.Size]byte // of all reservations so far
}

func newInventory(context.Context, map[string]string) (http.Handler, error) {
	v := &inventory{stock: map[string]int{}}
	return route("/reserve", v.handle), nil
}

// reserve is the fault: a hold of 0.5 ms is short, but it is everybody's.
func (v *inventory) reserve(l *line) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stock[l.SKU]++
	l.Stock = v.stock[l.SKU]
	for range rounds(500 * time.Microsecond) {
		v.seal = sha256.Sum256(v.seal[:])
	}
}

func (v *inventory) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(10)
	v.reserve(&ls[0])
	reply(w, ls)
}
