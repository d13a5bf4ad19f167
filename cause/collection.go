package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Collection is what the garbage collector took from the slow requests. Its
// leaves are tested as one family: spread over five leaves, each stays small.
type Collection struct {
	// Assist are the pieces in which goroutines worked for the GC or waited for
	// it, Worker those in which GC workers held the Ps, Stop its pauses.
	Assist, Worker, Stop []blame.KeyID
	// AssistNS, WorkerNS and StopNS are their excess.
	AssistNS, WorkerNS, StopNS float64
}

// All returns the family's pieces.
func (g *Collection) All() []blame.KeyID {
	return append(append(append([]blame.KeyID(nil), g.Assist...), g.Worker...), g.Stop...)
}

// Split says how the family's excess divides, for evidence.
func (g *Collection) Split(c *Case) string {
	return fmt.Sprintf("waits for a P behind GC workers take %s, assists and waits for them %s, GC stops %s of the excess",
		Pct(g.WorkerNS/c.Excess), Pct(g.AssistNS/c.Excess), Pct(g.StopNS/c.Excess))
}

// Collection sums up the GC's part of the case, but for cycles that were forced.
func (c *Case) Collection() *Collection {
	return c.collection(func(s timeline.Starter) bool { return s != timeline.Forced })
}

// CollectionOf sums up what cycles of one starter took.
func (c *Case) CollectionOf(starter timeline.Starter) *Collection {
	return c.collection(func(s timeline.Starter) bool { return s == starter })
}

func (c *Case) collection(of func(timeline.Starter) bool) *Collection {
	var cycles []timeline.Span
	for _, x := range c.A.Timeline().Cycles {
		if of(x.Starter) {
			cycles = append(cycles, x.Span)
		}
	}
	mostly := c.StopShare(func(s *timeline.Span) bool {
		return collects(s.Name) && (len(cycles) == len(c.A.Timeline().Cycles) || timeline.Overlap(cycles, s.Start, s.End) > 0)
	}) > 0.5
	flooded := c.Processors().Marked > 0
	g := &Collection{
		Assist: c.Free(func(k blame.Key) bool {
			return (k.Kind == blame.Assist || k.Kind == blame.GCWait && c.A.Sites[k.Site].Kind != blame.SiteWeak || k.Kind == blame.Behind && k.Class == timeline.ClassGCAssist && !flooded) && of(k.Starter)
		}),
		Worker: c.Free(func(k blame.Key) bool {
			return k.Kind == blame.Behind && k.Class == timeline.ClassGCWorker && of(k.Starter)
		}),
		Stop: c.Free(func(k blame.Key) bool {
			return k.Kind == blame.STW && collects(c.A.Reasons[k.Reason]) && of(k.Starter) || mostly && k.Kind == blame.Behind && k.Class == timeline.ClassStopped
		}),
	}
	own := func(id blame.KeyID) bool { return !marks(c.Key(id).Class) || of(c.Key(id).Starter) }
	if p := c.Processors(); p.Winner == Collector && 2*c.Sum(keep(p.Keys[Collector], own)) > p.NS[Collector] {
		// With the queueing that the GC causes.
		g.Worker = without(c.stillFree(keep(p.Claim, own)), g.Assist)
	}
	g.AssistNS, g.WorkerNS, g.StopNS = c.Sum(g.Assist), c.Sum(g.Worker), c.Sum(g.Stop)
	return g
}

// keptPart is the part of the time in which threads wanted a CPU that somebody must have had the CPUs for, to be in doubt with what a process
// did that hardly got any.
const keptPart = 0.2

// CollectedOffCPU is the evidence that the whole process hardly got a CPU, none if that is not
// so: then the collector's stops take long, and so do waits for those who mark for it. Where it is known who had the CPUs, it is theirs.
func (c *Case) CollectedOffCPU() []Evidence {
	f := c.OnCPUAll()
	if !f.Known || f.Value >= OnCPUMin {
		return nil
	}
	e := c.SampledCPU("the process", f)
	e.Alike, e.Record = OffCPUCauses, RecordHost
	in := func(state events.State) (ns float64) { // whichever cause that was given to
		for i, k := range c.A.Keys {
			if k.Off == state {
				ns += max(0, c.NS[i])
			}
		}
		return ns
	}
	quota, others := in(events.Stopped), in(events.Queued)+in(events.Robbed)
	if all := quota + others + in(events.Crowded); c.Watched() && all > 0 {
		e.Alike, e.Record = nil, recordKernel
		if quota >= keptPart*all {
			e.Alike = []string{"quota-too-low", "gomaxprocs-over-quota"}
		}
		if others >= keptPart*all {
			e.Alike = append(e.Alike, "host-contention")
		} else if e.Alike != nil {
			e.Record = "the same with a higher quota, in an interleaved A/B"
		}
		if e.Alike == nil { // its own threads kept each other from it
			return nil
		}
	}
	return []Evidence{e}
}

