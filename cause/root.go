package cause

import (
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Root is work that is a cause by its own kind, however requests come to wait for
// it: a log line that is written, a name that is looked up, a call into C.
type Root struct {
	Keys []blame.KeyID
	// NS is its excess in nanoseconds per request.
	NS float64
	// Site is where most of it is done, Where the place in the code to look at.
	Site  blame.SiteID
	Where *Place
	// Via are the queues in which requests met it.
	Via []string
}

// Root collects the free pieces that is accepts and that belong to the work
// itself, not to a queue in front of it: where requests do the work on their own
// goroutine, where it is done for them, or where they queue for it but need it
// themselves. Who only waits for a lock that somebody holds meanwhile needs
// nothing of it; then the lock is the cause.
func (c *Case) Root(is func(k blame.Key) bool) *Root {
	type queue struct {
		kind Serial
		site blame.SiteID
	}
	groups := map[queue][]blame.KeyID{}
	var order []queue
	for _, id := range c.Free(is) {
		var q queue
		if kind, h := c.Serial(c.Key(id)); kind != Child && kind != Reader {
			q = queue{kind, h.Site}
		}
		if groups[q] == nil {
			order = append(order, q)
		}
		groups[q] = append(groups[q], id)
	}
	r := &Root{}
	for _, q := range order {
		if c.needed(q.kind, q.site, groups[q], is) {
			r.Keys = append(r.Keys, groups[q]...)
		}
	}
	r.NS = c.Sum(r.Keys)
	r.Site, _ = TopBy(c, r.Keys, func(k blame.Key) blame.SiteID { return k.Site })
	r.Where, r.Via = c.PlaceOfKeys(r.Keys), c.Via(r.Keys)
	return r
}

// GrownHold is the ratio of the tail's holds of a pool to usual ones from which on
// the holders' own work is to blame and not the size of the pool.
const GrownHold = 1.5

// manyGrown is that ratio where none of the holds is a good part of the time in the queue: then it is many
// of them, of different lengths, that are waited for.
const manyGrown = 2 * GrownHold

// Grown reports whether holds of a pool under keys, of a mean length, are so much longer than what is
// usual that the holders' own work is to blame.
func (c *Case) Grown(keys []blame.KeyID, mean, usual float64) bool {
	limit := GrownHold
	if c.LongestHold(keys) < QueueingRatio {
		limit = manyGrown
	}
	return mean > limit*usual
}

// Slower says whether a peer that those who had a pool's items waited for, or the system or C that they called, was slow
// meanwhile. A queue that it
// made is longer than it is slow: most of who is waited for then asks when the peer is fast again, so that the mean of
// the holds says little, the less as nobody queues for those that are usual.
type Slower struct {
	// Part is the part of the slow requests during which slow waits for the peer, or slow calls, of whomever, took a good part of
	// the time of all such waits.
	Part  float64
	Usual int64 // what most of them take at most, in nanoseconds
	Calls bool  // of the system, or of C
}

// What names what was slow.
func (s Slower) What() string {
	if s.Calls {
		return "the holders' calls"
	}
	return "waits for the peer"
}

// slowTimes is how many times as long as most a wait for a peer takes that is slow, slowPart the part of such
// waits' time that slow ones take where the peer is slow, and slowMore how many times the part is that they take while no
// late request is open: what varies by itself does so always.
const slowTimes, slowPart, slowMore = 4, 0.3, 2

// Holds reports whether the peer is to blame.
func (s Slower) Holds() bool { return s.Part >= 0.5 }

// Slower looks at the peer that holders mostly waited for, or else at their calls; it is empty if that is not most of what they did.
func (c *Case) Slower(keys []blame.KeyID) (s Slower) {
	waitsAt, does := c.A.EndedByNone, keep(keys, func(id blame.KeyID) bool { return c.asks(c.Key(id)) })
	if c.Sum(does) < 0.5*c.Sum(keys) {
		waitsAt, s.Calls = c.A.CallsAt, true
		does = keep(keys, func(id blame.KeyID) bool {
			k := c.Key(id)
			return (k.Kind == blame.Syscall || k.Kind == blame.Cgo) && !computesInKernel(k) && !wants(k)
		})
	}
	if c.Sum(does) < 0.5*c.Sum(keys) {
		return s
	}
	at, _ := TopBy(c, does, func(k blame.Key) blame.SiteID { return k.Site })
	if !s.Calls { // calls are made where they are
		at, waitsAt, _ = c.asksAt(does, waitsAt)
	}
	if at == 0 {
		return s
	}
	waits, usual := waitsAt(at)
	if usual <= 0 || usual > maxUsual {
		return s
	}
	s.Usual = usual
	var slow, others []timeline.Span
	var inSlow, inAll timeline.Time // while no late request is open
	var own map[gotrace.StackID]usually
	if calls := c.callsOf(does); calls != nil {
		own = calls.usual
	}
	late := c.lateSpans()
	if c.apart(waits, late) < leastApart {
		late = c.tailSpans() // somebody always is
	}
	for _, w := range waits {
		is := w.End-w.Start > slowTimes*timeline.Time(usual)
		if is && own != nil { // unless whoever asks there always waits so long
			u := own[c.stackOf(w)]
			is = !u.always() || w.End-w.Start > slowTimes*timeline.Time(u.high)
		}
		if timeline.Overlap(late, w.Start, w.End) == 0 {
			inAll += w.End - w.Start
			if is {
				inSlow += w.End - w.Start
			}
		}
		if is {
			slow = append(slow, w)
		} else {
			others = append(others, w)
		}
	}
	longest := timeline.Time(0)
	for _, w := range slow {
		longest = max(longest, w.End-w.Start)
	}
	least := max(slowPart, slowMore*float64(inSlow)/float64(max(1, inAll)))
	for _, i := range c.Tail {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		first := sort.Search(len(slow), func(i int) bool { return slow[i].Start >= r.Start()-longest })
		in := within(slow[first:], r.Start(), r.End())
		from := sort.Search(len(others), func(i int) bool { return others[i].Start >= r.Start()-slowTimes*timeline.Time(usual) })
		if in > 0 && float64(in) >= least*float64(in+within(others[from:], r.Start(), r.End())) {
			s.Part += 1 / float64(len(c.Tail))
		}
	}
	return s
}

// leastApart is the part of waits that must be apart from late requests to say how they vary by themselves.
const leastApart = 0.25

// apart is the part of waits that are apart from spans, in number.
func (c *Case) apart(waits, spans []timeline.Span) float64 {
	n := 0
	for _, w := range waits {
		if timeline.Overlap(spans, w.Start, w.End) == 0 {
			n++
		}
	}
	return float64(n) / float64(max(1, len(waits)))
}

// asksAt returns where most of the time under keys is waited for a peer, or spent in calls, how much of it, and what tells of all
// that is there, waitsAt unless it is the place of who called a library: who reads a connection stands there for whatever anybody
// asks. The site is 0 if nothing tells one from another.
func (c *Case) asksAt(keys []blame.KeyID, waitsAt func(blame.SiteID) ([]timeline.Span, int64)) (blame.SiteID, func(blame.SiteID) ([]timeline.Span, int64), float64) {
	at, ns := TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.Site })
	if c.A.Sites[at].App {
		return at, waitsAt, ns
	}
	at, ns = TopBy(c, keys, func(k blame.Key) blame.SiteID { return k.Last.Site })
	if c.A.Sites[at].Kind != blame.SiteCall {
		return 0, nil, 0
	}
	return at, c.A.Answered, ns
}

