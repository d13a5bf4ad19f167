package cause

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Contrasts: slow requests against typical ones, the median request against zero
// or a baseline, and what delays requests before the process sees them.
const (
	TailContrast   = "tail"
	LevelContrast  = "level"
	BeforeContrast = "before"
)

// Case is one contrast of one role's requests: what entries judge. An entry
// sees only what entries before it left free.
type Case struct {
	A *blame.Attribution
	P *blame.Population
	// Contrast is TailContrast or LevelContrast.
	Contrast string
	// Excess is the whole excess in nanoseconds per request, NS the part of
	// every key, by KeyID.
	Excess float64
	NS     []float64
	// Tail is the requests that carry the excess: the tail band, or for a level
	// contrast the typical band, as indexes into A.Requests, slowest first.
	Tail []int
	// Typical is the typical band.
	Typical []int

	// Allocated is the functions that allocated most, that of most bytes first; none if not recorded.
	Allocated []Allocation
	did       map[string]bool // whether these did anything, see saw; nil before anybody asks
	// Host is what the host's evidence says, nil if there is none.
	Host *HostView
	// Dependencies are what peers of the process said of themselves, see Settings.
	Dependencies []dependency.Server
	// Target is what the recording says of the process: its settings, its toolchain.
	Target evidence.Target
	// Own are the spans in which whylate asked for profiles, see Settings.
	Own []timeline.Span

	kernel events.After // see Settings

	taken     []bool
	usual     []float64         // of NS, what a baseline spends too; already subtracted
	ownCPUs   map[int]*computed // of attributed requests, by endpoint
	procs     *Processors
	strange   map[blame.ClassID]*Strange  // cache of strangeTo
	met       map[blame.ClassID]int       // cache of meets
	meanwhile []timeline.Time             // cache of hasCPUs
	fired     blame.ClassID               // cache of culprit
	by        map[blame.ClassID]bool      // cache of bystanders
	dried     map[blame.SiteID]bool       // cache of RanOut
	made      map[blame.SiteID]*madeCalls // cache of callsOf
	passes    map[blame.SiteID]float64    // cache of passThrough
	singles   map[blame.SiteID]bool       // cache of single
	turns     map[[2]blame.SiteID]bool    // cache of inTurn
	// callersAt is the cache of callers.
	callersAt map[blame.SiteID][]gotrace.Frame
	// serves is the cache of OnlyServes, nil before it is asked.
	serves *bool
	// standing is the cache of standAt.
	standing map[blame.SiteID][]int
	// handoffs is the cache of Handoffs.
	handoffs *Handoffs
	switches *blame.Switches // cache of Switches
	tail     []timeline.Span // cache of tailSpans
	late     []timeline.Span // cache of lateSpans
	most     int             // cache of peak
}

func newCase(a *blame.Attribution, p *blame.Population, contrast string) *Case {
	c := &Case{A: a, P: p, Contrast: contrast, taken: make([]bool, len(a.Keys)), passes: map[blame.SiteID]float64{}, singles: map[blame.SiteID]bool{}}
	cols := make(blame.Columns, len(a.Keys))
	for i := range cols {
		cols[i] = i
	}
	c.Typical = p.Requests(p.Typical())
	if contrast == LevelContrast {
		c.NS, c.Excess = p.TypicalMeans(cols, len(cols))
		c.Tail = c.Typical
	} else {
		c.NS, c.Excess = p.TailMeans(cols, len(cols))
		c.Tail = p.Requests(p.Tail())
	}
	return c
}

// OtherEndpoint is evidence against slow and typical requests being of the same
// endpoints; none if nothing speaks against it. A fast handler leaves no event in
// a trace: if typical requests were never seen in any handler but slow ones were,
// they may be of another endpoint, and the slow ones slow by design.
func (c *Case) OtherEndpoint() []Evidence {
	tail, typical := c.guessed(c.Tail), c.guessed(c.Typical)
	if typical < 0.5 || tail >= 0.5 {
		return nil
	}
	return []Evidence{{
		Text:  fmt.Sprintf("%s of the typical requests were never seen in any handler, because they are too fast: they may be another endpoint, and the slow ones slow by design", Pct(typical)),
		Holds: Unknown, Decides: true, Number: typical, Record: RecordEndpoints,
	}}
}

