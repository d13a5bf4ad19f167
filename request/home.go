package request

import (
	"sort"

	"github.com/whylate/whylate/timeline"
)

// use is how one goroutine uses one place at which it blocks.
type use struct {
	key    int32
	visits int32
	time   timeline.Time
	net    int32 // visits that the network ended, or reads that did not block
	read   bool  // reads a socket, and not for a client library
	client bool
	// accepts: it accepts connections, and not for a known server.
	accepts bool
}

// place is a key in the hands of all goroutines of one root function.
type place struct {
	key          int32
	read, client bool
	accepts      bool
	goroutines   int32
	repeats      int32 // goroutines that came more than once
	residents    int32 // goroutines that spent half of the trace there
	visits, net  int64
	time         timeline.Time
	// Of the sampled goroutines' visits: all, those that a goroutine ended, and
	// those that one ended whom g had not set to work itself.
	seen, woken, fed int64
	// Of the sampled goroutines' last reads there before others brought work again: those for
	// which g had written since the work before was brought, and those for which it had not;
	// and those whose answer g wrote or handed to who writes, those that it handed to others, and
	// those after which it did nothing.
	called, uncalled, handed, passed, silent int64
	awaited, sampled                         timeline.Time // of the sampled goroutines' time there: others waited for them
	rejected, established                    bool
}

// root is a function that goroutines were started with.
type root struct {
	name       string
	goroutines int32
	finished   int32 // born and died within the trace
	accepted   int32 // born by an acceptor
	dialled    int32 // connected before they first read a socket
	writes     bool  // to sockets, and not for a client library
	accepts    bool  // connections, and not for a known server
	places     []*place
	members    []timeline.GID // at most maxMembers of them
	// feeders are who brings its sampled goroutines work, and how often these wake one of
	// them out of a receive.
	feeders map[*root]*feeder
}

// feeder is how often one root brings another one work, and is woken by it.
type feeder struct{ brought, woken int }

// maxMembers bounds the goroutines of a root that are looked at for who waits
// for them: enough for a majority.
const maxMembers = 64

// homes finds the home of every goroutine.
type homes struct {
	c     *classifier
	t     *timeline.Timeline
	roots map[string]*root
	// acceptors is how many goroutines accept connections; strangers says that some of them
	// belong to no known server.
	acceptors int
	strangers bool
	datagrams map[int32]bool // keys of reads without a connection
	of        []*root        // by goroutine
	mine      []use          // of the goroutine that is being looked at
	used      []used
	first     []int32 // what g used is used[first[g]:first[g+1]]
	home      []int32
	calls     []int // by client

	// busy are the starts of waits at home that are none: those of g are
	// busy[firstBusy[g]:firstBusy[g+1]], in order.
	busy      []timeline.Time
	firstBusy []int32

	// ended are the segments that wakes ended, plus 1, or 0 before somebody asked: those
	// by g begin at wakes[g]. near is where a goroutine's segments were searched last.
	ended, wakes, near []int32
	spans              []stretch // scratch
}

// used is a place that a goroutine used. net says that it reads there, and not for a client
// library, and that the network ended a visit.
type used struct {
	key                int32
	read, accepts, net bool
}

// stretch is a time in which somebody waited.
type stretch struct{ start, end timeline.Time }

func findHomes(t *timeline.Timeline, c *classifier) *homes {
	h := &homes{c: c, t: t, roots: map[string]*root{}, datagrams: map[int32]bool{},
		of: make([]*root, len(t.Gs)), first: make([]int32, len(t.Gs)+1), home: make([]int32, len(t.Gs)), calls: make([]int, len(clients)), wakes: make([]int32, len(t.Gs)), near: make([]int32, len(t.Gs))}
	accepts := h.collect()
	for g := range t.Gs {
		if cr := t.Gs[g].Creator; h.of[g] != nil && cr >= 0 && accepts[cr] {
			h.of[g].accepted++
		}
	}
	for _, r := range h.roots {
		h.establish(r)
	}
	h.settle()
	for _, r := range h.roots {
		for _, g := range r.members {
			h.feeding(r, g)
		}
	}
	for _, r := range h.roots {
		for _, g := range r.members {
			h.calling(r, g)
		}
		h.establish(r)
	}
	h.settle()
	for _, r := range h.roots {
		h.awaited(r)
		h.rank(r)
	}
	h.settle()
	h.firstBusy = make([]int32, len(t.Gs)+1)
	for i := range t.Gs {
		if h.home[i] >= keyFirst && len(t.Gs[i].Wakes()) > 0 {
			h.exempt(timeline.GID(i))
		}
		h.firstBusy[i+1] = int32(len(h.busy))
	}
	return h
}

