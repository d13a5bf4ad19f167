package host

import "time"

// Recording costs less than a hundredth of a CPU. A look at the process has a
// part that does not depend on the number of threads, and one that grows with it:
// to read the counters of one thread takes 1 to 5 us, and a process may have 10,000
// of them. So the period between looks and the number of threads in each follow from
// what looks have cost so far. Threads that ran lately are read first, in every look if the budget
// allows it; the others in turn.
const (
	// shortest and longest are the bounds of the period: 50 and 2 looks a second.
	// leisurely is the longest that is chosen just to read all the quiet threads each time.
	shortest  = 20 * time.Millisecond
	leisurely = 100 * time.Millisecond
	longest   = 500 * time.Millisecond
	// share of a CPU that looks may take. The rest to a hundredth is for what they
	// cannot measure of themselves, such as the collection of their garbage, and for the two ends.
	// Above thrift of a CPU, as after a costly beginning, it is half of that.
	share  = 0.006
	thrift = 0.008
	// endsCost is the CPU time for each kind of threads in the first and in the last look.
	endsCost = 10 * time.Millisecond
	// sourceShare is the share for each source that does not belong to one
	// thread: the machine, the cgroups, the process. On a large machine or with many threads
	// one reading takes 1 ms; it is then repeated once a second.
	sourceShare = 0.001
	// atLeast is how many threads of either kind are read in each look.
	atLeast = 8
)

// pace keeps running means of what looks cost, in ns of CPU time: the fixed part,
// and one thread that ran lately (active) or did not (quiet).
type pace struct{ fixed, active, quiet float64 }

// learn takes the costs of one look in which so many threads were read.
func (p *pace) learn(fixed, active, quiet int64, nActive, nQuiet int) {
	mean := func(v *float64, sum int64, n int) {
		switch x := float64(sum) / float64(n); {
		case n == 0:
		case *v == 0:
			*v = x
		default:
			*v += (x - *v) / 16
		}
	}
	mean(&p.fixed, fixed, 1)
	mean(&p.active, active, nActive)
	mean(&p.quiet, quiet, nQuiet)
}

// plan returns the time until the next look and how many of the active and of the
// quiet threads it reads. Spent is the share of a CPU that recording took so far.
func (p *pace) plan(active, quiet int, spent float64) (period time.Duration, nActive, nQuiet int) {
	share := share
	if spent > thrift {
		share /= 2
	}
	a, q := max(p.active, p.quiet, 1), max(p.quiet, 1)
	within := func(cost float64, most time.Duration) time.Duration {
		return time.Duration(min(max(cost/share, float64(shortest)), float64(most)))
	}
	least := float64(min(quiet, atLeast)) * q
	period = max(
		within(p.fixed+float64(active)*a+float64(quiet)*q, leisurely),
		within(p.fixed+float64(active)*a+least, longest))
	left := share*float64(period) - p.fixed
	fit := func(cost, each float64) int { return max(int(cost/each+0.01), atLeast) } // a period is whole ns
	nActive = min(active, fit(left-least, a))
	nQuiet = min(quiet, fit(left-float64(nActive)*a, q))
	return period, nActive, nQuiet
}
