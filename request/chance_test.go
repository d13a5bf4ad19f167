package request

import (
	"math"
	"testing"

	"github.com/whylate/whylate/timeline"
)

// TestWhatWasNotSeenIsOfTheEndpointOfThoseThatAreAlike has requests that wait, such that compute
// for long, of which half have a CPU sample, and fast ones that nobody sees.
func TestWhatWasNotSeenIsOfTheEndpointOfThoseThatAreAlike(t *testing.T) {
	const item, search, rest = 1, 2, 3
	const ms = timeline.Time(1e6)
	d := &finder{
		c:    &classifier{tree: []node{{}, {0, 1, "main.item"}, {0, 1, "main.search"}, {0, 1, "main.rest"}}},
		role: []Role{{Name: "net/http"}},
	}
	add := func(n int, node int32, chance bool, took timeline.Time) {
		for i := range n {
			at := timeline.Time(len(d.list)) * 100 * ms
			took := took + timeline.Time(i)*took/100
			d.list = append(d.list, candidate{Request: Request{Parts: []Part{{0, at, at + took}}}, node: node, chance: chance})
		}
	}
	add(40, item, false, 4*ms)
	add(20, search, true, 6*ms)
	add(4, rest, true, 30*ms)
	unseen := len(d.list)
	add(20, 0, false, 6*ms)
	fast := len(d.list)
	add(40, 0, false, ms/10)
	few := len(d.list)
	add(2, 0, false, 30*ms)
	f := &Found{}
	d.endpoints(f)
	for i := unseen; i < len(d.list); i++ {
		r := &d.list[i]
		is := f.Endpoints[r.Endpoint] == "main.search"
		switch {
		case !r.Unseen:
			t.Fatalf("request %d counts as seen", i)
		case i < fast && (!is || r.Guessed):
			t.Errorf("one of %d ns is taken for %s, guessed: %v", r.Duration(), f.Endpoints[r.Endpoint], r.Guessed)
		case i >= fast && i < few && is:
			t.Error("a fast one is taken for one that computes")
		case i >= few && is:
			t.Error("one that took much longer is taken for one that computes")
		}
	}
}

// Where as many fast requests are seen of one endpoint as of another, those that were not seen are of neither: of which most of them are
// is not known.
func TestWhatMayBeOfTwoEndpointsIsOfNeither(t *testing.T) {
	const draw, render = 1, 2
	const ms = timeline.Time(1e6)
	for draws, want := range map[int]string{1: "net/http", 3: "main.draw"} {
		d := &finder{
			c:    &classifier{tree: []node{{}, {0, 1, "main.draw"}, {0, 1, "main.render"}}},
			role: []Role{{Name: "net/http"}},
		}
		add := func(n int, node int32, took timeline.Time) {
			for range n {
				at := timeline.Time(len(d.list)) * 100 * ms
				d.list = append(d.list, candidate{Request: Request{Parts: []Part{{0, at, at + took}}}, node: node, chance: node != 0})
			}
		}
		add(20, render, 25*ms)
		add(1, render, ms/10)
		add(draws, draw, ms/10)
		first := len(d.list)
		add(500, 0, ms/10)
		f := &Found{}
		d.endpoints(f)
		for _, r := range d.list[first:] {
			if got := f.Endpoints[r.Endpoint]; got != want || !r.Unseen || r.Guessed != (draws == 1) {
				t.Fatalf("%d fast ones of draw: taken for %s, guessed: %v", draws, got, r.Guessed)
			}
		}
	}
}

// Requests of which nothing was seen are fast ones that neither wait nor call: of the fast ones those count that a sample
// or a preemption showed, be they few, and not those that show themselves always.
func TestWhatShowsItselfAlwaysIsNotWhatWasNotSeen(t *testing.T) {
	const query, suggest = 1, 2
	const ms = timeline.Time(1e6)
	d := &finder{
		c:    &classifier{tree: []node{{}, {0, 1, "main.query"}, {0, 1, "main.suggest"}}},
		role: []Role{{Name: "net/http"}},
	}
	add := func(n int, node int32, shows bool, took timeline.Time) {
		for range n {
			at := timeline.Time(len(d.list)) * 100 * ms
			d.list = append(d.list, candidate{Request: Request{Parts: []Part{{0, at, at + took}}}, node: node, shows: shows, chance: node != 0 && !shows})
		}
	}
	add(100, query, true, ms/10)
	add(20, suggest, false, 25*ms)
	add(1, suggest, false, ms/10)
	unseen := len(d.list)
	add(60, 0, false, ms/10)
	f := &Found{}
	d.endpoints(f)
	for i := unseen; i < len(d.list); i++ {
		if name := f.Endpoints[d.list[i].Endpoint]; name != "main.suggest" {
			t.Fatalf("one that nobody saw is taken for %s", name)
		}
	}
}

// All requests of a long recording may have taken as long, most with samples: to ask all of them
// for each of which nothing was seen would take for ever.
func TestManyThatAreAlikeAreNotAllAsked(t *testing.T) {
	const many, unseen = 2_000_000, 100_000
	s := make(seenByChance, many)
	for i := range s {
		s[i] = chance{timeline.Time(1e6 + i/4), int32(1 + i%3/2)} // two of three are of 1
	}
	for i := range unseen {
		if n := s.alike(timeline.Time(1e6 + i)); n != 1 {
			t.Fatalf("request %d is taken for one of %d", i, n)
		}
	}
}

// Times of a damaged trace may be any.
func TestWhatTookAboutAsLongIsFoundForAnyTime(t *testing.T) {
	var s seenByChance
	for node, took := range []timeline.Time{1: 1, 2: 100, 3: math.MaxInt64} {
		for range leastAlike {
			if node > 0 {
				s = append(s, chance{took, int32(node)})
			}
		}
	}
	for took, want := range map[timeline.Time]int32{
		1: 1, 49: 0, 50: 2, 100: 2, 201: 2, 202: 0,
		math.MaxInt64 / 2: 0, math.MaxInt64/2 + 1: 3, math.MaxInt64: 3,
	} {
		if got := s.alike(took); got != want {
			t.Errorf("like what takes %d: %d, want %d", took, got, want)
		}
	}
}
