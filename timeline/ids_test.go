package timeline

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

func TestGoroutinesAreFoundByTheirIDs(t *testing.T) {
	var s ids
	var gs []gotrace.GoID
	at := func(g GID) gotrace.GoID { return gs[g] }
	if _, ok := s.find(0, at); ok {
		t.Error("one is found among none")
	}
	for i := range 10_000 {
		id := gotrace.GoID(i * i)
		if i%2 == 1 {
			id = ^id << 20
		}
		if g, ok := s.find(id, at); ok {
			t.Fatalf("%d is %d before it is there", id, g)
		}
		gs = append(gs, id)
		s.add(id, GID(i), at)
	}
	for i, id := range gs {
		if g, ok := s.find(id, at); !ok || g != GID(i) {
			t.Fatalf("%d is %d, want %d", id, g, i)
		}
	}
}

// Ids that follow each other, as the runtime gives them, do not pile up: hardly any others are
// looked at for one, by whatever number they are spread.
func TestIDsThatFollowEachOtherAreSpread(t *testing.T) {
	const n = 30_000
	for range 40 {
		var s ids
		looks := 0
		at := func(g GID) gotrace.GoID { looks++; return gotrace.GoID(g) }
		for i := range n {
			s.add(gotrace.GoID(i), GID(i), at)
		}
		looks = 0
		for i := range n {
			s.find(gotrace.GoID(i), at)
		}
		if looks > 2*n {
			t.Fatalf("spread by %#x, %d others are looked at for %d", s.by, looks-n, n)
		}
	}
}

func TestRunsOfASlabAreWhatWasAdded(t *testing.T) {
	var s slab[int]
	var runs []run
	var want [][]int
	for n := range 3000 {
		if n > 1100 {
			n = n * n % 1500 // some stand alone between others
		}
		xs := make([]int, n)
		for i := range xs {
			xs[i] = len(runs)<<16 + i
		}
		runs, want = append(runs, s.add(xs)), append(want, xs)
	}
	for k, r := range runs {
		got := s.of(r)
		if len(got) != len(want[k]) || cap(got) != len(got) {
			t.Fatalf("run %d has %d elements and room for %d, want %d", k, len(got), cap(got), len(want[k]))
		}
		for i, x := range got {
			if x != want[k][i] {
				t.Fatalf("run %d: element %d is %x", k, i, x)
			}
		}
	}
}
