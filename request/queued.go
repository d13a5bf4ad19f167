package request

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// A reader that hands a message to a worker at home wakes it, and the trace says whom. If all workers
// are busy nobody is woken: the message waits in a queue, and a worker takes it when it is done with the
// one before. Then the trace says nothing of it, and less than that of several messages that came in
// with one read. But each answer is for one message, and a worker that goes on after an answer, rather than
// home, took the head of the queue: so what was taken, and when, can be told from the answers, and when it
// came in from the order.

// hand is a message that a reader handed over, or a worker to the next one. ran is how long the reader ran for
// it, and for others that the same read brought and for which nobody was woken.
type hand struct {
	message
	reader timeline.GID
	ran    timeline.Time
	legs   []leg // of the way before reader got it
}

// leg is a part of the way of a message; if it waits for waker in a queue, to which it was handed at stack,
// the part's goroutine is who handed it over.
type leg struct {
	Part
	waker timeline.GID // NoG if it does not wait
	stack gotrace.StackID
}

// piece is what a worker did for one message: from when it took it until its answer was written, or
// handed to who writes it.
type piece struct {
	worker   timeline.GID
	from, to timeline.Time
	message  int           // in desk.hands, the one that woke the worker; -1 if it did not have to be woken
	since    timeline.Time // when the worker left home
}

// desk is a queue: who hands over there and who takes.
type desk struct {
	d       *finder
	readers []timeline.GID
	hands   []hand        // in order of time
	usual   timeline.Time // that a reader runs for a message
	workers map[timeline.GID]bool
	pieces  []piece
	// homes are the spans in which a worker was at home, in order of their beginnings: then the queue is
	// empty. Of those that begin no later than one, the last ends at until.
	homes []stretch
	until []timeline.Time
	// came counts the hands before each of which others may have come in with, and not be known.
	came []int32
	// writers: the workers hand their answers to others, who write them; next are others to whom they
	// hand the messages on, if they do so.
	writers bool
	next    *root
	// own: each worker has a queue of its own.
	own bool
	// hanging are the messages that workers had taken when the trace ended, as far as they are known.
	hanging []piece
	// away are the workers that were at work then.
	away []timeline.GID
}

// leastQueued is how often a worker must have been at work for one message to tell how many marks it makes, and
// chanceQueued the part of what was seen that may be otherwise than a queue has it.
const (
	leastQueued  = 5
	chanceQueued = 0.1
	// leastHandedOn is for which part of the messages for which they were woken workers must wake somebody
	// who writes to a socket, to be taken to hand on answers: he may be at work for another one, too.
	leastHandedOn = 0.25
	// leastQuiet is the part of the messages for which nobody is woken from which on some wait in the queue.
	leastQuiet = 0.02
	// fewExtra is the part of the messages that may have more marks than one.
	fewExtra = 0.05
	// leastTakenUp is the part of the messages that workers must be seen to take: if they answer many at
	// once they are not; leastHandedUp that if they hand them on: one that only computes may be done with
	// several before it wakes anybody.
	leastTakenUp, leastHandedUp = 0.9, 0.7
	// maxStages bounds how often a message is handed on.
	maxStages = 8
)

// queues finds the requests of readers that hand over to workers through queues, as hands says for each, and
// returns those readers of which it can say nothing.
func (d *finder) queues(readers []timeline.GID, hands [][]hand, role int) (left []timeline.GID) {
	for _, k := range d.desks(readers, hands) {
		last, ok := k, k.play()
		for n := 1; ok && last.next != nil; n++ {
			last = last.further()
			ok = n < maxStages && last.play()
		}
		if !ok {
			left = append(left, k.readers...)
			continue
		}
		for _, g := range k.readers {
			d.carried[g] = true
		}
		last.requests(role)
	}
	return left
}

// desks divides readers by the workers that they have in common.
func (d *finder) desks(readers []timeline.GID, hands [][]hand) (out []*desk) {
	parent := make([]int, len(readers)) // of members, by place: those with the same root share workers
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	first := map[timeline.GID]int{} // who handed something to a worker first
	for i := range readers {
		parent[i] = i
		for _, h := range hands[i] {
			if h.whom == timeline.NoG {
				continue
			}
			if other, known := first[h.whom]; known {
				parent[root(i)] = root(other)
			} else {
				first[h.whom] = i
			}
		}
	}
	by := map[int]*desk{}
	for i, g := range readers {
		k := by[root(i)]
		if k == nil {
			k = &desk{d: d, workers: map[timeline.GID]bool{}}
			by[root(i)], out = k, append(out, k)
		}
		k.readers = append(k.readers, g)
		k.hands = append(k.hands, hands[i]...)
	}
	for _, k := range out {
		k.order()
	}
	return out
}

