package demo

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

var coldStart = Scenario{
	Name:  "cold-start",
	Title: "the first request for each shop loads its settings and compiles its theme",
	Cause: "cold-start", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*shop).open",
	Rate:      250,
	Endpoints: []Endpoint{{Path: "/shop"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "settings", Reply: 20 * time.Millisecond}},
	New:       newShops,
}

// shops answers for many shops; a new one appears with every thirtieth request.
type shops struct {
	client *http.Client
	peer   string

	mu       sync.Mutex
	requests int
	known    map[int]*shop
}

// shop is made ready when it is needed first.
type shop struct {
	once     sync.Once
	settings []line
	theme    [sha256.Size]byte
}

func newShops(_ context.Context, peers map[string]string) (http.Handler, error) {
	s := &shops{client: newClient(), peer: peers["settings"], known: map[int]*shop{}}
	return route("/shop", s.handle), nil
}

// visited is the shop of the next request: one of those known, or a new one.
func (s *shops) visited() *shop {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := rand.IntN(s.requests/30 + 1)
	if s.requests%30 == 0 {
		id = s.requests / 30
	}
	s.requests++
	if s.known[id] == nil {
		s.known[id] = &shop{}
	}
	return s.known[id]
}

// open is the fault, although it happens once to each shop: somebody waits for it.
func (p *shop) open(c *http.Client, peer string) {
	p.settings, _ = fetch(c, peer+"/settings") // a shop without settings has the usual ones
	for range rounds(10 * time.Millisecond) {
		p.theme = sha256.Sum256(p.theme[:])
	}
}

func (s *shops) handle(w http.ResponseWriter, r *http.Request) {
	p := s.visited()
	p.once.Do(func() { p.open(s.client, s.peer) })
	ls := append(lines(20), p.settings...)
	ls[0].Stock = int(p.theme[0])
	reply(w, ls)
}