// mostly returns the keys that are of a kind, and what part of all they have: none unless it is
// half or more.
func (c *Case) mostly(keys []blame.KeyID, is func(k blame.Key) bool) (those []blame.KeyID, part float64) {
	those = keep(keys, func(id blame.KeyID) bool { return is(c.Key(id)) })
	if part = c.Sum(those) / max(1, c.Sum(keys)); part < 0.5 {
		return nil, part
	}
	return those, part
}

// Announced is evidence against keys being waits that somebody wants: waits for what a
// goroutine tells whoever happens to be there, as in a long poll, are as long as it takes
// until there is news; none unless most of them are.
func (c *Case) Announced(keys []blame.KeyID) []Evidence {
	told, part := c.mostly(keys, func(k blame.Key) bool {
		_, h := c.Serial(k)
		return h.Site != 0 && c.A.Announced(h.Site)
	})
	if told == nil {
		return nil
	}
	return []Evidence{{
		Text:  fmt.Sprintf("%s of it is spent in %s until a goroutine that takes no work wakes whoever is there: they may wait for news on purpose, as a long poll does", Pct(part), c.SiteName(c.QueueSite(told))),
		Holds: Unknown, Decides: true, Number: part, Record: RecordEndpoints,
	}}
}

// Restocked is evidence against keys being waits that somebody wants: waits for what other
// requests give back, as of a pool, that a goroutine ended which carries none and takes no
// work. It uses nothing of it meanwhile: what it gives, others left. None unless most of
// them are.
func (c *Case) Restocked(keys []blame.KeyID) []Evidence {
	left, part := c.mostly(keys, func(k blame.Key) bool {
		kind, h := c.Serial(k)
		return kind == Pool && k.Last.Site == h.Site && c.A.Queue(h.Site).Peers > PeerRatio && c.A.Bystander(h.Site, k.Last.Waker)
	})
	if left == nil {
		return nil
	}
	return []Evidence{{
		Text:  fmt.Sprintf("%s of it is spent in %s, where requests wait for what others give back, until a goroutine gives something that carries no request and only sleeps: nobody gave back what he had", Pct(part), c.SiteName(c.QueueSite(left))),
		Holds: Unknown, Decides: true, Number: part,
		Alike: []string{"pool-leak", "pool-exhausted"}, Record: "the pool's own statistics (in use): if as many stay in use when nobody calls, they leak",
	}}
}

// UsuallyTook is how long typical requests that ended took, on average, in nanoseconds; 0 if none did.
func (c *Case) UsuallyTook() float64 {
	var ns, n float64
	for _, i := range c.Typical {
		if r := &c.A.Requests[i]; !c.A.Found().Requests[r.Request].InFlight {
			ns, n = ns+float64(r.D), n+1
		}
	}
	return ns / max(1, n)
}

// RecordEndpoints is how to get the evidence which endpoint fast requests belong to.
const RecordEndpoints = "longer, or with a runtime/trace task in the handlers"

// guessed returns the part of requests whose endpoint is a guess.
func (c *Case) guessed(requests []int) float64 {
	n := 0
	for _, i := range requests {
		if c.A.Found().Requests[c.A.Requests[i].Request].Guessed {
			n++
		}
	}
	return float64(n) / float64(max(1, len(requests)))
}

// Key returns a key by id.
func (c *Case) Key(id blame.KeyID) blame.Key { return c.A.Keys[id] }

// Free returns the ids of the keys that nobody claimed and f accepts, but those of which
// it is known that a thread wanted a CPU: see OffCPU.
func (c *Case) Free(f func(k blame.Key) bool) []blame.KeyID {
	var out []blame.KeyID
	for i, k := range c.A.Keys {
		if !c.taken[i] && !wants(k) && f(k) {
			out = append(out, blame.KeyID(i))
		}
	}
	return out
}

// Sum returns the nanoseconds of excess per request under keys.
func (c *Case) Sum(keys []blame.KeyID) float64 {
	var ns float64
	for _, k := range keys {
		ns += c.NS[k]
	}
	return ns
}

