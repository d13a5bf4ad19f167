package cause

import (
	"math"

	"github.com/whylate/whylate/blame"
)

// isHealthy applies the absolute part of the verdict: is there anything to
// explain, beside what the recording itself took?
func isHealthy(p *blame.Population, s Settings, hanging int, own blame.Share) bool {
	if hanging > 0 {
		return false
	}
	if s.SLO > 0 {
		return p.Quantile(0.99) <= s.SLO || own.NS > 0 && own.P99Without <= s.SLO
	}
	return !felt(means(p, own))
}

// means returns how long slow and typical requests take, in nanoseconds. One request, however slow, is no tail.
func means(p *blame.Population, own blame.Share) (tail, typical float64) {
	return min(p.Tail().Mean, p.MeanButSlowest(p.Tail())) - max(0, own.NS), p.Typical().Mean
}

// usual reports whether slow requests are not felt to take longer than is usual for their endpoints, in which
// they differ from typical ones.
func (v *Verdict) usual(p *blame.Population, s Settings, hanging int) bool {
	tail, typical := means(p, v.ownAtLeast)
	return s.SLO == 0 && hanging == 0 && v.Mix > 0 && v.Mix < MixShare && !felt(tail, typical+v.Mix*v.Tail.Excess)
}

// felt reports whether slow requests take so much longer than typical ones, in
// nanoseconds, that without an SLO somebody minds.
func felt(tail, typical float64) bool {
	excess := tail - typical
	return excess >= HealthyExcess && tail >= HealthyMean &&
		(excess >= HealthyMany || tail >= HealthyTimes*typical) && tail >= HealthyRatio*typical
}

// faint reports whether a tail is felt, but by many small things: none has a name.
func (v *Verdict) faint(s Settings, hanging int) bool {
	return s.SLO == 0 && hanging == 0 && len(v.Findings) == 0 && v.Unresolved <= UnresolvedShare && v.Mix < MixShare &&
		v.Tail.Excess < HealthyMany && v.most < NamedExcess
}

// BusyExcess is the excess from which on somebody minds, although the machine's CPUs may have been wanted by others for all of it. Of 56
// recordings whose tails may be that, or what varies by itself, and of which nothing else is known, 46 were of healthy services, on machines
// that they shared with their clients and a hypervisor's other guests. Below it were 43 of these, and 4 with a fault, of which 3 are told by
// what was before their requests; above it 3, and 6.
const BusyExcess = 20e6

// busyMost is the part of all requests that may be late, by HealthyMany and by half of what the slow ones are: more are no accident. In
// the 43 it was so many in three.
const busyMost = 0.05

// busy reports whether all that may make slow requests late is that others wanted the machine's CPUs, too, or what varies by itself: nothing
// has a name, and nothing was found that either could not be.
func (v *Verdict) busy(p *blame.Population, s Settings, hanging int) bool {
	if s.SLO > 0 || s.Baseline != nil || hanging > 0 || len(v.Findings) > 0 || v.Unresolved > UnresolvedShare || v.Mix >= MixShare {
		return false
	}
	tail, typical := means(p, v.ownAtLeast)
	v.busyNS = tail - typical
	if !v.Whole { // else it is the tail's whole time
		v.busyNS = (1 - max(0, v.Mix)) * max(v.busyNS, v.Tail.Excess)
	}
	if often := float64(p.Quantile(1-busyMost) - p.Quantile(0.5)); v.busyNS >= BusyExcess || often >= max(HealthyMany, v.busyNS/2) {
		return false
	}
	doubted := 0.0
	for _, c := range v.Consistent {
		contends := false
		for _, id := range c.Causes {
			switch e := Lookup(id); {
			case e.Contends:
				contends = true
			case !e.Varies:
				return false
			}
		}
		if !contends || c.found {
			return false
		}
		doubted += c.Share
	}
	return doubted > 0 && doubted >= ExplainedShare*(1-max(0, v.Mix))
}

