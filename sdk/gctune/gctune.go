// Package gctune sets GOGC and the memory limit together, from a budget of memory: the most memory that
// may be used is used, and where the budget is too small the collector gets more rather than run all the time.
//
//	t, err := gctune.New(gctune.Options{Logger: slog.Default()})
//	if err != nil {
//		return err
//	}
//	defer t.Stop()
//
// See the README for when not to use it.
package gctune

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
)

var (
	// ErrNoBudget: Options.Budget is 0, there is no memory limit, and no control group has one that can be read.
	ErrNoBudget = errors.New("gctune: no budget")
	// ErrShared: Options.Budget and Reserve are 0, and other processes count against the same limit.
	ErrShared = errors.New("gctune: the memory limit is shared with other processes")
	// ErrRunning: there is a Tuner that was not stopped. GOGC and the memory limit are the process's.
	ErrRunning = errors.New("gctune: another tuner runs in this process: stop it first")
)

// Options are those of a tuner. Their zero value takes the budget from the control groups.
type Options struct {
	// Budget is the memory in bytes that the Go runtime may use: heap, stacks and its own, as a memory limit counts it. At least 16 MiB.
	// It takes precedence over all limits. 0: the lowest of the memory limits (max and high) of the process's control groups, which
	// is looked at each second, so that the budget follows it; or, if that is lower or all there is, the memory limit that is in
	// force when New is called (GOMEMLIMIT), which then remains as it is while the budget suffices.
	Budget int64
	// Reserve is how much of the budget is not for the Go runtime, in bytes: C, memory maps, other processes, files that have to
	// stay in the page cache. 0: nothing of Budget, a twentieth of a control group's limit (the program's text, kernel buffers).
	Reserve int64
	// Ceiling is how much memory in bytes may be used where the budget is too small: the memory limit is raised to a sixteenth below
	// it, and GOGC becomes up to 800. If that is too small too, the collector may run all the time: the limit is never let
	// go if Ceiling is Budget. 0: memory has no bound, but GOGC has. With a Budget that is what
	// it was before New (100 if it was off): the process becomes no larger than it would be without a tuner, unless GOMEMLIMIT held it:
	// one at the budget or below is let go of. With the limit of a control
	// group it is 25, as who exceeds that is killed: that happens when the live heap is more than about 0.7 of it, and the load is such that
	// the collector would run all the time. A memory limit above the budget that was set before New remains in force then.
	Ceiling int64
	// GCShare is how much of the CPU time used the collector may take where the budget is too small, more than 0 and at most 0.4: more CPU
	// time for less memory. 0 is 0.25, what the runtime plans for a cycle (gcBackgroundUtilization).
	GCShare float64
	// AssistShare is how much of the program's own time may be for helping the collector there, between 0 and 1.
	// These are the moments at which a request waits for it. 0 is 0.1.
	AssistShare float64
	// Logger is told each decision and its reason, a line each: at level Warn when the budget is left or the tuner yields, Debug when
	// GOGC is trimmed while it leads, else Info. Its handler is called by the tuner's goroutine, and by New and Stop: it must not call
	// Stop, and a panic of it is the program's. nil: nothing is logged.
	Logger *slog.Logger
}

// State is what a tuner has decided until now. It is a value.
type State struct {
	// Decision is the last one; its Cycle, Live, Room, GCShare and AssistShare are of the last garbage collection.
	Decision
	// Source says where the budget is from: "Options.Budget", "GOMEMLIMIT" or the path of a control group.
	Source string
	// Decisions counts those that changed something, LetGo those that let go of the limit.
	Decisions, LetGo uint64
}

// running is whether there is a tuner: what it sets is the process's.
var running atomic.Bool

// Tuner sets GOGC and the memory limit of this process until it is stopped. Its methods may be called by any number
// of goroutines.
type Tuner struct {
	logger *slog.Logger
	budget budget
	gauge  *gauge
	law    *law
	asked  settings // what was in force before
	put    settings // what was set last

	ended chan struct{} // a cycle
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once

	mu    sync.Mutex
	state State
}