// carriers returns the slow requests that most of the excess under keys is in, and how
// much longer they spend there than typical ones, in nanoseconds on average: those with
// at least half of the mean over the slow requests, each counted by how much that is.
// uneven is by which part of it that differs, in the middle half of them.
func (c *Case) carriers(keys []blame.KeyID) (requests []int, ns, uneven float64) {
	in := make(map[blame.KeyID]bool, len(keys))
	for _, k := range keys {
		in[k] = true
	}
	of := make([]float64, len(c.Tail))
	var all float64
	for i, r := range c.Tail {
		for _, p := range c.A.Requests[r].Pieces {
			if in[p.Key] {
				of[i] += float64(p.NS)
			}
		}
		all += of[i]
	}
	usual := max(0, all/float64(max(1, len(c.Tail)))-c.Sum(keys))
	var sum, squares float64
	for i := range of {
		of[i] = max(0, of[i]-usual)
		sum += of[i]
		squares += of[i] * of[i]
	}
	var longer []float64
	for i, d := range of {
		if d > 0 && 2*d*sum >= squares {
			requests = append(requests, c.Tail[i])
			longer = append(longer, d)
			ns += d
		}
	}
	uneven = 1
	if n := len(longer); n >= leastLong {
		sort.Float64s(longer)
		uneven = 1 - longer[n/4]/longer[n*3/4]
	}
	return requests, ns / float64(max(1, len(requests))), uneven
}

// Share returns the part of the excess under keys.
func (c *Case) Share(keys []blame.KeyID) float64 {
	if c.Excess <= 0 {
		return 0
	}
	return c.Sum(keys) / c.Excess
}

// ExcessOf returns the excess of a value that requests have, in its own unit per
// request.
func (c *Case) ExcessOf(value func(r *blame.Attributed) float64) float64 {
	if c.Contrast == LevelContrast {
		return c.P.TypicalMean(value)
	}
	return c.P.TailMean(value)
}

// TopBy groups keys and returns the group with the largest excess and its excess.
func TopBy[T comparable](c *Case, keys []blame.KeyID, group func(blame.Key) T) (top T, ns float64) {
	sums := map[T]float64{}
	var order []T
	for _, id := range keys {
		g := group(c.Key(id))
		if _, ok := sums[g]; !ok {
			order = append(order, g)
		}
		sums[g] += c.NS[id]
	}
	for _, g := range order {
		if sums[g] > ns {
			top, ns = g, sums[g]
		}
	}
	return top, ns
}

// PlaceOf returns the place of a site in the target's own code, nil if it has none there.
func (c *Case) PlaceOf(s blame.SiteID) *Place {
	site := &c.A.Sites[s]
	if s == 0 || !site.App {
		return nil
	}
	return &Place{Function: site.Func, File: site.File, Line: site.Line}
}

// PlaceOfKeys returns where the largest of keys spent its time: on the leaf's
// own stack, else where its last waker released, else where the request stood.
func (c *Case) PlaceOfKeys(keys []blame.KeyID) *Place {
	type triple struct{ leaf, waker, first blame.SiteID }
	of := func(k blame.Key) triple { return triple{k.Site, k.Last.WakerSite, k.First.Site} }
	t, ns := TopBy(c, keys, of)
	if ns <= 0 {
		return nil
	}
	if p := c.PlaceOf(t.leaf); p != nil {
		return p
	}
	var last []blame.KeyID
	for _, id := range keys {
		if of(c.Key(id)) == t {
			last = append(last, id)
		}
	}
	h, _ := TopBy(c, last, func(k blame.Key) blame.Hop { return k.Last })
	if p := c.placeOfRelease(h, false); p != nil {
		return p
	}
	return c.PlaceOf(t.first)
}

// placeOfRelease returns where the goroutine that ended a wait held what was waited for,
// if that was a lock, else where it released it. own is as for [blame.Attribution.Section].
func (c *Case) placeOfRelease(h blame.Hop, own bool) *Place {
	if f, ok := c.A.Section(h, own); ok {
		return &Place{Function: f.Func, File: f.File, Line: f.Line}
	}
	return c.PlaceOf(h.WakerSite)
}

// PlaceOfHolder returns where somebody who was waited for spent his time: the site of
// a leaf, else where he gave back what he held, else where he waited himself; last is
// the last hop before the leaf. It is nil if none has a place.
func (c *Case) PlaceOfHolder(leaf blame.SiteID, last blame.Hop) *Place {
	if p := c.PlaceOf(leaf); p != nil {
		return p
	}
	if p := c.placeOfRelease(last, false); p != nil {
		return p
	}
	return c.PlaceOf(last.Site)
}

