package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/whylate/whylate/blame"
)

// level judges the median request against zero or a baseline. Requests of a service that is
// healthy but for that are judged, too, if they connect anew: see [Case.anew].
func (v *Verdict) level(a *blame.Attribution, p *blame.Population, s Settings, healthy bool) {
	c := newCase(a, p, LevelContrast)
	own := c.Sum(c.Free(func(k blame.Key) bool {
		return k.Flags&blame.Self != 0 && (k.Kind == blame.CPU || k.Kind == blame.Assist)
	}))
	wait, whole := c.Excess-own, c.Excess
	if s.Baseline != nil {
		c.usual = c.against(s.Baseline)
		wait = c.Excess
	}
	median, only := p.Quantile(0.5), false
	switch {
	case c.Excess <= 0, wait <= 0:
		return
	case s.SLO > 0:
		if median <= s.SLO {
			return
		}
	case s.Baseline != nil:
		if wait < NamedExcess || wait < BaselineGrowth*(whole-wait) {
			return
		}
	case wait < LevelShare*c.Excess || wait < LevelWait || median < LevelWait:
		if !healthy || !c.anew(s) {
			return
		}
		only = true
	}
	v.Level = &LevelVerdict{Median: median, WaitShare: wait / whole, Against: "zero"}
	if s.Baseline != nil {
		v.Level.Against = s.BaselineName
	}
	findings, suspects := slices.Clone(v.Findings), slices.Clone(v.Consistent)
	v.contrast(c, s)
	if only && !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Contrast == LevelContrast && f.anew() }) {
		v.Level, v.Findings, v.Consistent = nil, findings, suspects
	}
}

