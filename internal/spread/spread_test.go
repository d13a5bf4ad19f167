package spread

import (
	"math/bits"
	"testing"
)

// Ids that follow each other, as the runtime gives them, and every other one of them, do not pile
// up: hardly any place is taken when an id comes to it.
func TestIDsThatFollowEachOtherAreSpread(t *testing.T) {
	const n = 30_000
	seen := map[uint64]bool{}
	for range 40 {
		by := Multiplier()
		seen[by] = true
		for _, step := range []uint64{1, 2} {
			table := make([]bool, 1<<bits.Len(n*2-1))
			taken := 0
			for i := range uint64(n) {
				at := i * step * by >> (64 - bits.Len(uint(len(table)-1)))
				for ; table[at]; at = (at + 1) % uint64(len(table)) {
					taken++
				}
				table[at] = true
			}
			if taken > n*int(step) {
				t.Errorf("%d ids in steps of %d, by %#x: %d places were taken", n, step, by, taken)
			}
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d different numbers of 40", len(seen))
	}
}

func TestNumbersCloseToSmallFractionsDoNotSpread(t *testing.T) {
	for _, by := range []uint64{0, 1, 1 << 32, 1<<63 + 1, 1<<62 + 5, ^uint64(0)/3 + 2, ^uint64(0) / 7, ^uint64(0)} {
		if spreads(by) {
			t.Errorf("%#x", by)
		}
	}
	if !spreads(0x9e3779b97f4a7c15) { // 1<<64 by the golden ratio
		t.Error("the golden ratio does not spread")
	}
}
