package timeline

import (
	"cmp"
	"slices"
	"sort"

	"github.com/whylate/whylate/gotrace"
)

// A GC worker that finds a goroutine running whose stack it has to scan makes it stop and
// waits until it has (source: runtime.suspendG), in a loop in which it does nothing else, an
// idle-priority one neither: it gives way to nobody. Code that the runtime cannot stop, such
// as a copy of a large slice, so keeps two Ps: that on which it runs, and the worker's.
//
// A trace says nothing of it but what comes of it: when the goroutine stops, the worker goes
// on. Since when it waited for that is known from its CPU samples, and of an
// idle-priority worker, which otherwise looks every 100 us, from whom it left in the
// queue of all Ps (source: runtime.gcDrain, runtime.pollWork).

// findSuspending tells GC workers at work from those that wait for a goroutine to stop.
func (t *Timeline) findSuspending() {
	if len(t.Procs) < 2 {
		return
	}
	samples := t.workerSamples()
	for k := range t.Procs {
		var spans []Span
		for _, s := range t.Procs[k].Stints() {
			if s.What != GCIdle && s.What != GCWorker || s.End-s.Start <= LateMin {
				continue
			}
			from := min(samples.since(s), t.leftSince(s))
			if from == never {
				continue
			}
			if from = max(from, t.stopsLast(k, s.End)); s.End-from > LateMin {
				spans = append(spans, Span{Start: from, End: s.End, G: s.G})
			}
		}
		t.Procs[k].stints.mark(spans, Suspending, func(s Stint, by *Span) bool { return s.G == by.G })
	}
}

// stopsLast returns since when the goroutine ran that stopped at an instant, or within
// LateMin before it, on another P than k; never if none did.
func (t *Timeline) stopsLast(k int, at Time) Time {
	from := never
	for p := range t.Procs {
		if p == k {
			continue
		}
		ss := &t.Procs[p].stints
		for i := ss.ending(at - LateMin); i < ss.n; i++ {
			s := ss.at(i)
			if s.End > at {
				break
			}
			if s.What == Go {
				from = min(from, s.Start)
			}
		}
	}
	return from
}

// leftSince returns since when the idle-priority worker of a stint left somebody in the queue
// of all Ps, to the end; never if it did not. In a silence it may not have run itself.
func (t *Timeline) leftSince(s Stint) Time {
	i := sort.Search(len(t.shared), func(i int) bool { return t.shared[i].Start >= s.End }) - 1
	if s.What != GCIdle || i < 0 || t.shared[i].End < s.End || t.shared[i].Start < s.Start {
		return never
	}
	from := t.shared[i].Start
	if i := sort.Search(len(t.Silences), func(i int) bool { return t.Silences[i].Start >= s.End }); i > 0 {
		from = max(from, t.Silences[i-1].End)
	}
	return from
}

// workerSamples are the CPU samples of GC workers, in order of time.
type workerSamples map[GID][]workerSample

type workerSample struct {
	at       Time
	suspends bool
}

func (t *Timeline) workerSamples() workerSamples {
	out := workerSamples{}
	for _, s := range t.Samples {
		if s.G == NoG || t.Gs[s.G].Root() != "runtime.gcBgMarkWorker" {
			continue
		}
		suspends := slices.ContainsFunc(t.Stacks.Frames(s.Stack), func(f gotrace.Frame) bool { return f.Func == "runtime.suspendG" })
		out[s.G] = append(out[s.G], workerSample{s.Time, suspends})
	}
	for _, xs := range out {
		slices.SortFunc(xs, func(a, b workerSample) int { return cmp.Compare(a.at, b.at) })
	}
	return out
}

// since returns the first sample of a stint's worker from which on all of them are in
// runtime.suspendG, to the end of the stint; never if the last one is not.
func (w workerSamples) since(s Stint) Time {
	from, xs := never, w[s.G]
	for i := sort.Search(len(xs), func(i int) bool { return xs[i].at > s.End }) - 1; i >= 0 && xs[i].at >= s.Start && xs[i].suspends; i-- {
		from = xs[i].at
	}
	return from
}
