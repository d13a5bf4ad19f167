package cause

import (
	"maps"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// SharedWork is what slow requests waited for that one does for many at a time.
type SharedWork struct {
	// Locks is about those who wait; Own are the pieces of requests that do it.
	*Locks
	Own []blame.KeyID
	// What is most of it, Where its place in the code, Class whose it is.
	What  blame.LeafKind
	Where *Place
	Class blame.ClassID
	// Typical is the part of the typical requests that wait for it or do it, Alone that of
	// the slow ones of these that do it while nobody waits for it.
	Typical, Alone float64
	// Takes is how long it takes those who wait in the tail, Usual how long the median
	// of all that do it, in nanoseconds; Usual is 0 if unknown.
	Takes, Usual float64
}

// shareable identifies a leaf among who waits for others to do it and who does it.
type shareable struct {
	kind blame.LeafKind
	// site is where it stands, caller where the one stood who waited for it, if
	// another goroutine did it on his behalf.
	site, caller blame.SiteID
}

// ownPart is the part of the tail's time under a key that must be of requests which
// do the shared work, for the key to be of that.
const ownPart = 0.8

// SharedWork sums up the waits that end many at a time.
func (c *Case) SharedWork() *SharedWork {
	w := &SharedWork{Locks: c.queue(Shared, anywhere)}
	if len(w.Keys) == 0 {
		return w
	}
	type leaf struct {
		shareable
		class blame.ClassID
		last  blame.Hop
	}
	what, _ := TopBy(c, w.Keys, func(k blame.Key) leaf { return leaf{c.leafOf(k), k.Class, k.Last} })
	w.What, w.Class = what.kind, what.class
	// Whoever waits for others does so in all of the wait, also in what of it others claimed
	// or a thread wanted a CPU: none of that is a use of his own.
	waited := make([]bool, len(c.A.Keys))
	for i, k := range c.A.Keys {
		kind, _ := c.Serial(k)
		waited[i] = kind == Shared
	}
	does := c.releasing(w.Keys)
	awaited := maps.Clone(does)
	var took []float64
	for _, r := range c.P.All() {
		var ns float64
		for _, p := range c.A.Requests[r].Pieces {
			if k := c.Key(p.Key); !waited[p.Key] && Waits(k) && c.leafOf(k) == what.shareable {
				ns += float64(p.NS)
			}
		}
		if ns > 0 {
			does[r] = true
			took = append(took, ns)
		}
	}
	w.Where = c.doneAt(what.kind, what.site, what.last, what.class, does)
	if what.kind == blame.CPU && len(does) > 0 && w.Where != nil {
		// Who does it while nobody waits ends no wait: his CPU samples tell.
		c.computing(does, w.Where.Function, c.A.Sites[w.Site].Func)
	}
	w.Typical, w.Alone = c.sharing(does, awaited, waited)
	w.Own = c.mostlyOf(does)
	w.Takes, w.Usual = c.MeanHold(w.Keys), float64(c.A.Holds(w.Site).Usual)
	if len(took) > 0 {
		slices.Sort(took)
		w.Takes, w.Usual = c.meanUnder(w.Keys, what.shareable), took[len(took)/2]
	}
	return w
}

// sharing returns SharedWork.Typical and Alone of the requests that do it, of those of them
// that others wait for, and of the keys of waits for it.
func (c *Case) sharing(does, awaited map[int]bool, waited []bool) (typical, alone float64) {
	count := func(rs []int) (share, alone float64) {
		for _, r := range rs {
			switch {
			case awaited[r], slices.ContainsFunc(c.A.Requests[r].Pieces, func(p blame.Piece) bool { return waited[p.Key] }):
				share++
			case does[r]:
				alone++
			}
		}
		return share, alone
	}
	n, m := count(c.Typical)
	typical = (n + m) / float64(max(1, len(c.Typical)))
	n, m = count(c.Tail)
	return typical, m / max(1, n+m)
}

// doneAt returns where a leaf of shared work lies, which some requests do themselves.
func (c *Case) doneAt(kind blame.LeafKind, site blame.SiteID, last blame.Hop, class blame.ClassID, does map[int]bool) *Place {
	if kind == blame.CPU {
		if len(does) == 0 {
			return c.ClassPlace(class)
		}
		if p, _ := c.hottest(c.sampleOf(slices.Collect(maps.Keys(does)))); p != nil {
			return p
		}
	}
	return c.PlaceOfHolder(site, last)
}

// computing adds to does the requests that computed in a function on behalf of another one,
// by their CPU samples.
func (c *Case) computing(does map[int]bool, in, behalf string) {
	t := c.A.Timeline()
	sampled := map[timeline.GID][]timeline.Time{}
	for _, s := range t.Samples {
		frames := t.Stacks.Frames(s.Stack)
		f, ok := request.AppFrame(frames)
		if ok && f.Func == in && slices.ContainsFunc(frames, func(f gotrace.Frame) bool { return f.Func == behalf }) {
			sampled[s.G] = append(sampled[s.G], s.Time)
		}
	}
	for _, ts := range sampled {
		slices.Sort(ts)
	}
	for _, r := range c.P.All() {
		if slices.ContainsFunc(c.A.Found().Requests[c.A.Requests[r].Request].Parts, func(p request.Part) bool {
			i, _ := slices.BinarySearch(sampled[p.G], p.Start)
			return i < len(sampled[p.G]) && sampled[p.G][i] <= p.End
		}) {
			does[r] = true
		}
	}
}

// leafOf is what a piece is about, whoever spends it: of a piece in the queue for
// shared work, what is behind that.
func (c *Case) leafOf(k blame.Key) shareable {
	s := shareable{k.Kind, k.Site, k.Last.Site}
	if kind, h := c.Serial(k); kind == Shared && k.Last == h {
		s.caller = 0
	}
	return s
}

// releasing returns the attributed requests in which waits at the queues of keys ended.
func (c *Case) releasing(keys []blame.KeyID) map[int]bool {
	found, seen := map[int]bool{}, map[blame.SiteID]bool{}
	for _, id := range keys {
		_, h := c.Serial(c.Key(id))
		if seen[h.Site] {
			continue
		}
		seen[h.Site] = true
		for _, i := range c.A.Releasers(h.Site) {
			found[i] = true
		}
	}
	out := map[int]bool{}
	for _, r := range c.P.All() {
		if found[c.A.Requests[r].Request] {
			out[r] = true
		}
	}
	return out
}

// mostlyOf returns the free keys of work and waits outside of queues whose time in the
// tail is of some requests.
func (c *Case) mostlyOf(requests map[int]bool) []blame.KeyID {
	all, mine := make([]float64, len(c.A.Keys)), make([]float64, len(c.A.Keys))
	for _, r := range c.Tail {
		for _, p := range c.A.Requests[r].Pieces {
			all[p.Key] += float64(p.NS)
			if requests[r] {
				mine[p.Key] += float64(p.NS)
			}
		}
	}
	var out []blame.KeyID
	for _, id := range c.Free(c.unqueued) {
		if mine[id] > 0 && mine[id] >= ownPart*all[id] {
			out = append(out, id)
		}
	}
	return out
}

// meanUnder returns the mean time of a leaf under keys, of the tail requests that have any.
func (c *Case) meanUnder(keys []blame.KeyID, leaf shareable) float64 {
	in := map[blame.KeyID]bool{}
	for _, id := range keys {
		in[id] = c.leafOf(c.Key(id)) == leaf
	}
	var sum, n float64
	for _, r := range c.Tail {
		var ns int64
		for _, p := range c.A.Requests[r].Pieces {
			if in[p.Key] {
				ns += p.NS
			}
		}
		if ns > 0 {
			sum += float64(ns)
			n++
		}
	}
	return sum / max(n, 1)
}
