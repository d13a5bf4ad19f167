package gctune

import "math"

// The gains. The plant is known: CPU time of the collector per CPU time of the program is inversely proportional to
// GOGC, as each cycle marks the same and comes after GOGC percent as much allocation. In logarithms
// that is y = c - u, of gain -1 and with one cycle of delay, whatever the program is, so the same gains fit all:
// a gain of 1 of the integral alone would settle in one cycle, and hand all noise of a cycle on. With these
// the poles are at 0.38, 0.19 and -0.28: 17 % of a step are left after two cycles and 5 % after three, and white noise of what
// is measured makes 0.74 as much noise of GOGC.
const (
	gainP = 0.05
	gainI = 0.65
	gainD = 0.02
)

// Within these bounds, in percent, is GOGC always. The floor: below it each cycle frees less than a fifth of the
// heap, and the collector runs nearly always. The ceiling: above it there is little left to win, and the
// heap would be nine times what is live.
const (
	floor   = 25
	ceiling = 800
)

// largest is the largest error of one cycle that counts, as a factor: of a short measurement.
var largest = math.Log(8)

// near is the error that counts as none, as a factor: cycles of one and the same load differ by more.
var near = math.Log(1.2)

// pid is a controller in velocity form: it adds to its output, which is all the memory of the integral, so that an
// output that is held at a bound winds nothing up.
type pid struct {
	u      float64 // logarithm of GOGC
	e1, e2 float64 // the errors before
}

// next is told how many times the aim the cost is, and returns GOGC, which is within low and high.
func (p *pid) next(times, low, high float64) float64 {
	e := -largest
	if times > 0 {
		e = min(max(math.Log(times), -largest), largest)
	}
	e -= min(max(e, -near), near)
	p.u += gainP*(e-p.e1) + gainI*e + gainD*(e-2*p.e1+p.e2)
	p.u = min(max(p.u, math.Log(low)), math.Log(high))
	p.e1, p.e2 = e, p.e1
	return math.Exp(p.u)
}
