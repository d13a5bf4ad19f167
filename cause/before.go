package cause

import (
	"fmt"

	"github.com/whylate/whylate/capture/host"
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
// the runtime sees a request: if its threads wait for a CPU most of the time, or its
// connections for being accepted, its clients have waited before that.
func (v *Verdict) before(c *Case, s Settings) {
	c.onHost(s.Host)
	if c.Host != nil {
		v.starved(c, s)
	}
	if v.Verdict == "healthy" {
		v.queued(c, s)
	}
}

// queued looks for connections that wait to be accepted.
func (v *Verdict) queued(c *Case, s Settings) {
	c.Contrast = BeforeContrast
	q := c.AcceptQueue()
	if q == nil || s.SLO > 0 && float64(v.Role.Quantile(0.99))+q.Tail <= float64(s.SLO) {
		return
	}
	e := Lookup("accept-queue")
	j := e.Judge(c)
	if j == nil || j.holds() == No {
		return
	}
	summary := fmt.Sprintf("Requests are late before the process sees them, by %s in the slowest: %s.", Ms(q.Tail), j.Subject)
	var texts []string
	for _, x := range j.Evidence {
		texts = append(texts, x.Text)
	}
	v.Sentence = fmt.Sprintf("The service's own p99 is %s, but %s", Ms(float64(v.Role.Quantile(0.99))), lowerFirst(summary))
	if j.holds() == Unknown {
		alike, record := j.alike()
		v.Verdict, v.Reason = "inconclusive", "look-alikes"
		v.Consistent = append(v.Consistent, Consistent{
			Causes: append([]string{e.ID}, alike...), Share: 1, Record: record, Contrast: BeforeContrast,
			Where: j.Where, Summary: summary, Evidence: texts,
		})
		return
	}
	f := Finding{
		Cause: e.ID, Contrast: BeforeContrast, Share: 1, Pattern: repeated, Confidence: "medium",
		ExcessNS: int64(q.Tail), Where: j.Where, Fix: append(j.Fix, e.Fix...), Verify: e.Verify,
		Summary: summary, Evidence: texts,
	}
	if q.Runs < Pattern {
		f.Pattern, f.Confidence = oneIncident, "low"
	}
	v.Verdict, v.Findings = "cause", append(v.Findings, f)
}

// starved looks for threads that wait for a CPU.
func (v *Verdict) starved(c *Case, s Settings) {
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
	e := Lookup("host-contention")
	j := e.Judge(c)
	if j == nil || j == Untested || j.holds() != Yes {
		return
	}
	f := Finding{
		Cause: e.ID, Contrast: BeforeContrast, Share: 1, Pattern: repeated, Confidence: "medium",
		ExcessNS: int64(delay), Fix: e.Fix, Verify: e.Verify,
		Summary: fmt.Sprintf("Requests are late before the process sees them: %s.", j.Subject),
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("threads waited for a CPU for %s at a time, which the requests' own times do not contain", Ms(delay)))
	for _, x := range j.Evidence {
		if x.Decides {
			f.Evidence = append(f.Evidence, x.Text)
		}
	}
	v.Verdict, v.Findings = "cause", append(v.Findings, f)
	v.Sentence = fmt.Sprintf("The service's own p99 is %s, but its threads waited for a CPU in %s of the time in which they wanted one: clients wait before the process sees their requests.",
		Ms(float64(v.Role.Quantile(0.99))), Pct(delayed(whole)))
}