// handsOfAll lists, for each of a group of readers, what it handed over.
func (d *finder) handsOfAll(gr *group) [][]hand {
	out := make([][]hand, len(gr.members))
	for i, g := range gr.members {
		out[i] = d.handsOf(g, gr.home)
	}
	return out
}

// handsOf lists what a reader handed over, but for what it answered itself.
func (d *finder) handsOf(g timeline.GID, home int32) []hand {
	ms := d.messages(g, home)
	out := make([]hand, 0, len(ms))
	for i, m := range ms {
		from, to := m.start, m.handed
		if i > 0 {
			from = max(from, ms[i-1].handed)
		}
		if i+1 == len(ms) {
			to = d.t.End
		} else if ms[i+1].start > to { // of another read
			to = ms[i+1].start
		}
		if !d.answersIn(g, home, from, to) {
			out = append(out, hand{message: m, reader: g, ran: d.ran(g, from, to)})
		}
	}
	return out
}

// answersIn reports whether g writes to a socket in a stretch of time, before it is home again.
func (d *finder) answersIn(g timeline.GID, home int32, from, to timeline.Time) bool {
	for _, s := range d.t.Gs[g].SegsFrom(d.segmentFrom(g, from)) {
		in := d.c.of(s.Stack)
		if s.Start >= to || s.Start > from && s.Kind == timeline.Waiting && in.key == home {
			return false
		}
		if s.Kind == timeline.Syscall && in.op == opWrite && in.client == 0 {
			return true
		}
	}
	return false
}

// order puts what was handed over in order of time, and notes to whom.
func (k *desk) order() {
	for _, h := range k.hands {
		if h.whom != timeline.NoG {
			k.workers[h.whom] = true
		}
	}
	slices.SortStableFunc(k.hands, func(a, b hand) int { return cmp.Or(cmp.Compare(a.handed, b.handed), cmp.Compare(a.reader, b.reader)) })
	ran := make([]timeline.Time, 0, len(k.hands))
	for _, h := range k.hands {
		ran = append(ran, h.ran)
	}
	if slices.Sort(ran); len(ran) > 0 {
		k.usual = ran[len(ran)/4]
	}
}

// further returns the queue to which the workers hand on.
func (k *desk) further() *desk {
	out := &desk{d: k.d, workers: map[timeline.GID]bool{}}
	stack := k.stack()
	k.assign(func(p piece, h hand) {
		m := message{start: h.start, handed: p.to, whom: timeline.NoG, byNet: h.byNet}
		ws := k.d.t.Gs[p.worker].Wakes()
		for i := sort.Search(len(ws), func(i int) bool { return ws[i].Time >= p.to }); i < len(ws) && ws[i].Time == p.to; i++ {
			if w := &ws[i]; !w.Birth() && k.d.h.of[w.Whom()] == k.next && k.d.atHome(w) {
				m.whom = w.Whom()
			}
		}
		out.hands = append(out.hands, hand{message: m, reader: p.worker, legs: h.through(p, stack)})
	})
	out.order()
	return out
}

// origin is who read the message.
func (h *hand) origin() timeline.GID {
	if len(h.legs) > 0 {
		return h.legs[0].G
	}
	return h.reader
}

// through returns the way of a message until a worker was done with it.
func (h *hand) through(p piece, stack gotrace.StackID) []leg {
	legs := slices.Clone(h.legs)
	if len(legs) == 0 {
		legs = append(legs, leg{Part{h.reader, h.start, max(h.start, h.handed)}, timeline.NoG, 0})
	}
	for i := range legs { // it may have been taken for another one
		legs[i].Start, legs[i].End = min(legs[i].Start, p.from), min(legs[i].End, p.from)
	}
	if handed := legs[len(legs)-1].End; handed < p.from {
		legs = append(legs, leg{Part{h.reader, handed, p.from}, p.worker, stack})
	}
	return append(legs, leg{Part{p.worker, p.from, p.to}, timeline.NoG, 0})
}

