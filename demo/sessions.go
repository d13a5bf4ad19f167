package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"time"
)

var stopTheWorld = Scenario{
	Name:  "stop-the-world",
	Title: "a watchdog prints the stacks of all goroutines a few times a second",
	Cause: "stop-the-world", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*sessions).snapshot",
	Rate:      320,
	Endpoints: []Endpoint{{Path: "/session"}},
	Env:       []string{twoPs},
	Peers:     []Peer{{Name: "tokens", Reply: 6 * time.Millisecond}},
	New:       newSessions,
}

// sessions keeps one goroutine per user and watches over them.
type sessions struct {
	client *http.Client
	peer   string
	users  []chan struct{}
	last   []byte
}

func newSessions(ctx context.Context, peers map[string]string) (http.Handler, error) {
	s := &sessions{client: newClient(), peer: peers["tokens"], last: make([]byte, 64<<20)}
	for range 20_000 {
		user := make(chan struct{})
		s.users = append(s.users, user)
		go s.attend(user)
	}
	go s.watch(ctx)
	return route("/session", s.handle), nil
}

func (s *sessions) attend(user chan struct{}) { <-user }

func (s *sessions) watch(ctx context.Context) {
	for interval(ctx, 300*time.Millisecond) {
		s.snapshot()
	}
}

// snapshot is the fault: the world stands still while the stacks are printed.
func (s *sessions) snapshot() int { return runtime.Stack(s.last, true) }

func (s *sessions) verify() (answer []line, err error) {
	resp, err := s.client.Get(s.peer + "/token")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

func (s *sessions) handle(w http.ResponseWriter, r *http.Request) {
	answer, err := s.verify()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(answer, lines(40)...))
}
