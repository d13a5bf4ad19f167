package demo

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"
)

var acceptQueue = Scenario{
	Name:  "accept-queue",
	Title: "who accepts connections asks a register about each, which takes 60 ms for 4 %",
	Cause: "accept-queue", Contrast: "before", Verdicts: []string{"cause"},
	Place:     symbol + "(*gates).ask",
	Rate:      100,
	Endpoints: []Endpoint{{Path: "/ticket", Once: true}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "register", Reply: 500 * time.Microsecond, Slow: 60 * time.Millisecond, SlowShare: 0.04}},
	New: func(_ context.Context, peers map[string]string) (http.Handler, error) {
		g := &gates{client: newClient(), register: peers["register"]}
		return gated{route("/ticket", g.sell), g}, nil
	},
}

// The look-alike: the same register is asked by the requests.
var gatesRequest = Scenario{
	Name:  "gates-request",
	Title: "the program of accept-queue, which asks the register in each request instead",
	Cause: "slow-dependency", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     acceptQueue.Place,
	Rate:      acceptQueue.Rate,
	Endpoints: acceptQueue.Endpoints,
	Env:       acceptQueue.Env,
	Peers:     acceptQueue.Peers,
	New: func(_ context.Context, peers map[string]string) (http.Handler, error) {
		g := &gates{client: newClient(), register: peers["register"]}
		return route("/ticket", g.check), nil
	},
}

var controlGates = Scenario{
	Name:     "connections-ok",
	Title:    "control: the program of accept-queue with a register that answers at once",
	Verdicts: []string{"healthy"}, Contrast: "tail",
	Rate:      acceptQueue.Rate,
	Endpoints: acceptQueue.Endpoints,
	Env:       acceptQueue.Env,
	Peers:     []Peer{{Name: "register", Reply: 500 * time.Microsecond}},
	New:       acceptQueue.New,
}

// gates sell tickets to visitors that a register knows.
type gates struct {
	net.Listener
	client   *http.Client
	register string
}

// gated is a handler behind a listener of its own.
type gated struct {
	http.Handler
	*gates
}

func (g gated) behind(l net.Listener) net.Listener {
	g.Listener = l
	return g.gates
}

// Accept has the register asked before the next visitor comes in.
func (g *gates) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, err := g.ask(); err != nil {
		c.Close()
	}
	return c, nil
}

// ask asks the register about a visitor.
func (g *gates) ask() (answer []line, err error) {
	resp, err := g.client.Get(g.register + "/visitor")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (g *gates) sell(w http.ResponseWriter, r *http.Request) { reply(w, lines(20)) }

func (g *gates) check(w http.ResponseWriter, r *http.Request) {
	ls, err := g.ask()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(ls, lines(20)...))
}
