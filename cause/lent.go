package cause

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Lent is what holds up a pool although it is no part of what requests do: who has its items
// carries none, and sleeps, computes, or waits for a peer that those who queue for one do not ask.
type Lent struct {
	// Holder is where the items are given back.
	Holder *Place
	// Part is the part of the time in the queue in which holders who carry no requests waited for a peer,
	// slept or computed, What what they mostly did of that.
	Part float64
	What blame.LeafKind
	// OwnCalls is the part of the requests that queue, but for those that gave up, which ask
	// a peer by the same client themselves; 1 if all gave up, 0 if the holders mostly do something else than to ask one.
	OwnCalls float64
	// Always is the lower quartile of the waits for the peer where the holders wait for it, over the whole
	// recording, in nanoseconds, if it is no less than half of the upper one: it is nothing that became slow.
	// Else it is 0.
	Always int64
}

// TheirAlone is the part of the time in the queue from which on a peer that became slow would have to be slow for
// who carries no request alone.
const TheirAlone = 0.9

// Lent looks at who had the items of a pool while requests waited there. Its Part is 0 if
// these are not known to give back what they took.
func (c *Case) Lent(l *Locks) (lent Lent) {
	if c.A.Connections(l.Site) > 0 {
		return c.leased(l.Site)
	}
	var theirs []blame.KeyID
	type holder struct {
		blame.Hop
		asks bool
	}
	clients, ofNone := map[string]bool{}, map[holder]bool{}
	for _, id := range l.Keys {
		k := c.Key(id)
		_, h := c.Serial(k)
		switch {
		case !c.asks(k) && k.Kind != blame.Timer && k.Kind != blame.CPU, c.PlaceOf(h.WakerSite) == nil: // a library makes new items, or reads for those who use them
			continue
		case c.single(h.Site): // a lock
			continue
		}
		who := holder{h, c.asks(k)}
		is, ok := ofNone[who]
		if !ok {
			is = c.A.ForNoRequest(h.Site, h.Waker) && (c.asks(k) || !c.A.HandedWork(h.Site, h.Waker))
			ofNone[who] = is
		}
		if is {
			theirs = append(theirs, id)
			if c.asks(k) {
				clients[c.client(k.Site)] = true
			}
		}
	}
	lent.Part = c.Sum(theirs) / max(1, c.Sum(l.Keys))
	lent.What, _ = TopBy(c, theirs, func(k blame.Key) blame.LeafKind { return k.Kind })
	h, _ := TopBy(c, theirs, func(k blame.Key) blame.Hop {
		_, h := c.Serial(k)
		return h
	})
	lent.Holder = c.PlaceOf(h.WakerSite)
	if len(clients) > 0 && lent.What == blame.Network {
		lent.OwnCalls = c.ownCalls(l.Keys, clients)
		at, _ := TopBy(c, theirs, func(k blame.Key) blame.SiteID { return k.Site })
		if w := c.A.Waits(at); w.Timers >= Pattern && w.Low >= w.High/2 {
			lent.Always = w.Low
		}
	}
	return lent
}

// Long is the part of the time in a pool's queue in which holders, whether they carry requests or not, waited for a peer where
// they always wait so long: the lower quartile of the waits there is half of the upper one or more, and half of
// meanHold, in nanoseconds. Least is the least of those quartiles. Such holds are longer in the tail because others happen to be there,
// not because anything became slow. It is 0 where one holds at a time, as a lock.
func (c *Case) Long(l *Locks, meanHold float64) (part float64, least int64) {
	if c.single(l.Site) {
		return 0, 0
	}
	var long float64
	for _, id := range l.Keys {
		k := c.Key(id)
		if !c.asks(k) {
			continue
		}
		if w := c.A.Waits(k.Site); w.Timers >= Pattern && w.Low >= w.High/2 && float64(w.Low) >= 0.5*meanHold {
			long += c.NS[id]
			if least == 0 || w.Low < least {
				least = w.Low
			}
		}
	}
	part = long / max(1, c.Sum(l.Keys))
	if calls, shortest := c.longCalls(l.Keys, meanHold); part < TheirAlone && calls > part {
		return calls, shortest
	}
	return part, least
}

// longCalls is Long of calls that are made at one place for several callers, some of whom always wait so long: another
// endpoint's report, beside short questions.
func (c *Case) longCalls(keys []blame.KeyID, meanHold float64) (part float64, least int64) {
	calls := c.callsOf(keys)
	if calls == nil {
		return 0, 0
	}
	holders := c.A.Enders(c.QueueSite(keys))
	var long, all float64
	for _, w := range calls.waits {
		if !holders[w.G] {
			continue
		}
		in := float64(timeline.Overlap(c.tailSpans(), w.Start, w.End))
		all += in
		if u := calls.usual[c.stackOf(w)]; u.always() && float64(u.low) >= 0.5*meanHold {
			long += in
			if least == 0 || u.low < least {
				least = u.low
			}
		}
	}
	return long / max(1, all), least
}

