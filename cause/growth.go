package cause

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// Growth is a place in the code whose goroutines become more and more.
type Growth struct {
	// Class is that of the goroutines, Where the place that starts them, nil if it
	// is none of the target's own.
	Class blame.ClassID
	Where *Place
	// Born and Died count them over the recording, Grew by how many their number
	// grew in each quarter of it.
	Born, Died int
	Grew       [quarters]int
	// Timers is set if most of the process's timers are theirs.
	Timers bool
}

const quarters = 4

const (
	// MinGrowth is by how many goroutines a place must have grown: with 100, a
	// quarter of steady growth has 25 +- 5 of them.
	MinGrowth = 100
	// LeastGrowth is by how many, if none of them ended: a quarter of steady growth has 7.5 +- 2.7 of them, and what is only born
	// in so short a time was so before it, too.
	LeastGrowth = 30
	// A place grows if at most MaxEnded of its goroutines end, and the last quarter
	// of the recording, as far as there are requests, has at least StillGrowing of an average one's growth: a
	// pool that fills, or a server that ramps up, levels off.
	MaxEnded, StillGrowing = 0.5, 0.5
)

// Growing returns the places that grow throughout the recording, by class and place.
func (c *Case) Growing() []Growth {
	t := c.A.Timeline()
	type site struct {
		root string
		at   gotrace.Frame // the go statement
	}
	found := map[site]*Growth{}
	before := map[string][]timeline.Time{} // deaths of goroutines older than the recording, by root
	sole := c.companions()
	until := c.loadEnds()
	quarter := func(at timeline.Time) int {
		part := float64(at-t.Start) / float64(max(1, until-t.Start)) // of damaged times quarters of it may overflow
		return int(max(0, min(quarters-1, quarters*part)))
	}
	for g := range t.Gs {
		me := &t.Gs[g]
		if !me.Born && me.Died {
			before[me.Root()] = append(before[me.Root()], me.End())
		}
		if !me.Born || me.System || me.Observer || me.Root() == "" || sole[timeline.GID(g)] {
			continue
		}
		frames := t.Stacks.Frames(me.CreatorStack)
		k := site{root: me.Root()}
		if len(frames) > 0 {
			k.at = gotrace.Frame{Func: frames[0].Func, Line: frames[0].Line}
		}
		s := found[k]
		if s == nil {
			s = &Growth{}
			if f, ok := request.AppFrame(frames); ok {
				s.Where = &Place{Function: f.Func, File: f.File, Line: f.Line}
			}
			found[k] = s
		}
		s.Born++
		s.Grew[quarter(me.Start())]++
		if me.Died {
			s.Died++
			s.Grew[quarter(me.End())]--
		}
	}
	classes := map[string]blame.ClassID{}
	for i := range c.A.Classes {
		if cl := &c.A.Classes[i]; cl.Root != "" && cl.Endpoint < 0 {
			classes[cl.Root] = blame.ClassID(i)
		}
	}
	var out []Growth
	for k, s := range found {
		for _, at := range before[k.root] { // whoever started them
			s.Died++
			s.Grew[quarter(at)]--
		}
		class, ok := classes[k.root]
		if !ok || !s.grows() || c.A.Serves(class) {
			continue
		}
		s.Class = class
		out = append(out, *s)
	}
	if len(out) > 0 {
		timers := c.timerRoot()
		for i := range out {
			out[i].Timers = c.A.Classes[out[i].Class].Root == timers
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		return cmp.Or(cmp.Compare(b.Born, a.Born), cmp.Compare(a.Class, b.Class), cmp.Compare(PlaceName(a.Where), PlaceName(b.Where))) < 0
	})
	return out
}

// Grows returns the places whose goroutines become more and more in a recording with some requests, the one that starts most first: a
// leak, whoever feels it yet.
func Grows(a *blame.Attribution, p *blame.Population) []Growth {
	return newCase(a, p, TailContrast).Growing()
}

// Told says so in a sentence.
func (g *Growth) Told(a *blame.Attribution) string {
	t := a.Timeline()
	return fmt.Sprintf("Goroutines become more and more: %s started %d of %s in %.1f s, and %d ended.",
		PlaceName(g.Where), g.Born, shortName(a.Classes[g.Class].Name), float64(t.Duration())/1e9, g.Died)
}

// lastRequests is the part of the requests with which the load of a recording ends.
const lastRequests = 0.01

// loadEnds is when all but the last few of the requests have begun: clients may go before the recording ends.
func (c *Case) loadEnds() timeline.Time {
	type begun struct {
		at     timeline.Time
		weight float64
	}
	var all []begun
	left := 0.0
	for _, r := range c.P.All() {
		all = append(all, begun{c.A.Found().Requests[c.A.Requests[r].Request].Start(), c.A.Weight[r]})
		left += lastRequests * c.A.Weight[r]
	}
	slices.SortFunc(all, func(x, y begun) int { return cmp.Compare(y.at, x.at) })
	for _, b := range all {
		if left -= b.weight; left < 0 {
			return b.at
		}
	}
	return c.A.Timeline().End
}

func (s *Growth) grows() bool {
	net := s.Born - s.Died
	if net < MinGrowth && (net < LeastGrowth || s.Died > 0) || float64(s.Died) > MaxEnded*float64(s.Born) {
		return false
	}
	for _, n := range s.Grew {
		if n <= 0 {
			return false
		}
	}
	return float64(s.Grew[quarters-1]) >= StillGrowing*float64(net)/quarters
}

// companions are goroutines of which their creator, which is still alive, started
// only this one at its place: a connection's second goroutine is as old as the
// connection, and a growing number of clients is no leak.
func (c *Case) companions() map[timeline.GID]bool {
	t := c.A.Timeline()
	type place struct {
		creator timeline.GID
		stack   gotrace.StackID
	}
	first := map[place]timeline.GID{}
	out := map[timeline.GID]bool{}
	for g := range t.Gs {
		me := &t.Gs[g]
		if !me.Born || me.Creator == timeline.NoG || t.Gs[me.Creator].Died {
			continue
		}
		p := place{me.Creator, me.CreatorStack}
		if one, ok := first[p]; ok {
			delete(out, one)
			continue
		}
		first[p], out[timeline.GID(g)] = timeline.GID(g), true
	}
	return out
}

// timerRoot is the root function of the goroutines for which more than half of all
// timers fired, "" if there is none: the end of a sleep, or of a select that no
// goroutine ended.
func (c *Case) timerRoot() string {
	fired, all := map[string]int{}, 0
	t := c.A.Timeline()
	for g := range t.Gs {
		me := &t.Gs[g]
		for _, s := range me.Waits() {
			if s.Waker != timeline.NoG || s.End >= t.End {
				continue
			}
			if s.Reason == timeline.ReasonSleep || s.Reason == timeline.ReasonSelect || s.Reason == timeline.ReasonChanReceive {
				all++
				fired[me.Root()]++
			}
		}
	}
	for root, n := range fired {
		if 2*n > all {
			return root
		}
	}
	return ""
}
