package cause

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Locks is what slow requests waited for holders of locks.
type Locks struct {
	Keys []blame.KeyID
	// Site is where requests wait, Holder where the lock is held.
	Site   blame.SiteID
	Holder *Place
	// Inner is where another lock is held that the holder mostly waits for, nil if it does not: whoever holds that
	// never lets in who waits at Site.
	Inner *Place
	// Waits is the part of the holders' time that they waited or blocked in, Open
	// the part of Keys in waits that had not ended: their holders are unknown.
	Waits, Open float64
	// Others is the part of the holders' time that they waited for what other goroutines, not born
	// for it, did; it is in Waits, too. For is what most of that was for.
	Others float64
	For    blame.Hop
	// Longest is Case.LongestHold, OwnWork is Case.OwnWork.
	Longest, OwnWork float64
	// Hold is the mean length of the holds that slow requests queue for, Whole of what typical requests take in all, in nanoseconds.
	Hold, Whole float64
	// Apart: holders of a lock mostly wait for peers or sleep.
	Apart bool
	// Nameless: holders of a lock mostly wait in system calls for which no cause stands, as for a process that was started.
	Nameless bool
	// InTurn: they do, as most who queue there do themselves, too, and no longer than is usual, Usual
	// nanoseconds: it is the lock that has them do so one after the other. Of a worker: it asks a peer for
	// one after the other, see callsInTurn.
	InTurn bool
	Usual  float64
	// Writers are those of Keys in which requests wait for readers, as writers.
	Writers []blame.KeyID
}

// Locks sums up the waits behind locks. Time in which holders themselves waited
// for a P belongs to whoever held the Ps, if anybody in particular did.
func (c *Case) Locks() *Locks {
	return c.queue(Lock, anywhere)
}

// Readers sums up the waits of a lock's readers, which only a writer ends: for it,
// and for the readers that it waits for itself. Its Keys have the waits of such writers, too,
// where they are requests, and the readers' own are worth a name.
func (c *Case) Readers() *Locks {
	l := c.queue(Lock, func(s blame.SiteID) bool { return c.A.Sites[s].Kind == blame.SiteRLock })
	l.Writers = c.writers(l)
	l.Keys = append(l.Keys, l.Writers...)
	return l
}

// writers returns the keys of writers who wait for the readers for whom, behind them, those wait that l is about: it is one lock
// that one reader has for long.
func (c *Case) writers(l *Locks) []blame.KeyID {
	reading := keep(l.Keys, func(id blame.KeyID) bool { return c.Key(id).Flags&blame.Reading != 0 })
	if l.Holder == nil || c.Share(l.Keys) < NamedShare || 2*c.Sum(reading) <= c.Sum(l.Keys) {
		return nil
	}
	return c.queue(Lock, func(s blame.SiteID) bool {
		return c.A.Sites[s].Kind == blame.SiteRWLock && c.A.Sites[s].Func == l.Holder.Function
	}).Keys
}

// ForReaders reports whether a key is of a wait for the readers of a lock: by a writer, or by a reader behind him.
func (c *Case) ForReaders(k blame.Key) bool {
	_, h := c.Serial(k)
	return k.Flags&blame.Reading != 0 || c.A.Sites[h.Site].Kind == blame.SiteRWLock
}

func anywhere(blame.SiteID) bool { return true }