// marks reports whether a class of P time is the garbage collector's.
func marks(class blame.ClassID) bool {
	return class == timeline.ClassGCWorker || class == timeline.ClassGCAssist
}

// collects reports whether a stop-the-world is the garbage collector's.
func collects(reason string) bool { return strings.HasPrefix(reason, "GC ") }

// StopShare returns the part of the stopped time within the tail requests that
// stops that keep accepts make up.
func (c *Case) StopShare(keep func(s *timeline.Span) bool) float64 {
	var kept, all timeline.Time
	spans := c.tailSpans()
	stw := c.A.Timeline().STW
	for i := range stw {
		s := &stw[i]
		d := timeline.Overlap(spans, s.Start, s.End)
		all += d
		if keep(s) {
			kept += d
		}
	}
	if all == 0 {
		return 0
	}
	return float64(kept) / float64(all)
}

// outlier is how many times as long as most of its kind a stop must be to have been
// lengthened: the planted pauses of one process are within a factor of two of each
// other, one of a stolen CPU was 60 times the median.
const outlier = 8.

// manyStops is how many of a kind say how long one takes.
const manyStops = 8

// Lengthened is the evidence that stops that keep accepts are perhaps long in the slow
// requests because of what their threads met there: where most of many stops of a kind
// are short, what they do is, unless what it depends on has grown. There is none if
// they are alike or few, or if the host's evidence excludes it.
func (c *Case) Lengthened(keep func(name string) bool) (e Evidence, doubt bool) {
	kinds := map[string][]timeline.Time{}
	for _, s := range c.A.Timeline().STW {
		if keep(s.Name) {
			kinds[s.Name] = append(kinds[s.Name], s.End-s.Stopped)
		}
	}
	for _, took := range kinds {
		slices.Sort(took)
	}
	var all, long, usual timeline.Time
	n := 0
	for _, s := range c.A.Timeline().STW {
		took := kinds[s.Name]
		in := c.InTail(s.Stopped, s.End)
		if in == 0 || len(took) == 0 {
			continue
		}
		all += in
		median := took[(len(took)-1)/2]
		if d := s.End - s.Stopped; len(took) >= manyStops && float64(d) > outlier*float64(median) {
			long += in
			usual = max(usual, median)
			n++
		}
	}
	if 2*long <= all {
		return e, false
	}
	if h := c.Host; h != nil && h.Scheduled && h.Machine && h.Delayed() < DelayedMin && h.Tail.Stolen() < StolenMin {
		return e, false
	}
	e = Evidence{
		Text:  fmt.Sprintf("%d of these stops took %s of the time, but half of all that are like them at most %s: their threads may have been kept from a CPU", n, Pct(float64(long)/float64(all)), Ms(float64(usual))),
		Holds: Unknown, Decides: true, Number: float64(long) / float64(all),
		Alike: OffCPUCauses, Record: RecordHost,
	}
	if h, known := c.hostCPU(); known {
		e.Record = recordKernel
		if e.Alike = h.Alike; len(e.Alike) == 0 {
			e.Alike = []string{"host-contention"}
		}
	}
	return e, true
}

func keep(keys []blame.KeyID, f func(blame.KeyID) bool) []blame.KeyID {
	var out []blame.KeyID
	for _, k := range keys {
		if f(k) {
			out = append(out, k)
		}
	}
	return out
}

// Union returns keys and those of more that are not among them.
func Union(keys, more []blame.KeyID) []blame.KeyID {
	return slices.Concat(keys, without(more, keys))
}

func without(keys, minus []blame.KeyID) []blame.KeyID {
	skip := map[blame.KeyID]bool{}
	for _, k := range minus {
		skip[k] = true
	}
	return keep(keys, func(k blame.KeyID) bool { return !skip[k] })
}

// within returns the part of requests' time that lies in spans.
func (c *Case) within(requests []int, spans []timeline.Span) float64 {
	var in, all timeline.Time
	for _, i := range requests {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		in += timeline.Overlap(spans, r.Start(), r.End())
		all += r.Duration()
	}
	if all == 0 {
		return 0
	}
	return float64(in) / float64(all)
}

// MarkEvidence says whether slow requests lie in mark phases more than typical
// ones: what the GC takes while requests are fast does not make them slow.
func (c *Case) MarkEvidence() Evidence {
	return c.markEvidence(c.A.Timeline().GC, "mark phases")
}

// MarkEvidenceOf is MarkEvidence for the cycles of one starter; what names them in
// the plural.
func (c *Case) MarkEvidenceOf(starter timeline.Starter, what string) Evidence {
	return c.markEvidence(c.A.Timeline().StartedBy(starter), what)
}

