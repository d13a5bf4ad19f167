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
	var all []suspension
	for k := range t.Procs {
		for _, s := range t.Procs[k].Stints() {
			if s.What != GCIdle && s.What != GCWorker || s.End-s.Start <= LateMin {
				continue
			}
			if from := min(samples.since(s), t.leftSince(s)); from != never {
				all = append(all, suspension{k, Span{Start: from, End: s.End, G: s.G}})
			}
		}
	}
	slices.SortFunc(all, func(a, b suspension) int { return cmp.Compare(a.End, b.End) })
	spans := map[int][]Span{}
	for i, from := range t.stopped(all) {
		if s := &all[i]; from != never {
			if s.Start = max(s.Start, from); s.End-s.Start > LateMin {
				spans[s.proc] = append(spans[s.proc], s.Span)
			}
		}
	}
	for k, ss := range spans {
		t.Procs[k].stints.mark(ss, Suspending, func(s Stint, by *Span) bool { return s.G == by.G })
	}
}

// suspension is when a worker may have waited for a goroutine to stop, and on which P.
type suspension struct {
	proc int
	Span
}

// stopped returns since when the goroutine ran that stopped at the end of each suspension, or
// within LateMin before it; never if none did. They are in order of their ends. On its own P only
// the worker ran meanwhile. There may be thousands of Ps: none is gone through for each suspension.
func (t *Timeline) stopped(all []suspension) []Time {
	if len(all) == 0 {
		return nil
	}
	var stops []Stint
	for p := range t.Procs {
		for _, s := range t.Procs[p].Stints() {
			if s.What != Go {
				continue
			}
			if i := sort.Search(len(all), func(i int) bool { return all[i].End >= s.End }); i < len(all) && all[i].End-s.End < LateMin {
				stops = append(stops, s)
			}
		}
	}
	slices.SortFunc(stops, func(a, b Stint) int { return cmp.Compare(a.End, b.End) })
	out := make([]Time, len(all))
	var last []Stint // within LateMin, but for those before which another one begins that ends later
	for i := range all {
		for len(stops) > 0 && stops[0].End <= all[i].End {
			for n := len(last); n > 0 && last[n-1].Start >= stops[0].Start; n-- {
				last = last[:n-1]
			}
			last, stops = append(last, stops[0]), stops[1:]
		}
		for len(last) > 0 && last[0].End <= all[i].End-LateMin {
			last = last[1:]
		}
		if out[i] = never; len(last) > 0 {
			out[i] = last[0].Start
		}
	}
	return out
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
