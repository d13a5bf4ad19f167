// Package growth is the cause growth.
package growth

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "growth", Title: "growth", Rank: 615, Layer: cause.Code, Computes: true,
	What:       "A slice, a stack or a map outgrows its memory: the runtime makes room for more and copies what there was. Of what becomes large without its size being said at the beginning, most bytes are copied several times.",
	MustHold:   "most of the CPU time that slow requests take more than typical ones is in append, in the growth of a map or in the copying of a stack, by their CPU samples",
	MustNot:    "the work between the copies takes longer; assists of the garbage collector; their threads kept from the CPU for most of it",
	LookAlikes: []string{"expensive-request", "gc-assist", "gc-workers", "page-faults", "slow-to-stop"},
	Fix: []string{
		"say the size at the beginning: make with a capacity, slices.Grow, Grow of a buffer or builder",
		"keep the large buffer and use it again, or write in pieces as the data comes",
		"of a deep recursion make a loop with a stack of its own",
	},
	Verify: "give the named slice, map or buffer its capacity in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	if c.Contrast == cause.LevelContrast {
		return nil // a level contrast is about waits
	}
	keys := c.Free(func(k blame.Key) bool { return k.Flags&blame.Growth != 0 && c.OwnCode(k) })
	copies, part := c.Copies(), c.GrowthPart()
	onCPU := c.ComputedEvidence()
	if p := c.Processors(); p.Winner == cause.Heavy { // others wait for a P behind the expensive ones
		if of := c.CopiesOf(p.Class); of.Part >= cause.GrowthMin {
			keys = append(keys, p.Claim...)
			copies, part, onCPU = of, of.Part, c.ClassCPU(p.Class)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	enough := cause.Evidence{
		Text:  fmt.Sprintf("%d CPU samples of it are in them", copies.Samples),
		Holds: cause.Yes, Decides: true, Number: float64(copies.Samples),
		Alike: []string{"expensive-request"}, Record: "longer, with more slow requests in it",
	}
	if copies.Samples < cause.MinDoubt {
		enough.Holds = cause.Unknown
	}
	j := &cause.Judgement{
		Keys: keys, Where: copies.Where,
		Subject: fmt.Sprintf("they make room for more and copy what there was, in %s", cause.PlaceName(copies.Where)),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("%s of the CPU time of slow requests, or of those before them, is in the copies that growing slices, maps and stacks make", cause.Pct(part)),
				Holds: cause.Of(part >= cause.GrowthMin), Decides: true, Number: part,
			},
			enough,
			onCPU,
		},
		Alike: append([]string{"page-faults"}, cause.OffCPUCauses...), Record: cause.RecordHost,
	}
	return j.With(c.OtherEndpoint()...)
}
