// Package experiment compares recordings: what became of the causes between two incidents of a
// service, before and after, and what differs between them that may be why.
package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report"
)

// Schema names the JSON document. Changes to it are additive only.
const Schema = "whylate.comparison/1"

// Incident is one of the two.
type Incident struct {
	// Name is how reports call it, a file's for example.
	Name      string
	Manifest  *evidence.Manifest
	Diagnosis *report.Diagnosis
}

// Comparison is what became of A in B. Durations are nanoseconds.
type Comparison struct {
	Schema string `json:"schema"`
	// Verdict is one of the verdicts below, Sentence the same in words.
	Verdict  string `json:"verdict"`
	Sentence string `json:"sentence"`
	A        Side   `json:"a"`
	B        Side   `json:"b"`
	// Latency are the percentiles, side by side.
	Latency []Quantile `json:"latency"`
	// Causes are those that one of them names, Differences what else they do not have in common:
	// what changes lateness most often first. Equal things, and such of which one side knows
	// nothing, are left out.
	Causes      []Change     `json:"causes"`
	Differences []Difference `json:"differences"`
}

// The verdicts.
const (
	// VerdictWorse: a cause appeared, or grew beyond what chance does.
	VerdictWorse = "worse"
	// VerdictBetter: none did, and one went or shrank.
	VerdictBetter = "better"
	// VerdictSame: nothing of both.
	VerdictSame = "same"
	// VerdictUnclear: one of them is inconclusive, or cannot say whether it has a cause that
	// the other one names.
	VerdictUnclear = "unclear"
)

// Side is what matters of one diagnosis.
type Side struct {
	Name     string `json:"name"`
	Verdict  string `json:"verdict"`
	Reason   string `json:"reason,omitempty"`
	Sentence string `json:"sentence"`
	Requests int    `json:"requests"`
	// RequestsPerS is their rate, Concurrency how many were under way at a time in the mean.
	RequestsPerS float64 `json:"requests_per_s"`
	Concurrency  float64 `json:"concurrency"`
	ExcessNS     int64   `json:"excess_ns"`
}

// Quantile is one percentile.
type Quantile struct {
	Name string `json:"name"`
	ANS  int64  `json:"a_ns"`
	BNS  int64  `json:"b_ns"`
	// Ratio is B's by A's; 0 if A has none.
	Ratio float64 `json:"ratio"`
}

// What became of a cause.
const (
	Appeared = "appeared"
	More     = "more"
	Same     = "same"
	Less     = "less"
	Went     = "went"
	Unclear  = "unclear"
)

// Change is what became of a cause.
type Change struct {
	Cause string `json:"cause"`
	// Became is one of the words above; Why says what the side does with the cause that does
	// not name it, or what is not known.
	Became string `json:"became"`
	Why    string `json:"why,omitempty"`
	// A and B are nil where it is not named.
	A *Part `json:"a"`
	B *Part `json:"b"`
}

// Part is a cause's part of the excess, and in which share and where: that of its first
// finding. LowNS and HighNS are its interval; both are NS if the recording was too short for one.
type Part struct {
	NS       int64        `json:"ns"`
	LowNS    int64        `json:"low_ns"`
	HighNS   int64        `json:"high_ns"`
	Share    float64      `json:"share"`
	Contrast string       `json:"contrast"`
	Where    *cause.Place `json:"where"`
}

// Compare says what became of a in b. Neither is changed; the diagnoses should have their
// details, else nothing is said of endpoints.
func Compare(a, b Incident) *Comparison {
	c := &Comparison{
		Schema: Schema, A: side(&a), B: side(&b), Causes: []Change{}, Differences: differences(&a, &b),
	}
	x, y := &a.Diagnosis.Requests, &b.Diagnosis.Requests
	for _, q := range []struct {
		name string
		a, b int64
	}{{"p50", x.P50NS, y.P50NS}, {"p90", x.P90NS, y.P90NS}, {"p99", x.P99NS, y.P99NS}, {"p99.9", x.P999NS, y.P999NS}, {"max", x.MaxNS, y.MaxNS}} {
		ratio := 0.
		if q.a > 0 {
			ratio = float64(q.b) / float64(q.a)
		}
		c.Latency = append(c.Latency, Quantile{q.name, q.a, q.b, ratio})
	}
	for _, d := range []*report.Diagnosis{b.Diagnosis, a.Diagnosis} {
		for i := range d.Findings {
			id := d.Findings[i].Cause
			if !slices.ContainsFunc(c.Causes, func(x Change) bool { return x.Cause == id }) {
				c.Causes = append(c.Causes, change(id, a.Diagnosis, b.Diagnosis))
			}
		}
	}
	c.judge()
	return c
}