// ClassName is the name of a class for a sentence.
func (c *Case) ClassName(id blame.ClassID) string { return shortName(c.A.Classes[id].Name) }

// ReadableName is a function's name as its source has it: the linker escapes dots in the last element of its import path.
func ReadableName(f string) string { return strings.ReplaceAll(f, "%2e", ".") }

// shortName shortens a function's import path to its last element, and makes it readable.
func shortName(f string) string { return ReadableName(f[strings.LastIndex(f, "/")+1:]) }

// mostlyHot is the part of the samples that must be in one function by itself for it to be the place, or leads how many times
// as many as in any other; where none has so many, it is the innermost one in which, with all that it calls, mostBelow of
// them are: of an interpreter or a compiler the function that leads is but a helper.
const mostlyHot, leads, mostBelow = 0.5, 2, 0.6

// hottest returns the place that leads among the CPU profile samples that keep
// accepts, and its part of them: by innermost function outside the standard library, or one that calls
// those that are.
func (c *Case) hottest(keep func(s timeline.Sample) bool) (*Place, float64) {
	p, lead := c.hottestAt(keep, request.AppFrame)
	if p == nil || lead >= mostlyHot {
		return p, lead
	}
	_, second := c.hottestAt(func(s timeline.Sample) bool {
		if !keep(s) {
			return false
		}
		f, ok := request.AppFrame(c.A.Timeline().Stacks.Frames(s.Stack))
		return ok && f.Func != p.Function
	}, request.AppFrame)
	if lead >= leads*second*(1-lead) { // second is a part of the rest
		return p, lead
	}
	type below struct {
		frame    gotrace.Frame
		n, depth int
	}
	all, total := map[string]*below{}, 0
	seen := map[string]bool{}
	for _, s := range c.A.Timeline().Samples {
		if !keep(s) {
			continue
		}
		own := request.Chain(c.A.Timeline().Stacks.Frames(s.Stack))
		if len(own) == 0 {
			continue
		}
		total++
		clear(seen)
		for i, f := range own {
			if seen[f.Func] {
				continue
			}
			seen[f.Func] = true
			b := all[f.Func]
			if b == nil {
				b = &below{frame: f}
				all[f.Func] = b
			}
			b.n++
			b.depth += len(own) - i
		}
	}
	var best *below
	for _, b := range all {
		if float64(b.n) < mostBelow*float64(total) {
			continue
		}
		if best == nil || b.depth*best.n > best.depth*b.n || b.depth*best.n == best.depth*b.n && b.frame.Func < best.frame.Func {
			best = b
		}
	}
	if best == nil {
		return p, lead
	}
	return &Place{Function: best.frame.Func, File: best.frame.File, Line: best.frame.Line}, float64(best.n) / float64(total)
}

// hottestAt is hottest by a frame that at finds on stacks.
func (c *Case) hottestAt(keep func(s timeline.Sample) bool, at func([]gotrace.Frame) (gotrace.Frame, bool)) (*Place, float64) {
	type hit struct {
		frame gotrace.Frame
		n     int
	}
	hits := map[string]*hit{}
	total := 0
	for _, s := range c.A.Timeline().Samples {
		if !keep(s) {
			continue
		}
		f, ok := at(c.A.Timeline().Stacks.Frames(s.Stack))
		if !ok {
			continue
		}
		total++
		h := hits[f.Func]
		if h == nil {
			h = &hit{frame: f}
			hits[f.Func] = h
		}
		h.n++
	}
	var names []string
	for f := range hits {
		names = append(names, f)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := hits[names[i]], hits[names[j]]
		return a.n > b.n || a.n == b.n && names[i] < names[j]
	})
	if len(names) == 0 {
		return nil, 0
	}
	h := hits[names[0]]
	return &Place{Function: h.frame.Func, File: h.frame.File, Line: h.frame.Line}, float64(h.n) / float64(total)
}

