package cause

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
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
	if j.Holds() != No {
		j.Where = c.ClassPlace(c.culprit())
	}
	return j
}

// culprit is the class that held the Ps, or, where that was the scheduler, the one of which it started most goroutines or woke
// most meanwhile, from sleep or out of a receive: whose timers it ran. A goroutine started by a timer has no creator.
func (c *Case) culprit() blame.ClassID {
	id := c.Processors().Class
	if id != timeline.ClassScheduler {
		return id
	}
	if c.fired == 0 {
		c.fired = c.mostFired()
	}
	return c.fired
}

func (c *Case) mostFired() blame.ClassID {
	id, ran := timeline.ClassScheduler, map[blame.ClassID]int{}
	t := c.A.Timeline()
	for g := range t.Gs {
		me := &t.Gs[g]
		if me.System || me.Observer {
			continue
		}
		if at := me.Start(); me.Born && me.Creator == timeline.NoG && c.InTail(at-1, at) > 0 {
			ran[c.A.ClassAt(timeline.GID(g), at)]++
		}
		for _, s := range me.Waits() {
			if s.Reason != timeline.ReasonNetwork && s.Waker == timeline.NoG && s.End < t.End && c.InTail(s.End-1, s.End) > 0 {
				ran[c.A.ClassAt(timeline.GID(g), s.End)]++
			}
		}
	}
	most := 0
	for class, n := range ran {
		if n > most || n == most && class < id {
			id, most = class, n
		}
	}
	return id
}

// Culprit names who held the Ps, for a sentence: where they ran, if all that is known of
// them else is a library's function that runs others.
func (c *Case) Culprit(where *Place) string {
	id := c.culprit()
	if k := &c.A.Classes[id]; where != nil && k.Name == k.Root && (request.Standard(k.Root) || request.Published(k.Root)) {
		return fmt.Sprintf("%s (by %s)", PlaceName(where), c.ClassName(id))
	}
	return c.ClassName(id)
}

// Winner is the group of classes that held the Ps.
func (c *Case) Winner() Holder { return c.Processors().Winner }
