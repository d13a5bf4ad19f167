// Package stoptheworld is the cause stop-the-world.
package stoptheworld

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "stop-the-world", Title: "stop-the-world", Rank: 200, Layer: cause.Scheduler, Unwanted: true,
	What:       "Something other than the garbage collector stops every goroutine: runtime.ReadMemStats, a dump of all stacks, a goroutine profile, a change of GOMAXPROCS.",
	MustHold:   "a stop-the-world range with such a reason lies in the slow requests",
	MustNot:    "the reason is the garbage collector's, or our own recording's; a long stopping part: then somebody delays every stop; a few of these stops are much longer than all others: then their threads were kept from a CPU",
	LookAlikes: []string{"gc-pause", "slow-to-stop", "observer", "forced-gc", "host-contention"},
	Fix: []string{
		"read runtime/metrics instead of runtime.ReadMemStats: it does not stop the world",
		dumps, "lower the cadence of whatever calls it",
	},
	Verify: "switch the caller off, or halve its cadence, in an interleaved A/B: p99 and this share fall together",
	Judge:  judge,
}

const dumps = "dump stacks and goroutine profiles rarely, and not while serving: their stop grows with the number of goroutines"

func judge(c *cause.Case) *cause.Judgement {
	mostly := c.StopShare(func(s *timeline.Span) bool { return cause.Foreign(s.Name) }) > 0.5 // who waits for a P after a stop waits for what stopped most
	keys := c.Free(func(k blame.Key) bool {
		return k.Kind == blame.STW && cause.Foreign(c.A.Reasons[k.Reason]) || mostly && k.Kind == blame.Behind && k.Class == timeline.ClassStopped
	})
	if len(keys) == 0 {
		return nil
	}
	reason, _ := cause.TopBy(c, keys, func(k blame.Key) uint16 { return k.Reason })
	if reason == 0 { // queueing after a stop is all there is: take the commonest stop
		reason = c.A.CommonestStop(cause.Foreign)
	}
	name := c.A.Reasons[reason]
	n, total, where := c.StopsFor(name)
	j := &cause.Judgement{
		Keys: keys, Where: where,
		Subject: fmt.Sprintf("the world was stopped (%s) by %s", name, cause.PlaceName(where)),
		Evidence: []cause.Evidence{{
			Text:    fmt.Sprintf("%d stops for %q, %s each on average, called from %s", n, name, cause.Ms(float64(total)/float64(max(n, 1))), cause.PlaceName(where)),
			Holds:   cause.Of(n > 0),
			Decides: true, Number: float64(n),
		}, c.Stopping("of these stops", cause.SlowStopping, func(of string) bool { return of == name })},
	}
	switch name {
	case "all goroutines stack trace", "goroutine profile", "goroutine profile cleanup":
		j.Fix = []string{dumps}
	case "GOMAXPROCS":
		j.Fix = []string{"set GOMAXPROCS once, before serving"}
	}
	if e, doubt := c.Lengthened(func(of string) bool { return of == name }); doubt {
		j.Evidence = append(j.Evidence, e)
	}
	return j
}
