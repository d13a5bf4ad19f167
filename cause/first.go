package cause

import (
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Dials is what requests wait for until a connection is made.
type Dials struct {
	*Root
	// Requests is how many requests connect, Share their part of all, There their part
	// of those that connect or wait in the same function; 0 where they wait for the
	// answers in another one.
	Requests, Share, There float64
	// Queueing is how much of NS is waiting for a P, or for a CPU, behind handshakes.
	Queueing float64
	// Queues are keys in which threads wanted a CPU, beside Keys; NS has them, too.
	Queues []blame.KeyID
	// Peak is the largest number of requests that were open at a time: so many
	// connections are enough, if each request needs one.
	Peak int
}

// Redials is how many connections for each one that was needed may still be first
// uses: a dial is begun for every request that finds none idle, also when one is
// given back in the meantime.
const Redials = 2

// FirstUses reports whether there are no more dials than connections needed.
func (d *Dials) FirstUses() bool { return d.Requests <= float64(Redials*d.Peak) }

// MostDial is the part of all requests that must connect for connections not to be used
// again, OftenDial the part of those that wait for the same if they connect more often than
// first uses do: then connections are given up that are missed, and so many that without
// that a part of the requests would be faster that is worth a name.
const MostDial, OftenDial = 0.5, NamedShare

// Often reports whether connections are not used again, or not often.
func (d *Dials) Often() bool {
	return d.Share > MostDial || d.There > OftenDial && !d.FirstUses()
}

// dialID is the entry that is a cause whatever slow requests differ in from others: who
// connects for each request could do without, see DESIGN "Verdict".
const dialID = "dial-per-request"

// anew reports whether a finding is that.
func (f *Finding) anew() bool { return f.Cause == dialID && f.Share >= ExplainedShare }

// anew reports whether connections are not used again, and requests without that would take
// half of their time, and at least NamedExcess less.
func (c *Case) anew(s Settings) bool {
	if share, _ := c.Reached(c.connects); share <= MostDial {
		return false
	}
	c = newCase(c.A, c.P, c.Contrast) // what Dials finds out is kept, and depends on what was claimed before
	c.know(s)
	d := c.Dials()
	return d.Often() && !d.FirstUses() && d.NS >= NamedExcess && d.NS >= ExplainedShare*c.Excess
}

// Dials sums up connecting: waits for it and the handshake's own work, but not what a lost segment
// takes, nor what nobody answered. Where connections are not used again, requests also wait for a P
// behind each other's handshakes, and behind requests that these keep waiting; and for a CPU, if most
// of what the process computes is handshakes: then the peer that has the CPUs computes the other half
// of them.
func (c *Case) Dials() *Dials {
	lost := c.Delayed(Connecting).Hold() == Yes
	connects := func(k blame.Key) bool {
		return c.connects(k) && !(lost && c.A.Sites[k.Site].Connect) && !c.Unconnected(k)
	}
	d := &Dials{Root: c.Root(connects)}
	if len(d.Keys) == 0 {
		return d
	}
	d.Share, d.Requests = c.Reached(connects)
	_, there := c.Reached(func(k blame.Key) bool {
		return connects(k) || Waits(k) && c.standsIn(k, d.Where)
	})
	// Where the answers are waited for elsewhere, who does not connect does so, too.
	_, used := c.Reached(func(k blame.Key) bool {
		return k.Kind == blame.Network && k.Flags&blame.Inbound == 0 && !connects(k) && c.standsIn(k, d.Where)
	})
	if 2*used >= d.Requests {
		d.There = d.Requests / max(1, there)
	}
	if d.Peak = c.peak(); !d.Often() {
		return d
	}
	behind := c.Free(func(k blame.Key) bool { return k.Kind == blame.Behind && c.A.Connects(k.Class) })
	if p := c.Processors(); p.Winner == Hog && c.A.Connects(p.Class) {
		behind = append(behind, without(c.stillFree(p.Claim), behind)...)
	}
	d.Keys = append(d.Keys, without(behind, d.Keys)...)
	d.Queues = without(c.queuesOfDials(connects), d.Keys)
	d.Queueing = c.Sum(behind) + c.Sum(d.Queues)
	d.NS = c.Sum(d.Keys) + c.Sum(d.Queues)
	return d
}

// peak returns the largest number of the role's requests that were open at a time.
func (c *Case) peak() int {
	if c.most > 0 {
		return c.most
	}
	var starts, ends []timeline.Time
	for i := range c.A.Found().Requests {
		if r := &c.A.Found().Requests[i]; r.Role == c.P.Role {
			starts, ends = append(starts, r.Start()), append(ends, r.End())
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	over := 0
	for i, at := range starts {
		for over < len(ends) && ends[over] <= at {
			over++
		}
		c.most = max(c.most, i+1-over)
	}
	return c.most
}

// connects reports whether a key is a wait for a connection that is made, or work on it.
func (c *Case) connects(k blame.Key) bool {
	if k.Flags&(blame.Blind|blame.Inbound) != 0 || !Waits(k) && k.Kind != blame.CPU {
		return false
	}
	for _, h := range []blame.Hop{k.First, k.Queue, k.Last} {
		if c.A.Sites[h.WakerSite].Dial && !c.awaitsSlot(k, h) {
			return true
		}
	}
	return c.A.Sites[k.Site].Dial || c.A.Sites[k.Last.Site].Dial
}

// Unconnected reports whether a key is opening a connection that came to nothing: a deadline ended it, or
// only the recording did.
func (c *Case) Unconnected(k blame.Key) bool {
	return k.Kind == blame.Network && c.A.Sites[k.Site].Connect && k.Flags&(blame.TimedOut|blame.Unended) != 0
}

// mostFresh is the part of the waits for answers that must be in requests that connect, for
// them to be the first ones of their connections.
const mostFresh = 0.8

// freshLeast is how long connecting must take, as a part of the answers that follow: who makes sessions computes for them, as this
// side does, and answers all later meanwhile: those of one that signed for most requests took 1.6 times as long as connecting.
const freshLeast = 0.5

// FirstAnswers doubts that a peer is slow where slow requests connect first, and that takes
// at least freshLeast of how much longer the answers that follow, under keys, take: who makes sessions all the time
// answers late for that, and in a new session for its own sake.
func (c *Case) FirstAnswers(keys []blame.KeyID) []Evidence {
	connecting := 0.0
	for id, k := range c.A.Keys {
		if c.connects(k) {
			connecting += c.NS[id]
		}
	}
	if connecting < NamedShare*c.Excess {
		return nil
	}
	if e, ok := c.answersMeanwhile(keys); ok {
		return []Evidence{e}
	}
	if connecting < freshLeast*c.Sum(keys) {
		return nil
	}
	answers := map[blame.KeyID]bool{}
	for _, id := range keys {
		answers[id] = true
	}
	var fresh, all float64
	for _, r := range c.Tail {
		ns, dials := 0.0, false
		for _, p := range c.A.Requests[r].Pieces {
			if answers[p.Key] {
				ns += float64(p.NS)
			}
			dials = dials || c.connects(c.Key(p.Key))
		}
		if all += ns; dials {
			fresh += ns
		}
	}
	if fresh < mostFresh*all {
		return nil
	}
	return []Evidence{{
		Text: fmt.Sprintf("%s of these waits follow the connecting in the same request, which takes %s longer than in typical ones, the answers %s: a new session is slow for its own sake, and so is who makes many",
			Pct(fresh/max(1, all)), Ms(connecting), Ms(c.Sum(keys))),
		Holds: Unknown, Decides: true, Number: connecting / max(1, c.Sum(keys)),
		Alike: []string{"dial-per-request"}, Record: "the peer's own times of these calls, or the same with connections that are kept",
	}}
}

// Where connections are made while answers are late, either may be why: mostMeanwhile is the part of the longest waits for an answer that
// must pass while somebody connects, moreMeanwhile how many times as much as with typical requests, and lateAnswer how many times as long as
// these wait for theirs an answer must be open when connecting begins for that to come of it. It begins where nobody connected for as long.
const (
	mostMeanwhile = 0.8
	moreMeanwhile = 2
	lateAnswer    = 3
	// leastDiscarded is how many connections must have been given up in the recording, mostBegins bounds at how many times it is asked
	// what came first.
	leastDiscarded, mostBegins = 10, 200
)

// answersMeanwhile doubts that a peer is slow, under keys, where connections are made again and again that were closed before, and slow
// requests wait for its answers while others connect: who makes sessions answers all late meanwhile. It does not where answers were
// late before anybody connected: then there are too few connections because of that.
func (c *Case) answersMeanwhile(keys []blame.KeyID) (e Evidence, doubt bool) {
	site, _ := TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.Site })
	dials, discarded := c.A.Dialling()
	if discarded < leastDiscarded {
		return e, false
	}
	var spans []timeline.Span
	for _, x := range dials {
		spans = append(spans, timeline.Span{Start: x.From, End: x.To})
	}
	all := union(spans)
	part := func(requests []int) (part, mean float64) {
		var in, of timeline.Time
		n := 0
		for _, r := range requests {
			if x := c.A.Requests[r].Peer; x.Site != 0 && c.A.Place(x.Site) == c.A.Place(site) {
				in, of, n = in+timeline.Overlap(all, x.From, x.To), of+x.Length(), n+1
			}
		}
		return float64(in) / float64(max(1, of)), float64(of) / float64(max(1, n))
	}
	slow, _ := part(c.Tail)
	usual, takes := part(c.Typical)
	if slow < mostMeanwhile || slow < moreMeanwhile*usual || takes <= 0 {
		return e, false
	}
	begins, late, long := 0, 0, timeline.Time(lateAnswer*takes)
	last := c.A.Timeline().Start - long
	for _, x := range spans { // in order
		if begins == mostBegins {
			break
		}
		if x.Start-last >= long {
			begins++
			if c.answerOpen(site, x.Start, long) {
				late++
			}
		}
		last = max(last, x.End)
	}
	if 2*late >= begins {
		return e, false
	}
	return Evidence{
		Text: fmt.Sprintf("%s of the longest of these waits pass while somebody connects anew, %s of those of typical requests, and no answer was late before that in %d of %d times: who makes sessions answers late for that",
			Pct(slow), Pct(usual), begins-late, begins),
		Holds: Unknown, Decides: true, Number: slow,
		Alike: []string{"dial-per-request"}, Record: "the same with connections that are kept",
	}, true
}

// answerOpen reports whether a request waits at a site since so long before an instant for its answer.
func (c *Case) answerOpen(site blame.SiteID, at, since timeline.Time) bool {
	for _, r := range c.P.All() {
		if x := c.A.Requests[r].Peer; x.From <= at-since && x.To > at && c.A.Place(x.Site) == c.A.Place(site) {
			return true
		}
	}
	return false
}

// queuesOfDials returns the time in which threads wanted a CPU under keys of connecting, if
// most of what the process computes is that. Without handshakes a connection costs no CPU
// time to speak of, and who waits for one there does so anywhere. What others had a CPU for
// is their half of the handshakes only where nobody computes all the time.
func (c *Case) queuesOfDials(connects func(k blame.Key) bool) (out []blame.KeyID) {
	dials, all := 0, 0
	for _, s := range c.A.Timeline().Samples {
		all++
		if c.A.Connecting(s) {
			dials++
		}
	}
	if all < MinDoubt || 2*dials < all {
		return nil
	}
	others := c.Host.Roomy()
	for i, k := range c.A.Keys {
		if !c.taken[i] && (k.Off == events.Queued && others || k.Off == events.Crowded) &&
			(connects(k) || k.Kind == blame.Behind && c.A.Connects(k.Class)) {
			out = append(out, blame.KeyID(i))
		}
	}
	return out
}

// standsIn reports whether a request that spends time under a key stands in the function
// of a place meanwhile.
func (c *Case) standsIn(k blame.Key, p *Place) bool {
	site := k.First.Site
	if site == 0 {
		site = k.Site
	}
	at := c.PlaceOf(site)
	return p != nil && at != nil && at.Function == p.Function
}

// Opening is what only the first requests of connections spend.
type Opening struct {
	Keys []blame.KeyID
	// First counts the first requests of connections that were made within the
	// recording, and Slow is the part of them that spend time under Keys; Later
	// counts the other requests of such connections.
	First, Later int
	Slow         float64
}

// firstOnly is the part of the time under a key that first requests must have
// spent for it to be theirs.
const firstOnly = 0.8

// unqueued reports whether a piece is a request's own work or wait, and no queue
// behind others: the first requests of many connections that are made at once
// queue, too. A client that is slow to send is neither.
func (c *Case) unqueued(k blame.Key) bool {
	if kind, _ := c.Serial(k); k.Flags&blame.Inbound != 0 || kind != NoQueue && kind != Child && kind != Reader {
		return false
	}
	return Waits(k) || k.Kind == blame.CPU && k.Flags&blame.Self != 0
}

// Opening compares the first requests of connections with those that follow on
// the same connections.
func (c *Case) Opening() *Opening {
	o := &Opening{}
	f := c.A.Found()
	if f.Roles[c.P.Role].Shape != request.Connection {
		return o
	}
	byG := map[timeline.GID][]int{}
	for _, r := range c.P.All() {
		if g := f.Requests[c.A.Requests[r].Request].Parts[0].G; c.A.Timeline().Gs[g].Born {
			byG[g] = append(byG[g], r)
		}
	}
	first := map[int]bool{}
	for _, rs := range byG {
		best := rs[0]
		for _, r := range rs {
			if f.Requests[c.A.Requests[r].Request].Start() < f.Requests[c.A.Requests[best].Request].Start() {
				best = r
			}
		}
		first[best] = true
		o.Later += len(rs) - 1
	}
	o.First = len(first)
	mine, all := make([]float64, len(c.A.Keys)), make([]float64, len(c.A.Keys))
	for _, r := range c.P.All() {
		for _, p := range c.A.Requests[r].Pieces {
			all[p.Key] += float64(p.NS) * c.A.Weight[r]
			if first[r] {
				mine[p.Key] += float64(p.NS) * c.A.Weight[r]
			}
		}
	}
	own := make([]bool, len(c.A.Keys))
	for _, id := range c.Free(c.unqueued) {
		if mine[id] > 0 && mine[id] >= firstOnly*all[id] {
			o.Keys, own[id] = append(o.Keys, id), true
		}
	}
	slow := 0
	for r := range first {
		var ns float64
		for _, p := range c.A.Requests[r].Pieces {
			if own[p.Key] {
				ns += float64(p.NS)
			}
		}
		if ns >= 0.5*c.Sum(o.Keys) {
			slow++
		}
	}
	o.Slow = float64(slow) / float64(max(o.First, 1))
	return o
}
