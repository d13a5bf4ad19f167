package cause

import (
	"cmp"
	"net"
	"net/url"
	"slices"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Serial says what kind of queue a hop is.
type Serial uint8

// The kinds of queues in which goroutines wait for each other.
const (
	// NoQueue: no wait for a goroutine.
	NoQueue Serial = iota
	// Lock: one holder at a time.
	Lock
	// Pool: connections, permits or workers, several at a time.
	Pool
	// Worker: one goroutine serves many.
	Worker
	// Send: a full channel in front of a consumer.
	Send
	// Child: work that the request itself started, or shares with another one.
	Child
	// Shared: one does something once for all who wait for it.
	Shared
	// Reader: the goroutine that reads an outgoing connection's replies.
	Reader
)

// The structure that tells queues apart; ratios of the waits at one site.
const (
	PeerRatio, ChildRatio, OneWorker = blame.PeerRatio, blame.ChildRatio, blame.OneWorker
	// ManyHolders is the mean number of holders at a time from which on it is not
	// a lock; one holder measures exactly 1.
	ManyHolders = 1.5
	// SomeSeveral is the part of the waits that must say that there are several, where the mean is lower: of short bursts the first
	// who are let in are not seen to, and of a lock hardly anything says so.
	SomeSeveral = 0.2
)

// fewPeers is the part of the waits at a pool that others end by giving something back
// below which everything there is made anew.
const fewPeers = 0.1

// HopKind classifies a hop by the library functions at its site and by who ends
// the waits there.
func (c *Case) HopKind(h blame.Hop) Serial {
	switch {
	case h.Site == 0:
		return NoQueue
	case h.Reason == timeline.ReasonNetwork: // a server in this process
		return Reader
	}
	if c.A.Sites[h.WakerSite].Dial || c.A.Sites[h.Site].Asks {
		return Reader // a new connection ended the wait, no release; or whoever a client library has hand on what came in
	}
	q := c.A.Queue(h.Site)
	sends := h.Reason == timeline.ReasonChanSend || h.Reason == timeline.ReasonSelect && c.A.HandsOver(h.Site)
	switch c.A.Sites[h.Site].Kind {
	case blame.SitePool:
		if q.Children > ChildRatio && q.Peers < fewPeers { // connections that it makes for whoever asks
			return Child
		}
		return Pool
	case blame.SitePermit:
		return Pool
	case blame.SiteMutex, blame.SiteRLock, blame.SiteRWLock:
		return Lock
	case blame.SiteOnce:
		if c.renewed(h.Site) {
			return Shared
		}
		return Lock
	case blame.SiteGroup, blame.SiteShared:
		if q.Together < blame.ManyWaiters {
			return Child
		}
		return c.forAll(h.Site)
	case blame.SiteCall, blame.SiteDial, blame.SiteDNS:
		return Reader
	}
	switch {
	case h.Reason == timeline.ReasonSync:
		return Lock
	case q.Together >= blame.ManyWaiters && q.Calls >= 2*q.Wakers && c.readsReplies(h.Waker):
		return Reader // of a connection for many calls: several answers may come in together
	case q.Together >= blame.ManyWaiters:
		return c.forAll(h.Site)
	case q.Children > ChildRatio, q.Waits == 0: // what nobody ever ended was walked for a child that was still at work
		return Child
	case q.Messages > PeerRatio && q.Busiest > OneWorker:
		return Worker // who carries them one after the other
	case q.Peers > PeerRatio && !(sends && c.A.Feeds(h.Site)):
		if c.A.Brings(h.Site) {
			return Child // what others have for it is waited for, and nothing of which there are some
		}
		return Pool
	case sends && (q.Busiest > OneWorker || c.Keyed(h.Site)) && c.A.Answers(q.Worker, h.Site):
		return Worker // it answers: handing over and waiting are one queue
	case sends && q.Wakers > 1 && c.A.Answers(q.Worker, h.Site):
		return Pool // of workers, all of which are at work
	case sends && 2*q.Wakers > q.Waits:
		return Pool // no consumer stays: everybody gives back once
	case sends:
		return Send
	case q.Busiest > OneWorker && !c.A.ReturnsToNetwork(q.Worker):
		if h.Waker != 0 && c.A.Classes[h.Waker].Root != c.A.Root(q.Worker) && c.A.Starts(q.Worker, c.A.Classes[h.Waker].Root) {
			return Child // he ends most waits, and starts somebody for the others
		}
		return Worker
	case c.readsReplies(h.Waker), q.Busiest > OneWorker:
		return Reader
	case q.Wakers > 1 && !c.Keyed(h.Site):
		return Pool
	}
	return Worker
}

// ownQueue is the part of the time behind others that must be by goroutines with a queue of their own.
const ownQueue = 0.5

// Keyed reports whether those who end waits at a site each have a queue of their own.
func (c *Case) Keyed(site blame.SiteID) bool {
	own, ahead := c.A.Keyed(site)
	return ahead > 0 && own >= ownQueue
}

// leastRenewals is how often what is initialised once must have been so in a recording, for many who waited,
// not to be a first use.
const leastRenewals = 3

// renewed reports whether what is waited for at a site of a one-time initialisation is made anew again and
// again, for many at a time: it is done once for each that replaces another one.
func (c *Case) renewed(site blame.SiteID) bool {
	q := c.A.Queue(site)
	return c.A.Sites[site].Kind == blame.SiteOnce && q.Together >= blame.ManyWaiters && q.Calls >= leastRenewals
}

// Renews reports whether most of the time under keys is one-time initialisations that are made anew again
// and again.
func (c *Case) Renews(keys []blame.KeyID) bool {
	return 2*c.Sum(keep(keys, func(id blame.KeyID) bool {
		k := c.Key(id)
		return c.renewed(k.Site) || c.renewed(k.First.Site) || c.renewed(k.Queue.Site)
	})) > c.Sum(keys)
}

// forAll tells queues whose waits end many at a time: one goroutine that ends the
// waits of most requests serves them in batches, else something is done once for
// those who happen to need it then.
func (c *Case) forAll(site blame.SiteID) Serial {
	if c.A.Queue(site).Busiest > OneWorker && c.passThrough(site) >= 0.5 {
		return Worker
	}
	return Shared
}

// passThrough returns the part of all requests that wait at a site.
func (c *Case) passThrough(site blame.SiteID) float64 {
	part, ok := c.passes[site]
	if !ok {
		part, _ = c.Reached(func(k blame.Key) bool { return k.First.Site == site || k.Queue.Site == site })
		c.passes[site] = part
	}
	return part
}

// readsReplies reports whether the goroutines of a class mostly wait for the
// network and carry no requests: they read an outgoing connection.
func (c *Case) readsReplies(class blame.ClassID) bool {
	return c.A.NetworkHome(class)
}

// Serial returns the queue in which a piece was spent, and the hop of whoever
// everybody in it waited for. Where the first queue on the way is but the
// request's own children, or work for all who wait there, it is the last one; also where
// it is a logger's lock, whose holder waits in another one to hand on its line: each who
// waits for the lock has a line, too, and hands it on there.
func (c *Case) Serial(k blame.Key) (Serial, blame.Hop) {
	h := k.Queue
	if h.Site == 0 {
		h = k.First
	}
	kind := c.HopKind(h)
	if c.awaitsSlot(k, h) {
		kind = Pool
	}
	if kind == Pool && k.Kind == blame.Timer && c.A.Gathers(h.Site, k.Site) {
		return Worker, h // of several, each of which collects
	}
	handsOn := kind == Lock && k.Last != h && c.A.Sites[h.Site].Log && c.A.Sites[k.Last.Site].Log
	if kind == Child || kind == Shared || kind == Reader || handsOn {
		last := c.HopKind(k.Last)
		if last != NoQueue && last != Child && last != Shared && last != Reader && !(handsOn && last == Lock) {
			return last, k.Last
		}
	}
	if kind == Child && k.Flags&blame.Ahead != 0 && c.A.Queue(h.Site).Children > ChildRatio {
		return Pool, h // whoever was started for the first stays for others, and was at work for one of them
	}
	if kind == Reader && k.Kind == blame.CPU {
		if q := c.A.Queue(h.Site); q.Busiest > OneWorker && k.Class == c.A.ClassAt(q.Worker, c.A.Timeline().End) {
			return Worker, h // it computes, for one after the other
		}
	}
	if kind == Lock && k.Last != h && c.HopKind(k.Last) == Worker && c.inTurn(h.Site, k.Last.Site) {
		return Worker, k.Last
	}
	return kind, h
}

// OthersClient reports whether a key is that the one who serves a queue waits for a client: that is another's than those who queue.
// Known says that it is one: what writes to it is of a library, not the standard one, by which requests come as well.
func (c *Case) OthersClient(k blame.Key) (is, known bool) {
	if k.Kind != blame.Network || k.Flags&blame.Inbound == 0 || k.Flags&(blame.Self|blame.Answer) != 0 || c.A.Sites[k.Site].Kind == blame.SiteInbound {
		return false, false
	}
	if kind, _ := c.Serial(k); kind != Worker {
		return false, false
	}
	return true, c.OnlyServes() || c.servesBy(k.Site)
}

// OnlyServes reports whether all connections that the process had in the end were its clients', beside those of who recorded it, and nothing in
// the recording was about to connect to anybody: then it has no peers, unless they are reached by other means than TCP.
func (c *Case) OnlyServes() bool {
	if c.serves == nil {
		is := c.onlyServes()
		c.serves = &is
	}
	return *c.serves
}

func (c *Case) onlyServes() bool {
	if c.Host == nil || c.Host.After == nil || c.Host.After.SocketsCut {
		return false
	}
	asked := ""
	if u, err := url.Parse(c.Target.URL); err == nil {
		asked = u.Port()
	}
	clients, own := 0, 0
	for _, s := range c.Host.After.Sockets {
		switch _, port, err := net.SplitHostPort(s.Local); {
		case s.Remote == "":
		case !s.Inbound || s.Inside:
			return false
		case err == nil && port == asked && own < recorders:
			own++
		default:
			clients++
		}
	}
	return clients > 0 && !c.A.CallsOut()
}

// ForClients reports whether most of the time under keys is that whoever serves a queue waits for clients of others, and whether it is
// known that these are clients.
func (c *Case) ForClients(keys []blame.KeyID) (most, known bool) {
	var ns, sure float64
	for _, id := range keys {
		if is, known := c.OthersClient(c.Key(id)); is {
			if ns += c.NS[id]; known {
				sure += c.NS[id]
			}
		}
	}
	return 2*ns > c.Sum(keys), 2*sure > ns
}

// servesBy reports whether a library's package that is on the stack of a site is also where goroutines that carry requests wait for the
// next one.
func (c *Case) servesBy(site blame.SiteID) bool {
	t, f := c.A.Timeline(), c.A.Found()
	on := map[string]bool{}
	for _, x := range t.Stacks.Frames(c.A.Sites[site].Stack) {
		if p := request.PackageOf(x.Func); p != "main" && !request.Standard(x.Func) {
			on[p] = true
		}
	}
	if app, ok := request.AppFrame(t.Stacks.Frames(c.A.Sites[site].Stack)); ok {
		delete(on, request.PackageOf(app.Func))
	}
	for _, i := range c.Tail {
		g := f.Requests[c.A.Requests[i].Request].Parts[0].G
		for n, s := range t.Gs[g].Waits() {
			if n == leastHomes {
				break
			}
			if !f.Home(g, s) {
				continue
			}
			for _, x := range t.Stacks.Frames(s.Stack) {
				if on[request.PackageOf(x.Func)] {
					return true
				}
			}
		}
	}
	return false
}

// leastHomes is among how many waits of a goroutine one at home is looked for.
const leastHomes = 32

// awaitsSlot reports whether a key is time at a pool before anybody began to make the connection that ended the
// wait: there were as many as there may be, and whoever gave one up had another one made.
func (c *Case) awaitsSlot(k blame.Key, h blame.Hop) bool {
	return k.Flags&blame.Birth != 0 && c.A.Sites[h.Site].Kind == blame.SitePool && c.A.Sites[h.WakerSite].Dial
}

// inTurn reports whether most requests that wait at one site wait at another one, too, on their
// own account and not for who waits there: they stand in both queues.
func (c *Case) inTurn(one, other blame.SiteID) bool {
	sites := [2]blame.SiteID{one, other}
	in, known := c.turns[sites]
	if known {
		return in
	}
	first, second := c.standAt(one), c.standAt(other)
	fewer, more := first, second
	if len(fewer) > len(more) {
		fewer, more = more, fewer
	}
	both := 0
	for _, r := range fewer {
		if _, ok := slices.BinarySearch(more, r); ok {
			both++
		}
	}
	in = len(first) > 0 && 2*both >= len(first)
	if c.turns == nil {
		c.turns = map[[2]blame.SiteID]bool{}
	}
	c.turns[sites] = in
	return in
}

// standAt returns the requests that wait at a site on their own account, in order.
func (c *Case) standAt(site blame.SiteID) []int {
	if c.standing == nil {
		c.standing = map[blame.SiteID][]int{}
		all := slices.Sorted(slices.Values(c.P.All()))
		for _, r := range all {
			add := func(s blame.SiteID) {
				if at := c.standing[s]; s != 0 && (len(at) == 0 || at[len(at)-1] != r) {
					c.standing[s] = append(at, r)
				}
			}
			for _, p := range c.A.Requests[r].Pieces {
				k := c.Key(p.Key)
				add(k.First.Site)
				add(k.Queue.Site)
			}
		}
	}
	return c.standing[site]
}

// Waits reports whether a leaf is a wait or a call that blocks, rather than work.
func Waits(k blame.Key) bool {
	switch k.Kind {
	case blame.Network, blame.Timer, blame.Syscall, blame.Cgo, blame.Awaited, blame.Open, blame.Uncollected:
		return !isBlind(k)
	}
	return false
}

func isBlind(k blame.Key) bool { return k.Flags&blame.Blind != 0 }

// OwnWork reports the part of all requests that spend time in the queue of keys
// and also do their leaf without it (see doThemselves): where most do, requests need that
// leaf themselves, and what serialises it is only the way to it. (Among slow
// requests those are common that both queue and do it.)
func (c *Case) OwnWork(keys []blame.KeyID) float64 {
	part, _ := c.ownWork(keys)
	return part
}

// ownWork is OwnWork, and the mean time in nanoseconds that the leaf takes those who do it.
func (c *Case) ownWork(keys []blame.KeyID) (part, mean float64) {
	time, all := map[errand]float64{}, 0.0
	var errands []errand
	var does []blame.KeyID
	for _, id := range keys {
		if k := c.Key(id); k.Site != 0 && c.NS[id] > 0 {
			e := c.errand(k)
			if time[e] == 0 {
				errands = append(errands, e)
			}
			time[e] += c.NS[id]
			all += c.NS[id]
			does = append(does, id)
		}
	}
	in := c.lockers(keys, does)
	within := map[errand]float64{}
	for _, id := range does {
		if k := c.Key(id); in.within(c.callers(c.CallSite(k))) {
			within[c.errand(k)] += c.NS[id]
		}
	}
	slices.SortStableFunc(errands, func(x, y errand) int { return cmp.Compare(time[y], time[x]) })
	mostly := map[errand]bool{}
	for left := all; len(errands) > 0 && left > asideMax*all; errands = errands[1:] {
		mostly[errands[0]] = true
		left -= time[errands[0]]
	}
	site, own := c.lockOf(keys), map[blame.SiteID]bool{}
	part, mean = c.doThemselves(keys, func(k blame.Key) bool {
		e := c.errand(k)
		if !mostly[e] || 2*within[e] >= time[e] && in.outside(c.callers(c.CallSite(k))) {
			return false
		}
		own[cmp.Or(k.First.Site, k.Site)] = true
		return true
	})
	if site != 0 && part > 0 && c.firstThings(keys, site, own) {
		part = 0
	}
	return part, mean
}

// lockOf returns where requests wait for a lock under keys, 0 if that is none.
func (c *Case) lockOf(keys []blame.KeyID) blame.SiteID {
	site, _ := TopBy(c, keys, func(k blame.Key) blame.SiteID {
		if kind, h := c.Serial(k); kind == Lock {
			return h.Site
		}
		return 0
	})
	return site
}

// firstThings reports whether most requests that wait for a lock at a site under keys wait at none of some other places behind that,
// but before: what they do there they do without the lock.
func (c *Case) firstThings(keys []blame.KeyID, site blame.SiteID, places map[blame.SiteID]bool) bool {
	before, behind := 0.0, 0.0
	for _, r := range c.P.All() {
		if !slices.ContainsFunc(c.A.Requests[r].Pieces, func(p blame.Piece) bool { return slices.Contains(keys, p.Key) }) {
			continue
		}
		switch first, then := c.A.Around(r, site, places); {
		case then:
			behind += c.A.Weight[r]
		case first:
			before += c.A.Weight[r]
		}
	}
	return before > 0 && before >= OneWorker*(before+behind)
}

// errand is what a leaf is done for: its site, or those at one line of the program, which may be reached on
// several ways; or, if a goroutine that reads a connection waits for all who call, who calls.
type errand struct {
	site   blame.SiteID
	caller string
}

func (c *Case) errand(k blame.Key) errand {
	if isFar(k) && c.PlaceOf(k.Site) == nil {
		if p := c.PlaceOf(c.CallSite(k)); p != nil {
			return errand{caller: p.Function}
		}
	}
	return errand{site: c.A.Place(k.Site)}
}

// lockers are functions that hold a lock, and those that call them.
type lockers struct{ hold, call map[string]bool }

// maxHelpers is how many functions on the way to a wait for a lock are asked whether they hold it: the one that waits, and its callers.
const maxHelpers = 4

// lockers returns the functions that hold the locks for which keys wait: those that wait, or, where these only take a lock for
// others, the innermost of their callers that call most of what holders do.
func (c *Case) lockers(keys, does []blame.KeyID) lockers {
	for depth := range maxHelpers {
		l := lockers{map[string]bool{}, map[string]bool{}}
		for _, id := range keys {
			if own := c.callers(c.Key(id).Queue.Site); len(own) > depth+1 {
				l.hold[own[depth].Func], l.call[own[depth+1].Func] = true, true
			}
		}
		within := keep(does, func(id blame.KeyID) bool { return l.within(c.callers(c.CallSite(c.Key(id)))) })
		if 2*c.Sum(within) > c.Sum(does) {
			return l
		}
	}
	return lockers{}
}

// within reports whether one of them calls what a stack is of, and so may hold the lock meanwhile.
func (l lockers) within(own []gotrace.Frame) bool {
	return len(own) > 0 && slices.ContainsFunc(own[1:], func(f gotrace.Frame) bool { return l.hold[f.Func] })
}

// outside reports whether it is who calls one of them that does so, and then does not hold the lock.
func (l lockers) outside(own []gotrace.Frame) bool {
	return !l.within(own) && slices.ContainsFunc(own, func(f gotrace.Frame) bool { return l.call[f.Func] })
}

// callers are the frames of the program's own code at a site, the innermost first.
func (c *Case) callers(site blame.SiteID) []gotrace.Frame {
	own, ok := c.callersAt[site]
	if !ok {
		if own = request.Callers(c.A.Timeline().Stacks.Frames(c.A.Sites[site].Stack)); c.callersAt == nil {
			c.callersAt = map[blame.SiteID][]gotrace.Frame{}
		}
		c.callersAt[site] = own
	}
	return own
}

// asideMax is the part of what holders waited for that may be aside from what they
// hold for: a holder also writes a request to its peer, and every request writes an
// answer.
const asideMax = 0.1

// handedOver reports whether who waits at a hop has handed his work to a worker, one of several or
// the only one.
func (c *Case) handedOver(h blame.Hop) bool {
	return c.A.HandedOver(h) || h.Site != 0 && c.HopKind(h) == Worker
}

// doThemselves reports the part of all requests that spend time under keys and also under a key that
// is the same work and no queue was before: on their own goroutine, one that works for them or reads
// their answer, or that of a worker that they have handed their work. mean is the mean time in
// nanoseconds that it takes all who do it, in a queue or not.
func (c *Case) doThemselves(keys []blame.KeyID, same func(k blame.Key) bool) (part, mean float64) {
	in := make([]bool, len(c.A.Keys))
	for _, id := range keys {
		in[id] = true
	}
	queues := func(p blame.Piece) bool { return in[p.Key] }
	does := func(p blame.Piece) bool {
		k := c.Key(p.Key)
		return (k.Flags&blame.Self != 0 || k.Flags&blame.Ahead == 0 && (k.Queue.Site == 0 || c.handedOver(k.Queue))) && same(k)
	}
	var queued, both, all, time float64
	for _, r := range c.P.All() {
		pieces, weight, own := c.A.Requests[r].Pieces, c.A.Weight[r], 0.0
		for _, p := range pieces {
			if does(p) {
				own += float64(p.NS)
			}
		}
		if own > 0 {
			all += weight
			time += own * weight
		}
		if slices.ContainsFunc(pieces, queues) {
			queued += weight
			if own > 0 {
				both += weight
			}
		}
	}
	if queued == 0 {
		return 0, 0
	}
	return both / queued, time / max(all, 1)
}

// LongestHold returns, over the tail requests that queue, the mean of the longest
// single hold over the mean of the time spent in the queue. Near 1, one holder
// held long; near 0, many held shortly.
func (c *Case) LongestHold(keys []blame.KeyID) float64 {
	in := map[blame.KeyID]bool{}
	for _, id := range keys {
		in[id] = true
	}
	sites := c.queuesOf(keys)
	var hold, queue float64
	for _, r := range c.Tail {
		var ns int64
		for _, p := range c.A.Requests[r].Pieces {
			if in[p.Key] {
				ns += p.NS
			}
		}
		if ns > 0 {
			hold += float64(min(c.A.Requests[r].In(sites).Longest, ns))
			queue += float64(ns)
		}
	}
	if queue == 0 {
		return 0
	}
	return hold / queue
}

// QueueingRatio is the LongestHold below which a queue is made of many holders
// rather than of one long one.
const QueueingRatio = 0.3

// QueueSite returns the site of the queue that costs most among keys.
func (c *Case) QueueSite(keys []blame.KeyID) blame.SiteID { return c.queueSite(NoQueue, keys) }

// queueSite is QueueSite for keys of which the queues are known to be of a kind: who has not been let in stands in it where he waits.
func (c *Case) queueSite(kind Serial, keys []blame.KeyID) blame.SiteID {
	s, _ := TopBy(c, keys, func(k blame.Key) blame.SiteID {
		_, h := c.Serial(k)
		if k.Kind == blame.Open && (h.Site == 0 || kind != NoQueue && c.openQueue(k.Site) == kind) {
			return k.Site
		}
		return h.Site
	})
	return s
}