func side(in *Incident) Side {
	d := in.Diagnosis
	s := Side{Name: in.Name, Verdict: d.Verdict, Reason: d.Reason, Sentence: d.Sentence, Requests: d.Requests.Count, ExcessNS: d.ExcessNS}
	if d.DurationNS > 0 {
		s.RequestsPerS = float64(d.Requests.Count) / (float64(d.DurationNS) / 1e9)
		if d.Detail != nil {
			for i := range d.Detail.Requests {
				r := &d.Detail.Requests[i]
				s.Concurrency += r.Weight * float64(r.DurationNS) / float64(d.DurationNS)
			}
		}
	}
	return s
}

// part is what a diagnosis says of a cause, nil if it does not name it. Of several findings,
// at several places, of one contrast the parts are added up; the same time is not in both
// contrasts.
func part(id string, d *report.Diagnosis) (p *Part) {
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Cause != id || p != nil && f.Contrast != p.Contrast {
			continue
		}
		if p == nil {
			p = &Part{Contrast: f.Contrast, Where: f.Where}
		}
		low, high := f.ExcessNS, f.ExcessNS
		if f.ShareLow != nil && f.ShareHigh != nil && f.Share != 0 {
			whole := float64(f.ExcessNS) / f.Share
			low, high = int64(*f.ShareLow*whole), int64(*f.ShareHigh*whole)
		}
		p.NS, p.LowNS, p.HighNS, p.Share = p.NS+f.ExcessNS, p.LowNS+low, p.HighNS+high, p.Share+f.Share
	}
	return p
}

// grown is by how much a part of the one side has to lie beyond that of the other, beside that
// their intervals do not meet: two recordings of the same service differ more than the
// interval of each, which knows one recording only.
const grown = 1.5

func change(id string, a, b *report.Diagnosis) Change {
	c := Change{Cause: id, A: part(id, a), B: part(id, b)}
	switch {
	case c.A == nil:
		c.Became, c.Why = lacks(id, a, c.B, "A", Appeared)
	case c.B == nil:
		c.Became, c.Why = lacks(id, b, c.A, "B", Went)
	case c.B.LowNS > c.A.HighNS && float64(c.B.NS) > grown*float64(c.A.NS):
		c.Became = More
	case c.A.LowNS > c.B.HighNS && float64(c.A.NS) > grown*float64(c.B.NS):
		c.Became = Less
	default:
		c.Became = Same
	}
	if c.A != nil && c.B != nil && c.A.Where != nil && c.B.Where != nil && c.A.Where.Function != c.B.Where.Function {
		c.Why = fmt.Sprintf("in A in %s, in B in %s", c.A.Where.Function, c.B.Where.Function)
	}
	return c
}

// lacks tells whether a diagnosis that does not name a cause denies it: then it became what
// the caller says, else that is not known.
func lacks(id string, d *report.Diagnosis, other *Part, name, became string) (string, string) {
	for _, k := range d.ConsistentWith {
		if slices.Contains(k.Causes, id) {
			return Unclear, fmt.Sprintf("%s is consistent with it, too; to decide: %s", name, k.Record)
		}
	}
	// Whatever it had of the cause, it was no more than all of its excess.
	if d.Requests.Count >= cause.MinRequests && other.LowNS > int64(grown*float64(max(d.ExcessNS, 0))) && other.Contrast == cause.TailContrast && d.Reason != "level" {
		return became, fmt.Sprintf("in %s slow requests take only %s longer altogether", name, report.Duration(d.ExcessNS))
	}
	if why := hidden[d.Reason]; why != "" {
		return Unclear, fmt.Sprintf("%s is inconclusive: %s", name, why)
	}
	for _, r := range d.RuledOut {
		switch {
		case r.Cause != id:
		case r.Fits:
			return Unclear, fmt.Sprintf("%s has some of it, too little to be named: %s", name, r.Because)
		case r.Absent:
			return became, fmt.Sprintf("in %s there is nothing of it, or next to nothing", name)
		default:
			return became, fmt.Sprintf("in %s: %s", name, r.Because)
		}
	}
	if d.Verdict == report.VerdictHealthy {
		return became, name + " is healthy"
	}
	return Unclear, name + " cannot say: what decides was not recorded, or there are too few requests"
}

