package demo

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"
)

var overload = Scenario{
	Name:  "overload",
	Title: "5 ms of CPU per request, and bursts of more requests than both Ps can do",
	Cause: "overload", Contrast: "tail", Verdicts: []string{"cause"},
	// On a machine with more than two CPUs the Ps are the limit.
	Accept:    []string{"gomaxprocs-too-low"},
	Place:     symbol + "(*render).draw",
	Rate:      100,
	Bursts:    Bursts{Mean: 1200 * time.Millisecond, Size: 24},
	Endpoints: []Endpoint{{Path: "/chart"}},
	Env:       []string{twoPs},
	New:       newRender,
}

var gomaxprocsTooLow = Scenario{
	Name:  "gomaxprocs-too-low",
	Title: "the same service on one P, while the machine has idle CPUs",
	Cause: "gomaxprocs-too-low", Contrast: "tail", Verdicts: []string{"cause"},
	// On a busy machine no CPU is idle, and the load is simply too much.
	Accept:    []string{"overload"},
	Rate:      80,
	Bursts:    Bursts{Mean: time.Second, Size: 12},
	Endpoints: []Endpoint{{Path: "/chart"}},
	Env:       []string{"GOMAXPROCS=1"},
	New:       newRender,
}

// render draws charts, each at the same cost.
type render struct{}

func newRender(context.Context, map[string]string) (http.Handler, error) {
	return route("/chart", (&render{}).handle), nil
}

func (c *render) draw() (sum [sha256.Size]byte) {
	for range rounds(5 * time.Millisecond) {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

func (c *render) handle(w http.ResponseWriter, r *http.Request) {
	sum := c.draw()
	ls := lines(10)
	ls[0].Stock = int(sum[0])
	reply(w, ls)
}
