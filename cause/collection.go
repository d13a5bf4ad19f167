package cause

import (
	"fmt"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/timeline"
)

// Collection is what the garbage collector took from the slow requests. Its
// leaves are tested as one family: spread over five leaves, each stays small.
type Collection struct {
	// Assist are the pieces in which goroutines worked for the GC or waited for
	// it, Worker those in which GC workers held the Ps, Stop its pauses.
	Assist, Worker, Stop []blame.KeyID
	// AssistNS, WorkerNS and StopNS are their excess.
	AssistNS, WorkerNS, StopNS float64
}

// All returns the family's pieces.
func (g *Collection) All() []blame.KeyID {
	return append(append(append([]blame.KeyID(nil), g.Assist...), g.Worker...), g.Stop...)
}

// Collection sums up the GC's part of the case.
func (c *Case) Collection() *Collection {
	mostly := c.StopShare(collects) > 0.5
	g := &Collection{
		Assist: c.Free(func(k blame.Key) bool {
			return k.Kind == blame.Assist || k.Kind == blame.GCWait || k.Kind == blame.Behind && k.Class == timeline.ClassGCAssist
		}),
		Worker: c.Free(func(k blame.Key) bool { return k.Kind == blame.Behind && k.Class == timeline.ClassGCWorker }),
		Stop: c.Free(func(k blame.Key) bool {
			return k.Kind == blame.STW && collects(c.A.Reasons[k.Reason]) || mostly && k.Kind == blame.Behind && k.Class == timeline.ClassStopped
		}),
	}
	if p := c.Processors(); p.Winner == Collector { // with the queueing that the GC causes
		g.Worker = c.stillFree(p.Claim)
		g.Worker = without(g.Worker, g.Assist)
	}
	g.AssistNS, g.WorkerNS, g.StopNS = c.Sum(g.Assist), c.Sum(g.Worker), c.Sum(g.Stop)
	return g
}

// collects reports whether a stop-the-world is the garbage collector's.
func collects(reason string) bool { return strings.HasPrefix(reason, "GC ") }

// StopShare returns the part of the stopped time within the tail requests that
// stops with a reason that keep accepts make up.
func (c *Case) StopShare(keep func(reason string) bool) float64 {
	var kept, all timeline.Time
	spans := c.tailSpans()
	for _, s := range c.A.Timeline().STW {
		d := timeline.Overlap(spans, s.Start, s.End)
		all += d
		if keep(s.Name) {
			kept += d
		}
	}
	if all == 0 {
		return 0
	}
	return float64(kept) / float64(all)
}

func without(keys, minus []blame.KeyID) []blame.KeyID {
	skip := map[blame.KeyID]bool{}
	for _, k := range minus {
		skip[k] = true
	}
	var out []blame.KeyID
	for _, k := range keys {
		if !skip[k] {
			out = append(out, k)
		}
	}
	return out
}

// InMark returns the parts of the tail's and of the typical requests' time that
// lie in mark phases.
func (c *Case) InMark() (tail, typical float64) {
	return c.inMark(c.Tail), c.inMark(c.Typical)
}

func (c *Case) inMark(requests []int) float64 {
	var in, all timeline.Time
	for _, i := range requests {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		in += timeline.Overlap(c.A.Timeline().GC, r.Start(), r.End())
		all += r.Duration()
	}
	if all == 0 {
		return 0
	}
	return float64(in) / float64(all)
}

// MarkEvidence says whether slow requests lie in mark phases more than typical
// ones: what the GC takes while requests are fast does not make them slow.
func (c *Case) MarkEvidence() Evidence {
	tail, typical := c.InMark()
	e := Evidence{
		Text:  fmt.Sprintf("%s of the slow requests' time lies in mark phases, %s of typical requests'; %d cycles in the recording", Pct(tail), Pct(typical), len(c.A.Timeline().GC)),
		Holds: Of(tail > typical), Decides: true, Number: tail,
	}
	if typical > 0.9 { // marking all the time: no contrast is possible
		e.Holds = Yes
	}
	return e
}

// AllocationEvidence names the site that allocates most, if profiles were recorded.
func (c *Case) AllocationEvidence() (Evidence, *Place) {
	a := c.Allocated
	if a == nil {
		return Evidence{Text: "the allocating code is unknown: no allocation profiles were recorded", Holds: Unknown}, nil
	}
	return Evidence{
		Text:  fmt.Sprintf("%s allocated %s of all bytes during the recording (%s:%d)", shortName(a.Place.Function), Pct(a.Share), a.Place.File, a.Place.Line),
		Holds: Yes, Number: a.Share,
	}, &a.Place
}

// Allocation is the site that allocated most during the recording.
type Allocation struct {
	Place Place
	// Share is its part of all bytes allocated.
	Share float64
}
