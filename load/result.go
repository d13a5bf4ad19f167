package load

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Kinds of failed requests, the keys of Result.Errors.
const (
	Refused    = "refused"    // the connection was refused
	Reset      = "reset"      // the server closed the connection before the response
	TimedOut   = "timed out"  // no complete response within Config.Timeout
	Unfinished = "unfinished" // still in flight when the run ended
	Unsent     = "unsent"     // MaxOutstanding was reached until the run ended
	Protocol   = "protocol"   // the response was not HTTP, or the TLS handshake failed
)

// Result is what a run measured. A Result is immutable and safe for concurrent
// use.
type Result struct {
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed_ns"` // until the last request was over
	// Offered counts the intended requests; each is a response or an error.
	Offered   int `json:"offered"`
	Responses int `json:"responses"` // complete HTTP responses of any status
	// Latency is the time from the intended sending to the end of the response.
	// Requests that timed out, were unfinished or unsent are in it with the time
	// they had waited by then, a lower bound; other failures are not.
	Latency Distribution `json:"latency"`
	// SendLag is the time from the intended sending to the first write: the
	// generator's own lateness, connecting, and waiting for MaxOutstanding. It
	// is part of Latency.
	SendLag   Distribution     `json:"send_lag"`
	Endpoints []EndpointResult `json:"endpoints"` // in the order of Config.Targets
	Errors    map[string]int   `json:"errors,omitempty"`
	// Connections counts the connections that were opened.
	Connections int `json:"connections"`
}

// EndpointResult is one target's part of a Result.
type EndpointResult struct {
	Name    string         `json:"name"`
	Latency Distribution   `json:"latency"`
	Status  map[int]int    `json:"status"` // responses by HTTP status
	Errors  map[string]int `json:"errors,omitempty"`
}

// Distribution is a set of durations, every one of them kept.
type Distribution struct {
	ns  []int64 // sorted
	sum float64
}

func newDistribution(ns []int64) Distribution {
	d := Distribution{ns: ns}
	slices.Sort(d.ns)
	for _, v := range d.ns {
		d.sum += float64(v)
	}
	return d
}

// Count is the number of durations.
func (d Distribution) Count() int { return len(d.ns) }

// Mean is the arithmetic mean, 0 if the distribution is empty.
func (d Distribution) Mean() time.Duration {
	if len(d.ns) == 0 {
		return 0
	}
	return time.Duration(d.sum / float64(len(d.ns)))
}

// Quantile is the smallest duration that at least the ratio q of all durations
// do not exceed (nearest rank), so Quantile(1) is the maximum. It is 0 if the
// distribution is empty.
func (d Distribution) Quantile(q float64) time.Duration {
	if len(d.ns) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(d.ns))))
	return time.Duration(d.ns[min(max(rank, 1), len(d.ns))-1])
}

// Sorted returns a copy of the durations in ns, in increasing order.
func (d Distribution) Sorted() []int64 { return slices.Clone(d.ns) }

// MarshalJSON writes the count and the usual quantiles in ns.
func (d Distribution) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count int           `json:"count"`
		Mean  time.Duration `json:"mean_ns"`
		P50   time.Duration `json:"p50_ns"`
		P90   time.Duration `json:"p90_ns"`
		P99   time.Duration `json:"p99_ns"`
		P999  time.Duration `json:"p999_ns"`
		Max   time.Duration `json:"max_ns"`
	}{d.Count(), d.Mean(), d.Quantile(.5), d.Quantile(.9), d.Quantile(.99), d.Quantile(.999), d.Quantile(1)})
}
