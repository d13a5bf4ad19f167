// Package lockconvoy is the cause lock-convoy.
package lockconvoy

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "lock-convoy", Title: "lock convoy", Rank: 412, Layer: cause.Code, Computes: true, Unwanted: true,
	What:       "A hot lock with many short holders: the queue is long although every hold is short, and it hands over from one waiter to the next.",
	MustHold:   "waits for a lock behind many short holders of one site",
	MustNot:    "one long holder, or several, each for more than five times as long as a typical request takes in all; holders that wait",
	LookAlikes: []string{"lock-held-across-wait", "lock-held-across-work", "rwmutex-writer", "cpu-hog", "pool-exhausted"},
	Fix: []string{
		"shard the lock by key, so that unrelated requests do not meet",
		"make readers free of locks: copy-on-write with atomic.Pointer, or an atomic counter",
		"take the lock less often: batch, or move work out of the section",
	},
	Verify: "shard the lock, A/B interleaved at equal load: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	l := c.Locks()
	if len(l.Keys) == 0 || l.Others > 0.5 || l.Apart || c.Pooled(l.Site) {
		return nil
	}
	n := c.MeanHolders(l.Keys)
	return &cause.Judgement{
		Keys: l.Keys, Where: l.Holder,
		Subject: fmt.Sprintf("they queue for a hot lock in %s behind %.0f short holders", c.SiteName(l.Site), n),
		Evidence: []cause.Evidence{
			l.HoldEvidence(false),
			{Text: fmt.Sprintf("a slow request waits for %.1f holders one after the other", n), Holds: cause.Of(n > 1), Decides: true, Number: n},
			c.HolderKept(l),
		},
		Alike: cause.OffCPUCauses, Record: cause.RecordHost,
	}
}
