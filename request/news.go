package request

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

const (
	// leastNews is how many requests of a kind must be known to say that they wait for news, or bring some, and mostNews how many
	// of them are looked at. newsPart of these must do so for most of their time.
	leastNews, mostNews = 20, 100
	newsPart            = 2.0 / 3
	// restsPart is the part of a wait for which the goroutine that ends it must have rested, to have worked on nothing for
	// whom it woke. Of its past so many stretches are looked at.
	restsPart  = 0.9
	maxStretch = 4096
	// fewBrings is the part of the time waited for news below which who brings it does not matter, and bringerWaits the part of
	// those that bring it that may wait where who waits for it does: who gives back what he had got from a pool had to wait
	// for it as often as others.
	fewBrings, bringerWaits = 0.1, 0.05
)

// kindOf are the requests of a role that reach the same handler.
type kindOf struct {
	role int
	node int32
}

func (r *candidate) kind() kindOf { return kindOf{r.Role, r.node} }

// newsKinds returns the kinds of requests that wait for what requests of other kinds bring, as those for the next message of
// somebody do: most of their time is waits for such a request to come, which ends them, or wakes a goroutine that does and had
// rested. It takes as long as nothing is brought. The others must come by the network, so that they are not done for who
// waits, and hardly ever wait in the same place themselves.
func (d *finder) newsKinds() map[kindOf]bool {
	kinds := map[kindOf][]int{}
	for i := range d.list {
		if r := &d.list[i]; !r.dropped && r.node != 0 {
			kinds[r.kind()] = append(kinds[r.kind()], i)
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	n := &news{d: d}
	out := map[kindOf]bool{}
	for k, of := range kinds {
		if sh := d.role[k.role].Shape; sh != Annotated && sh != Function && len(of) >= leastNews && n.awaits(k, of, kinds) {
			out[k] = true
		}
	}
	return out
}

// news is what is known of who brings news to whom.
type news struct {
	d  *finder
	by []carriage // by goroutine, in order
}

// carriage is a part of a request, by its number.
type carriage struct {
	Part
	request int
}

// some calls f for up to mostNews of requests that have ended, and returns how many these are.
func (n *news) some(of []int, f func(r *candidate)) (looked int) {
	for i := 0; i < len(of); i += 1 + (len(of)-1)/mostNews {
		if r := &n.d.list[of[i]]; !r.InFlight {
			looked++
			f(r)
		}
	}
	return looked
}

// awaits reports whether requests of a kind wait for news.
func (n *news) awaits(k kindOf, of []int, kinds map[kindOf][]int) bool {
	waits := 0
	var all timeline.Time
	brought, places := map[kindOf]timeline.Time{}, map[string]bool{}
	looked := n.some(of, func(r *candidate) {
		var sum timeline.Time
		n.each(r, func(s timeline.Segment, by *candidate, ns timeline.Time) {
			if by.kind() == k || ns <= 0 {
				return
			}
			sum += ns
			brought[by.kind()] += ns
			places[n.place(s.Stack)], places[n.place(s.WakerStack)] = true, true
		})
		all += sum
		if r.poll || 2*sum >= r.Duration() {
			waits++
		}
	})
	if all == 0 || looked < leastNews || float64(waits) < newsPart*float64(looked) {
		return false
	}
	delete(places, "")
	for other, ns := range brought {
		if float64(ns) >= fewBrings*float64(all) && !n.brings(kinds[other], places) {
			return false
		}
	}
	return true
}

// brings reports whether requests come by the network, and hardly ever wait for other requests in some places, or are let go there.
func (n *news) brings(of []int, places map[string]bool) bool {
	net, waits, asked, before := 0, 0, 0, 0
	looked := n.some(of, func(r *candidate) {
		if r.ByNetwork {
			net++
		}
		there := false
		asks := n.each(r, func(s timeline.Segment, _ *candidate, _ timeline.Time) {
			there = there || places[n.place(s.Stack)] || places[n.place(s.WakerStack)]
		})
		if there {
			waits++
		}
		if asks {
			asked++
			if there {
				before++
			}
		}
	})
	if 2*asked > looked { // of the others it was not seen that they asked, as when whom they ask is at work
		waits = before
	}
	return looked >= leastNews && 2*net > looked && float64(waits) <= bringerWaits*float64(looked)
}

// place is the program's own function at a stack, "" if there is none.
func (n *news) place(s gotrace.StackID) string {
	f, _ := AppFrame(n.d.t.Stacks.Frames(s))
	return f.Func
}

// each calls f for the waits of a request that others end, with who did, and how long it took until he came, which is not
// positive if he was there. Who has asked somebody before, by waking another request or one that writes to the network, or
// writes there itself, waits for an answer; asked says that it did.
func (n *news) each(r *candidate, f func(s timeline.Segment, by *candidate, ns timeline.Time)) (asked bool) {
	wrote := false
	for _, p := range r.Parts {
		me := &n.d.t.Gs[p.G]
		ws, w := me.Wakes(), 0
		for _, s := range me.SegsFrom(n.d.segmentFrom(p.G, p.Start)) {
			if s.Start >= p.End {
				break
			}
			if s.Kind == timeline.Syscall && s.Start >= p.Start && n.d.c.of(s.Stack).op == opWrite {
				wrote = true
			}
			by := n.bringer(s)
			if by < 0 {
				continue
			}
			if wrote {
				return true
			}
			w += sort.Search(len(ws)-w, func(i int) bool { return ws[w+i].Time >= p.Start })
			for ; w < len(ws) && ws[w].Time <= s.Start; w++ {
				if n.asks(r, &ws[w]) {
					return true
				}
			}
			b := &n.d.list[by]
			f(s, b, min(b.Start(), s.End, p.End)-max(s.Start, p.Start))
		}
	}
	return false
}

// asks reports whether a request wakes another one, or somebody who then writes to the network, or wakes another one before he
// rests.
func (n *news) asks(r *candidate, w *timeline.Wake) bool {
	if w.Birth() {
		return false
	}
	if i := n.at(w.Whom(), w.Time); i >= 0 {
		return n.d.list[i].kind() != r.kind()
	}
	if _, writes := n.d.firstWrite(w.Whom(), w.Time); writes {
		return true
	}
	h := &n.d.t.Gs[w.Whom()]
	until := timeline.Time(0)
	for i, steps := n.d.segmentFrom(w.Whom(), w.Time), 0; i < h.Len() && steps < maxStretch; i, steps = i+1, steps+1 {
		if x := h.Seg(i); x.Kind == timeline.Waiting && x.Start >= w.Time {
			until = x.Start
			break
		}
	}
	ws := h.Wakes()
	for k, i := 0, sort.Search(len(ws), func(i int) bool { return ws[i].Time > w.Time }); i < len(ws) && ws[i].Time <= until && k < maxStretch; i, k = i+1, k+1 {
		if to := n.at(ws[i].Whom(), ws[i].Time); to >= 0 && !ws[i].Birth() && n.d.list[to].kind() != r.kind() {
			return true
		}
	}
	return false
}

// at returns the request that a goroutine carries at an instant, -1 if it is none.
func (n *news) at(g timeline.GID, at timeline.Time) int {
	if n.by == nil {
		for i := range n.d.list {
			for _, p := range n.d.list[i].Parts {
				n.by = append(n.by, carriage{p, i})
			}
		}
		slices.SortFunc(n.by, func(a, b carriage) int { return cmp.Or(cmp.Compare(a.G, b.G), cmp.Compare(a.Start, b.Start)) })
	}
	i := sort.Search(len(n.by), func(i int) bool { return n.by[i].G > g || n.by[i].G == g && n.by[i].Start > at }) - 1
	if i >= 0 && n.by[i].G == g && at <= n.by[i].End {
		return n.by[i].request
	}
	return -1
}

// bringer is that of a wait among the candidates.
func (n *news) bringer(s timeline.Segment) int { return bringer(n.d.t, s, n.at) }

// Bringer returns the request that ended a wait, or that woke the goroutine which did and had rested until then, by its index, -1 if
// there is none. Who receives what somebody waited to send brings nothing.
func (f *Found) Bringer(s timeline.Segment) int { return bringer(f.t, s, f.RequestAt) }

// bringer is [Found.Bringer]; at returns which request a goroutine carries at an instant, -1 if it is none.
func bringer(t *timeline.Timeline, s timeline.Segment, at func(g timeline.GID, at timeline.Time) int) int {
	if s.Kind != timeline.Waiting || s.Waker == timeline.NoG || s.Reason != timeline.ReasonSelect && s.Reason != timeline.ReasonChanReceive && s.Reason != timeline.ReasonCond {
		return -1
	}
	if f := t.Stacks.Frames(s.WakerStack); len(f) > 0 && (strings.HasPrefix(f[0].Func, "runtime.chanrecv") || f[0].Func == "runtime.selectnbrecv") {
		return -1
	}
	if i := at(s.Waker, s.End); i >= 0 {
		return i
	}
	gr := &t.Gs[s.Waker]
	busy, last, rested := (1-restsPart)*float64(s.End-s.Start), -1, false
	for i, steps := min(gr.SegmentAt(s.End), gr.Len()-1), 0; i >= 0 && gr.Seg(i).End > s.Start; i, steps = i-1, steps+1 {
		x := gr.Seg(i)
		if x.Start >= s.End {
			continue
		}
		if !idles(x) {
			if busy -= float64(min(x.End, s.End) - max(x.Start, s.Start)); busy < 0 || steps >= maxStretch {
				return -1
			}
		} else if !rested {
			if rested = true; x.Waker != timeline.NoG && x.End <= s.End {
				last = at(x.Waker, x.End)
			}
		}
	}
	if !rested {
		return -1
	}
	return last
}
