// Package slowcgo is the cause slow-cgo.
package slowcgo

import (
	"fmt"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-cgo", Title: "slow call into C", Rank: 307, Layer: cause.Code,
	What:       "C code holds the call, computing or blocked; or the call itself costs, because Go checks all pointers of a large argument.",
	MustHold:   "time in calls into C, or CPU samples in the pointer checks in front of them",
	MustNot:    "name lookups; the thread kept from the CPU",
	LookAlikes: []string{"slow-disk", "syscall-handoff", "slow-dns", "host-contention"},
	Fix: []string{
		"batch: one call for many items",
		"move the call out of the request, or give it a deadline of its own on the C side",
		"pass no memory that holds pointers, so that nothing has to be checked; #cgo noescape and nocallback",
		"replace it by Go",
	},
	Verify: "stub the C function in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// checked is the part of the slow requests' CPU samples in pointer checks from
// which on these are what they run for.
const checked = 0.5

func judge(c *cause.Case) *cause.Judgement {
	r := c.Root(func(k blame.Key) bool { return k.Kind == blame.Cgo && c.A.Sites[k.Site].Kind != blame.SiteDNS })
	if check := checks(c); check != nil && c.Sum(check.Keys) > r.NS {
		return check
	}
	if len(r.Keys) == 0 {
		return nil
	}
	name := c.A.Sites[r.Site].C
	ev := []cause.Evidence{
		{
			Text:  fmt.Sprintf("%s of the excess are calls into C, most of it in %s called by %s", cause.Pct(c.Share(r.Keys)), name, c.SiteName(r.Site)),
			Holds: cause.Yes, Decides: true, Number: c.Share(r.Keys),
		},
	}
	if on := c.ComputesInC(); on.Holds == cause.Yes { // what is on a CPU does not wait for one
		ev = append(ev, on)
	} else {
		ev = append(ev, c.PunctualWork("the calls", r.Keys))
	}
	if b := c.Blocked(r.Keys); b.Holds != cause.Unknown {
		b.Holds = cause.Yes // either way: it says what C does
		ev = append(ev, b)
	}
	if seen, ok := c.CallsInto(name); ok {
		ev = append(ev, seen)
	}
	return &cause.Judgement{
		Keys: r.Keys, Where: r.Where, Via: r.Via, Evidence: ev,
		Subject: fmt.Sprintf("they are in C, in %s called by %s", name, cause.PlaceName(r.Where)),
	}
}

// checks judges the cost of passing pointers.
func checks(c *cause.Case) *cause.Judgement {
	part, samples := c.SampledOn(c.Tail, func(f string) bool { return strings.HasPrefix(f, "runtime.cgoCheck") })
	if part < checked || samples < cause.MinDoubt {
		return nil
	}
	where, _ := c.HottestOfTail()
	return &cause.Judgement{
		Keys:    c.Free(func(k blame.Key) bool { return k.Kind == blame.CPU && k.Flags&blame.Self != 0 }),
		Where:   where,
		Subject: fmt.Sprintf("Go checks the pointers of what %s passes to C", cause.PlaceName(where)),
		Evidence: []cause.Evidence{{
			Text:  fmt.Sprintf("%s of %d CPU samples of slow requests are in the check of pointers passed to C", cause.Pct(part), samples),
			Holds: cause.Yes, Decides: true, Number: part,
		}},
	}
}
