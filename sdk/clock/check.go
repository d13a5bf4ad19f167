package clock

import (
	"fmt"
	"sort"
	"time"
)

// Path is how time.Now gets at the clock.
type Path int

const (
	// Unknown: this platform gives no second way to read the clock to compare with.
	Unknown Path = iota
	// VDSO: in user space, through the code that the kernel maps into each process.
	VDSO
	// NoVDSO: by system call, as the runtime found no vDSO: the kernel was booted with vdso=0,
	// a sandbox or tracer hid it, or the architecture has none.
	NoVDSO
	// NoMode: by system call, which the vDSO itself makes: the kernel's clock source
	// cannot be read in user space.
	NoMode
)

// String returns the path in a few words.
func (p Path) String() string {
	switch p {
	case VDSO:
		return "vDSO"
	case NoVDSO:
		return "system call (no vDSO)"
	case NoMode:
		return "system call (clock source)"
	}
	return "unknown"
}

// Slow reports whether each read of the clock is a system call.
func (p Path) Slow() bool { return p == NoVDSO || p == NoMode }

// slowRatio is the ratio above which time.Since is a system call itself. It is 0.14 to 0.15 with
// a vDSO and 0.96 to 1.5 without, on the machines that were tried: both sides of it are measured in one loop.
const slowRatio = 0.5

// Cost is what reading the clock costs in this process, on this machine, now.
type Cost struct {
	// Path is how time.Now gets at the clock.
	Path Path
	// Read is one time.Now, Since one time.Since (which reads one clock where time.Now
	// reads two), System one clock_gettime by system call, Coarse one [Coarse]: each the
	// median of several dozen, in nanoseconds. System is 0 where it cannot be measured.
	Read, Since, System, Coarse float64
	// Ratio is Since divided by System, 0 if that is.
	Ratio float64
	// Source is the kernel's clock source, "" if it does not say: a hint. No value
	// of it proves a path.
	Source string
}

// String tells the cost in a sentence.
func (c Cost) String() string {
	s := fmt.Sprintf("time.Now takes %.0f ns", c.Read)
	switch c.Path {
	case VDSO:
		s += fmt.Sprintf(" (vDSO; time.Since is %.2f of a system call)", c.Ratio)
	case NoVDSO:
		s += fmt.Sprintf(", two system calls: the runtime found no vDSO (time.Since is %.2f of a system call)", c.Ratio)
	case NoMode:
		s += fmt.Sprintf(", two system calls: the vDSO cannot read the clock source %s (time.Since is %.2f of a system call)", c.Source, c.Ratio)
	}
	return s
}

// Metrics tells the cost as numbers: clock_read_ratio, clock_read_ns, clock_system_call_ns,
// clock_coarse_ns and clock_slow, which is 1 where each read is a system call. What is not known
// is left out.
func (c Cost) Metrics(emit func(name string, value float64)) {
	emit("clock_read_ns", c.Read)
	emit("clock_coarse_ns", c.Coarse)
	if c.Path == Unknown {
		return
	}
	emit("clock_read_ratio", c.Ratio)
	emit("clock_system_call_ns", c.System)
	slow := 0.0
	if c.Path.Slow() {
		slow = 1
	}
	emit("clock_slow", slow)
}

// Rounds and reads per round of Check: about 0.2 ms with a vDSO, 2 ms without. A round
// is short against a time slice, and a median forgets those that were interrupted.
const rounds, reads = 31, 32

// Check measures what reading the clock costs, which takes 0.2 to 2 ms of CPU.
func Check() Cost {
	base := time.Now()
	system := systemClock()
	var now, since, sys, coarse [rounds]float64
	for i := range now {
		now[i] = perRead(func() { base = time.Now() })
		since[i] = perRead(func() { time.Since(base) })
		coarse[i] = perRead(func() { Coarse() })
		if system != nil {
			sys[i] = perRead(system)
		}
	}
	c := Cost{Read: median(now[:]), Since: median(since[:]), Coarse: median(coarse[:]), Source: source()}
	if system == nil {
		return c
	}
	c.System = median(sys[:])
	if c.System > 0 {
		c.Ratio = c.Since / c.System
	}
	direct := 0.0
	if c.Ratio >= slowRatio {
		direct = throughVDSO() / c.System
	}
	c.Path = classify(c.Ratio, direct, mapped() != 0)
	return c
}

// classify tells the path. ratio is what time.Since takes of a system call, direct what the vDSO's
// own function does: as long as a system call if it makes one. It is 0 if it cannot be called: where there is a vDSO
// nonetheless, that the runtime did not find it is less likely than that it makes the system call.
func classify(ratio, direct float64, mapped bool) Path {
	switch {
	case ratio == 0:
		return Unknown
	case ratio < slowRatio:
		return VDSO
	case direct >= slowRatio, direct == 0 && mapped:
		return NoMode
	}
	return NoVDSO
}

// throughVDSO returns what a read through the vDSO takes in nanoseconds, 0 without one.
func throughVDSO() float64 {
	fn := callable()
	if fn == 0 {
		return 0
	}
	var ns [rounds]float64
	for i := range ns {
		ns[i] = perRead(func() { readClock(fn, monotonic) })
	}
	return median(ns[:])
}

// perRead returns what one call of read takes, in nanoseconds.
func perRead(read func()) float64 {
	start := time.Now()
	for i := 0; i < reads; i++ {
		read()
	}
	return float64(time.Since(start)) / reads
}

func median(v []float64) float64 {
	sort.Float64s(v)
	return v[len(v)/2]
}
