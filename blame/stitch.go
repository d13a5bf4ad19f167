package blame

import (
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

// A connection whose two ends are goroutines of the same process is stitched: a
// wait for its reply is replaced by what the serving goroutine did meanwhile.
// Otherwise a wait for one's own server would be blamed on a peer.
//
// A trace has no descriptors, so the pair is proven by order in both directions:
// before the reader's wake-ups the last to write was the server, before the
// server's wake-ups the last to write was the client. With a remote peer the
// order is the other way round: between the write of a server's answer and the
// next reply from a dependency lies the client's own write. (Connections that
// goroutines of their own read and write for many: multiplex.go.)
const (
	// stitchWindow is how long before a wake-up a write is looked for when
	// candidates are collected; it limits the search, not the proof.
	stitchWindow = timeline.Time(5e6)
	// stitchWakes is how many wake-ups of each end a proof needs, stitchRatio the
	// part of them that must have the right order.
	stitchWakes = 10
	stitchRatio = 0.9
)

// Clients that take a connection from a pool, write and read it themselves, meet
// another server goroutine each time. There each wait is matched with a request
// that the process served meanwhile: begun just after the client's write, answered
// just before its wake-up. Nearly all waits at the site, and nearly all requests
// of the role, must find such a partner, and no request two.
const (
	// matchSlack bounds how far the ends may lie apart, matchPart says how far as
	// a part of the wait: short waits would match anything otherwise.
	matchSlack, matchPart = timeline.Time(1e6), 4
	matchLeast            = timeline.Time(30e3)
	matchRatio            = 0.8
)

// stitching is the in-process connections of a recording.
type stitching struct {
	// server is the goroutine that answers a reader.
	server map[timeline.GID]timeline.GID
	// served is the request, an index into request.Found.Requests, that a wait
	// was for.
	served map[waitID]int
	// replies are the calls, on multiplexed connections, that waits were for.
	replies map[waitID]reply
	// writer is who writes at the end of a multiplexed connection whose replies a
	// goroutine reads.
	writer map[timeline.GID]timeline.GID
	// writes are the starts of each goroutine's socket writes.
	writes times
	// looks counts the wake-ups looked at for multiplexed connections.
	looks int
}

// waitID is a segment of a goroutine.
type waitID struct {
	g   timeline.GID
	end timeline.Time
}

type write struct {
	at timeline.Time
	g  timeline.GID
}

// times are instants of each goroutine: those of g, in order, are at[first[g]:first[g+1]].
type times struct {
	first []int32
	at    []timeline.Time
}

func (t *times) of(g timeline.GID) []timeline.Time { return t.at[t.first[g]:t.first[g+1]] }

// end ends the instants of the next goroutine.
func (t *times) end() { t.first = append(t.first, int32(len(t.at))) }

// newTimes returns times to which those of n goroutines can be added, one after the other.
func newTimes(n int) times { return times{first: make([]int32, 1, n+1)} }

// stitch finds, if asked to, the in-process connections.
func (a *Attribution) stitch(v *survey, find bool) *stitching {
	s := &stitching{server: map[timeline.GID]timeline.GID{}, writes: v.writes, served: map[waitID]int{}, replies: map[waitID]reply{}, writer: map[timeline.GID]timeline.GID{}}
	wakes := &v.wakes
	if !find {
		return s
	}
	all := make([]write, 0, len(s.writes.at))
	for g := range a.t.Gs {
		for _, at := range s.writes.of(timeline.GID(g)) {
			all = append(all, write{at, timeline.GID(g)})
		}
	}
	all = inOrder(all, func(w *write) timeline.Time { return w.at })
	nearest := map[timeline.GID]timeline.GID{}
	count := make([]int32, len(a.t.Gs))
	for g := range a.t.Gs {
		if ws := wakes.of(timeline.GID(g)); len(ws) >= stitchWakes {
			nearest[timeline.GID(g)] = nearestWriter(timeline.GID(g), ws, all, count)
		}
	}
	for r, server := range nearest {
		if server == timeline.NoG || !a.f.Entry(server) {
			continue
		}
		client, ok := nearest[server]
		if !ok || client == timeline.NoG {
			continue
		}
		if s.ordered(wakes.of(r), server, client) && s.ordered(wakes.of(server), client, server) {
			s.server[r] = server
		}
	}
	a.match(s)
	a.multiplexed(s, v)
	return s
}

// match finds waits for requests that the process served itself.
func (a *Attribution) match(s *stitching) {
	type pair struct {
		site SiteID
		role int
	}
	type begun struct {
		at      timeline.Time
		request int
	}
	byStart := make([]begun, 0, len(a.f.Requests))
	for i := range a.f.Requests {
		if !a.f.Requests[i].InFlight {
			byStart = append(byStart, begun{a.f.Requests[i].Start(), i})
		}
	}
	byStart = inOrder(byStart, func(b *begun) timeline.Time { return b.at })
	waits := map[SiteID]int{}
	matched := map[pair]map[waitID]int{}
	taken := map[int]bool{}
	for i := range a.f.Requests {
		own := &a.f.Requests[i]
		for _, p := range own.Parts {
			me := &a.t.Gs[p.G]
			for _, x := range me.SegsFrom(me.SegmentAt(p.Start + 1)) {
				if x.Start >= p.End {
					break
				}
				if x.Kind != timeline.Waiting || x.Reason != timeline.ReasonNetwork || x.Waker != timeline.NoG {
					continue
				}
				site := a.siteOf(x.Stack)
				waits[site]++
				wrote := s.lastWrite(p.G, x.Start)
				if wrote < p.Start {
					continue
				}
				slack := max(matchLeast, min(matchSlack, (x.End-wrote)/matchPart))
				for j := sort.Search(len(byStart), func(j int) bool { return byStart[j].at >= wrote }); j < len(byStart) && byStart[j].at <= wrote+slack; j++ {
					q := byStart[j].request
					r := &a.f.Requests[q]
					if r.Role == own.Role || taken[q] || r.End() < x.End-slack || r.End() > x.End+slack {
						continue
					}
					taken[q] = true
					id := pair{site, r.Role}
					if matched[id] == nil {
						matched[id] = map[waitID]int{}
					}
					matched[id][waitID{p.G, x.End}] = q
					break
				}
			}
		}
	}
	served := map[int]int{} // matched requests by role
	for id, m := range matched {
		served[id.role] += len(m)
	}
	for id, m := range matched {
		if len(m) < stitchWakes || float64(len(m)) < matchRatio*float64(waits[id.site]) || float64(served[id.role]) < matchRatio*float64(a.f.Roles[id.role].Count) {
			continue
		}
		for w, q := range m {
			s.served[w] = q
		}
	}
}

// nearestWriter returns the goroutine that most often is the last other one to
// write before g's wake-ups. count is scratch space, by goroutine, zero before and after.
func nearestWriter(g timeline.GID, wakes []timeline.Time, all []write, count []int32) timeline.GID {
	var writers []timeline.GID
	for _, w := range wakes {
		var near [16]timeline.GID
		n := 0
		for i := sort.Search(len(all), func(i int) bool { return all[i].at > w }) - 1; i >= 0 && all[i].at > w-stitchWindow && n < len(near); i-- {
			x := all[i].g
			if x == g || slices.Contains(near[:n], x) {
				continue
			}
			near[n] = x
			n++
			if count[x] == 0 {
				writers = append(writers, x)
			}
			count[x]++
		}
	}
	best, most := timeline.NoG, int32(0)
	for _, x := range writers {
		if n := count[x]; n > most || n == most && x < best {
			best, most = x, n
		}
		count[x] = 0
	}
	if float64(most) < stitchRatio*float64(len(wakes)) {
		return timeline.NoG
	}
	return best
}

// ordered reports whether before nearly all wakes the last of the two to write was last.
func (s *stitching) ordered(wakes []timeline.Time, last, other timeline.GID) bool {
	n := 0
	for _, w := range wakes {
		if s.lastWrite(last, w) > s.lastWrite(other, w) {
			n++
		}
	}
	return float64(n) >= stitchRatio*float64(len(wakes))
}

// lastWrite returns when g last began to write before an instant, 0 if never.
func (s *stitching) lastWrite(g timeline.GID, before timeline.Time) timeline.Time {
	ws := s.writes.of(g)
	i := sort.Search(len(ws), func(i int) bool { return ws[i] >= before }) - 1
	if i < 0 {
		return 0
	}
	return ws[i]
}

// Caller returns the role whose requests waited, on connections within the process,
// for nearly all requests of a role; -1 if there is none.
func (a *Attribution) Caller(role int) int {
	if a.callers == nil {
		a.callers = a.findCallers()
	}
	return a.callers[role]
}

// findCallers returns the caller of each role. A request counts once, however many
// waits were for it and in whatever way they are known; if requests of several roles
// waited for it, the first role counts.
func (a *Attribution) findCallers() []int {
	of := make([]int, len(a.f.Requests)) // the role that called a request
	for i := range of {
		of[i] = -1
	}
	called := func(request int, waiter timeline.GID, at timeline.Time) {
		by := a.f.RequestAt(waiter, at)
		if by < 0 || a.f.Requests[by].Role == a.f.Requests[request].Role {
			return
		}
		if role := a.f.Requests[by].Role; of[request] < 0 || role < of[request] {
			of[request] = role
		}
	}
	for w, r := range a.stitched.replies {
		called(r.request, w.g, w.end)
	}
	for w, request := range a.stitched.served {
		called(request, w.g, w.end)
	}
	clients := map[timeline.GID][]timeline.GID{}
	for client, server := range a.stitched.server {
		clients[server] = append(clients[server], client)
	}
	for i := range a.f.Requests {
		for _, client := range clients[a.f.Requests[i].Parts[0].G] {
			called(i, client, a.f.Requests[i].End())
		}
	}
	type call struct{ from, to int }
	n := map[call]int{}
	for i, by := range of {
		if r := &a.f.Requests[i]; by >= 0 && !r.InFlight {
			n[call{by, r.Role}]++
		}
	}
	callers := make([]int, len(a.f.Roles))
	for role := range callers {
		callers[role] = -1
	}
	for c, k := range n {
		if float64(k) < matchRatio*float64(a.f.Roles[c.to].Count) {
			continue
		}
		if by := callers[c.to]; by < 0 || k > n[call{by, c.to}] || k == n[call{by, c.to}] && c.from < by {
			callers[c.to] = c.from
		}
	}
	return callers
}
