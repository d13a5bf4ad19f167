// Package timerwait is the cause timer-wait.
package timerwait

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "timer-wait", Title: "timer wait", Rank: 610, Layer: cause.Code,
	What:       "The request waits on purpose: a back-off between retries, a rate limiter, a poll interval, a sleep.",
	MustHold:   "a wait that only a timer ends, at a place in the program, by the request itself or work that it started",
	MustNot:    "a deadline on something else that is awaited (then it is what was awaited); news that a goroutine tells whoever is there (a long poll)",
	LookAlikes: []string{"late-timer", "slow-dependency", "retry-storm"},
	Fix: []string{
		"configure it: the named place decides how long to wait",
		"wait for the event itself instead of polling for it",
		"back off with jitter, from a small first step",
	},
	Verify: "halve the configured wait in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	keys := c.Free(func(k blame.Key) bool { return k.Kind == blame.Timer })
	if len(keys) == 0 {
		return nil
	}
	site, ns := cause.TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.Site })
	w := c.A.Waits(site)
	if c.A.Sites[site].Kind == blame.SiteBusy {
		return busy(c, keys, site)
	}
	if site == 0 {
		return started(c, keys)
	}
	j := timed(c, keys, w, fmt.Sprintf("%d waits in %s were ended by nothing but time, %d by somebody else", w.Timers, c.SiteName(site), w.Answered), "; lateness behind busy Ps is not counted")
	j.Where, j.Via = c.PlaceOfKeys(keys), c.Via(keys)
	if j.Subject = fmt.Sprintf("they sleep on a timer in %s", c.SiteName(site)); j.Via != nil {
		j.Subject = fmt.Sprintf("they wait for others that sleep on a timer in %s", c.SiteName(site))
	}
	j.Evidence = append(j.Evidence, c.Announced(keys)...)
	j.Evidence = append(j.Evidence, c.Restocked(keys)...)
	j.Evidence = append(j.Evidence, c.LateTimers(site, ns)...)
	return j
}

// started judges waits for what a goroutine does that a timer starts: for most of the time
// there was none. They have no place but where somebody waits for it: it decides when.
func started(c *cause.Case, keys []blame.KeyID) *cause.Judgement {
	site, _ := cause.TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.Last.Site })
	class, _ := cause.TopBy(c, keys, func(k blame.Key) blame.ClassID { return k.Class })
	w := c.A.Started(site)
	j := timed(c, keys, w, fmt.Sprintf("%d waits in %s were ended by goroutines that a timer had started, %d by others", w.Timers, c.SiteName(site), w.Answered), "")
	j.Where, j.Subject = c.PlaceOf(site), fmt.Sprintf("they wait in %s until a timer starts %s", c.SiteName(site), c.ClassName(class))
	return j
}

// timed judges waits by how many of those like them time ended, and whether these took a constant
// time; ended and but are texts about the one and the other.
func timed(c *cause.Case, keys []blame.KeyID, w blame.WaitStats, ended, but string) *cause.Judgement {
	j := &cause.Judgement{Keys: keys, Evidence: append([]cause.Evidence{
		{
			Text:    ended,
			Holds:   cause.Of(w.Timers > w.Answered),
			Decides: true, Number: float64(w.Timers),
		},
		{
			Text:  fmt.Sprintf("half of them took between %s and %s%s", cause.Ms(float64(w.Low)), cause.Ms(float64(w.High)), but),
			Holds: constant(w), Number: float64(w.High - w.Low),
		},
	}, c.OtherEndpoint()...)}
	if e, doubt := c.Stolen(); doubt {
		j.Evidence = append(j.Evidence, e)
	}
	return j
}

// constant reports whether the middle half of the waits are equal within a tenth
// or a millisecond, the resolution of a timer in an idle process.
func constant(w blame.WaitStats) cause.Truth {
	return cause.Of(w.High-w.Low <= max(w.High/10, 1e6))
}

// busy judges waits that only sleep before they try again to lock a database: it
// is no timer that keeps them, but whoever has it, and nothing wakes them.
func busy(c *cause.Case, keys []blame.KeyID, site blame.SiteID) *cause.Judgement {
	return &cause.Judgement{
		Keys: keys, Where: c.PlaceOfKeys(keys),
		Subject: fmt.Sprintf("they sleep and try again in %s, because the database is locked", c.SiteName(site)),
		Evidence: []cause.Evidence{{
			Text:  "the sleeps are those of a busy handler: another connection holds the database's lock, in this process or in another, and a trace does not tell which",
			Holds: cause.Unknown, Decides: true, Number: c.Share(keys),
		}},
		Alike:  []string{"lock-held-across-wait", "lock-held-across-work"},
		Record: "with a runtime/trace region around every transaction: the one that is open meanwhile holds the lock",
	}
}
