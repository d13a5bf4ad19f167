// Package overload is the cause overload.
package overload

import (
	"fmt"

	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "overload", Title: "overload", Rank: 520, Layer: cause.Load, Computes: true, Crowds: true,
	What:       "More requests arrive than the Ps can serve: requests wait for a P behind other requests.",
	MustHold:   "since the backlog began the Ps executed the request handlers themselves, which really were on a CPU",
	MustNot:    "one other class that holds the Ps, or work for few requests that is much more than that of those that wait, where the Ps are mostly idle; a request that costs more CPU than usual; calls that keep the Ps or lose them; one or two others in front, as long as usual requests, that come together by chance",
	LookAlikes: []string{"cpu-hog", "gc-workers", "gomaxprocs-too-low", "quota-too-low", "retry-storm", "syscall-handoff"},
	Fix: []string{
		"more capacity: more Ps if CPUs are idle, more instances",
		"shed load early: bound the number of requests in work",
		"make the handler cheaper: the named function first",
	},
	Verify: "half the load per instance in an interleaved A/B: p99 and this share fall together, CPU per request stays",
	Judge:  judge,
}

// ordinary is how many bursts of others for each P in front of a slow request, mostOrdinary how many at all, make a queue that is none of
// too little capacity, if the Ps are busy for less than spare: where half of the capacity is used one request in a hundred waits for
// 6 on one P and on two, 5 on four and 3 on eight (M/M/c). In recordings of such services there were 1 to 2 on two Ps that were busy for
// 0.2 to 0.5 of the time, of overload 24 to 39.
const ordinary, mostOrdinary, spare = 1.5, 4, 0.7

// likeMost is how many times as long as usual requests others run at most, each, for them to be such requests.
const likeMost = 2

func judge(c *cause.Case) *cause.Judgement {
	j := c.Starved(cause.Own, cause.Ready)
	if j == nil || c.TooLittle(j.Keys) {
		return j
	}
	j.Subject = fmt.Sprintf("ready requests queue for a P behind other requests (%s)", c.Culprit(j.Where))
	p := c.Processors()
	_, usual := c.OwnCPU()
	n, burst, busy := p.Bursts, float64(c.A.Classes[p.Class].Burst), c.Busy()
	if n < min(ordinary*float64(c.GOMAXPROCS()), mostOrdinary) && burst <= likeMost*usual && busy < spare {
		j.With(cause.Evidence{
			Text: fmt.Sprintf("%.1f others run in front of a request on %d Ps, each for %s, where usual requests run for %s, and the Ps are busy for %s of the recording: that many come together by chance",
				n, c.GOMAXPROCS(), cause.Ms(burst), cause.Ms(usual), cause.Pct(busy)),
			Holds:   cause.No,
			Decides: true, Number: n,
		})
	}
	h := c.Handoffs()
	if lost := c.Lost(j.Keys); c.Sum(h.Keys) > 0.5*c.Sum(j.Keys) || h.Kept() {
		after, other := h.Tail.Each()
		j.Evidence = append(j.Evidence, cause.Evidence{
			Text:    fmt.Sprintf("%s of these waits follow calls that cost the P; a wait takes %s after a call, %s otherwise; calls keep the Ps for %s of the time in which these have a goroutine", cause.Pct(lost), cause.Ms(after), cause.Ms(other), cause.Pct(h.Held)),
			Holds:   cause.Of(!h.Lead()),
			Decides: true, Number: lost,
		})
	}
	if c.Host != nil { // gomaxprocs-too-low has decided
		return j
	}
	return j.With(capacity(c.GOMAXPROCS(), c.Target.NumCPU))
}

// capacity says whether every CPU has a P: else the load may be too much for the
// Ps only. cpus is 0 if not recorded.
func capacity(ps, cpus int) cause.Evidence {
	const alike, record = "gomaxprocs-too-low", "the machine's idle CPU time, on the host of the process"
	switch {
	case cpus == 0: // hardly a machine has but one
		return cause.Evidence{
			Text:  fmt.Sprintf("GOMAXPROCS is %d; whether the machine has more CPUs is unknown: if it has, and they are idle, it is %s", ps, alike),
			Holds: cause.Unknown, Decides: ps == 1, Alike: []string{alike}, Record: record,
		}
	case ps < cpus:
		return cause.Evidence{
			Text:  fmt.Sprintf("GOMAXPROCS is %d on %d CPUs; whether the others were idle is unknown", ps, cpus),
			Holds: cause.Unknown, Decides: true, Number: float64(ps) / float64(cpus),
			Alike: []string{alike}, Record: record,
		}
	}
	return cause.Evidence{Text: fmt.Sprintf("GOMAXPROCS is %d, and there are no more CPUs", ps), Holds: cause.Yes, Number: float64(ps) / float64(cpus)}
}
