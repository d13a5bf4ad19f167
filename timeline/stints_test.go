package timeline

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Stints that are marked are what they are nanosecond by nanosecond, over several chunks.
func TestMarkedStintsAreWhatTheirPartsAre(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	takes := func(s Stint, _ *Span) bool { return s.What.Free() }
	for _, many := range []int{0, 1, 100, 3 << stintBits} {
		at := Time(1000)
		ss := stints{from: at}
		var want []Activity
		for range many {
			d, what := 1+Time(rng.IntN(4)), Activity(rng.IntN(int(Gone)))
			at += d
			ss.add(at, GID(rng.IntN(3))-1, what)
			want = append(want, slices.Repeat([]Activity{what}, int(d))...)
		}
		var spans []Span
		for from := ss.from; from < at; {
			s := Span{Start: from + Time(rng.IntN(50)), G: NoG}
			s.End = s.Start + Time(rng.IntN(50))
			from = s.End
			spans = append(spans, s)
			for i := s.Start; i < min(s.End, at); i++ {
				if want[i-ss.from].Free() {
					want[i-ss.from] = Stopped
				}
			}
		}
		ss.mark(spans, Stopped, takes)
		var got []Activity
		last := ss.from
		for i := range ss.n {
			s := ss.at(i)
			if s.Start != last || s.End <= s.Start {
				t.Fatalf("%d stints: %+v follows one that ends at %d", many, s, last)
			}
			last = s.End
			got = append(got, slices.Repeat([]Activity{s.What}, int(s.End-s.Start))...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d stints: marked wrongly", many)
		}
	}
}
