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
	done chan struct{}
	seen load.Result // valid once done is closed, like err
	err  error
}

// send puts a service under load until the clients are told to end.
func (s *settings) send(ctx context.Context, svc *service, t trial, seed uint64) *clients {
	ctx, end := context.WithCancel(ctx)
	c := &clients{end: end, done: make(chan struct{})}
	go func() {
		c.seen, c.err = load.Run(ctx, svc.load(t, seed, warmUp+measure+settle+s.duration+beyond))
		close(c.done)
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
	case <-c.done:
		return fmt.Errorf("the load ended: %w", c.err)
	}
}

// result ends the load and returns what the clients saw.
func (c *clients) result() (load.Result, error) {
	c.end()
	<-c.done
	switch {
	case !errors.Is(c.err, context.Canceled):
		return c.seen, fmt.Errorf("the load ended by itself: %v", c.err)
	case c.seen.Responses == 0:
		return c.seen, fmt.Errorf("the clients got no response: %v", c.seen.Errors)
	}
	return c.seen, nil
}
