package cause

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/timeline"
)

// StarvedDelay is how long threads must have waited for a CPU, each time and for
// every request, in nanoseconds, for requests to be late that look fast: nobody
// feels less (see HealthyMean). StarvedMin is the part of the time in which they
// wanted one.
const (
	StarvedDelay = HealthyMean
	StarvedMin   = 0.5
)

// before looks at a service that is healthy by its own clock, which begins when
// the runtime sees a request: if the process is made to stop, its threads wait for a CPU most of the
// time, or its connections for being accepted, its clients have waited before that.
func (v *Verdict) before(c *Case, s Settings) {
	if v.Verdict == "inconclusive" { // for what all do, which need not be too long
		c.onHost(s.Host)
		v.queued(c, s)
		return
	}
	c.onHost(s.Host)
	for _, look := range []func(*Case, Settings){v.suspended, v.throttled, v.unpolled, v.stopped, v.starved, v.unstopped, v.queued} {
		if look(c, s); v.Verdict != "healthy" {
			return
		}
	}
}

// unseen is evidence of stops: what arrives in one.
const unseen = "what arrives meanwhile waits, which the requests' own times do not contain"

// waits is the sentence about a service that looks fast, and why clients wait.
func (v *Verdict) waits(why string) string {
	return fmt.Sprintf("The service's own p99 is %s, but %s: clients wait before the process sees their requests.", Ms(float64(v.Role.Quantile(0.99))), why)
}

// lateBy is the summary of what makes the slowest requests late by so many nanoseconds.
func lateBy(ns float64, subject string) string {
	return fmt.Sprintf("Requests are late before the process sees them, by %s in the slowest: %s.", Ms(ns), subject)
}

// before is the finding that the entry makes requests late by so many nanoseconds before the process sees them.
func (e *Entry) before(ns float64, summary string, evidence []string) Finding {
	return Finding{
		Cause: e.ID, Contrast: BeforeContrast, Share: 1, Pattern: repeated, Confidence: "medium",
		ExcessNS: int64(ns), Fix: e.Fix, Verify: e.Verify, Summary: summary, Evidence: evidence,
	}
}

// open is the judgement of e where what decides is not known.
func (j *Judgement) open(e *Entry, summary string) Consistent {
	alike, record := j.alike()
	return Consistent{
		Causes: append([]string{e.ID}, alike...), Share: 1, Record: record, Contrast: BeforeContrast,
		Where: j.Where, Summary: summary, Evidence: texts(j.Evidence),
	}
}

func texts(evidence []Evidence) (out []string) {
	for _, x := range evidence {
		out = append(out, x.Text)
	}
	return out
}

// throttled looks for times in which a quota stopped the process. Whatever arrives in one waits until its end.
func (v *Verdict) throttled(c *Case, s Settings) {
	t := c.Throttling()
	if t == nil || t.Throttled < Pattern {
		return
	}
	var stops []events.Suspension
	var longest float64
	spans := c.Host.stops(t, c.GOMAXPROCS())
	for _, x := range spans {
		stops = append(stops, events.Suspension{FromNS: x.From, ToNS: x.To})
		longest = max(longest, float64(x.To-x.From))
	}
	late := v.lateBefore(c, s, stops)
	if late == 0 {
		return
	}
	was, of := c.Host.Tail, c.Host.tail
	defer func() { c.Host.Tail, c.Host.tail = was, of }()
	c.Host.Tail, c.Host.tail = c.Host.Over(spans), spans // there is no slow request to look at
	c.Contrast = BeforeContrast
	sentence := v.waits(fmt.Sprintf("%.0f times, for up to %s, a CPU quota stopped it", t.Throttled, Ms(longest)))
	for _, id := range []string{"gomaxprocs-over-quota", "quota-too-low"} {
		e := Lookup(id)
		j := e.Judge(c)
		if j == nil || j == Untested || j.Holds() == No {
			continue
		}
		summary := lateBy(late, j.Subject)
		if j.Holds() == Unknown {
			v.Verdict, v.Reason, v.Sentence = "inconclusive", "look-alikes", sentence
			v.Consistent = append(v.Consistent, j.open(e, summary))
			return
		}
		v.Verdict, v.Sentence = "cause", sentence
		f := e.before(late, summary, append([]string{
			fmt.Sprintf("the quota of %.2g CPUs of cgroup %s stopped the process in %.0f of %.0f periods, for %s at least each time", t.Quota, t.Group.Path, t.Throttled, t.Periods, Ms(longest)), unseen,
		}, texts(j.Evidence[1:])...)) // the first one is about slow requests
		f.Fix = e.fixes(j)
		v.Findings = append(v.Findings, f)
		return
	}
}

