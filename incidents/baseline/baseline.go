// Package baseline has two diagnoses that anybody can make: a benchmark on which they
// do well says nothing about a better one. Neither follows a wait to who caused it.
package baseline

import (
	"sort"

	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Guess is a cause of the catalogue and the function to blame.
type Guess struct{ Cause, Place string }

// tailShare is the part of the requests that are slow, the slowest of them.
const tailShare = 0.015

// LargestState names what the goroutines of the slow requests did most of the time.
func LargestState(t *timeline.Timeline, found *request.Found) Guess {
	type what struct {
		kind   timeline.Kind
		reason timeline.Reason
	}
	sums := map[what]timeline.Time{}
	places := map[what]map[string]timeline.Time{}
	for _, r := range slowest(found) {
		for _, p := range r.Parts {
			for _, s := range t.Gs[p.G].Segs() {
				d := min(s.End, p.End) - max(s.Start, p.Start)
				if d <= 0 {
					continue
				}
				w := what{kind: s.Kind}
				if s.Kind == timeline.Waiting {
					w.reason = s.Reason
				}
				sums[w] += d
				if places[w] == nil {
					places[w] = map[string]timeline.Time{}
				}
				if f, ok := request.AppFrame(t.Stacks.Frames(s.Stack)); ok {
					places[w][f.Func] += d
				}
			}
		}
	}
	var top what
	for w, d := range sums {
		if d > sums[top] || d == sums[top] && (w.kind < top.kind || w.kind == top.kind && w.reason < top.reason) {
			top = w
		}
	}
	return Guess{Cause: stateCause(top.kind, top.reason), Place: most(places[top])}
}

func stateCause(k timeline.Kind, r timeline.Reason) string {
	switch k {
	case timeline.Running:
		return "expensive-request"
	case timeline.Runnable:
		return "overload"
	case timeline.Syscall:
		return "slow-disk"
	}
	switch r {
	case timeline.ReasonNetwork:
		return "slow-dependency"
	case timeline.ReasonSync, timeline.ReasonCond:
		return "lock-held-across-wait"
	case timeline.ReasonSleep:
		return "timer-wait"
	case timeline.ReasonChanSend:
		return "back-pressure"
	case timeline.ReasonGCAssist, timeline.ReasonGC:
		return "gc-assist"
	}
	return "single-worker"
}

func slowest(found *request.Found) []*request.Request {
	var rs []*request.Request
	for i := range found.Requests {
		if r := &found.Requests[i]; !r.InFlight {
			rs = append(rs, r)
		}
	}
	sort.SliceStable(rs, func(i, j int) bool { return rs[i].Duration() > rs[j].Duration() })
	return rs[:min(len(rs), 1+int(tailShare*float64(len(rs))))]
}

// ProfileTop names what is on top of the CPU profile, flat.
func ProfileTop(t *timeline.Timeline) Guess {
	causes, places := map[string]timeline.Time{}, map[string]map[string]timeline.Time{}
	for _, s := range t.Samples {
		frames := t.Stacks.Frames(s.Stack)
		if len(frames) == 0 {
			continue
		}
		c := "expensive-request"
		for _, f := range frames {
			if id := profileCauses[f.Func]; id != "" {
				c = id
				break
			}
		}
		causes[c]++
		if places[c] == nil {
			places[c] = map[string]timeline.Time{}
		}
		if f, ok := request.AppFrame(frames); ok {
			places[c][f.Func]++
		}
	}
	top := most(causes)
	return Guess{Cause: top, Place: most(places[top])}
}

// profileCauses are functions of Go's runtime and what a look at a profile with them
// on top suggests.
var profileCauses = map[string]string{
	"runtime.gcBgMarkWorker": "gc-workers",
	"runtime.gcAssistAlloc":  "gc-assist",
	"runtime.mallocgc":       "gc-assist",
	"runtime.cgocall":        "slow-cgo",
	"runtime.lock2":          "runtime-lock",
	"runtime.growslice":      "growth",
	"runtime.findRunnable":   "goroutine-flood",
}

// most returns the key with the largest value, the first by name of equal ones.
func most(m map[string]timeline.Time) (best string) {
	for k, v := range m {
		if best == "" || v > m[best] || v == m[best] && k < best {
			best = k
		}
	}
	return best
}
