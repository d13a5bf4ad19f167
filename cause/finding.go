package cause

import (
	"cmp"

	"github.com/whylate/whylate/blame"
)

// Finding is a cause of the catalogue that holds in a recording, with the part
// of the contrast it explains. Shares are ratios of the contrast's excess: they
// are additive within one contrast and may be negative.
type Finding struct {
	// Cause is the id of the catalogue entry.
	Cause string `json:"cause"`
	// Contrast is "tail" (slow requests against typical ones), "level" (the median
	// request against zero or a baseline) or "before" (requests are late before
	// the process sees them: not in its percentiles, and no part of an excess).
	Contrast string `json:"contrast"`
	// Share is the cause's part of the excess, with its 90 % block-bootstrap
	// interval. The interval is absent (both nil) when the recording has too few
	// blocks of wall time to bootstrap over.
	Share     float64  `json:"share"`
	ShareLow  *float64 `json:"share_low"`
	ShareHigh *float64 `json:"share_high"`
	// Confidence is "high", "medium" or "low".
	Confidence string `json:"confidence"`
	// Pattern is "repeated", or "one-incident" when fewer than five separate
	// episodes carry the tail.
	Pattern string `json:"pattern"`
	// ExcessNS is the cause's part of the mean excess, in nanoseconds.
	ExcessNS int64 `json:"excess_ns"`
	// P99WithoutNS is the counterfactual 99th percentile: every request with the
	// cause's time taken away, as far as it exceeds the typical band's, and as far
	// as it would not wait for another of its children instead. It is not additive
	// over findings.
	P99WithoutNS int64 `json:"p99_without_ns"`
	// P99NS is the 99th percentile of the same requests with it: where an endpoint that is slow on purpose is left out, it is
	// not that of all. 0 where P99WithoutNS is.
	P99NS int64 `json:"p99_ns,omitempty"`
	// Via lists causes that stand between the request and this root, nearest
	// first: the queue in which the request met the cause.
	Via []string `json:"via,omitempty"`
	// Where is the place in the code to look at; nil for causes of the host.
	Where *Place `json:"where"`
	// Summary is one sentence.
	Summary  string   `json:"summary"`
	Evidence []string `json:"evidence"`
	Fix      []string `json:"fix"`
	Verify   string   `json:"verify"`
	// Examples are ids of requests that show the cause.
	Examples []string `json:"examples,omitempty"`

	keys []blame.KeyID // what it claims
	// settled is the confidence but for the number of episodes.
	settled string
	// order sorts findings: the share, or that of the one before which it is named.
	order float64
}

// Repeats says that the cause was seen elsewhere, too, so that it is no single incident.
func (f *Finding) Repeats() {
	if f.Pattern == oneIncident && f.settled != "" {
		f.Pattern, f.Confidence = repeated, f.settled
	}
}

// The values of Finding.Pattern.
const repeated, oneIncident = "repeated", "one-incident"

// Place is a line of the target's source.
type Place struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

// Consistent is a share of the excess for which an instrument that was not
// recorded would be needed to tell the causes apart.
type Consistent struct {
	Causes []string `json:"causes"`
	Share  float64  `json:"share"`
	// Record is what to record to separate the causes.
	Record string `json:"record"`
	// Contrast is as in Finding.
	Contrast string `json:"contrast"`
	// Where, Summary and Evidence are as in Finding.
	Where    *Place   `json:"where,omitempty"`
	Summary  string   `json:"summary"`
	Evidence []string `json:"evidence,omitempty"`

	keys []blame.KeyID // what they claim
	// accompanies marks contention for the host's CPUs that comes with something else, see Verdict.accompanies; last is set if that
	// is to be named before it; found if that is found: then this is no doubt of it.
	accompanies, last, found bool
}

// inOrder sorts look-alikes by their shares, those that are last behind the others.
func inOrder(a, b Consistent) int {
	if a.last != b.last {
		if a.last {
			return 1
		}
		return -1
	}
	return cmp.Compare(b.Share, a.Share)
}

// RuledOut is a catalogue entry whose deciding evidence says no, or whose share is
// too small or too uncertain to be named.
type RuledOut struct {
	Cause   string `json:"cause"`
	Because string `json:"because"`
	// Fits marks an entry that nothing speaks against and that has a share of at
	// least a tenth: it is not named, but it is not excluded either.
	Fits bool `json:"fits,omitempty"`
	// Absent marks an entry with nothing of its kind in the slow requests, or less
	// than AbsentShare of their excess: nothing more can be said of it.
	Absent bool `json:"absent,omitempty"`
	// ByShare marks an entry that is denied by its share alone, which Number is: of an
	// excess that something larger makes, even much of it is a small share.
	ByShare bool `json:"by_share,omitempty"`
	// Number is the value of the deciding evidence, most often a share.
	Number float64 `json:"number"`
}

// Unnamed is a share of the excess that belongs to no named cause.
type Unnamed struct {
	Share float64 `json:"share"`
	Leaf  string  `json:"leaf"`
	// Where is the place of the leaf, if it has one.
	Where *Place `json:"where,omitempty"`
	// Causes are those of a finding, or of look-alikes, that is not material because the
	// tail is not.
	Causes []string `json:"causes,omitempty"`
}
