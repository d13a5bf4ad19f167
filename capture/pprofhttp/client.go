// Package pprofhttp gets the evidence out of a running Go service through its
// net/http/pprof endpoint: the execution trace, with the CPU profile running
// under it, and the allocation, goroutine, mutex and block profiles around it.
//
// Connect checks that the endpoint is what it should be, Probe takes one second
// of trace to find a duration that fits, Client.Record records into an incident;
// Record does all three. The target is asked for nothing that stops the world
// while the trace runs. Whatever goes wrong after the trace has begun ends the
// recording with what has arrived, and the manifest says what is missing and
// why.
package pprofhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/whylate/whylate/evidence"
)

// Options says what to record. The zero value is a recording of 10 s.
type Options struct {
	// For is the duration of the trace; 0 means 10 s. The recording may be
	// shorter to respect MaxBytes or the server's WriteTimeout.
	For time.Duration
	// MaxBytes bounds the trace; 0 means 256 MiB. The duration is chosen so that
	// the trace stays below it; where the target gets busier, reading stops there.
	MaxBytes int64
	// NoProbe leaves out the probe trace of 1 s; MaxBytes then only stops reading.
	NoProbe bool
	// NoCPUProfile leaves out the CPU profile.
	NoCPUProfile bool
	// AllGoroutines takes the goroutine profile whatever their number: it stops
	// the target for a time that grows with it.
	AllGoroutines bool
	// KeepOnCancel makes cancelling the context end the trace early and keep it.
	// Without it Record returns the context's error.
	KeepOnCancel bool
	// Timeout is how long the target may take to begin an answer that should come
	// at once; 0 means 2 s. Transfers may stall for five times as long.
	Timeout time.Duration
	// Progress, if not nil, is called from one goroutine at a time, at most about
	// five times a second and at the beginning of every phase.
	Progress func(Progress)
}

// Progress says where a recording is.
type Progress struct {
	Phase Phase
	// Elapsed is the time since the phase began, Of how long it should take;
	// Of is 0 where that is not known.
	Elapsed, Of time.Duration
	// Bytes is how much of the trace has arrived, Max where reading stops.
	Bytes, Max int64
}

// Phase is a step of a recording.
type Phase string

// The phases in their order.
const (
	PhaseConnect Phase = "connect"
	PhaseProbe   Phase = "probe"
	PhaseBefore  Phase = "profiles before"
	PhaseTrace   Phase = "trace"
	PhaseAfter   Phase = "profiles after"
)

const (
	defaultFor      = 10 * time.Second
	defaultMaxBytes = 256 << 20
	defaultTimeout  = 2 * time.Second
	// stallFactor: a loaded target that takes 2 s for a small answer is slow, one
	// that sends nothing for 10 s in the middle of a transfer is gone.
	stallFactor = 5
	// maxProfile bounds a profile in bytes as sent: what an incident may hold.
	maxProfile = 64 << 20
	// maxPage bounds the index page and the command line.
	maxPage = 1 << 20
	// glimpse is the shortest trace that is asked for; maxGlimpse bounds it: of each goroutine it
	// says the state and the stack, in some 20 bytes.
	glimpse    = time.Millisecond
	maxGlimpse = 16 << 20
)