// queue sums up the waits in queues of a kind that stand at sites which at accepts.
func (c *Case) queue(kind Serial, at func(s blame.SiteID) bool) *Locks {
	w := c.Processors().Winner
	l := &Locks{Keys: c.Free(func(k blame.Key) bool {
		if k.Kind == blame.Open && c.openQueue(k.Site) == kind {
			return at(k.Site)
		}
		s, h := c.Serial(k)
		if s == Pool && c.forItself(k, h) {
			return false
		}
		if kind == Lock && s == Pool && c.single(h.Site) {
			s = Lock
		}
		return s == kind && at(h.Site) && (k.Kind != blame.Behind || w == Own || w == NoHolder)
	})}
	l.Site = c.queueSite(kind, l.Keys)
	var waits, total float64
	var leaf, others []blame.KeyID
	for _, id := range l.Keys {
		k := c.Key(id)
		switch {
		case k.Kind == blame.UnknownHolder || k.Kind == blame.Unresolved:
			continue
		case k.Kind == blame.Open && c.openQueue(k.Site) == kind:
			l.Open += c.NS[id]
			continue
		}
		total += c.NS[id]
		forOthers := kind == Lock && c.waitsForOthers(k)
		if forOthers {
			others = append(others, id)
		}
		if does := Waits(k) && !computesInKernel(k); does || forOthers {
			waits += c.NS[id]
			if does {
				leaf = append(leaf, id)
			}
		}
	}
	if total > 0 {
		l.Waits, l.Others = waits/total, c.Sum(others)/total
		l.For, _ = TopBy(c, others, func(k blame.Key) blame.Hop { return k.Last })
	}
	if l.Open > 0 {
		l.Open /= l.Open + total
	}
	l.Longest, l.Hold, l.Whole = c.LongestHold(l.Keys), c.MeanHold(l.Keys), c.UsuallyTook()
	l.OwnWork, l.Usual = c.ownWork(leaf)
	if kind == Lock {
		far := keep(leaf, func(id blame.KeyID) bool { return isFar(c.Key(id)) || c.Key(id).Kind == blame.Timer })
		l.Apart = len(far) > 0 && c.Sum(far) >= 0.5*total
		calls := keep(leaf, func(id blame.KeyID) bool {
			return c.Key(id).Kind == blame.Syscall && c.A.Sites[c.Key(id).Site].Kind == blame.SiteOther && c.Key(id).Site != 0
		})
		l.Nameless = len(calls) > 0 && c.Sum(calls) >= 0.5*total
		if l.Apart && l.OwnWork >= 0.5 {
			hold := c.MeanHold(far)
			if l.InTurn = !c.Grown(far, hold, l.Usual); !l.InTurn && !c.Slower(far).Holds() {
				_, l.InTurn = c.Often(far, hold, l.Usual)
			}
		}
	}
	hop := func(k blame.Key) blame.Hop {
		_, h := c.Serial(k)
		return h
	}
	top, _ := TopBy(c, l.Keys, func(k blame.Key) blame.SiteID { return hop(k).WakerSite })
	var there []blame.KeyID
	for _, id := range l.Keys {
		if hop(c.Key(id)).WakerSite == top {
			there = append(there, id)
		}
	}
	h, _ := TopBy(c, there, hop)
	l.Holder = c.placeOfRelease(h, kind == Lock)
	last, _ := TopBy(c, keep(there, func(id blame.KeyID) bool { return hop(c.Key(id)) == h }), func(k blame.Key) blame.Hop { return k.Last })
	if kind == Lock && c.HopKind(last) == Lock && !c.A.EndsAt(h.Site, last.WakerSite) {
		l.Inner = c.placeOfRelease(last, true)
	}
	return l
}

// waitsForOthers reports whether the holder of a lock waited meanwhile, for another goroutine that
// was not born for that and is no holder of another lock. Who waits on a condition waits for what others
// bring about at their own pace, and be it that it started them.
func (c *Case) waitsForOthers(k blame.Key) bool {
	_, h := c.Serial(k)
	if k.Last == h || k.Last.Site == h.Site || c.readsReplies(k.Last.Waker) {
		return false
	}
	switch c.HopKind(k.Last) {
	case Worker, Pool, Send:
		return true
	case Child:
		return k.Last.Reason == timeline.ReasonCond
	}
	return false
}

