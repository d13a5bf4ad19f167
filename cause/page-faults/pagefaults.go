// Package pagefaults is the cause page-faults.
package pagefaults

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "page-faults", Title: "page faults", Rank: 140, Layer: cause.Host, Unwanted: true, Needless: true,
	What:       "Requests touch memory that is not there: swapped out, a mapped file that is not cached, or fresh pages that the kernel has to find and clear. To Go they run.",
	MustHold:   "slow requests run longer than typical ones while the faults of the process grow, or are so many that they explain that and the kernel's part grows; their threads wait for pages, or the kernel's part of the CPU time grows",
	MustNot:    "on a CPU in their own code all the time; a system call",
	LookAlikes: []string{"expensive-request", "slow-disk", "host-contention"},
	Fix: []string{
		"give the process the memory it uses; no swap under latency-bound services",
		"touch or lock mapped files beforehand, or read them into memory",
		"allocate less at once; no transparent huge pages where they are made in the fault",
	},
	Verify: "lock the memory, or warm the mapping, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

const (
	// grown is how much more often than at other times pages must fault during
	// slow requests, and how much longer than typical ones these must run.
	grown = 2.0
	// kernel is the part of the CPU time from which on it is mostly the kernel's.
	kernel = 0.5
	// minorCost is what a minor fault takes at most, in nanoseconds: clearing a page
	// of 4 kB takes about 1 us, the way there as much, in a guest some more. A fault
	// for a huge page takes longer, but then there are few.
	minorCost = 10e3
	// minorLeast is what a minor fault takes at least in a guest, with a page to be cleared: if slow requests have so many that
	// these alone explain their time, and the kernel's, there may be as many at other times, when others like them run, if
	// the kernel's part of the CPU time is larger by kernelMore (0.13 and 0.18 in recordings of such requests).
	minorLeast, kernelMore = 2.5e3, 0.1
	// minorShare is the part of the running time that minor faults must explain.
	minorShare = 0.2
)

// judge tests running time only: what waits in a system call is not in a fault.
// Without the host's evidence nothing tells it from computing; expensive-request
// says so.
func judge(c *cause.Case) *cause.Judgement {
	if c.Contrast == cause.LevelContrast {
		return nil
	}
	if j := waited(c); j != nil || c.Host == nil {
		return j
	}
	keys := c.Free(func(k blame.Key) bool { return k.Kind == blame.CPU && k.Flags&blame.Self != 0 })
	tail, typical := c.OwnCPU()
	if len(keys) == 0 || tail < grown*typical {
		return nil
	}
	in, out := &c.Host.Tail, &c.Host.Rest
	slow := float64(max(1, len(c.Tail)))
	major, minor := faults(in, out, func(u *host.Usage) float64 { return u.MajorFaults }), faults(in, out, func(u *host.Usage) float64 { return u.MinorFaults })
	minor = minor || out.WallNS > 0 && system(in) >= system(out)+kernelMore &&
		in.MinorFaults/slow*minorLeast >= minorShare*c.Sum(keys) && in.MinorFaults*minorLeast >= minorShare*in.SystemNS
	if !major && c.GrowthPart() >= cause.GrowthMin {
		return nil // the fresh memory is what growth asks for
	}
	waits, off := waiting(c, keys)
	kept := cause.Evidence{
		Text:  fmt.Sprintf("the kernel had %s of the CPU time during slow requests, %s at other times", cause.Pct(system(in)), cause.Pct(system(out))),
		Holds: cause.Of(minor && enough(in.MinorFaults/slow, c.Sum(keys)) && system(in) >= kernel && system(in) > system(out)), Decides: true, Number: system(in),
	}
	if major && in.MajorFaults >= slow { // each has to wait for at least one page
		kept = waits
	}
	where := place(c, keys)
	return &cause.Judgement{
		Keys: keys, Where: where,
		Subject: fmt.Sprintf("they touch pages that are not in memory, in %s", cause.PlaceName(where)),
		Evidence: []cause.Evidence{
			{
				Text: fmt.Sprintf("%.0f major and %.0f minor faults per slow request; per second %.0f and %.0f during slow requests, %.0f and %.0f at other times",
					in.MajorFaults/slow, in.MinorFaults/slow, perSecond(in.MajorFaults, in), perSecond(in.MinorFaults, in), perSecond(out.MajorFaults, out), perSecond(out.MinorFaults, out)),
				Holds: cause.Of(major && in.MajorFaults >= slow || minor && in.MinorFaults >= slow), Decides: true, Number: in.MajorFaults,
			},
			kept, off,
		},
		Alike: append([]string{"expensive-request"}, cause.OffCPUCauses...), Record: cause.RecordHost,
	}
}

