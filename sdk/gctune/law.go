package gctune

import (
	"fmt"
	"math"
)

// Mode is what the controller does.
type Mode uint8

const (
	// Within: the heap fits the budget. GOGC is 800 and the memory limit leads, a sixteenth below the budget.
	Within Mode = iota
	// Over: the live heap is so large that the limit would make the collector run all the time. The limit is dropped, or raised
	// below Options.Ceiling, and GOGC leads.
	Over
	// Yielded: somebody else set GOGC or the memory limit. The controller sets nothing until that is put back.
	Yielded
	// Stopped: Stop was called, and the settings are restored.
	Stopped
)

// String returns the mode's name.
func (m Mode) String() string {
	return [...]string{"within", "over", "yielded", "stopped"}[min(m, Stopped)]
}

// Decision is what was set, and why, and what the last cycle was like. It is a value.
type Decision struct {
	Mode Mode
	// GOGC is in percent: 25 to 800 while the tuner sets it, -1 is off.
	GOGC int
	// Limit is the memory limit in bytes; math.MaxInt64 is none.
	Limit int64
	// Budget is in bytes, less Options.Reserve.
	Budget int64
	// Cycle is the number of the last garbage collection, and Live what it marked, in bytes: with what was allocated
	// while it ran, so it may be more than what is reachable.
	Cycle uint64
	Live  int64
	// Room is the GOGC that the budget has room for, in percent; below 0: none.
	Room int
	// GCShare is the part of the CPU time used that the last cycle took, AssistShare the part of the program's own time that it had to help
	// them; 0 to 1. Time on idle processors is not counted.
	GCShare, AssistShare float64
	// Why tells the reason in a sentence.
	Why string
}

// The numbers that the law below speaks of.
const (
	// margin is how far below the budget the limit is, as a part of it. A cycle may end at 1.1 times its goal
	// (maxOvershoot in runtime/mgcpacer.go), which is 0.97 of the limit at most: 1.067 times the limit are 1.0004 budgets.
	margin = 1.0 / 16
	// smallest is the least budget and limit, in bytes: a Go program's heap is never below 4 MiB, and its
	// tables and stacks are some more.
	smallest = 16 << 20
	// Above spiral the collector takes so much of the CPU time used that it is near the 0.5 at which the runtime stops it,
	// if it runs all the time meanwhile: it then takes at least a quarter of all processors
	// (gcBackgroundUtilization in runtime/mgcpacer.go).
	spiral     = 0.40
	allTheTime = 0.25
	// In a program that is mostly idle the collector harms nobody, whatever its share of the time used is: these
	// are parts of all processors.
	harm, harmless = 0.10, 0.05
	// doubt is for how many cycles after each other there has to be reason to let go of the limit, or one less
	// if there are two reasons: a growing heap, or a neighbour that takes the CPU away, makes a bad cycle too.
	doubt = 3
	// calm is for how many cycles after each other there has to be reason to take hold of the limit again;
	// it doubles each time that proves wrong, up to mostCalm.
	calm, mostCalm = 2, 256
	// enough is the room, in percent, at which the limit is taken hold of again: twice the floor at which it is let go.
	enough = 2 * floor
	// barely is that room after the limit was let go for patience x calm cycles: what made the collector expensive, a neighbour
	// for example, may be gone.
	barely, patience = 1.2 * floor, 32
	// usual is Go's default of GOGC, in percent, and the most that it is at first when it leads: what is measured in a spiral is not exact
	// enough to give more memory away.
	usual = 100
	// deadband is how much GOGC may be off, as a factor: below it nothing is set, as a share of one cycle is not that exact.
	deadband = 1.10
)

// law is the controller without its goroutine and without its process: it is told what was read and says what to set.
type law struct {
	budget int64   // bytes
	raised int64   // bytes to which the limit may be raised; math.MaxInt64: it is dropped
	most   int     // GOGC while it leads, in percent
	share  float64 // aim: part of the CPU time used
	ratio  float64 // the same: CPU time of the collector per CPU time of the program
	assist float64 // aim: part of the program's time
	now    Decision

	begun   bool
	last    reading
	limited uint64
	cost    cost
	pid     pid
	helped  float64 // the average of cost.assist
	room    float64 // GOGC that the budget has room for, in percent
	alarm   int     // cycles after each other with reason to let go
	quiet   int     // or to take hold
	calm    int     // how many are needed for that
	within  int     // cycles since the limit leads
	over    int     // or since GOGC does
	again   bool    // it was let go of before

	ours              settings // what was set when it yielded
	setGOGC, setLimit bool     // by somebody else then
}

