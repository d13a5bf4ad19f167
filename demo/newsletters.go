package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"
)

var lateTimer = Scenario{
	Name:  "late-timer",
	Title: "every request takes four steps 1 ms apart, and a job computes for 40 ms on the only P now and then",
	Cause: "late-timer", Contrast: "tail", Verdicts: []string{"cause"},
	Accept:    []string{"cpu-hog"},
	Place:     symbol + "(*newsletters).rank",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/send"}},
	Env:       []string{"GOMAXPROCS=1"},
	New: func(ctx context.Context, _ map[string]string) (http.Handler, error) {
		n := &newsletters{}
		go n.keepRanked(ctx)
		return route("/send", n.send), nil
	},
}

// The look-alike: nobody computes, and some steps are meant to take longer.
var newslettersLarge = Scenario{
	Name:  "newsletters-large",
	Title: "the program of late-timer without jobs; 3 % of the requests take 20 steps more",
	Cause: "timer-wait", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*newsletters).step",
	Rate:      lateTimer.Rate,
	Endpoints: lateTimer.Endpoints,
	Env:       lateTimer.Env,
	New: func(context.Context, map[string]string) (http.Handler, error) {
		return route("/send", (&newsletters{large: 0.03}).send), nil
	},
}

var controlNewsletters = Scenario{
	Name:     "pace-ok",
	Title:    "control: the program of late-timer without jobs",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      lateTimer.Rate,
	Endpoints: lateTimer.Endpoints,
	Env:       lateTimer.Env,
	New: func(context.Context, map[string]string) (http.Handler, error) {
		return route("/send", (&newsletters{}).send), nil
	},
}

// newsletters go out in steps, and jobs rank their readers.
type newsletters struct {
	large float64 // the ratio of those with more steps
}

func (n *newsletters) keepRanked(ctx context.Context) {
	for interval(ctx, 500*time.Millisecond) {
		for range runtime.GOMAXPROCS(0) {
			go n.rank()
		}
	}
}

// rank computes without a pause: whoever has a P by then keeps it.
func (n *newsletters) rank() (sum [sha256.Size]byte) {
	for range rounds(35*time.Millisecond + rand.N(10*time.Millisecond)) {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

// step writes to some readers, at the pace that is agreed on.
func (n *newsletters) step() []line {
	time.Sleep(time.Millisecond)
	return lines(5)
}

func (n *newsletters) send(w http.ResponseWriter, r *http.Request) {
	steps := 4
	if rand.Float64() < n.large {
		steps += 20
	}
	var ls []line
	for range steps {
		ls = append(ls, n.step()...)
	}
	reply(w, ls)
}
