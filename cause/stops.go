package cause

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Between these parts of stopping in the stops it cannot be told whether the stop
// itself is long or somebody delays it: the runtime asks a running goroutine to
// stop once more only after a while, and the trace does not say who was asked.
const stoppingLow, stoppingHigh = 1. / 3, 2. / 3

// SlowStopping is how long it must take to stop the world, in nanoseconds, for
// somebody to delay it: until all have stopped the runtime asks again every 100 us
// (source: runtime.stopTheWorldWithSema), and this is ten times that.
const SlowStopping timeline.Time = 1e6

// Stopping says how much of the time of the stops that keep accepts, in the slow
// requests, passed before the last P had stopped, in those of at least least before
// that. It speaks for whatever makes stops themselves long.
func (c *Case) Stopping(what string, least timeline.Time, keep func(name string) bool) Evidence {
	var before, all timeline.Time
	n := 0
	for _, s := range c.A.Timeline().STW {
		d := c.InTail(s.Start, s.End)
		if !keep(s.Name) || d == 0 {
			continue
		}
		n++
		all += d
		if s.Stopped-s.Start >= least {
			before += c.InTail(s.Start, s.Stopped)
		}
	}
	part := float64(before) / float64(max(all, 1))
	e := Evidence{
		Text:  fmt.Sprintf("%d %s in slow requests, %s each; %s of that passed before the last P had stopped", n, what, Ms(float64(all)/float64(max(n, 1))), Pct(part)),
		Holds: Yes, Decides: true, Number: part,
		Alike: []string{"slow-to-stop"}, Record: "longer, with more of these stops in it",
	}
	switch {
	case part > stoppingHigh:
		e.Holds = No
	case part > stoppingLow:
		e.Holds = Unknown
	}
	return e
}

// Unstopped is what ran on in the slow requests while the world was being stopped,
// for so long that it is most of what the stops took.
type Unstopped struct {
	// Keys are the pieces in which requests waited for that.
	Keys []blame.KeyID
	// Stops is how many stops were slow, Stopping what it took to stop the world in
	// them, Ran for how much of it a goroutine ran on, in nanoseconds.
	Stops         int
	Stopping, Ran timeline.Time
	// Class is that of the goroutines that ran on for most of it, Where they stood.
	Class blame.ClassID
	Where *Place
	// Reasons are why the world was stopped, Part how much of the time of these
	// stops passed before it was.
	Reasons []string
	Part    float64

	// spans are in the slow stops of slow requests, all in those of the recording.
	spans, all []ranOn
}

// ranOn is a goroutine that ran on through a slow stop.
type ranOn struct {
	g        timeline.GID
	from, to timeline.Time
}

// Unstopped collects the slow stops; nil if there are none.
func (c *Case) Unstopped() *Unstopped {
	t := c.A.Timeline()
	slow := c.slowStops()
	u := &Unstopped{Keys: c.Free(func(k blame.Key) bool { return k.Kind == blame.STW && slow[c.A.Reasons[k.Reason]] })}
	if len(u.Keys) == 0 {
		return nil
	}
	ran := map[blame.ClassID]timeline.Time{}
	var before, all timeline.Time
	for i := range t.STW {
		s := &t.STW[i]
		d := c.InTail(s.Start, s.End)
		if !slow[s.Name] {
			continue
		}
		all += d
		if s.Stopped-s.Start < SlowStopping {
			continue
		}
		r := runsOn(t, s)
		if r.g != timeline.NoG {
			u.all = append(u.all, r)
		}
		if d == 0 {
			continue
		}
		before += c.InTail(s.Start, s.Stopped)
		u.add(c, s, r, ran)
	}
	u.Part = float64(before) / float64(max(all, 1))
	u.Class = most(ran)
	u.Where = c.placeOf(u)
	u.Keys = append(u.Keys, c.behindUnstopped(u, slow)...)
	return u
}

// Subject is the sentence about them.
func (u *Unstopped) Subject() string {
	return fmt.Sprintf("the world was slow to stop (%s), because %s ran on", strings.Join(u.Reasons, ", "), PlaceName(u.Where))
}

// unstopped is Unstopped for all of the recording, whatever requests were there: without keys, with the stops that
// were slow.
func (c *Case) unstopped() (u *Unstopped, stops []events.Suspension) {
	t := c.A.Timeline()
	u = &Unstopped{}
	ran := map[blame.ClassID]timeline.Time{}
	var all timeline.Time
	for i := range t.STW {
		s := &t.STW[i]
		if s.Stopped-s.Start < SlowStopping || !collects(s.Name) && !Foreign(s.Name) {
			continue
		}
		all += s.End - s.Start
		stops = append(stops, events.Suspension{FromNS: int64(s.Start), ToNS: int64(s.End)})
		u.add(c, s, runsOn(t, s), ran)
	}
	u.all, u.Class, u.Part = u.spans, most(ran), float64(u.Stopping)/float64(max(all, 1))
	u.Where = c.placeOf(u)
	return u, stops
}

