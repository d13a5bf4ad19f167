package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"
)

var lockedThread = Scenario{
	Name:  "locked-thread",
	Title: "a drawing engine that lives on one thread is called for every stroke",
	Cause: "locked-thread", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*plotter).run",
	Rate:      120,
	Endpoints: []Endpoint{{Path: "/plan"}},
	Env:       []string{twoPs},
	New: func(ctx context.Context, _ map[string]string) (http.Handler, error) {
		return newPlans(ctx, 400, time.Microsecond), nil
	},
}

// plansDetailed is the same engine, which is called rarely and has much to draw.
var plansDetailed = Scenario{
	Name:  "plans-detailed",
	Title: "a drawing engine that lives on one thread draws long",
	Cause: "single-worker", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      120,
	Endpoints: []Endpoint{{Path: "/plan"}},
	Env:       []string{twoPs},
	New: func(ctx context.Context, _ map[string]string) (http.Handler, error) {
		return newPlans(ctx, 20, time.Millisecond), nil
	},
}

// plotter draws on a thread of its own, as graphics libraries want it.
type plotter struct {
	strokes chan func()
}

// run is the fault of lockedThread, together with draw: what it is handed is done at
// once, but each time another thread has to be woken for it, and one for the answer.
func (p *plotter) run(ctx context.Context) {
	runtime.LockOSThread()
	for {
		select {
		case stroke := <-p.strokes:
			stroke()
		case <-ctx.Done():
			return
		}
	}
}

// draw has a stroke drawn that takes so many rounds.
func (p *plotter) draw(rounds int) {
	drawn := make(chan struct{})
	p.strokes <- func() {
		var sum [sha256.Size]byte
		for range rounds {
			sum = sha256.Sum256(sum[:])
		}
		close(drawn)
	}
	<-drawn
}

// plans draws floor plans: most have one stroke, some have many.
type plans struct {
	plotter *plotter
	strokes int // of the large ones
	rounds  int
}

func newPlans(ctx context.Context, strokes int, each time.Duration) http.Handler {
	p := &plans{plotter: &plotter{strokes: make(chan func())}, strokes: strokes, rounds: rounds(each)}
	go p.plotter.run(ctx)
	return route("/plan", p.handle)
}

func (p *plans) handle(w http.ResponseWriter, _ *http.Request) {
	strokes := 1
	if rand.IntN(25) == 0 {
		strokes = p.strokes
	}
	for range strokes {
		p.plotter.draw(p.rounds)
	}
	reply(w, lines(strokes))
}