// play tells which messages the workers took from the queue and when, and reports whether it can.
func (k *desk) play() bool {
	workers := slices.Sorted(maps.Keys(k.workers))
	if len(workers) == 0 || slices.ContainsFunc(workers, func(w timeline.GID) bool { return k.d.h.home[w] == keyNone }) {
		return false
	}
	marks := k.marks()
	if marks == nil {
		return false
	}
	spells := k.worked(workers, marks)
	if !k.writers && k.next == nil && k.dropSilent(spells) {
		spells = k.worked(workers, marks)
	}
	until := timeline.Time(0)
	for _, h := range k.homes {
		until = max(until, h.end)
		k.until = append(k.until, until)
	}
	k.cut(spells)
	if !k.writers && k.next == nil && k.unanswered(spells) { // nothing says when those were taken
		k.pieces = slices.DeleteFunc(k.pieces, func(p piece) bool { return p.message < 0 })
		return len(k.pieces) > 0
	}
	queued, impossible, served := 0, 0, 0
	for _, p := range k.pieces {
		if p.message >= 0 {
			served++
			continue
		}
		queued++
		if k.idle(p.from) {
			impossible++
		}
	}
	switch few := float64(impossible) <= chanceQueued*float64(queued); {
	case few:
	case float64(impossible) <= fewExtra*float64(served): // an answer, or what a worker calls, in two parts
		k.pieces = slices.DeleteFunc(k.pieces, func(p piece) bool { return p.message < 0 && k.idle(p.from) })
		queued -= impossible
	default:
		if k.own = true; !k.fed() {
			return false
		}
	}
	least := leastTakenUp
	if k.next != nil {
		least = leastHandedUp
	}
	return float64(served+queued) >= least*float64(len(k.hands))
}

// worked lists the spells of all workers, and when they were at home.
func (k *desk) worked(workers []timeline.GID, marks map[timeline.GID][]timeline.Time) (out []spell) {
	type handing struct {
		whom timeline.GID
		at   timeline.Time
	}
	woken := map[handing]int{}
	for i, h := range k.hands {
		if h.whom != timeline.NoG {
			woken[handing{h.whom, h.handed}] = i
		}
	}
	k.homes = k.homes[:0]
	for _, w := range workers {
		out = k.spells(out, w, marks[w], func(at timeline.Time) int {
			if i, ok := woken[handing{w, at}]; ok {
				return i
			}
			return -1
		})
	}
	slices.SortStableFunc(k.homes, func(a, b stretch) int { return cmp.Compare(a.start, b.start) })
	return out
}

// dropSilent forgets readers whose messages want no answer, and reports whether there are any, and others.
func (k *desk) dropSilent(spells []spell) bool {
	called, answered := map[timeline.GID]int{}, map[timeline.GID]int{}
	for _, x := range spells {
		if x.hand >= 0 && !x.open {
			g := k.hands[x.hand].origin()
			if called[g]++; len(x.marks) > 0 {
				answered[g]++
			}
		}
	}
	silent := func(h hand) bool {
		g := h.origin()
		return called[g] >= leastQueued && float64(answered[g]) < chanceQueued*float64(called[g])
	}
	left := slices.DeleteFunc(slices.Clone(k.hands), silent)
	if len(left) == 0 || len(left) == len(k.hands) {
		return false
	}
	k.hands = left
	return true
}

// unanswered reports whether some of the messages for which workers were woken got no answer.
func (k *desk) unanswered(spells []spell) bool {
	none, all := 0, 0
	for _, x := range spells {
		if x.hand >= 0 && !x.open {
			if all++; len(x.marks) == 0 {
				none++
			}
		}
	}
	return float64(none) > chanceQueued*float64(all)
}

// fed reports whether messages came in for which nobody was woken, in most of the times in which workers seem to
// have taken any that waited for them alone: else they made several answers of one message.
func (k *desk) fed() bool {
	type stay struct {
		worker timeline.GID
		since  timeline.Time
	}
	fed, seen := 0, map[stay]bool{}
	for i := len(k.pieces) - 1; i >= 0; i-- { // the last one of a stay first
		p := k.pieces[i]
		at := stay{p.worker, p.since}
		if p.message >= 0 || seen[at] {
			continue
		}
		seen[at] = true
		for j := sort.Search(len(k.hands), func(j int) bool { return k.hands[j].handed >= p.since }); j < len(k.hands) && k.hands[j].handed <= p.from; j++ {
			if k.hands[j].whom == timeline.NoG {
				fed++
				break
			}
		}
	}
	return 2*fed > len(seen)
}

// called is for how many messages readers woke a worker.
func (k *desk) called() (n int) {
	for _, h := range k.hands {
		if h.whom != timeline.NoG {
			n++
		}
	}
	return n
}

// idle reports whether a worker was at home before an instant and still is.
func (k *desk) idle(at timeline.Time) bool {
	i := k.homeBefore(at)
	return i >= 0 && k.until[i] > at
}

// homeBefore returns which span at home began last before an instant, -1 if none did.
func (k *desk) homeBefore(at timeline.Time) int {
	return sort.Search(len(k.homes), func(i int) bool { return k.homes[i].start >= at }) - 1
}

// spell is a time between two waits of a worker at home; marks are when it was done with a message, or with a part
// of one. hand is what woke it, -1 if something else did; open if it lasts until the end of the trace.
type spell struct {
	worker     timeline.GID
	since, end timeline.Time
	hand       int
	marks      []timeline.Time
	open       bool
}

