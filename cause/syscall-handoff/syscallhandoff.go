// Package syscallhandoff is the cause syscall-handoff.
package syscallhandoff

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "syscall-handoff", Title: "P lost in a system call", Rank: 530, Layer: cause.Scheduler, Computes: true,
	What:       "A system call or a call into C takes long enough for the runtime to give the P to others, which it does after 20 us at the earliest and 10 ms at the latest; until then the call keeps the P from everybody. When the call returns, the request has to queue for a P, at the end of the queue, after each such call.",
	MustHold:   "waits for a P right after system calls or calls into C, far above those of typical requests; they are much longer than the same requests' other waits for a P, or the Ps are kept by calls more than they execute",
	MustNot:    "one class of goroutines that held the Ps, but by calls; waits of any kind alike",
	LookAlikes: []string{"slow-cgo", "cpu-hog", "overload", "host-contention"},
	Fix: []string{
		"fewer and longer calls: batch them, buffer small reads and writes",
		"bound how many goroutines are in such calls at a time, with a semaphore",
		"use the network poller instead of blocking calls where it can wait",
	},
	Verify: "batch the calls, or stub them, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

// grown is how much longer than typical requests slow ones must wait after calls.
const grown = 2

func judge(c *cause.Case) *cause.Judgement {
	h := c.Handoffs()
	if len(h.Keys) == 0 {
		return nil
	}
	class, held := cause.TopBy(c, h.Keys, func(k blame.Key) blame.ClassID { return k.Class })
	part := held / max(c.Sum(h.Keys), 1)
	foreign := c.A.Classes[class].Endpoint < 0 && !c.A.Serves(class) && part > 0.5
	subject := "they lose their P in calls and have to wait for another one when these return"
	switch {
	case h.Others:
		subject, foreign = fmt.Sprintf("calls of %s keep the Ps, for which ready requests queue", c.ClassName(class)), false
	case h.Kept():
		subject = "calls of requests keep the Ps, and who returns from one queues for a P again"
	}
	after, other := h.Tail.Each()
	slow, usual := h.Because(h.Tail), h.Because(h.Typical)
	return &cause.Judgement{
		Keys: h.Keys, Where: place(c),
		Subject: subject,
		Evidence: []cause.Evidence{
			{
				Text: fmt.Sprintf("slow requests wait %s for a P after calls, %.1f times, and %s for other reasons; typical ones %s and %s",
					cause.Ms(h.Tail.After), h.Tail.Calls, cause.Ms(h.Tail.Other), cause.Ms(h.Typical.After), cause.Ms(h.Typical.Other)),
				Holds: cause.Of(slow >= grown*usual || c.P.Whole || c.Contrast == cause.LevelContrast), Decides: true, Number: slow / max(usual, 1),
			},
			{
				Text:  fmt.Sprintf("a wait for a P takes %s after a call, %s otherwise; calls keep the Ps for %s of the time in which these have a goroutine", cause.Ms(after), cause.Ms(other), cause.Pct(h.Held)),
				Holds: cause.Of(h.Lead()), Decides: true, Number: after / max(other, 1),
			},
			{
				Text:  fmt.Sprintf("meanwhile the Ps executed %s for %s of the time", c.ClassName(class), cause.Pct(part)),
				Holds: cause.Of(!foreign), Decides: true, Number: part,
			},
		},
	}
}

// place is where the slow requests are in calls longest; where they are in none, the
// calls that keep the Ps from them.
func place(c *cause.Case) *cause.Place {
	var where *cause.Place
	var most int64
	sums := map[blame.SiteID]int64{}
	for _, r := range c.Tail {
		for _, p := range c.A.Requests[r].Pieces {
			k := c.Key(p.Key)
			if k.Flags&blame.Self == 0 || k.Kind != blame.Syscall && k.Kind != blame.Cgo {
				continue
			}
			if sums[k.Site] += p.NS; sums[k.Site] > most {
				if at := c.PlaceOf(k.Site); at != nil {
					most, where = sums[k.Site], at
				}
			}
		}
	}
	if where == nil {
		where = c.Handoffs().Keeper
	}
	return where
}
