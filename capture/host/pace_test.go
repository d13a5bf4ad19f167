package host

import (
	"fmt"
	"testing"
	"time"
)

// Costs in ns as they were measured: a look takes 60 to 250 us, a thread 1 to 5 us,
// one that ran 5 to 12.
func TestLooksStayWithinTheirShareOfACPU(t *testing.T) {
	for _, c := range []struct{ fixed, active, quiet float64 }{{60e3, 5e3, 1e3}, {250e3, 12e3, 5e3}, {1e6, 12e3, 5e3}} {
		for _, threads := range []int{1, 10, 100, 1_000, 10_000, 100_000} {
			for _, ran := range []int{0, 1, threads / 10, threads} {
				t.Run(fmt.Sprintf("%d of %d threads ran, a look takes %g us", ran, threads, c.fixed/1e3), func(t *testing.T) {
					p := pace{c.fixed, c.active, c.quiet}
					period, a, q := p.plan(ran, threads-ran, share)
					if period < shortest || period > longest {
						t.Fatalf("period %v", period)
					}
					cost := c.fixed + float64(a)*c.active + float64(q)*c.quiet
					if got := cost / float64(period); got > share*1.001 {
						t.Errorf("a look each %v at %d and %d threads takes %.3f of a CPU, at most %g", period, a, q, got, share)
					}
					if a > ran || q > threads-ran || a < min(ran, atLeast) || q < min(threads-ran, atLeast) {
						t.Errorf("%d of %d threads that ran, %d of %d others", a, ran, q, threads-ran)
					}
					if period < longest && a < ran {
						t.Errorf("%d of %d threads that ran are read, although the period is only %v", a, ran, period)
					}
					thrifty, _, _ := p.plan(ran, threads-ran, share/2)
					if thrifty < period {
						t.Errorf("period %v, to save it becomes %v", period, thrifty)
					}
				})
			}
		}
	}
}

// A recording makes up for its beginning, and keeps something for its end, by looking less.
func TestARecordingAsAWholeStaysWithinItsShare(t *testing.T) {
	for _, begin := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(fmt.Sprintf("the beginning took %v", begin), func(t *testing.T) {
			spent := begin
			const step = 20 * time.Millisecond
			for at := time.Duration(0); at <= time.Minute; at += step {
				if at >= settled && float64(spent+endCost) > 1.08*share*float64(at) {
					t.Fatalf("after %v it took %v", at, spent)
				}
				a := allowance(at, spent)
				if a < least*share || a > share {
					t.Fatalf("after %v, %v of which it took, looks may take %g of a CPU", at, spent, a)
				}
				spent += time.Duration(a * float64(step))
			}
			if float64(spent) < 0.95*share*float64(time.Minute) {
				t.Errorf("it took only %v of a minute", spent)
			}
		})
	}
}

func TestAFewThreadsAreLookedAtFiftyTimesASecond(t *testing.T) {
	p := pace{60e3, 5e3, 1e3}
	if period, a, q := p.plan(3, 7, share); period != shortest || a != 3 || q != 7 {
		t.Errorf("each %v, %d and %d threads", period, a, q)
	}
}

func TestWhatLooksCostIsAMean(t *testing.T) {
	var p pace
	for range 100 {
		p.learn(60e3, 2*5e3, 0, 2, 0)
		p.learn(180e3, 0, 4*1e3, 0, 4)
	}
	if p.fixed < 100e3 || p.fixed > 140e3 || p.active != 5e3 || p.quiet != 1e3 {
		t.Errorf("%+v", p)
	}
}
