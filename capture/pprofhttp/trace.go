package pprofhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whylate/whylate/evidence"
)

const (
	probeFor = time.Second
	// headroom keeps a planned trace below the byte bound: the target may be busier
	// than during the probe.
	headroom = 0.8
	// shortest is the least duration that is asked for. A trace shorter than one
	// generation of the tracer (about 1 s) is one generation whatever its length,
	// so a short one is readable; below 100 ms there is hardly a request in it.
	shortest = 100 * time.Millisecond
	// shorten is the step in which a duration is tried again after a server refused
	// it. A refusal is immediate, so fine steps cost little.
	shorten = 0.8
	// settle is how long the target gets to end a trace that we cut.
	settle = 3 * time.Second
)

// Plan is how long the trace will run.
type Plan struct {
	// For is the duration to ask the target for.
	For time.Duration
	// BytesPerSecond is what the probe measured; 0 without a probe.
	BytesPerSecond float64
	// Reason is a sentence if For is less than Options asked for, else empty.
	Reason string
}

// Probe takes a trace of 1 s, throws it away, and returns the duration with
// which the recording should stay below Options.MaxBytes. With Options.NoProbe it
// asks the target nothing. The error is ErrTracing if a trace is running already,
// ErrOldGo or ErrNoEndpoint if what came is no trace that can be read.
func (c *Client) Probe(ctx context.Context) (Plan, error) {
	plan := Plan{For: c.options.For}
	if c.options.NoProbe {
		return plan, nil
	}
	var bytes atomic.Int64
	stop := c.watch(PhaseProbe, probeFor, &bytes)
	defer stop()
	got, err := c.fitTrace(ctx, probeFor, func(d time.Duration) (transfer, error) {
		return c.streamTrace(ctx, d, io.Discard, &bytes)
	})
	if err != nil {
		return Plan{}, err // names its cause; a prefix would spoil the line to paste
	}
	if got.end == endCancelled {
		return Plan{}, context.Cause(ctx)
	}
	ran := got.asked
	if got.end != endWhole {
		ran = min(got.asked, got.took)
	}
	plan.BytesPerSecond = float64(got.bytes) / ran.Seconds()
	fits := time.Duration(headroom * float64(c.options.MaxBytes) / plan.BytesPerSecond * float64(time.Second))
	if fits < plan.For {
		plan.For = max(fits.Round(time.Millisecond), shortest)
		plan.Reason = fmt.Sprintf("the target writes %s of trace per second: %s instead of %s, to stay below %s",
			mib(plan.BytesPerSecond), plan.For, c.options.For, mib(float64(c.options.MaxBytes)))
	}
	return plan, nil
}

func mib(bytes float64) string { return fmt.Sprintf("%.3g MiB", bytes/(1<<20)) }

