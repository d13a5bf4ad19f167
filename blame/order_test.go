package blame

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/whylate/whylate/timeline"
)

func TestInOrderIsAStableSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, fewToOrder - 1, fewToOrder, 5000} {
		for _, length := range []timeline.Time{1, 1 << digitBits, 1 << 40, 1 << 62} {
			xs := make([]release, n)
			for i := range xs {
				xs[i] = release{at: timeline.Time(r.Int64N(int64(length))) - length/2, seg: int32(i)}
			}
			want := slices.Clone(xs)
			slices.SortStableFunc(want, func(x, y release) int { return cmp.Compare(x.at, y.at) })
			if got := inOrder(xs, func(x *release) timeline.Time { return x.at }); !slices.Equal(got, want) {
				t.Errorf("%d within %d ns are in another order", n, length)
			}
		}
	}
}

func TestAPileIsInTheOrderInWhichItWasMade(t *testing.T) {
	for _, n := range []int{0, 1, firstOfPile, firstOfPile + 1, 3*mostOfPile + 5} {
		var p pile[int]
		for i := range n {
			p.add(i)
		}
		got := p.all()
		if len(got) != n {
			t.Errorf("%d of %d", len(got), n)
		}
		for i, x := range got {
			if x != i {
				t.Fatalf("of %d, %d is %d", n, i, x)
			}
		}
	}
}

func TestTheWeightedMedianIsThatOfASort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, fewToOrder, 10 * fewToOrder} {
		for _, longest := range []int64{1, 3, 1e9} {
			xs := make([]int64, n)
			var total, sum, want int64
			for i := range xs {
				xs[i] = 1 + r.Int64N(longest)*r.Int64N(longest)/longest
				total += xs[i]
			}
			sorted := slices.Sorted(slices.Values(xs))
			for i := 0; i < n && 2*sum < total; i++ {
				want = sorted[i]
				sum += want
			}
			if got := weightedMedian(xs); got != want {
				t.Errorf("of %d up to %d it is %d, not %d", n, longest, got, want)
			}
		}
	}
}
