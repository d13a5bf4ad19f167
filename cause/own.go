package cause

import (
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// OwnCPU returns the mean time that requests of the tail and typical ones ran in
// their own code, in nanoseconds.
func (c *Case) OwnCPU() (tail, typical float64) { return c.ownCPU(c.Tail), c.ownCPU(c.Typical) }

// OwnCode reports whether a key is what requests, their children, or one for many of
// them computed.
func (c *Case) OwnCode(k blame.Key) bool { return c.OwnRunning(k) && !asleep(k) }

// OwnRunning reports whether a key is what requests, their children, or one for many of
// them ran: also asleep, as the runtime's locks let them.
func (c *Case) OwnRunning(k blame.Key) bool {
	return k.Kind == blame.CPU && !wants(k) && c.own(k)
}

// OwnKernel reports whether a key is what the kernel computed for requests, their children,
// or one for many of them, in system calls: only the kernel's events tell it from
// waiting there.
func (c *Case) OwnKernel(k blame.Key) bool { return computesInKernel(k) && c.own(k) }

func computesInKernel(k blame.Key) bool { return k.Kind == blame.Syscall && k.Off == events.OnCPU }

// own reports whether what a key stands for was done by requests, their children, or one
// for many of them.
func (c *Case) own(k blame.Key) bool {
	first := c.HopKind(k.First)
	return k.Flags&blame.Self != 0 || first == Child || first == Shared || k.Queue.Site == 0
}

// OnBehalf returns what others computed for the requests that waited for it, of keys that
// nobody claimed: their children, and workers, of which there are several and each does one
// request's work after the other. What these did for others before is among it, unless it is
// so much more that the requests are late for want of a worker.
func (c *Case) OnBehalf() []blame.KeyID {
	keys := c.Free(func(k blame.Key) bool {
		return k.Kind == blame.CPU && k.Flags&blame.Self == 0 && !asleep(k) && c.onBehalf(k)
	})
	if own, ahead := c.ownAndAhead(keys); ahead > QueueRatio*own {
		return nil
	}
	return keys
}

func (c *Case) onBehalf(k blame.Key) bool {
	switch kind, h := c.Serial(k); kind {
	case Child:
		return true
	case Pool: // of workers, who carry no requests themselves
		return c.knownQueue(h.Site) == NoQueue && c.A.Queue(h.Site).Peers <= PeerRatio && !c.single(h.Site)
	}
	return false
}

// BehalfCPU says whether the goroutines of a class were on a CPU while they ran: as ClassCPU
// does, or by their samples within the time of the slow requests if these, although few, are
// enough for that, see OnCPUOf.
func (c *Case) BehalfCPU(class blame.ClassID) Evidence {
	e := c.ClassCPU(class)
	f, _ := c.Kept(class)
	if _, doubt := c.doubted(class); doubt || e.Holds != Unknown || f.Expected < MinDoubt ||
		f.Value*f.Expected < OnCPUMin*f.Expected+math.Sqrt(float64(len(c.Tail))) {
		return e
	}
	f.Known = true
	return c.CPUEvidence(c.A.Classes[class].Name, f)
}

// HottestMeanwhile returns where the goroutines of a class burn their CPU time while slow
// requests are open, and the part of their CPU samples there; without samples, where they do
// at any time.
func (c *Case) HottestMeanwhile(class blame.ClassID) (*Place, float64) {
	p, lead := c.hottest(func(s timeline.Sample) bool {
		return c.A.ClassAt(s.G, s.Time) == class && c.InTail(s.Time-1, s.Time) > 0
	})
	if p == nil {
		p = c.ClassPlace(class)
	}
	return p, lead
}

func (c *Case) ownCPU(requests []int) float64 {
	var ns float64
	for _, r := range requests {
		for _, p := range c.A.Requests[r].Pieces {
			if c.A.Keys[p.Key].Flags&blame.Self == 0 {
				continue
			}
			if k := c.Key(p.Key); k.Kind == blame.CPU && !wants(k) && !asleep(k) || computesInKernel(k) {
				ns += float64(p.NS)
			}
		}
	}
	return ns / float64(max(1, len(requests)))
}

// HottestOfTail returns where the tail requests burn their CPU time and the part
// of their CPU samples there, of those on stacks that have a function of the program; without samples, where most of it ended.
func (c *Case) HottestOfTail() (*Place, float64) {
	return c.hottest(c.sampleOf(c.Tail))
}

// CallersOfTail names the program's functions that most of the tail requests' CPU samples in a place stand in, the
// innermost first, "" if there are none.
func (c *Case) CallersOfTail(where *Place) string {
	in := c.sampleOf(c.Tail)
	var chains [][]gotrace.Frame
	for _, s := range c.A.Timeline().Samples {
		if !in(s) {
			continue
		}
		own := request.Callers(c.A.Timeline().Stacks.Frames(s.Stack))
		if i := slices.IndexFunc(own, func(f gotrace.Frame) bool { return f.Func == where.Function }); i >= 0 {
			chains = append(chains, own[i+1:])
		}
	}
	var by []string
	for all := len(chains); len(by) < callersTold; {
		votes := map[string]int{}
		for _, frames := range chains {
			if len(frames) > len(by) {
				votes[frames[len(by)].Func]++
			}
		}
		next := ""
		for fn, n := range votes {
			if 2*n > all {
				next = fn
			}
		}
		if next == "" {
			break
		}
		chains = slices.DeleteFunc(chains, func(frames []gotrace.Frame) bool { return len(frames) <= len(by) || frames[len(by)].Func != next })
		by = append(by, shortName(next))
	}
	return strings.Join(by, ", ")
}

// HottestBelow returns the place, called by a function, below which the tail requests burn most CPU time,
// nil without samples there.
func (c *Case) HottestBelow(function string) *Place {
	in := c.sampleOf(c.Tail)
	p, _ := c.hottestAt(in, func(frames []gotrace.Frame) (f gotrace.Frame, ok bool) {
		i := slices.IndexFunc(frames, func(f gotrace.Frame) bool { return f.Func == function })
		for i--; i >= 0 && !ok; i-- {
			f, ok = request.AppFrame(frames[i : i+1])
		}
		return f, ok
	})
	return p
}

// LibraryOfTail returns the function of a library that most of those CPU samples of the tail requests stand in that have no function of the
// program on their stacks: the outermost that is not of the package in which their goroutines begin; how the innermost is called that
// they have in common; and which part of all samples these are, and those with a function of the program. It is nil if there is none, and
// where the innermost is a system call: then the kernel computes.
func (c *Case) LibraryOfTail() (p *Place, name string, part, own float64) {
	in := c.sampleOf(c.Tail)
	var stacks [][]gotrace.Frame
	all := 0
	for _, s := range c.A.Timeline().Samples {
		f := c.A.Timeline().Stacks.Frames(s.Stack)
		if len(f) == 0 || !in(s) {
			continue
		}
		if all++; ownFrame(f) {
			own++
			continue
		}
		for len(f) > 0 && strings.HasPrefix(f[len(f)-1].Func, "runtime.") { // where every goroutine begins
			f = f[:len(f)-1]
		}
		stacks = append(stacks, f)
	}
	own /= float64(max(1, all))
	half, root := len(stacks), ""
	for depth := 1; ; depth++ {
		by := map[string][][]gotrace.Frame{}
		for _, f := range stacks {
			if depth <= len(f) {
				fn := f[len(f)-depth].Func
				by[fn] = append(by[fn], f)
			}
		}
		next := ""
		for fn, s := range by {
			if 2*len(s) > half {
				next = fn
			}
		}
		if next == "" || strings.HasPrefix(next, "runtime.") {
			return p, name, part, own
		}
		if calls(next) {
			return nil, "", 0, own
		}
		stacks = by[next]
		switch {
		case depth == 1:
			root = request.PackageOf(next)
		case p == nil && request.PackageOf(next) != root:
			f := stacks[0][len(stacks[0])-depth]
			p, part = &Place{Function: f.Func, File: f.File, Line: f.Line}, float64(len(stacks))/float64(all)
		}
		name = shortName(next)
	}
}

// ownFrame reports whether a function of the program, or of what it imports, is on a stack.
func ownFrame(frames []gotrace.Frame) bool {
	_, ok := request.AppFrame(frames)
	return ok
}

// sampleOf returns a function that reports whether a sample lies in a request.
func (c *Case) sampleOf(requests []int) func(s timeline.Sample) bool {
	type part struct{ from, to timeline.Time }
	spans := map[timeline.GID][]part{}
	for _, i := range requests {
		for _, p := range c.A.Found().Requests[c.A.Requests[i].Request].Parts {
			spans[p.G] = append(spans[p.G], part{p.Start, p.End})
		}
	}
	for _, s := range spans {
		sort.Slice(s, func(i, j int) bool { return s[i].from < s[j].from })
	}
	return func(s timeline.Sample) bool {
		ps := spans[s.G]
		i := sort.Search(len(ps), func(i int) bool { return ps[i].to >= s.Time })
		return i < len(ps) && ps[i].from <= s.Time
	}
}

// Kept says whether the goroutines of a class were kept from a CPU while the tail
// requests waited, although over the whole recording they may not have been: it
// compares their CPU samples within the time of the tail requests with what their
// running time there should give. doubt needs more than chance: two standard
// deviations below OnCPUMin, at MinDoubt expected samples or more.
func (c *Case) Kept(class blame.ClassID) (f Fraction, doubt bool) {
	t := c.A.Timeline()
	if len(t.Samples) == 0 {
		return f, false
	}
	spans := c.tailSpans()
	var ran timeline.Time
	for _, g := range c.A.Members(class) {
		ran += ranIn(&t.Gs[g], spans)
	}
	n := 0
	for _, s := range t.Samples {
		if c.A.Root(s.G) == c.A.RootOf(class) && timeline.Overlap(spans, s.Time-1, s.Time) > 0 {
			n++
		}
	}
	f.Expected = float64(ran) / SamplePeriod
	if f.Expected < MinDoubt {
		return f, false
	}
	f.Value = float64(n) / f.Expected
	limit := OnCPUMin * f.Expected
	return f, float64(n) < limit-2*math.Sqrt(limit)
}

// ranIn returns for how long a goroutine ran in spans, which are in order.
func ranIn(me *timeline.Goroutine, spans []timeline.Span) (ran timeline.Time) {
	first := sort.Search(len(spans), func(k int) bool { return spans[k].End > me.Start() })
	for _, span := range spans[first:] {
		if span.Start >= me.End() {
			break
		}
		for _, s := range me.SegsFrom(me.SegmentAt(span.Start + 1)) {
			if s.Start >= span.End {
				break
			}
			if s.Kind == timeline.Running {
				ran += min(s.End, span.End) - max(s.Start, span.Start)
			}
		}
	}
	return ran
}

// MinDoubt is how many samples must be expected before their absence means anything.
const MinDoubt = 12

// InTail returns the part of [from, to] in which a slow request was under way.
func (c *Case) InTail(from, to timeline.Time) timeline.Time {
	return timeline.Overlap(c.tailSpans(), from, to)
}

// tailSpans is the union of the tail requests' intervals.
func (c *Case) tailSpans() []timeline.Span {
	if c.tail != nil {
		return c.tail
	}
	c.tail = c.spansOf(c.Tail)
	return c.tail
}

// lateShare is the part of what slow requests take longer than typical ones by which another one is late, too: there may be more
// of these than the slowest.
const lateShare = 0.25

// lateSpans is the union of the intervals of all requests that are late, the slowest or others.
func (c *Case) lateSpans() []timeline.Span {
	if c.late == nil {
		tail, typical := c.mean(c.Tail), c.mean(c.Typical)
		late := slices.Clone(c.Tail)
		for _, i := range c.P.All() {
			if float64(c.A.Requests[i].D) >= typical+lateShare*(tail-typical) {
				late = append(late, i)
			}
		}
		c.late = c.spansOf(late)
	}
	return c.late
}

// spansOf returns when at least one of some requests was open, in order.
func (c *Case) spansOf(requests []int) []timeline.Span {
	var in []timeline.Span
	for _, i := range requests {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		in = append(in, timeline.Span{Start: r.Start(), End: r.End()})
	}
	return union(in)
}

// union returns the time that spans, which it sorts, cover, in order.
func union(in []timeline.Span) []timeline.Span {
	sort.Slice(in, func(i, j int) bool { return in[i].Start < in[j].Start })
	var out []timeline.Span
	for _, s := range in {
		if n := len(out); n > 0 && s.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	return out
}

// LateWakeup returns how late threads ran what was ready although a P was idle:
// the 99th percentile, over tenths of a second, of the longest such wait, in
// nanoseconds. It is small where the operating system gives threads a CPU.
func (c *Case) LateWakeup() float64 { return c.A.LateWakeup() }

// Silent returns the part of the tail's time over the typical requests' that lies
// in silences of the whole process.
func (c *Case) Silent() float64 {
	t := c.A.Timeline()
	if len(t.Silences) == 0 || len(c.Tail) == 0 || c.Excess <= 0 {
		return 0
	}
	var in timeline.Time
	for _, i := range c.Tail {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		in += timeline.Overlap(t.Silences, r.Start(), r.End())
	}
	return float64(in) / float64(len(c.Tail)) / c.Excess
}