// exempt marks the waits at home during most of which others waited for g: a
// batcher's timer that runs while somebody is in its batch is no idleness, the
// wait for the first of them is. Reads of sockets are judged by role alone.
func (h *homes) exempt(g timeline.GID) {
	for _, u := range h.usedBy(g) {
		if u.key == h.home[g] && u.read {
			return
		}
	}
	h.covered(g, h.home[g], h.waitsFor(g), func(s timeline.Segment, awaited timeline.Time) {
		if 2*awaited > s.End-s.Start {
			h.busy = append(h.busy, s.Start)
		}
	})
}

// collect sums where every goroutine blocks and tells which accept connections.
func (h *homes) collect() (accepts []bool) {
	accepts = make([]bool, len(h.t.Gs))
	wakes := 0
	for i := range h.t.Gs {
		g := &h.t.Gs[i]
		h.first[i], h.wakes[i] = int32(len(h.used)), int32(wakes)
		wakes += len(g.Wakes())
		if g.System || g.Observer || g.Root() == "" {
			continue
		}
		name := g.Root()
		r := h.roots[name]
		if r == nil {
			r = &root{name: name}
			h.roots[name] = r
		}
		h.of[i] = r
		r.goroutines++
		if g.Born && g.Died {
			r.finished++
		}
		if len(r.members) < maxMembers {
			r.members = append(r.members, timeline.GID(i))
		}
		var dialled, writes bool
		accepts[i], dialled, writes = h.visits(g)
		r.writes = r.writes || writes
		if dialled {
			r.dialled++
		}
		h.merge(r, h.mine)
		for _, u := range h.mine {
			h.used = append(h.used, used{u.key, u.read, u.accepts, u.net > 0})
			r.accepts = r.accepts || u.accepts
		}
	}
	h.first[len(h.t.Gs)] = int32(len(h.used))
	h.ended = make([]int32, wakes)
	return accepts
}

// usedBy returns the places that a goroutine used.
func (h *homes) usedBy(g timeline.GID) []used { return h.used[h.first[g]:h.first[g+1]] }

// visits finds the uses of one goroutine, and counts its calls.
func (h *homes) visits(g *timeline.Goroutine) (accepts, dialled, writes bool) {
	h.mine = h.mine[:0]
	hasRead := false
	calling := uint8(0)
	for _, s := range g.Blocked() {
		in := h.c.of(s.Stack)
		calling = h.call(calling, in, s.Start)
		switch in.op {
		case opAccept:
			if !accepts {
				h.acceptors++
			}
			accepts = true
			h.strangers = h.strangers || in.flags&accepting == 0
		case opDial:
			dialled = dialled || !hasRead && in.client == 0
		case opWrite:
			writes = writes || s.Kind == timeline.Syscall && in.client == 0
		case opRead:
			hasRead = true
			if in.flags&datagrams != 0 {
				h.datagrams[in.key] = true
			}
		}
		if !mayBeHome(s, in) {
			continue
		}
		var u *use
		for j := range h.mine {
			if h.mine[j].key == in.key {
				u = &h.mine[j]
				break
			}
		}
		if u == nil {
			if len(h.mine) >= maxUses {
				continue
			}
			h.mine = append(h.mine, use{key: in.key, read: in.op == opRead && in.client == 0, client: in.client != 0,
				accepts: in.op == opAccept && in.flags&accepting == 0})
			u = &h.mine[len(h.mine)-1]
		}
		if s.Kind == timeline.Syscall {
			u.net++
			continue
		}
		u.visits++
		u.time += s.End - s.Start
		if s.Reason == timeline.ReasonNetwork && s.Waker == timeline.NoG {
			u.net++
		}
	}
	return accepts, dialled, writes
}

// maxUses bounds the places kept for a goroutine. A home is visited in every
// round, so it is among the first.
const maxUses = 32

// mayBeHome reports whether one may wait there for work: not for a lock, not
// for room to send or write, not for the GC.
func mayBeHome(s timeline.Segment, in *stackInfo) bool {
	if s.Kind == timeline.Syscall {
		return in.op == opRead || in.op == opAccept
	}
	switch s.Reason {
	case timeline.ReasonNetwork:
		return in.op != opWrite && in.op != opDial
	case timeline.ReasonChanReceive, timeline.ReasonSelect, timeline.ReasonCond, timeline.ReasonSleep,
		timeline.ReasonForever, timeline.ReasonOther:
		return true
	}
	return false
}

