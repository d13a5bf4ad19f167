// Package lockheldacrosswork is the cause lock-held-across-work.
package lockheldacrosswork

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "lock-held-across-work", Title: "lock held across work", Rank: 411, Layer: cause.Code, Computes: true,
	What:       "A goroutine holds a lock while it computes for long. Everybody who needs the lock waits for it.",
	MustHold:   "a wait for a lock whose root is one long running holder, or several of which each runs for more than five times as long as a typical request takes in all",
	MustNot:    "the holder waited; many short holders; readers of an RWMutex wait in RLock",
	LookAlikes: []string{"lock-held-across-wait", "lock-convoy", "rwmutex-writer", "expensive-request", "cpu-hog"},
	Fix: []string{
		"compute on a copy outside the lock, and hold it only to swap the result in",
		"split the work into parts and release the lock between them",
		"shard the data, so that one long holder stops only its shard",
	},
	Verify: "shorten the critical section, A/B interleaved: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	l := c.Locks()
	if len(l.Keys) == 0 {
		return nil
	}
	where, does := l.Holder, "computes"
	if l.Inner != nil {
		where, does = l.Inner, fmt.Sprintf("waits for another one, which %s holds and computes", cause.PlaceName(l.Inner))
	}
	j := &cause.Judgement{
		Keys: l.Keys, Where: where,
		Subject: fmt.Sprintf("they wait for %s in %s while %s holds it and %s", c.LockName(l.Site), c.SiteName(l.Site), cause.PlaceName(l.Holder), does),
		Evidence: []cause.Evidence{
			{
				Text:    fmt.Sprintf("the holders ran for %s of that time", cause.Pct(1-l.Waits)),
				Holds:   cause.Of(l.Waits < 0.5),
				Decides: true, Number: 1 - l.Waits,
			},
			l.HoldEvidence(true), c.HolderOnCPU(l),
		},
		Alike: cause.OffCPUCauses, Record: cause.RecordHost,
	}
	return j.With(c.HolderComputes(l)...)
}
