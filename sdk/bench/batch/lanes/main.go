// Command lanes tells how long callbacks wait before they are run, by lane and in a plain channel, while bursts of
// callbacks of the lowest priority come:
//
//	go run ./batch/lanes
//
// Each callback works for 20 µs, one worker runs them. Every 10 ms come 256 of Low and 32 of Medium at once, which is
// 60 % of the worker's time, and every millisecond one of High.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/whylate/whylate/sdk/batch/lane"
)

const (
	work   = 20 * time.Microsecond
	burst  = 10 * time.Millisecond
	low    = 256
	medium = 32
)

var order = []lane.Priority{lane.High, lane.Medium, lane.Low}

func main() {
	length := flag.Duration("for", 3*time.Second, "how long each way is measured")
	flag.Parse()
	if *length <= 0 || *length > time.Minute {
		fmt.Fprintln(os.Stderr, "lanes: -for has to be above 0 and at most a minute")
		os.Exit(2)
	}
	fmt.Println("| | High p50 / p99 / max | Medium | Low |\n|---|---|---|---|")
	tell("a channel, first come first served", plain(*length))
	tell("**whylate lane**", lanes(*length))
}

// waits are how long callbacks of each priority waited.
type waits [3][]time.Duration

func lanes(length time.Duration) (w waits) {
	l, err := lane.Start(lane.Options{})
	if err != nil {
		panic(err)
	}
	load(length, func(p lane.Priority, fn func()) {
		if err := l.Post(p, fn); err != nil {
			panic(err)
		}
	}, &w)
	l.Stop()
	return w
}

func plain(length time.Duration) (w waits) {
	c := make(chan func(), 1024)
	var worker sync.WaitGroup
	worker.Add(1)
	go func() {
		defer worker.Done()
		for fn := range c {
			fn()
		}
	}()
	load(length, func(_ lane.Priority, fn func()) { c <- fn }, &w)
	close(c)
	worker.Wait()
	return w
}

// load posts callbacks; they are run by one goroutine, which alone writes w.
func load(length time.Duration, post func(lane.Priority, func()), w *waits) {
	one := func(p lane.Priority) {
		posted := time.Now()
		post(p, func() {
			start := time.Now()
			w[p] = append(w[p], start.Sub(posted))
			for time.Since(start) < work {
			}
		})
	}
	start := time.Now()
	nextBurst := start
	for tick := start; tick.Sub(start) < length; tick = tick.Add(time.Millisecond) {
		time.Sleep(time.Until(tick))
		if !tick.Before(nextBurst) {
			nextBurst = nextBurst.Add(burst)
			for i := 0; i < low; i++ {
				one(lane.Low)
			}
			for i := 0; i < medium; i++ {
				one(lane.Medium)
			}
		}
		one(lane.High)
	}
}

func tell(name string, w waits) {
	fmt.Printf("| %s |", name)
	for _, p := range order {
		all := w[p]
		slices.Sort(all)
		at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Microsecond) }
		fmt.Printf(" %v / %v / %v |", at(0.5), at(0.99), at(1))
	}
	fmt.Println()
}
