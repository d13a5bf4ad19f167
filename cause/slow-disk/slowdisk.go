// Package slowdisk is the cause slow-disk.
package slowdisk

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "slow-disk", Title: "slow disk", Rank: 306, Layer: cause.Host, Unwanted: true,
	What:       "Requests read, write, open or sync files in system calls that wait for the device, or for a file system over the network or in user space.",
	MustHold:   "system calls on files; an fsync, an open or another that only file systems answer, or threads in uninterruptible sleep meanwhile where the host was recorded",
	MustNot:    "no thread waits for a device in calls that may be on a pipe or socket; the thread kept from the CPU",
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
// waited for a device for waits for a CPU to be the smaller part of a sync, and the part
// of the time that calls must have that only file systems answer for it to be theirs.
const mostly = 0.5

// answered is the evidence where only file systems answer the calls: one over the network
// or in user space shows as no device, but one that computes, or many calls that are
// quick, show in the CPU samples.
func answered(c *cause.Case, ns float64, device cause.Evidence) cause.Evidence {
	part, samples := c.SampledOn(c.Tail, blame.PathCall)
	computed := part * float64(samples)
	expected := ns * float64(len(c.Tail)) / cause.SamplePeriod
	switch {
	case expected < cause.MinDoubt || len(c.A.Timeline().Samples) == 0: // too little to tell
		device.Alike = []string{"host-contention"}
		return device
	case computed >= mostly*expected && !c.Watched(): // the kernel tells such time apart itself
		return cause.Evidence{
			Text:  fmt.Sprintf("%.0f CPU samples of slow requests are in these calls: the kernel computes in them, for %s of their time", computed, cause.Pct(min(1, computed/expected))),
			Holds: cause.No, Decides: true, Number: computed / expected,
		}
	}
	device.Decides = false
	if device.Holds == cause.No {
		device.Holds = cause.Unknown
		device.Text += ": a file system over the network or in user space does not show there"
	}
	return device
}

// onPaths returns the part of the time under keys in calls that only file systems answer.
func onPaths(c *cause.Case, keys []blame.KeyID) float64 {
	var ns float64
	for _, id := range keys {
		if c.A.Sites[c.Key(id).Site].Path {
			ns += c.NS[id]
		}
	}
	return ns / max(1, c.Sum(keys))
}

func judge(c *cause.Case) *cause.Judgement {
	r := c.Root(func(k blame.Key) bool {
		if k.Kind != blame.Syscall {
			return false
		}
		switch c.A.Sites[k.Site].Kind {
		case blame.SiteSync: // also what the kernel computes in it: nobody asks for that but who syncs
			return true
		case blame.SiteFile, blame.SiteWriteFD:
			return k.Off != events.OnCPU
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
	case onPaths(c, r.Keys) >= mostly:
		device = answered(c, r.NS, device)
	default:
		device.Alike = []string{"host-contention"}
	}
	punctual := c.PunctualWork("the calls", r.Keys)
	if kind == blame.SiteSync {
		punctual = c.Punctual("the calls", r.Keys)
	}
	if noQuota := slices.Equal(punctual.Alike, []string{"host-contention"}); kind == blame.SiteSync && noQuota && device.Holds == cause.Yes {
		// While a thread waits for a device it does not wait for a CPU.
		punctual.Decides = device.Number < max(mostly, punctual.Number)
	}
	what := "the contents"
	switch {
	case kind == blame.SiteSync:
		what = "a sync"
	case onPaths(c, r.Keys) >= mostly:
		what = "the opening, or the like,"
	}
	return &cause.Judgement{
		Keys: r.Keys, Where: r.Where, Via: r.Via,
		Subject: fmt.Sprintf("they wait in %s for %s of a file", c.SiteName(r.Site), what),
		Evidence: []cause.Evidence{
			{
				Text:  fmt.Sprintf("%s of the excess are system calls on files, %s of that %s in %s", cause.Pct(c.Share(r.Keys)), cause.Pct(most/max(r.NS, 1)), name, c.SiteName(r.Site)),
				Holds: cause.Yes, Decides: true, Number: c.Share(r.Keys),
			},
			device, punctual,
		},
	}
}