// spells appends those of a worker, and notes when it was at home. woken returns what woke it at an instant.
func (k *desk) spells(out []spell, w timeline.GID, marks []timeline.Time, woken func(timeline.Time) int) []spell {
	gr, home := &k.d.t.Gs[w], k.d.h.home[w]
	x := spell{worker: w, since: -1} // before it is home for the first time nothing is known
	m := 0
	leave := func(at timeline.Time) {
		first := m
		for m < len(marks) && marks[m] <= at {
			m++
		}
		if x.since >= 0 {
			x.end, x.marks = at, marks[first:m]
			out = append(out, x)
		}
	}
	for i, s := range gr.Waits() {
		if k.d.c.of(s.Stack).key != home {
			continue
		}
		leave(s.Start)
		end := s.End
		if x.since = end; i+1 >= gr.Len() {
			x.since, end = -1, k.d.t.End+1
		}
		k.homes = append(k.homes, stretch{s.Start, end})
		x.hand = woken(s.End)
	}
	x.open = !gr.Died
	leave(k.d.t.End)
	return out
}

// cut cuts spells into pieces, one for each message. A mark after the first one is of another message if messages
// wait there: readers hand over some for which nobody is woken. Else it is so only if since the queue was empty
// somebody read who ran long enough for several.
func (k *desk) cut(spells []spell) {
	k.came = make([]int32, len(k.hands)+1)
	for i, h := range k.hands {
		k.came[i+1] = k.came[i]
		if h.whom == timeline.NoG || k.longer(h) > k.usual {
			k.came[i+1]++
		}
	}
	waits := float64(len(k.hands)-k.called()) >= leastQuiet*float64(len(k.hands))
	per := k.marksPerMessage(spells)
	if waits && per == 0 {
		per = 1
	}
	for _, x := range spells {
		if x.open {
			if k.away = append(k.away, x.worker); x.hand >= 0 && len(x.marks) == 0 {
				k.hanging = append(k.hanging, piece{x.worker, x.since, k.d.t.End, x.hand, x.since})
			}
		}
		first := len(k.pieces)
		from, by, n := x.since, x.hand, 0
		for i, at := range x.marks {
			if x.hand < 0 && i == 0 { // of what else woke it
				from = at
				continue
			}
			n++
			last := len(k.pieces) - 1
			switch own := last >= first; {
			case own && !waits && (per == 0 || !k.waited(x.since, from)):
				k.pieces[last].to = at
			case n%max(per, 1) == 0 || !own && i == len(x.marks)-1:
				k.pieces = append(k.pieces, piece{x.worker, from, at, by, x.since})
				by = -1
			case own && i == len(x.marks)-1: // some parts of one are left
				k.pieces[last].to = at
			default:
				continue
			}
			from = at
		}
		if len(x.marks) == 0 && x.hand >= 0 && !x.open && (k.writers || k.next != nil) { // who got the answer was at work for another one
			k.pieces = append(k.pieces, piece{x.worker, x.since, x.end, x.hand, x.since})
		}
	}
	slices.SortStableFunc(k.pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.worker, b.worker))
	})
}

// waited reports whether a message may have waited at an instant, for a worker that left home at since.
func (k *desk) waited(since, at timeline.Time) bool {
	if !k.own {
		since = k.empty(at)
	}
	return k.cameIn(since, at)
}

// cameIn reports whether messages may have come in from one instant to another for which nobody was woken.
func (k *desk) cameIn(from, to timeline.Time) bool {
	return k.came[k.handsBefore(to+1)] > k.came[k.handsBefore(from)]
}

// handsBefore is how often readers handed over before an instant.
func (k *desk) handsBefore(at timeline.Time) int {
	return sort.Search(len(k.hands), func(i int) bool { return k.hands[i].handed >= at })
}

// marksPerMessage is how many marks a worker makes for each message: as many as it nearly always makes where no other
// can have waited; one, if that is hardly ever so, and 0 if it is not always as many.
func (k *desk) marksPerMessage(spells []spell) int {
	counts, all := map[int]int{}, 0
	for _, x := range spells {
		if x.hand >= 0 && len(x.marks) > 0 && !x.open && !k.cameIn(x.since, x.end) {
			all++
			counts[len(x.marks)]++
		}
	}
	if all < leastQueued {
		return 1
	}
	for n, times := range counts {
		if float64(times) > (1-chanceQueued)*float64(all) {
			return n
		}
	}
	return 0
}

