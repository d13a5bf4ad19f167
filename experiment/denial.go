package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/report"
	"github.com/whylate/whylate/report/detail"
)

// answer is what a side that does not name a cause says of it: what became of it, why, and
// behind what it may be hidden.
type answer struct{ became, why, hidden string }

func unclear(format string, args ...any) answer {
	return answer{became: Unclear, why: fmt.Sprintf(format, args...)}
}

// lacking is a side that does not name a cause which the other one names: other is its part
// there, name how the side is called, became what became of the cause if it is denied.
type lacking struct {
	id, name, became string
	d                *report.Diagnosis
	other            *Part
}

func (l lacking) denied(format string, args ...any) answer {
	return answer{became: l.became, why: fmt.Sprintf(format, args...)}
}

// clearlyMore tells whether the other side's part is more than ns, of which there may be that
// much here.
func (l lacking) clearlyMore(ns int64) bool {
	return float64(l.other.LowNS) > grown*float64(max(ns, 0))
}

// answer tells whether the side denies the cause.
func (l lacking) answer() answer {
	for _, k := range l.d.ConsistentWith {
		if slices.Contains(k.Causes, l.id) {
			return unclear("%s is consistent with it, too; to decide: %s", l.name, k.Record)
		}
	}
	switch l.other.Contrast {
	case cause.LevelContrast:
		return l.ofEvery()
	case cause.TailContrast:
		return l.ofSlow()
	}
	if l.d.Verdict == report.VerdictHealthy {
		return l.denied("%s is healthy", l.name)
	}
	return unclear("%s is late by what can be seen in its requests, and then nobody looks for what comes before them", l.name)
}

// ofEvery answers for the time of every request. What a diagnosis rules out by a share is of
// its slow requests, and without an objective a median below cause.LevelWait is not asked at
// all: what there is to hold against is what the median request takes.
func (l lacking) ofEvery() answer {
	r, level := &l.d.Requests, l.d.Level
	if r.Count >= cause.MinRequests && l.clearlyMore(r.P50NS) {
		return l.denied("in %s the median request takes only %s altogether", l.name, report.Duration(r.P50NS))
	}
	if level != nil {
		if rest := int64(level.OtherShare * float64(level.ExcessNS)); l.clearlyMore(rest) {
			return l.denied("in %s what every request spends otherwise is only %s", l.name, report.Duration(rest))
		}
	}
	if x := l.ruledOut(); x != nil && !x.ByShare && !x.Fits && !x.Absent {
		return l.denied("in %s: %s", l.name, x.Because)
	}
	return unclear("in %s the median request takes %s, and how much of that it is was not judged", l.name, report.Duration(r.P50NS))
}

// ofSlow answers for the time that slow requests take, or take longer.
func (l lacking) ofSlow() answer {
	d := l.d
	// Whatever it has of the cause, it is no more than all of it.
	if d.Requests.Count >= cause.MinRequests && d.Reason != "level" {
		switch {
		case l.other.Whole && l.clearlyMore(max(d.Requests.Tail.MeanNS, d.ExcessNS)):
			return l.denied("in %s slow requests take only %s altogether", l.name, report.Duration(max(d.Requests.Tail.MeanNS, d.ExcessNS)))
		case !l.other.Whole && l.clearlyMore(d.ExcessNS):
			return l.denied("in %s slow requests take only %s longer altogether", l.name, report.Duration(d.ExcessNS))
		}
	}
	if why := hidden[d.Reason]; why != "" {
		return unclear("%s is inconclusive: %s", l.name, why)
	}
	x := l.ruledOut()
	switch {
	case x != nil && x.Fits:
		return unclear("%s has some of it, too little to be named: %s", l.name, x.Because)
	case x != nil && !x.ByShare && !x.Absent:
		return l.denied("in %s: %s", l.name, x.Because)
	case x == nil && d.Verdict != report.VerdictHealthy:
		return unclear("%s cannot say: what decides was not recorded, or there are too few requests", l.name)
	}
	// What denies it is a share of an excess, which says no more than a time does.
	if ns := l.spends(x); !l.clearlyMore(ns) {
		return unclear("%s may have up to %s of it, which is not clearly less, but too little of its excess to be named", l.name, report.Duration(ns))
	}
	if by, next := l.behind(); by != "" {
		a := unclear("in %s it may be hidden behind %s: slow requests take %s longer, and those that are next to them%s", l.name, by, report.Duration(d.ExcessNS), next)
		a.hidden = by
		return a
	}
	switch {
	case x == nil:
		return l.denied("%s is healthy", l.name)
	case x.Absent:
		return l.denied("in %s there is nothing of it, or next to nothing", l.name)
	}
	return l.denied("in %s: %s", l.name, x.Because)
}

