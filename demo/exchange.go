package demo

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"
)

var dialPerRequest = Scenario{
	Name:  "dial-per-request",
	Title: "keep-alives are off, and the peer takes 15 ms to greet a new connection",
	Cause: "dial-per-request", Contrast: "level", Verdicts: []string{"cause", "inconclusive"},
	Place:     symbol + "(*exchange).rates",
	Rate:      150,
	Endpoints: []Endpoint{{Path: "/rates"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "bank", Handshake: 15 * time.Millisecond}},
	New:       newExchange,
}

// exchange asks a bank for its rates.
type exchange struct {
	client *http.Client
	peer   string
}

// newExchange holds the fault: each call gets a connection of its own.
func newExchange(_ context.Context, peers map[string]string) (http.Handler, error) {
	x := &exchange{peer: peers["bank"], client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the bank is a process of ours
	}}}
	return route("/rates", x.handle), nil
}

func (x *exchange) rates() ([]line, error) { return fetch(x.client, x.peer+"/rates") }

func (x *exchange) handle(w http.ResponseWriter, r *http.Request) {
	ls, err := x.rates()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(ls, lines(20)...))
}