// forItself reports whether a piece of a wait for workers is what one of them did for the request
// itself, not for others before it: then it was not the pool that was waited for. So it is
// where nobody was at work yet, but a timer was to start who would be.
func (c *Case) forItself(k blame.Key, h blame.Hop) bool {
	switch {
	case k.Kind == blame.Timer && k.Site == 0:
		return true
	case k.Flags&blame.Ahead != 0, k.Kind == blame.UnknownHolder, k.Kind == blame.Unresolved:
		return false
	}
	return c.A.HandedOver(h) && c.A.Handed(h.Site) > 0.5
}

// single reports whether what everybody gives back to the others at a site, in whatever way, is a
// lock: by who lets in whom there is one holder at a time, in most of the waits. A pool has as many
// as it has items while somebody waits; of one that leaked only one is left, too, and so pools are
// asked for first. Of a library's pool, and of permits, all holds that are known must say so, too:
// where few wait, one may be let in after the other, and several hold what they got without a wait.
// Where who waits had woken the one that ends it, that is no holder, but does something for him.
func (c *Case) single(site blame.SiteID) bool {
	one, ok := c.singles[site]
	if !ok {
		t := c.A.Turns(site)
		h := c.A.Holds(site).Holders
		most := 2*t.Decided >= t.Waits || t.Holders < surelyOne && (t.Decided >= surelyDecided || t.Decided >= agreed && h > 0 && h < surelyOne)
		one = t.Decided >= MinDoubt && most && t.Holders < ManyHolders && t.Several < SomeSeveral
		if q := c.A.Queue(site); one && q.Wakers > 1 && q.Peers <= PeerRatio && c.A.Handed(site) > 0.5 {
			one = false
		}
		if c.knownQueue(site) == Pool {
			one = one && h > 0 && h < ManyHolders
		}
		if t.Several > 0 || t.Decided < surelyDecided {
			one = one && c.AtOnce(site) < ManyHolders
		}
		c.singles[site] = one
	}
	return one
}

// AtOnce is how many of the requests that give back at a site stand, while slow requests wait, where who has it mostly does: who
// got it without a wait, and gives it back when nobody waits, is seen by this only.
func (c *Case) AtOnce(site blame.SiteID) float64 {
	if c.A.Queue(site).Peers <= PeerRatio {
		return 0
	}
	var keys []blame.KeyID
	for id := range c.A.Keys {
		if k := c.A.Keys[id]; k.Queue.Site != 0 && c.NS[id] > 0 && c.A.Place(k.Queue.Site) == c.A.Place(site) {
			keys = append(keys, blame.KeyID(id))
		}
	}
	at, ns := TopBy(c, keys, func(k blame.Key) blame.SiteID {
		if k.Last != k.Queue {
			return k.Last.Site
		}
		return k.Site
	})
	if at == 0 || ns < 0.5*c.Sum(keys) {
		return 0
	}
	return c.A.Standing(site, at, c.tailSpans())
}

// surelyDecided is how many waits that say that there is one holder, up to surelyOne on average, are
// enough, however many do not say: of a pool's items several are held at some time. Where the holds that were seen
// say the same, agreed are.
const surelyDecided, agreed, surelyOne = 100, 30, 1.05

// Pooled reports whether a site is the queue of a library's pool, or of permits: be there one only, it
// is a pool to whoever makes it larger.
func (c *Case) Pooled(site blame.SiteID) bool { return c.knownQueue(site) == Pool }

// LockName says what one at a time holds at a site.
func (c *Case) LockName(site blame.SiteID) string {
	if c.Pooled(site) {
		return "what only one at a time gets"
	}
	return "a lock"
}

// knownQueue is the queue that a site is by the library functions on its stack
// alone, NoQueue if they do not tell.
func (c *Case) knownQueue(s blame.SiteID) Serial {
	switch c.A.Sites[s].Kind {
	case blame.SiteMutex, blame.SiteRLock, blame.SiteRWLock:
		return Lock
	case blame.SitePool, blame.SitePermit:
		return Pool
	}
	return NoQueue
}

