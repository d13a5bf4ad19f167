// Package lockedthread is the cause locked-thread.
package lockedthread

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "locked-thread", Title: "goroutine locked to a thread", Rank: 308, Layer: cause.Scheduler, Computes: true,
	What:       "A goroutine is locked to its thread (runtime.LockOSThread), as libraries for graphics or scripts want it. Whenever it blocks or becomes ready, one thread has to wake another and hand it the P, which takes a hundred times as long as running the next goroutine on the same thread; a request that talks to it for every small step waits for that each time.",
	MustHold:   "goroutines in the queue of a P that another thread had to be woken for, very often in slow requests, each time for no longer than a thread takes to wake",
	MustNot:    "threads that waited for a CPU; queues of Ps run by the thread that has the P, which is so unless somebody is locked to a thread",
	LookAlikes: []string{"host-contention", "single-worker", "lock-convoy", "syscall-handoff"},
	Fix: []string{
		"hand over more at a time: one call with all the steps, not one for each",
		"run everything that belongs together on the locked goroutine itself, so that it need not block in between",
		"unlock the thread where nothing depends on it: most C libraries want one caller at a time, not one thread",
	},
	Verify: "batch the calls, or leave out runtime.LockOSThread where that is safe, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	r := c.Root(func(k blame.Key) bool { return k.Kind == blame.LateWakeup && k.Flags&blame.Switched != 0 })
	if len(r.Keys) == 0 {
		return nil
	}
	where := c.SwitchPlace()
	j := &cause.Judgement{
		Keys: r.Keys, Where: where, Via: r.Via,
		Subject:  fmt.Sprintf("they wait for threads to be switched, because somebody is locked to one: %s", cause.PlaceName(where)),
		Evidence: []cause.Evidence{c.PromptSwitches()},
	}
	if c.Switches().Locked == timeline.NoG {
		return j.With(cause.Evidence{
			Text:  "nobody had a thread of its own from beginning to end: goroutines lock one for some time",
			Holds: cause.Unknown,
		})
	}
	return j.With(cause.Evidence{
		Text:  fmt.Sprintf("the goroutine in %s ran on one thread all the time, and nobody else ran there", cause.PlaceName(where)),
		Holds: cause.Yes,
	})
}
