package request

import (
	"cmp"
	"slices"
	"sort"

	"github.com/whylate/whylate/timeline"
)

const (
	// leastNews is how many requests of a kind must be known to say that they wait for news, and mostNews how many of them
	// are looked at. newsPart of these must do so for most of their time.
	leastNews, mostNews = 20, 100
	newsPart            = 2.0 / 3
	// restsPart is the part of a wait for which the goroutine that ends it must have rested, to have worked on nothing for
	// whom it woke.
	restsPart = 0.9
	// bringerWaits is the part of those that bring news that may wait for other requests themselves: who gives back what he
	// had got from a pool had to wait for it as often as others.
	bringerWaits = 0.05
)

// kindOf are the requests of a role that reach the same handler.
type kindOf struct {
	role int
	node int32
}

// newsKinds returns the kinds of requests that wait for what requests of other kinds bring, as those for the next message of
// somebody do: most of their time is waits that such a request ends, or a goroutine which rested for most of the wait until such a
// request woke it. It takes as long as nothing is brought. The others must come by the network, so that they are not done for who
// waits, and hardly ever wait for requests themselves.
func (d *finder) newsKinds() map[kindOf]bool {
	kinds := map[kindOf][]int{}
	for i := range d.list {
		if r := &d.list[i]; !r.dropped && r.node != 0 {
			k := kindOf{r.Role, r.node}
			kinds[k] = append(kinds[k], i)
		}
	}
	n := &news{d: d, brought: map[kindOf]bool{}}
	out := map[kindOf]bool{}
	for k, of := range kinds {
		if sh := d.role[k.role].Shape; sh == Annotated || sh == Function || len(of) < leastNews || len(kinds) < 2 {
			continue
		}
		looked, waits := 0, 0
		bringers := map[kindOf]bool{}
		for i := 0; i < len(of); i += 1 + (len(of)-1)/mostNews {
			r := &d.list[of[i]]
			looked++
			if 2*n.waited(r, func(other kindOf) bool {
				bringers[other] = bringers[other] || other != k
				return other != k
			}) >= r.Duration() {
				waits++
			}
		}
		out[k] = looked >= leastNews && float64(waits) >= newsPart*float64(looked)
		for other, is := range bringers {
			out[k] = out[k] && (!is || n.brings(other, kinds[other]))
		}
	}
	return out
}

// news is what is known of who brings news to whom.
type news struct {
	d       *finder
	by      map[timeline.GID][]carriage // in order
	brought map[kindOf]bool
}

type carriage struct {
	from, to timeline.Time
	request  int
}

// at returns the request that a goroutine carries at an instant, -1 if it is none.
func (n *news) at(g timeline.GID, at timeline.Time) int {
	if n.by == nil {
		n.by = map[timeline.GID][]carriage{}
		for i := range n.d.list {
			for _, p := range n.d.list[i].Parts {
				n.by[p.G] = append(n.by[p.G], carriage{p.Start, p.End, i})
			}
		}
		for _, ps := range n.by {
			slices.SortFunc(ps, func(a, b carriage) int { return cmp.Compare(a.from, b.from) })
		}
	}
	ps := n.by[g]
	if i := sort.Search(len(ps), func(i int) bool { return ps[i].from > at }) - 1; i >= 0 && at <= ps[i].to {
		return ps[i].request
	}
	return -1
}

// waited returns for how long a request waits for news that requests of a kind bring which counts.
func (n *news) waited(r *candidate, counts func(kindOf) bool) (sum timeline.Time) {
	for _, p := range r.Parts {
		for _, s := range n.d.t.Gs[p.G].SegsFrom(n.d.segmentFrom(p.G, p.Start)) {
			if s.Start >= p.End {
				break
			}
			if from := n.bringer(s); from >= 0 {
				if b := &n.d.list[from]; counts(kindOf{b.Role, b.node}) {
					sum += min(s.End, p.End) - max(s.Start, p.Start)
				}
			}
		}
	}
	return sum
}

// bringer returns the request that ended a wait, or that woke the goroutine which did and had rested until then, -1 if there is none.
func (n *news) bringer(s timeline.Segment) int {
	if s.Kind != timeline.Waiting || s.Waker == timeline.NoG || s.Reason != timeline.ReasonSelect && s.Reason != timeline.ReasonChanReceive && s.Reason != timeline.ReasonCond {
		return -1
	}
	if i := n.at(s.Waker, s.End); i >= 0 {
		return i
	}
	gr := &n.d.t.Gs[s.Waker]
	var rested timeline.Time
	last := -1
	for i := gr.SegmentAt(s.Start + 1); i < gr.Len() && gr.Seg(i).Start < s.End; i++ {
		if x := gr.Seg(i); idles(x) {
			rested += min(x.End, s.End) - max(x.Start, s.Start)
			if last = -1; x.Waker != timeline.NoG && x.End <= s.End {
				last = n.at(x.Waker, x.End)
			}
		}
	}
	if float64(rested) < restsPart*float64(s.End-s.Start) {
		return -1
	}
	return last
}

// brings reports whether requests of a kind come by the network, and hardly ever wait for other requests.
func (n *news) brings(k kindOf, of []int) bool {
	if is, ok := n.brought[k]; ok {
		return is
	}
	looked, net, waits := 0, 0, 0
	for i := 0; i < len(of); i += 1 + (len(of)-1)/mostNews {
		r := &n.d.list[of[i]]
		looked++
		if r.ByNetwork {
			net++
		}
		if n.waited(r, func(kindOf) bool { return true }) > 0 {
			waits++
		}
	}
	n.brought[k] = looked >= leastNews && 2*net > looked && float64(waits) <= bringerWaits*float64(looked)
	return n.brought[k]
}
