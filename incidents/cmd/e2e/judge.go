package main

import (
	"fmt"
	"slices"
	"strings"
)

// A diagnosis is what the driver reads of whylate's JSON.
type diagnosis struct {
	Schema     string `json:"schema"`
	DurationNS int64  `json:"duration_ns"`
	Verdict    string `json:"verdict"`
	Reason     string `json:"reason"`
	Requests   struct {
		Count int   `json:"count"`
		P99NS int64 `json:"p99_ns"`
	} `json:"requests"`
	Findings []struct {
		Cause    string  `json:"cause"`
		Contrast string  `json:"contrast"`
		Share    float64 `json:"share"`
	} `json:"findings"`
	ConsistentWith []struct {
		Causes []string `json:"causes"`
		Share  float64  `json:"share"`
	} `json:"consistent_with"`
}

const schema = "whylate.diagnosis/1"

// exitCodes are whylate's, by verdict.
var exitCodes = map[string]int{"healthy": 0, "cause": 3, "inconclusive": 4}

// found names what a diagnosis says, look-alikes in braces, and the share of the
// first of it.
func (d *diagnosis) found() (names, share string) {
	var all []string
	share = "-"
	for i, f := range d.Findings {
		name := f.Cause
		if f.Contrast != "tail" {
			name += " (" + f.Contrast + ")"
		}
		if all = append(all, name); i == 0 {
			share = percent(f.Share)
		}
	}
	for _, c := range d.ConsistentWith {
		if all = append(all, "{"+strings.Join(c.Causes, ",")+"}"); len(all) == 1 {
			share = percent(c.Share)
		}
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, " + "), share
	case d.Reason != "":
		return d.Reason, share
	}
	return "-", share
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// judge returns what is wrong with a diagnosis of t, or "". A finding that is not
// right is wrong wherever it stands in the list. Look-alikes are enough if they
// leave no other name; they make the verdict inconclusive.
func (t trial) judge(d *diagnosis) string {
	if t.noHost {
		return t.judgeBlind(d)
	}
	var first, names []string
	switch {
	case len(d.Findings) > 0:
		first = []string{d.Findings[0].Cause}
		for _, f := range d.Findings {
			names = append(names, f.Cause)
		}
	case len(d.ConsistentWith) > 0:
		first = d.ConsistentWith[0].Causes
		for _, c := range d.ConsistentWith {
			names = append(names, c.Causes...)
		}
	}
	right := func(name string) bool { return slices.Contains(t.causes, name) }
	for _, name := range names {
		if !right(name) && !slices.Contains(t.also, name) {
			return "it names " + name
		}
	}
	alike := t.verdict == "cause" && len(d.Findings) == 0 && slices.ContainsFunc(first, right)
	switch {
	case alike && d.Verdict == "inconclusive":
		return ""
	case d.Verdict != t.verdict:
		return "the verdict is " + d.Verdict + ", not " + t.verdict
	case len(t.causes) > 0 && !slices.ContainsFunc(first, right):
		return "it does not name " + strings.Join(t.causes, " or ") + " first"
	}
	return ""
}

// judgeBlind does so for a diagnosis without the host's evidence. Whatever stands
// in a set beside what was planted looks like it; only a name that is given to it
// is wrong, or that it was overlooked.
func (t trial) judgeBlind(d *diagnosis) string {
	for _, f := range d.Findings {
		if !slices.Contains(t.causes, f.Cause) && !slices.Contains(t.also, f.Cause) {
			return "it names " + f.Cause
		}
	}
	right := func(name string) bool { return slices.Contains(t.causes, name) }
	switch {
	case d.Verdict == "healthy":
		return "the verdict is healthy"
	case len(d.Findings) == 0 && len(d.ConsistentWith) > 0 && !slices.ContainsFunc(d.ConsistentWith[0].Causes, right):
		return "the look-alikes do not include " + strings.Join(t.causes, " or ")
	}
	return ""
}