func (o Options) withDefaults() Options {
	if o.For <= 0 {
		o.For = defaultFor
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return o
}

// Client is a connection to a pprof endpoint that has been checked. It makes
// one recording at a time: its methods must not be called concurrently.
type Client struct {
	// Cmdline is the target's command line as the endpoint tells it, to be
	// compared with /proc/PID/cmdline; empty if it is not served. It may hold
	// secrets: of it only the name of the program goes into the incident.
	Cmdline []string

	target   Target
	options  Options
	base     *url.URL // may hold credentials
	http     *http.Client
	requests atomic.Int64
	rtt      time.Duration // of the first answer
	settled  bool          // base does not change any more; requests may run concurrently
	cutTrace bool          // we closed a trace early: the target may still be ending it
	notes    []string      // for the manifest
	cpuStart time.Duration // CPU time of this process at Connect
}

// Connect makes sure that the target is a pprof endpoint, with one to three
// cheap requests. If it is not, the error is an *Error that says what to do. The
// caller closes the Client.
func Connect(ctx context.Context, target Target, options Options) (*Client, error) {
	base, err := target.endpoint()
	if err != nil {
		return nil, err
	}
	transport, err := target.transport()
	if err != nil {
		return nil, err
	}
	c := &Client{
		target:   target,
		options:  options.withDefaults(),
		base:     base,
		http:     &http.Client{Transport: transport, CheckRedirect: sameTarget},
		cpuStart: cpuTime(),
	}
	c.progress(Progress{Phase: PhaseConnect})
	if err := c.check(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.settled = true
	return c, nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// URL returns the endpoint without credentials and query.
func (c *Client) URL() string { return evidence.CleanURL(c.base.String()) }

func (c *Client) progress(p Progress) {
	if c.options.Progress != nil {
		c.options.Progress(p)
	}
}

func (c *Client) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// stall is how long a transfer may go without a byte.
func (c *Client) stall() time.Duration { return stallFactor * c.options.Timeout }

// check asks for the command line: the cheapest answer of the endpoint, and one
// that identifies the process. A mux of the program's own may lack it: then for
// the index, and then for the shortest possible trace.
func (c *Client) check(ctx context.Context) error {
	began := time.Now()
	body, err := c.fetch(ctx, "cmdline", nil, maxPage, c.options.Timeout)
	c.rtt = time.Since(began)
	if err == nil {
		if looksLikePage(body) || bytes.HasPrefix(body, []byte("\x1f\x8b")) {
			return otherAnswer(c.base, body)
		}
		c.Cmdline = strings.Split(strings.TrimSuffix(string(body), "\x00"), "\x00")
		return nil
	}
	if !errors.Is(err, errNotFound) {
		return err
	}
	page, indexErr := c.fetch(ctx, "", nil, maxPage, c.options.Timeout)
	if indexErr == nil && goroutineCount(page) >= 0 {
		return nil
	}
	trace, traceErr := c.fetch(ctx, "trace", seconds(glimpse), maxProfile, c.stall())
	if traceErr != nil {
		return traceErr
	}
	return c.checkTrace(trace)
}

// Glimpse returns the shortest trace that there is: a millisecond of which little can be learned
// but who wrote it.
func (c *Client) Glimpse(ctx context.Context) (trace []byte, err error) {
	_, err = c.fitTrace(ctx, glimpse, func(d time.Duration) (t transfer, err error) {
		trace, err = c.fetch(ctx, "trace", seconds(d), maxGlimpse, c.stall())
		return t, err
	})
	return trace, err
}

// checkTrace explains why data does not begin a trace that can be read.
func (c *Client) checkTrace(head []byte) error {
	_, err := evidence.TraceFormat(head)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, evidence.ErrVersion):
		return &Error{
			Cause:  "the target was built with a Go older than 1.22, whose traces have another format",
			Advice: "GOTOOLCHAIN=go1.26.0 go build ./...    # build the target with Go 1.22 or newer",
			Err:    ErrOldGo,
		}
	}
	return otherAnswer(c.base, head)
}

// get requests name below the endpoint. It returns the answer if its status is
// 200 and an explained error otherwise; the caller closes the body.
func (c *Client) get(ctx context.Context, name string, query url.Values) (*http.Response, error) {
	u := *c.base
	u.User = nil
	u.Path += "/" + name
	q := u.Query()
	for k, v := range query {
		q[k] = v
	}
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make a request to %s: %w", c.URL(), bare(err))
	}
	req.Header.Set("User-Agent", "whylate")
	for k, v := range c.target.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if password, _ := c.base.User.Password(); c.base.User != nil && req.Header.Get("Authorization") == "" {
		// As a header of ours it survives a redirect; the one that net/http makes of
		// the URL does not.
		req.SetBasicAuth(c.base.User.Username(), password)
	}
	c.requests.Add(1)
	began := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err, time.Since(began))
	}
	if !c.settled {
		c.adopt(resp.Request.URL, name)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, refused(resp, name)
	}
	return resp, nil
}

// failed explains why a request got no answer, or only a part of one.
func (c *Client) failed(ctx context.Context, err error, waited time.Duration) error {
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, errStalled) {
		return cause // the caller gave up, the target did nothing wrong
	}
	if errors.Is(cause, errStalled) {
		err = context.DeadlineExceeded
	}
	return unreachable(err, c.base, waited)
}

// adopt makes the place where a redirect led the base of later requests.
func (c *Client) adopt(final *url.URL, name string) {
	path, ok := strings.CutSuffix(final.Path, "/"+name)
	if ok && (final.Scheme != c.base.Scheme || final.Host != c.base.Host || path != c.base.Path) {
		moved := *c.base
		moved.Scheme, moved.Host, moved.Path, moved.RawPath = final.Scheme, final.Host, path, ""
		c.base = &moved
	}
}

// fetch gets a whole answer of at most limit bytes within timeout.
func (c *Client) fetch(ctx context.Context, name string, query url.Values, limit int64, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := c.get(ctx, name, query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, c.failed(ctx, err, timeout)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return b, nil
}

// errStalled cancels a transfer in which nothing arrives any more.
var errStalled = errors.New("the target sends nothing any more")

func seconds(d time.Duration) url.Values {
	return url.Values{"seconds": {strconv.FormatFloat(d.Seconds(), 'f', -1, 64)}}
}
