package request

import (
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// group are the goroutines of one role: root function and home.
type group struct {
	root    *root
	home    int32
	members []timeline.GID
	// datagrams: they need nobody to accept a connection.
	datagrams bool
	// accepts: what comes is connections.
	accepts bool
	// activations, and in how many of them the goroutine wrote to the socket
	// itself or gave birth to others.
	activations, wrote, bore int
	// wakes of goroutines out of their homes, and out of other waits.
	handed, returned int
}

// generic finds entry roles by what the goroutines do whom the network wakes.
// Where known servers accept all connections, the others are outgoing. If those servers had
// nobody to serve but the observer, requests may come in on such a connection: from a broker
// of messages. If they had too few for a diagnosis, and none hangs, those are requests that come
// in on connections which handlers took over, as websockets do.
func (d *finder) generic() {
	inbound, unserved, known := d.h.strangers || d.h.acceptors == 0, d.unasked(), len(d.list)
	for class := range d.excluded {
		unserved = unserved && (class == classObserver || class == classHijacked)
	}
	groups := d.groups(d.unasked())
	born := d.bornForOne(groups)
	for _, gr := range groups {
		if born[gr] {
			continue
		}
		takenOver := gr.root.name == rootHTTP
		if !inbound && gr.root.accepted == 0 && !gr.datagrams && !takenOver && !(unserved && (known == 0 || outnumbers(gr.activations, known)) && d.consumes(gr)) {
			continue
		}
		if gr.activations == 0 || 2*gr.root.dialled > gr.root.goroutines && gr.root.accepted == 0 && !takenOver {
			continue // it dialled before it read: an outgoing connection
		}
		name := gr.root.name
		if takenOver {
			name = roleTakenOver
		}
		handsOn := gr.handed > gr.returned
		switch {
		case gr.accepts && 2*gr.bore >= gr.activations:
			continue // each connection has a goroutine of its own
		case 2*gr.wrote >= gr.activations && !(gr.accepts && handsOn && 2*gr.handed >= gr.activations): // else it asks somebody about each connection
			role := d.roleOf(name, Connection, gr.root.name, gr.home)
			for _, g := range gr.members {
				d.connection(g, role, gr.home, answersPeer)
			}
			if gr.handed >= leastQueued && float64(gr.handed) >= leastMixed*float64(gr.activations) {
				d.queues(gr.members, d.handsOfAll(gr), d.roleOf(name+roleHandedOver, ReaderWriter, gr.root.name, gr.home))
			}
		case 2*gr.bore >= gr.activations:
			role := d.roleOf(name, PerRequest, gr.root.name, gr.home)
			for _, g := range gr.members {
				d.births(g, role, gr.home)
			}
		case handsOn:
			role := d.roleOf(name, ReaderWriter, gr.root.name, gr.home)
			for _, g := range d.queues(gr.members, d.handsOfAll(gr), role) {
				d.pair(g, role, gr.home)
			}
		default:
			continue
		}
		for _, g := range gr.members {
			if takenOver && !beyond(d.t, d.t.Gs[g].Start()) {
				d.excluded[classHijacked]--
			}
		}
	}
}

// bornForOne returns the groups of goroutines that a reader gives birth to for each request: what they
// read themselves is the answer to what they ask.
func (d *finder) bornForOne(groups []*group) map[*group]bool {
	children := map[timeline.GID]bool{}
	for _, gr := range groups {
		if gr.accepts || 2*gr.wrote >= gr.activations || 2*gr.bore < gr.activations {
			continue
		}
		for _, g := range gr.members {
			for _, w := range d.t.Gs[g].Wakes() {
				if w.Birth() {
					children[w.Whom()] = true
				}
			}
		}
	}
	out := map[*group]bool{}
	for _, gr := range groups {
		n := 0
		for _, g := range gr.members {
			if children[g] {
				n++
			}
		}
		out[gr] = 2*n > len(gr.members)
	}
	return out
}

// roleHandedOver is added to the name of a role whose goroutines answer some of what they read themselves, and hand
// the rest to others; leastMixed is the least part of the messages that they must hand over.
const (
	roleHandedOver = " (handed over)"
	leastMixed     = 0.1
)

// roleTakenOver is the role of messages on connections that handlers took over from net/http's
// server.
const roleTakenOver = "messages on connections taken over from net/http"

// consumes reports whether goroutines wait at home for most of the time: for a message, whenever
// it comes, and not for the answer to what they ask now and then.
func (d *finder) consumes(gr *group) bool {
	var home, all timeline.Time
	for _, g := range gr.members {
		for _, s := range d.t.Gs[g].Waits() {
			if all += s.End - s.Start; d.c.of(s.Stack).key == gr.home {
				home += s.End - s.Start
			}
		}
	}
	return 2*home > all
}

// groups returns the goroutines whose home is a read from a socket that belongs
// to no known library, by role; if takenOver is set, also those of net/http's server in which
// a handler has taken over the connection for all of the trace.
func (d *finder) groups(takenOver bool) (out []*group) {
	type key struct {
		root *root
		home int32
	}
	by := map[key]*group{}
	for i := range d.h.of { // messages are behind these
		r, home := d.h.of[i], d.h.home[i]
		if r == nil || home < keyFirst || serves(r.name) && !(takenOver && d.hijackers[timeline.GID(i)]) || d.quic && strings.HasPrefix(r.name, quicGo) {
			continue
		}
		reads, accepts := d.readsAt(i, home)
		if !reads && !accepts {
			continue
		}
		g := by[key{r, home}]
		if g == nil {
			g = &group{root: r, home: home, datagrams: d.h.datagrams[home], accepts: accepts}
			by[key{r, home}] = g
			out = append(out, g)
		}
		g.members = append(g.members, timeline.GID(i))
		d.observe(g, timeline.GID(i))
	}
	return out
}

// readsAt reports whether a goroutine reads at home, or accepts connections there.
func (d *finder) readsAt(g int, home int32) (reads, accepts bool) {
	for _, u := range d.h.usedBy(timeline.GID(g)) {
		if u.key == home {
			return u.read && u.net, u.accepts && u.net
		}
	}
	return false, false
}

// observe adds what g does to its group's sums.
func (d *finder) observe(gr *group, g timeline.GID) {
	answered := false
	d.walk(g, gr.home, answersPeer, func(a activation) {
		if a.open || answered && a.died && !a.wrote { // the end of the connection
			return
		}
		gr.activations++
		if a.wrote {
			gr.wrote++
			answered = true
		}
	})
	last := timeline.Time(-1) // the activation that gave birth last began then
	from := timeline.Time(-1)
	d.events(g, gr.home, func(at timeline.Time, _ bool) { from = at }, func(w *timeline.Wake) {
		switch {
		case w.Birth() && d.h.of[w.Whom()] != nil:
			if from != last {
				gr.bore++
			}
			last = from
		case w.Birth():
		case gr.accepts && d.h.of[w.Whom()] == gr.root: // who accepts next on the same listener
		case d.atHome(w) && !d.forReply(w.Whom()):
			gr.handed++
		default:
			gr.returned++
		}
	}, nil)
}

// forReply reports whether a goroutine reads a connection for who calls on it: what it is handed there is an answer.
func (d *finder) forReply(g timeline.GID) bool {
	reads, _ := ReadsReplies(d.t.Gs[g].Root())
	return reads
}

// atHome reports whether w took its goroutine out of its home wait.
func (d *finder) atHome(w *timeline.Wake) bool {
	gr := &d.t.Gs[w.Whom()]
	home := d.h.home[w.Whom()]
	k := gr.SegmentAt(w.Time)
	return home != keyNone && k < gr.Len() && gr.Seg(k).Kind == timeline.Waiting && d.c.of(gr.Seg(k).Stack).key == home
}

// timesHome is how often a goroutine must come home to be seen not to answer what it is given.
const timesHome = 3

// sink reports whether no goroutine with the root function of one ever wakes anybody or calls the system, although this one comes home
// again and again: who only takes what it is given, such as a deadline to watch, answers nobody.
func (d *finder) sink(g timeline.GID) bool {
	is, known := d.sinks[g]
	if !known {
		is = d.onlyTakes(g)
		d.sinks[g] = is
	}
	return is
}

func (d *finder) onlyTakes(g timeline.GID) bool {
	if d.acts == nil {
		d.acts = map[*root]bool{}
		for i := range d.t.Gs {
			if r := d.h.of[i]; r != nil && !d.acts[r] {
				d.acts[r] = len(d.t.Gs[i].Wakes()) > 0 || d.calls(&d.t.Gs[i])
			}
		}
	}
	r, home := d.h.of[g], d.h.home[g]
	if r == nil || home == keyNone || d.acts[r] {
		return false
	}
	n := 0
	for _, s := range d.t.Gs[g].Waits() {
		if d.c.of(s.Stack).key != home {
			continue
		}
		if n++; n >= timesHome {
			return true
		}
	}
	return false
}

// calls reports whether a goroutine is seen in a system call.
func (d *finder) calls(g *timeline.Goroutine) bool {
	for _, s := range g.Blocked() {
		if s.Kind == timeline.Syscall {
			return true
		}
	}
	return false
}

// events replays a reader's life in order: read tells that a message may begin
// (the network woke g at home, or a read at home found data), wake that g woke
// somebody who is no sink, idle that g is back at home.
func (d *finder) events(g timeline.GID, home int32, read func(at timeline.Time, byNet bool), wake func(*timeline.Wake), idle func(at timeline.Time)) {
	gr := &d.t.Gs[g]
	ws, k := gr.Wakes(), 0
	upTo := func(at timeline.Time) {
		for ; k < len(ws) && ws[k].Time <= at; k++ {
			if ws[k].Birth() || !d.sink(ws[k].Whom()) {
				wake(&ws[k])
			}
		}
	}
	fresh := false // the next read takes what woke g
	for i, s := range gr.Blocked() {
		if i == 0 && d.waitedBefore(gr, home) {
			fresh = true
			read(s.End, true)
			continue
		}
		if d.c.of(s.Stack).key != home {
			continue
		}
		upTo(s.Start)
		if s.Kind == timeline.Syscall {
			if !fresh && !d.wouldBlock(gr, i, home) {
				read(s.Start, false)
			}
			fresh = false
			continue
		}
		if idle != nil {
			idle(s.Start)
		}
		if fresh = byNetwork(s) && i+1 < gr.Len(); fresh {
			read(s.End, true)
		}
	}
	upTo(gr.End())
}

// births finds the requests of a reader that gives birth to a goroutine for
// each: from the reader's wake-up, or its own read call, to the child's answer.
func (d *finder) births(g timeline.GID, role int, home int32) {
	d.carried[g] = true
	from, byNet := timeline.Time(-1), false
	last := d.t.Gs[g].Start()
	d.events(g, home, func(at timeline.Time, net bool) { from, byNet = at, net }, func(w *timeline.Wake) {
		if !w.Birth() || d.h.of[w.Whom()] == nil {
			return
		}
		start, net := from, byNet
		if start < 0 { // the message was in the buffer
			start, net = last, false
		}
		if at, first, ok := d.late(g, w.Time); ok {
			start, net = at, first
		}
		from, last = -1, w.Time
		d.child(g, w.Whom(), role, start, w.Time, net)
	}, nil)
}

// late returns when a message was there that a reader hands over at an instant, if it had to wait for a P before
// it read it, and whether it is the one for which the network woke it, see unread.
func (d *finder) late(g timeline.GID, at timeline.Time) (from timeline.Time, first, ok bool) {
	r, ok := d.lastRead(g, at)
	if !ok {
		return 0, false, false
	}
	return d.unread(&d.t.Gs[g], r.wait, at)
}

func (d *finder) child(g, child timeline.GID, role int, start, born timeline.Time, byNet bool) {
	c := &d.t.Gs[child]
	if c.Len() == 0 {
		return
	}
	d.h.home[child] = keyNone // it has but the one piece of work
	from, to := c.Start(), c.End()
	r := Request{ByNetwork: byNet, InFlight: !c.Died}
	e := d.examine(child, 0, from, to)
	if end, ok := d.lastWrite(child, from, to); ok && c.Died {
		r.Parts = d.parts(Part{g, start, from}, Part{child, from, end})
	} else if w, at, end, ok := d.writer(child, from, to); ok && c.Died {
		r.Parts = d.parts(Part{g, start, from}, Part{child, from, at}, Part{w, at, end})
	} else {
		r.Parts = d.parts(Part{g, start, from}, Part{child, from, to})
	}
	n := len(d.list)
	if d.add(role, r, e); len(d.list) > n {
		d.list[n].endpoint = d.h.of[child].name
	}
}

// message is what a reader read and handed on.
type message struct {
	start, handed timeline.Time
	whom          timeline.GID // NoG if nobody had to be woken
	byNet         bool
}

// pair finds the requests of a reader that hands over to a writer, directly or
// through workers.
func (d *finder) pair(g timeline.GID, role int, home int32) {
	d.carried[g] = true
	ms := d.messages(g, home)
	partner := d.partner(ms)
	if partner == timeline.NoG {
		return
	}
	d.carried[partner] = true
	many := d.several(ms, partner)
	for _, m := range ms {
		r := Request{ByNetwork: m.byNet}
		worker, at := timeline.NoG, m.handed
		if many {
			if m.whom == timeline.NoG { // who took it when he was done is not known
				continue
			}
			if end, ok := d.answer(m.whom, m.handed); ok {
				d.carried[m.whom] = true
				r.Parts = d.parts(Part{g, m.start, m.handed}, Part{m.whom, m.handed, end})
				d.add(role, r, d.examine(m.whom, d.segmentFrom(m.whom, m.handed), m.handed, end))
			}
			continue
		}
		if m.whom != timeline.NoG && m.whom != partner {
			if woken, when, ok := d.passes(m.whom, m.handed); ok && woken == partner {
				worker, at = m.whom, when
			}
		}
		end, ok := d.firstWrite(partner, at)
		switch {
		case !ok:
			continue
		case worker != timeline.NoG:
			r.Parts = d.parts(Part{g, m.start, m.handed}, Part{worker, m.handed, at}, Part{partner, at, end})
		default:
			r.Parts = d.parts(Part{g, m.start, at}, Part{partner, at, end})
		}
		d.add(role, r, d.examine(g, d.segmentFrom(g, m.start), m.start, m.handed))
	}
}

// several reports whether a reader hands what it reads to several workers who write the answers
// themselves, of whom partner is but one.
func (d *finder) several(ms []message, partner timeline.GID) bool {
	own, others := 0, 0
	for _, m := range ms {
		if m.whom == timeline.NoG {
			continue
		}
		if _, ok := d.answer(m.whom, m.handed); !ok {
			others++
		} else if own++; m.whom == partner {
			others++
		}
	}
	return own > others
}

// answer returns when worker, woken out of its home at from, has written the answer: as what it
// writes last before it is home again, or as early as it writes from there.
func (d *finder) answer(worker timeline.GID, from timeline.Time) (at timeline.Time, ok bool) {
	gr, home := &d.t.Gs[worker], d.h.home[worker]
	key, known := d.writesLast[worker]
	if !known {
		times, last := map[int32]int{}, int32(0)
		for _, s := range gr.Blocked() {
			switch in := d.c.of(s.Stack); {
			case in.op == opWrite && in.client == 0:
				last = in.key
			case in.key == home && last != 0:
				if times[last]++; times[last] > times[key] || times[last] == times[key] && last < key {
					key = last
				}
				last = 0
			}
		}
		d.writesLast[worker] = key
	}
	if key == 0 {
		return 0, false
	}
	for _, s := range gr.SegsFrom(d.segmentFrom(worker, from)) {
		in := d.c.of(s.Stack)
		if s.Kind == timeline.Waiting && in.key == home && s.Start > from {
			break
		}
		if s.Kind == timeline.Syscall && in.op == opWrite && in.key == key && s.Start >= from {
			return s.End, true
		}
	}
	return 0, false
}

// messages lists what a reader handed on, in order. What it hands to goroutines of one kind after another, without reading meanwhile, is
// one message on its way, and with the last of them then: unless the one before answers it, or hands it on.
func (d *finder) messages(g timeline.GID, home int32) (out []message) {
	m := message{start: -1}
	given := map[*root]bool{} // whom the last message was handed to
	last := timeline.Time(-1)
	var woke *timeline.Wake           // the one before
	flush := func(at timeline.Time) { // nobody had to be woken for it
		if m.start >= 0 {
			m.handed, m.whom = d.taken(g, m.start, at), timeline.NoG
			out = append(out, m)
		}
		m.start = -1
	}
	d.events(g, home, func(at timeline.Time, net bool) {
		flush(at)
		m = message{start: at, byNet: net}
	}, func(w *timeline.Wake) {
		if w.Birth() || !d.atHome(w) {
			return
		}
		whom, again := d.takenBy(g, woke, w)
		woke = w
		if again && len(out) > 0 {
			if whom != timeline.NoG {
				out[len(out)-1].handed, out[len(out)-1].whom = w.Time, whom
			}
			return
		}
		if m.start < 0 {
			if last < 0 {
				return
			}
			if to := d.h.of[w.Whom()]; !given[to] && len(given) > 0 && len(out) > 0 && !d.answers(g, out[len(out)-1]) {
				given[to] = true
				out[len(out)-1].handed, out[len(out)-1].whom = w.Time, whom
				last = w.Time
				return
			}
			m = message{start: last} // it was in the buffer
		}
		if at, first, ok := d.late(g, w.Time); ok {
			m.start, m.byNet = at, first
		}
		m.handed, m.whom = w.Time, whom
		out = append(out, m)
		clear(given)
		given[d.h.of[w.Whom()]] = true
		last, m.start = w.Time, -1
	}, flush)
	return out
}

// answers reports whether whom a reader handed a message to writes an answer, or hands it on to somebody else than the reader.
func (d *finder) answers(reader timeline.GID, m message) bool {
	if m.whom == timeline.NoG {
		return false
	}
	if _, ok := d.answer(m.whom, m.handed); ok {
		return true
	}
	to, _, ok := d.passes(m.whom, m.handed)
	return ok && to != reader
}

// takenBy returns who takes the message for which g wakes whom w says, NoG if nobody who was at home does, and whether
// it is that of the wake-up before, of the same broadcast; woke is nil if there is none.
func (d *finder) takenBy(g timeline.GID, woke, w *timeline.Wake) (whom timeline.GID, again bool) {
	if !d.broadcasts(w.Stack) {
		return w.Whom(), false
	}
	if whom = w.Whom(); !d.takes(w) {
		whom = timeline.NoG
	}
	return whom, woke != nil && woke.Stack == w.Stack && d.atOnce(g, woke.Time, w.Time)
}

// broadcasts reports whether who wakes somebody there wakes all who wait for a condition.
func (d *finder) broadcasts(s gotrace.StackID) bool {
	is, known := d.broadcast[s]
	if !known {
		frames := d.t.Stacks.Frames(s)
		is = slices.ContainsFunc(frames[:min(len(frames), 3)], func(f gotrace.Frame) bool { return f.Func == "sync.(*Cond).Broadcast" })
		d.broadcast[s] = is
	}
	return is
}

// takes reports whether whom w took from home does more than to go home again by way of a lock: of all whom a
// broadcast wakes, he gets the message.
func (d *finder) takes(w *timeline.Wake) bool {
	gr, home := &d.t.Gs[w.Whom()], d.h.home[w.Whom()]
	end := gr.End()
	for i, n := gr.SegmentAt(w.Time)+1, 0; i < gr.Len() && n < maxLook; i, n = i+1, n+1 {
		s := gr.Seg(i)
		if s.Kind == timeline.Waiting && d.c.of(s.Stack).key == home {
			end = s.Start
			break
		}
		if s.Kind == timeline.Syscall || s.Kind == timeline.Waiting && s.Reason != timeline.ReasonSync {
			return true
		}
	}
	ws := gr.Wakes()
	for k := sort.Search(len(ws), func(k int) bool { return ws[k].Time > w.Time }); k < len(ws) && ws[k].Time <= end; k++ {
		if ws[k].Birth() || d.atHome(&ws[k]) {
			return true
		}
	}
	return false
}

// taken returns when somebody took what a reader had to hand on between two instants: when he ended
// its last wait, for room or for him, else at the end. The answer may be written before the reader
// runs again. Waits for a lock or for what it calls are none for him: it hands on later.
func (d *finder) taken(g timeline.GID, from, to timeline.Time) timeline.Time {
	at := to
	for _, s := range d.t.Gs[g].SegsFrom(d.segmentFrom(g, from)) {
		if s.End > to {
			break
		}
		if s.Kind != timeline.Waiting || s.Start < from || s.Waker == timeline.NoG || d.c.of(s.Stack).client != 0 {
			continue
		}
		switch s.Reason {
		case timeline.ReasonChanSend, timeline.ReasonChanReceive, timeline.ReasonSelect, timeline.ReasonCond:
			at = s.End
		}
	}
	return at
}

// partner is the writer whom a reader wakes most often, itself or through a worker.
func (d *finder) partner(ms []message) timeline.GID {
	votes := map[timeline.GID]int{}
	for _, m := range ms {
		if m.whom == timeline.NoG {
			continue
		}
		if _, ok := d.firstWrite(m.whom, m.handed); ok && d.writesOf(m.whom) != noAnswers {
			votes[m.whom]++
		} else if w, _, ok := d.passes(m.whom, m.handed); ok {
			votes[w]++
		}
	}
	best := timeline.NoG
	for g, n := range votes {
		if best == timeline.NoG || n > votes[best] || n == votes[best] && g < best {
			best = g
		}
	}
	return best
}

// passes returns the first goroutine that worker, woken at from, wakes out of
// its home before it is back at its own, and that writes to a socket.
func (d *finder) passes(worker timeline.GID, from timeline.Time) (timeline.GID, timeline.Time, bool) {
	gr := &d.t.Gs[worker]
	until := gr.End()
	home := d.h.home[worker]
	for i, n := d.segmentFrom(worker, from), 0; i < gr.Len() && n < maxLook; i, n = i+1, n+1 {
		if s := gr.Seg(i); s.Kind == timeline.Waiting && d.c.of(s.Stack).key == home {
			until = s.Start
			break
		}
	}
	ws := gr.Wakes()
	for k, n := sort.Search(len(ws), func(k int) bool { return ws[k].Time >= from }), 0; k < len(ws) && ws[k].Time <= until && n < maxLook; k, n = k+1, n+1 {
		if ws[k].Birth() || !d.atHome(&ws[k]) {
			continue
		}
		if _, ok := d.firstWrite(ws[k].Whom(), ws[k].Time); ok && d.writesOf(ws[k].Whom()) != noAnswers {
			return ws[k].Whom(), ws[k].Time, true
		}
	}
	return timeline.NoG, 0, false
}
