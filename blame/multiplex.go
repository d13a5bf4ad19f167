package blame

import (
	"cmp"
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// A multiplexed connection carries the calls of many goroutines at a time. At
// each end one goroutine reads and another one writes: a caller hands its call to
// its end's writer and waits until its end's reader wakes it; at the other end the
// reader hands the call to a handler, which hands its reply to the writer there
// (HTTP/2 in grpc-go works so, and most protocols with streams).
//
// That both ends are in this process is proven in both directions, as for plain
// connections: each reader's wake-ups come just after a write of the other end's
// writer, and after its own end's writer wrote last. Two connections of a proxy
// have the opposite order, and their readers wake at any time after such writes.
//
// Which call a wait was for is proven by what order allows: its handler got it
// after the caller had handed it over and before the reader had read all that was
// written then, and replied so that the caller's reader found the reply when it
// woke the caller. Calls begin in the order in which they are sent, so of several
// such handlers each caller gets the first.
const (
	// muxWakes is how many wake-ups of each reader a proof needs.
	muxWakes = 20
	// muxChance bounds the part of the time that lies so soon after a write of one
	// goroutine that a wake-up there counts as caused by it: wake-ups at random
	// would lie there as often.
	muxChance = 0.25
	// muxWindow bounds how soon that is: a socket of the same machine becomes
	// readable, and an idle P notices, within tens of microseconds.
	muxWindow = timeline.Time(1e6)
	// maxRead bounds how many segments of a reader are searched for its waits; one
	// that reads so much without waiting is not followed.
	maxRead = 4096
	// maxEnds bounds the ends of either kind that are tried with each other: the
	// busiest. A process has few connections with itself.
	maxEnds = 128
	// muxTried is how many servers are tried with a client: those whose writers led
	// a sample of muxSample of its wake-ups most closely. At a wake-up the muxNear
	// that wrote last count: a machine has few Ps to write on meanwhile.
	muxTried, muxSample, muxNear = 8, 64, 16
	// maxLooks bounds the wake-ups that all proofs together look at, to a second or
	// two. A true connection needs each of its wake-ups once.
	maxLooks = 1 << 23
)

// end is one end of a multiplexed connection.
type end struct{ reader, writer timeline.GID }

// server is an end at which calls are served, in the order in which they began.
type server struct {
	end
	calls []call
}

// call is a request from its reader's handing it over to its reply.
type call struct {
	request int // index into request.Found.Requests
	begun   timeline.Time
	handler timeline.GID
	// The reply was handed to the writer not before ready, and by put; the writer
	// wrote it by wrote.
	ready, put, wrote timeline.Time
}

// client is an end from which calls are made, with the waits for their replies in
// order of their ends.
type client struct {
	end
	waits []replyWait
}

// replyWait is a wait that a client's reader ended.
type replyWait struct {
	g   timeline.GID
	seg int
}

// reply is how a wait for a multiplexed call is explained: reader had the call
// until begun, handler until put, the end's writer until wrote.
type reply struct {
	call
	end
}

// multiplexed finds who writes for whom at the ends from which calls are made, and the
// waits for calls that the process served itself, on multiplexed connections.
func (a *Attribution) multiplexed(s *stitching, v *survey) {
	wakes := &v.wakes
	servers := a.servers(s, wakes)
	clients := a.clients(s, v, servers)
	for _, c := range clients {
		s.writer[c.reader] = c.writer
	}
	if len(servers) == 0 {
		return
	}
	var all []write
	for _, r := range servers {
		for _, at := range s.writes.of(r.writer) {
			all = append(all, write{at, r.writer})
		}
	}
	slices.SortFunc(all, func(x, y write) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.g, y.g)) })
	polled := make([][]polledWake, len(servers))
	for i := range servers {
		polled[i] = a.polled(wakes.of(servers[i].reader))
	}
	for i := range clients {
		c := &clients[i]
		woken := a.polled(wakes.of(c.reader))
		for _, j := range a.leading(s, woken, all, servers) {
			r := &servers[j]
			if a.driven(s, woken, r.writer, c.writer) && a.driven(s, polled[j], c.writer, r.writer) {
				a.pairCalls(s, c, r)
				break
			}
		}
	}
}

// polledWake is a wake-up by the network, gap after the network was last known to
// be polled.
type polledWake struct{ at, gap timeline.Time }

