package cause

import (
	"fmt"
	"math"
)

// ComputedMin is the part of the time for which slow requests ran longer than typical ones
// that they must have computed longer, for what they computed to be why: whoever
// waits for a CPU beside it does so because there is more to compute. Without it half of
// the excess or more is gone.
const ComputedMin = 0.5

// slowed is how many times as long the same code may take on a CPU of which others use the
// other thread, the caches, the memory: who computes longer than that has more to do.
// Requests that are all alike computed for up to 2.4 times as long on a shared machine,
// requests with more to do for 17 times or more.
const slowed = 3

// Computed is what requests computed on a CPU, by their CPU samples: what they waited for
// one while they ran is not in it.
type Computed struct {
	// Tail and Typical are means per request, in nanoseconds.
	Tail, Typical float64
	// Longer is the part of the time for which slow requests ran longer that they computed
	// longer: one standard deviation of the numbers of samples below their difference. It
	// is 0 if samples are too few or missing, or if slow requests ran or computed for less
	// than slowed times as long.
	Longer float64
}

// Computed compares what the requests of the tail computed with what typical ones did.
func (c *Case) Computed() (m Computed) {
	ran, n := c.ran(c.Tail)
	usual, few := c.ran(c.Typical)
	tail, typical := float64(max(1, len(c.Tail))), float64(max(1, len(c.Typical)))
	m.Tail, m.Typical = SamplePeriod*float64(n)/tail, SamplePeriod*float64(few)/typical
	most, least := float64(ran)/tail, float64(usual)/typical
	if n < MinDoubt || most <= slowed*least {
		return m
	}
	chance := SamplePeriod * math.Sqrt(float64(n)/(tail*tail)+float64(max(1, few))/(typical*typical))
	if m.Tail-chance <= slowed*m.Typical {
		return m
	}
	m.Longer = max(0, m.Tail-m.Typical-chance) / (most - least)
	return m
}

// ComputedEvidence says whether the slow requests' own code was on a CPU while it ran, or
// computed so much longer than that of typical ones that it does not matter how long its
// threads waited for one meanwhile: unless a quota stopped them, or a hypervisor may have
// had the CPUs, which looks like computing.
func (c *Case) ComputedEvidence() Evidence {
	e := c.CPUEvidence("the slow requests' code", c.OnCPUOf(c.Tail))
	if e.Holds != Unknown || !c.computedLonger() {
		return e
	}
	m := c.Computed()
	return Evidence{
		Text: fmt.Sprintf("slow requests computed for %s each, typical ones for %s (CPU samples): %s or more of the time for which they ran longer; in the rest their threads waited for a CPU to do it",
			Ms(m.Tail), Ms(m.Typical), Pct(min(1, m.Longer))),
		Holds: Yes, Decides: true, Number: m.Longer,
	}
}

// computedLonger reports whether what slow requests computed is why they ran longer.
func (c *Case) computedLonger() bool {
	if c.Host == nil || !c.Host.Scheduled {
		return false
	}
	if t := c.Throttling(); t != nil && t.Tail >= StoppedMin {
		return false
	}
	if _, doubt := c.Stolen(); doubt {
		return false
	}
	return c.Computed().Longer >= ComputedMin
}

// computedFor is computedLonger where slow requests computed for so many nanoseconds longer.
func (c *Case) computedFor(ns float64) bool {
	m := c.Computed()
	return m.Tail-m.Typical >= ns && c.computedLonger()
}