// New takes over GOGC and the memory limit and starts a goroutine, which Stop ends. An error says what to do, and then nothing was set.
// It wraps ErrNoBudget, ErrShared or ErrRunning where it is one of these.
func New(o Options) (*Tuner, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	if !running.CompareAndSwap(false, true) {
		return nil, ErrRunning
	}
	t := &Tuner{logger: o.Logger, gauge: newGauge(), ended: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	r := t.gauge.read()
	t.asked = settings{r.gogc, r.limit}
	t.put = t.asked
	b, err := findBudget(o, r.limit)
	if err != nil {
		running.Store(false)
		return nil, err
	}
	t.budget = b
	raised, most := o.lead(b, t.asked)
	t.law = newLaw(b.bytes, raised, most, o.GCShare, o.AssistShare)
	t.look()
	go t.run()
	return t, nil
}

func (o Options) filled() (Options, error) {
	if o.GCShare == 0 {
		o.GCShare = 0.25
	}
	if o.AssistShare == 0 {
		o.AssistShare = 0.1
	}
	switch {
	case o.Budget < 0 || o.Reserve < 0 || o.Ceiling < 0:
		return o, errors.New("gctune: Budget, Reserve or Ceiling is negative")
	case o.Budget > 0 && o.Budget-o.Reserve < smallest:
		return o, fmt.Errorf("gctune: Budget less Reserve is %s: it has to be %s at least", size(o.Budget-o.Reserve), size(smallest))
	case o.Ceiling > 0 && o.Ceiling < max(o.Budget, smallest):
		return o, fmt.Errorf("gctune: Ceiling is %s: it has to be Budget at least", size(o.Ceiling))
	case !(o.GCShare > 0 && o.GCShare <= spiral):
		return o, fmt.Errorf("gctune: GCShare is %v: it has to be more than 0 and at most %v", o.GCShare, spiral)
	case !(o.AssistShare > 0 && o.AssistShare < 1):
		return o, fmt.Errorf("gctune: AssistShare is %v: it has to be between 0 and 1", o.AssistShare)
	}
	return o, nil
}

// lead returns how far the limit is raised while GOGC leads, and what GOGC is then at most.
func (o Options) lead(b budget, before settings) (raised int64, most int) {
	if o.Ceiling > 0 {
		return limit(o.Ceiling), ceiling
	}
	raised, most = math.MaxInt64, before.gogc
	if before.limit > b.bytes {
		raised = before.limit
	}
	switch {
	case b.enforced:
		most = floor
	case most < 0:
		most = usual
	}
	return raised, min(max(most, floor), ceiling)
}

// State returns what was decided until now.
func (t *Tuner) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// Metrics tells the state as numbers:
//
//	gctune_mode                     0 within, 1 over, 2 yielded, 3 stopped
//	gctune_gogc_percent             -1 is off
//	gctune_limit_bytes              left out if there is none
//	gctune_budget_bytes             less the reserve
//	gctune_live_bytes, gctune_room_percent, gctune_gc_share_ratio, gctune_assist_share_ratio
//	                                of the last garbage collection
//	gctune_decisions_total, gctune_let_go_total
func (t *Tuner) Metrics(emit func(name string, value float64)) {
	s := t.State()
	emit("gctune_mode", float64(s.Mode))
	emit("gctune_gogc_percent", float64(s.GOGC))
	if s.Limit != math.MaxInt64 {
		emit("gctune_limit_bytes", float64(s.Limit))
	}
	emit("gctune_budget_bytes", float64(s.Budget))
	emit("gctune_live_bytes", float64(s.Live))
	emit("gctune_room_percent", float64(s.Room))
	emit("gctune_gc_share_ratio", s.GCShare)
	emit("gctune_assist_share_ratio", s.AssistShare)
	emit("gctune_decisions_total", float64(s.Decisions))
	emit("gctune_let_go_total", float64(s.LetGo))
}