func (l lacking) ruledOut() *cause.RuledOut {
	i := slices.IndexFunc(l.d.RuledOut, func(r cause.RuledOut) bool { return r.Cause == l.id })
	if i < 0 {
		return nil
	}
	return &l.d.RuledOut[i]
}

// spends is what slow requests may spend on the cause, in nanoseconds: x, if not nil, is how
// it was ruled out.
func (l lacking) spends(x *cause.RuledOut) int64 {
	share := 0.
	if x != nil {
		share = x.Number
	}
	for _, u := range l.d.Unnamed {
		if slices.Contains(u.Causes, l.id) {
			share = max(share, u.Share)
		}
	}
	ns := int64(share * float64(l.d.ExcessNS))
	if l.other.Whole && !splitsWhole(l.d) {
		ns += l.d.Requests.Typical.MeanNS // typical ones may have it, too
	}
	return ns
}

// behind tells behind what the cause may be hidden, "" if it is not, and what is known of the
// requests that would show it. The tail holds the slowest requests: where something larger
// makes them slow, one that is late by the cause is not among them, and its share there is
// none. Such requests are next to the tail then, and if those are not late by as much, there
// are none.
func (l lacking) behind() (by, next string) {
	d := l.d
	if d.ExcessNS <= l.other.LowNS {
		return "", "" // they would be among the slowest
	}
	next = " are not known"
	if ns, ok := nextToTail(d); ok {
		if l.clearlyMore(ns) {
			return "", ""
		}
		next = " " + report.Duration(ns)
	}
	largest := -1
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Cause != l.id && f.Contrast == cause.TailContrast && (largest < 0 || f.ExcessNS > d.Findings[largest].ExcessNS) {
			largest = i
		}
	}
	switch {
	case largest >= 0:
		return d.Findings[largest].Cause, next
	case d.Mix.Share >= cause.MixShare && d.Mix.Asks != "":
		return "what is asked in " + d.Mix.Asks, next
	case d.Mix.Share >= cause.MixShare && d.Mix.Endpoint != "":
		return "the endpoint " + d.Mix.Endpoint, next
	case len(d.ConsistentWith) > 0:
		return strings.Join(d.ConsistentWith[0].Causes, " or "), next
	}
	return "what else makes them slow", next
}

// nextToTail is by how much the slowest requests beside the tail take longer than typical
// ones, in nanoseconds: the mean over as many as the tail holds. If the tail is another
// endpoint, that endpoint is left out. It is not known without details.
func nextToTail(d *report.Diagnosis) (ns int64, ok bool) {
	if d.Detail == nil {
		return 0, false
	}
	var next []*detail.Request
	want := 0.
	for i := range d.Detail.Requests {
		r := &d.Detail.Requests[i]
		if r.Band == detail.Tail {
			want += r.Weight
		}
		if r.Band != detail.Tail && !r.InFlight && (d.Mix.Share < cause.MixShare || d.Mix.Asks != "" || r.Endpoint != d.Mix.Endpoint) {
			next = append(next, r)
		}
	}
	slices.SortFunc(next, func(x, y *detail.Request) int { return cmp.Compare(y.DurationNS, x.DurationNS) })
	var sum, n float64
	for _, r := range next {
		if n >= want {
			break
		}
		sum, n = sum+r.Weight*float64(r.DurationNS), n+r.Weight
	}
	if n == 0 {
		return 0, false
	}
	return max(0, int64(sum/n)-d.Requests.Typical.MeanNS), true
}

// splitsWhole tells whether the shares of a diagnosis are of all the time that its slow requests
// take, not of what they take longer: there are no fast ones then, or they are another endpoint.
func splitsWhole(d *report.Diagnosis) bool {
	return d.Requests.Tail.MeanNS > 0 && d.ExcessNS >= d.Requests.Tail.MeanNS
}

// hidden are the reasons of an inconclusive verdict for which a cause may be there although
// nothing of it is in the tail, and why.
var hidden = map[string]string{
	"level":        "every request waits alike; --slo says whether that is too long",
	"unresolved":   "too much of the excess could not be followed to anyone",
	"few-requests": "there are too few requests",
	"lost":         "most of the recording is lost",
	"no-requests":  "no request was found",
	"no-trace":     "no execution trace was recorded",
}
