package demo

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

var rwmutexWriter = Scenario{
	Name:  "rwmutex-writer",
	Title: "a list is read out for 30 ms while small changes want to write it, and readers queue behind them",
	Cause: "rwmutex-writer", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*fares).publish",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/fare"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "agency", Reply: 30 * time.Millisecond}},
	New: func(ctx context.Context, peers map[string]string) (http.Handler, error) {
		f := newFares(peers["agency"])
		go f.every(ctx, 300*time.Millisecond, f.publish)
		go f.every(ctx, 8*time.Millisecond, f.change)
		return route("/fare", f.look), nil
	},
}

// The same program with another fault, and with its look-alike: one change holds
// the lock for long itself; and every request writes for a short time.
var (
	faresImport = Scenario{
		Name:  "fares-import",
		Title: "the program of rwmutex-writer computes new prices for 25 ms while it has the list for writing",
		Cause: "rwmutex-writer", Contrast: "tail", Verdicts: []string{"cause"},
		Place:     symbol + "(*fares).importAll",
		Rate:      250,
		Endpoints: []Endpoint{{Path: "/fare"}},
		Env:       []string{twoPs},
		New: func(ctx context.Context, _ map[string]string) (http.Handler, error) {
			f := newFares("")
			go f.every(ctx, 300*time.Millisecond, f.importAll)
			return route("/fare", f.look), nil
		},
	}
	faresSales = Scenario{
		Name:  "fares-sales",
		Title: "the program of rwmutex-writer writes for 0.5 ms in every request, and requests come in bursts",
		Cause: "lock-convoy", Contrast: "tail", Verdicts: []string{"cause"},
		Place:     symbol + "(*fares).sell",
		Rate:      150,
		Bursts:    Bursts{Mean: 800 * time.Millisecond, Size: 40},
		Endpoints: []Endpoint{{Path: "/fare"}},
		Env:       []string{twoPs},
		New: func(context.Context, map[string]string) (http.Handler, error) {
			f := newFares("")
			return route("/fare", f.buy), nil
		},
	}
)

// fares is a list of prices that all requests read.
type fares struct {
	client *http.Client
	agency string

	mu     sync.RWMutex
	prices map[string]int
	seal   [sha256.Size]byte // of all changes so far
}

func newFares(agency string) *fares {
	return &fares{client: newClient(), agency: agency, prices: map[string]int{}}
}

// every does something now and then.
func (f *fares) every(ctx context.Context, mean time.Duration, do func()) {
	for interval(ctx, mean) {
		do()
	}
}

// publish is the fault of rwmutex-writer: it is but a reader, but no change can be
// made meanwhile, and while one is due nobody else can read.
func (f *fares) publish() {
	f.mu.RLock()
	defer f.mu.RUnlock()
	resp, err := f.client.Get(f.agency + "/fares")
	if err == nil {
		resp.Body.Close()
	}
}

// change makes one price anew.
func (f *fares) change() {
	ls := lines(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prices[ls[0].SKU] = ls[0].Cents
}

// importAll is the fault of fares-import: nobody needs to be kept away while the
// prices are computed.
func (f *fares) importAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range rounds(25 * time.Millisecond) {
		f.seal = sha256.Sum256(f.seal[:])
		if i%1000 == 0 {
			l := newLine(i / 1000)
			f.prices[l.SKU] = l.Cents + int(f.seal[0])
		}
	}
}

// sell is the fault of fares-sales: a hold of 0.5 ms is short, but it is everybody's.
func (f *fares) sell(l *line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prices[l.SKU] = l.Cents
	for range rounds(500 * time.Microsecond) {
		f.seal = sha256.Sum256(f.seal[:])
	}
}

// price reads the list.
func (f *fares) price(l *line) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if cents, ok := f.prices[l.SKU]; ok {
		l.Cents = cents
	}
}

func (f *fares) look(w http.ResponseWriter, r *http.Request) {
	ls := lines(40)
	for i := range ls {
		f.price(&ls[i])
	}
	reply(w, ls)
}

func (f *fares) buy(w http.ResponseWriter, r *http.Request) {
	ls := lines(10)
	f.sell(&ls[0])
	f.price(&ls[0])
	reply(w, ls)
}
