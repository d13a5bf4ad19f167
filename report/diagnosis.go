// Package report turns a diagnosis into something a person or a program reads:
// the terminal report, a page of HTML, and the JSON document of schema whylate.diagnosis/1.
package report

import (
	"time"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/report/detail"
)

// Schema names the JSON document. Changes to it are additive only.
const Schema = "whylate.diagnosis/1"

// The three verdicts.
const (
	VerdictCause        = "cause"
	VerdictHealthy      = "healthy"
	VerdictInconclusive = "inconclusive"
)

// Diagnosis is the answer to "why was this request late?". All durations are
// nanoseconds, all shares ratios of the excess of their contrast.
type Diagnosis struct {
	Schema string `json:"schema"`
	Tool   string `json:"tool"`
	// Started is when the trace begins, DurationNS how long it is; without a trace those of the recording.
	Started    time.Time `json:"started"`
	DurationNS int64     `json:"duration_ns"`
	// Verdict is cause, healthy or inconclusive; Reason says why it is
	// inconclusive (few-requests, no-requests, no-trace, level,
	// look-alikes, unexplained, unresolved) and is empty otherwise. level: the
	// wait is in every request, not in the tail, and only look-alikes explain it or
	// neither an objective (--slo) nor a baseline says that it is too long.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	// Sentence is the answer in one sentence.
	Sentence string `json:"sentence"`
	// Service is the name of what several recordings are of, if they are of several services.
	Service  string   `json:"service,omitempty"`
	Target   Target   `json:"target"`
	Requests Requests `json:"requests"`
	// ExcessNS is mean(tail) - mean(typical) of the request durations.
	ExcessNS int64 `json:"excess_ns"`
	// Mix is the part of the excess that exists because the tail consists of
	// other endpoints than the typical band.
	Mix             Mix                `json:"mix"`
	UnresolvedShare float64            `json:"unresolved_share"`
	Level           *Level             `json:"level,omitempty"`
	Findings        []cause.Finding    `json:"findings"`
	ConsistentWith  []cause.Consistent `json:"consistent_with"`
	RuledOut        []cause.RuledOut   `json:"ruled_out"`
	Unnamed         []cause.Unnamed    `json:"unnamed"`
	NotRecorded     []NotRecorded      `json:"not_recorded"`
	Notes           []string           `json:"notes,omitempty"`
	// StolenShare is the part of the CPUs' time that the hypervisor took during the
	// recording; 0 where it took none, or the host was not recorded.
	StolenShare float64 `json:"stolen_share,omitempty"`
	// Windows are the parts of a long or damaged trace that were diagnosed one by one, or several
	// recordings of a service, in order of time; nil if all was diagnosed as one. All else is then
	// what is known of the worst one, but for the duration of a trace and what is lost of it.
	Windows []Window `json:"windows,omitempty"`
	// Kernel is what probes in the kernel counted; nil if there were none.
	Kernel *Kernel `json:"kernel,omitempty"`
	Lost   Lost    `json:"lost"`
	Cost   Cost    `json:"cost"`
	// Check is filled by --check.
	Check *Check `json:"check,omitempty"`
	// Detail is what is known request by request; nil if nobody asked for it, or there was
	// no execution trace. It is no part of the JSON document.
	Detail *detail.Recording `json:"-"`
}

// CountedNS is the time in nanoseconds in which the requests came that were counted: that of the
// worst window of a trace that has several.
func (d *Diagnosis) CountedNS() int64 {
	for i := range d.Windows {
		if w := &d.Windows[i]; w.Worst && w.File == "" {
			return w.ToNS - w.FromNS
		}
	}
	return d.DurationNS
}

// Target says what was recorded.
type Target struct {
	// Kind is "pprof" for a live endpoint or "file".
	Kind       string `json:"kind"`
	URL        string `json:"url,omitempty"`
	File       string `json:"file,omitempty"`
	PID        int    `json:"pid,omitempty"`
	Go         string `json:"go,omitempty"`
	GOMAXPROCS int    `json:"gomaxprocs,omitempty"`
}

// Requests says how requests were found and how long they took.
type Requests struct {
	FoundBy string `json:"found_by"`
	// Clock says from which instant to which the durations run.
	Clock string `json:"clock"`
	// Count is without those that hang (InFlight); the percentiles and the bands are with them,
	// and take their age for their duration.
	Count   int   `json:"count"`
	P50NS   int64 `json:"p50_ns"`
	P90NS   int64 `json:"p90_ns"`
	P99NS   int64 `json:"p99_ns"`
	P999NS  int64 `json:"p999_ns"`
	MaxNS   int64 `json:"max_ns"`
	Tail    Band  `json:"tail"`
	Typical Band  `json:"typical"`
	// InFlight counts the requests that hang: open at the end of the recording and
	// more than twice as old as the longest that ended.
	InFlight  int   `json:"in_flight"`
	OldestNS  int64 `json:"oldest_in_flight_ns"`
	ArrivalNS int64 `json:"arrival_ns"` // mean over the tail of the estimated time before the wake-up, not part of the durations
	// Classes counts what was found, largest first: entry roles, outgoing calls.
	Classes []Class `json:"classes"`
	// Endpoints are what the requests above are of, if they are of several: those with most of the
	// slow requests first, at most MaxEndpoints.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Excluded counts what looked like a request and is none.
	Excluded []Class `json:"excluded"`
	// HealthChecks says that the requests are health checks, by the names of their functions.
	HealthChecks bool `json:"health_checks,omitempty"`
	// Perhaps is a function that may be what a request is, if none was found: a guess, for --request.
	Perhaps string `json:"perhaps,omitempty"`
}

