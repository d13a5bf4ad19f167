package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

var tcpLoss = Scenario{
	Name:  "tcp-loss",
	Title: "2 % of the segments on the way to the service it calls are lost",
	Cause: "tcp-loss", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*tariffs).ask",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/tariff"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "customs", Reply: 2 * time.Millisecond, Lost: 0.02}},
	New:       newTariffs,
}

// tariffsPatient is the same service, whose peer takes as long as TCP waits before
// it sends again.
var tariffsPatient = Scenario{
	Name:  "tariffs-patient",
	Title: "the service it calls takes 200 ms for 2 % of the calls, and nothing is lost",
	Cause: "slow-dependency", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     tcpLoss.Place,
	Rate:      tcpLoss.Rate,
	Endpoints: tcpLoss.Endpoints,
	Env:       tcpLoss.Env,
	Peers:     []Peer{{Name: "customs", Reply: 2 * time.Millisecond, Slow: 202 * time.Millisecond, SlowShare: 0.02}},
	New:       newTariffs,
}

// tariffsAnew is the same service without connections that are kept: what is lost
// may open one.
var tariffsAnew = Scenario{
	Name:  "tariffs-anew",
	Title: "2 % of the segments that open a connection for each call are lost",
	Cause: "tcp-loss", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      150,
	Endpoints: tcpLoss.Endpoints,
	Env:       tcpLoss.Env,
	Peers:     []Peer{{Name: "customs", Reply: 2 * time.Millisecond, LostFirst: 0.02}},
	New: func(ctx context.Context, peers map[string]string) (http.Handler, error) {
		t := &tariffs{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, peers["customs"]}
		return route("/tariff", t.handle), nil
	},
}

// tariffs asks the customs for the tariff of each parcel.
type tariffs struct {
	client  *http.Client
	customs string
}

func newTariffs(_ context.Context, peers map[string]string) (http.Handler, error) {
	t := &tariffs{newClient(), peers["customs"]}
	return route("/tariff", t.handle), nil
}

// ask is where it waits.
func (t *tariffs) ask() (answer []line, err error) {
	resp, err := t.client.Get(t.customs + "/tariff")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (t *tariffs) handle(w http.ResponseWriter, r *http.Request) {
	answer, err := t.ask()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(answer, lines(20)...))
}