// madeCalls are the waits for a peer at one place, in order of their beginning, and what is usual for each stack on which they are made.
type madeCalls struct {
	waits []timeline.Span
	usual map[gotrace.StackID]usually
}

// usually are the quartiles of the longer half of n waits, in nanoseconds: a client library waits there until the question is written,
// too, which is soon. first and last are the medians of the longer half of the first ones and of the last ones.
type usually struct {
	n                      int
	low, high, first, last int64
}

// always reports whether it takes about as long each time, and from first to last.
func (u usually) always() bool {
	return u.n >= Pattern && u.low >= u.high/2 && u.first >= u.last/2 && u.last >= u.first/2
}

// usuallyOf is what waits take that are in order of time. It sorts them.
func usuallyOf(took []int64) usually {
	half := len(took) / 2
	longer := func(of []int64) int64 {
		if len(of) == 0 {
			return 0
		}
		of = slices.Clone(of)
		slices.Sort(of)
		return of[len(of)*3/4]
	}
	u := usually{n: len(took), first: longer(took[:half]), last: longer(took[half:])}
	slices.Sort(took)
	u.low, u.high = took[len(took)*5/8], took[len(took)*7/8]
	return u
}

// stackOf returns where somebody stands in a wait.
func (c *Case) stackOf(w timeline.Span) gotrace.StackID {
	me := &c.A.Timeline().Gs[w.G]
	return me.Seg(me.SegmentAt(w.Start + 1)).Stack
}

// callsOf returns the calls of the peer that holders under keys mostly wait for; nil if that is not most of what they do, or
// nothing tells one call from another.
func (c *Case) callsOf(keys []blame.KeyID) *madeCalls {
	asks := keep(keys, func(id blame.KeyID) bool { return c.asks(c.Key(id)) })
	at, waitsAt, ns := c.asksAt(asks, c.A.EndedByNone)
	if at == 0 || ns < 0.5*c.Sum(keys) {
		return nil
	}
	if known, ok := c.made[at]; ok {
		return known
	}
	m := &madeCalls{usual: map[gotrace.StackID]usually{}}
	lengths := map[gotrace.StackID][]int64{}
	place := c.A.Place(at)
	for site := range c.A.Sites {
		if c.A.Place(blame.SiteID(site)) != place || c.A.Sites[site].Kind != c.A.Sites[at].Kind {
			continue
		}
		waits, _ := waitsAt(blame.SiteID(site)) // the same call, whoever makes it
		m.waits = append(m.waits, waits...)
	}
	slices.SortStableFunc(m.waits, func(x, y timeline.Span) int { return cmp.Compare(x.Start, y.Start) })
	for _, w := range m.waits {
		stack := c.stackOf(w)
		lengths[stack] = append(lengths[stack], int64(w.End-w.Start))
	}
	for stack, took := range lengths {
		m.usual[stack] = usuallyOf(took)
	}
	if c.made == nil {
		c.made = map[blame.SiteID]*madeCalls{}
	}
	c.made[at] = m
	return m
}

// manyCalls is how many times as long as three quarters of the waits for a peer a hold is at least that is
// made of many of them, fewLong the part of their time that may be in waits that are slow.
const manyCalls, fewLong = 4, 0.1

// Often reports whether those who hold something under keys, for meanHold on average where usualHold is usual, wait for a
// peer many times in a row meanwhile, and hardly longer each time than anybody does at other times: then nothing became slow, they only
// keep what others want for many calls. Where calls are longer as well, it is their number if that makes more of the difference.
// Usual is what three quarters of these waits take at most; all is in nanoseconds.
func (c *Case) Often(keys []blame.KeyID, meanHold, usualHold float64) (usual int64, often bool) {
	asks := keep(keys, func(id blame.KeyID) bool { return c.asks(c.Key(id)) })
	if c.Sum(asks) < 0.5*c.Sum(keys) {
		return 0, false
	}
	at, waitsAt, ns := c.asksAt(asks, c.A.EndedByNone)
	if at == 0 || ns < 0.5*c.Sum(asks) {
		return 0, false
	}
	waits, usual := waitsAt(at)
	if usual <= 0 || manyCalls*float64(usual) > meanHold {
		return usual, false
	}
	holders := c.A.Enders(c.QueueSite(keys))
	var held, other struct{ sum, n float64 }
	slow := 0.0
	for _, w := range waits {
		if d := float64(w.End - w.Start); holders[w.G] && timeline.Overlap(c.tailSpans(), w.Start, w.End) > 0 {
			held.sum, held.n = held.sum+d, held.n+1
			if d > slowTimes*float64(usual) {
				slow += d
			}
		}
	}
	place := c.A.Place(at)
	for site := range c.A.Sites {
		if c.A.Place(blame.SiteID(site)) != place || c.A.Sites[site].Kind != c.A.Sites[at].Kind {
			continue
		}
		waits, _ := waitsAt(blame.SiteID(site)) // the same call, whoever makes it
		for _, w := range waits {
			if timeline.Overlap(c.tailSpans(), w.Start, w.End) == 0 {
				other.sum, other.n = other.sum+float64(w.End-w.Start), other.n+1
			}
		}
	}
	if held.n < Pattern || other.n < Pattern {
		return usual, false
	}
	longer := max(GrownHold, math.Sqrt(meanHold/max(1, usualHold)))
	return usual, held.sum/held.n <= longer*other.sum/other.n && slow <= fewLong*held.sum
}

