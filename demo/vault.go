package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

var syscallHandoff = Scenario{
	Name:  "syscall-handoff",
	Title: "many short blocking calls to a signing device, after each of which a batch of requests queues for a P",
	Cause: "syscall-handoff", Contrast: "tail", Verdicts: []string{"cause"},
	Place:     symbol + "(*vault).sign",
	Rate:      40,
	Bursts:    Bursts{Mean: 400 * time.Millisecond, Size: 16},
	Endpoints: []Endpoint{{Path: "/sign"}},
	Env:       []string{twoPs},
	New:       newVault,
}

// vault signs with a device behind a driver whose calls block the thread.
type vault struct{}

func newVault(context.Context, map[string]string) (http.Handler, error) {
	v := &vault{}
	if err := v.sign(0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPossible, err)
	}
	return route("/sign", v.handle), nil
}

func (v *vault) handle(w http.ResponseWriter, r *http.Request) {
	if err := v.sign(12); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, lines(20))
}
