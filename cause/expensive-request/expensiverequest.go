// Package expensiverequest is the cause expensive-request.
package expensiverequest

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "expensive-request", Title: "expensive request", Rank: 620, Layer: cause.Code, Computes: true, Varies: true,
	What:       "The request itself burns CPU: a rare or large input, an expensive path.",
	MustHold:   "slow requests run much longer in their own code than typical ones, or children and workers of theirs do, and were on a CPU; or computed longer, by their CPU samples, for most of that time",
	MustNot:    "their threads kept from the CPU for most of it",
	LookAlikes: []string{"quota-too-low", "host-contention", "page-faults", "slow-clock", "growth"},
	Fix: []string{
		"a better algorithm in the named function, or a limit on the input",
		"split the work, or move it out of the request",
		"cache the result",
	},
	Verify: "limit the input, or stub the named function, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// growth is how much more CPU than typical requests slow ones must burn.
const growth = 1.5

func judge(c *cause.Case) *cause.Judgement {
	if c.Contrast == cause.LevelContrast {
		return nil // a level contrast is about waits
	}
	keys := c.Free(func(k blame.Key) bool { return c.OwnCode(k) || c.OwnKernel(k) })
	if by := c.OnBehalf(); len(by) > 0 {
		all := cause.Union(keys, by)
		if 2*c.Sum(by) > c.Sum(all) {
			return onBehalf(c, all, by)
		}
	}
	if c.Winner() == cause.Heavy { // others wait for a P behind the expensive ones
		keys = append(keys, c.Processors().Claim...)
	}
	if len(keys) == 0 {
		return nil
	}
	tail, typical := c.OwnCPU()
	run := "slow requests run for %s in their own code, typical ones for %s"
	where, lead := c.HottestOfTail()
	library, innermost, part, mine := c.LibraryOfTail()
	if lead *= mine; part <= lead { // most of it is the program's own
		library = nil
	}
	own := c.Free(func(k blame.Key) bool { return (c.OwnCode(k) || c.OwnKernel(k)) && k.Flags&blame.Self != 0 })
	if where == nil && 2*c.Sum(own) < c.Sum(keys) { // a server in the same process does
		class, _ := cause.TopBy(c, keys, func(k blame.Key) blame.ClassID { return k.Class })
		where, lead = c.HottestMeanwhile(class)
		tail, typical = c.Spent(c.Free(func(k blame.Key) bool { return c.OwnCode(k) || c.OwnKernel(k) }))
		run = "%s are computed for a slow request in the same process, %s for a typical one"
	}
	more := fmt.Sprintf(run, cause.Ms(tail), cause.Ms(typical))
	if c.Winner() == cause.Heavy && tail <= growth*typical { // it is others that do, before them
		var endpoint string
		if tail, typical, endpoint = c.Heavy(); endpoint != "" {
			more = fmt.Sprintf("those requests of %s that burn half of what all of these do take %s of a CPU each, or more, the median one %s", endpoint, cause.Ms(tail), cause.Ms(typical))
		}
	}
	ev := []cause.Evidence{
		{
			Text:    more,
			Holds:   cause.Of(tail > growth*typical || c.P.Whole || c.Winner() == cause.Heavy),
			Decides: true, Number: tail / max(typical, 1),
		},
		c.ComputedEvidence(),
	}
	if e, doubt := c.RobbedEvidence(keys); doubt {
		ev = append(ev, e)
	}
	ev = append(ev, c.OtherEndpoint()...)
	name := "their own code"
	if library != nil {
		if where, name = library, cause.PlaceName(library); innermost != name {
			name += fmt.Sprintf(" (%s)", innermost)
		}
		ev = append(ev, cause.Evidence{Text: fmt.Sprintf("%s of their CPU samples are there, and in none of the program's own functions", cause.Pct(part)), Holds: cause.Yes, Number: part})
	} else if where != nil {
		called := c.CallersOfTail(where)
		if called != "" {
			called = ", called by " + called
		}
		ev = append(ev, cause.Evidence{Text: fmt.Sprintf("%s of their CPU samples are in %s%s", cause.Pct(lead), cause.PlaceName(where), called), Holds: cause.Yes, Number: lead})
		name = cause.PlaceName(where)
	} else if _, n := c.SampledOn(c.Tail, func(string) bool { return false }); n >= cause.Pattern {
		ev = append(ev, cause.Evidence{
			Text:  fmt.Sprintf("none of their %d CPU samples is in the program or what it imports: it is the kernel, or the runtime, that computes for them, or for others meanwhile", n),
			Holds: cause.Unknown, Decides: true, Number: float64(n),
			Alike: []string{"host-contention"}, Record: "again, on a machine with CPUs to spare",
		})
	}
	return &cause.Judgement{
		Keys: keys, Where: where, Evidence: ev,
		Subject: fmt.Sprintf("they compute in %s", name),
		Alike:   append([]string{"page-faults"}, cause.OffCPUCauses...), Record: cause.RecordHost,
	}
}

// onBehalf judges what requests compute if others do most of it for them, under keys by.
func onBehalf(c *cause.Case, keys, by []blame.KeyID) *cause.Judgement {
	class, _ := cause.TopBy(c, by, func(k blame.Key) blame.ClassID { return k.Class })
	where, lead := c.HottestMeanwhile(class)
	tail, typical := c.Spent(keys)
	ev := []cause.Evidence{
		{
			Text:    fmt.Sprintf("slow requests compute for %s, mostly in %s, which they wait for; typical ones for %s", cause.Ms(tail), c.ClassName(class), cause.Ms(typical)),
			Holds:   cause.Of(tail > growth*typical || c.P.Whole),
			Decides: true, Number: tail / max(typical, 1),
		},
		c.BehalfCPU(class),
	}
	ev = append(ev, c.OtherEndpoint()...)
	name := c.ClassName(class)
	if where != nil {
		name = cause.PlaceName(where)
	}
	if lead > 0 {
		ev = append(ev, cause.Evidence{Text: fmt.Sprintf("%s of the CPU samples of that are in %s", cause.Pct(lead), name), Holds: cause.Yes, Number: lead})
	}
	return &cause.Judgement{
		Keys: keys, Where: where, Evidence: ev,
		Subject: fmt.Sprintf("goroutines that they wait for compute in %s", name),
		Alike:   append([]string{"page-faults"}, cause.OffCPUCauses...), Record: cause.RecordHost,
	}
}
