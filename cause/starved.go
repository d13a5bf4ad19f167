package cause

import (
	"fmt"

	"github.com/whylate/whylate/request"
)

// Missed is what nobody did while all Ps were busy.
type Missed uint8

// What may be missed: to run what is ready, to look for replies, to run timers that are due.
const (
	Ready Missed = iota
	Reply
	Timer
)

// Missed is what most of the time in Claim was missed by.
func (p *Processors) Missed() Missed {
	switch {
	case p.Blind > 0.5:
		return Reply
	case p.Due > 0.5:
		return Timer
	}
	return Ready
}

// Starved judges one of the causes of full Ps: want is the group of classes that
// must have held them, and missed what they kept others from. Time in which replies
// were in but nobody polled counts, and time in which timers were due; when one of
// them is the larger part, the finding is called netpoll-starvation or late-timer.
func (c *Case) Starved(want Holder, missed Missed) *Judgement {
	p := c.Processors()
	if p.Winner == NoHolder || len(p.Claim) == 0 {
		return nil
	}
	j := &Judgement{Keys: p.Claim, Alike: OffCPUCauses, Record: RecordHost}
	if c.TooLittle(j.Keys) {
		return j
	}
	j.Evidence = c.HolderEvidence(p, want)
	e := Evidence{
		Text:    fmt.Sprintf("%s of it were network waits after the last poll: the replies may have been in", Pct(p.Blind)),
		Holds:   Of(p.Missed() == missed),
		Decides: true, Number: p.Blind,
	}
	if p.Due > p.Blind {
		e.Text, e.Number = fmt.Sprintf("%s of it were waits for time to pass that were over, but nobody ran the timers", Pct(p.Due)), p.Due
	}
	j.Evidence = append(j.Evidence, e)
	if j.holds() != No {
		j.Where = c.ClassPlace(p.Class)
	}
	return j
}

// Culprit names who held the Ps, for a sentence: where they ran, if all that is known of
// them else is a library's function that runs others.
func (c *Case) Culprit(where *Place) string {
	id := c.Processors().Class
	if k := &c.A.Classes[id]; where != nil && k.Name == k.Root && (request.Standard(k.Root) || request.Published(k.Root)) {
		return fmt.Sprintf("%s (by %s)", PlaceName(where), c.ClassName(id))
	}
	return c.ClassName(id)
}

// Winner is the group of classes that held the Ps.
func (c *Case) Winner() Holder { return c.Processors().Winner }