// polled returns the wake-ups that may say what caused them; nil if they prove
// nothing, as on a machine that never has the time to poll.
func (a *Attribution) polled(wakes []timeline.Time) []polledWake {
	var out []polledWake
	for _, w := range wakes {
		if gap := w - a.t.LastPoll(0, w); gap <= max(muxWindow, timeline.PollBatch) {
			out = append(out, polledWake{w, gap})
		}
	}
	if len(out) < muxWakes {
		return nil
	}
	return out
}

// leading returns the servers, in order, whose writers wrote most closely before a
// sample of wake-ups; all are the writes of their writers.
func (a *Attribution) leading(s *stitching, wakes []polledWake, all []write, servers []server) []int {
	close := map[timeline.GID]int{}
	for n, step := 0, max(1, len(wakes)/muxSample); n < len(wakes); n += step {
		w := wakes[n].at
		near := make([]timeline.GID, 0, muxNear)
		for i := sort.Search(len(all), func(i int) bool { return all[i].at >= w }) - 1; i >= 0 && all[i].at >= w-muxWindow && len(near) < muxNear; i-- {
			if x := all[i]; w-x.at <= a.muxWindow(s, x.g) && !slices.Contains(near, x.g) {
				close[x.g] += muxNear - len(near)
				near = append(near, x.g)
			}
		}
	}
	var out []int
	for j := range servers {
		if close[servers[j].writer] > 0 {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(x, y int) int { return cmp.Compare(close[servers[y].writer], close[servers[x].writer]) })
	out = out[:min(len(out), muxTried)]
	slices.Sort(out)
	return out
}

// muxWindow is how soon after a write of a goroutine a wake-up counts as caused by it.
func (a *Attribution) muxWindow(s *stitching, by timeline.GID) timeline.Time {
	return min(muxWindow, timeline.Time(muxChance*float64(a.t.Duration())/float64(len(s.writes.of(by)))))
}

// servers returns the ends at which requests are served: of those that were read
// by one goroutine and handled by another, and mostly answered by a third.
func (a *Attribution) servers(s *stitching, wakes *times) []server {
	read := map[timeline.GID][]int{}
	for i := range a.f.Requests {
		r := &a.f.Requests[i]
		if n := len(r.Parts); !r.InFlight && n > 1 && r.Parts[0].G != r.Parts[n-1].G && len(wakes.of(r.Parts[0].G)) >= muxWakes {
			read[r.Parts[0].G] = append(read[r.Parts[0].G], i)
		}
	}
	var out []server
	for reader, requests := range read {
		votes := map[timeline.GID]int{}
		for _, i := range requests {
			if ps := a.f.Requests[i].Parts; len(ps) > 2 && len(s.writes.of(ps[len(ps)-1].G)) > 0 {
				votes[ps[len(ps)-1].G]++
			}
		}
		writer := elected(votes)
		if writer == timeline.NoG {
			continue
		}
		srv := server{end: end{reader, writer}}
		for _, i := range requests {
			srv.calls = append(srv.calls, a.call(s, i, writer))
		}
		slices.SortStableFunc(srv.calls, func(x, y call) int { return cmp.Compare(x.begun, y.begun) })
		out = append(out, srv)
	}
	slices.SortFunc(out, func(x, y server) int {
		return cmp.Or(cmp.Compare(len(y.calls), len(x.calls)), cmp.Compare(x.reader, y.reader))
	})
	return out[:min(len(out), maxEnds)]
}

// elected returns who has more than half of the votes and enough of them; NoG if
// nobody has.
func elected(votes map[timeline.GID]int) timeline.GID {
	best, most, all := timeline.NoG, 0, 0
	for g, n := range votes {
		all += n
		if n > most {
			best, most = g, n
		}
	}
	if most < stitchWakes || 2*most <= all {
		return timeline.NoG
	}
	return best
}

// call describes a request. If its handler did not have to wake the writer, it handed
// over its reply at any time since it last was blocked.
func (a *Attribution) call(s *stitching, i int, writer timeline.GID) call {
	ps := a.f.Requests[i].Parts
	last := ps[len(ps)-1]
	if last.G == writer {
		last = ps[len(ps)-2]
	}
	c := call{request: i, begun: ps[0].End, handler: last.G, ready: last.Start, put: last.End}
	c.wrote = a.written(s, writer, c.put)
	me := &a.t.Gs[c.handler]
	if first, _ := a.woke(c.handler, c.begun, c.put, writer); first != 0 {
		c.ready = first
		return c
	}
	for i := min(me.SegmentAt(c.put), me.Len()-1); i >= 0 && me.Seg(i).End > c.ready; i-- {
		if x := me.Seg(i); (x.Kind == timeline.Waiting || x.Kind == timeline.Syscall) && x.End <= c.put {
			c.ready = x.End
		}
	}
	return c
}

// written returns when a goroutine had written what it had at an instant: the end
// of its first write after that, or the end of the trace.
func (a *Attribution) written(s *stitching, writer timeline.GID, at timeline.Time) timeline.Time {
	ws := s.writes.of(writer)
	i := sort.Search(len(ws), func(i int) bool { return ws[i] >= at })
	if i == len(ws) {
		return a.t.End
	}
	me := &a.t.Gs[writer]
	k := me.SegmentAt(ws[i])
	for k < me.Len()-1 && (me.Seg(k).Start < ws[i] || me.Seg(k).Kind != timeline.Syscall) { // a write may take no time at all
		k++
	}
	return me.Seg(k).End
}

// woke returns when g first and last woke whom in [from, to]; 0 if it did not.
func (a *Attribution) woke(g timeline.GID, from, to timeline.Time, whom timeline.GID) (first, last timeline.Time) {
	a.eachWake(g, from, to, func(w *timeline.Wake) bool {
		if w.Whom() == whom {
			last = w.Time
			if first == 0 {
				first = last
			}
		}
		return true
	})
	return first, last
}

// clients returns the ends from which calls are made: readers that wake others out
// of waits that followed a call to the same writer.
func (a *Attribution) clients(s *stitching, v *survey, servers []server) []client {
	serves := map[timeline.GID]bool{}
	for _, r := range servers {
		serves[r.reader] = true
	}
	waits := map[timeline.GID][]replyWait{}
	woken := func(rs []release) {
		for _, r := range rs {
			if len(v.wakes.of(r.waker)) >= muxWakes && !serves[r.waker] {
				waits[r.waker] = append(waits[r.waker], replyWait{r.g, int(r.seg)})
			}
		}
	}
	for _, rs := range a.releases {
		woken(rs)
	}
	woken(v.cancelled.all())
	var out []client
	for r, ws := range waits {
		votes := map[timeline.GID]int{}
		for _, w := range ws {
			since, _ := a.waitedBefore(w)
			a.eachWake(w.g, since, a.t.Gs[w.g].Seg(w.seg).Start, func(x *timeline.Wake) bool {
				if x.Whom() != r && len(s.writes.of(x.Whom())) >= stitchWakes {
					votes[x.Whom()]++
				}
				return true
			})
		}
		writer := elected(votes)
		if writer == timeline.NoG {
			continue
		}
		ws = slices.DeleteFunc(ws, func(w replyWait) bool { return w.g == writer }) // not for a call: the reader has it send something
		slices.SortFunc(ws, func(x, y replyWait) int {
			return cmp.Or(cmp.Compare(a.t.Gs[x.g].Seg(x.seg).End, a.t.Gs[y.g].Seg(y.seg).End), cmp.Compare(x.g, y.g), cmp.Compare(x.seg, y.seg))
		})
		out = append(out, client{end{r, writer}, ws})
	}
	slices.SortFunc(out, func(x, y client) int {
		return cmp.Or(cmp.Compare(len(y.waits), len(x.waits)), cmp.Compare(x.reader, y.reader))
	})
	return out[:min(len(out), maxEnds)]
}

// waitedBefore returns when a goroutine's last wait before w ended, and who ended it; that is when it
// began, and NoG, if it has not waited before.
func (a *Attribution) waitedBefore(w replyWait) (timeline.Time, timeline.GID) {
	me := &a.t.Gs[w.g]
	if i := me.WaitBefore(w.seg); i >= 0 {
		s := me.Seg(i)
		return s.End, s.Waker
	}
	return me.Start(), timeline.NoG
}

// eachWake calls do with the goroutines that g woke in [from, to], in order, until
// it returns false.
func (a *Attribution) eachWake(g timeline.GID, from, to timeline.Time, do func(*timeline.Wake) bool) {
	ws := a.t.Gs[g].Wakes()
	for i := sort.Search(len(ws), func(i int) bool { return ws[i].Time >= from }); i < len(ws) && ws[i].Time <= to; i++ {
		if !ws[i].Birth() && !do(&ws[i]) {
			return
		}
	}
}

// unsent returns the writer that g's wait s for a reply waited for first, and until when:
// what it had for the peer was not written before. A writer that g has woken, or that
// was already ready to run and had not written since g last waited, writes it next. It
// is NoG where that is not known, and where the writer waited for something itself.
func (a *Attribution) unsent(g timeline.GID, s timeline.Segment) (writer timeline.GID, until timeline.Time) {
	writer, ok := a.stitched.writer[s.Waker]
	if !ok || writer == g {
		return timeline.NoG, 0
	}
	since, by := a.waitedBefore(replyWait{g, min(a.t.Gs[g].SegmentAt(s.Start+1), a.t.Gs[g].Len()-1)})
	me := &a.t.Gs[writer]
	sent, _ := a.woke(g, since, s.Start, writer)
	if sent == 0 {
		i := me.SegmentAt(s.Start + 1)
		if by == s.Waker || i >= me.Len() || me.Seg(i).Kind != timeline.Runnable || a.stitched.lastWrite(writer, s.Start) >= since {
			return timeline.NoG, 0
		}
		sent = s.Start
	}
	until = a.written(a.stitched, writer, sent)
	for i, n := me.SegmentAt(sent+1), 0; i < me.Len() && me.Seg(i).Start < until; i, n = i+1, n+1 {
		if me.Seg(i).Kind == timeline.Waiting || n > maxRead {
			return timeline.NoG, 0
		}
	}
	return writer, until
}

// streamRoots are functions that goroutines start at which a call over HTTP/2 gives birth to: they wait until they may open
// a stream, write the call, and stay until its end.
// Source: the named packages' own sources (Go 1.22 to 1.26 for the standard library).
var streamRoots = []string{
	"net/http.(*http2clientStream).doRequest",
	"net/http/internal/http2.(*clientStream).doRequest",
	"golang.org/x/net/http2.(*clientStream).doRequest",
}

// maxBorn bounds among how many goroutines that one woke last the stream of its call is looked for.
const maxBorn = 8

// unopened returns where the goroutine of the stream that g's wait s for a reply is for waited until fewer are open, or behind another one
// that did, and until when: what it had for the peer was not written before. site is 0 if it did not.
func (a *Attribution) unopened(g timeline.GID, s timeline.Segment) (site SiteID, until timeline.Time) {
	wakes := a.t.Gs[g].Wakes()
	i := sort.Search(len(wakes), func(i int) bool { return wakes[i].Time > s.Start })
	for n := 0; i > 0 && n < maxBorn; n++ {
		i--
		h := wakes[i].Whom()
		if !wakes[i].Birth() || !hasAny(a.t.Gs[h].Root(), streamRoots) {
			continue
		}
		me := &a.t.Gs[h]
		for k, n := me.SegmentAt(max(me.Start(), wakes[i].Time)), 0; k < me.Len() && n < maxRead; k, n = k+1, n+1 {
			x := me.Seg(k)
			if x.Kind == timeline.Syscall {
				break // it writes
			}
			if x.Kind != timeline.Waiting {
				continue
			}
			at := a.siteOf(x.Stack)
			if a.Sites[at].Kind != SitePermit {
				if at = a.openedBefore(x); at == 0 {
					break // it waits for the connection's writer, or for the answer
				}
			}
			site, until = at, x.End
		}
		return site, until
	}
	return 0, 0
}

// openedBefore returns where a stream waited until fewer were open that ended a wait of another one for its turn, 0 if it is no such.
func (a *Attribution) openedBefore(x timeline.Segment) SiteID {
	if x.Waker == timeline.NoG || x.Reason != timeline.ReasonSelect || !hasAny(a.t.Gs[x.Waker].Root(), streamRoots) {
		return 0
	}
	me := &a.t.Gs[x.Waker]
	for i, n := me.SegmentAt(x.End), 0; i >= 0 && n < maxBorn; i, n = i-1, n+1 {
		if i >= me.Len() {
			continue
		}
		if s := me.Seg(i); s.Kind == timeline.Waiting && s.Start < x.End {
			if at := a.siteOf(s.Stack); a.Sites[at].Kind == SitePermit {
				return at
			}
		}
	}
	return 0
}

// driven reports whether the writes of by end nearly all of a reader's waits: the
// wake-ups come soon after one, and other, the writer at the reader's own end, has
// not written since. Where the network was not polled all the time, a wake-up says
// nothing.
func (a *Attribution) driven(s *stitching, wakes []polledWake, by, other timeline.GID) bool {
	if by == other || len(s.writes.of(by)) == 0 {
		return false
	}
	window := a.muxWindow(s, by)
	seen, missed := 0, 0
	for i, w := range wakes {
		if s.looks++; s.looks > maxLooks || seen+len(wakes)-i < muxWakes {
			return false
		}
		if w.gap > max(window, timeline.PollBatch) {
			continue
		}
		seen++
		if wrote := s.lastWrite(by, w.at); w.at-wrote > window || wrote <= s.lastWrite(other, w.at) {
			missed++
			if float64(missed) > (1-stitchRatio)*float64(len(wakes)) {
				return false
			}
		}
	}
	return seen >= muxWakes && float64(missed) <= (1-stitchRatio)*float64(seen)
}

// demand is a wait of g for the reply to a call that g sent after at, and which the
// other end began by then. Where g sent nothing since it last waited for the same
// reader, before is that wait: it may be the same call.
type demand struct {
	g      timeline.GID
	wait   timeline.Segment
	at, by timeline.Time
	before waitID
}

// demands returns what a client's waits were for, in the order of sending.
func (a *Attribution) demands(s *stitching, c *client, reader timeline.GID) []demand {
	ds := make([]demand, 0, len(c.waits))
	for _, w := range c.waits {
		d := demand{g: w.g, wait: a.t.Gs[w.g].Seg(int(w.seg))}
		since, by := a.waitedBefore(w)
		if sent, _ := a.woke(w.g, since, d.wait.Start, c.writer); sent != 0 {
			d.at, d.by = sent, a.readBy(s, c.writer, reader, sent)
		} else { // the writer was awake, or nothing was sent
			d.at, d.by = since, a.readBy(s, c.writer, reader, d.wait.Start)
			if by == c.reader {
				d.before = waitID{w.g, since}
			}
		}
		ds = append(ds, d)
	}
	slices.SortStableFunc(ds, func(x, y demand) int { return cmp.Compare(x.at, y.at) })
	return ds
}

// pairCalls gives the waits of a client the calls of the server at the other end
// of its connection. If the server has many other calls, it has another client.
func (a *Attribution) pairCalls(s *stitching, c *client, r *server) {
	of := map[waitID]int{}
	taken := make([]bool, len(r.calls))
	matched := 0
	for _, d := range a.demands(s, c, r.reader) {
		since := a.unread(c.reader, d.wait.End)
		fits := func(k int) bool { return r.calls[k].ready <= d.wait.End && r.calls[k].wrote > since }
		me := waitID{d.g, d.wait.End}
		if k, ok := of[d.before]; ok && fits(k) {
			of[me] = k
			continue
		}
		for k := sort.Search(len(r.calls), func(k int) bool { return r.calls[k].begun >= d.at }); k < len(r.calls) && r.calls[k].begun <= d.by; k++ {
			if !taken[k] && fits(k) {
				taken[k], of[me] = true, k
				matched++
				break
			}
		}
	}
	if float64(matched) < matchRatio*float64(len(r.calls)) {
		return
	}
	for w, k := range of {
		x := reply{call: r.calls[k], end: r.end}
		x.put = min(x.put, w.end)
		if _, last := a.woke(x.handler, x.begun, w.end, r.writer); last != 0 {
			x.put = last
		}
		x.wrote = a.written(s, r.writer, x.put)
		s.replies[w] = x
	}
}

// readBy returns by when a reader had read what writer wrote first after an
// instant: when it began to wait for the second time after that. (What was written
// may become readable a little after the write returned.)
func (a *Attribution) readBy(s *stitching, writer, reader timeline.GID, at timeline.Time) timeline.Time {
	ws := s.writes.of(writer)
	i := sort.Search(len(ws), func(i int) bool { return ws[i] >= at })
	if i == len(ws) {
		return at
	}
	me := &a.t.Gs[reader]
	waits, k := 0, me.SegmentAt(ws[i])
	for n := 0; k < me.Len() && n < maxRead; k, n = k+1, n+1 {
		if x := me.Seg(k); x.Kind == timeline.Waiting && x.Reason == timeline.ReasonNetwork && x.Start > ws[i] {
			if waits++; waits == 2 {
				return x.Start
			}
		}
	}
	return me.Seg(min(k, me.Len()-1)).End
}

// unread returns since when what a reader found at an instant had been written: its
// last wait for the network before that had begun then.
func (a *Attribution) unread(reader timeline.GID, at timeline.Time) timeline.Time {
	me := &a.t.Gs[reader]
	i := min(me.SegmentAt(at), me.Len()-1)
	for n := 0; i > 0 && n < maxRead; i, n = i-1, n+1 {
		if x := me.Seg(i); x.Kind == timeline.Waiting && x.Reason == timeline.ReasonNetwork && x.End <= at {
			break
		}
	}
	return me.Seg(i).Start
}