func newLaw(budget, raised int64, most int, share, assist float64) *law {
	return &law{budget: budget, raised: raised, most: most, share: share, ratio: share / (1 - share), assist: assist, calm: calm}
}

// limit is where the memory limit is for a budget.
func limit(budget int64) int64 { return max(smallest, budget-int64(margin*float64(budget))) }

// step is told what was read and returns what is to be in force from now on, and whether that is new.
func (l *law) step(r reading) (d Decision, changed bool) {
	before := l.now
	switch {
	case l.now.Mode == Yielded:
		changed = l.resume(&r)
		return l.now, changed
	case !l.begun:
		l.begun, l.last, l.limited = true, r, r.limited
		l.room = r.room(float64(limit(l.budget)))
		l.hold(&r, "begins: the memory limit leads, GOGC is at its ceiling")
		return l.now, true
	case r.gogc != l.now.GOGC || r.limit != l.now.Limit:
		l.yield(&r)
		return l.now, true
	}
	ended, stuck := r.cycles != l.last.cycles, r.limited != l.limited
	if ended {
		l.room = r.room(float64(limit(l.budget)))
		var ok bool
		if l.cost, ok = r.since(&l.last); !ok {
			l.cost, ended = cost{}, false
		}
		l.last = r
	}
	l.limited = r.limited
	switch {
	case l.now.Mode == Over && ended:
		l.lead(&r)
	case l.now.Mode == Within && (ended || stuck) && l.top() > limit(l.budget): // else there is nothing to let go to
		l.guard(&r, stuck)
	}
	l.see(&r)
	if l.now.Budget != l.budget {
		l.set(l.now.Mode, l.now.GOGC, &r, fmt.Sprintf("the budget is %s now, it was %s", size(l.budget), size(before.Budget)))
	}
	return l.now, l.now.Mode != before.Mode || l.now.GOGC != before.GOGC || l.now.Limit != before.Limit || l.now.Budget != before.Budget
}

// guard looks for a death spiral while the limit leads, and lets go of the limit before it.
func (l *law) guard(r *reading, stuck bool) {
	tight := l.room < floor && l.cost.ratio > l.ratio && l.cost.capacity > harm
	spins := l.room < enough && l.cost.share > spiral && l.cost.capacity > allTheTime
	if l.within = min(l.within+1, 1<<20); l.within > 16*l.calm {
		l.calm = calm // it holds
	}
	if !tight && !spins && !stuck {
		l.alarm = 0
		return
	}
	if l.alarm++; !stuck && l.alarm < doubt && !(tight && spins && l.alarm >= doubt-1) {
		return
	}
	why := fmt.Sprintf("the budget has room for GOGC=%.0f only, below %d, and garbage collection takes %.0f %% of the CPU time used", l.room, floor, 100*l.cost.share)
	switch {
	case stuck:
		why = fmt.Sprintf("the runtime had to stop the collector in cycle %d, as it took half of the CPU time", r.limited)
	case !tight:
		why = fmt.Sprintf("garbage collection takes %.0f %% of the CPU time used and %.0f %% of all processors", 100*l.cost.share, 100*l.cost.capacity)
	}
	l.letGo(r, why)
}

// letGo begins to lead by GOGC. The first one is by the algebra, from the GOGC that was had and what it cost.
func (l *law) letGo(r *reading, why string) {
	if l.again && l.within <= 16*l.calm {
		l.calm = min(2*l.calm, mostCalm)
	}
	l.alarm, l.quiet, l.over, l.again = 0, 0, 0, true
	low, high := l.bounds()
	g := min(max(min(l.cost.gogc*l.cost.ratio/l.ratio, usual), low), high)
	l.pid, l.helped = pid{u: math.Log(g)}, l.assist
	l.set(Over, int(math.Round(g)), r, "lets go of the limit: "+why)
}

