package demo

import (
	"context"
	"math/rand/v2"
	"net/http"
)

var runtimeLock = Scenario{
	Name:  "runtime-lock",
	Title: "3 % of the requests count 400,000 ballots, two of them at a time, and both look at one bell for every ballot",
	// Two threads must run at a time: on two CPUs some of that time others have one.
	Cause: "runtime-lock", Contrast: "tail", Verdicts: []string{"cause", "inconclusive"},
	Place:     symbol + "(*ballots).count",
	Rate:      100,
	Endpoints: []Endpoint{{Path: "/result"}},
	Env:       []string{twoPs},
	New: func(context.Context, map[string]string) (http.Handler, error) {
		b := &ballots{bell: make(chan struct{}), every: 1}
		return route("/result", b.handle), nil
	},
}

// The same program in which nobody shares anything.
var ballotsApart = Scenario{
	Name:  "ballots-apart",
	Title: "the program of runtime-lock, in which each who counts has a bell of his own",
	Cause: "expensive-request", Contrast: "tail", Verdicts: []string{"cause", "inconclusive"},
	Place:     symbol + "(*ballots).count",
	Rate:      100,
	Endpoints: []Endpoint{{Path: "/result"}},
	Env:       []string{twoPs},
	New: func(context.Context, map[string]string) (http.Handler, error) {
		return route("/result", (&ballots{every: 1}).handle), nil
	},
}

// The same program without the fault.
var ballotsStacks = Scenario{
	Name:     "ballots-stacks",
	Title:    "the program of runtime-lock looks at the bell once for a stack of 1,000 ballots",
	Contrast: "tail", Verdicts: []string{"healthy"},
	Rate:      100,
	Endpoints: []Endpoint{{Path: "/result"}},
	Env:       []string{twoPs},
	New: func(context.Context, map[string]string) (http.Handler, error) {
		b := &ballots{bell: make(chan struct{}), every: 1000}
		return route("/result", b.handle), nil
	},
}

// ballots are counted until the bell rings.
type ballots struct {
	bell  chan struct{} // for all who count; nil if each has one of his own
	every int           // after how many ballots to look at it
}

// count is the fault of runtime-lock.
func (b *ballots) count(n int) (votes [4]int) {
	bell, slots := b.bell, make(chan int, 1)
	if bell == nil {
		bell = make(chan struct{})
	}
	for i := range n {
		votes[i%len(votes)]++
		if i%b.every != 0 {
			continue
		}
		select {
		case <-bell:
			return votes
		case slots <- i:
		}
		select {
		case <-bell:
			return votes
		case <-slots:
		}
	}
	return votes
}

func (b *ballots) handle(w http.ResponseWriter, r *http.Request) {
	n := 100
	if rand.Float64() < 0.03 {
		n = 200_000
	}
	var other [4]int
	done := make(chan struct{})
	go func() {
		defer close(done)
		other = b.count(n)
	}()
	votes := b.count(n)
	<-done
	ls := lines(len(votes))
	for i := range ls {
		ls[i].Stock = votes[i] + other[i]
	}
	reply(w, ls)
}