// marks returns when each worker was done with each message that it took, nil if that is not seen: when it
// wrote the answer, or handed it to who writes, or the end of what else it does once for each.
func (k *desk) marks() map[timeline.GID][]timeline.Time {
	answers, calls := map[timeline.GID][]timeline.Time{}, map[timeline.GID][]timeline.Time{}
	hands := map[timeline.GID][]timeline.Time{}
	na, nc, nh := 0, 0, 0
	for w := range k.workers {
		answers[w], calls[w] = k.d.done(w)
		hands[w] = k.d.passedOn(w)
		na, nc, nh = na+len(answers[w]), nc+len(calls[w]), nh+len(hands[w])
	}
	best, least := answers, leastHandedOn*float64(k.called())
	if na == 0 || float64(na) < least {
		if k.writers = float64(nh) >= least; !k.writers {
			if hands, nh = k.handsOn(); k.next == nil || float64(nh) < least {
				return nil // nobody answers
			}
		}
		if best = hands; nc > nh && k.oneEach(calls, hands) {
			best = calls
		} else {
			nc = 0
		}
	}
	if (k.writers || k.next != nil) && nc > nh {
		for w, all := range best { // it hands on a little later
			for i := range all {
				j := sort.Search(len(hands[w]), func(j int) bool { return hands[w][j] >= all[i] })
				if j < len(hands[w]) && (i+1 == len(all) || hands[w][j] < all[i+1]) {
					all[i] = hands[w][j]
				}
			}
		}
	}
	return best
}

// oneEach reports whether workers make one call for each message: where readers handed over once while a worker was
// at work, and it handed on once.
func (k *desk) oneEach(calls, hands map[timeline.GID][]timeline.Time) bool {
	one, all := 0, 0
	for w := range k.workers {
		c, h, since := 0, 0, timeline.Time(-1)
		until := func(ts []timeline.Time, i *int, at timeline.Time) (n int) {
			for ; *i < len(ts) && ts[*i] <= at; *i++ {
				n++
			}
			return n
		}
		for _, s := range k.d.t.Gs[w].Waits() {
			if k.d.c.of(s.Stack).key != k.d.h.home[w] {
				continue
			}
			called, handed := until(calls[w], &c, s.Start), until(hands[w], &h, s.Start)
			if since >= 0 && handed == 1 && k.handsBefore(s.Start)-k.handsBefore(since) == 1 {
				if all++; called == 1 {
					one++
				}
			}
			since = s.End
		}
	}
	return all >= leastQueued && float64(one) > (1-chanceQueued)*float64(all)
}

// done returns the ends of what worker writes to a socket last before it is home, and of what it reads
// there from one: who reads after it has written has called somebody.
func (d *finder) done(worker timeline.GID) (answers, calls []timeline.Time) {
	gr, home := &d.t.Gs[worker], d.h.home[worker]
	votes, last := map[int32]int{}, int32(0)
	reads := map[int32]int{}
	read := int32(0)
	for _, s := range gr.Blocked() {
		switch in := d.c.of(s.Stack); {
		case in.key == home:
			if last != 0 {
				votes[last]++
			} else if read != 0 {
				reads[read]++
			}
			last, read = 0, 0
		case in.op == opWrite && in.client == 0:
			last, read = in.key, 0
		case in.op == opRead || s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNetwork:
			last, read = 0, in.key
		}
	}
	answer, asks := most(votes), most(reads)
	if votes[answer] < reads[asks] {
		answer = 0
	}
	wrote := timeline.Time(-1) // and has not read since
	commit := func() {
		if wrote >= 0 {
			answers = append(answers, wrote)
		}
		wrote = -1
	}
	full := false // the socket was, and what was being written goes on
	for i, s := range gr.Blocked() {
		in := d.c.of(s.Stack)
		switch call := s.Kind == timeline.Syscall; {
		case in.key == home:
			commit()
		case i+1 >= gr.Len(): // not over
		case in.op == opWrite && in.client == 0:
			if !full && call {
				commit()
			}
			if full = !call; in.key == answer && call {
				wrote = s.End
			}
		case in.op == opRead || s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNetwork:
			wrote = -1
			if in.key == asks && answer == 0 && !(call && (d.wouldBlock(gr, i, asks) || d.followsWait(gr, i, asks))) {
				calls = append(calls, s.End)
			}
		}
	}
	return answers, calls
}

// followsWait reports whether segment i, a read, takes what the wait before it was for.
func (d *finder) followsWait(gr *timeline.Goroutine, i int, key int32) bool {
	for i--; i >= 0; i-- {
		switch s := gr.Seg(i); s.Kind {
		case timeline.Waiting:
			return byNetwork(s) && d.c.of(s.Stack).key == key
		case timeline.Syscall:
			return false
		}
	}
	return false
}

func most(votes map[int32]int) (best int32) {
	for key, n := range votes {
		if n > votes[best] || n == votes[best] && key < best {
			best = key
		}
	}
	return best
}

