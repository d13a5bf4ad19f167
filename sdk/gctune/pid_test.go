package gctune

import (
	"math"
	"testing"
)

func TestAStepOfTheCostSettlesInThreeCyclesWithTheGains(t *testing.T) {
	// The cost is inversely proportional to GOGC; the aim is met at 100, or near it.
	for _, from := range []float64{25, 50, 200, 400, 800} {
		p := pid{u: math.Log(from)}
		g := from
		for range 3 {
			g = p.next(100/g, floor, ceiling)
		}
		settled := g
		for range 100 {
			g = p.next(100/g, floor, ceiling)
		}
		if settled < g/1.2 || settled > 1.2*g || g < 100/1.21 || g > 121 {
			t.Errorf("from %v: %.0f after three cycles, %.0f in the end", from, settled, g)
		}
	}
}

func TestWhatIsHeldAtABoundWindsNothingUp(t *testing.T) {
	p := pid{u: math.Log(100)}
	for range 1000 {
		p.next(50, floor, ceiling)
	}
	if g := p.next(0.5, floor, ceiling); g >= ceiling {
		t.Errorf("GOGC stays at %v", g)
	}
	for range 1000 {
		p.next(0, floor, ceiling)
	}
	if g := p.next(2, floor, ceiling); g <= floor {
		t.Errorf("GOGC stays at %v", g)
	}
}
