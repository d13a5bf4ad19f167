package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// probeTimeout bounds the connection that is tried to each address before
	// the run: three times the first SYN retransmission.
	probeTimeout = 3 * time.Second
	// downAfter refusals without any response between them end a run: one may
	// be a full accept queue, this many are a process that is gone.
	downAfter = 50
)

// Run offers the load and returns when every request is over; no goroutine and
// no connection outlives it. It fails with ErrConfig or ErrTargetDown before
// anything is sent, with ErrTargetDown as soon as a target stops accepting
// connections, and with the context's error when that is done first. In the
// last two cases the Result holds what was measured until then.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Result{}, err
	}
	eps, err := cfg.endpoints()
	if err != nil {
		return Result{}, err
	}
	if err := probe(ctx, eps); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{
		cfg: cfg, eps: eps, cancel: cancel, pool: newPool(), start: time.Now(),
		slots:  make(chan struct{}, cfg.MaxOutstanding),
		perEP:  make([]tally, len(eps)),
		errors: map[string]int{},
	}
	r.dispatch(ctx, newSchedule(cfg, eps))
	return r.result(), context.Cause(ctx)
}

// probe opens and closes one connection to each address.
func probe(ctx context.Context, eps []endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	done := map[string]bool{}
	for _, ep := range eps {
		if done[ep.address] {
			continue
		}
		done[ep.address] = true
		c, err := new(net.Dialer).DialContext(ctx, "tcp", ep.address)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrTargetDown, ep.name, err)
		}
		c.Close()
	}
	return nil
}

type run struct {
	cfg    Config
	eps    []endpoint
	cancel context.CancelCauseFunc
	pool   *pool
	start  time.Time
	slots  chan struct{} // one token per outstanding request
	wg     sync.WaitGroup

	mu       sync.Mutex
	offered  int
	dialled  int
	refusals int // since the last response
	perEP    []tally
	lags     []int64
	errors   map[string]int
}

type tally struct {
	latencies []int64
	status    map[int]int
	errors    map[string]int
}

// dispatch sends every arrival at its time and waits until all are over, at
// most Drain beyond the end of the run.
func (r *run) dispatch(ctx context.Context, s *schedule) {
	ctx, stop := context.WithDeadline(ctx, r.start.Add(r.cfg.Duration+r.cfg.Drain))
	defer stop()
	// Closing the connections is what ends reads that are in progress.
	release := context.AfterFunc(ctx, r.pool.close)
	defer func() {
		if release() {
			r.pool.close()
		}
	}()
	defer r.wg.Wait()
	var wake sleeper
	defer wake.stop()
	for a, ok := s.next(); ok; a, ok = s.next() {
		intended := r.start.Add(a.at)
		if !wake.until(ctx, intended) {
			r.skip(ctx, a, s)
			return
		}
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			r.skip(ctx, a, s)
			return
		}
		r.wg.Go(func() {
			r.send(ctx, intended, a.endpoint)
			<-r.slots
		})
	}
}

// skip accounts for arrivals that were due but could not be sent. Those that
// were not due yet when the run was cancelled were never offered.
func (r *run) skip(ctx context.Context, a arrival, s *schedule) {
	now := time.Now()
	for ok := true; ok; a, ok = s.next() {
		intended := r.start.Add(a.at)
		if intended.After(now) {
			return
		}
		r.record(outcome{endpoint: a.endpoint, intended: intended, err: Unsent, latency: now.Sub(intended)})
	}
}

type outcome struct {
	endpoint int
	intended time.Time
	latency  time.Duration
	lag      time.Duration
	sent     bool
	status   int
	err      string // a kind, empty for a response
	dialled  int
}

func (r *run) send(ctx context.Context, intended time.Time, i int) {
	ep := &r.eps[i]
	o := outcome{endpoint: i, intended: intended}
	fresh := false
	for {
		deadline := time.Now().Add(r.cfg.Timeout)
		c, err := r.connect(ctx, ep, deadline, fresh, &o)
		if err != nil {
			o.err = r.kind(ctx, err)
			break
		}
		if !o.sent {
			o.sent, o.lag = true, time.Since(intended)
		}
		status, keep, started, err := c.exchange(ep, deadline)
		if keep {
			r.pool.put(ep, c)
		} else {
			r.pool.drop(c)
		}
		if err == nil {
			o.status = status
			break
		}
		// The server may close an idle connection at the moment we use it.
		// That says nothing about its latency, so such a request is repeated,
		// once, on a new connection.
		if c.used && !started && ctx.Err() == nil && !isTimeout(err) {
			fresh = true
			continue
		}
		o.err = r.kind(ctx, err)
		break
	}
	o.latency = time.Since(intended)
	r.record(o)
}

func (r *run) connect(ctx context.Context, ep *endpoint, deadline time.Time, fresh bool, o *outcome) (*conn, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := r.pool.get(ctx, ep, fresh)
	if err == nil && !c.used {
		o.dialled++
	}
	return c, err
}

func (r *run) kind(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return Unfinished
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case isTimeout(err):
		return TimedOut
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Reset
	}
	return Protocol
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func (r *run) record(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.perEP[o.endpoint]
	r.offered++
	r.dialled += o.dialled
	if o.sent {
		r.lags = append(r.lags, int64(o.lag))
	}
	switch o.err {
	case "", TimedOut, Unfinished, Unsent:
		t.latencies = append(t.latencies, int64(o.latency))
		if r.cfg.Done != nil {
			lag := o.lag
			if !o.sent {
				lag = o.latency
			}
			r.cfg.Done(o.intended, lag, o.latency)
		}
	}
	if o.err == "" {
		r.refusals = 0
		if t.status == nil {
			t.status = map[int]int{}
		}
		t.status[o.status]++
		return
	}
	r.errors[o.err]++
	if t.errors == nil {
		t.errors = map[string]int{}
	}
	t.errors[o.err]++
	if o.err != Refused {
		return
	}
	if r.refusals++; r.refusals == downAfter {
		r.cancel(fmt.Errorf("%w: %s refuses connections", ErrTargetDown, r.eps[o.endpoint].address))
	}
}

func (r *run) result() Result {
	res := Result{
		Started: r.start, Elapsed: time.Since(r.start), Offered: r.offered,
		SendLag: newDistribution(r.lags), Errors: r.errors, Connections: r.dialled,
	}
	var all []int64
	for i, t := range r.perEP {
		all = append(all, t.latencies...)
		for _, n := range t.status {
			res.Responses += n
		}
		res.Endpoints = append(res.Endpoints, EndpointResult{
			Name: r.eps[i].name, Latency: newDistribution(t.latencies), Status: t.status, Errors: t.errors,
		})
	}
	res.Latency = newDistribution(all)
	return res
}