func (h *homes) merge(r *root, uses []use) {
	for k := range uses {
		u := &uses[k]
		p := r.place(u.key)
		if p == nil {
			if len(r.places) >= maxPlaces {
				continue
			}
			p = &place{key: u.key, read: u.read, client: u.client, accepts: u.accepts}
			r.places = append(r.places, p)
		}
		p.goroutines++
		p.visits += int64(u.visits)
		p.net += int64(u.net)
		p.time += u.time
		if u.visits > 1 {
			p.repeats++
		}
		if u.time > h.t.Duration()/2 {
			p.residents++
		}
	}
}

func (r *root) place(key int32) *place {
	for _, p := range r.places {
		if p.key == key {
			return p
		}
	}
	return nil
}

// feeding counts who ends the waits of g: somebody who brings work, or somebody
// who brings the answer to what g asked of him.
func (h *homes) feeding(r *root, g timeline.GID) {
	gr := &h.t.Gs[g]
	ws := gr.Wakes()
	k, from := 0, 0 // the wakes [from, k) came since the last visit to any place
	for _, s := range gr.Waits() {
		in := h.c.of(s.Stack)
		if in.op != opReceive {
			continue
		}
		for k < len(ws) && ws[k].Time <= s.End {
			k++
		}
		first := max(from, k-maxAsked)
		from = k
		p := r.place(in.key)
		if p == nil {
			continue
		}
		p.seen++
		if s.Waker == timeline.NoG || s.Waker == g {
			continue
		}
		p.woken++
		if !h.asked(g, first, k, s.Waker) && !h.employed(g, s.Waker) {
			p.fed++
			r.fedBy(h.of[s.Waker]).brought++
		}
	}
}

// fedBy returns what is known of who brings work.
func (r *root) fedBy(who *root) *feeder {
	f := r.feeders[who]
	if f == nil {
		if r.feeders == nil {
			r.feeders = map[*root]*feeder{}
		}
		f = &feeder{}
		r.feeders[who] = f
	}
	return f
}

// calling counts, of the sockets that g reads, what tells those on which it calls a peer for others who
// bring it work from those on which requests come: on its way from there to the first it has
// written, and on its way back it hands on the answer.
func (h *homes) calling(r *root, g timeline.GID) {
	gr := &h.t.Gs[g]
	ws, k := gr.Wakes(), 0
	brought, wrote, did, woke := false, false, false, false
	var read *place // last, since work was brought
	for _, s := range gr.Blocked() {
		for ; k < len(ws) && ws[k].Time <= s.Start; k++ {
			w := &ws[k]
			if to := h.of[w.Whom()]; !w.Birth() && to != nil {
				did = did || to.writes && to != r
				woke = woke || to != r
				if f := r.feeders[to]; f != nil {
					who := &h.t.Gs[w.Whom()]
					if j := h.woken(g, k); j < who.Len() && h.c.of(who.Seg(j).Stack).op == opReceive {
						f.woken++
					}
				}
			}
		}
		switch in := h.c.of(s.Stack); {
		case in.op == opWrite && in.client == 0:
			wrote, did = true, true
		case in.op == opRead && in.client == 0:
			p := r.place(in.key)
			if p == nil {
				continue
			}
			if brought && read == nil {
				if wrote {
					p.called++
				} else {
					p.uncalled++
				}
			}
			read, did, woke = p, false, false
		case in.op == opReceive && s.Kind == timeline.Waiting:
			p := r.place(in.key)
			if p == nil || 2*p.fed <= p.woken {
				continue
			}
			if read != nil && brought {
				switch {
				case did:
					read.handed++
				case woke:
					read.passed++
				default:
					read.silent++
				}
			}
			brought, wrote, read = s.Waker != timeline.NoG && s.Waker != g, false, nil
		}
	}
}

// waitsForWork is how long r's goroutines wait where others bring them work.
func (r *root) waitsForWork() (ns timeline.Time) {
	for _, p := range r.places {
		if !p.read && 2*p.fed > p.woken {
			ns += p.time
		}
	}
	return ns
}

// leastCalls is how often one must have called on a socket to be known for it.
const leastCalls = 3

