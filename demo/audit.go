package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"time"
)

var backPressure = Scenario{
	Name:  "back-pressure",
	Title: "requests write to a bounded channel whose consumer falls behind",
	Cause: "back-pressure", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*audit).consume",
	Rate:      300,
	Endpoints: []Endpoint{{Path: "/orders"}},
	Env:       []string{twoPs},
	New:       newAudit,
}

// audit serves orders and records each of them on the way out.
type audit struct {
	records chan line
}

func newAudit(ctx context.Context, _ map[string]string) (http.Handler, error) {
	a := &audit{records: make(chan line, 4)}
	go a.consume(ctx)
	return route("/orders", a.handle), nil
}

// consume is the fault: a few records take it long, and four fill the channel.
func (a *audit) consume(ctx context.Context) {
	var sum [sha256.Size]byte
	for {
		select {
		case l := <-a.records:
			sum = sha256.Sum256(append(sum[:], l.SKU...))
			if rand.IntN(200) == 0 {
				time.Sleep(40 * time.Millisecond) // the archive admits so much per second
			}
		case <-ctx.Done():
			return
		}
	}
}

func (a *audit) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(60)
	a.records <- ls[0]
	reply(w, ls)
}
