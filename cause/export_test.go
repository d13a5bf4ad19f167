package cause

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
)

// Claim is what one entry took of a case.
type Claim struct {
	ID    string
	Keys  []blame.KeyID
	Holds Truth
}

// Claims tests the catalogue against one contrast of a role.
func Claims(a *blame.Attribution, p *blame.Population, contrast string) (*Case, []Claim) {
	c := newCase(a, p, contrast)
	outcomes, _ := c.test()
	var out []Claim
	for _, o := range outcomes {
		out = append(out, Claim{o.entry.ID, o.j.Keys, o.holds})
	}
	return c, out
}

// The judge's own predicates.
var (
	Unmaterial = unmaterial
	Slight     = slight
)

// IsHealthy is isHealthy of a recording that cost nothing.
func IsHealthy(p *blame.Population, s Settings, hanging int) bool {
	return isHealthy(p, s, hanging, blame.Share{})
}

// Holds combines the evidence of a judgement.
func Holds(j *Judgement) Truth { return j.Holds() }

// Joined adds up what reads the same.
var Joined = joined

// Accompany is what a tail's findings and look-alikes become where contention for the host's CPUs is among them;
// scattered is set where nobody in particular had these.
func Accompany(findings []Finding, suspects []Consistent, mix float64, whole, scattered bool) ([]Finding, []Consistent, bool) {
	for i := range findings {
		findings[i].Contrast, findings[i].order, findings[i].ExcessNS = TailContrast, findings[i].Share, 1
	}
	for i := range suspects {
		suspects[i].Contrast = TailContrast
	}
	v := &Verdict{Findings: findings, Consistent: suspects, Mix: mix}
	alone := v.accompanies(&Case{Contrast: TailContrast, P: &blame.Population{Whole: whole}}, Settings{}, func([]blame.KeyID) bool { return scattered })
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(b.order, a.order) })
	slices.SortStableFunc(v.Consistent, inOrder)
	return v.Findings, v.Consistent, alone > 0
}

// ShortContention is what a slow request loses to contention for the host's CPUs, and nothing else, in nanoseconds, where that is a share
// of an excess, and a part of the machine is idle; 0 where it is the answer.
func ShortContention(share, excess, idle float64, set Settings) float64 {
	v := &Verdict{Findings: []Finding{{
		Cause: "host-contention", Contrast: TailContrast, Share: share, order: share, ExcessNS: int64(share * excess),
	}}}
	v.Tail.Excess = excess
	return v.accompanies(&Case{
		Contrast: TailContrast, P: &blame.Population{}, Host: &HostView{Machine: true, Whole: host.Usage{BusyNS: 1 - idle, IdleNS: idle}},
	}, set, func([]blame.KeyID) bool { return false })
}

// EntersKernel is calls.
func EntersKernel(function string) bool { return calls(function) }