// queued looks for connections that wait to be accepted.
func (v *Verdict) queued(c *Case, s Settings) {
	x := v.accepts(c, s)
	switch {
	case x == nil:
	case x.open != nil:
		if v.Verdict == "healthy" {
			v.Verdict, v.Reason, v.Sentence = "inconclusive", "look-alikes", x.sentence
		}
		v.Consistent = append(v.Consistent, *x.open)
	default:
		v.Verdict, v.Reason, v.Sentence, v.Findings, v.Consistent = "cause", "", x.sentence, []Finding{x.finding}, nil
	}
}

// accepts returns how the queues of the process's listeners make requests late before it sees them; nil if they do not. Its times
// are those in which connections stood there.
func (v *Verdict) accepts(c *Case, s Settings) *held {
	c.Contrast = BeforeContrast
	q := c.AcceptQueue()
	if q == nil || s.SLO > 0 && float64(v.Role.Quantile(0.99))+q.Tail <= float64(s.SLO) {
		return nil
	}
	e := Lookup("accept-queue")
	j := e.Judge(c)
	if j == nil || j.Holds() == No {
		return nil
	}
	summary := lateBy(q.Tail, j.Subject)
	x := &held{
		sentence: fmt.Sprintf("The service's own p99 is %s, but %s", Ms(float64(v.Role.Quantile(0.99))), lowerFirst(summary)),
		times:    q.times, away: q.Instead != "", stuck: q.Stuck > 0,
	}
	if j.Holds() == Unknown {
		open := j.open(e, summary)
		x.open = &open
		return x
	}
	x.finding = e.before(q.Tail, summary, texts(j.Evidence))
	x.finding.Where, x.finding.Fix = j.Where, e.fixes(j)
	if q.Runs < Pattern && !x.stuck {
		x.finding.Pattern, x.finding.Confidence = oneIncident, "low"
	}
	return x
}

// unaccepted reports whether connections wait for longer than all that slow requests take, and none is accepted: that comes first.
func (v *Verdict) unaccepted(c *Case, s Settings) bool {
	c.onHost(s.Host)
	x := v.accepts(c, s)
	if x == nil || x.open != nil || !x.stuck || float64(x.finding.ExcessNS) < v.Tail.Excess {
		return false
	}
	v.Verdict, v.Reason, v.Sentence, v.Findings = "cause", "", x.sentence, slices.Insert(v.Findings, 0, x.finding)
	return true
}

// stopped looks for times in which somebody had the world stopped, and it did stop. What arrives in one waits until its
// end.
func (v *Verdict) stopped(c *Case, s Settings) {
	if x := v.stops(c, s); x != nil && len(x.times) >= Pattern {
		v.Verdict, v.Sentence, v.Findings = "cause", x.sentence, append(v.Findings, x.finding)
	}
}

// unstopped looks for times in which the world was slow to stop, because somebody ran on. What arrives in one waits
// until the stop's end.
func (v *Verdict) unstopped(c *Case, s Settings) {
	u, stops := c.unstopped()
	if u.Stops < Pattern {
		return
	}
	late := v.lateBefore(c, s, stops)
	if late == 0 {
		return
	}
	e := Lookup("slow-to-stop")
	j := (&Judgement{
		Where: u.Where, Subject: u.Subject(),
		Alike: append([]string{"page-faults"}, OffCPUCauses...), Record: RecordHost,
	}).With(u.Evidence(c)...)
	summary, sentence := lateBy(late, j.Subject), v.waits(fmt.Sprintf("%d times, for %s on average, %s", u.Stops, Ms(float64(u.Stopping)/float64(u.Stops)), j.Subject))
	switch j.Holds() {
	case Yes:
		f := e.before(late, summary, append(texts(j.Evidence), unseen))
		f.Where = u.Where
		v.Verdict, v.Sentence, v.Findings = "cause", sentence, append(v.Findings, f)
	case Unknown:
		v.Verdict, v.Reason, v.Sentence = "inconclusive", "look-alikes", sentence
		v.Consistent = append(v.Consistent, j.open(e, summary))
	}
}

// wake is the part of the slow requests, beyond that of typical ones, that must come in or right behind stops, or connections that
// waited, for what they wait for to be a wake of these:
// a dump of stacks, of 40 ms, makes 46 to 82 % of them slow, and the garbage that it leaves others.
const wake = 1.0 / 3