// leased is Lent of connections, each of which its reader gives back. All who wait for one have something to ask.
func (c *Case) leased(site blame.SiteID) Lent {
	x := c.A.Leases(site)
	lent := Lent{Holder: c.PlaceOf(x.Site), Part: x.Part, What: blame.Network, OwnCalls: 1}
	if x.N >= Pattern && x.Low >= x.High/2 {
		lent.Always = x.Low
	}
	return lent
}

// ownCalls is Lent.OwnCalls for the keys of a queue.
func (c *Case) ownCalls(keys []blame.KeyID, clients map[string]bool) float64 {
	in, asks, queues := make([]bool, len(c.A.Keys)), make([]bool, len(c.A.Keys)), map[blame.SiteID]bool{}
	queue := func(k blame.Key) blame.SiteID {
		_, h := c.Serial(k)
		return h.Site
	}
	for _, id := range keys {
		in[id], queues[queue(c.Key(id))] = true, true
	}
	for i, k := range c.A.Keys {
		asks[i] = c.asks(k) && !queues[queue(k)] && clients[c.client(k.Site)]
	}
	queued, both := 0, 0
	for _, r := range c.P.All() {
		waits, does, gaveUp := false, false, false
		for _, p := range c.A.Requests[r].Pieces {
			waits, does = waits || in[p.Key], does || asks[p.Key]
			gaveUp = gaveUp || in[p.Key] && c.A.Keys[p.Key].Flags&(blame.TimedOut|blame.Expired) == blame.TimedOut
		}
		if !waits || gaveUp {
			continue
		}
		if queued++; does {
			both++
		}
	}
	if queued == 0 {
		return 1
	}
	return float64(both) / float64(queued)
}

// asks reports whether a leaf is a wait for what a peer answers.
func (c *Case) asks(k blame.Key) bool {
	return k.Kind == blame.Network && k.Flags&(blame.Blind|blame.Inbound) == 0 && c.A.Sites[k.Site].Kind != blame.SiteInbound
}

// client is the package that waits for the network at a site: the innermost one but for those
// through which all do.
func (c *Case) client(s blame.SiteID) string {
	for _, f := range c.A.Timeline().Stacks.Frames(c.A.Sites[s].Stack) {
		switch p := request.PackageOf(f.Func); p {
		case "runtime", "sync", "net", "crypto/tls", "bufio", "io":
		default:
			if !strings.HasPrefix(p, "internal/") {
				return p
			}
		}
	}
	return ""
}

// Does says what the holders mostly did.
func (l Lent) Does() string {
	switch l.What {
	case blame.Timer:
		return "sleeps"
	case blame.CPU:
		return "computes"
	}
	return "waits for a peer"
}

// Evidence says whether the pool's items are lent to who needs them for something else; meanHold is how long those that
// slow requests wait for are used on average, in nanoseconds.
func (l Lent) Evidence(meanHold float64) Evidence {
	e := Evidence{
		Text:  fmt.Sprintf("%s of that time %s had it, which carries no request, and mostly %s meanwhile", Pct(l.Part), PlaceName(l.Holder), l.Does()),
		Holds: Of(l.Part >= 0.5 && l.OwnCalls < 0.5), Decides: true, Number: l.Part,
	}
	if l.What == blame.Network {
		e.Text += fmt.Sprintf("; %s of the requests that queue there ask a peer in the same way themselves", Pct(l.OwnCalls))
	}
	if e.Holds != Yes && l.Part >= TheirAlone && float64(l.Always) >= 0.5*meanHold {
		e.Holds = Yes
		e.Text += fmt.Sprintf(", but its own calls always take so long: three quarters of them %s or more", Ms(float64(l.Always)))
	}
	return e
}
