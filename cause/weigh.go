package cause

import (
	"fmt"
	"sort"
	"strings"

	"github.com/whylate/whylate/blame"
)

// unmaterial says why a share is too small or too uncertain to be reported by
// name, or "". What endpoints differ in, mix, is no cause's: the shares are those of the rest.
func unmaterial(s blame.Share, mix float64, set Settings, holds Truth) string {
	if holds == Unknown {
		if s.Share < SuspectShare {
			return fmt.Sprintf("only %s of the excess", Pct(s.Share))
		}
		return ""
	}
	switch {
	case s.Share < NamedShare*unmixed(mix):
		return fmt.Sprintf("only %s of the excess", Pct(s.Share))
	case s.NS < NamedExcess:
		return fmt.Sprintf("only %s per slow request", Ms(s.NS))
	case s.NS < NamedSLO*float64(set.SLO):
		return fmt.Sprintf("%s per slow request, below a tenth of the SLO", Ms(s.NS))
	}
	return uncertain(s, mix)
}

// unmixed is the part of the excess that is not mix, where that is less than what would be told instead.
func unmixed(mix float64) float64 { return 1 - min(max(0, mix), MixShare) }

// uncertain says that a share is not known well enough to be reported by name, or "".
func uncertain(s blame.Share, mix float64) string {
	if s.HasInterval && s.Episodes >= Pattern {
		switch {
		case s.Low < NamedLow*unmixed(mix):
			return fmt.Sprintf("its share is uncertain: %s [%s..%s]", Pct(s.Share), Pct(s.Low), Pct(s.High))
		case s.High-s.Low > NamedWidth:
			return fmt.Sprintf("its share is too uncertain: %s [%s..%s]", Pct(s.Share), Pct(s.Low), Pct(s.High))
		}
	}
	return ""
}

// slight reports whether a share may be so little of the excess, in nanoseconds, that
// nobody minds, although it is there: of small tails that consist of many things, which
// one is larger than NamedExcess is chance.
func slight(s blame.Share, excess float64, set Settings) bool {
	minded := NamedExcess
	if set.SLO > 0 {
		minded = min(minded, NamedSLO*float64(set.SLO))
	}
	most := s.HasInterval && s.Episodes >= Pattern && s.Low >= MostShare
	return !most && surely(s, excess) < minded
}

// surely is what a share of the excess is at least, in nanoseconds. Of fewer episodes than
// make a pattern there is no interval to speak of: chance alone makes them half as many
// (the standard deviation of a count of 4 is 2).
func surely(s blame.Share, excess float64) float64 {
	if s.HasInterval && s.Episodes >= Pattern {
		return s.Low * excess
	}
	return s.NS / 2
}

// finding builds the report of an outcome that holds.
func finding(c *Case, o outcome, s blame.Share, unresolved float64) Finding {
	f := Finding{
		Cause: o.entry.ID, Contrast: c.Contrast, Share: s.Share, Pattern: repeated,
		ExcessNS: int64(s.NS), P99WithoutNS: s.P99Without, order: s.Share,
		Where: o.j.Where, Fix: o.entry.fixes(o.j), Verify: o.entry.Verify, Via: o.j.Via,
		Summary: summary(c, o, s), keys: o.j.Keys,
	}
	if f.P99WithoutNS > 0 {
		f.P99NS = c.P.Quantile(0.99)
	}
	if s.HasInterval {
		low, high := s.Low, s.High
		f.ShareLow, f.ShareHigh = &low, &high
	}
	doubt := 0
	if !s.HasInterval {
		doubt++
	}
	for _, e := range o.j.Evidence {
		f.Evidence = append(f.Evidence, e.Text)
		if !e.Decides && e.Holds != Yes {
			doubt++
		}
	}
	if unresolved > UnresolvedShare/2 {
		doubt++
	}
	f.settled = [...]string{"high", "medium", "low"}[min(doubt, 2)]
	if f.Confidence = f.settled; s.Episodes < Pattern {
		f.Pattern, f.Confidence = oneIncident, "low"
	}
	f.Examples = c.examples(o.j.Keys)
	return f
}

func consistent(c *Case, o outcome, s blame.Share) Consistent {
	alike, record := o.j.alike()
	if c.Watched() { // what was recorded cannot be asked for
		record = strings.ReplaceAll(record, recordKernel, "longer, on a calm machine")
	}
	out := Consistent{
		Causes: append([]string{o.entry.ID}, alike...), Share: s.Share, Record: record,
		Contrast: c.Contrast, Where: o.j.Where, Summary: summary(c, o, s), keys: o.j.Keys,
	}
	for _, e := range o.j.Evidence {
		out.Evidence = append(out.Evidence, e.Text)
	}
	return out
}

func summary(c *Case, o outcome, s blame.Share) string {
	if c.Contrast == LevelContrast && c.usual != nil {
		return fmt.Sprintf("Requests spend %s more than in the baseline (%s of what they take longer): %s.", Ms(s.NS), Pct(s.Share), o.j.Subject)
	}
	if c.Contrast == LevelContrast {
		if fast := c.P.Quantile(0.1); WholeRatio*float64(fast) < float64(c.P.Quantile(0.5)) {
			return fmt.Sprintf("Most requests spend %s (%s of their time), although a tenth takes no more than %s in all: %s.", Ms(s.NS), Pct(s.Share), Ms(float64(fast)), o.j.Subject)
		}
		return fmt.Sprintf("Every request spends %s (%s of its time): %s.", Ms(s.NS), Pct(s.Share), o.j.Subject)
	}
	if c.P.Whole {
		return fmt.Sprintf("Slow requests spend %s (%s of their time): %s.", Ms(s.NS), Pct(s.Share), o.j.Subject)
	}
	return fmt.Sprintf("Slow requests take %s longer (%s of their excess): %s.", Ms(s.NS), Pct(s.Share), o.j.Subject)
}

// examples returns the ids of up to three tail requests that spend most under keys.
func (c *Case) examples(keys []blame.KeyID) []string {
	in := map[blame.KeyID]bool{}
	for _, k := range keys {
		in[k] = true
	}
	type hit struct {
		r  int
		ns int64
	}
	var hits []hit
	for _, r := range c.Tail {
		h := hit{r: r}
		for _, p := range c.A.Requests[r].Pieces {
			if in[p.Key] {
				h.ns += p.NS
			}
		}
		if h.ns > 0 {
			hits = append(hits, h)
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].ns > hits[j].ns })
	var out []string
	for _, h := range hits[:min(3, len(hits))] {
		out = append(out, fmt.Sprintf("r%d", c.A.Requests[h.r].Request))
	}
	return out
}
