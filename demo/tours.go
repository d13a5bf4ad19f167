package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var fanInStraggler = Scenario{
	Name:  "fan-in-straggler",
	Title: "each request asks eight airlines at once; each of them is slow for 1 % of the questions",
	Cause: "fan-in-straggler", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*tours).ask",
	Rate:      80,
	Endpoints: []Endpoint{{Path: "/tours"}},
	Env:       []string{twoPs},
	Peers:     airlines(0.01, 0.01),
	New:       newTours,
}

// toursAirline is the same service, and always the same airline is slow.
var toursAirline = Scenario{
	Name:  "tours-airline",
	Title: "each request asks eight airlines at once, one of which is slow for 8 % of the questions",
	Cause: "slow-dependency", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*tours).ask",
	Rate:      80,
	Endpoints: []Endpoint{{Path: "/tours"}},
	Env:       []string{twoPs},
	Peers:     airlines(0.08, 0),
	New:       newTours,
}

// partners is how many airlines there are.
const partners = 8

// airlines are the peers: the first answers for one airline, the second for all others.
func airlines(first, others float64) []Peer {
	return []Peer{
		{Name: "north", Reply: 2 * time.Millisecond, Slow: 60 * time.Millisecond, SlowShare: first},
		{Name: "south", Reply: 2 * time.Millisecond, Slow: 60 * time.Millisecond, SlowShare: others},
	}
}

// tours compares what airlines ask for a flight.
type tours struct {
	client       *http.Client
	north, south string
}

func newTours(_ context.Context, peers map[string]string) (http.Handler, error) {
	f := &tours{newClient(), peers["north"], peers["south"]}
	return route("/tours", f.handle), nil
}

// ask is where the time goes.
func (f *tours) ask(airline int) (answer []line, err error) {
	peer := f.south
	if airline == partners/2 {
		peer = f.north
	}
	resp, err := f.client.Get(peer + "/" + strconv.Itoa(airline))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

// compare is the fault: it waits for all airlines.
func (f *tours) compare() (all []line, err error) {
	var (
		mu   sync.Mutex
		wait sync.WaitGroup
	)
	for airline := range partners {
		wait.Add(1)
		go func() {
			defer wait.Done()
			ls, failed := f.ask(airline)
			mu.Lock()
			defer mu.Unlock()
			if all = append(all, ls...); failed != nil {
				err = failed
			}
		}()
	}
	wait.Wait()
	return all, err
}

func (f *tours) handle(w http.ResponseWriter, r *http.Request) {
	all, err := f.compare()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, all)
}
