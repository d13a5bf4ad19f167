package blame

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/whylate/whylate/timeline"
)

func TestTheFirstReleasesOfManyAreInOrder(t *testing.T) {
	order := func(x, y release) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.g, y.g), cmp.Compare(x.seg, y.seg))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, sites := range []int{1, 2, 7} {
		for _, n := range []int{1, 200, 5000} {
			a := &Attribution{releases: map[SiteID][]release{}}
			places := map[SiteID]bool{99: true} // nothing was released there
			var want []release
			for i := range n {
				site := SiteID(r.IntN(sites))
				x := release{at: timeline.Time(r.Int64N(int64(n))), g: timeline.GID(r.IntN(5)), seg: int32(i)} // some at one instant
				a.releases[site], places[site] = append(a.releases[site], x), true
				want = append(want, x)
			}
			for _, rs := range a.releases {
				slices.SortFunc(rs, order)
			}
			slices.SortFunc(want, order)
			for _, most := range []int{n / 2, n, 2 * n} {
				got := a.releasesAt(places, most)
				if least := min(n, most-2*sites-most/10); len(got) > most || len(got) < least || most >= n && len(got) < n {
					t.Errorf("%d of %d from %d sites, not about %d", len(got), n, sites, most)
				}
				if !slices.Equal(got, want[:len(got)]) {
					t.Errorf("the first %d of %d from %d sites are others, or in another order", len(got), n, sites)
				}
			}
		}
	}
}
