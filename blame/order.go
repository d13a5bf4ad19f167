package blame

import (
	"cmp"
	"slices"

	"github.com/whylate/whylate/timeline"
)

// digitBits is how many bits of an instant inOrder looks at at a time, fewToOrder for how
// few it is not worth while.
const digitBits, fewToOrder = 11, 256

// inOrder returns xs in order of time; what is at the same instant stays in the order in
// which it was. There may be a million: it does not compare them, but distributes them by
// each digit of their instants, beginning with the last. It may use xs as scratch space.
func inOrder[T any](xs []T, at func(*T) timeline.Time) []T {
	if len(xs) < fewToOrder {
		slices.SortStableFunc(xs, func(x, y T) int { return cmp.Compare(at(&x), at(&y)) })
		return xs
	}
	first, last := at(&xs[0]), at(&xs[0])
	for i := range xs {
		first, last = min(first, at(&xs[i])), max(last, at(&xs[i]))
	}
	other := make([]T, len(xs))
	for shift := 0; uint64(last-first)>>shift > 0; shift += digitBits {
		var next [1 << digitBits]int // where the next one with a digit goes
		digit := func(x *T) uint64 { return uint64(at(x)-first) >> shift % (1 << digitBits) }
		for i := range xs {
			next[digit(&xs[i])]++
		}
		sum := 0
		for d, n := range next {
			next[d], sum = sum, sum+n
		}
		for i := range xs {
			d := digit(&xs[i])
			other[next[d]] = xs[i]
			next[d]++
		}
		xs, other = other, xs
	}
	return xs
}
