package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/whylate/whylate/load"
)

const (
	// warmUp is how long a program is under load before something is done to its
	// host, or it is recorded.
	warmUp = 2 * time.Second
	// beyond is how much longer than the recording the load may have to last:
	// whylate probes before it records, and takes profiles after it.
	beyond = 30 * time.Second
)

// clients are the load on a service.
type clients struct {
	end  context.CancelFunc
	over chan struct{}
	seen load.Result // valid once over is closed, like err
	err  error
	*witness
}

// send puts a service under load until the clients are told to end.
func (s *settings) send(ctx context.Context, svc *service, t trial, seed uint64) *clients {
	ctx, end := context.WithCancel(ctx)
	c := &clients{end: end, over: make(chan struct{}), witness: newWitness()}
	go func() {
		offered := svc.load(t, seed, warmUp+measure+settle+s.duration+beyond)
		offered.Done = c.done
		c.seen, c.err = load.Run(ctx, offered)
		c.stop()
		close(c.over)
	}()
	return c
}

// load is what the clients do for that long.
func (s *service) load(t trial, seed uint64, d time.Duration) load.Config {
	return load.Config{Targets: s.targets, Rate: t.rate, Bursts: t.bursts, Seed: seed, Duration: d}
}

// warmUp returns when the service has been under load for a while.
func (c *clients) warmUp() error {
	select {
	case <-time.After(warmUp):
		return nil
	case <-c.over:
		return fmt.Errorf("the load ended: %w", c.err)
	}
}

// result ends the load and returns what the clients saw.
func (c *clients) result() (load.Result, error) {
	c.end()
	<-c.over
	switch {
	case !errors.Is(c.err, context.Canceled):
		return c.seen, fmt.Errorf("the load ended by itself: %v", c.err)
	case c.seen.Responses == 0:
		return c.seen, fmt.Errorf("the clients got no response: %v", c.seen.Errors)
	}
	return c.seen, nil
}

// leastSuccess is the part of the requests that must have a response of success.
// A program that refuses most is fast, and another case; one that is to refuse some
// may.
const leastSuccess = 0.9

// answered says why a load is worth nothing, or nil.
func answered(seen load.Result) error {
	success := 0
	statuses := map[int]int{}
	for _, e := range seen.Endpoints {
		for status, n := range e.Status {
			statuses[status] += n
			if status/100 == 2 {
				success += n
			}
		}
	}
	if float64(success) < leastSuccess*float64(seen.Offered) {
		return fmt.Errorf("%d of %d requests had a response of success: status %v, errors %v", success, seen.Offered, statuses, seen.Errors)
	}
	return nil
}
