// Package slowdisk is the cause slow-disk.
package slowdisk

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-disk", Title: "slow disk", Rank: 306, Layer: cause.Host,
	What:       "Requests read, write or sync files in system calls that wait for the device.",
	MustHold:   "system calls on files; an fsync, or threads in uninterruptible sleep meanwhile where the host was recorded",
	MustNot:    "no thread waits for a device; a pipe or socket; the thread kept from the CPU",
	LookAlikes: []string{"sync-logging", "page-faults", "slow-cgo", "lock-held-across-wait", "host-contention"},
	Fix: []string{
		"sync once for many requests (group commit), or answer before the sync where that may be",
		"read ahead or cache; keep files open",
		"look at the device: its queue, its neighbours, its write cache",
	},
	Verify: "put the files on a tmpfs, or leave out the sync, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// mostly is the part of the looks during slow requests in which threads must have
// waited for a device for waits for a CPU to be the smaller part of a sync.
const mostly = 0.5

func judge(c *cause.Case) *cause.Judgement {
	r := c.Root(func(k blame.Key) bool {
		if k.Kind != blame.Syscall {
			return false
		}
		switch c.A.Sites[k.Site].Kind {
		case blame.SiteSync, blame.SiteFile, blame.SiteWriteFD:
			return true
		}
		return false
	})
	if len(r.Keys) == 0 {
		return nil
	}
	kind, most := cause.TopBy(c, r.Keys, func(k blame.Key) blame.SiteKind { return c.A.Sites[k.Site].Kind })
	name := map[blame.SiteKind]string{blame.SiteSync: "a sync", blame.SiteFile: "a system call on a file", blame.SiteWriteFD: "a write"}[kind]
	device := c.Blocked(r.Keys)
	device.Decides = true
	switch {
	case kind == blame.SiteSync: // it returns when the device has it; file systems wait in more than one way
		device.Decides = false
	case kind == blame.SiteWriteFD:
		device.Alike = []string{"sync-logging"}
	default:
		device.Alike = []string{"host-contention"}
	}
	punctual := c.Punctual("the calls", r.Keys)
	if noQuota := slices.Equal(punctual.Alike, []string{"host-contention"}); kind == blame.SiteSync && noQuota && device.Holds == cause.Yes {
		// While a thread waits for a device it does not wait for a CPU.
		punctual.Decides = device.Number < max(mostly, punctual.Number)
	}
	return &cause.Judgement{
		Keys: r.Keys, Where: r.Where, Via: r.Via,
		Subject: fmt.Sprintf("they wait in %s for %s of a file", c.SiteName(r.Site), map[bool]string{true: "a sync", false: "the contents"}[kind == blame.SiteSync]),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("%s of the excess are system calls on files, %s of that %s in %s", cause.Pct(c.Share(r.Keys)), cause.Pct(most/max(r.NS, 1)), name, c.SiteName(r.Site)),
				Holds: cause.Yes, Decides: true, Number: c.Share(r.Keys),
			},
			device, punctual,
		},
	}
}