// inTheWake looks at slow requests that wait for a CPU, or of which nothing is known: where they come right behind
// times in which others waited before the process saw them, and longer than all that these take longer, what made those wait is the
// cause: stops of the world, or connections that nobody accepted.
func (v *Verdict) inTheWake(c *Case, s Settings) {
	if v.Verdict != "cause" && v.Reason != "unexplained" && v.Reason != "look-alikes" || len(c.Tail) == 0 || len(c.Typical) == 0 {
		return
	}
	if len(v.Findings) > 0 {
		lead := v.leading()
		if l := Lookup(lead.Cause).Layer; lead.Contrast != TailContrast || l != Host && l != Scheduler && l != GC && l != Load {
			return
		}
	}
	x := v.stops(c, s)
	if !v.behind(c, x) {
		c.onHost(s.Host)
		if x = v.accepts(c, s); x == nil || x.open != nil || !x.away || !v.behind(c, x) {
			return
		}
	}
	v.Verdict, v.Reason, v.Sentence, v.Findings, v.Consistent = "cause", "", x.sentence, slices.Insert(v.Findings, 0, x.finding), nil
}

// behind reports whether slow requests come in, or right behind, times in which others waited longer before the process saw them
// than all that these take longer. It adds that to the finding.
func (v *Verdict) behind(c *Case, x *held) bool {
	if x == nil || len(x.times) < 2 || float64(x.finding.ExcessNS) < v.Tail.Excess {
		return false
	}
	if len(x.times) < Pattern {
		x.finding.Pattern, x.finding.Confidence = oneIncident, "low"
	}
	part := func(requests []int) float64 {
		n := 0
		for _, i := range requests {
			at := int64(c.A.Found().Requests[c.A.Requests[i].Request].Start())
			k := sort.Search(len(x.times), func(k int) bool { return x.times[k].FromNS > at }) - 1
			if k >= 0 && at <= x.times[k].ToNS+(x.times[k].ToNS-x.times[k].FromNS) {
				n++
			}
		}
		return float64(n) / float64(len(requests))
	}
	slow, usual := part(c.Tail), part(c.Typical)
	if slow-usual < wake {
		return false
	}
	x.finding.Evidence = append(x.finding.Evidence, fmt.Sprintf("%s of the requests that are slow by the process's own clock come in such a time, or right behind it, %s of typical ones: all who waited want a CPU then", Pct(slow), Pct(usual)))
	return true
}

// held is what times in which the process does not see what arrives do to requests.
type held struct {
	finding  Finding
	open     *Consistent // instead, if it is not decided
	sentence string
	times    []events.Suspension // in order
	away     bool                // who should see it waited elsewhere, not for a CPU as all others
	stuck    bool                // it never does
}

// stops returns how stops of the world make requests late before the process sees them; nil if they do not.
func (v *Verdict) stops(c *Case, s Settings) *held {
	took := map[string]timeline.Time{}
	for _, x := range c.A.Timeline().STW {
		if Foreign(x.Name) {
			took[x.Name] += x.End - x.Start
		}
	}
	if len(took) == 0 {
		return nil
	}
	reason := slices.MaxFunc(slices.Sorted(maps.Keys(took)), func(a, b string) int { return cmp.Compare(took[a], took[b]) })
	var stops []events.Suspension
	var longest, all, stopping float64
	for _, x := range c.A.Timeline().STW {
		d := float64(x.End - x.Start)
		if x.Name != reason || d < HealthyExcess { // less nobody feels
			continue
		}
		stops = append(stops, events.Suspension{FromNS: int64(x.Start), ToNS: int64(x.End)})
		longest, all, stopping = max(longest, d), all+d, stopping+float64(x.Stopped-x.Start)
	}
	late := v.lateBefore(c, s, stops)
	n, _, where := c.StopsFor(reason)
	// Where most are short something else made the others long.
	if late == 0 || 2*len(stops) < n || stopping > stoppingLow*all {
		return nil
	}
	subject := fmt.Sprintf("the world was stopped (%s) by %s", reason, PlaceName(where))
	f := Lookup("stop-the-world").before(late, lateBy(late, subject),
		[]string{fmt.Sprintf("%d of %d stops for %q take %s or more, %s on average, called from %s", len(stops), n, reason, Ms(HealthyExcess), Ms(all/float64(len(stops))), PlaceName(where)), unseen})
	f.Where = where
	return &held{finding: f, times: stops, sentence: v.waits(fmt.Sprintf("%d times, for up to %s, %s", len(stops), Ms(longest), subject))}
}

