package blame

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
)

// A damaged time makes a trace last for years, of which most is empty.
func TestWhatIsKeptOfALongTimeIsBounded(t *testing.T) {
	for _, length := range []timeline.Time{10e9, 1 << 48} {
		tl := &timeline.Timeline{Stacks: gotrace.NewStacks(), Gs: make([]timeline.Goroutine, 1), Start: 1, End: 1 + length, Until: 1 + length}
		at := 1 + length - length/8
		f := request.Fixed(tl, []request.Request{{Parts: []request.Part{{G: 0, Start: at, End: at + 1e6}}}}, []string{"/"}, func(timeline.GID) gotrace.StackID { return 0 })
		tl.Gs = nil
		a := &Attribution{t: tl, f: f, late: -1, Requests: []Attributed{{D: 1e6}}, Weight: []float64{1}}
		a.LateWakeup()
		if n := len(a.lateBins); n > maxLateBins+2 || length == 10e9 && n != 101 {
			t.Errorf("%d stretches of %d ns", n, length)
		}
		if p := a.Population(0); p.blocks > maxBlocks+2 || length == 10e9 && p.blocks != 36 {
			t.Errorf("%d blocks of %d ns", p.blocks, length)
		}
	}
}