// maxUsual is longer than any wait of which one can say that it is usual, in nanoseconds.
const maxUsual = 1e12

// within sums up how much of waits, which are in order of their beginning, lies in [from, to].
func within(waits []timeline.Span, from, to timeline.Time) (sum timeline.Time) {
	for _, w := range waits {
		if w.Start >= to {
			break
		}
		sum += max(0, min(w.End, to)-max(w.Start, from))
	}
	return sum
}

// needed reports whether work that requests queue for in front of a site belongs
// to them rather than to the queue.
func (c *Case) needed(kind Serial, site blame.SiteID, keys []blame.KeyID, is func(k blame.Key) bool) bool {
	switch kind {
	case Lock:
		same := map[work]bool{}
		for _, id := range keys {
			same[c.work(c.Key(id).Site)] = true
		}
		if c.A.Sites[site].Log && len(same) == 1 && same[work{log: true}] && c.onDevice(keys) == 0 {
			return true // a logger's lock: whoever waits for it has a line to write as well, be it at once
		}
		part, _ := c.doThemselves(keys, func(k blame.Key) bool { return is(k) && same[c.work(k.Site)] })
		return part >= 0.5
	case Worker: // a device or a thread of its own, or one long call and not many short ones in a row
		return c.onDevice(keys) >= 0.5 || c.Key(keys[0]).Flags&blame.Switched != 0 || c.LongestHold(keys) >= QueueingRatio
	case Pool:
		usual := float64(c.A.Holds(site).Mean)
		return usual > 0 && (c.Grown(keys, c.MeanHold(keys), usual) || c.Slower(keys).Holds())
	case Send:
		return false
	}
	return true
}

// onDevice returns the part of keys that waits for a device to have the data.
func (c *Case) onDevice(keys []blame.KeyID) float64 {
	var ns float64
	for _, id := range keys {
		if c.A.Sites[c.Key(id).Site].Kind == blame.SiteSync {
			ns += c.NS[id]
		}
	}
	return ns / max(1, c.Sum(keys))
}

// work identifies what is done at a site: all lines of a log and all lookups of
// names are alike, other calls by their caller.
type work struct {
	kind blame.SiteKind
	log  bool
	what string
}

func (c *Case) work(s blame.SiteID) work {
	site := &c.A.Sites[s]
	switch {
	case site.Log:
		return work{log: true}
	case site.Kind == blame.SiteDNS:
		return work{kind: site.Kind}
	case site.C != "":
		return work{what: site.C}
	}
	return work{kind: site.Kind, what: site.Func}
}

// Via lists the queues through which requests met what keys hold.
func (c *Case) Via(keys []blame.KeyID) []string {
	kind, ns := TopBy(c, keys, func(k blame.Key) Serial {
		s, h := c.Serial(k)
		if s == Worker && c.readsReplies(h.Waker) {
			return Reader // who reads a connection for many calls holds nobody up
		}
		return s
	})
	if ns < 0.5*c.Sum(keys) {
		return nil
	}
	switch kind {
	case Lock:
		return []string{"lock-held-across-wait"}
	case Pool:
		return []string{"pool-exhausted"}
	case Worker:
		return []string{"single-worker"}
	case Shared:
		return []string{"cache-stampede"}
	}
	return nil
}

// Reached returns the part of all requests that spend time under keys that f
// accepts, claimed or not, and their number.
func (c *Case) Reached(f func(k blame.Key) bool) (share, n float64) {
	accepts := make([]bool, len(c.A.Keys))
	for i, k := range c.A.Keys {
		accepts[i] = f(k)
	}
	var all float64
	for _, r := range c.P.All() {
		all += c.A.Weight[r]
		for _, p := range c.A.Requests[r].Pieces {
			if accepts[p.Key] {
				n += c.A.Weight[r]
				break
			}
		}
	}
	return n / max(all, 1), n
}