// The shape of what varies by itself: from the median it is 2.3 times as far to the quantile 0.9 as to 0.75, and 2.4 times as
// far to 0.99 as to 0.9, if something is exponentially distributed, 1.9 and 1.8 times if normally, 1.6 and 1.2 times if equally.
// Where a part of the requests is late and others are not, one of these is many times as far, or hardly farther. That is
// healthy if it is less than SpreadExcess and tails no longer than exponential ones, or less than SpreadTimes as long as what is typical:
// services whose peers vary by a millisecond or two have 6 to 9 ms, those whose peers take 9 ms and vary as much 12 to
// 15 ms, and tails of 2.3 to 2.7 times. From SpreadMost on somebody minds, whatever the shape, and from SpreadLevel on that every
// request takes so long: peers of healthy services took 10 to 18 ms, and one that had been made slow 30 ms.
const (
	leastStep, mostStep = 1.4, 3.2
	SpreadExcess        = 2 * HealthyMany
	SpreadTimes         = 2.75
	SpreadMost          = 10 * HealthyMany
	SpreadLevel         = 2 * LevelWait
	// everywhere is the part of the recording's tenths in which slow requests begin, at least, where nothing happened at a
	// time: twenty by chance are in nine of ten.
	everywhere = 0.7
	// mostlyVaries is the part of the excess that must be in what varies, and OtherThings what may fit several causes, or
	// not be known.
	mostlyVaries, otherThings = 0.6, 0.2
)

// exponential is how many times as long as typical requests slow ones take of what is exponentially distributed: the slowest part of all
// takes 1 + ln(1/part) means, and half of all up to ln 2. Of 377 saved recordings seven with a smooth tail of less than SpreadExcess took more
// than HealthyTimes and less than that, all of services without a fault.
func exponential(p *blame.Population) float64 {
	return (1 + math.Log(max(1, p.N/max(1, p.Tail().Count)))) / math.Ln2
}

// AlikeTimes is how many times as long as typical requests slow ones must take, at least, for what takes the whole of their time to be
// named: those of healthy services whose peers always take 10 to 18 ms took 1.4 and 1.5 times as long beside a noisy neighbour.
const AlikeTimes = 1.6

// alike reports whether slow requests hardly differ from others, all of which wait for what takes more or less time by itself, but no
// longer than is usual for a peer: then there is a level, of which nobody knows whether it is too high, and no tail.
func (v *Verdict) alike(p *blame.Population, s Settings, hanging int) bool {
	if !v.Whole || s.SLO > 0 || s.Baseline != nil || hanging > 0 || len(v.Findings) == 0 || float64(p.Quantile(0.5)) >= SpreadLevel {
		return false
	}
	for _, f := range v.Findings {
		if e := Lookup(f.Cause); f.Contrast != TailContrast || !e.Varies || e.Computes {
			return false
		}
	}
	tail, typical := means(p, v.ownAtLeast)
	return tail < AlikeTimes*typical && tail-typical < SpreadExcess
}

