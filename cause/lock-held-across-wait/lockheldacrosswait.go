// Package lockheldacrosswait is the cause lock-held-across-wait.
package lockheldacrosswait

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "lock-held-across-wait", Title: "lock held across a wait", Rank: 410, Layer: cause.Code, Unwanted: true,
	What:       "A goroutine holds a lock while it waits for something slow: a network call, a system call, a timer, a channel. Everybody who needs the lock waits with it.",
	MustHold:   "a wait for a lock whose holder itself waited or blocked meanwhile",
	MustNot:    "the holder ran; many short holders; readers of an RWMutex wait in RLock; the waiters need themselves what takes longer than usual, and that has a cause of its own",
	LookAlikes: []string{"lock-held-across-work", "lock-convoy", "rwmutex-writer", "pool-exhausted", "slow-dependency", "sync-logging"},
	Fix: []string{
		"do the slow part before taking the lock, and hold it only to publish the result",
		"let one goroutine refresh and the others read the previous value (copy-on-write, atomic.Pointer)",
		"give the slow call a deadline, so that the lock is never held for longer",
	},
	Verify: "move the call out of the critical section, A/B interleaved: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	l := c.Locks()
	file := c.Free(func(k blame.Key) bool { return k.Kind == blame.Syscall && c.A.Sites[k.Site].Kind == blame.SiteLocked })
	if len(file) > 0 && c.Sum(file) > c.Sum(l.Keys) {
		return ofFile(c, file)
	}
	if len(l.Keys) == 0 {
		return nil
	}
	if l.Open > 0.5 {
		return &cause.Judgement{
			Keys: l.Keys, Where: c.PlaceOfKeys(l.Keys),
			Subject:  "they wait for a lock that nobody released until the recording ended",
			Evidence: []cause.Evidence{l.OpenEvidence()},
			Alike:    []string{"lock-held-across-work"}, Record: "the goroutine profile: the holder stands inside the critical section",
		}
	}
	what, _ := cause.TopBy(c, l.Keys, func(k blame.Key) leaf {
		if !cause.Waits(k) {
			return leaf{}
		}
		return leaf{k.Kind, k.Site}
	})
	waited := fmt.Sprintf("the holders spent %s of that time waiting", cause.Pct(l.Waits))
	if what != (leaf{}) {
		waited += fmt.Sprintf(", most of it in %s (%s)", c.SiteName(what.site), what.kind)
	}
	where, across, hold := place(c, l, what), what.kind.String(), l.HoldEvidence(true)
	if l.Apart { // however short each of their waits is
		hold.Decides = false
	}
	if l.Others > 0.5 { // however many holders there are, and however short each of them waits
		across = "for what " + c.ClassName(l.For.Waker) + " does"
		waited = fmt.Sprintf("the holders spent %s of that time waiting, %s for other goroutines, most of it in %s", cause.Pct(l.Waits), cause.Pct(l.Others), c.SiteName(l.For.Site))
		hold.Decides = false
		if p := c.PlaceOf(l.For.Site); p != nil {
			where = p
		}
	}
	return &cause.Judgement{
		Keys: l.Keys, Where: where,
		Subject: fmt.Sprintf("they wait for %s in %s while %s holds it across a wait (%s)", c.LockName(l.Site), c.SiteName(l.Site), cause.PlaceName(l.Holder), across),
		Evidence: []cause.Evidence{
			{
				Text:    waited,
				Holds:   cause.Of(l.Waits >= 0.5),
				Decides: true, Number: l.Waits,
			},
			hold, l.OwnWorkEvidence(),
		},
	}
}

// ofFile judges waits for the lock of a file: that it is held is certain, by whom, and what for, no trace tells.
func ofFile(c *cause.Case, keys []blame.KeyID) *cause.Judgement {
	where := c.PlaceOfKeys(keys)
	return &cause.Judgement{
		Keys: keys, Where: where,
		Subject: fmt.Sprintf("they wait for a file's lock in %s", cause.PlaceName(where)),
		Evidence: []cause.Evidence{{
			Text:  "the system call returns when whoever has the file's lock gives it up: another process, or another file descriptor of this one",
			Holds: cause.Unknown, Decides: true, Number: c.Share(keys),
		}},
		Alike:  []string{"lock-held-across-work"},
		Record: "who has the lock (/proc/locks names the process), and what he does meanwhile",
	}
}

type leaf struct {
	kind blame.LeafKind
	site blame.SiteID
}

// place is where the holder waits; in a reply reader's stack there is nothing of
// the program's own, then it is where the holder released.
func place(c *cause.Case, l *cause.Locks, what leaf) *cause.Place {
	if p := c.PlaceOf(what.site); p != nil {
		return p
	}
	return l.Holder
}