// fitTrace asks for a trace of d, and for shorter ones for as long as the server
// refuses because of its WriteTimeout. Older versions of net/http/pprof do;
// newer ones extend the deadline.
func (c *Client) fitTrace(ctx context.Context, d time.Duration, attempt func(time.Duration) (transfer, error)) (transfer, error) {
	giveUp := time.Now().Add(settle)
	for {
		got, err := attempt(d)
		switch {
		case errors.Is(err, errWriteTimeout):
			shorter := time.Duration(shorten * float64(d)).Round(time.Millisecond)
			if shorter < shortest {
				return got, &Error{
					Cause:  "the target's HTTP server refuses every recording: its WriteTimeout is too short",
					Advice: "srv.WriteTimeout = 30 * time.Second    // or serve pprof on a server of its own",
					Err:    ErrNoEndpoint,
				}
			}
			d = shorter
		case errors.Is(err, ErrTracing) && c.cutTrace && time.Now().Before(giveUp):
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return got, err
			}
		default:
			return got, err
		}
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// transfer is a trace as it arrived.
type transfer struct {
	asked time.Duration
	took  time.Duration // from the request to the last byte
	bytes int64
	// format is the version in the header, such as "go1.26".
	format string
	end    ending
	// err is what went wrong if end is endLost.
	err error
}

// ending says why a transfer ended.
type ending int

const (
	endWhole     ending = iota // the server sent all of it
	endBound                   // we stopped at the byte bound
	endLost                    // the connection broke or nothing arrived any more
	endCancelled               // the caller's context ended
)

// streamTrace asks for a trace of d and writes it to dst as it arrives. bytes
// follows it, for the progress. An error means that nothing of the trace came,
// or that dst failed; whatever goes wrong later is in the ending.
func (c *Client) streamTrace(parent context.Context, d time.Duration, dst io.Writer, bytes *atomic.Int64) (transfer, error) {
	t := transfer{asked: d}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// An idle target may send its first byte only at the end.
	watchdog := time.AfterFunc(d+c.stall(), func() { cancel(errStalled) })
	defer watchdog.Stop()

	began := time.Now()
	resp, err := c.get(ctx, "trace", seconds(d))
	if err != nil {
		return t, c.nothingCame(err, time.Since(began), d)
	}
	defer resp.Body.Close()

	head := make([]byte, evidence.TraceHeaderLen)
	n, err := io.ReadFull(resp.Body, head)
	if err != nil && n == 0 && err != io.EOF {
		return t, c.nothingCame(c.failed(ctx, err, time.Since(began)), time.Since(began), d)
	}
	if err := c.checkTrace(head[:n]); err != nil {
		return t, err
	}
	t.format, _ = evidence.TraceFormat(head)
	buffer := make([]byte, 64<<10) // the largest batch of a trace
	n = copy(buffer, head)
	for {
		if _, err := dst.Write(buffer[:n]); err != nil {
			return t, err
		}
		t.bytes += int64(n)
		bytes.Store(t.bytes)
		t.took = time.Since(began)
		watchdog.Reset(max(d-t.took, 0) + c.stall())
		if t.bytes >= c.options.MaxBytes {
			t.end = endBound
			c.cutTrace = true
			return t, nil
		}
		n, err = resp.Body.Read(buffer[:min(int64(len(buffer)), c.options.MaxBytes-t.bytes)])
		if n == 0 && err != nil {
			break
		}
	}
	t.took = time.Since(began)
	t.end, t.err = c.ending(ctx, parent, err, t.took)
	return t, nil
}

// ending sorts the error with which a body ended.
func (c *Client) ending(ctx, parent context.Context, err error, took time.Duration) (ending, error) {
	switch {
	case err == io.EOF:
		return endWhole, nil
	case parent.Err() != nil:
		c.cutTrace = true
		return endCancelled, context.Cause(parent)
	}
	return endLost, c.failed(ctx, err, took)
}

// nothingCame adds to the error of a trace of which no byte arrived that a
// server or proxy on the way may not bear answers of that length.
func (c *Client) nothingCame(err error, waited, asked time.Duration) error {
	var e *Error
	if !errors.As(err, &e) || waited < probeFor || waited > asked+c.options.Timeout {
		return err
	}
	return &Error{
		Cause:  fmt.Sprintf("%s (after %s of a recording of %s: a WriteTimeout or a proxy may cut long answers)", e.Cause, waited.Round(100*time.Millisecond), asked),
		Advice: "--for " + probeFor.String(),
		Err:    err,
	}
}

// watch reports progress until the returned function is called, which waits
// for the last report.
func (c *Client) watch(phase Phase, of time.Duration, bytes *atomic.Int64) (stop func()) {
	if c.options.Progress == nil {
		return func() {}
	}
	began, done := time.Now(), make(chan struct{})
	report := func() {
		c.progress(Progress{Phase: phase, Elapsed: time.Since(began), Of: of, Bytes: bytes.Load(), Max: c.options.MaxBytes})
	}
	report()
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				report()
			case <-done:
				report()
				return
			}
		}
	})
	return func() { close(done); group.Wait() }
}