// starved looks for threads that wait for a CPU.
func (v *Verdict) starved(c *Case, s Settings) {
	if c.Host == nil {
		return
	}
	whole := c.Host.Whole
	var requests float64
	for _, r := range c.A.Found().Roles {
		requests += float64(r.Count)
	}
	c.Host.Tail, c.Host.tail = whole, []host.Span{c.Host.Span()} // there is no slow request to look at
	delay := min(whole.DelayNS/max(1, requests), c.Host.Wait())
	if s.SLO > 0 && float64(v.Role.Quantile(0.99))+delay <= float64(s.SLO) {
		return
	}
	t := c.Throttling()
	stopped := t != nil && t.Tail >= StoppedMin
	if delay < StarvedDelay || delayed(whole) < StarvedMin || stopped {
		return
	}
	e, was := Lookup("host-contention"), c.Contrast
	c.Contrast = BeforeContrast
	j := e.Judge(c)
	c.Contrast = was
	if j == nil || j == Untested || j.Holds() != Yes {
		return
	}
	f := e.before(delay, fmt.Sprintf("Requests are late before the process sees them: %s.", j.Subject),
		[]string{fmt.Sprintf("threads waited for a CPU for %s at a time, which the requests' own times do not contain", Ms(delay))})
	for _, x := range j.Evidence {
		if x.Decides {
			f.Evidence = append(f.Evidence, x.Text)
		}
	}
	v.Verdict, v.Findings = "cause", append(v.Findings, f)
	v.Sentence = v.waits(fmt.Sprintf("its threads waited for a CPU in %s of the time in which they wanted one", Pct(delayed(whole))))
}

// unpolled looks for times in which the thread that waits for the network had no CPU, because
// others had them. Whatever arrives in one waits until its end.
func (v *Verdict) unpolled(c *Case, s Settings) {
	var waits []events.Suspension
	var others, all, longest float64
	for _, x := range c.A.Unpolled() {
		if d := float64(x.ToNS - x.FromNS); d >= HealthyExcess { // less nobody feels
			waits = append(waits, events.Suspension{FromNS: x.FromNS, ToNS: x.ToNS})
			others, all, longest = others+float64(x.Others), all+d, max(longest, d)
		}
	}
	late := v.lateBefore(c, s, waits)
	if late == 0 || len(waits) < Pattern || 2*others < all || c.waitsShortly(late, s) {
		return
	}
	e := Lookup("host-contention")
	text := fmt.Sprintf("the thread that waits for the network wanted a CPU %d times for %s or more, for up to %s; others had the CPUs for %s of that",
		len(waits), Ms(HealthyExcess), Ms(longest), Pct(others/all))
	v.Verdict, v.Sentence = "cause", v.waits(text)
	v.Findings = append(v.Findings, e.before(late, lateBy(late, "its threads did not get a CPU when they wanted one"), []string{text + " (scheduling events)", unseen}))
}

// lateBefore is by how much the slowest requests are late that arrive in stops and wait until their
// end, in nanoseconds; 0 if nobody feels it, also beside what the slowest requests take then.
func (v *Verdict) lateBefore(c *Case, s Settings, stops []events.Suspension) float64 {
	part := float64(max(1, len(c.Tail))) / max(1, c.P.N)
	late := lateness(stops, part*float64(c.A.Timeline().Duration()))
	own := c.P.Tail().Mean
	if late < StarvedDelay || late < (HealthyRatio-1)*own || !felt(own+late, c.P.Typical().Mean) ||
		s.SLO > 0 && float64(v.Role.Quantile(0.99))+late <= float64(s.SLO) {
		return 0
	}
	return late
}

// suspended looks for times in which the whole process was made to stop. Whatever arrives in one
// waits until its end.
func (v *Verdict) suspended(c *Case, s Settings) {
	var longest float64
	stops := c.A.Suspended()
	for _, x := range stops {
		longest = max(longest, float64(x.ToNS-x.FromNS))
	}
	if v.lateBefore(c, s, stops) == 0 {
		return
	}
	v.Verdict, v.Reason = "inconclusive", "unexplained"
	v.Sentence = v.waits(fmt.Sprintf("%d times, for up to %s, %s", len(stops), Ms(longest), Suspended))
}

// lateness is what requests that come evenly wait on average for the end of stops, of those that
// wait longest as many as come in a time, in nanoseconds.
func lateness(stops []events.Suspension, in float64) float64 {
	// Those that wait for longer than least come in the first part of each stop.
	sums := func(least float64) (time, waits float64) {
		for _, x := range stops {
			if d := float64(x.ToNS - x.FromNS); d > least {
				time += d - least
				waits += (d*d - least*least) / 2
			}
		}
		return time, waits
	}
	low, high := 0.0, in
	for _, x := range stops {
		high = max(high, float64(x.ToNS-x.FromNS))
	}
	if time, waits := sums(0); time <= in {
		return waits / max(in, 1)
	}
	for range 64 { // enough for any float64
		if high-low <= 1e3 {
			break
		}
		if time, _ := sums((low + high) / 2); time > in {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	_, waits := sums(high)
	return waits / max(in, 1)
}
