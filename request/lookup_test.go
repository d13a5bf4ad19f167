package request

import (
	"math/rand/v2"
	"testing"

	"github.com/whylate/whylate/timeline"
)

func TestInOrderOfTimeTheSameRequestsAreCarried(t *testing.T) {
	for _, file := range []string{"grpc", "fasthttp", "go-redis"} {
		f := findIn(t, "testdata/"+file+".trace")
		forward, carried := f.Forward(), 0
		for g := range f.t.Gs {
			for i := range f.t.Gs[g].Len() {
				at := f.t.Gs[g].Seg(i).Start
				want := f.RequestAt(timeline.GID(g), at)
				if got := forward.RequestAt(timeline.GID(g), at); got != want {
					t.Fatalf("%s: goroutine %d carries %d at %d, not %d", file, g, want, at, got)
				}
				if want >= 0 {
					carried++
				}
			}
		}
		if carried == 0 || forward.RequestAt(timeline.NoG, f.t.Start) != -1 {
			t.Errorf("%s: %d segments belong to a request", file, carried)
		}
	}
}

func TestASearchFindsASegmentWhereverItBegins(t *testing.T) {
	f := findIn(t, "testdata/grpc.trace")
	h := &homes{t: f.t, near: make([]int32, len(f.t.Gs))}
	rng := rand.New(rand.NewPCG(5, 6))
	for g := range f.t.Gs {
		me := &f.t.Gs[g]
		for range 50 {
			at := f.t.Start - 1 + timeline.Time(rng.Int64N(int64(f.t.Duration())+2))
			if me.Len() > 0 && rng.IntN(2) == 0 {
				at = me.Seg(rng.IntN(me.Len())).End
			}
			if got, want := h.search(timeline.GID(g), at), me.SegmentAt(at); got != want {
				t.Fatalf("segment %d of goroutine %d contains %d, not %d", want, g, at, got)
			}
		}
	}
}