// openQueue is the queue in which somebody waits at a site whom nobody has let in yet: by the
// library, or a pool, if it is other requests that let in those before.
func (c *Case) openQueue(s blame.SiteID) Serial {
	if kind := c.knownQueue(s); kind != NoQueue || c.A.Queue(s).Waits == 0 {
		return kind
	}
	if c.HopKind(blame.Hop{Site: s}) == Pool && c.A.Queue(s).Peers > PeerRatio {
		return Pool
	}
	return NoQueue
}

// OpenEvidence says whether the holders are known at all.
func (l *Locks) OpenEvidence() Evidence {
	e := Evidence{Text: fmt.Sprintf("%s of the time are waits that had not ended: nobody released the lock, so nothing is known of its holder", Pct(l.Open)), Holds: Yes, Decides: true, Number: l.Open}
	if l.Open > 0.5 {
		e.Holds = Unknown
	}
	return e
}

// SiteName names the place of a site for a sentence.
func (c *Case) SiteName(s blame.SiteID) string { return shortName(c.A.Sites[s].Func) }

// PlaceName names a place for a sentence.
func PlaceName(p *Place) string {
	if p == nil {
		return "code outside the program's own packages"
	}
	return shortName(p.Function)
}

// lastingHold is how many times as long as a typical request takes in all a hold is, on average, that is not short, however many queue for
// it, and HealthyExcess at least. In convoys it is less than one where typical requests take the lock, too; of a password that is
// checked under it, it was 55.
const lastingHold = 5

// HoldEvidence says whether one holder held long or many held shortly.
func (l *Locks) HoldEvidence(long bool) Evidence {
	e := Evidence{Text: fmt.Sprintf("the longest single hold is %s of the time spent in the queue", Pct(l.Longest)), Decides: true, Number: l.Longest}
	lasts := l.Longest < QueueingRatio && l.Whole > 0 && l.Hold > lastingHold*l.Whole && l.Hold >= HealthyExcess
	if lasts {
		e.Text += fmt.Sprintf("; but one takes %s on average, a typical request %s in all", Ms(l.Hold), Ms(l.Whole))
		e.Number = l.Hold / l.Whole
	}
	e.Holds = Of((l.Longest >= QueueingRatio || lasts) == long)
	return e
}

// OwnWorkEvidence says whether the requests do themselves what they waited for.
func (l *Locks) OwnWorkEvidence() Evidence {
	if l.InTurn {
		return Evidence{
			Text: fmt.Sprintf("%s of the requests that queue there wait so themselves, too, which takes %s, and who is before them waits no longer than usual: it is the lock that has them do so one after the other",
				Pct(l.OwnWork), Ms(l.Usual)),
			Holds: Yes, Number: l.OwnWork,
		}
	}
	if l.Nameless && l.OwnWork >= 0.5 {
		return Evidence{
			Text:  fmt.Sprintf("%s of the requests that queue there do so themselves, too, which takes %s; but it is the lock that has them do so one after the other", Pct(l.OwnWork), Ms(l.Usual)),
			Holds: Yes, Number: l.OwnWork,
		}
	}
	return Evidence{
		Text:  fmt.Sprintf("%s of the requests that queue there do themselves what the holder did", Pct(l.OwnWork)),
		Holds: Of(l.OwnWork < 0.5), Decides: true, Number: l.OwnWork,
	}
}

// Pools, Workers and Sends sum up the other queues like Locks. A worker that
// waits for a peer does so on behalf of the request: those pieces stay free.
func (c *Case) Pools() *Locks { return c.queue(Pool, anywhere) }

// Sends sums up the waits for consumers of full channels.
func (c *Case) Sends() *Locks { return c.queue(Send, anywhere) }

