// Package score compares diagnoses with the truth about incidents. What counts is
// written down here, so that a number in a table means one thing only.
package score

import (
	"regexp"
	"slices"
	"strings"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/report"
)

// Schema names the format of a truth file, Suffix its place: it stands beside
// NAME.whylate as NAME and this.
const (
	Schema = "whylate.truth/1"
	Suffix = ".truth.json"
)

// Truth is what is known of an incident. It is a JSON file beside the incident.
type Truth struct {
	Schema string `json:"schema"`
	// Host is the program, Case the situation it was in.
	Host string `json:"host"`
	Case string `json:"case"`
	// HeldOut marks programs whose results no rule was tuned to.
	HeldOut bool `json:"held_out,omitempty"`
	// Causes are what was planted, the largest first; a healthy control has none, a
	// composite several.
	Causes []Planted `json:"causes,omitempty"`
	// Beside are causes that were not planted but are real where it ran, such as the
	// contention of programs that share a machine. They may be named behind a right
	// one, and in a control; they are no right answer.
	Beside []string `json:"beside,omitempty"`
	// Pairs are the runs with and without all that was planted that confirmed it;
	// none if it was not confirmed.
	Pairs []Pair `json:"pairs,omitempty"`
}

// Pair is the clients' 99th percentile, in ns, in a run with what was planted and in
// one without.
type Pair struct {
	WithNS    int64 `json:"with_ns"`
	WithoutNS int64 `json:"without_ns"`
}

// LeastPairs is how many pairs of runs confirm what was planted.
const LeastPairs = 3

// Confirmed reports whether removal has shown that what was planted is the cause; a
// control has nothing to show.
func (t *Truth) Confirmed() bool { return t.Control() || len(t.Pairs) >= LeastPairs }

// Severity is how many times the 99th percentile rose, at least, over the pairs; 0
// without any.
func (t *Truth) Severity() float64 {
	least := 0.0
	for i, p := range t.Pairs {
		if r := float64(p.WithNS) / float64(max(1, p.WithoutNS)); i == 0 || r < least {
			least = r
		}
	}
	return least
}

// Planted is one cause of an incident.
type Planted struct {
	// Cause is the id in the catalogue by its order of ownership, Accept others that
	// are as true, because what was planted is both.
	Cause  string   `json:"cause"`
	Accept []string `json:"accept,omitempty"`
	// Place is the function to blame, as Go writes it in stacks; empty if none is.
	Place string `json:"place,omitempty"`
	// Share is the part of the tail's excess that goes if the cause is removed; 0 if
	// that was not measured.
	Share float64 `json:"share,omitempty"`
}

// Chosen reports whether a case is among those that a list of texts, separated by
// commas, stands for: one of them is in its name, whose end is a $.
func Chosen(name, texts string) bool {
	return slices.ContainsFunc(strings.Split(texts, ","), func(text string) bool { return strings.Contains(name+"$", text) })
}

func (p *Planted) is(id string) bool { return id == p.Cause || slices.Contains(p.Accept, id) }

func (t *Truth) planted(id string) *Planted {
	for i := range t.Causes {
		if t.Causes[i].is(id) {
			return &t.Causes[i]
		}
	}
	return nil
}

// tie is by how much the shares of two planted causes may differ for both to be the
// largest: three pairs of runs do not tell them apart.
const tie = 0.1

// largest returns the planted cause that a name is for if none was larger, else nil. Of
// shares that were not measured the first is the largest.
func (t *Truth) largest(id string) *Planted {
	most := 0.0
	for _, p := range t.Causes {
		most = max(most, p.Share)
	}
	for i := range t.Causes {
		if p := &t.Causes[i]; p.is(id) && (most == 0 && i == 0 || most > 0 && p.Share >= most-tie) {
			return p
		}
	}
	return nil
}

func (t *Truth) isLargest(id string) bool { return t.largest(id) != nil }

// WithoutSuffix ends the names of cases that are others without what is planted there.
const WithoutSuffix = "-without"

// Without reports whether it is a control that is nothing but an incident's program
// without what was planted: that this is healthy was never meant.
func (t *Truth) Without() bool { return t.Control() && strings.HasSuffix(t.Case, WithoutSuffix) }

// Control reports whether nothing was planted.
func (t *Truth) Control() bool { return len(t.Causes) == 0 }

// Result is how a diagnosis did.
type Result string