func (c *Case) markEvidence(cycles []timeline.Span, what string) Evidence {
	tail, typical := c.within(c.Tail, cycles), c.within(c.Typical, cycles)
	e := Evidence{
		Text:  fmt.Sprintf("%s of the slow requests' time lies in %s, %s of typical requests'; %d cycles in the recording", Pct(tail), what, Pct(typical), len(cycles)),
		Holds: Of(tail > typical), Decides: true, Number: tail,
	}
	if typical > 0.9 { // marking all the time: no contrast is possible
		e.Holds = Yes
	}
	return e
}

// WorkerCPU says whether the GC's workers were on a CPU while they ran.
func (c *Case) WorkerCPU() Evidence {
	for i := range c.A.Classes { // the fixed class of their P time has no samples of its own
		if c.A.Classes[i].Root == "runtime.gcBgMarkWorker" {
			return c.ClassCPU(blame.ClassID(i))
		}
	}
	return c.ClassCPU(timeline.ClassGCWorker)
}

// Unpaced adds to a judgement of the collector's work that the heap has no goal: with GOGC off only a memory limit begins cycles, and
// what would help against too many of them does not.
func (c *Case) Unpaced(j *Judgement) *Judgement {
	off := false
	for _, x := range c.A.Timeline().Cycles {
		if x.Starter == timeline.Paced && x.Live > 0 {
			if off = x.Goal == 0; !off {
				break
			}
		}
	}
	if !off {
		return j
	}
	j.Fix = append(j.Fix, "raise the memory limit, or leave GOGC on beside it: GOGC is off, and changes nothing")
	return j.With(Evidence{Text: "GOGC is off, so that only a memory limit can have begun these cycles", Holds: Yes})
}

// profileLag is how many cycles a memory profile is late at most.
//
// Source: runtime.MemProfile of Go 1.26.
const profileLag = 2

// AllocationEvidence names the site that allocates most, if profiles were recorded. What two of
// them differ by happened up to two cycles before the recording: where that is more than a third of
// them, it may be of what a process does no more (how it began, say), and only a function that the
// recording saw is named.
func (c *Case) AllocationEvidence() (Evidence, *Place) {
	if len(c.Allocated) == 0 {
		return Evidence{Text: "the allocating code is unknown: no allocation profiles were recorded", Holds: Unknown}, nil
	}
	cycles := len(c.A.Timeline().GC)
	late := cycles < 3*profileLag
	for i := range c.Allocated {
		a := &c.Allocated[i]
		at := fmt.Sprintf("(%s:%d)", a.Place.File, a.Place.Line)
		switch {
		case !late:
			return Evidence{
				Text:  fmt.Sprintf("%s allocated %s of all bytes during the recording %s", shortName(a.Place.Function), Pct(a.Share), at),
				Holds: Yes, Number: a.Share,
			}, &a.Place
		case c.saw(a.Place.Function):
			return Evidence{
				Text: fmt.Sprintf("%s allocated %s of the bytes in the memory profile, which is up to %d cycles late and of %d %s",
					shortName(a.Place.Function), Pct(a.Share), profileLag, cycles, at),
				Holds: Yes, Number: a.Share,
			}, &a.Place
		}
	}
	return Evidence{
		Text:  fmt.Sprintf("the allocating code is unknown: the memory profile is up to %d cycles late, of %d, and the recording saw nothing of whom it names", profileLag, cycles),
		Holds: Unknown,
	}, nil
}

// saw reports whether a function did anything in the recording: it is on the stack of a CPU sample, of a wait that began, or of a
// wake-up. Who stands somewhere since before may have done there whatever it was.
func (c *Case) saw(function string) bool {
	if c.did == nil {
		c.did = map[string]bool{}
		for i := range c.Allocated {
			c.did[c.Allocated[i].Place.Function] = false
		}
		t := c.A.Timeline()
		seen := make([]bool, t.Stacks.Len())
		look := func(id gotrace.StackID) {
			if int(id) >= len(seen) || seen[id] {
				return
			}
			seen[id] = true
			for _, f := range t.Stacks.Frames(id) {
				if _, ok := c.did[f.Func]; ok {
					c.did[f.Func] = true
				}
			}
		}
		for _, s := range t.Samples {
			look(s.Stack)
		}
		for g := range t.Gs {
			me := &t.Gs[g]
			for _, s := range me.Waits() {
				if s.Start > me.Start() {
					look(s.Stack)
				}
			}
			for _, x := range me.Wakes() {
				look(x.Stack)
			}
		}
	}
	return c.did[function]
}

// Allocation is a function that allocated, with the line in it that did most.
type Allocation struct {
	Place Place
	// Share is its part of all bytes allocated.
	Share float64
}
