package cause

import "github.com/whylate/whylate/blame"

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
func Holds(j *Judgement) Truth { return j.holds() }

// Joined adds up what reads the same.
var Joined = joined
