package cause

import "fmt"

// Starved judges one of the causes of full Ps: want is the group of classes that
// must have held them. Time in which replies were in but nobody polled counts;
// when it is the larger part, the finding is called netpoll-starvation and blind
// must be set.
func (c *Case) Starved(want Holder, blind bool) *Judgement {
	p := c.Processors()
	if p.Winner == NoHolder || len(p.Claim) == 0 {
		return nil
	}
	j := &Judgement{
		Keys: p.Claim, Where: c.ClassPlace(p.Class),
		Alike: OffCPUCauses, Record: RecordHost,
	}
	j.Evidence = c.HolderEvidence(p, want)
	e := Evidence{
		Text:    fmt.Sprintf("%s of it were network waits after the last poll: the replies may have been in", Pct(p.Blind)),
		Holds:   Of((p.Blind > 0.5) == blind),
		Decides: true, Number: p.Blind,
	}
	j.Evidence = append(j.Evidence, e)
	return j
}

// Culprit names who held the Ps, for a sentence.
func (c *Case) Culprit() string { return c.ClassName(c.Processors().Class) }

// Winner is the group of classes that held the Ps.
func (c *Case) Winner() Holder { return c.Processors().Winner }