// waited judges waits for pages that the kernel's scheduling events tell apart, also of
// calls into C; nil if there are hardly any.
func waited(c *cause.Case) *cause.Judgement {
	keys := c.OffCPUIn(events.Faulted)
	if c.Share(keys) < cause.NamedShare {
		return nil
	}
	slept := c.Sum(keys)
	if h := c.Host; h != nil && system(&h.Tail) >= kernel && system(&h.Tail) > system(&h.Rest) { // and finds the pages, meanwhile
		keys = c.Free(func(k blame.Key) bool {
			return k.Off == events.Faulted || k.Kind == blame.CPU && k.Flags&blame.Self != 0
		})
	}
	where := place(c, keys)
	return &cause.Judgement{
		Keys: keys, Where: where,
		Subject: fmt.Sprintf("they touch pages that are not in memory, in %s", cause.PlaceName(where)),
		Evidence: []cause.Evidence{{
			Text:  fmt.Sprintf("threads slept for %s of a slow request in no system call: for pages that they had touched (the kernel's scheduling events)", cause.Ms(slept)),
			Holds: cause.Yes, Decides: true, Number: slept / max(1, c.Excess),
		}},
	}
}

// place is where the pages are touched: by CPU samples, or where stacks were seen of who waits for them. A fault has none; if
// nothing is seen it is somewhere in the endpoint.
func place(c *cause.Case, keys []blame.KeyID) *cause.Place {
	if where, _ := c.HottestOfTail(); where != nil {
		return where
	}
	if where := c.PlaceOfKeys(keys); where != nil {
		return where
	}
	class, _ := cause.TopBy(c, keys, func(k blame.Key) blame.ClassID { return k.Class })
	if x := c.A.Classes[class]; x.Endpoint >= 0 && x.Name != x.Root {
		return &cause.Place{Function: x.Name}
	}
	return nil
}

// waiting says whether threads wait, for pages, while slow requests run: seen in
// looks at the process, else by the CPU samples that are missing.
func waiting(c *cause.Case, keys []blame.KeyID) (waits, off cause.Evidence) {
	f := c.OnCPUOf(c.Tail)
	off = cause.Evidence{Text: "whether the slow requests were on a CPU while they ran is unknown: too few CPU samples"}
	if f.Known {
		off = cause.Evidence{
			Text:  fmt.Sprintf("the slow requests were on a CPU for %s of their running time", cause.Pct(min(1, f.Value))),
			Holds: cause.Of(f.Value < cause.OnCPUMin), Number: f.Value,
		}
	}
	waits = c.Blocked(keys)
	if waits.Holds == cause.Unknown {
		waits.Holds = off.Holds
	}
	waits.Decides, waits.Record = true, ""
	return waits, off
}

// faults reports whether a kind of faults is clearly more frequent during slow
// requests than at other times.
func faults(in, out *host.Usage, of func(u *host.Usage) float64) bool {
	return of(in) > 0 && out.WallNS > 0 && perSecond(of(in), in) >= grown*perSecond(of(out), out)
}

// enough reports whether n minor faults can take the part of ns nanoseconds that
// makes them their cause.
func enough(n, ns float64) bool { return n*minorCost >= minorShare*ns }

func perSecond(n float64, u *host.Usage) float64 { return n / max(u.WallNS, 1) * 1e9 }

// system is the kernel's part of the CPU time.
func system(u *host.Usage) float64 { return u.SystemNS / max(u.UserNS+u.SystemNS, 1) }
