package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

var goroutineFlood = Scenario{
	Name:  "goroutine-flood",
	Title: "3,000 goroutines wake together and work 20 µs each",
	Cause: "goroutine-flood", Contrast: "tail", Verdicts: []string{"cause"},
	Accept:    []string{"netpoll-starvation"},
	Place:     symbol + "(*presence).follow",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/presence"}},
	Env:       []string{twoPs},
	New:       newPresence,
}

// presence keeps a goroutine for every room, all on one heartbeat.
type presence struct {
	mu   sync.Mutex
	beat chan struct{} // closed at the next heartbeat
	jobs chan chan line
}

func newPresence(ctx context.Context, _ map[string]string) (http.Handler, error) {
	p := &presence{beat: make(chan struct{}), jobs: make(chan chan line)}
	for range 3_000 {
		go p.follow()
	}
	for range 4 {
		go p.render()
	}
	go p.pulse(ctx)
	return route("/presence", p.handle), nil
}

func (p *presence) pulse(ctx context.Context) {
	for interval(ctx, 400*time.Millisecond) {
		p.mu.Lock()
		close(p.beat)
		p.beat = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *presence) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beat
}

// follow is the fault: all rooms wait for the same beat.
func (p *presence) follow() {
	var sum [sha256.Size]byte
	for {
		<-p.next()
		for range rounds(20 * time.Microsecond) {
			sum = sha256.Sum256(sum[:])
		}
	}
}

func (p *presence) render() {
	for out := range p.jobs {
		out <- newLine(rand.IntN(1000))
	}
}

func (p *presence) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(30)
	out := make(chan line, 1)
	for i := range 4 {
		p.jobs <- out
		ls[i] = <-out
	}
	reply(w, ls)
}