// calls reports whether what r's goroutines read at a place is the answer to what they call for others,
// who bring them work, and whom they do not answer: with these they would share the work of a request
// that came in there. Not all work need have a result; who only wakes somebody who does not write, as
// for a line of a log, must wait longer for work than for answers.
func (r *root) calls(p *place) bool {
	if !p.read || p.called < leastCalls || 10*p.uncalled > p.called {
		return false
	}
	if 4*p.handed <= p.passed+p.silent && (p.passed <= p.silent || r.waitsForWork() <= p.time) {
		return false
	}
	brought, woken := 0, 0
	for who, f := range r.feeders {
		if who == r || who == nil {
			return false
		}
		brought, woken = brought+f.brought, woken+f.woken
	}
	return 10*woken <= brought
}

// maxAsked bounds how many wake-ups before a wait are searched for its waker.
const maxAsked = 64

// asked reports whether one of the wakes [from, to) of g set whom to work: gave birth to
// him, or called him from home. To answer him, or to take what he wanted to send, does not.
func (h *homes) asked(g timeline.GID, from, to int, whom timeline.GID) bool {
	for i := from; i < to; i++ {
		w := &h.t.Gs[g].Wakes()[i]
		if w.Whom() != whom {
			continue
		}
		who := &h.t.Gs[whom]
		k := h.woken(g, i)
		if w.Birth() || k < who.Len() && h.home[whom] != keyNone && h.c.of(who.Seg(k).Stack).key == h.home[whom] {
			return true
		}
	}
	return false
}

// employed reports whether whom is a goroutine that g gave birth to within the trace
// for one job, at the end of which it calls g: a permit that it gives back brings no
// work. One that lives as long as a connection calls again and again.
func (h *homes) employed(g, whom timeline.GID) bool {
	who := &h.t.Gs[whom]
	if who.Creator != g || !who.Born || !who.Died {
		return false
	}
	calls := 0
	ws := who.Wakes()
	for i := 0; i < len(ws) && calls < 2; i++ {
		if ws[i].Whom() == g {
			calls++
		}
	}
	return calls == 1
}

// maxPlaces bounds the places kept for a root function.
const maxPlaces = 256

// manyVisits to a place, by goroutines that were born and died within the trace,
// make it the home of something that lives as long as a connection; a job born
// for one request may loop a few times too.
const manyVisits = 8

// establish decides which places of a root can be a home at all, and ranks them.
func (h *homes) establish(r *root) {
	jobs := 2*r.finished > r.goroutines // born for one job each
	for _, p := range r.places {
		switch {
		case p.key < keyFirst:
			p.established = true
		case forOneRequest(r.name): // what it reads then is the answer of a peer, by a client that nobody knows
		case (p.read || p.accepts) && p.net > 0:
			p.established = true
		case p.answered():
		default:
			p.established = p.residents > 0 || p.repeats > 0 && (!jobs || p.visits >= manyVisits*int64(p.goroutines))
		}
	}
	h.rank(r)
}

// answered reports whether goroutines wait there for answers to what they asked.
func (p *place) answered() bool { return 2*p.woken > p.seen && 2*p.fed < p.woken }

// perConnection is how many reads that find data, and waits for it, there may be for each connection that is accepted, if that brings one
// request: one of the connection and one of a peer come with three each.
const perConnection = 4

// servesInTurn reports whether goroutines of a root accept each connection themselves, and serve it before the next one.
func (r *root) servesInTurn(p *place) bool {
	if !p.accepts {
		return false
	}
	for _, x := range r.places {
		if x.read && x.net > perConnection*p.net {
			return false
		}
	}
	return true
}

// takesConnections reports whether whoever accepts connections brings goroutines of a root most of their work there.
func (r *root) takesConnections(p *place) bool {
	if p.woken == 0 || 2*p.fed <= p.woken || p.client {
		return false
	}
	brought, all := 0, 0
	for who, f := range r.feeders {
		if all += f.brought; who != nil && who.accepts {
			brought += f.brought
		}
	}
	return 2*brought > all
}

