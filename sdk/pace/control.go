package pace

import (
	"math"
	"time"
)

const (
	// period is how often the controller decides. The scheduler's histogram has some tens of samples in
	// it, and the probe of the network ten.
	period = 100 * time.Millisecond
	// minTarget: shorter delays are noise of the kernel.
	minTarget = 100 * time.Microsecond
	// What was taken comes back in 20 steps, 2 s: additive up, multiplicative down, as TCP does it.
	upSteps = 20
	// defaultSlice is the longest slice: with 10 ms there is nearly as much work done as without pacing.
	defaultSlice = 10 * time.Millisecond
	// contended is the longest slice while the foreground wants the CPUs.
	contended = time.Millisecond
	// After the group was stopped it is 200, 20 s: whether it was is looked at once a second, and by then all would have come back.
	stoppedSteps = 200
	// headroom is the part of a CPU quota that is used: who uses all of it is stopped, foreground and all.
	headroom = 0.9
)

// signals is what the controller looks at.
type signals struct {
	// wakeup is the second longest of ten wake-ups through the network poller: of the scheduler's own
	// histogram a goroutine is no part while its data lies in the kernel and nobody looks.
	wakeup time.Duration
	// late is how many goroutines of the foreground waited for a P longer than the target.
	late int
	// stop is the longest time that the world stood still.
	stop time.Duration
	// throttled is whether the kernel stopped the group as its quota was used up.
	throttled bool
	// room is what the foreground leaves of the quota, in cores; +Inf without a quota.
	room float64
}

// control decides how much the background may run:
//
//	wake-ups, goroutines, stops ── longer than the target? ──┬── yes ─► half the allowance, half the slice
//	quota ── was the group stopped? ─────────────────────────┘   no ──► a twentieth of all more, 0.5 ms more
//	         half of what there was then, and slowly more ────────────► no allowance above that
//	quota ── 90 % of it less the foreground's CPU time ───────────────► no allowance above that
//	                                                                    none below the floor
//
// It is a state machine without a clock: its caller steps it once in a period.
type control struct {
	target  time.Duration // 0: only the quota counts
	most    float64       // cores, the permits
	floor   float64
	longest time.Duration // slice

	allowance float64
	left      float64 // by the quota, as the group was stopped with twice as much; +Inf: nothing is known
	slice     time.Duration
}

func newControl(o Options, permits int) control {
	c := control{target: o.Target, floor: o.Floor, longest: o.Slice}
	if c.longest == 0 {
		c.longest = defaultSlice
	}
	c.slice = c.longest
	c.allowance, c.left = math.Inf(1), math.Inf(1)
	c.bound(permits)
	return c
}

// bound sets how many permits there are at most.
func (c *control) bound(permits int) {
	c.most = float64(permits)
	c.allowance = min(c.allowance, c.most)
}

// step takes what was seen in a period, and reports whether the background gets less for it.
func (c *control) step(s signals) (slowed bool) {
	floor := min(c.floor, c.most)
	if c.left += c.most / stoppedSteps; c.left >= c.most {
		c.left = math.Inf(1)
	}
	late := c.target > 0 && (s.wakeup > c.target || s.late >= 2 || s.stop > c.target)
	if late || s.throttled {
		slowed = c.allowance > floor
		c.allowance /= 2
		if s.throttled {
			c.left = c.allowance
		}
		if c.target > 0 {
			c.slice = max(minSlice, c.slice/2)
		}
	} else {
		c.allowance += c.most / upSteps
		c.slice = min(c.longest, c.slice+500*time.Microsecond)
	}
	if s.room < c.allowance { // false for NaN
		slowed = slowed || s.room < c.most
		c.allowance = s.room
	}
	c.allowance = max(floor, min(c.allowance, c.left, c.most))
	return slowed
}

// grant is what the allowance means: how many permits, and how long a holder rests for each 1024 ns that it used.
func (c *control) grant() (permits int, rest int64) {
	permits = max(1, int(math.Ceil(c.allowance-1e-9)))
	rest = int64(1024 * (float64(permits)/c.allowance - 1))
	return permits, max(0, rest)
}
