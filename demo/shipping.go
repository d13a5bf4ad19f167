package demo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"
)

var netpollStarvation = Scenario{
	Name:  "netpoll-starvation",
	Title: "a fast peer looks slow, because nobody reads its reply for 20 ms",
	Cause: "netpoll-starvation", Contrast: "tail", Verdicts: []string{"cause"},
	Accept:    []string{"cpu-hog"},
	Place:     symbol + "(*shipping).plan",
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/shipping"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "carrier"}},
	New:       newShipping,
}

// shipping asks a fast carrier, and plans its tours now and then.
type shipping struct {
	client *http.Client
	peer   string
}

func newShipping(ctx context.Context, peers map[string]string) (http.Handler, error) {
	s := &shipping{client: newClient(), peer: peers["carrier"]}
	go s.update(ctx)
	return route("/shipping", s.handle), nil
}

func (s *shipping) update(ctx context.Context) {
	for interval(ctx, 350*time.Millisecond) {
		for range 2 {
			go s.plan()
		}
	}
}

// plan is the fault. It yields, and so looks polite, but with one plan on each P
// there is always something to run, and a P polls the network only when there is
// not: the reply waits for sysmon, which polls every 10 ms.
func (s *shipping) plan() (sum [sha256.Size]byte) {
	for range 60 + rand.N(20) {
		for range rounds(500 * time.Microsecond) {
			sum = sha256.Sum256(sum[:])
		}
		runtime.Gosched()
	}
	return sum
}

func (s *shipping) options() (answer []line, err error) {
	resp, err := s.client.Get(s.peer + "/options")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (s *shipping) handle(w http.ResponseWriter, r *http.Request) {
	ls := lines(20)
	for range 3 {
		answer, err := s.options()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		ls = append(ls, answer...)
	}
	reply(w, ls)
}