// spread reports whether slow requests are but the end of what varies by itself: no step tells them from others, they
// come at all times, and take not many times as long.
func (v *Verdict) spread(p *blame.Population, s Settings, hanging int) bool {
	if s.SLO > 0 || s.Baseline != nil || hanging > 0 || len(v.Findings) == 0 {
		return false
	}
	half, first := float64(p.Quantile(0.5)), &v.Findings[0]
	switch {
	case first.Contrast != TailContrast, !Lookup(first.Cause).Varies:
		return false
	case v.Whole && (half >= SpreadLevel || first.Share < LevelShare || Lookup(first.Cause).Computes): // else it is a level
		return false
	}
	varies, others := 0.0, v.Unresolved
	for _, f := range v.Findings {
		switch {
		case f.Contrast != TailContrast:
		case !Lookup(f.Cause).Varies:
			return false
		default:
			varies += f.Share
		}
	}
	for _, c := range v.Consistent {
		if c.found {
			return false
		}
		if c.Contrast == TailContrast {
			others += c.Share
		}
	}
	tail, typical := means(p, v.ownAtLeast)
	excess := tail - typical
	if !v.Whole { // else it is the tail's whole time
		excess = max(excess, v.Tail.Excess)
	}
	if varies < mostlyVaries || others > otherThings || tail >= exponential(p)*typical ||
		excess >= SpreadExcess && tail >= SpreadTimes*typical || excess >= SpreadMost {
		return false
	}
	v.varies = excess
	quarter, tenth, last := float64(p.Quantile(0.75)), float64(p.Quantile(0.9)), float64(p.Quantile(0.99))
	step := func(long, short float64) bool {
		return long-half >= leastStep*(short-half) && long-half <= mostStep*(short-half)
	}
	return quarter > half && step(tenth, quarter) && step(last, tenth) && p.Tenths(p.Tail()) >= everywhere
}

// commonly is the part of all requests that must make a call which takes as long in all for it to be none of a tail: what fewer ask
// for may be what a cache is for.
const commonly = 0.25

// rarely is that part where slow requests take less than HealthyMany longer, and their calls not many times as long as those of others, of which
// there are as many at least: what a cache misses is asked for somewhere else. Of 4 healthy services with such a tail 7 to 10 % of the
// requests made the call; of one whose peer was late now and then late calls took 26 times as long as usual ones.
const rarely = 0.05

// asked reports whether slow requests are but those that make a call which others do not make, and no slower than a quarter of all
// requests, of which as many make it, too, be it fast or slow: they ask for something else, and no endpoint says so. Of what is but a few
// milliseconds fewer may make it.
func (v *Verdict) asked(a *blame.Attribution, p *blame.Population, s Settings, hanging int) bool {
	if s.SLO > 0 || s.Baseline != nil || hanging > 0 || v.Whole || len(v.Findings) == 0 {
		return false
	}
	f := &v.Findings[0]
	if e := Lookup(f.Cause); f.Contrast != TailContrast || !e.Varies || e.Computes || f.Share < LevelShare {
		return false
	}
	tail, typical := means(p, v.ownAtLeast)
	if tail-typical >= SpreadMost || p.Tenths(p.Tail()) < everywhere {
		return false
	}
	c := newCase(a, p, TailContrast)
	c.know(s)
	site, _ := TopBy(c, f.keys, c.CallSite)
	slow, all := c.callsAt(site, c.Tail), c.callsAt(site, p.All())
	if slow.most != 1 || all.most != 1 || all.part < rarely || all.part > 1-commonly || slow.ns > GrownHold*all.ns {
		return false
	}
	v.asking = all.part
	if all.part >= commonly && tail < HealthyRatio*float64(p.Quantile(1-commonly)) {
		return true
	}
	others := all.n - slow.n // who calls and is not slow: the slow ones may be most of all
	return tail-typical < HealthyMany && others >= slow.n && slow.ns <= HealthyTimes*(all.ns*all.n-slow.ns*slow.n)/max(1, others)
}

// callsAt is the part of requests, by weight, that make a call at a site, how many one of them makes at most, and how long these n take, in
// nanoseconds on average.
func (c *Case) callsAt(site blame.SiteID, requests []int) (x struct {
	part, ns, n float64
	most        int
}) {
	var make, all, ns, n float64
	for _, i := range requests {
		weight, made := c.A.Weight[i], 0
		for _, t := range c.A.Attempts(i) {
			if t.Site == site {
				made++
				ns, n = ns+float64(t.End-t.Start)*weight, n+weight
			}
		}
		if all += weight; made > 0 {
			make += weight
		}
		x.most = max(x.most, made)
	}
	x.part, x.ns, x.n = make/max(1, all), ns/max(1, n), n
	return x
}