// ClassPlace returns where the goroutines of a class burn their CPU time: the
// hottest function of their samples, else where they are preempted or end, else
// their root function.
func (c *Case) ClassPlace(class blame.ClassID) *Place {
	t := c.A.Timeline()
	if p, _ := c.hottest(func(s timeline.Sample) bool { return c.A.ClassAt(s.G, s.Time) == class }); p != nil {
		return p
	}
	best := map[gotrace.StackID]timeline.Time{}
	root := c.A.RootOf(class)
	for g := range t.Gs {
		me := &t.Gs[g]
		if root != "" && me.Root() != root { // "" is that of what is left over, too
			continue
		}
		ran, from, to := false, timeline.Time(0), timeline.Time(0) // of the one before
		for _, s := range me.Segs() {
			if ran && c.A.ClassAt(timeline.GID(g), from) == class {
				best[s.Stack] += to - from
			}
			ran, from, to = s.Kind == timeline.Running, s.Start, s.End
		}
	}
	var stack gotrace.StackID
	var most timeline.Time
	for s, d := range best {
		if _, ok := request.AppFrame(t.Stacks.Frames(s)); ok && (d > most || d == most && s < stack) {
			stack, most = s, d
		}
	}
	if f, ok := request.AppFrame(t.Stacks.Frames(stack)); ok {
		return &Place{Function: f.Func, File: f.File, Line: f.Line}
	}
	if r := c.A.Classes[class].Root; r != "" {
		return &Place{Function: r}
	}
	return nil
}

// The on-CPU fraction. The CPU profile ticks every SamplePeriod of a thread's CPU
// time (runtime/pprof's fixed 100 Hz), so samples x period / running time tells
// how much of its running time a goroutine's thread was on a CPU.
const (
	SamplePeriod = 10e6
	// MinSamples is how many samples must be expected before the fraction says
	// anything: at 50 its relative error is 14 %.
	MinSamples = 50
)

// Fraction is a measured on-CPU fraction.
type Fraction struct {
	// Value is the fraction, at most about 1; valid if Known.
	Value float64
	Known bool
	// Expected is how many samples the running time would give on a CPU.
	Expected float64
}

// OnCPU returns the on-CPU fraction of a class over the whole recording.
func (c *Case) OnCPU(class blame.ClassID) Fraction {
	cl := &c.A.Classes[class]
	return c.fraction(cl.Samples, cl.Ran)
}

func (c *Case) fraction(samples int, ran int64) Fraction {
	f := Fraction{Expected: float64(ran) / SamplePeriod}
	if len(c.A.Timeline().Samples) == 0 || f.Expected < MinSamples {
		return f
	}
	f.Value, f.Known = float64(samples)/f.Expected, true
	return f
}

// OnCPUAll returns the on-CPU fraction of everything the process ran.
func (c *Case) OnCPUAll() Fraction {
	var ran int64
	for i := range c.A.Classes {
		ran += c.A.Classes[i].Ran
	}
	return c.fraction(len(c.A.Timeline().Samples), ran)
}

// OnCPUOf returns the on-CPU fraction of requests in their own running time. A thread's
// samples lie SamplePeriod of its CPU time apart, so that their number in one request is
// known to one, and in n requests to sqrt(n), which is two standard deviations. Fewer than
// MinSamples are enough to tell that a fraction is that far above OnCPUMin.
func (c *Case) OnCPUOf(requests []int) Fraction {
	ran, n := c.ran(requests)
	f := c.fraction(n, ran)
	if !f.Known && f.Expected >= MinDoubt && float64(n) >= OnCPUMin*f.Expected+math.Sqrt(float64(len(requests))) {
		f.Value, f.Known = float64(n)/f.Expected, true
	}
	return f
}

// ran returns how long requests ran in their own goroutines, in nanoseconds, all of them
// together, and the number of their CPU samples.
func (c *Case) ran(requests []int) (ns int64, samples int) {
	t := c.A.Timeline()
	for _, i := range requests {
		for _, p := range c.A.Found().Requests[c.A.Requests[i].Request].Parts {
			me := &t.Gs[p.G]
			for _, s := range me.SegsFrom(me.SegmentAt(p.Start + 1)) {
				if s.Start >= p.End {
					break
				}
				if s.Kind == timeline.Running {
					ns += int64(min(s.End, p.End) - max(s.Start, p.Start))
				}
			}
			samples += c.A.SamplesIn(p.G, p.Start, p.End)
		}
	}
	return ns, samples
}

// Ms formats nanoseconds as milliseconds for evidence.
func Ms(ns float64) string {
	switch v := ns / 1e6; {
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f ms", v)
	default:
		return fmt.Sprintf("%.2f ms", v)
	}
}

// Pct formats a ratio as a percentage for evidence.
func Pct(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }
