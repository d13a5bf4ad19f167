package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

var timerWait = Scenario{
	Name:  "timer-wait",
	Title: "some orders back off for a constant 40 ms before a second attempt",
	Cause: "timer-wait", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "checkout.order",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/order"}},
	Env:       []string{twoPs},
	New:       newCheckout,
}

// checkout places orders; an order that meets a conflict is tried again.
type checkout struct{}

func newCheckout(context.Context, map[string]string) (http.Handler, error) {
	return route("/order", checkout{}.handle), nil
}

// order is the fault: the pause is far longer than a conflict lasts.
func (c checkout) order() []line {
	for rand.Float64() < 0.04 {
		time.Sleep(40 * time.Millisecond)
	}
	return lines(60)
}

func (c checkout) handle(w http.ResponseWriter, r *http.Request) {
	reply(w, c.order())
}
