package request

import (
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
