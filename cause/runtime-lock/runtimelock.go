// Package runtimelock is the cause runtime-lock.
package runtimelock

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "runtime-lock", Title: "lock of the runtime", Rank: 613, Layer: cause.Scheduler,
	What:       "Threads wait for each other at a lock inside the runtime, which no goroutine sees: that of one channel in the select of every worker, of one timer that everybody resets, of the scheduler or of the heap. They spin, or sleep in the kernel with their P, and all of it looks like running code. A thread that wakes up from that waits for a CPU like one that others keep from it: on a machine with two CPUs the answer is mostly a set with host-contention in it.",
	MustHold:   "most of the time that slow requests run is in locks of the runtime, by their CPU samples and by what their threads sleep without wanting a CPU; in a good part of it somebody waits for a lock",
	MustNot:    "locks that nobody waits for; mutexes and conditions of the program, whose slow path takes such a lock too; threads kept from the CPU by others",
	LookAlikes: []string{"lock-convoy", "expensive-request", "gomaxprocs-over-quota", "host-contention"},
	Fix: []string{
		"share less: a channel or timer for each worker instead of one for all",
		"do it less often: look at the channel, or reset the timer, once for many items",
		"a newer Go version: its locks, timers and channels scale better from release to release",
		"fewer large allocations, if the lock is the heap's; fewer goroutines and timers, if it is the scheduler's",
	},
	Verify: "give each goroutine a channel or timer of its own in an interleaved A/B: p99 and this share fall together, as does /sync/mutex/wait/total in runtime/metrics",
	Judge:  judge,
}

func judge(c *cause.Case) *cause.Judgement {
	if c.Contrast == cause.LevelContrast {
		return nil // a level contrast is about waits
	}
	l := c.Contended()
	if l.Samples == 0 {
		return nil
	}
	// What is done between is done at the lock's pace.
	keys := c.Free(c.OwnRunning)
	if p := c.Processors(); p.Winner == cause.Heavy { // others wait for a P behind those who wait for the lock
		keys = append(keys, p.Claim...)
	}
	if len(keys) == 0 {
		return nil
	}
	j := &cause.Judgement{
		Keys: keys, Where: l.Where,
		Subject:  fmt.Sprintf("they wait for a lock inside the runtime (%s), in %s", l.Of, cause.PlaceName(l.Where)),
		Evidence: l.Evidence(c),
		Alike:    cause.OffCPUCauses, Record: cause.RecordHost,
	}
	return j.With(c.OtherEndpoint()...)
}
