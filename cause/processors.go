package cause

import (
	"fmt"
	"slices"
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Holder is a group of classes that held the Ps for the same reason.
type Holder uint8

// The groups.
const (
	// NoHolder: nobody in particular.
	NoHolder Holder = iota
	// Hog: few goroutines with long bursts; also such that work for few requests.
	Hog
	// Flood: many short bursts, or the scheduler and its timers.
	Flood
	// Collector: GC workers and assists.
	Collector
	// Own: goroutines that carry requests of the endpoints themselves.
	Own
	// Heavy: the same, but few requests that burn much more CPU than usual.
	Heavy
	// Stop: the world was stopped, or its after-effects.
	Stop
	// Timers: the scheduler itself, running timers and picking goroutines. It is
	// a flood if it leads, and belongs to whoever leads otherwise.
	Timers
	holders
)

// FloodBursts is how many bursts of a class stand in front of a request when it
// is a flood rather than a hog: a hog's wait is a handful of bursts at most,
// because Go's time slice ends them at 10 ms.
const FloodBursts = 12

// LongBurst is the burst from which on even many goroutines are hogs, half of Go's time slice: there are so many because they
// share work that takes long, and fewer would take as long.
const LongBurst = 5_000_000

// OnCPUMin is the on-CPU fraction from which on running time counts as CPU time.
// Below it the thread itself was kept from a CPU for so long that a trace cannot
// say whether its code or the host is to blame. Calibrated on recordings with a
// known quota and a known neighbour: see docs/calibration.md.
const OnCPUMin = 0.65

// Processors says who held the Ps while requests of the tail waited for one.
type Processors struct {
	// Keys are the pieces by group; for Behind and late pieces only.
	Keys [holders][]blame.KeyID
	NS   [holders]float64
	// Winner is the group that holds the largest part; Claim the pieces that it
	// owns: its own, and the queueing of requests behind each other that it causes.
	Winner Holder
	Claim  []blame.KeyID
	// Class is the class that leads in the winning group.
	Class blame.ClassID
	// Bursts is how many of its bursts stood in front of a request, on average.
	Bursts float64
	// Blind is the part of Claim that was poll-blind, Due that of timers that nobody ran:
	// the rest was runnable.
	Blind, Due float64
	Total      float64
	// Marked is the part of the assists while slow requests waited that those did who flood the
	// Ps, if these lead and did most of them, else 0: then they are among what they executed.
	Marked float64
}

// Busy is the part of the recording for which the Ps execute something.
func (c *Case) Busy() float64 {
	t := c.A.Timeline()
	var sum timeline.Time
	for _, d := range c.A.Executed([]timeline.Span{{Start: t.Start, End: t.End}}) {
		sum += d
	}
	return float64(sum) / max(1, float64(t.End-t.Start)*float64(c.GOMAXPROCS()))
}

// Processors analyses, once per case, what the Ps executed while the tail waited.
func (c *Case) Processors() *Processors {
	if c.procs != nil {
		return c.procs
	}
	p := &Processors{}
	c.procs = p
	behind := c.Behind()
	perClass := c.perClass(behind)
	p.Keys, p.NS = c.Holders(behind)
	p.Total = c.Sum(behind)
	c.marking(p, perClass)
	into := NoHolder
	if lead(p.NS) == Timers {
		into = Flood
	}
	p.Keys[into] = append(p.Keys[into], p.Keys[Timers]...)
	p.NS[into] += p.NS[Timers]
	p.Keys[Timers], p.NS[Timers] = nil, 0
	p.Winner = lead(p.NS)
	// Requests that wait behind each other do so because somebody else holds the
	// Ps, if anybody of weight does.
	foreign := Own
	for h := NoHolder + 1; h < holders; h++ {
		if h != Own && p.NS[h] > p.NS[foreign] || foreign == Own && h != Own && p.NS[h] >= 0.5*p.NS[Own] {
			foreign = h
		}
	}
	if foreign == Own && p.NS[Collector] >= byDesign*p.NS[Own] && c.slowWhileMarking() {
		foreign = Collector
	}
	if p.Winner == Own && foreign != Own {
		p.Winner = foreign
	}
	if p.Winner == NoHolder {
		return p
	}
	p.Claim = append(p.Claim, p.Keys[p.Winner]...)
	if p.Winner != Own {
		p.Claim = append(p.Claim, p.Keys[Own]...)
		p.Claim = append(p.Claim, p.Keys[NoHolder]...)
		sort.Slice(p.Claim, func(i, j int) bool { return p.Claim[i] < p.Claim[j] })
	}
	p.Class, _ = TopBy(c, keep(p.Keys[p.Winner], func(id blame.KeyID) bool {
		return p.Winner == Collector || c.Key(id).Class != timeline.ClassGCAssist
	}), func(k blame.Key) blame.ClassID { return k.Class })
	p.Bursts = c.bursts(p.Class, perClass[p.Class])
	var sum float64
	for _, id := range p.Claim {
		sum += c.NS[id]
		if isBlind(c.Key(id)) {
			p.Blind += c.NS[id]
		}
		if c.Key(id).Flags&blame.Due != 0 {
			p.Due += c.NS[id]
		}
	}
	if sum > 0 {
		p.Blind /= sum
		p.Due /= sum
	}
	return p
}

// byDesign is how much of the time of requests' own goroutines the collector's workers take at least while
// they mark: a quarter of the Ps, so a third of what is left for others, less what idles.
const byDesign = 0.25

// mostMarking is the part of slow requests' time in mark phases, and oftener how many times that of
// typical ones', from which on requests wait for Ps because the collector marks; moreArrivals is how many
// times as many requests as else must begin meanwhile for these to be the reason, and its marking too.
const mostMarking, oftener, moreArrivals = 0.5, 2, 1.5

// slowWhileMarking reports whether requests are slow while the collector marks, and hardly else,
// although no more of them come then.
func (c *Case) slowWhileMarking() bool {
	t := c.A.Timeline()
	tail, typical := c.within(c.Tail, t.GC), c.within(c.Typical, t.GC)
	if tail < mostMarking || tail < oftener*typical {
		return false
	}
	var marked timeline.Time
	for _, s := range t.GC {
		marked += min(s.End, t.End) - max(s.Start, t.Start)
	}
	begun, all := 0, 0
	for i := range c.A.Found().Requests {
		if r := &c.A.Found().Requests[i]; r.Role == c.P.Role {
			all++
			if timeline.Overlap(t.GC, r.Start(), r.Start()+1) > 0 {
				begun++
			}
		}
	}
	rest := t.Duration() - marked
	if marked <= 0 || rest <= 0 || all == begun {
		return false
	}
	return float64(begun)/float64(marked) <= moreArrivals*float64(all-begun)/float64(rest)
}

// marking gives the waits behind assists to the goroutines that flood the Ps, if of what is not the
// collector's theirs leads, if most assists meanwhile are theirs, too, and if with these they are in
// the way for longer than the collector's workers: what is in the way is their number, whatever
// each does.
func (c *Case) marking(p *Processors, perClass map[blame.ClassID]float64) {
	class, part := c.assists()
	if part <= 0.5 || c.holder(class, perClass[class]+perClass[timeline.ClassGCAssist]) != Flood {
		return
	}
	own := c.holder(class, perClass[class])
	ns, assists := p.NS, perClass[timeline.ClassGCAssist]
	ns[own] -= perClass[class]
	ns[Flood] += perClass[class]
	workers := ns[Collector] - assists
	ns[Collector] = 0
	if perClass[class] <= 0 || lead(ns) != Flood || ns[Flood]+assists <= workers {
		return
	}
	p.Marked = part
	p.move(own, Flood, func(k blame.Key) bool { return k.Class == class }, c)
	p.move(Collector, Flood, func(k blame.Key) bool { return k.Class == timeline.ClassGCAssist }, c)
}

// move brings keys from one group to another one.
func (p *Processors) move(from, to Holder, is func(blame.Key) bool, c *Case) {
	if from == to {
		return
	}
	var stay []blame.KeyID
	for _, id := range p.Keys[from] {
		if !is(c.Key(id)) {
			stay = append(stay, id)
			continue
		}
		p.Keys[to] = append(p.Keys[to], id)
		p.NS[to] += c.NS[id]
		p.NS[from] -= c.NS[id]
	}
	p.Keys[from] = stay
}

// assists returns the class whose goroutines did most of the assists during slow requests, and
// their part of them.
func (c *Case) assists() (most blame.ClassID, part float64) {
	by := map[blame.ClassID]timeline.Time{}
	var all timeline.Time
	t, tail := c.A.Timeline(), c.tailSpans()
	for g := range t.Gs {
		for _, s := range t.Assists(timeline.GID(g)) {
			d := timeline.Overlap(tail, s.Start, s.End)
			all += d
			by[c.A.ClassAt(timeline.GID(g), s.Start)] += d
		}
	}
	for class, d := range by {
		if d > by[most] || d == by[most] && class < most {
			most = class
		}
	}
	return most, float64(by[most]) / float64(max(all, 1))
}

// Behind returns the free waits for a P behind what the Ps executed.
func (c *Case) Behind() []blame.KeyID {
	return c.Free(func(k blame.Key) bool { return k.Kind == blame.Behind })
}

// Holders divides waits for a P into groups, by who held the Ps meanwhile, and sums
// these up, in nanoseconds per request.
func (c *Case) Holders(behind []blame.KeyID) (keys [holders][]blame.KeyID, ns [holders]float64) {
	perClass := c.perClass(behind)
	for _, id := range behind {
		class := c.Key(id).Class
		h := c.holder(class, perClass[class])
		keys[h] = append(keys[h], id)
		ns[h] += c.NS[id]
	}
	return keys, ns
}

func (c *Case) perClass(keys []blame.KeyID) map[blame.ClassID]float64 {
	sums := map[blame.ClassID]float64{}
	for _, id := range keys {
		sums[c.Key(id).Class] += c.NS[id]
	}
	return sums
}

// lead returns the group with the most P time but NoHolder, or NoHolder if none has any.
func lead(ns [holders]float64) Holder {
	best := NoHolder
	for h := NoHolder + 1; h < holders; h++ {
		if ns[h] > 0 && (best == NoHolder || ns[h] > ns[best]) {
			best = h
		}
	}
	return best
}

// bursts is how many bursts of a class fit into the P time that ns of waiting
// behind it stands for.
func (c *Case) bursts(class blame.ClassID, ns float64) float64 {
	b := c.A.Classes[class].Burst
	if b == 0 {
		return 0
	}
	return ns * float64(max(1, c.A.Timeline().GOMAXPROCS)) / float64(b)
}

// HeavyBurst is how much more CPU than the typical request of its endpoint those
// requests must burn to which most of the endpoint's CPU time went, for these to
// count as expensive ones; heavyMeanwhile is the same where it is only most of that while requests were slow: what computes
// beside others, a collector or a hypervisor takes longer (2.4 times), and what slow ones wait for is not by chance.
const HeavyBurst, heavyMeanwhile = 4, 10

// heavy reports whether the P time of an endpoint's requests, or that of those that were open while others were slow, went to
// few that are much more expensive than its typical one.
func (c *Case) heavy(cl *blame.Class) bool {
	of := c.computedBy(cl.Endpoint)
	if of == nil {
		return false
	}
	return halfOver(of.all) > HeavyBurst*of.typical() || halfOver(of.meanwhile) > heavyMeanwhile*of.typical()
}

// Heavy returns what the expensive requests compute each, those with half of what all of the endpoint behind which slow ones queue
// compute, and what its median request does, in nanoseconds.
func (c *Case) Heavy() (each, typical float64, endpoint string) {
	e := c.A.Classes[c.Processors().Class].Endpoint
	of := c.computedBy(e)
	if of == nil {
		return 0, 0, ""
	}
	return max(halfOver(of.all), halfOver(of.meanwhile)), of.typical(), c.A.Found().Endpoints[e]
}

// computedBy returns what the requests of an endpoint compute, nil if there are none.
func (c *Case) computedBy(endpoint int) *computed {
	if c.ownCPUs == nil {
		c.ownCPUs = map[int]*computed{}
		for i := range c.A.Requests {
			r := &c.A.Found().Requests[c.A.Requests[i].Request]
			of := c.ownCPUs[r.Endpoint]
			if of == nil {
				of = &computed{}
				c.ownCPUs[r.Endpoint] = of
			}
			x := c.ownCPU([]int{i})
			if of.all = append(of.all, x); c.InTail(r.Start(), r.End()) > 0 {
				of.meanwhile = append(of.meanwhile, x)
			}
		}
		for _, of := range c.ownCPUs {
			slices.Sort(of.all)
			slices.Sort(of.meanwhile)
		}
	}
	return c.ownCPUs[endpoint]
}

// halfOver returns what those have at least, of some in order, that have half of their sum; 0 of none.
func halfOver(xs []float64) float64 {
	var total, sum float64
	for _, x := range xs {
		total += x
	}
	for _, x := range xs {
		if sum += x; 2*sum >= total {
			return x
		}
	}
	return 0
}

// computed is what an endpoint's requests computed, in nanoseconds and in order: all of them, and those that
// were open while others were slow.
type computed struct{ all, meanwhile []float64 }

func (c *computed) typical() float64 { return c.all[len(c.all)/2] }

// MostlyIdle is the use of the Ps over the recording below which requests do not wait for
// want of Ps: twice the load would find room, if it came evenly.
const MostlyIdle = 0.5

// Strange is work for requests that is none of those that wait for a P behind it.
type Strange struct {
	// For is how many requests it is done for, Each what it takes for one of them, Waits
	// the median of what those that wait compute with all their children, in nanoseconds.
	For         int
	Each, Waits float64
	// Use is the part of the time of all Ps over the recording in which they were not idle.
	Use float64
}

// strangeTo says how the work of a class that is done for requests is none of those that
// wait: most of the wait for a P behind it, but that of requests that wait behind their own,
// is that of requests for which it does nothing; these compute much less themselves; and the Ps
// are idle for most of the recording, so that it is not too much for them but comes all
// at once. It is nil otherwise: then requests wait behind others like them.
func (c *Case) strangeTo(class blame.ClassID) *Strange {
	s, known := c.strange[class]
	if !known {
		if c.strange == nil {
			c.strange = map[blame.ClassID]*Strange{}
		}
		s = c.findStrange(class)
		c.strange[class] = s
	}
	return s
}

func (c *Case) findStrange(class blame.ClassID) *Strange {
	use := c.A.Use()
	if use >= MostlyIdle {
		return nil
	}
	cl, found := &c.A.Classes[class], c.A.Found()
	mine := map[int]bool{}
	if cl.Endpoint >= 0 {
		for i := range found.Requests {
			if r := &found.Requests[i]; r.Endpoint == cl.Endpoint {
				mine[i] = true
			}
		}
	} else if of, ok := c.A.WorkedFor(class); ok {
		mine = of
	}
	var begins, ends []timeline.Time
	for r := range mine {
		begins, ends = append(begins, found.Requests[r].Start()), append(ends, found.Requests[r].End())
	}
	slices.Sort(begins)
	slices.Sort(ends)
	alone := func(r *request.Request) bool {
		begun, _ := slices.BinarySearch(begins, r.End())
		ended, _ := slices.BinarySearch(ends, r.Start()+1)
		return begun-ended <= 1
	}
	var alike, others int64
	var computes []float64
	for _, i := range c.Tail {
		var behind int64
		for _, p := range c.A.Requests[i].Pieces {
			if k := c.Key(p.Key); k.Kind == blame.Behind && k.Class == class {
				behind += p.NS
			}
		}
		switch r := c.A.Requests[i].Request; {
		case behind == 0:
		case !mine[r]:
			others += behind
			var cpu float64
			for _, p := range c.A.Requests[i].Pieces {
				if c.OwnCode(c.Key(p.Key)) {
					cpu += float64(p.NS)
				}
			}
			computes = append(computes, cpu)
		case !alone(&found.Requests[r]):
			alike += behind
		}
	}
	if len(mine) == 0 || others <= alike {
		return nil
	}
	sort.Float64s(computes)
	s := &Strange{For: len(mine), Each: float64(cl.Ran) / float64(len(mine)), Waits: computes[len(computes)/2], Use: use}
	if s.Each <= HeavyBurst*s.Waits {
		return nil
	}
	return s
}

// StrangeEvidence says so of the class that leads; none if it is not so.
func (c *Case) StrangeEvidence(class blame.ClassID) []Evidence {
	s := c.strange[class]
	if s == nil {
		return nil
	}
	return []Evidence{{
		Text: fmt.Sprintf("it works for %d of %d requests, %s for each; those that wait behind it compute %s; the Ps are idle for %s of the recording",
			s.For, len(c.A.Found().Requests), Ms(s.Each), Ms(s.Waits), Pct(1-s.Use)),
		Holds: Yes, Number: s.Each / max(s.Waits, 1),
	}}
}

func (c *Case) holder(class blame.ClassID, ns float64) Holder {
	switch class {
	case timeline.ClassGCWorker, timeline.ClassGCAssist:
		return Collector
	case timeline.ClassStopped:
		return Stop
	case timeline.ClassScheduler:
		return Timers
	case timeline.ClassIdle:
		return NoHolder
	}
	cl := &c.A.Classes[class]
	switch {
	case cl.Endpoint >= 0 && c.heavy(cl) && !c.keptInCalls(class):
		return Heavy
	case cl.Endpoint < 0 && (cl.System || cl.Observer):
		return NoHolder
	case (cl.Endpoint >= 0 || c.A.Serves(class) && !c.bystanders(class)) && c.strangeTo(class) == nil:
		return Own
	case c.bursts(class, ns) >= FloodBursts && !c.computesLong(cl) && cl.Members > c.A.Timeline().GOMAXPROCS && c.meets(class) >= FloodBursts:
		return Flood
	}
	return Hog
}

// computesLong reports whether the bursts of a class are long because it computes, not because its threads are kept from the CPU.
func (c *Case) computesLong(cl *blame.Class) bool {
	on := c.OnCPUAll()
	return cl.Burst >= LongBurst && !(on.Known && on.Value < OnCPUMin)
}

// mostBystanders is the part of a class's goroutines that must carry no request in the recording, for them to be others than
// those that do: streams that were open before, connections that somebody took over.
const mostBystanders = 0.8

// bystanders reports whether most of those goroutines of a class that carries requests that do not wait for all of a slow
// request carry none in the recording, but some do.
func (c *Case) bystanders(class blame.ClassID) bool {
	is, known := c.by[class]
	if known {
		return is
	}
	members, found := c.A.Members(class), c.A.Found()
	none, all := 0, 0
	for k := 0; k < len(c.Tail); k += 1 + len(c.Tail)/mostMet {
		r := &found.Requests[c.A.Requests[c.Tail[k]].Request]
		for _, g := range members {
			if !c.awakeIn(g, r) {
				continue
			}
			if all++; !found.Entry(g) {
				none++
			}
		}
	}
	if c.by == nil {
		c.by = map[blame.ClassID]bool{}
	}
	is = none < all && float64(none) >= mostBystanders*float64(all)
	c.by[class] = is
	return is
}

// awakeIn reports whether a goroutine does not wait for all of a request.
func (c *Case) awakeIn(g timeline.GID, r *request.Request) bool {
	me := &c.A.Timeline().Gs[g]
	if me.Start() >= r.End() || me.End() <= r.Start() {
		return false
	}
	s := me.Seg(me.SegmentAt(r.Start() + 1))
	return s.Kind != timeline.Waiting || s.End < r.End()
}

// mostMet bounds of how many slow requests it is counted whom they meet.
const mostMet = 20

// meets is how many goroutines of a class, up to FloodBursts, do not wait for all of a slow request, in half of those: two that
// hand each other one thing after the other run very often, and are not many.
func (c *Case) meets(class blame.ClassID) int {
	n, known := c.met[class]
	if known {
		return n
	}
	var counts []int
	members := c.A.Members(class)
	for k := 0; k < len(c.Tail); k += 1 + len(c.Tail)/mostMet {
		r, n := &c.A.Found().Requests[c.A.Requests[c.Tail[k]].Request], 0
		for _, g := range members {
			if n >= FloodBursts {
				break
			}
			if c.awakeIn(g, r) {
				n++
			}
		}
		counts = append(counts, n)
	}
	if slices.Sort(counts); len(counts) > 0 {
		n = counts[len(counts)/2]
	}
	if c.met == nil {
		c.met = map[blame.ClassID]int{}
	}
	c.met[class] = n
	return n
}

// HolderEvidence is the evidence that the three causes of full Ps share: how
// much of the tail it is, who it was, and whether it really was on a CPU.
func (c *Case) HolderEvidence(p *Processors, want Holder) []Evidence {
	total := p.Total / max(c.Excess, 1)
	ev := []Evidence{{
		Text:    fmt.Sprintf("all Ps were busy while requests were ready to run: %s of the excess", Pct(total)),
		Holds:   Of(total > 0.05),
		Decides: true, Number: total,
	}}
	if p.Winner == NoHolder {
		return append(ev, Evidence{Text: "nobody in particular held the Ps", Holds: No, Decides: true})
	}
	cl := &c.A.Classes[p.Class]
	lead := p.NS[p.Winner] / max(p.Total, 1)
	did := fmt.Sprintf("%s of that time; %d goroutines, bursts of %s, %.0f in front of a request", Pct(lead), cl.Members, Ms(float64(cl.Burst)), p.Bursts)
	if p.Class == timeline.ClassScheduler {
		did = fmt.Sprintf("%s of that time", Pct(lead))
		if fired := c.culprit(); fired != p.Class {
			did += fmt.Sprintf(", in which it ran timers, of %d goroutines of %s", c.A.Classes[fired].Members, c.ClassName(fired))
		}
	}
	ev = append(ev, Evidence{
		Text:  fmt.Sprintf("since the backlog began the Ps executed mostly %s: %s", c.ClassName(p.Class), did),
		Holds: Of(p.Winner == want), Decides: true, Number: lead,
	})
	if p.Marked > 0 && want == Flood {
		ev = append(ev, Evidence{Text: fmt.Sprintf("%s of the assists meanwhile were theirs, and count as what they executed", Pct(p.Marked)), Holds: Yes, Number: p.Marked})
	}
	return append(ev, c.ClassCPU(p.Class))
}

// ClassCPU says whether a class was on a CPU while it ran, over the recording and
// while the slow requests waited.
func (c *Case) ClassCPU(class blame.ClassID) Evidence {
	name := c.A.Classes[class].Name
	if e, doubt := c.doubted(class); doubt {
		return e
	}
	return c.CPUEvidence(name, c.OnCPU(class))
}

// doubted is the evidence that a class may not have been on a CPU while the slow
// requests waited, whatever it was over the recording.
func (c *Case) doubted(class blame.ClassID) (e Evidence, doubt bool) {
	if e, doubt := c.Stolen(); doubt || c.Watched() {
		return e, doubt
	}
	f, doubt := c.Kept(class)
	if !doubt {
		return e, false
	}
	return c.keptOff(Evidence{
		Text: fmt.Sprintf("while the slow requests waited, %s was on a CPU for only %s of its running time: its threads were kept from it",
			shortName(c.A.Classes[class].Name), Pct(f.Value)),
		Number: f.Value,
	}), true
}

// Stolen is the evidence that the hypervisor may have had the CPUs while the slow
// requests waited.
func (c *Case) Stolen() (e Evidence, doubt bool) {
	h := c.Host
	if h == nil || !h.OwnCPUs() || h.Tail.Stolen() < max(StolenMin, 1.5*h.Rest.Stolen()) {
		return e, false
	}
	return Evidence{
		Text:  fmt.Sprintf("the hypervisor took %s of the CPUs while the slow requests waited: what ran may have had none, and the end of a wait may have been seen late", Pct(h.Tail.Stolen())),
		Holds: Unknown, Decides: true, Number: h.Tail.Stolen(),
		Alike: []string{"host-contention"}, Record: recordKernel,
	}, true
}

// CPUEvidence says whether something that ran was on a CPU while it did: by the kernel's
// scheduling events; without them by its CPU samples, if they are enough, else by the
// host's evidence.
func (c *Case) CPUEvidence(what string, f Fraction) Evidence {
	if e, doubt := c.Stolen(); doubt && c.Watched() {
		return e
	} else if c.Watched() {
		return c.keptApart("what it ran")
	}
	return c.SampledCPU(what, f)
}

// SampledCPU says the same of what the kernel's scheduling events do not tell apart, such
// as stops and what they wait for.
func (c *Case) SampledCPU(what string, f Fraction) Evidence {
	if !f.Known {
		if e, known := c.hostCPU(); known {
			return e
		}
		if len(c.A.Timeline().Samples) == 0 {
			return Evidence{Text: fmt.Sprintf("whether %s was on a CPU while it ran is unknown: the trace holds no CPU samples", shortName(what)), Holds: Unknown, Decides: true}
		}
		return Evidence{Text: fmt.Sprintf("whether %s was on a CPU while it ran is unknown: %.0f CPU samples to be expected, %d are needed", shortName(what), f.Expected, MinSamples), Holds: Unknown, Decides: true}
	}
	if f.Value < OnCPUMin {
		return c.keptOff(Evidence{Text: fmt.Sprintf("%s was on a CPU for only %s of its running time: the thread was kept from it", shortName(what), Pct(f.Value)), Number: f.Value})
	}
	return Evidence{Text: fmt.Sprintf("%s was on a CPU for %s of its running time (CPU samples inside the trace)", shortName(what), Pct(min(f.Value, 1))), Holds: Yes, Decides: true, Number: f.Value}
}

// keptOff completes evidence that threads were kept from a CPU: by whom is
// unknown, but for what the host's evidence excludes.
func (c *Case) keptOff(e Evidence) Evidence {
	e.Holds, e.Decides = Unknown, true
	if h, known := c.hostCPU(); known {
		e.Record = recordKernel
		if e.Alike = h.Alike; len(e.Alike) == 0 {
			e.Alike = []string{"page-faults", "host-contention"}
		}
	}
	return e
}

// OffCPUCauses are the causes that a trace alone cannot tell from code that runs long.
var OffCPUCauses = []string{"quota-too-low", "gomaxprocs-over-quota", "host-contention"}

// RecordHost is how to get the evidence that would tell them apart.
const RecordHost = "cpu.stat of the cgroup and schedstat of the threads: run whylate on the machine of the process, without --no-host"