// hidden are the reasons of an inconclusive verdict for which a cause may be there although
// nothing of it is in the tail, and why.
var hidden = map[string]string{
	"level":        "every request waits alike; --slo says whether that is too long",
	"unresolved":   "too much of the excess could not be followed to anyone",
	"few-requests": "there are too few requests",
	"no-requests":  "no request was found",
	"no-trace":     "no execution trace was recorded",
}

// judge sums up the changes.
func (c *Comparison) judge() {
	by := func(words ...string) (list []*Change) {
		for i := range c.Causes {
			if slices.Contains(words, c.Causes[i].Became) {
				list = append(list, &c.Causes[i])
			}
		}
		return list
	}
	worse, better, unclear := by(Appeared, More), by(Went, Less), by(Unclear)
	blind := func(s *Side) bool { return s.Requests < cause.MinRequests }
	p99 := c.Latency[2]
	latency := fmt.Sprintf("p99 %s → %s", report.Duration(p99.ANS), report.Duration(p99.BNS))
	switch {
	case blind(&c.A) || blind(&c.B):
		c.Verdict = VerdictUnclear
		c.Sentence = fmt.Sprintf("They cannot be compared: A holds %d requests, B %d, and it takes %d.", c.A.Requests, c.B.Requests, cause.MinRequests)
	case len(worse) > 0:
		c.Verdict = VerdictWorse
		w := worse[0]
		if w.Became == Appeared {
			c.Sentence = fmt.Sprintf("%s: %s appeared in B and takes %s of what slow requests take longer.", latency, w.Cause, report.Duration(w.B.NS))
			if w.B.Contrast == cause.LevelContrast {
				c.Sentence = fmt.Sprintf("%s: %s appeared in B and takes %s of every request.", latency, w.Cause, report.Duration(w.B.NS))
			}
		} else {
			c.Sentence = fmt.Sprintf("%s: %s grew from %s to %s.", latency, w.Cause, report.Duration(w.A.NS), report.Duration(w.B.NS))
		}
	case len(unclear) > 0:
		c.Verdict = VerdictUnclear
		c.Sentence = fmt.Sprintf("%s: whether %s is in both is not known: %s.", latency, unclear[0].Cause, unclear[0].Why)
	case len(better) > 0:
		c.Verdict = VerdictBetter
		w := better[0]
		if w.Became == Went {
			c.Sentence = fmt.Sprintf("%s: %s went; in A it took %s.", latency, w.Cause, report.Duration(w.A.NS))
		} else {
			c.Sentence = fmt.Sprintf("%s: %s shrank from %s to %s.", latency, w.Cause, report.Duration(w.A.NS), report.Duration(w.B.NS))
		}
	case c.A.Verdict == report.VerdictInconclusive || c.B.Verdict == report.VerdictInconclusive:
		c.Verdict = VerdictUnclear
		c.Sentence = fmt.Sprintf("%s: neither names a cause that the other one has not, but A is %s and B %s.", latency, c.A.Verdict, c.B.Verdict)
	default:
		c.Verdict = VerdictSame
		c.Sentence = fmt.Sprintf("%s: no cause appeared, grew, shrank or went.", latency)
	}
	rank := []string{Appeared, More, Unclear, Went, Less, Same}
	slices.SortStableFunc(c.Causes, func(x, y Change) int {
		return cmp.Compare(slices.Index(rank, x.Became), slices.Index(rank, y.Became))
	})
}

// rateDiffers tells whether two counts over two times differ by more than chance and a
// little: the counts of a Poisson process by three of their standard deviations.
func rateDiffers(n, m, t, u float64) bool {
	if t <= 0 || u <= 0 || n+m == 0 {
		return false
	}
	x, y := n/t, m/u
	apart := math.Abs(x-y) > 3*math.Sqrt(n/(t*t)+m/(u*u))
	return apart && (x > 1.2*y || y > 1.2*x)
}
