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
	// VerdictMixed: one did, and another one went or shrank: what is worth more is for p99 to
	// say (Later).
	VerdictMixed = "mixed"
	// VerdictBetter: none did, and one went or shrank. Of a cause that is not known to be in A,
	// B has less than what went, then, and its p99 is lower.
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

// Change is what became of a cause in one contrast.
type Change struct {
	Cause string `json:"cause"`
	// Contrast is that of both parts, as in a finding.
	Contrast string `json:"contrast"`
	// Became is one of the words above; Why says what the side does with the cause that does
	// not name it, or what is not known.
	Became string `json:"became"`
	Why    string `json:"why,omitempty"`
	// HiddenBehind is what makes the slow requests so slow, of the side that does not name the
	// cause, that those which are late by it would not be among them. Became is unclear then.
	HiddenBehind string `json:"hidden_behind,omitempty"`
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
	// Whole says that it is a part of all the time that slow requests take, not of what they
	// take longer than others.
	Whole bool `json:"whole,omitempty"`

	functions []string // of all the findings
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
	places := sameNames(a.Manifest, b.Manifest)
	for _, d := range []*report.Diagnosis{b.Diagnosis, a.Diagnosis} {
		for i := range d.Findings {
			of := named{d.Findings[i].Cause, d.Findings[i].Contrast}
			seen := slices.ContainsFunc(c.Causes, func(x Change) bool { return x.Cause == of.cause && x.Contrast == of.contrast })
			if !seen && !(of.repeats(a.Diagnosis) && of.repeats(b.Diagnosis)) {
				c.Causes = append(c.Causes, change(of, a.Diagnosis, b.Diagnosis, places))
			}
		}
	}
	c.judge()
	return c
}

func side(in *Incident) Side {
	d := in.Diagnosis
	s := Side{Name: in.Name, Verdict: d.Verdict, Reason: d.Reason, Sentence: d.Sentence, Requests: d.Requests.Count, ExcessNS: d.ExcessNS}
	if in := float64(d.CountedNS()); in > 0 {
		s.RequestsPerS = float64(d.Requests.Count) / (in / 1e9)
		if d.Detail != nil {
			for i := range d.Detail.Requests {
				r := &d.Detail.Requests[i]
				s.Concurrency += r.Weight * float64(r.DurationNS) / in
			}
		}
	}
	return s
}

// part is what a diagnosis says of a cause in one contrast, nil if it does not name it. Of
// several findings, at several places, the parts are added up.
func part(of named, d *report.Diagnosis) (p *Part) {
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Cause != of.cause || f.Contrast != of.contrast {
			continue
		}
		if p == nil {
			p = &Part{Contrast: f.Contrast, Where: f.Where, Whole: f.Contrast == cause.TailContrast && splitsWhole(d)}
		}
		low, high := f.ExcessNS, f.ExcessNS
		if f.ShareLow != nil && f.ShareHigh != nil && f.Share != 0 {
			whole := float64(f.ExcessNS) / f.Share
			low, high = int64(*f.ShareLow*whole), int64(*f.ShareHigh*whole)
		}
		p.NS, p.LowNS, p.HighNS, p.Share = p.NS+f.ExcessNS, p.LowNS+low, p.HighNS+high, p.Share+f.Share
		if f.Where != nil {
			p.functions = append(p.functions, f.Where.Function)
		}
	}
	return p
}

// grown is by how much a part of the one side has to lie beyond that of the other, beside that
// their intervals do not meet: two recordings of the same service differ more than the
// interval of each, which knows one recording only.
const grown = 1.5

// named is what a change is of: the milliseconds of two contrasts cannot be compared.
type named struct{ cause, contrast string }

// repeats tells whether a diagnosis says nothing of its own of a cause's part of the tail: it
// does not name it there, or it split the whole time of slow requests, and names the same time
// at the same place as that of every request.
func (of named) repeats(d *report.Diagnosis) bool {
	if of.contrast != cause.TailContrast {
		return false
	}
	tail, level := part(of, d), part(named{of.cause, cause.LevelContrast}, d)
	return tail == nil || tail.Whole && level != nil && !elsewhere(tail, level) && float64(tail.NS) < grown*float64(level.NS)
}

// change is what became of a cause that one of them names; places tells whether the names of
// functions can be compared.
func change(of named, a, b *report.Diagnosis, places bool) Change {
	c := Change{Cause: of.cause, Contrast: of.contrast, A: part(of, a), B: part(of, b)}
	var said answer
	switch {
	case c.A == nil:
		said = lacking{of.cause, "A", Appeared, a, c.B}.answer()
	case c.B == nil:
		said = lacking{of.cause, "B", Went, b, c.A}.answer()
	case exceeds(c.B, c.A, a):
		said.became = More
	case exceeds(c.A, c.B, b):
		said.became = Less
	default:
		said.became = Same
	}
	if c.A != nil && c.B != nil && places && elsewhere(c.A, c.B) {
		said.why = fmt.Sprintf("at another place: in A in %s, in B in %s", c.A.functions[0], c.B.functions[0])
		if said.became == Same { // or one went and another one appeared
			said.became = Unclear
		}
	}
	c.Became, c.Why, c.HiddenBehind = said.became, said.why, said.hidden
	return c
}

// exceeds tells whether a part is clearly more than that of the other side, whose diagnosis
// is d. If only the one is of the whole time of slow requests, the other one may be more by
// what typical requests take.
func exceeds(p, than *Part, d *report.Diagnosis) bool {
	beside := int64(0)
	if p.Whole && !than.Whole {
		beside = d.Requests.Typical.MeanNS
	}
	return p.LowNS > than.HighNS+beside && float64(p.NS) > grown*float64(than.NS+beside)
}

// elsewhere tells whether two parts have no function in common.
func elsewhere(a, b *Part) bool {
	return len(a.functions) > 0 && len(b.functions) > 0 &&
		!slices.ContainsFunc(a.functions, func(f string) bool { return slices.Contains(b.functions, f) })
}

// Later tells whether requests are later in B: its p99 is higher, by more than a tenth.
func (c *Comparison) Later() bool {
	p99 := c.Latency[2]
	return float64(p99.BNS) > 1.1*float64(p99.ANS)
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
	worse, better, open := by(Appeared, More), by(Went, Less), by(Unclear)
	blind := func(s *Side) bool { return s.Requests < cause.MinRequests }
	p99 := c.Latency[2]
	latency := fmt.Sprintf("p99 %s → %s", report.Duration(p99.ANS), report.Duration(p99.BNS))
	matters := slices.IndexFunc(open, func(x *Change) bool { return p99.BNS >= p99.ANS || !x.lessThan(better) })
	switch {
	case blind(&c.A) || blind(&c.B):
		c.Verdict = VerdictUnclear
		c.Sentence = fmt.Sprintf("They cannot be compared: A holds %d requests, B %d, and it takes %d.", c.A.Requests, c.B.Requests, cause.MinRequests)
	case len(worse) > 0 && len(better) > 0:
		c.Verdict = VerdictMixed
		first, second := worse[0], better[0]
		if p99.BNS < p99.ANS {
			first, second = second, first
		}
		c.Sentence = fmt.Sprintf("%s: %s, and %s.", latency, first.sentence(), second.sentence())
	case len(worse) > 0:
		c.Verdict = VerdictWorse
		c.Sentence = fmt.Sprintf("%s: %s.", latency, worse[0].sentence())
	case matters >= 0:
		c.Verdict = VerdictUnclear
		x := open[matters]
		c.Sentence = fmt.Sprintf("%s: whether %s is in both is not known: %s.", latency, x.Cause, x.Why)
		if x.A != nil && x.B != nil {
			c.Sentence = fmt.Sprintf("%s: whether %s is the same in both is not known: %s.", latency, x.Cause, x.Why)
		}
		if len(better) > 0 {
			c.Sentence = fmt.Sprintf("%s: %s, but whether %s is in both is not known: %s.", latency, better[0].sentence(), x.Cause, x.Why)
		}
	case len(better) > 0:
		c.Verdict = VerdictBetter
		c.Sentence = fmt.Sprintf("%s: %s.", latency, better[0].sentence())
		if len(open) > 0 {
			x := open[0]
			c.Sentence = fmt.Sprintf("%s: %s; whether A had %s, too, which takes %s in B, is not known.", latency, better[0].sentence(), x.Cause, report.Duration(x.B.NS))
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

// lessThan tells whether what B has of a cause, and A perhaps has not, is less than a cause
// went or shrank by, in the same contrast: then it takes nothing from that B is better.
func (c *Change) lessThan(better []*Change) bool {
	return c.A == nil && slices.ContainsFunc(better, func(x *Change) bool {
		by := x.A.NS
		if x.B != nil {
			by -= x.B.NS
		}
		return x.Contrast == c.Contrast && x.A.Whole == c.B.Whole && c.B.NS < by
	})
}

// sentence says what became of a cause that appeared, grew, shrank or went.
func (c *Change) sentence() string {
	place := ""
	if c.A != nil && c.B != nil && c.Why != "" {
		place = ", " + c.Why
	}
	switch c.Became {
	case Appeared:
		return fmt.Sprintf("%s appeared in B and takes %s%s", c.Cause, report.Duration(c.B.NS), c.B.of())
	case More:
		return fmt.Sprintf("%s grew from %s to %s%s", c.Cause, report.Duration(c.A.NS), report.Duration(c.B.NS), place)
	case Went:
		return fmt.Sprintf("%s went, which took %s in A", c.Cause, report.Duration(c.A.NS))
	}
	return fmt.Sprintf("%s shrank from %s to %s%s", c.Cause, report.Duration(c.A.NS), report.Duration(c.B.NS), place)
}

// of says of what a part is.
func (p *Part) of() string {
	switch {
	case p.Contrast == cause.LevelContrast:
		return " of every request"
	case p.Contrast != cause.TailContrast:
		return " before requests are seen"
	case p.Whole:
		return " of slow requests"
	}
	return " of what slow requests take longer"
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