// passedOn returns when worker woke a writer out of his home who then wrote to a socket.
func (d *finder) passedOn(worker timeline.GID) (at []timeline.Time) {
	last := timeline.Time(0)
	for i := range d.t.Gs[worker].Wakes() {
		w := &d.t.Gs[worker].Wakes()[i]
		if w.Birth() || !d.writesFor(worker, w.Whom()) || !d.atHome(w) {
			continue
		}
		if _, ok := d.firstWrite(w.Whom(), w.Time); !ok {
			continue
		}
		if n := len(at) - 1; n >= 0 && d.atOnce(worker, last, w.Time) {
			at[n], last = w.Time, w.Time // it is for several
			continue
		}
		at, last = append(at, w.Time), w.Time
	}
	return at
}

// mostAtOnce is how soon after each other a goroutine wakes all to whom one message, or answer, goes.
const mostAtOnce timeline.Time = 20e3

// atOnce reports whether between two instants, soon after each other, g neither waits nor calls the system.
func (d *finder) atOnce(g timeline.GID, from, to timeline.Time) bool {
	gr := &d.t.Gs[g]
	return to-from <= mostAtOnce && gr.SegmentAt(from+1) == gr.SegmentAt(to)
}

// handsOn returns when each worker woke one of those out of their homes whom the workers wake most, and who
// belong to no library.
func (k *desk) handsOn() (at map[timeline.GID][]timeline.Time, n int) {
	votes := map[*root]int{}
	each := func(do func(g timeline.GID, w *timeline.Wake, to *root)) {
		for g := range k.workers {
			ws := k.d.t.Gs[g].Wakes()
			for i := range ws {
				if to := k.d.h.of[ws[i].Whom()]; to != nil && to != k.d.h.of[g] && !serves(to.name) && !ws[i].Birth() && k.d.atHome(&ws[i]) {
					do(g, &ws[i], to)
				}
			}
		}
	}
	each(func(_ timeline.GID, _ *timeline.Wake, to *root) { votes[to]++ })
	for to, n := range votes {
		if k.next == nil || n > votes[k.next] || n == votes[k.next] && to.name < k.next.name {
			k.next = to
		}
	}
	at = map[timeline.GID][]timeline.Time{}
	each(func(g timeline.GID, w *timeline.Wake, to *root) {
		if to == k.next {
			at[g] = append(at[g], w.Time)
			n++
		}
	})
	return at, n
}

// writes is what a goroutine writes to sockets.
type writes uint8

const (
	noAnswers   writes = iota
	someAnswers        // what it writes last before it is home, and does not read what comes back
	onlyWrites         // the same, and it reads from no socket
)

// writesOf tells what a goroutine writes to sockets.
func (d *finder) writesOf(g timeline.GID) writes {
	is, known := d.writes[g]
	if known || d.h.of[g] == nil || d.h.home[g] == keyNone {
		return is
	}
	if done, _ := d.done(g); len(done) > 0 {
		is = onlyWrites
		for _, s := range d.t.Gs[g].Blocked() {
			if in := d.c.of(s.Stack); in.op == opRead || s.Reason == timeline.ReasonNetwork && in.op != opWrite {
				is = someAnswers
				break
			}
		}
	}
	d.writes[g] = is
	return is
}

// writesFor reports whether a goroutine may write answers for a worker.
func (d *finder) writesFor(worker, g timeline.GID) bool {
	return d.h.of[g] != d.h.of[worker] && d.writesOf(g) == onlyWrites
}

// requests adds the requests of a queue that was played.
func (k *desk) requests(role int) {
	d := k.d
	type served struct {
		piece
		hand
	}
	var all []served
	votes := map[[2]timeline.GID]int{} // of readers for writers
	k.assign(func(p piece, h hand) {
		all = append(all, served{p, h})
		if to, _, ok := d.passesAt(p.worker, p.to); k.writers && ok {
			votes[[2]timeline.GID{h.origin(), to}]++
		}
	})
	writers := d.elect(votes)
	stack := k.stack()
	parts := func(p piece, h hand) (out []Part) {
		for _, l := range h.through(p, stack) {
			if d.carried[l.G] = true; l.waker != timeline.NoG {
				l.G = d.t.Await(l.G, l.waker, l.stack, l.Start, l.End)
			}
			out = append(out, l.Part)
		}
		return out
	}
	examine := func(p piece) evidence { return d.examine(p.worker, d.segmentFrom(p.worker, p.from), p.from, p.to) }
	for _, x := range all {
		p, h := x.piece, x.hand
		all := parts(p, h)
		if k.writers {
			to, end, ok := d.passesAt(p.worker, p.to)
			got := p.to
			if !ok {
				if to, ok = writers[h.origin()]; ok {
					got, end, ok = d.answeredBy(to, p)
				}
			}
			if ok {
				d.carried[to] = true
				if got > p.to { // the worker kept it
					all = append(all, Part{d.t.Await(p.worker, timeline.NoG, d.stackOf(p.worker, got), p.to, got), p.to, got})
				}
				all = append(all, Part{to, got, end})
			}
		}
		d.add(role, Request{ByNetwork: h.byNet, Parts: d.parts(all...)}, examine(p))
	}
	for _, p := range k.stuck() {
		h := k.hands[p.message]
		d.add(role, Request{ByNetwork: h.byNet, Parts: d.parts(parts(p, h)...), InFlight: true}, examine(p))
	}
}