// RanOut reports whether requests wait at a site from some time on, most of them, and before that none did.
func (c *Case) RanOut(site blame.SiteID) bool {
	is, known := c.dried[site]
	if !known {
		is = c.ranOut(site)
		if c.dried == nil {
			c.dried = map[blame.SiteID]bool{}
		}
		c.dried[site] = is
	}
	return is
}

func (c *Case) ranOut(site blame.SiteID) bool {
	type passed struct {
		start timeline.Time
		waits bool
	}
	var all []passed
	for _, r := range c.P.All() {
		x := passed{start: c.A.Found().Requests[c.A.Requests[r].Request].Start()}
		for _, p := range c.A.Requests[r].Pieces {
			x.waits = x.waits || c.Key(p.Key).Site == site && c.Key(p.Key).Kind == blame.Awaited
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b passed) int { return cmp.Compare(a.start, b.start) })
	first := slices.IndexFunc(all, func(x passed) bool { return x.waits })
	if first < MinRequests {
		return false
	}
	n := 0
	for _, x := range all[first:] {
		if x.waits {
			n++
		}
	}
	return 2*n > len(all)-first
}

// TimedOut returns the part of the time under keys in waits for holders that a deadline
// or a cancellation ended; a holder's own call that timed out ended none.
func (c *Case) TimedOut(keys []blame.KeyID) float64 {
	var out, total float64
	for _, id := range keys {
		if c.Key(id).Flags&(blame.TimedOut|blame.Expired) == blame.TimedOut {
			out += c.NS[id]
		}
		total += c.NS[id]
	}
	return out / max(total, 1)
}

// QueueRatio is how much more time than with the request itself a worker must
// spend with others before it, for its own system calls to be the worker's fault.
const QueueRatio = 2

// Workers sums up the waits for a goroutine that serves many, but for what the
// worker waits for on behalf of the request: the network, unless it is for somebody else
// (see forAnother, callsInTurn and OthersClient), and a device unless the request queued for it; and for the sleep of one
// that takes no work.
func (c *Case) Workers() *Locks {
	l := c.queue(Worker, anywhere)
	others := c.callsInTurn(l.Keys)
	if l.InTurn = others != nil; !l.InTurn {
		others = c.forAnother(l.Keys)
	}
	if c.quickAlone(others) {
		l.InTurn, others = false, nil
	}
	device := func(k blame.Key) bool {
		return (k.Kind == blame.Syscall || k.Kind == blame.Cgo) && !computesInKernel(k)
	}
	own, ahead := c.ownAndAhead(keep(l.Keys, func(id blame.KeyID) bool { return device(c.Key(id)) }))
	left := l.Keys[:0]
	for _, id := range l.Keys {
		k := c.Key(id)
		client, _ := c.OthersClient(k)
		if isFar(k) && !slices.Contains(others, id) && !client || device(k) && ahead <= QueueRatio*own {
			continue
		}
		if _, h := c.Serial(k); k.Kind == blame.Timer && c.A.Queue(h.Site).Waits > 0 && !c.A.TakesWork(c.A.Queue(h.Site).Worker) {
			continue
		}
		left = append(left, id)
	}
	l.Keys = left
	l.Site = c.queueSite(Worker, left)
	return l
}

func isFar(k blame.Key) bool { return k.Kind == blame.Network && !isBlind(k) }

// forAnother returns those of the keys of a queue for a worker in which it waits for a peer on
// behalf of few of those who queue there: most are served without, and several of those who are
// not are late by the same call. Who reads a connection's replies waits for all of them.
func (c *Case) forAnother(keys []blame.KeyID) []blame.KeyID {
	var far []blame.KeyID
	for _, id := range keys {
		if k := c.Key(id); isFar(k) {
			if _, h := c.Serial(k); c.readsReplies(h.Waker) {
				return nil
			}
			far = append(far, id)
		}
	}
	if len(far) == 0 {
		return nil
	}
	in := func(p blame.Piece) bool { return slices.Contains(far, p.Key) }
	var late []int
	for _, r := range c.P.All() {
		if slices.ContainsFunc(c.A.Requests[r].Pieces, in) {
			late = append(late, r)
		}
	}
	site := c.QueueSite(far)
	calls, _ := c.Reached(func(k blame.Key) bool {
		_, h := c.Serial(k)
		return isFar(k) && h.Site == site
	})
	if calls >= 0.5*c.passThrough(site) || len(late) < 2*len(c.spansOf(late)) {
		return nil
	}
	return far
}

