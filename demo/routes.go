package demo

import (
	"context"
	"crypto/sha256"
	"net/http"
	"runtime"
	"sync"
	"time"
)

var gomaxprocsOverQuota = Scenario{
	Name:  "gomaxprocs-over-quota",
	Title: "eight Ps in a cgroup with one CPU: a parallel job uses it up in bursts",
	Cause: "gomaxprocs-over-quota", Contrast: "tail", Verdicts: []string{"cause"},
	Rate:      200,
	Endpoints: []Endpoint{{Path: "/route"}},
	Env:       []string{"GOMAXPROCS=8"},
	Quota:     1,
	Peers:     []Peer{{Name: "traffic", Reply: 6 * time.Millisecond}},
	New:       newRoutes,
}

// The same program, and its look-alikes: two Ps fit, but the quota is below what
// it wants; and no quota at all, but neighbours.
var (
	routesQuota = Scenario{
		Name:  "routes-quota",
		Title: "the program of gomaxprocs-over-quota on two Ps, in a cgroup with less than it wants",
		Cause: "quota-too-low", Contrast: "tail", Verdicts: []string{"cause"},
		Rate:      100,
		Endpoints: []Endpoint{{Path: "/route"}},
		Env:       []string{twoPs},
		Quota:     0.1,
		Peers:     []Peer{{Name: "traffic", Reply: 6 * time.Millisecond}},
		New:       newRoutes,
	}
	routesCrowd = Scenario{
		Name:  "routes-crowd",
		Title: "the program of gomaxprocs-over-quota on two Ps without a quota, beside neighbours",
		Cause: "host-contention", Contrast: "tail", Verdicts: []string{"cause"},
		Rate:       200,
		Endpoints:  []Endpoint{{Path: "/route"}},
		Env:        []string{twoPs},
		Neighbours: Neighbours{Busy: 60 * time.Millisecond, Every: 600 * time.Millisecond},
		Peers:      []Peer{{Name: "traffic", Reply: 6 * time.Millisecond, Remote: true}},
		New:        newRoutes,
	}
)

// routes answers from a map that is planned anew now and then.
type routes struct {
	client *http.Client
	peer   string
}

func newRoutes(ctx context.Context, peers map[string]string) (http.Handler, error) {
	v := &routes{client: newClient(), peer: peers["traffic"]}
	go v.planAll(ctx)
	return route("/route", v.handle), nil
}

// planAll plans on as many goroutines as there are Ps, as parallel libraries do.
func (v *routes) planAll(ctx context.Context) {
	for interval(ctx, 900*time.Millisecond) {
		var wg sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			wg.Go(func() { v.plan() })
		}
		wg.Wait()
	}
}

// plan costs each goroutine the same, however many there are: each builds an
// index of its own.
func (v *routes) plan() (sum [sha256.Size]byte) {
	for range rounds(22 * time.Millisecond) {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

func (v *routes) handle(w http.ResponseWriter, r *http.Request) {
	ls, err := fetch(v.client, v.peer+"/traffic")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	reply(w, append(ls, lines(20)...))
}