// rank orders the places of a root: those of known servers first, then where connections come from, one
// for each request, then the socket reads of connection goroutines, then where others bring work, and no client library
// answers, then by time, and last where it waits for answers. Under load a goroutine may spend little
// time at home, so that time alone would choose a wait inside its work. (A lone
// goroutine that reads a socket may as well poll somebody.)
func (h *homes) rank(r *root) {
	class := func(p *place) int {
		switch {
		case !p.established || p.rejected:
			return 6
		case p.key < keyFirst:
			return 0
		case r.calls(p):
			return 5
		case r.servesInTurn(p), r.takesConnections(p):
			return 1
		case p.read && p.net > 0 && (r.goroutines > 1 || r.accepted > 0):
			return 2
		case p.woken > 0 && 2*p.fed > p.woken && !p.client:
			return 3
		case p.answered():
			return 5
		}
		return 4
	}
	sort.SliceStable(r.places, func(i, j int) bool {
		a, b := r.places[i], r.places[j]
		if ca, cb := class(a), class(b); ca != cb {
			return ca < cb
		}
		return a.time > b.time || a.time == b.time && a.net > b.net
	})
}

// settle gives every goroutine the best place of its root that it uses.
func (h *homes) settle() {
	for g := range h.t.Gs {
		h.home[g] = keyNone
		r := h.of[g]
		if r == nil {
			continue
		}
		mine := h.usedBy(timeline.GID(g))
		for _, p := range r.places {
			if !p.established || p.rejected {
				break // the rest are worse
			}
			if uses(mine, p.key) {
				h.home[g] = p.key
				break
			}
		}
	}
}

func uses(us []used, key int32) bool {
	for i := range us {
		if us[i].key == key {
			return true
		}
	}
	return false
}

// awaited rejects the places of a root at which others wait, for what the goroutine does
// next, most of the time that it spends there: then it is a part of its work (the
// timer of a batcher, the reply of a dependency) and no idleness. Those of known
// servers are sure.
func (h *homes) awaited(r *root) {
	for _, g := range r.members {
		mine, waits, known := h.usedBy(g), []stretch(nil), false
		for _, p := range r.places {
			if p.key < keyFirst || !uses(mine, p.key) {
				continue
			}
			if !known {
				waits, known = h.waitsFor(g), true
			}
			h.covered(g, p.key, waits, func(s timeline.Segment, awaited timeline.Time) {
				p.sampled += s.End - s.Start
				p.awaited += awaited
			})
		}
	}
	for _, p := range r.places {
		p.rejected = p.sampled > 0 && 2*p.awaited > p.sampled
	}
}

// covered tells, for each wait of g at the place key, how long others waited for
// g meanwhile; waits is when they did.
func (h *homes) covered(g timeline.GID, key int32, waits []stretch, tell func(s timeline.Segment, awaited timeline.Time)) {
	gr := &h.t.Gs[g]
	k := 0
	for _, s := range gr.Waits() {
		if h.c.of(s.Stack).key != key {
			continue
		}
		for k < len(waits) && waits[k].end <= s.Start {
			k++
		}
		var sum timeline.Time
		for j := k; j < len(waits) && waits[j].start < s.End; j++ {
			sum += min(s.End, waits[j].end) - max(s.Start, waits[j].start)
		}
		tell(s, sum)
	}
}

// waitsFor returns the times in which others waited, away from their homes, for
// g to wake them: disjoint and in order, until the next call.
func (h *homes) waitsFor(g timeline.GID) []stretch {
	gr, out := &h.t.Gs[g], h.spans[:0]
	for i := range gr.Wakes() {
		w := &gr.Wakes()[i]
		if w.Birth() || h.of[w.Whom()] == nil {
			continue
		}
		who := &h.t.Gs[w.Whom()]
		k := h.woken(g, i)
		if k >= who.Len() {
			continue
		}
		s := who.Seg(k)
		if s.Waker != g || h.home[w.Whom()] != keyNone && h.c.of(s.Stack).key == h.home[w.Whom()] {
			continue
		}
		x := stretch{s.Start, s.End}
		for n := len(out); n > 0 && out[n-1].end >= x.start; n-- {
			x.start = min(x.start, out[n-1].start)
			out = out[:n-1]
		}
		out = append(out, x)
	}
	h.spans = out
	return out
}

// woken returns which segment of the goroutine that it woke the wake i of g ended, as
// [timeline.Goroutine.SegmentAt] does.
func (h *homes) woken(g timeline.GID, i int) int {
	at := &h.ended[int(h.wakes[g])+i]
	if *at == 0 {
		w := &h.t.Gs[g].Wakes()[i]
		near := &h.near[w.Whom()] // who is woken again is woken a little later
		*near = int32(h.t.Gs[w.Whom()].SegmentNear(w.Time, int(*near)))
		*at = *near + 1
	}
	return int(*at - 1)
}
