// Package observer is the cause observer.
package observer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Entry is the catalogue entry.
var Entry = &cause.Entry{
	ID: "observer", Title: "observer", Rank: 100, Layer: cause.Host, Ours: true,
	What:       "The recording itself made these requests late: beginning a trace stops the world, and once a second the tracer lists every goroutine, which takes a P and, where there are very many, makes the garbage collector run. On the same machine whylate has a CPU now and then.",
	MustHold:   "the slow requests lie in the trace's own stops, behind its own goroutines, in GC cycles that the tracer's allocations began, or behind requests that piled up meanwhile, or their threads wait for a CPU behind whylate; for a profile, at the instants at which whylate asked for it",
	MustNot:    "profiles and stops that somebody else asked for: they are what the service lives with; a CPU quota that stopped the process, and that others used up",
	LookAlikes: []string{"stop-the-world", "gc-workers", "gc-assist", "cpu-hog"},
	Fix: []string{
		"nothing in the service: believe what is left without this share",
		"record for longer: the beginning weighs less",
		"if it goes on: fewer goroutines make every trace and profile cheaper",
	},
	Verify: "the clients' own p99, with and without a recording in an interleaved A/B: without it, p99 falls",
	Judge:  judge,
}

// usesUp is the part of the CPU time in slow requests from which on the recording may be
// who used up a quota: with less it only had the Ps while nobody ran.
const usesUp = 0.1

func judge(c *cause.Case) *cause.Judgement {
	own := stops(c)
	mine := func(s *timeline.Span) bool { return own[s.Name] }
	mostly := c.StopShare(mine) > 0.5 // who waits for a P after a stop waits for what stopped most
	stopped := c.Free(func(k blame.Key) bool {
		return k.Kind == blame.STW && own[c.A.Reasons[k.Reason]] || mostly && k.Kind == blame.Behind && k.Class == timeline.ClassStopped
	})
	behind := c.Free(func(k blame.Key) bool {
		return (k.Kind == blame.Behind || k.Kind == blame.CPU) && records(c.A.Classes[k.Class].Root)
	})
	collected := c.Free(func(k blame.Key) bool { return k.Starter == timeline.Tracer })
	beside := c.WantedFrom(events.Observed)
	keys := cause.Union(slices.Concat(stopped, behind, collected), beside)
	if len(keys) == 0 {
		return nil
	}
	queued := queue(c, keys)
	keys = append(keys, queued...)
	share := func(keys []blame.KeyID) string { return cause.Pct(c.Sum(keys) / max(c.Excess, 1)) }
	j := &cause.Judgement{
		Keys:    keys,
		Subject: "the recording itself held them up",
		Evidence: []cause.Evidence{{
			Text: fmt.Sprintf("stops that the recording asked for take %s, its goroutines on the Ps %s, GC cycles that the tracer began %s, who records on CPUs that threads want %s, requests that queue behind each other because of that %s of the excess",
				share(stopped), share(behind), share(collected), share(beside), share(queued)),
			Holds: cause.Of(c.Sum(keys) > 0), Decides: true, Number: c.Share(keys),
		}},
	}
	if c.Stopped() {
		part, n := c.SampledBy(records)
		j.Evidence = append(j.Evidence, cause.Evidence{
			Text:  fmt.Sprintf("a CPU quota stopped the process for most of the slow requests' time, and %s of %d CPU samples in it are the recording's", cause.Pct(part), n),
			Holds: cause.Of(n < cause.MinDoubt || part >= usesUp), Decides: true, Number: part,
		})
	}
	if len(collected) > 0 {
		t := c.A.Timeline()
		j.Evidence = append(j.Evidence, cause.Evidence{
			Text: fmt.Sprintf("%d of %d GC cycles began while the tracer listed %d goroutines",
				len(t.StartedBy(timeline.Tracer)), len(t.Cycles), len(t.Gs)),
			Holds: cause.Yes, Number: float64(len(t.StartedBy(timeline.Tracer))),
		})
	}
	return j
}

// queue returns the waits of requests for a P behind each other, if it is the
// recording that lets them pile up: it holds the Ps for half as long as they do
// themselves, and for as long as everybody else together. Expensive requests are
// somebody else: they make others wait with or without a recording.
func queue(c *cause.Case, mine []blame.KeyID) []blame.KeyID {
	own := map[blame.KeyID]bool{}
	for _, id := range mine {
		own[id] = true
	}
	var held float64
	behind := slices.DeleteFunc(c.Behind(), func(id blame.KeyID) bool {
		if own[id] {
			held += c.NS[id]
		}
		return own[id]
	})
	all := c.Sum(behind)
	if all > 3*held {
		return nil // whoever holds the Ps: it is at most held for others and twice that for requests
	}
	keys, ns := c.Holders(behind)
	others := all - ns[cause.Own]
	if held < others || held < 0.5*ns[cause.Own] {
		return nil
	}
	return keys[cause.Own]
}

// records reports whether goroutines with a root function write this trace: the
// reader that runtime/trace starts, and the runtime's own that ends generations and
// collects CPU samples.
func records(root string) bool {
	return strings.HasPrefix(root, "runtime/trace.") || strings.HasPrefix(root, "runtime.(*traceAdvancerState).") || strings.HasPrefix(root, "runtime.traceStartReadCPU")
}

// stops returns the reasons for stops of which most time, in slow requests, was at
// whylate's own instigation: the trace's, and those that net/http/pprof asked for
// while whylate waited for a profile.
func stops(c *cause.Case) map[string]bool {
	t := c.A.Timeline()
	balance := map[string]timeline.Time{}
	for _, s := range t.STW {
		d := c.InTail(s.Start, s.End)
		if s.Name != "start trace" && s.Name != "stop trace" && !asked(c, &s) {
			d = -d
		}
		balance[s.Name] += d
	}
	own := map[string]bool{}
	for name, d := range balance {
		own[name] = d > 0
	}
	return own
}

// asked reports whether a stop answers a request for a profile by whylate.
func asked(c *cause.Case, s *timeline.Span) bool {
	return timeline.Overlap(c.Own, s.Start, s.End) > 0 && slices.ContainsFunc(c.A.Timeline().Stacks.Frames(s.Stack), request.Observes)
}