// ownAndAhead divides the time under keys into what was done for the requests themselves, and for
// those before them.
func (c *Case) ownAndAhead(keys []blame.KeyID) (own, ahead float64) {
	for _, id := range keys {
		if c.Key(id).Flags&blame.Ahead != 0 {
			ahead += c.NS[id]
		} else {
			own += c.NS[id]
		}
	}
	return own, ahead
}

// callsInTurn returns those of the keys of a queue for a worker in which it waits for a peer, if that is
// mostly for those who came before, of whom there are several, and the peer answers as it usually does:
// it is the worker that asks for one after the other.
func (c *Case) callsInTurn(keys []blame.KeyID) []blame.KeyID {
	far := keep(keys, func(id blame.KeyID) bool {
		k := c.Key(id)
		_, h := c.Serial(k)
		return isFar(k) && !c.readsReplies(h.Waker)
	})
	if own, ahead := c.ownAndAhead(far); len(far) == 0 || ahead <= QueueRatio*own {
		return nil
	}
	// Who asks once for many ends their waits one shortly after the other.
	part, usual := c.ownWork(far)
	if hold := c.MeanHold(far); part < 0.5 || 2*hold < usual || c.Grown(far, hold, usual) {
		return nil
	}
	return far
}

// quickTimes is how many times as fast that is at least. Long calls make a queue also where they only vary: then it is
// two to four. stillQuick is the part of the calls that may be as quick from the first slow one to the last one: who always asks
// for some things that take long has quick ones between them. What takes less than a part of a hold, noCall, is no answer: a client
// library waits until the question is written, too.
const quickTimes, stillQuick, noCall = 5, 0.25, 0.01

// quickAlone reports whether the peer that a worker asks under keys answers much faster before
// it became slow, or after: what is slow from some time on has a queue always, so that it is also what is usual.
func (c *Case) quickAlone(keys []blame.KeyID) bool {
	at, waitsAt, _ := c.asksAt(keys, c.A.EndedByNone)
	if at == 0 {
		return false
	}
	waits, _ := waitsAt(at)
	hold := c.MeanHold(keys)
	slow := func(w timeline.Span) bool { return 2*float64(w.End-w.Start) >= hold }
	first := slices.IndexFunc(waits, slow)
	if first < 0 {
		return false
	}
	last := len(waits) - 1
	for !slow(waits[last]) {
		last--
	}
	var sum, n, quick, within float64
	for i, w := range waits {
		d := float64(w.End - w.Start)
		switch {
		case d < noCall*hold:
		case i < first || i > last:
			sum, n = sum+d, n+1
		default:
			if within++; quickTimes*d < hold {
				quick++
			}
		}
	}
	return n >= Pattern && hold > quickTimes*sum/n && quick <= stillQuick*within
}

// MeanHold is the mean length, in nanoseconds, of the holds that the tail
// requests queueing under keys waited for.
func (c *Case) MeanHold(keys []blame.KeyID) float64 {
	held, holders := c.queued(keys)
	return held / max(holders, 1)
}

// MeanHolders is the mean number of holders that a queueing tail request waits for.
func (c *Case) MeanHolders(keys []blame.KeyID) float64 {
	_, holders := c.queued(keys)
	return holders
}