// runsOn is who runs on while a stop waits, nobody if its g is none.
func runsOn(t *timeline.Timeline, s *timeline.Span) ranOn {
	g, from, to := t.Unstopped(s)
	return ranOn{g, from, to}
}

// add counts a slow stop, and how long each class ran on.
func (u *Unstopped) add(c *Case, s *timeline.Span, r ranOn, ran map[blame.ClassID]timeline.Time) {
	u.Stops++
	u.Stopping += s.Stopped - s.Start
	if !slices.Contains(u.Reasons, s.Name) {
		u.Reasons = append(u.Reasons, s.Name)
	}
	if r.g != timeline.NoG {
		u.spans = append(u.spans, r)
		u.Ran += r.to - r.from
		ran[c.A.ClassAt(r.g, r.to)] += r.to - r.from
	}
}

// most is the class with most time.
func most(ran map[blame.ClassID]timeline.Time) (of blame.ClassID) {
	for class, d := range ran {
		if best := ran[of]; d > best || d == best && class < of {
			of = class
		}
	}
	return of
}

// slowStops returns the reasons of stops most of whose time in the slow requests passed
// before the last P had stopped; those of the collector are one kind. See Stopping.
func (c *Case) slowStops() map[string]bool {
	kind := func(name string) string {
		if collects(name) {
			return ""
		}
		return name
	}
	before, all := map[string]timeline.Time{}, map[string]timeline.Time{}
	for _, s := range c.A.Timeline().STW {
		all[kind(s.Name)] += c.InTail(s.Start, s.End)
		if s.Stopped-s.Start >= SlowStopping {
			before[kind(s.Name)] += c.InTail(s.Start, s.Stopped)
		}
	}
	slow := map[string]bool{}
	for _, s := range c.A.Timeline().STW {
		k := kind(s.Name)
		slow[s.Name] = float64(before[k]) > stoppingHigh*float64(max(all[k], 1))
	}
	return slow
}

// placeOf returns where the goroutines that ran on were sampled, else where they
// stopped at last.
func (c *Case) placeOf(u *Unstopped) *Place {
	t := c.A.Timeline()
	in := map[timeline.GID][]timeline.Span{}
	stood := map[gotrace.StackID]timeline.Time{}
	var last gotrace.StackID
	for _, r := range u.spans {
		if c.A.ClassAt(r.g, r.to) != u.Class {
			continue
		}
		in[r.g] = append(in[r.g], timeline.Span{Start: r.from, End: r.to})
		me := &t.Gs[r.g]
		if i := me.SegmentAt(r.to) + 1; i < me.Len() {
			s := me.Seg(i).Stack
			if stood[s] += r.to - r.from; stood[s] > stood[last] {
				last = s
			}
		}
	}
	if p, _ := c.hottest(func(s timeline.Sample) bool { return timeline.Overlap(in[s.G], s.Time-1, s.Time) > 0 }); p != nil {
		return p
	}
	if f, ok := request.AppFrame(t.Stacks.Frames(last)); ok {
		return &Place{Function: f.Func, File: f.File, Line: f.Line}
	}
	return nil
}

// behindUnstopped returns the waits for a P that the slow stops caused: behind the stops
// themselves, if most stops were slow, and behind who ran on, if that was mostly
// while the world was being stopped.
func (c *Case) behindUnstopped(u *Unstopped, slow map[string]bool) []blame.KeyID {
	mostly := c.StopShare(func(s *timeline.Span) bool { return slow[s.Name] }) > 0.5
	var in, all timeline.Time
	for _, g := range c.A.Members(u.Class) {
		me := &c.A.Timeline().Gs[g]
		for _, s := range me.Segs() {
			if s.Kind == timeline.Running {
				all += c.InTail(s.Start, s.End)
			}
		}
	}
	for _, r := range u.spans {
		if c.A.ClassAt(r.g, r.to) == u.Class {
			in += c.InTail(r.from, r.to)
		}
	}
	return c.Free(func(k blame.Key) bool {
		return k.Kind == blame.Behind && (mostly && k.Class == timeline.ClassStopped || 2*in > all && k.Class == u.Class)
	})
}

// onCPUThrough says whether who ran on through the slow stops was on a CPU: in those
// of the slow requests, or where these are too few, in all. Where samples do not
// decide, the host's evidence does.
func (c *Case) onCPUThrough(u *Unstopped) Evidence {
	if e, doubt := c.Stolen(); doubt {
		return e
	}
	if e, ok := c.watchedThrough(u); ok {
		return e
	}
	f := c.sampled(u.spans)
	if !f.Known {
		f = c.sampled(u.all)
	}
	e := c.SampledCPU("who ran on meanwhile", f)
	if h := c.Host; h != nil && !f.Known && e.Holds == Yes && h.Tail.MajorFaults > 0 { // no run delay shows them
		e.Holds, e.Alike = Unknown, []string{"page-faults"}
	}
	return e
}