// elect elects, for each reader, whom the workers wake most when they are done with what it read. Who is
// so for one reader, where there are others, writes answers, and so does who is busy with writing to a client
// all the time, and of the same kind.
func (d *finder) elect(votes map[[2]timeline.GID]int) map[timeline.GID]timeline.GID {
	out, most := map[timeline.GID]timeline.GID{}, map[timeline.GID]int{}
	for pair, n := range votes {
		if g := pair[0]; n > most[g] || n == most[g] && pair[1] < out[g] {
			out[g], most[g] = pair[1], n
		}
	}
	readers := map[timeline.GID]int{}
	for _, w := range out {
		readers[w]++
	}
	type kind struct {
		root *root
		home int32
	}
	kinds := map[kind]bool{}
	for w, n := range readers {
		if r := d.h.of[w]; r != nil && n == 1 && len(readers) > 1 {
			kinds[kind{r, d.h.home[w]}] = true
		}
	}
	if len(kinds) > 0 {
		for g, r := range d.h.of {
			if kinds[kind{r, d.h.home[g]}] {
				d.answering[timeline.GID(g)] = true
			}
		}
	}
	return out
}

// stuck returns the messages that nobody was done with when the trace ended: those that workers had, and, if all
// were at work, those in front of them that came in since one was at home last and were not taken, as far as
// each can be told.
func (k *desk) stuck() (out []piece) {
	out = append(out, k.hanging...)
	if k.own || len(k.away) < len(k.workers) {
		return out
	}
	since := k.empty(k.d.t.End + 1)
	first := k.handsBefore(since)
	taken := len(k.hanging)
	for _, p := range k.pieces {
		if p.from >= since {
			taken++
		}
	}
	for i := max(first, first+taken); i < len(k.hands); i++ {
		if h := k.hands[i]; h.whom == timeline.NoG {
			out = append(out, piece{k.away[0], h.handed, k.d.t.End, i, h.handed})
		}
	}
	return out
}

// passesAt returns whom worker woke at an instant, and when he has written.
func (d *finder) passesAt(worker timeline.GID, at timeline.Time) (whom timeline.GID, end timeline.Time, ok bool) {
	ws := d.t.Gs[worker].Wakes()
	for i := sort.Search(len(ws), func(i int) bool { return ws[i].Time >= at }); i < len(ws) && ws[i].Time == at; i++ {
		if end, ok := d.firstWrite(ws[i].Whom(), at); ok && d.writesFor(worker, ws[i].Whom()) {
			return ws[i].Whom(), end, true
		}
	}
	return timeline.NoG, 0, false
}

// answeredBy returns when a writer got the answer, and wrote it, if he did not have to be woken for it or had waited
// since before the trace: he was busy, or the worker kept the answer until a timer of its own went off.
func (d *finder) answeredBy(writer timeline.GID, p piece) (got, end timeline.Time, ok bool) {
	gr := &d.t.Gs[writer]
	for i, n := gr.SegmentAt(p.to+1), 0; i < gr.Len() && n < maxLook; i, n = i+1, n+1 {
		s := gr.Seg(i)
		switch idle := s.Kind == timeline.Waiting && d.c.of(s.Stack).op != opWrite; {
		case n == 0 && !idle:
			end, ok = d.firstWrite(writer, p.to)
			return p.to, end, ok
		case idle && s.Waker == p.worker && d.onTime(p.worker, s.End):
			end, ok = d.firstWrite(writer, s.End)
			return s.End, end, ok
		}
	}
	return 0, 0, false
}

// stackOf returns where g woke somebody at an instant, 0 if it did not.
func (d *finder) stackOf(g timeline.GID, at timeline.Time) gotrace.StackID {
	ws := d.t.Gs[g].Wakes()
	if i := sort.Search(len(ws), func(i int) bool { return ws[i].Time >= at }); i < len(ws) && ws[i].Time == at {
		return ws[i].Stack
	}
	return 0
}