// The results. Of a control, Right is the verdict healthy, Wrong is any name that
// is not real there, and Silent is what is left: an inconclusive verdict, or the name
// of something that is real beside it.
const (
	// Right: the verdict is cause, the first finding was planted and is the largest
	// of what was, or as large, and every other finding is real.
	Right Result = "right"
	// Honest: inconclusive, and what is named first, or else the first set of
	// look-alikes, has what was planted; nothing is named that is not real.
	Honest Result = "honest"
	// Wrong: something is named that is not real, or something smaller first.
	Wrong Result = "wrong"
	// Silent: nothing wrong is named, and the truth is not found.
	Silent Result = "silent"
)

// Of scores a diagnosis.
func Of(t *Truth, d *report.Diagnosis) Result {
	for _, f := range d.Findings {
		if t.planted(f.Cause) == nil && !slices.Contains(t.Beside, f.Cause) {
			return Wrong
		}
	}
	if t.Control() {
		if d.Verdict == "healthy" {
			return Right
		}
		return Silent
	}
	switch {
	case len(d.Findings) > 0 && !t.isLargest(d.Findings[0].Cause):
		return Wrong
	case len(d.Findings) > 0 && d.Verdict == "cause":
		return Right
	case len(d.Findings) > 0:
		return Honest
	case d.Verdict == "inconclusive" && len(d.ConsistentWith) > 0 && slices.ContainsFunc(d.ConsistentWith[0].Causes, t.isLargest):
		return Honest
	}
	return Silent
}

// Ranked returns the causes of a diagnosis in its own order: the findings, then the
// members of the sets of look-alikes.
func Ranked(d *report.Diagnosis) (ids []string) {
	add := func(id string) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, f := range d.Findings {
		add(f.Cause)
	}
	for _, c := range d.ConsistentWith {
		for _, id := range c.Causes {
			add(id)
		}
	}
	return ids
}

// At reports whether the largest planted cause is among the first k of ids: its mean
// over incidents is AC@k.
func At(t *Truth, ids []string, k int) bool {
	return slices.ContainsFunc(ids[:min(k, len(ids))], t.isLargest)
}

// AtPlace reports whether the first finding, or without one the first set, is at the
// planted place: that of the largest planted cause that it names, if it names one. known
// is false if that has none.
func AtPlace(t *Truth, d *report.Diagnosis) (right, known bool) {
	if t.Control() {
		return false, false
	}
	var where *cause.Place
	var named []string
	switch {
	case len(d.Findings) > 0:
		where, named = d.Findings[0].Where, []string{d.Findings[0].Cause}
	case len(d.ConsistentWith) > 0:
		where, named = d.ConsistentWith[0].Where, d.ConsistentWith[0].Causes
	}
	place := t.Causes[0].Place
	for _, id := range named {
		if p := t.largest(id); p != nil {
			place = p.Place
			break
		}
	}
	return where != nil && SamePlace(where.Function, place), place != ""
}

// SamePlace reports whether two functions are the same but for type parameters and
// function literals in them.
func SamePlace(x, y string) bool { return plain(x) == plain(y) }

var literal = regexp.MustCompile(`(\.func\d+|\.gowrap\d+|\.\d+|-range\d+)+$`)

func plain(f string) string {
	var b strings.Builder
	depth := 0
	for _, r := range f {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		default:
			if depth == 0 {
				b.WriteRune(r)
			}
		}
	}
	return literal.ReplaceAllString(b.String(), "")
}

// Distance is the total variation between the planted shares and those of the
// findings, between 0 and 1; what is left of each to one is a share of its own. known
// is false if the shares of what was planted were not measured.
func Distance(t *Truth, d *report.Diagnosis) (tv float64, known bool) {
	found := map[string]float64{}
	rest := 1.0
	for _, f := range d.Findings {
		if f.Contrast != "tail" {
			continue
		}
		id := f.Cause
		if p := t.planted(id); p != nil {
			id = p.Cause
		}
		found[id] += f.Share
		rest -= f.Share
	}
	left := 1.0
	var sum float64
	for _, p := range t.Causes {
		if p.Share == 0 {
			return 0, false
		}
		sum += abs(p.Share - found[p.Cause])
		left -= p.Share
		delete(found, p.Cause)
	}
	for _, share := range found {
		sum += abs(share)
	}
	return (sum + abs(left-rest)) / 2, len(t.Causes) > 0
}

func abs(x float64) float64 { return max(x, -x) }

// Covered counts the planted shares that were measured and whose cause was found
// with an interval, and those that lie in it.
func Covered(t *Truth, d *report.Diagnosis) (in, of int) {
	for _, f := range d.Findings {
		p := t.planted(f.Cause)
		if p == nil || p.Share == 0 || f.ShareLow == nil || f.ShareHigh == nil {
			continue
		}
		of++
		if *f.ShareLow <= p.Share && p.Share <= *f.ShareHigh {
			in++
		}
	}
	return in, of
}