// watchedThrough says it by the kernel's scheduling events; ok is false without them, or if
// they know little of these threads.
func (c *Case) watchedThrough(u *Unstopped) (e Evidence, ok bool) {
	var sum [events.States]int64
	for _, r := range u.spans {
		for state, ns := range c.A.States(r.g, r.from, r.to) {
			sum[state] += ns
		}
	}
	known := int64(0)
	for state, ns := range sum {
		if events.State(state) != events.Unknown {
			known += ns
		}
	}
	if !c.Watched() || known == 0 || float64(sum[events.Unknown]) > mostUnknown*float64(known) {
		return e, false
	}
	on := float64(sum[events.OnCPU]) / float64(known)
	e = Evidence{
		Text:  fmt.Sprintf("who ran on meanwhile was on a CPU for %s of that (the kernel's scheduling events)", Pct(on)),
		Holds: Yes, Decides: true, Number: on,
	}
	if on < OnCPUMin {
		e.Holds, e.Record = Unknown, "longer, with more of these stops in it"
		kept := map[string]int64{}
		for _, x := range keepers {
			if kept[x.cause] += sum[x.state]; 2*kept[x.cause] > known-sum[events.OnCPU] {
				e.Alike = []string{x.cause}
			}
		}
		if e.Alike == nil {
			e.Alike = append([]string{"page-faults"}, OffCPUCauses...)
		}
	}
	return e, true
}

// mostUnknown is how much more may be unknown of threads, as a part of what is known, for
// what they did to be known.
const mostUnknown = 0.1

// keepers are who keeps a thread from a CPU in some states.
var keepers = [...]struct {
	state events.State
	cause string
}{
	{events.Queued, "host-contention"},
	{events.Robbed, "host-contention"},
	{events.Observed, "observer"},
	{events.Crowded, "gomaxprocs-over-quota"},
	{events.Stopped, "quota-too-low"},
	{events.Faulted, "page-faults"},
}

// sampled is the on-CPU fraction of goroutines that ran on. A thread's CPU samples
// lie SamplePeriod of its CPU time apart, so that their number in one stop is known
// to one, and in n stops to sqrt(n), which is two standard deviations. The fraction
// is known if it is that far from OnCPUMin.
func (c *Case) sampled(spans []ranOn) (f Fraction) {
	var ran timeline.Time
	seen := 0
	for _, r := range spans {
		ran += r.to - r.from
		seen += c.A.SamplesIn(r.g, r.from, r.to)
	}
	f.Expected = float64(ran) / SamplePeriod
	f.Value = float64(seen) / max(f.Expected, 1)
	away := math.Abs(float64(seen) - OnCPUMin*f.Expected)
	f.Known = len(c.A.Timeline().Samples) > 0 && away >= math.Sqrt(float64(len(spans)))
	return f
}

// Evidence says what speaks for and against somebody who delays the stops.
func (u *Unstopped) Evidence(c *Case) []Evidence {
	ran := float64(u.Ran) / float64(max(u.Stopping, 1))
	return []Evidence{
		{
			Text:  fmt.Sprintf("in %d slow stops it took %s to stop the world; %s of what such stops took passed before the last P had stopped", u.Stops, Ms(float64(u.Stopping)/float64(max(u.Stops, 1))), Pct(u.Part)),
			Holds: Of(u.Part > stoppingHigh), Decides: true, Number: u.Part,
		},
		{
			Text:  fmt.Sprintf("a goroutine ran on for %s of that, mostly %s in %s", Pct(ran), c.ClassName(u.Class), PlaceName(u.Where)),
			Holds: Of(ran > 0.5), Decides: true, Number: ran,
		},
		c.onCPUThrough(u),
	}
}

// Foreign reports whether the reason of a stop-the-world is neither the garbage collector's nor the
// execution tracer's.
func Foreign(reason string) bool {
	return reason != "" && !strings.HasPrefix(reason, "GC ") && reason != "start trace" && reason != "stop trace"
}

// StopsFor counts the stops for a reason and finds who calls for them.
func (c *Case) StopsFor(reason string) (n int, total timeline.Time, where *Place) {
	t := c.A.Timeline()
	for _, s := range t.STW {
		if s.Name != reason {
			continue
		}
		n++
		total += s.End - s.Start
		if where == nil {
			if f, ok := request.AppFrame(t.Stacks.Frames(s.Stack)); ok {
				where = &Place{Function: f.Func, File: f.File, Line: f.Line}
			}
		}
	}
	return n, total, where
}
