package cause

import (
	"fmt"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/timeline"
)

const (
	// ContendedMin is the part of the slow requests' running time from which on locks of
	// the runtime dominate what is done between.
	ContendedMin = 0.5
	// SpinMin is the part of that in which somebody must wait for the lock. Of threads that
	// have locks of their own it is up to 0.15; of those that share one, and need 2.5 to
	// 3.5 times as long for what they do, 0.4 or more.
	SpinMin = 0.25
)

// Contended is what slow requests spend in locks of the runtime.
type Contended struct {
	// Where is the place of most CPU samples of it, nil if none is in the target's own
	// code; Of is what it called that needs the lock. Samples is their number.
	Where   *Place
	Of      string
	Samples int
	// Part is the part of the running time in locks, Waits what part of that somebody
	// waits for one, or ends the wait of others. Asleep is the part of the running time
	// in which their threads were on no CPU and did not want one; it is in both.
	Part, Waits, Asleep float64
	// Running is the part of the running time that is explained so: all but what
	// threads waited for a CPU. Known says that Asleep is; else it may be up to Off.
	Running, Off float64
	Known        bool

	// onCPU is Part of what ran on a CPU, spins the part of that which waits.
	onCPU, spins float64
}

// Contended measures the tail requests.
func (c *Case) Contended() Contended {
	var l Contended
	all, spinning := 0, 0
	called := map[string]int{}
	of := c.sampleOf(c.Tail)
	l.Where, _ = c.hottest(func(s timeline.Sample) bool {
		if !of(s) {
			return false
		}
		all++
		f, spins := blame.RuntimeLock(c.A.Timeline().Stacks.Frames(s.Stack))
		if f == "" {
			return false
		}
		l.Samples++
		if spins {
			spinning++
		}
		if called[f]++; called[f] > called[l.Of] || called[f] == called[l.Of] && f < l.Of {
			l.Of = f
		}
		return true
	})
	l.onCPU, l.spins = float64(l.Samples)/float64(max(1, all)), float64(spinning)/float64(max(1, l.Samples))
	f := c.OnCPUOf(c.Tail)
	on := 1.0
	if f.Known {
		on = min(1, f.Value)
	}
	l.Off = 1 - on
	l.asleep(c, f)
	if l.onCPU < SpinMin { // then it is not clear that they slept for locks
		l.Asleep = 0
	}
	l.with(on, l.onCPU, l.spins, l.Asleep)
	return l
}

// with sets what follows from the part of the running time that was on a CPU, what part
// of that is in locks, what part of this spins, and the part asleep.
func (l *Contended) with(on, locks, spins, asleep float64) {
	in := locks*on + asleep
	l.Running = on + asleep
	l.Part = in / max(l.Running, 1e-9)
	l.Waits = (spins*locks*on + asleep) / max(in, 1e-9)
}

// asleep finds out how long threads slept: on no CPU, and not waiting for one. The host
// knows how long all threads of the process waited; so much is taken off.
func (l *Contended) asleep(c *Case, f Fraction) {
	_, doubt := c.Stolen()
	if _, known := c.hostCPU(); !known || !f.Known || doubt {
		return
	}
	if t := c.Throttling(); t != nil && t.Tail >= StoppedMin {
		return
	}
	ran := f.Expected * SamplePeriod / float64(max(1, len(c.Tail)))
	l.Asleep, l.Known = max(0, l.Off-c.Lateness()/max(ran, 1)), true
}

// Evidence says what speaks for and against locks of the runtime.
func (l Contended) Evidence(c *Case) []Evidence {
	in := Evidence{
		Text:  fmt.Sprintf("%s of the time that slow requests ran is in locks of the runtime; in %s of that somebody waits for one, by spinning or asleep", Pct(l.Part), Pct(l.Waits)),
		Holds: Of(l.dominates()), Decides: true, Number: l.Part,
	}
	// A thread that wakes up because the lock is free waits for a CPU too, as one does that
	// others keep from it.
	if more := l; in.Holds == No && l.Off > l.Asleep {
		more.with(1-l.Off, l.onCPU, l.spins, l.Off)
		if l.onCPU >= SpinMin && more.dominates() {
			in.Holds = Unknown
			in.Alike, in.Record = append([]string{"expensive-request"}, OffCPUCauses...), RecordHost
			if l.Known {
				in.Alike, in.Record = []string{"expensive-request", "host-contention"}, recordKernel
			}
			in.Text += fmt.Sprintf("; on no CPU they were for %s, for which reason is unknown", Pct(l.Off))
		}
	}
	enough := Evidence{
		Text:  fmt.Sprintf("%d CPU samples of slow requests are in them, most of them for %s", l.Samples, l.Of),
		Holds: Yes, Decides: true, Number: float64(l.Samples),
		Alike: []string{"expensive-request"}, Record: "longer, with more slow requests in it",
	}
	if l.Samples < MinDoubt {
		enough.Holds = Unknown
	}
	if !l.Known {
		return []Evidence{in, enough, c.CPUEvidence("the slow requests' code", c.OnCPUOf(c.Tail))}
	}
	awake := Evidence{
		Text:  fmt.Sprintf("while it ran, the slow requests' code was on a CPU for %s of the time, and its thread slept for %s without wanting one", Pct(1-l.Off), Pct(l.Asleep)),
		Holds: Yes, Decides: true, Number: l.Running,
	}
	if l.Running < OnCPUMin {
		awake = c.keptOff(awake)
	}
	return []Evidence{in, enough, awake}
}

func (l Contended) dominates() bool { return l.Part >= ContendedMin && l.Waits >= SpinMin }