// MeanUse is the mean length, in nanoseconds, of the uses of streams that are waited for at a
// site that ended during tail requests, and how many did.
func (c *Case) MeanUse(site blame.SiteID) (mean, n float64) {
	var ns timeline.Time
	for _, i := range c.Tail {
		r := &c.A.Found().Requests[c.A.Requests[i].Request]
		used, k := c.A.Used(site, r.Start(), r.End())
		ns, n = ns+used, n+float64(k)
	}
	return float64(ns) / max(n, 1), n
}

// queued returns the mean time and the mean number of the holds that the tail
// requests queueing under keys waited for.
func (c *Case) queued(keys []blame.KeyID) (held, holders float64) {
	return c.queuedIn(c.Tail, keys)
}

// queuesOf accepts the sites of the queues in which requests met what is under keys.
func (c *Case) queuesOf(keys []blame.KeyID) func(blame.SiteID) bool {
	in := map[blame.SiteID]bool{}
	for _, id := range keys {
		in[c.A.Place(c.Key(id).Queue.Site)] = true
	}
	return func(s blame.SiteID) bool { return in[s] }
}

// queuedIn is queued of some requests.
func (c *Case) queuedIn(requests []int, keys []blame.KeyID) (held, holders float64) {
	in := map[blame.KeyID]bool{}
	for _, id := range keys {
		in[id] = true
	}
	sites, n := c.queuesOf(keys), 0.0
	for _, r := range requests {
		for _, p := range c.A.Requests[r].Pieces {
			if in[p.Key] {
				q := c.A.Requests[r].In(sites)
				held += float64(q.Held)
				holders += float64(q.Holders)
				n++
				break
			}
		}
	}
	return held / max(n, 1), holders / max(n, 1)
}

// RunnerCPU says whether a class that is in the way by running was on a CPU. Too
// few samples do not speak against it; none at all, or doubt, decide.
func (c *Case) RunnerCPU(class blame.ClassID) Evidence {
	e := c.ClassCPU(class)
	_, doubt := c.doubted(class)
	e.Decides = doubt || len(c.A.Timeline().Samples) == 0
	return e
}

// HolderKept is HolderOnCPU for queues of short holders: being kept from a CPU
// does not make them, so that only doubt decides.
func (c *Case) HolderKept(l *Locks) Evidence {
	e := c.HolderOnCPU(l)
	e.Decides = e.Decides && len(c.A.Timeline().Samples) > 0
	return e
}

// HolderOnCPU says whether the holders of a lock were on a CPU while they ran.
func (c *Case) HolderOnCPU(l *Locks) Evidence { return c.RunnerCPU(c.holderClass(l)) }

// holderClass is that of most holders of a lock.
func (c *Case) holderClass(l *Locks) blame.ClassID {
	class, _ := TopBy(c, l.Keys, func(k blame.Key) blame.ClassID {
		_, h := c.Serial(k)
		return h.Waker
	})
	return class
}

// HolderComputes says in what function the holders of a lock compute while slow requests are open, by their CPU samples
// below the function that holds it: it may hold it for whatever others do. There is none where that is the function
// itself, or where samples are few.
func (c *Case) HolderComputes(l *Locks) []Evidence {
	if l.Holder == nil {
		return nil
	}
	class, n := c.holderClass(l), 0
	p, part := c.hottest(func(s timeline.Sample) bool {
		in := c.A.ClassAt(s.G, s.Time) == class && c.InTail(s.Time-1, s.Time) > 0 &&
			slices.ContainsFunc(c.A.Timeline().Stacks.Frames(s.Stack), func(f gotrace.Frame) bool { return f.Func == l.Holder.Function })
		if in {
			n++
		}
		return in
	})
	if p == nil || n < MinDoubt || p.Function == l.Holder.Function {
		return nil
	}
	return []Evidence{{
		Text:  fmt.Sprintf("%s of the holders' CPU samples below %s are in %s", Pct(part), PlaceName(l.Holder), PlaceName(p)),
		Holds: Yes, Number: part,
	}}
}