// onTime reports whether what a worker does at an instant it does because a timer took it from home.
func (d *finder) onTime(worker timeline.GID, at timeline.Time) bool {
	gr := &d.t.Gs[worker]
	for i, n := gr.WaitBefore(gr.SegmentAt(at)), 0; i >= 0 && n < maxLook; i, n = gr.WaitBefore(i), n+1 {
		if s := gr.Seg(i); d.c.of(s.Stack).key == d.h.home[worker] {
			return s.Waker == timeline.NoG && s.Reason != timeline.ReasonNetwork
		}
	}
	return false
}

// stack is where the readers hand over.
func (k *desk) stack() gotrace.StackID {
	votes, best := map[gotrace.StackID]int{}, gotrace.StackID(0)
	for _, h := range k.hands {
		if h.whom == timeline.NoG {
			continue
		}
		ws := k.d.t.Gs[h.reader].Wakes()
		for i := sort.Search(len(ws), func(i int) bool { return ws[i].Time >= h.handed }); i < len(ws) && ws[i].Time == h.handed; i++ {
			if ws[i].Whom() == h.whom {
				votes[ws[i].Stack]++
			}
		}
	}
	for s, n := range votes {
		if n > votes[best] || n == votes[best] && s < best {
			best = s
		}
	}
	return best
}

// assign tells for each piece which message it was for. Those for which nobody was woken were in the
// queue: they were taken in the order in which they came in, since the last time when a worker was home. One
// read brings at least one message, if nobody was woken for what it brought; how many more each brought is
// not known, and they are taken to be as many as the reader ran longer than it does for one.
func (k *desk) assign(do func(p piece, h hand)) {
	var waited []piece
	for _, p := range k.pieces {
		if p.message >= 0 {
			do(p, k.hands[p.message])
		} else {
			if !k.own {
				p.since = k.empty(p.from)
			}
			waited = append(waited, p)
		}
	}
	if k.own {
		slices.SortStableFunc(waited, func(a, b piece) int { return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.from, b.from)) })
	}
	for i, n := 0, 0; i < len(waited); i = n {
		same := func(p piece) bool { return p.since == waited[i].since && (!k.own || p.worker == waited[i].worker) }
		for n = i; n < len(waited) && same(waited[n]); n++ {
		}
		if waited[i].since >= 0 {
			k.spread(waited[i:n], do)
		}
	}
}

// spread is assign for the messages that were taken from a queue since it was empty last.
func (k *desk) spread(ps []piece, do func(p piece, h hand)) {
	first := sort.Search(len(k.hands), func(i int) bool { return k.hands[i].handed >= ps[0].since })
	last := sort.Search(len(k.hands), func(i int) bool { return k.hands[i].handed > ps[len(ps)-1].from })
	hs := k.hands[first:last]
	if k.own {
		hs = slices.DeleteFunc(slices.Clone(hs), func(h hand) bool { return h.whom != timeline.NoG && h.whom != ps[0].worker })
	}
	if len(hs) == 0 {
		return
	}
	alone, longer := 0, timeline.Time(0)
	for _, h := range hs {
		if h.whom == timeline.NoG {
			alone++
		}
		longer += k.longer(h)
	}
	more, one := float64(max(0, len(ps)-alone)), float64(min(alone, len(ps)))/float64(max(alone, 1))
	room := func(h hand) (n float64) {
		if h.whom == timeline.NoG {
			n = one
		}
		if longer == 0 {
			return n + more/float64(len(hs))
		}
		return n + more*float64(k.longer(h))/float64(longer)
	}
	at, sum := 0, room(hs[0])
	for i, p := range ps {
		for at+1 < len(hs) && float64(i)+0.5 > sum {
			at++
			sum += room(hs[at])
		}
		came := sort.Search(len(hs), func(j int) bool { return hs[j].handed > p.from }) - 1
		do(p, hs[max(0, min(at, came))])
	}
}

// mostLonger bounds how many times as long as usual a read may seem to have brought messages: who ran much
// longer was not on a CPU.
const mostLonger = 4

// longer returns for how much longer than usual a reader ran.
func (k *desk) longer(h hand) timeline.Time { return min(max(0, h.ran-k.usual), mostLonger*k.usual) }

// ran returns for how long g ran in a stretch of time before it was home again.
func (d *finder) ran(g timeline.GID, from, to timeline.Time) (sum timeline.Time) {
	for _, s := range d.t.Gs[g].SegsFrom(d.segmentFrom(g, from)) {
		if s.Start >= to {
			break
		}
		if s.Kind == timeline.Running {
			sum += min(s.End, to) - max(s.Start, from)
		}
	}
	return sum
}

// empty returns when the queue was last seen to be empty before an instant, a negative time if never.
func (k *desk) empty(at timeline.Time) timeline.Time {
	if i := k.homeBefore(at); i >= 0 {
		return k.homes[i].start
	}
	return -1
}
