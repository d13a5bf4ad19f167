package cause

import (
	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/timeline"
)

// GrowthMin is the part of the slow requests' CPU time from which on the copies that
// growth makes dominate the work between them.
const GrowthMin = 0.5

// GrowthPart returns the part of the free CPU time of requests in which they make
// room for more and copy what there was, as their CPU samples say.
func (c *Case) GrowthPart() float64 {
	own := c.Free(c.OwnCode)
	copies := keep(own, func(id blame.KeyID) bool { return c.Key(id).Flags&blame.Growth != 0 })
	return c.Sum(copies) / max(1, c.Sum(own))
}

// Copies are the CPU samples of some that make room for more and copy what there was.
type Copies struct {
	// Where is the place of most of them, nil if none is in the target's own code;
	// Samples is their number, Part what they are of all samples of these.
	Where   *Place
	Samples int
	Part    float64
}

// Copies counts the samples of the tail requests.
func (c *Case) Copies() Copies { return c.copies(c.sampleOf(c.Tail)) }

// CopiesOf counts the samples of a class.
func (c *Case) CopiesOf(class blame.ClassID) Copies {
	return c.copies(func(s timeline.Sample) bool { return c.A.ClassAt(s.G, s.Time) == class })
}

func (c *Case) copies(of func(s timeline.Sample) bool) (g Copies) {
	all := 0
	g.Where, _ = c.hottest(func(s timeline.Sample) bool {
		if !of(s) {
			return false
		}
		all++
		grows := blame.Grows(c.A.Timeline().Stacks.Frames(s.Stack))
		if grows {
			g.Samples++
		}
		return grows
	})
	g.Part = float64(g.Samples) / float64(max(1, all))
	return g
}
