package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"time"
)

var singleWorker = Scenario{
	Name:  "single-worker",
	Title: "one goroutine posts all entries and sometimes pauses to settle",
	Cause: "single-worker", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*ledger).settle",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/post"}},
	Env:       []string{twoPs},
	New:       newLedger,
}

// ledger gives every entry a number and a digest that continues the previous
// one, so a single goroutine posts them all.
type ledger struct{ entries chan entry }

type entry struct {
	sku    string
	posted chan int
}

func newLedger(ctx context.Context, _ map[string]string) (http.Handler, error) {
	l := &ledger{entries: make(chan entry)}
	go l.post(ctx)
	return route("/post", l.handle), nil
}

func (l *ledger) post(ctx context.Context) {
	var sum [sha256.Size]byte
	for n := 0; ; n++ {
		select {
		case e := <-l.entries:
			for range rounds(20 * time.Microsecond) {
				sum = sha256.Sum256(append(sum[:], e.sku...))
			}
			if rand.IntN(70) == 0 {
				l.settle()
			}
			e.posted <- n
		case <-ctx.Done():
			return
		}
	}
}

// settle is the fault: it gives slower replicas time to follow, and all entries
// wait meanwhile.
func (l *ledger) settle() { time.Sleep(20 * time.Millisecond) }

func (l *ledger) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(60)
	e := entry{sku: ls[0].SKU, posted: make(chan int, 1)}
	l.entries <- e
	ls[0].Stock = <-e.posted
	reply(w, ls)
}
