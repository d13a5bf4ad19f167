// Package retrystorm is the cause retry-storm.
package retrystorm

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "retry-storm", Title: "retry storm", Rank: 590, Layer: cause.Load, Unwanted: true,
	What:       "The request makes the same call again and again: each attempt runs into its time-out, perhaps after a pause, and each is more load for a peer that is late already.",
	MustHold:   "several calls at one place in one request that time out, where requests without a time-out make fewer calls; they and the pauses between take a good part of the request's time",
	MustNot:    "a single time-out; as many calls in requests without one; a wait that only looks up now and then without asking again",
	LookAlikes: []string{"slow-dependency", "timer-wait", "overload"},
	Fix: []string{
		"give retries a budget: a small part of the calls, after which a request fails or falls back at once",
		"one deadline for the whole request, and no attempt that cannot end before it",
		"a time-out above the peer's usual p99, back-off with jitter, and retries at one level of the call chain only",
		"look at the peer: without its late answers nothing is repeated",
	},
	Verify: "allow one attempt only in an interleaved A/B: p99 and this share fall together, and the peer's load with them",
	Judge:  judge,
}

const (
	// mostTime is the part of the slow requests' time that goes to it at the least.
	mostTime = 0.3
	// A call is made again, and no other call is made, if with time-outs there are
	// more calls than without, by rise; below level there are not.
	rise, level = 1.5, 1.1
	// minAlone is how many time-outs in one request say so where no request without
	// one is there to compare with.
	minAlone = 5
	// habit is the part of the typical requests above which sleeping between calls
	// is how all of them work.
	habit = 0.5
)

func judge(c *cause.Case) *cause.Judgement {
	r := c.Retries()
	if r == nil {
		return nil
	}
	j := &cause.Judgement{Keys: slices.Concat(r.Calls, r.Pauses), Where: c.PlaceOf(r.Site)}
	switch {
	case unseen(r):
		return undecided(c, r, j)
	case r.TimedOut == 0:
		return nil
	}
	j.Subject = fmt.Sprintf("they call %.1f times in %s, and %.1f of the calls time out", r.Made, c.SiteName(r.Site), r.TimedOut)
	j.Evidence = []cause.Evidence{
		{
			Text: fmt.Sprintf("slow requests that run into a time-out in %s make %.1f calls there, of which %.1f time out, half of them after %s to %s",
				c.SiteName(r.Site), r.Made, r.TimedOut, cause.Ms(float64(r.Low)), cause.Ms(float64(r.High))),
			Holds: cause.Of(r.TimedOut >= cause.MinAgain), Decides: true, Number: r.TimedOut,
		},
		same(r),
		{
			Text:  fmt.Sprintf("time-outs and the pauses before the next calls take %s of slow requests' time", cause.Pct(r.Part)),
			Holds: cause.Of(r.Part >= mostTime), Decides: true, Number: r.Part,
		},
		c.Punctual("the calls and the pauses", j.Keys),
	}
	if len(r.Pauses) > 0 {
		j.Evidence = append(j.Evidence, cause.Evidence{
			Text:  fmt.Sprintf("before %.1f of the calls they sleep in %s", r.Paused, c.SiteName(r.Pause)),
			Holds: cause.Yes, Number: r.Paused,
		})
	}
	j.Alike, j.Record = []string{"host-contention"}, cause.RecordHost
	return j.With(c.OtherEndpoint()...)
}

// same says whether the calls are one call made again, or different ones.
func same(r *cause.Retries) cause.Evidence {
	e := cause.Evidence{Decides: true, Alike: []string{"slow-dependency"}, Record: "a runtime/trace region around each call, named after what it asks for"}
	if r.Others == 0 {
		e.Text = "no request calls there without a time-out, to compare with"
		if r.TimedOut >= minAlone || len(r.Pauses) > 0 { // nobody backs off from a call that was not made yet
			e.Holds = cause.Yes
		}
		return e
	}
	e.Text = fmt.Sprintf("%d requests without a time-out make %.1f calls there; all requests together make %.2f times as many calls as if none were repeated", r.Others, r.Usual, r.Load)
	e.Number = r.Made / r.Usual
	switch {
	case r.Made >= rise*r.Usual:
		e.Holds = cause.Yes
	case r.Made < level*r.Usual:
		e.Holds = cause.No
	}
	return e
}

// unseen reports whether slow requests, and no others, sleep and call again although
// too few of their calls time out to be the reason.
func unseen(r *cause.Retries) bool {
	return r.TimedOut < cause.MinAgain && r.Paused >= cause.MinAgain && r.Habit <= habit &&
		r.Others > 0 && r.Made >= rise*r.Usual && len(r.Pauses) > 0
}

// undecided judges calls that are repeated although they were answered: whether with
// an error, a trace does not tell.
func undecided(c *cause.Case, r *cause.Retries, j *cause.Judgement) *cause.Judgement {
	j.Subject = fmt.Sprintf("they call %.1f times in %s, and sleep in %s before %.1f of the calls", r.Made, c.SiteName(r.Site), c.SiteName(r.Pause), r.Paused)
	j.Evidence = []cause.Evidence{{
		Text:  fmt.Sprintf("%d other requests make %.1f calls there; slow ones sleep and call again, but their calls were answered, and whether with errors is unknown", r.Others, r.Usual),
		Holds: cause.Unknown, Decides: true, Number: r.Made / r.Usual,
	}}
	if c.A.Sites[r.Pause].Retries {
		j.Evidence[0].Text = fmt.Sprintf("%d other requests make %.1f calls there; slow ones sleep in a library that calls again what failed, and call again", r.Others, r.Usual)
		j.Evidence[0].Holds = cause.Yes
		return j.With(c.OtherEndpoint()...)
	}
	for id, keys := range map[string][]blame.KeyID{"timer-wait": r.Pauses, "slow-dependency": r.Calls} {
		if c.Share(keys) >= cause.SuspectShare {
			j.Alike = append(j.Alike, id)
		}
	}
	slices.Sort(j.Alike)
	j.Record = "how each call ended: a runtime/trace log where one is made again"
	return j.With(c.OtherEndpoint()...)
}