// MaxEndpoints is how many endpoints a diagnosis lists.
const MaxEndpoints = 50

// Endpoint is how long the requests of one endpoint took.
type Endpoint struct {
	Endpoint string `json:"endpoint"`
	// Count is how many requests it has, those in flight among them, Slow how many of these are in
	// the tail.
	Count int `json:"count"`
	Slow  int `json:"slow"`
	// Presumed is of how many the endpoint is not known: they did nothing in their handlers that the
	// trace shows, and took as long as others of this endpoint.
	Presumed int   `json:"presumed,omitempty"`
	P50NS    int64 `json:"p50_ns"`
	P99NS    int64 `json:"p99_ns"`
	MaxNS    int64 `json:"max_ns"`
}

// Window is a part of a trace with its own diagnosis, in nanoseconds since the trace began, or a
// recording, since the first one began.
type Window struct {
	// File is the recording, if there are several.
	File     string `json:"file,omitempty"`
	FromNS   int64  `json:"from_ns"`
	ToNS     int64  `json:"to_ns"`
	Requests int    `json:"requests"`
	P50NS    int64  `json:"p50_ns"`
	P99NS    int64  `json:"p99_ns"`
	MaxNS    int64  `json:"max_ns"`
	Verdict  string `json:"verdict"`
	// Cause is the first finding, with its share of the tail; "" if none is named.
	Cause string  `json:"cause,omitempty"`
	Share float64 `json:"share,omitempty"`
	// Worst marks the one in which the slow requests took the most time together.
	Worst bool `json:"worst,omitempty"`
}

// Band is a set of requests at one height of the latency distribution.
type Band struct {
	Count    int   `json:"count"`
	Episodes int   `json:"episodes,omitempty"`
	MeanNS   int64 `json:"mean_ns"`
}

// Class is a named count.
type Class struct {
	Class string `json:"class"`
	Count int    `json:"count"`
	P99NS int64  `json:"p99_ns,omitempty"`
}

// Mix is the between-endpoint part of the excess.
type Mix struct {
	Share    float64 `json:"share"`
	Endpoint string  `json:"endpoint"`
	// Asks is the function in which those requests of the endpoint ask a peer of which the tail has more; "" if it has more of
	// all of them.
	Asks string `json:"asks,omitempty"`
}

// Level is the contrast of the median request against zero or a baseline.
type Level struct {
	MedianNS int64 `json:"median_ns"`
	// WaitShare is the part of the median request spent outside its own CPU.
	WaitShare float64 `json:"wait_share"`
	// Against is "zero" or the name of the baseline.
	Against string `json:"against"`
	// ExcessNS is what the shares of the level contrast are of. They add up to 1
	// with OtherShare; mix, unnamed and unresolved_share are the tail's.
	ExcessNS   int64   `json:"excess_ns"`
	OtherShare float64 `json:"other_share"`
}

// NotRecorded is an instrument that was not available.
type NotRecorded struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Command would record it. It is printed to be pasted into a shell, so whoever
	// fills it in quotes for the shell what comes from the target.
	Command string `json:"command"`
}

// Lost counts what could not be read.
type Lost struct {
	Bytes  int64  `json:"bytes"`
	Detail string `json:"detail,omitempty"`
	// Advice is what makes the next recording whole: flags of the command that recorded, or a
	// line to paste. Empty where nothing is known that would.
	Advice string `json:"advice,omitempty"`
}

// Cost is what the diagnosis cost.
type Cost struct {
	// RecordCPU is the recorder's own CPU time as a ratio of the recording.
	RecordCPU float64 `json:"record_cpu"`
	// ProbeCPU is what the probes in the kernel took as a ratio of the recording, on all CPUs,
	// whoever ran there: by the kernel's own count in a part of the time, and for those in
	// functions with the way to the kernel and back. 0 without any, or without a count.
	ProbeCPU float64 `json:"probe_cpu,omitempty"`
	// AnalyseS is the analysis in seconds, wall time.
	AnalyseS float64 `json:"analyse_s"`
	// Asked are the dependencies that were asked what they did.
	Asked []Asked `json:"asked,omitempty"`
}

// Asked is what asking a dependency cost it: how many commands, and how long their
// answers took together, in nanoseconds; it worked no longer for them.
type Asked struct {
	What     string `json:"what"`
	Commands int    `json:"commands"`
	NS       int64  `json:"ns"`
}

// Check is the result of --check: the closure of every attributed request.
type Check struct {
	Requests int `json:"requests"`
	// WorstNS is the largest |sum of leaves - duration|; an invariant: 0.
	WorstNS int64 `json:"worst_ns"`
	// MaxDepth is the deepest chain of wakers followed.
	MaxDepth int `json:"max_depth"`
}