// conclude forms the verdict and its sentence.
func (v *Verdict) conclude(a *blame.Attribution, p *blame.Population, s Settings, healthy, mixed bool, hanging int, oldest int64) {
	p99 := p.Quantile(0.99)
	var tailFindings, levelFindings []Finding
	explained, levelShare := 0.0, 0.0
	for _, f := range v.Findings {
		if f.Contrast == LevelContrast {
			levelFindings = append(levelFindings, f)
			levelShare += f.Share
			continue
		}
		tailFindings = append(tailFindings, f)
		explained += f.Share
	}
	if len(tailFindings) > 0 {
		explained += v.told + v.alongside(&tailFindings[0])
	}
	suspects := 0.0
	var tailSuspects, levelSuspects []Consistent
	for _, c := range v.Consistent {
		if c.Contrast == LevelContrast {
			levelSuspects = append(levelSuspects, c)
			continue
		}
		tailSuspects = append(tailSuspects, c)
		if c.found {
			explained += c.Share
			continue
		}
		suspects += c.Share
	}
	// Of look-alikes one of which was found the rest may be more of the same: they do
	// not speak against it unless they are twice as much.
	backed := 0.0
	for _, c := range tailSuspects {
		if len(tailFindings) > 0 && slices.Contains(c.Causes, tailFindings[0].Cause) {
			backed += c.Share
		}
	}
	enough := ExplainedShare * (1 - max(0, v.Mix)) // what endpoints differ in is no cause's
	possible := enough
	if v.OtherEndpoint > 0 && len(tailFindings) > 0 && needless(tailFindings[0]) {
		enough = min(enough, NeedlessShare)
	}
	switch {
	case p.N < MinRequests: // the sentence stands
		switch {
		case hanging == 0:
		case len(v.Findings) > 0:
			v.Sentence += " " + v.Findings[0].Summary
		case len(v.Consistent) > 0:
			v.Sentence += fmt.Sprintf(" %s It may be %s.", v.Consistent[0].Summary, strings.Join(v.Consistent[0].Causes, " or "))
		default:
			v.Sentence += " Record longer, or look at their goroutines."
		}
	case len(tailFindings) > 0 && explained+suspects >= enough && (explained >= enough || explained >= max(suspects-backed, backed/2)):
		f := tailFindings[0]
		v.Verdict, v.Findings = "cause", slices.Concat(tailFindings, levelFindings) // the first is the answer
		v.Sentence = fmt.Sprintf("p99 is %s: %s", Ms(float64(p99)), lowerFirst(f.Summary))
		switch {
		case v.OtherEndpoint > 0:
			v.Sentence = fmt.Sprintf("p99 is %s, and the slow requests are %s (%s): %s", Ms(float64(p99)), v.another(a), v.endpoint(a), lowerFirst(f.Summary))
		case v.Whole:
			v.Sentence = fmt.Sprintf("p99 is %s, and every request is slow: %s", Ms(float64(p99)), lowerFirst(f.Summary))
		}
	case v.Level != nil && (levelShare >= ExplainedShare || len(levelSuspects) > 0 && suspects < ExplainedShare):
		v.Reason = "level"
		if len(levelFindings) > 0 {
			v.Findings = slices.Concat(levelFindings, tailFindings)
			v.Sentence = levelFindings[0].Summary
			if levelShare >= ExplainedShare && (s.Baseline != nil || s.SLO > 0 || levelFindings[0].anew() || Lookup(levelFindings[0].Cause).Broken) {
				v.Verdict, v.Reason = "cause", ""
			}
		} else {
			v.Sentence = levelSuspects[0].Summary
		}
	case healthy && v.Level == nil:
		v.Verdict = "healthy"
		v.Sentence = fmt.Sprintf("Nothing to explain: p50 %s, p99 %s over %.0f requests.", Ms(float64(p.Quantile(0.5))), Ms(float64(p99)), p.N)
		if s.SLO > 0 {
			v.Sentence = fmt.Sprintf("Within the objective of %s: p50 %s, p99 %s over %.0f requests.", Ms(float64(s.SLO)), Ms(float64(p.Quantile(0.5))), Ms(float64(p99)), p.N)
		}
		if f := v.asks; f != nil {
			v.Sentence += fmt.Sprintf(" Slow requests are those that make a call, as others do not: %s of all requests make it, and it takes the slow ones hardly longer than others of them. Most of it goes to %s: %s", Pct(v.asking), f.Cause, lowerFirst(f.Summary))
		}
		if f := v.spreads; f != nil {
			v.Sentence += fmt.Sprintf(" What slow requests take longer, %s, is how much they vary: there is no step between them and others. Most of it goes to %s: %s", Ms(v.varies), f.Cause, lowerFirst(f.Summary))
		}
		if len(v.onlyBusy) > 0 {
			c := v.onlyBusy[0]
			v.Sentence += fmt.Sprintf(" What slow requests take longer, %s, may be no more than that others wanted the machine's CPUs, too. Of it, %s: %s", Ms(v.busyNS), strings.Join(c.Causes, " or "), lowerFirst(c.Summary))
			v.Sentence += fmt.Sprintf(" If that is too long, say so (--slo), or record %s.", c.Record)
		}
		if v.many {
			v.Sentence += fmt.Sprintf(" Slow requests take %s longer by many things, none of which surely takes %s", Ms(v.Tail.Excess), Ms(NamedExcess))
			if v.alone > 0 {
				v.Sentence += fmt.Sprintf(", but for %s in which their threads did not get a CPU when they wanted one", Ms(v.alone))
			}
			v.Sentence += "."
		}
		if a.Found().Roles[p.Role].Pushed() {
			v.Sentence += " They are what streams send, from when the stream's goroutine was woken: whether the news was late is not known."
		}
		if v.onlyMixed {
			v.Sentence += fmt.Sprintf(" Slow requests are more often of endpoints that take longer, and %s longer than is usual for these.", Ms((1-v.Mix)*v.Tail.Excess))
		}
		if v.onlyMissed {
			v.Sentence += fmt.Sprintf(" Slow requests take %s longer because they came just after one goroutine had begun to work for those before them: it takes as long as always.", Ms(v.missed))
		}
		if v.onlyOwn {
			v.Sentence += fmt.Sprintf(" The recording itself cost slow requests %s.", Ms(v.own.NS))
		}
	case mixed && v.Level == nil:
		v.Verdict = "healthy"
		v.Sentence = fmt.Sprintf("The slow requests are %s, not a stall: %s of the difference is %s.", v.another(a), Pct(v.Mix), v.endpoint(a))
		if v.takes != nil {
			v.Sentence += fmt.Sprintf(" Its time goes to %s: %s", v.takes.Cause, lowerFirst(v.takes.Summary))
		}
	case v.Level != nil && suspects+explained < ExplainedShare:
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("Every request spends %s of its %s outside its own CPU, and no cause of the catalogue explains it.", Pct(v.Level.WaitShare), Ms(float64(v.Level.Median)))
	case suspects+explained >= possible && len(tailSuspects) > 0:
		v.Reason, v.Consistent = "look-alikes", slices.Concat(tailSuspects, levelSuspects) // the first is what is said
		s := tailSuspects[0]
		v.Sentence = fmt.Sprintf("p99 is %s: %s ", Ms(float64(p99)), lowerFirst(s.Summary))
		if len(s.Causes) == 1 {
			v.Sentence += fmt.Sprintf("It may be %s; to be sure, record %s.", s.Causes[0], s.Record)
		} else {
			v.Sentence += fmt.Sprintf("It is %s; to tell them apart, record %s.", strings.Join(s.Causes, " or "), s.Record)
		}
	case hanging > 0:
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("%d requests were open at the end, the oldest for %s.", hanging, Ms(float64(oldest)))
	case v.Unresolved > UnresolvedShare:
		v.Reason = "unresolved"
		v.Sentence = fmt.Sprintf("p99 is %s, and %s of what slow requests take longer cannot be resolved.", Ms(float64(p99)), Pct(v.Unresolved))
	case v.place != "":
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("p99 is %s, and no cause of the catalogue explains it: %s.", Ms(float64(p99)), v.place)
	default:
		v.Reason = "unexplained"
		v.Sentence = fmt.Sprintf("p99 is %s, and no cause of the catalogue explains half of what slow requests take longer.", Ms(float64(p99)))
	}
}

// alongside is the share of what has no name and comes with what a finding names: contention that yields to it, other
// effects of the same function, and, of who computes, that the process's own threads had the CPUs.
func (v *Verdict) alongside(f *Finding) (share float64) {
	if f.Cause == v.yieldedTo {
		share = v.yielded
	}
	if f.Where != nil {
		share += v.beside[f.Where.Function]
	}
	return share + v.crowded[f.Cause]
}

func (v *Verdict) endpoint(a *blame.Attribution) string {
	if name := endpointName(a, v.MixEndpoint, shortName); name != "" {
		return name
	}
	return "the mixture of endpoints"
}

// another says what a tail is more often than others.
func (v *Verdict) another(a *blame.Attribution) string {
	if _, asks := a.Endpoint(v.MixEndpoint); asks != 0 {
		return "those that ask a peer"
	}
	return "another endpoint"
}

// EndpointName is the name of an endpoint, see blame.Attribution.EndpointOf; "" if there is none.
func EndpointName(a *blame.Attribution, e int) string {
	return endpointName(a, e, func(function string) string { return function })
}

func endpointName(a *blame.Attribution, e int, name func(function string) string) string {
	endpoint, asks := a.Endpoint(e)
	switch {
	case endpoint == "":
		return ""
	case asks == 0:
		return name(endpoint)
	}
	return fmt.Sprintf("%s when it asks a peer in %s", name(endpoint), name(a.Sites[asks].Func))
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