// lead chooses GOGC while the limit is dropped: the least at which the collector costs no more than the aim. What the budget has
// room for is used in any case.
func (l *law) lead(r *reading) {
	need := float64(enough)
	if l.over = min(l.over+1, 1<<20); l.over > patience*l.calm {
		need = barely
	}
	fits := l.room >= need
	low, high := l.bounds()
	// Goroutines have to assist in one cycle and not in the next: the plain average of some, and the root of it, as a little more GOGC
	// takes much of it away.
	l.helped += (l.cost.assist - l.helped) / 4
	times := max(min(l.cost.ratio/l.ratio, l.cost.capacity/min(harm, l.share)), math.Sqrt(l.helped/l.assist))
	g := l.pid.next(times, low, high)
	// What the collector would take of all processors, if the limit led again.
	then := l.cost.capacity * float64(l.now.GOGC) / max(l.room, 1)
	if !fits && (l.room < 1 || then > harmless) {
		l.quiet = 0
	} else if l.quiet++; l.quiet >= l.calm {
		why := fmt.Sprintf("the budget has room for GOGC=%.0f", l.room)
		if !fits {
			why += fmt.Sprintf(", and with that garbage collection would take %.0f %% of all processors", 100*then)
		}
		l.hold(r, "takes hold of the limit: "+why)
		return
	}
	if is := float64(l.now.GOGC); g > is*deadband || g < is/deadband {
		l.set(Over, int(math.Round(g)), r, fmt.Sprintf("garbage collection takes %.0f %% of the CPU time used and %.0f %% of the program's own time, %.2f times the aim", 100*l.cost.share, 100*l.helped, times))
	}
}

// bounds are those of GOGC, in percent, while it leads. A limit that was raised bounds the heap by itself.
func (l *law) bounds() (low, high float64) {
	low = min(max(l.room, floor), ceiling)
	if l.room >= enough {
		return low, low // no more than there is room for
	}
	return low, max(low, float64(l.most))
}

// hold lets the memory limit lead.
func (l *law) hold(r *reading, why string) {
	l.alarm, l.quiet, l.within = 0, 0, 0
	l.set(Within, ceiling, r, why)
}

// yield leaves the settings to whoever changed them.
func (l *law) yield(r *reading) {
	l.ours = settings{l.now.GOGC, l.now.Limit}
	l.setGOGC, l.setLimit = r.gogc != l.now.GOGC, r.limit != l.now.Limit
	why := "somebody set "
	if l.setGOGC {
		why += fmt.Sprintf("GOGC to %d, which was %d", r.gogc, l.now.GOGC)
	} else {
		why += fmt.Sprintf("the memory limit to %s, which was %s", size(r.limit), size(l.now.Limit))
	}
	l.set(Yielded, r.gogc, r, why+": nothing is set until that is put back")
	l.now.Limit = r.limit
}

// resume takes the settings over again when what somebody else had set is back, as by one who turned the collector off
// for a while: with what was set here it must not be left alone. What was not theirs has to be as yield left it.
func (l *law) resume(r *reading) bool {
	back := (r.gogc == l.ours.gogc || !l.setGOGC && r.gogc == l.now.GOGC) && (r.limit == l.ours.limit || !l.setLimit && r.limit == l.now.Limit)
	if !back {
		return false
	}
	l.last, l.limited, l.cost = *r, r.limited, cost{}
	l.room = r.room(float64(limit(l.budget)))
	l.hold(r, "resumes: what somebody had set is put back, and the memory limit leads")
	return true
}

// top is the limit while GOGC leads; math.MaxInt64: none.
func (l *law) top() int64 { return max(l.raised, limit(l.budget)) }

func (l *law) set(m Mode, gogc int, r *reading, why string) {
	l.now = Decision{Mode: m, GOGC: gogc, Limit: limit(l.budget), Budget: l.budget, Why: why}
	if m == Over {
		l.now.Limit = l.top()
	}
	l.see(r)
}

// see notes what the last cycle was like.
func (l *law) see(r *reading) {
	d := &l.now
	d.Cycle, d.Live, d.Room, d.GCShare, d.AssistShare = r.cycles, whole(r.live), int(l.room), l.cost.share, l.cost.assist
}

// whole makes an integer of a number of bytes, whatever it is.
func whole(f float64) int64 {
	if f > 0 && f < 1<<62 {
		return int64(f)
	}
	return 0
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n == math.MaxInt64:
		return "none"
	case n < 1<<20:
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
}
