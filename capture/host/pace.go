package host

import "time"

// Recording costs less than a hundredth of a CPU. A look at the process has a
// part that does not depend on the number of threads, and one that grows with it:
// to read the counters of one thread takes 2 us, 6 the first time, and a process may have 10,000
// of them. So the period between looks and the number of threads in each follow from
// what looks have cost so far. Threads that ran lately are read first, in every look if the budget
// allows it; the others in turn.
const (
	// shortest and longest are the bounds of the period: 50 and 2 looks a second.
	// leisurely is the longest that is chosen just to read all the quiet threads each time.
	shortest  = 20 * time.Millisecond
	leisurely = 100 * time.Millisecond
	longest   = 500 * time.Millisecond
	// share of a CPU that a recording takes from opening its files to closing them. The rest to
	// a hundredth is for what it cannot measure of itself: threads of the runtime that wake up, and
	// the collection of garbage.
	share = 0.007
	// settled is the time by which what the beginning cost above that share is made up for, and
	// soon how fast it is later.
	settled, soon = 10 * time.Second, 2 * time.Second
	// least is the part of share that looks always have.
	least = 0.1
	// endCost is what is left for the end: to go through the machine's table of TCP connections
	// takes 6 ms, even if there are none.
	endCost = 8 * time.Millisecond
	// endsCost is the CPU time for each kind of threads in the first and in the last look.
	endsCost = 5 * time.Millisecond
	// sourceShare is the share for each source that does not belong to one
	// thread: the machine, the cgroups, the process. On a large machine or with many threads
	// one reading takes 1 ms; it is then repeated every two seconds. tellingShare is that of the
	// machine's CPU times, of each cgroup's stops, of the process's faults, of the network and of the queues of connections: who had the
	// CPUs while threads waited for one, and whether faults or lost segments belong to slow requests, shows
	// only if nothing is smeared over more than a look. listShare is that of listing threads.
	sourceShare  = 0.0005
	tellingShare = 0.0015
	listShare    = 0.002
	// netEvery is the least time between two readings of the network's counters: those of all CPUs are
	// added up for them. TCP waits for 200 ms or more before it sends again.
	netEvery = 500 * time.Millisecond
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

// allowance is the share of a CPU that looks may take for now, so that the recording as a whole, with
// its costly beginning and end, comes to share: elapsed is how long it runs, spent the CPU time that it took.
func allowance(elapsed, spent time.Duration) float64 {
	ahead := max(settled-elapsed, soon)
	left := share*float64(elapsed+ahead) - float64(spent+endCost)
	return min(max(left/float64(ahead), least*share), share)
}

// plan returns the time until the next look and how many of the active and of the
// quiet threads it reads, within a share of a CPU.
func (p *pace) plan(active, quiet int, share float64) (period time.Duration, nActive, nQuiet int) {
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
