package load

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Arrivals is the process that spaces the requests of Config.Rate.
type Arrivals int

const (
	// Poisson arrivals are independent of each other, as those of many users
	// are. It is the zero value.
	Poisson Arrivals = iota
	// Uniform arrivals are evenly spaced.
	Uniform
)

// Target is one endpoint under load.
type Target struct {
	// Name labels the endpoint in the result; empty means method and path.
	Name string
	// Method is the HTTP method; empty means GET.
	Method string
	// URL is absolute, with scheme http or https.
	URL string
	// Header is sent with each request; it is not modified.
	Header http.Header
	// Body is sent with each request; it is not modified.
	Body []byte
	// Pause is how long a client takes its time over each request: before it sends
	// the second half of Body, or without a Body before it reads the answer, of
	// which it then holds no more than 64 KiB. It is part of the latency. Such
	// clients have connections of their own. Not negative.
	Pause time.Duration
	// Weight is the target's part of the requests relative to the other
	// weights; 0 means 1.
	Weight float64
}

// Bursts adds groups of requests with one common intended time to the steady
// arrivals. The zero value adds none.
type Bursts struct {
	// Mean is the mean time between bursts, which are a Poisson process.
	Mean time.Duration
	// Size is the number of requests in each burst.
	Size int
}

// MaxRequests bounds the expected number of requests of one run, because every
// latency is kept: 10 million of them are 240 MB.
const MaxRequests = 10_000_000

// Config says what to send where and when. Targets, Duration and one of Rate
// and Bursts are required; every other zero value is a default.
type Config struct {
	Targets  []Target
	Rate     float64 // requests per second, all targets together
	Duration time.Duration
	Arrivals Arrivals
	Bursts   Bursts
	// Seed determines the intended times and the choice of targets: two runs
	// with equal seeds offer exactly the same load.
	Seed uint64
	// MaxOutstanding bounds the requests in flight, and with them the
	// connections; 0 means 1024. A request that finds the bound reached is sent
	// later, and the wait counts as latency and as send lag.
	MaxOutstanding int
	// Timeout bounds one request from its sending; 0 means 10 s.
	Timeout time.Duration
	// Drain is how long the requests in flight at the end of Duration may still
	// take before they are given up as unfinished; 0 means 2 s.
	Drain time.Duration
	// Done, if not nil, is called for every request that is in Result.Latency when it
	// is over, one call at a time: with its intended time, how much later it was
	// sent, and its latency from the intended time. Requests that were never sent
	// have their latency as lag. It must return at once.
	Done func(intended time.Time, lag, latency time.Duration)
	// TLS configures https targets; nil means the defaults of crypto/tls.
	TLS *tls.Config
}

// ErrConfig reports a Config that cannot be run.
var ErrConfig = errors.New("load: invalid configuration")

// ErrTargetDown reports a target that refuses connections.
var ErrTargetDown = errors.New("load: target is down")

// endpoint is a checked Target with its request already encoded.
type endpoint struct {
	name    string
	method  string
	address string // host:port
	tls     *tls.Config
	request []byte
	body    int // bytes of request, at its end
	pause   time.Duration
	weight  float64
}

func (c Config) withDefaults() (Config, error) {
	if c.MaxOutstanding == 0 {
		c.MaxOutstanding = 1024
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Drain == 0 {
		c.Drain = 2 * time.Second
	}
	switch {
	case len(c.Targets) == 0:
		return c, fmt.Errorf("%w: no targets", ErrConfig)
	case c.Duration <= 0:
		return c, fmt.Errorf("%w: duration %v is not positive", ErrConfig, c.Duration)
	case c.Rate < 0 || c.Rate != c.Rate:
		return c, fmt.Errorf("%w: rate %v is negative or not a number", ErrConfig, c.Rate)
	case c.Bursts.Size < 0 || c.Bursts.Size > 0 && c.Bursts.Mean <= 0:
		return c, fmt.Errorf("%w: bursts of %d every %v", ErrConfig, c.Bursts.Size, c.Bursts.Mean)
	case c.Rate == 0 && c.Bursts.Size == 0:
		return c, fmt.Errorf("%w: neither a rate nor bursts", ErrConfig)
	case c.MaxOutstanding < 0 || c.Timeout < 0 || c.Drain < 0:
		return c, fmt.Errorf("%w: negative bound", ErrConfig)
	case c.Arrivals != Poisson && c.Arrivals != Uniform:
		return c, fmt.Errorf("%w: unknown arrivals %d", ErrConfig, c.Arrivals)
	}
	if n := c.expected(); n > MaxRequests {
		return c, fmt.Errorf("%w: %.0f requests, at most %d are kept; lower the rate or the duration", ErrConfig, n, MaxRequests)
	}
	return c, nil
}

// expected is the mean number of requests of the whole run.
func (c Config) expected() float64 {
	n := c.Rate * c.Duration.Seconds()
	if c.Bursts.Size > 0 {
		n += float64(c.Bursts.Size) * float64(c.Duration) / float64(c.Bursts.Mean)
	}
	return n
}

func (c Config) endpoints() ([]endpoint, error) {
	eps := make([]endpoint, 0, len(c.Targets))
	for _, t := range c.Targets {
		ep, err := newEndpoint(t, c.TLS)
		if err != nil {
			return nil, fmt.Errorf("%w: target %q: %w", ErrConfig, t.URL, err)
		}
		eps = append(eps, ep)
	}
	return eps, nil
}

func newEndpoint(t Target, conf *tls.Config) (endpoint, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return endpoint{}, err
	}
	address, err := dialAddress(u)
	if err != nil {
		return endpoint{}, err
	}
	if t.Weight < 0 || t.Weight != t.Weight {
		return endpoint{}, fmt.Errorf("weight %v is negative or not a number", t.Weight)
	}
	if t.Pause < 0 {
		return endpoint{}, fmt.Errorf("pause %v is negative", t.Pause)
	}
	ep := endpoint{name: t.Name, method: t.Method, address: address, body: len(t.Body), pause: t.Pause, weight: t.Weight}
	if ep.method == "" {
		ep.method = http.MethodGet
	}
	if ep.name == "" {
		ep.name = ep.method + " " + u.Path
	}
	if ep.weight == 0 {
		ep.weight = 1
	}
	if u.Scheme == "https" {
		if ep.tls = conf.Clone(); ep.tls == nil {
			ep.tls = &tls.Config{}
		}
		if ep.tls.ServerName == "" {
			ep.tls.ServerName = u.Hostname()
		}
		ep.tls.NextProtos = []string{"http/1.1"}
	}
	ep.request, err = encode(ep.method, u, t.Header, t.Body)
	return ep, err
}

func dialAddress(u *url.URL) (string, error) {
	if u.Hostname() == "" {
		return "", errors.New("no host")
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("scheme %q is neither http nor https", u.Scheme)
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("port %q is not in 1..65535", port)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
