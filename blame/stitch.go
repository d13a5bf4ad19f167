package blame

import (
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
	// writes are the starts of each goroutine's socket writes, in order.
	writes map[timeline.GID][]timeline.Time
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

// stitch collects the socket writes and, if asked to, finds the in-process
// connections.
func (a *Attribution) stitch(find bool) *stitching {
	s := &stitching{server: map[timeline.GID]timeline.GID{}, writes: map[timeline.GID][]timeline.Time{}, served: map[waitID]int{}, replies: map[waitID]reply{}, writer: map[timeline.GID]timeline.GID{}}
	var all []write
	wakes := map[timeline.GID][]timeline.Time{}
	for g := range a.t.Gs {
		id := timeline.GID(g)
		for _, x := range a.t.Gs[g].Segs() {
			switch {
			case x.Kind == timeline.Syscall && a.Sites[a.siteOf(x.Stack)].Write:
				all = append(all, write{x.Start, id})
				s.writes[id] = append(s.writes[id], x.Start)
			case x.Kind == timeline.Waiting && x.Reason == timeline.ReasonNetwork && x.Waker == timeline.NoG && x.End < a.t.End:
				wakes[id] = append(wakes[id], x.End)
			}
		}
	}
	if !find {
		return s
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at < all[j].at })
	nearest := map[timeline.GID]timeline.GID{}
	for g, ws := range wakes {
		if len(ws) >= stitchWakes {
			nearest[g] = a.nearestWriter(g, ws, all)
		}
	}
	for r := range wakes {
		server, ok := nearest[r]
		if !ok || server == timeline.NoG || !a.f.Entry(server) {
			continue
		}
		client, ok := nearest[server]
		if !ok || client == timeline.NoG {
			continue
		}
		if s.ordered(wakes[r], server, client) && s.ordered(wakes[server], client, server) {
			s.server[r] = server
		}
	}
	a.match(s)
	a.multiplexed(s, wakes)
	return s
}

// match finds waits for requests that the process served itself.
func (a *Attribution) match(s *stitching) {
	type pair struct {
		site SiteID
		role int
	}
	byStart := make([]int, 0, len(a.f.Requests))
	for i := range a.f.Requests {
		if !a.f.Requests[i].InFlight {
			byStart = append(byStart, i)
		}
	}
	sort.SliceStable(byStart, func(i, j int) bool {
		return a.f.Requests[byStart[i]].Start() < a.f.Requests[byStart[j]].Start()
	})
	start := func(i int) timeline.Time { return a.f.Requests[byStart[i]].Start() }
	waits := map[SiteID]int{}
	matched := map[pair]map[waitID]int{}
	taken := map[int]bool{}
	for i := range a.f.Requests {
		own := &a.f.Requests[i]
		for _, p := range own.Parts {
			me := &a.t.Gs[p.G]
			for k := me.SegmentAt(p.Start + 1); k < me.Len() && me.Seg(k).Start < p.End; k++ {
				x := me.Seg(k)
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
				for j := sort.Search(len(byStart), func(j int) bool { return start(j) >= wrote }); j < len(byStart) && start(j) <= wrote+slack; j++ {
					q := byStart[j]
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
// write before g's wake-ups.
func (a *Attribution) nearestWriter(g timeline.GID, wakes []timeline.Time, all []write) timeline.GID {
	count := map[timeline.GID]int{}
	seen := map[timeline.GID]bool{}
	for _, w := range wakes {
		clear(seen)
		for i := sort.Search(len(all), func(i int) bool { return all[i].at > w }) - 1; i >= 0 && all[i].at > w-stitchWindow && len(seen) < 16; i-- {
			if x := all[i].g; x != g && !seen[x] {
				seen[x] = true
				count[x]++
			}
		}
	}
	best := timeline.NoG
	for x, n := range count {
		if best == timeline.NoG || n > count[best] || n == count[best] && x < best {
			best = x
		}
	}
	if best == timeline.NoG || float64(count[best]) < stitchRatio*float64(len(wakes)) {
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
	ws := s.writes[g]
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
