// Package timelinetest makes timelines out of short readable scripts, so that
// the golden case of a rule can be read beside the rule. Tests only.
package timelinetest

import (
	"fmt"
	"io"
	"slices"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Epoch is the trace clock at a script's instant 0. It is not zero, as in no
// real trace.
const Epoch gotrace.Time = 1e9

// Builder makes a stream of events that a runtime could have written. Methods
// return an error, and add nothing, when the event could not happen in the
// state that the events before led to. Instants are nanoseconds since Epoch and
// never go back.
//
// A goroutine's first event is its status, unless another gives birth to it: it
// has been so since the trace began, and a status has no reason.
type Builder struct {
	Stacks *gotrace.Stacks

	events []gotrace.Event
	now    gotrace.Time
	gs     map[gotrace.GoID]*goroutine
	ps     map[gotrace.ProcID]*proc
	ranges map[string]bool
	tasks  map[gotrace.GoID]gotrace.TaskID
	on     map[gotrace.ProcID]gotrace.ThreadID
	ntasks gotrace.TaskID
}

type goroutine struct {
	state gotrace.State // NotExist when dead
	p     gotrace.ProcID
}

type proc struct {
	running bool
	g       gotrace.GoID
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder {
	return &Builder{
		Stacks: gotrace.NewStacks(), gs: map[gotrace.GoID]*goroutine{}, ps: map[gotrace.ProcID]*proc{},
		ranges: map[string]bool{}, tasks: map[gotrace.GoID]gotrace.TaskID{},
		on: map[gotrace.ProcID]gotrace.ThreadID{},
	}
}

// Stack interns a stack given by the names of its functions, innermost first.
func (b *Builder) Stack(functions ...string) gotrace.StackID {
	return b.Stacks.Intern(func(yield func(gotrace.Frame) bool) {
		for i, f := range functions {
			// The pc stands for the name: equal stacks are those of equal names.
			h := uint64(14695981039346656037)
			for _, c := range []byte(f) {
				h = (h ^ uint64(c)) * 1099511628211
			}
			if !yield(gotrace.Frame{PC: h, Func: f, File: "script.go", Line: i + 1}) {
				return
			}
		}
	})
}

// At moves the clock.
func (b *Builder) At(ns int64) error {
	if t := Epoch + gotrace.Time(ns); t >= b.now {
		b.now = t
		return nil
	}
	return fmt.Errorf("time goes back from %d ns", b.now-Epoch)
}

// add appends an event at the current instant, by nobody unless said.
func (b *Builder) add(e gotrace.Event) {
	e.Time = max(b.now, Epoch)
	e.M = gotrace.ThreadID(e.P)
	if m, ok := b.on[e.P]; ok {
		e.M = m
	}
	b.events = append(b.events, e)
}

// by returns an event of a kind emitted by a running goroutine.
func (b *Builder) by(k gotrace.Kind, g gotrace.GoID, stack gotrace.StackID) (gotrace.Event, error) {
	me := b.gs[g]
	if me == nil || me.state != gotrace.Running {
		return gotrace.Event{}, fmt.Errorf("g%d does not run", g)
	}
	return gotrace.Event{Kind: k, G: g, P: me.p, Stack: stack, Go: gotrace.NoGoroutine, Proc: gotrace.NoProc}, nil
}

func nobody(k gotrace.Kind) gotrace.Event {
	return gotrace.Event{Kind: k, G: gotrace.NoGoroutine, P: gotrace.NoProc, Go: gotrace.NoGoroutine, Proc: gotrace.NoProc}
}

// Procs says what GOMAXPROCS is.
func (b *Builder) Procs(n int) { b.Metric("/sched/gomaxprocs:threads", uint64(n)) }

// Metric tells the value of a metric, named as in runtime/metrics.
func (b *Builder) Metric(name string, value uint64) {
	e := nobody(gotrace.KindMetric)
	e.Name, e.Value = name, value
	b.add(e)
}

// Heap and Goal tell the size of the heap and its goal, in bytes.
func (b *Builder) Heap(bytes uint64) { b.Metric("/memory/classes/heap/objects:bytes", bytes) }
func (b *Builder) Goal(bytes uint64) { b.Metric("/gc/heap/goal:bytes", bytes) }

// Busy makes a P run, or says that it does; Idle makes it idle.
func (b *Builder) Busy(p gotrace.ProcID) error { return b.procState(p, true, gotrace.NoProc) }

// On says which thread has a P from now on, or will take it; before it is the one
// with the P's id.
func (b *Builder) On(p gotrace.ProcID, m gotrace.ThreadID) { b.on[p] = m }

// Idle is the P's end of work. With by it is another P that takes it away from
// a goroutine in a system call.
func (b *Builder) Idle(p, by gotrace.ProcID) error { return b.procState(p, false, by) }

func (b *Builder) procState(p gotrace.ProcID, run bool, by gotrace.ProcID) error {
	e := nobody(gotrace.KindProc)
	e.Proc, e.P, e.From, e.To = p, p, gotrace.Idle, gotrace.Idle
	if by != gotrace.NoProc {
		e.P = by
	}
	me := b.ps[p]
	switch {
	case p < 0:
		return fmt.Errorf("no P")
	case me == nil:
		me = &proc{g: gotrace.NoGoroutine}
		b.ps[p] = me
		e.From = gotrace.Undetermined
	case me.running == run:
		return fmt.Errorf("p%d is so already", p)
	case me.running:
		e.From = gotrace.Running
	}
	if run {
		e.To = gotrace.Running
	} else if me.g != gotrace.NoGoroutine {
		holder := b.gs[me.g]
		if holder.state != gotrace.Syscall || by == gotrace.NoProc {
			return fmt.Errorf("p%d runs g%d", p, me.g)
		}
		holder.p, me.g = gotrace.NoProc, gotrace.NoGoroutine
	}
	me.running = run
	b.add(e)
	return nil
}

// Runs makes a runnable goroutine run on a P, which becomes busy if it was not.
// Only a first status has a stack.
func (b *Builder) Runs(g gotrace.GoID, p gotrace.ProcID, stack gotrace.StackID) error {
	me, on := b.gs[g], b.ps[p]
	switch {
	case g < 0 || me != nil && me.state != gotrace.Runnable:
		return fmt.Errorf("g%d is not runnable", g)
	case on != nil && on.g != gotrace.NoGoroutine:
		return fmt.Errorf("p%d runs g%d", p, on.g)
	}
	if on == nil || !on.running {
		if err := b.Busy(p); err != nil {
			return err
		}
	}
	e := nobody(gotrace.KindGo)
	e.P, e.Go = p, g
	if me == nil {
		e.Stack, e.GoStack = stack, stack
	}
	b.change(e, gotrace.Running)
	b.gs[g].p, b.ps[p].g = p, g
	return nil
}

// change adds a transition of e.Go from its present state, and leaves its P
// unless it goes on to hold it.
func (b *Builder) change(e gotrace.Event, to gotrace.State) {
	me := b.gs[e.Go]
	e.From, e.To = gotrace.Undetermined, to
	if me == nil {
		me = &goroutine{p: gotrace.NoProc}
		b.gs[e.Go] = me
	} else {
		e.From = me.state
	}
	me.state = to
	if me.p != gotrace.NoProc && to != gotrace.Running && to != gotrace.Syscall {
		b.ps[me.p].g = gotrace.NoGoroutine
		me.p = gotrace.NoProc
	}
	b.add(e)
}

// own is a change of a running goroutine's state by itself. A goroutine never
// seen before has that state as its first status, if that may be.
func (b *Builder) own(g gotrace.GoID, to gotrace.State, reason string, stack gotrace.StackID, mayBegin bool) error {
	if b.gs[g] == nil && mayBegin && g >= 0 {
		if reason != "" {
			return fmt.Errorf("the first status of g%d has no reason in a trace", g)
		}
		e := nobody(gotrace.KindGo)
		e.Go, e.Stack, e.GoStack = g, stack, stack
		b.change(e, to)
		return nil
	}
	e, err := b.by(gotrace.KindGo, g, stack)
	if err != nil {
		return err
	}
	e.Go, e.GoStack, e.Reason = g, stack, reason
	b.change(e, to)
	return nil
}

// Waits blocks a goroutine.
func (b *Builder) Waits(g gotrace.GoID, reason string, stack gotrace.StackID) error {
	return b.own(g, gotrace.Waiting, reason, stack, true)
}

// Yields makes a running goroutine runnable.
func (b *Builder) Yields(g gotrace.GoID, reason string, stack gotrace.StackID) error {
	return b.own(g, gotrace.Runnable, reason, stack, true)
}

// Calls begins a system call; the goroutine keeps its P until somebody takes it.
func (b *Builder) Calls(g gotrace.GoID, stack gotrace.StackID) error {
	return b.own(g, gotrace.Syscall, "", stack, true)
}

// Ends is a goroutine's death.
func (b *Builder) Ends(g gotrace.GoID) error { return b.own(g, gotrace.NotExist, "", 0, false) }

// Returns ends a system call: the goroutine runs on if it still has its P, and
// else it is runnable.
func (b *Builder) Returns(g gotrace.GoID) error {
	me := b.gs[g]
	if me == nil || me.state != gotrace.Syscall {
		return fmt.Errorf("g%d is not in a system call", g)
	}
	e := nobody(gotrace.KindGo)
	e.G, e.Go, e.P = g, g, me.p
	to := gotrace.Running
	if me.p == gotrace.NoProc {
		to = gotrace.Runnable
	}
	b.change(e, to)
	return nil
}

// Wakes makes a waiting goroutine runnable: a running goroutine does, or with
// none a P in its scheduler, or with neither a thread without a P.
func (b *Builder) Wakes(by gotrace.GoID, on gotrace.ProcID, whom gotrace.GoID, stack gotrace.StackID) error {
	if x := b.gs[whom]; x == nil || x.state != gotrace.Waiting || by == whom {
		return fmt.Errorf("g%d does not wait", whom)
	}
	e, err := b.emit(by, on, stack)
	if err != nil {
		return err
	}
	e.Go = whom
	b.change(e, gotrace.Runnable)
	return nil
}

// Starts gives birth to a goroutine; root is its own stack.
func (b *Builder) Starts(by gotrace.GoID, on gotrace.ProcID, whom gotrace.GoID, stack, root gotrace.StackID) error {
	if whom < 0 || b.gs[whom] != nil {
		return fmt.Errorf("g%d exists", whom)
	}
	e, err := b.emit(by, on, stack)
	if err != nil {
		return err
	}
	b.gs[whom] = &goroutine{state: gotrace.NotExist, p: gotrace.NoProc}
	e.Go, e.GoStack = whom, root
	b.change(e, gotrace.Runnable)
	return nil
}

func (b *Builder) emit(by gotrace.GoID, on gotrace.ProcID, stack gotrace.StackID) (gotrace.Event, error) {
	if by != gotrace.NoGoroutine {
		return b.by(gotrace.KindGo, by, stack)
	}
	e := nobody(gotrace.KindGo)
	if on != gotrace.NoProc {
		if p := b.ps[on]; p == nil || !p.running || p.g != gotrace.NoGoroutine {
			return e, fmt.Errorf("p%d is not in its scheduler", on)
		}
		e.P = on
	}
	return e, nil
}

// Label labels a running goroutine until it stops.
func (b *Builder) Label(g gotrace.GoID, name string) error {
	e, err := b.by(gotrace.KindLabel, g, 0)
	if err == nil {
		e.Go, e.Name = g, name
		b.add(e)
	}
	return err
}

// Range begins, repeats or ends a range: of g for assists and stops, of the
// process for the GC's mark phase.
func (b *Builder) Range(k gotrace.Kind, g gotrace.GoID, name string, stack gotrace.StackID) error {
	e := nobody(k)
	if g != gotrace.NoGoroutine {
		var err error
		if e, err = b.by(k, g, stack); err != nil {
			return err
		}
	}
	key := name
	if e.Name = name; name != markPhase {
		key = fmt.Sprint(name, g)
		e.Scope, e.Go = gotrace.ScopeGo, g
	}
	if ending := k == gotrace.KindRangeEnd; ending != b.ranges[key] && k != gotrace.KindRangeActive {
		return fmt.Errorf("%q open: %v", name, b.ranges[key])
	}
	b.ranges[key] = k != gotrace.KindRangeEnd
	b.add(e)
	return nil
}

const markPhase = "GC concurrent mark phase"

// Task begins a task on a running goroutine, Done ends its task.
func (b *Builder) Task(g gotrace.GoID, name string) error {
	return b.TaskWithin(g, name, 0, gotrace.BackgroundTask)
}

// TaskWithin begins a task on a running goroutine, at a stack and within another task.
func (b *Builder) TaskWithin(g gotrace.GoID, name string, at gotrace.StackID, parent gotrace.TaskID) error {
	e, err := b.by(gotrace.KindTaskBegin, g, at)
	if err != nil || b.tasks[g] != 0 {
		return fmt.Errorf("g%d cannot begin a task: %v", g, err)
	}
	b.ntasks++
	b.tasks[g] = b.ntasks
	e.Name, e.Task, e.Parent = name, b.ntasks, parent
	b.add(e)
	return nil
}

// Done ends the task of a running goroutine.
func (b *Builder) Done(g gotrace.GoID) error {
	e, err := b.by(gotrace.KindTaskEnd, g, 0)
	if err != nil || b.tasks[g] == 0 {
		return fmt.Errorf("g%d cannot end a task: %v", g, err)
	}
	e.Task = b.tasks[g]
	delete(b.tasks, g)
	b.add(e)
	return nil
}

// Hands lets the task that one goroutine began, or was handed, be ended by another one. A goroutine that does
// not exist keeps it meanwhile, like a queue.
func (b *Builder) Hands(from, to gotrace.GoID) error {
	if b.tasks[from] == 0 || b.tasks[to] != 0 {
		return fmt.Errorf("g%d cannot hand a task to g%d", from, to)
	}
	b.tasks[to] = b.tasks[from]
	delete(b.tasks, from)
	return nil
}

// Sample is a CPU profile sample; without a goroutine it only tells the time.
func (b *Builder) Sample(g gotrace.GoID, stack gotrace.StackID) {
	e := nobody(gotrace.KindSample)
	e.G, e.Stack = g, stack
	b.add(e)
}

// Sync begins a generation: every state is told again.
func (b *Builder) Sync() {
	b.add(nobody(gotrace.KindSync))
	for _, p := range keys(b.ps) {
		e := nobody(gotrace.KindProc)
		e.Proc, e.From, e.To = p, gotrace.Idle, gotrace.Idle
		if b.ps[p].running {
			e.From, e.To = gotrace.Running, gotrace.Running
		}
		b.add(e)
	}
	for _, g := range keys(b.gs) {
		if s := b.gs[g].state; s != gotrace.NotExist {
			e := nobody(gotrace.KindGo)
			e.Go, e.From, e.To = g, s, s
			b.add(e)
		}
	}
}

func keys[K gotrace.GoID | gotrace.ProcID, V any](m map[K]V) []K {
	ks := make([]K, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// Source returns the events so far.
func (b *Builder) Source() timeline.Source {
	return Events(slices.Clone(b.events), b.Stacks)
}

// Events is a source of events, which it takes, also of such as no runtime writes.
func Events(list []gotrace.Event, stacks *gotrace.Stacks) timeline.Source {
	return &source{list, stacks}
}

type source struct {
	events []gotrace.Event
	stacks *gotrace.Stacks
}

func (s *source) Next(ev *gotrace.Event) error {
	if len(s.events) == 0 {
		return io.EOF
	}
	*ev, s.events = s.events[0], s.events[1:]
	return nil
}

func (s *source) Stacks() *gotrace.Stacks { return s.stacks }
func (s *source) Version() string         { return "go1.26" }
