package gotrace

import (
	"fmt"
	"math"
)

// order follows the states of goroutines, Ps and threads to find an order of the events of
// different threads. Times of different threads may disagree: events that have to wait for
// others carry sequence numbers. It knows no times.
//
// Source of the rules: internal/trace/order.go of Go 1.26. They are the same but where a
// program's own mistake (a region that is ended by another goroutine) would end the reading.
type order struct {
	gs      goroutines
	ps      map[ProcID]*proc
	ms      map[ThreadID]*thread
	tasks   map[TaskID]string
	stopped map[GoID]string // why the world was stopped, by whom
	texts   *texts
	gen     uint32 // counts generations since the states are known
	gcSeq   uint64
	gc      gcState

	// of the event that was accepted last:
	at       place // where it happened
	from, to State // of its subject, if it is a change of state
	slot     int32 // of its subject, if that is a goroutine which it names
	name     string
	lost     ProcID // a P that its thread left behind
}

// place is where an event happened.
type place struct {
	g    GoID
	p    ProcID
	m    ThreadID
	slot int32 // of g
}

type thread struct {
	id ThreadID
	g  *goroutine
	p  *proc
}

func (t *thread) place() place {
	at := place{g: NoGoroutine, p: NoProc, m: t.id}
	if t.g != nil {
		at.g, at.slot = t.g.id, t.g.slot
	}
	if t.p != nil {
		at.p = t.p.id
	}
	return at
}

type proc struct {
	id ProcID
	// on is the thread that has it.
	on     *thread
	seq    uint64
	gen    uint32
	status uint8
	sweeps bool
}

type gcState uint8

const (
	gcUnknown gcState = iota
	gcOff
	gcOn
)

// forget makes all states unknown, as at the beginning of a trace.
func (o *order) forget() {
	*o = order{
		gs: newGoroutines(), ps: map[ProcID]*proc{}, ms: map[ThreadID]*thread{},
		tasks: o.tasks, stopped: map[GoID]string{}, texts: o.texts,
	}
	if o.tasks == nil {
		o.tasks = map[TaskID]string{}
	}
}

func (o *order) thread(id ThreadID) *thread {
	t := o.ms[id]
	if t == nil {
		t = &thread{id: id}
		o.ms[id] = t
	}
	return t
}

// bind has t execute g, and no other one.
func (t *thread) bind(g *goroutine) {
	if g.on != nil && g.on != t {
		g.on.g = nil
	}
	if t.g != nil && t.g != g {
		t.g.on = nil
	}
	g.on, t.g = t, g
}

// take gives p to t.
func (t *thread) take(p *proc) {
	t.leave()
	t.p, p.on = p, t
}

// leave takes the P from t, if it has one.
func (t *thread) leave() {
	if t.p != nil && t.p.on == t {
		t.p.on = nil
	}
	t.p = nil
}

func (t *thread) unbind() {
	t.g.on = nil
	t.g = nil
}

// What an event needs of the thread it happened on.
const (
	needM = 1 << iota
	needP
	needG
	needNoP
	needNoG
	needRunning // the goroutine
	needSyscall
)

const user = needM | needP | needG

// needs is what the runtime's rules ask for. Events that may have to wait are not here: of them
// it is asked when they need not.
var needs = [256]uint8{
	evProcsChange: user, evGoLabel: user, evUserLog: user, evUserRegionBegin: user, evUserRegionEnd: user,
	evUserTaskBegin: user, evUserTaskEnd: user,
	evProcStop: needM | needP,
	evGoCreate: needM | needP, evGoCreateBlocked: needM | needP, evGoCreateSyscall: needM | needNoG,
	evGoDestroy: user | needRunning, evGoStop: user | needRunning, evGoBlock: user | needRunning,
	evGoSwitch: user | needRunning, evGoSwitchDestroy: user | needRunning,
	evGoSyscallBegin: user | needRunning, evGoSyscallEnd: user | needSyscall,
	evGoDestroySyscall: needM | needG | needSyscall,
	evSTWBegin:         user, evSTWEnd: user, evAssistBegin: user, evAssistEnd: user,
	evSweepBegin: needM | needP, evSweepEnd: needM | needP,
	evHeapAlloc: needM | needP, evHeapGoal: needM | needP,
	128: needM, 129: needM, 130: needM, 131: needM, 132: needM, 133: needM, 134: needM, 135: needM, 136: needM,
}

// lacks says what of need a thread has not, or "".
func (t *thread) lacks(need uint8) string {
	switch {
	case need&needM != 0 && t.id == NoThread:
		return "a thread"
	case need&needP != 0 && t.p == nil:
		return "a P"
	case need&needNoP != 0 && t.p != nil:
		return "no P"
	case need&needG != 0 && t.g == nil:
		return "a goroutine"
	case need&needNoG != 0 && t.g != nil:
		return "no goroutine"
	case need&needRunning != 0 && t.g.status != goRunning:
		return "a goroutine that runs"
	case need&needSyscall != 0 && t.g.status != goSyscall:
		return "a goroutine in a system call"
	}
	return ""
}

// accept takes the cursor's event if it may come next, and reports whether it did. If not, that
// of another thread has to come before; an error says that none can.
func (o *order) accept(c *cursor) (bool, error) {
	t, a := c.thread, &c.args
	if need := needs[c.kind]; need != 0 {
		if what := t.lacks(need); what != "" {
			return false, fmt.Errorf("an event of kind %d needs %s", c.kind, what)
		}
	}
	at := t.place()
	switch c.kind {
	case evGoStart:
		g := o.gs.get(GoID(a[1]))
		if g == nil || g.status != goRunnable || g.gen != o.gen || a[2] != g.seq+1 {
			return false, nil
		}
		if what := t.lacks(needM | needP | needNoG); what != "" {
			return false, fmt.Errorf("the start of a goroutine needs %s", what)
		}
		g.status, g.seq = goRunning, a[2]
		t.bind(g)
		o.from, o.to, o.slot = Runnable, Running, g.slot
	case evGoStop:
		t.g.status = goRunnable
		t.unbind()
		o.from, o.to = Running, Runnable
	case evGoBlock:
		t.g.status = goWaiting
		t.unbind()
		o.from, o.to = Running, Waiting
	case evGoUnblock:
		g := o.gs.get(GoID(a[1]))
		if g == nil || g.status != goWaiting || g.gen != o.gen || a[2] != g.seq+1 {
			return false, nil
		}
		g.status, g.seq = goRunnable, a[2]
		o.from, o.to, o.slot = Waiting, Runnable, g.slot
	case evGoSyscallBegin:
		if t.p.gen != o.gen || a[1] != t.p.seq+1 {
			return false, fmt.Errorf("a system call of number %d on a P that is at %d", a[1], t.p.seq)
		}
		t.g.status = goSyscall
		t.p.status, t.p.seq = procSyscall, a[1]
		o.from, o.to = Running, Syscall
	case evGoSyscallEnd:
		if t.p.status != procSyscall {
			return false, fmt.Errorf("the end of a system call on a P in state %d", t.p.status)
		}
		t.g.status, t.p.status = goRunning, procRunning
		o.from, o.to = Syscall, Running
	case evGoSyscallEndBlocked:
		if t.p != nil && t.p.status == procSyscall {
			return false, nil // it is going to lose that P
		}
		if what := t.lacks(needM | needG | needSyscall); what != "" {
			return false, fmt.Errorf("the end of a system call needs %s", what)
		}
		t.g.status = goRunnable
		t.unbind()
		o.from, o.to = Syscall, Runnable
	case evProcStart:
		p := o.ps[ProcID(a[1])]
		if p == nil || p.status != procIdle || p.gen != o.gen || a[2] != p.seq+1 || t.p != nil {
			return false, nil
		}
		if t.id == NoThread {
			return false, fmt.Errorf("the start of a P needs a thread")
		}
		p.status, p.seq = procRunning, a[2]
		t.take(p)
		o.from, o.to = Idle, Running
	case evProcStop:
		if t.p.status != procRunning && t.p.status != procSyscall {
			return false, fmt.Errorf("the stop of a P in state %d", t.p.status)
		}
		t.p.status = procIdle
		t.leave()
		o.from, o.to = Running, Idle
	default:
		if ok, err := o.rare(c, &at); !ok {
			return false, err
		}
	}
	if t.id == NoThread { // it is whoever has no thread
		if t.g != nil {
			t.unbind()
		}
		t.leave()
	}
	o.at = at
	return true, nil
}

// rare is accept for the kinds of events that are not most of a trace. It may say that the
// event happened elsewhere than on its thread.
func (o *order) rare(c *cursor, at *place) (bool, error) {
	t, a := c.thread, &c.args
	switch c.kind {
	case evProcSteal:
		return o.steal(c)
	case evProcStatus:
		return o.procStatus(c, at)
	case evGoStatus, evGoStatusStack:
		return o.goStatus(c, at)
	case evGoCreate, evGoCreateBlocked:
		if t.g != nil && t.g.status != goRunning {
			return false, fmt.Errorf("a goroutine that does not run makes another one")
		}
		g, err := o.born(a[1])
		if err != nil {
			return false, err
		}
		g.status, o.to = goRunnable, Runnable
		if c.kind == evGoCreateBlocked {
			g.status, o.to = goWaiting, Waiting
		}
		o.from, o.slot = NotExist, g.slot
	case evGoCreateSyscall:
		g, err := o.born(a[1])
		if err != nil {
			return false, err
		}
		g.status = goSyscall
		t.bind(g)
		o.from, o.to, o.slot = NotExist, Syscall, g.slot
	case evGoDestroy:
		o.die(t)
		o.from, o.to = Running, NotExist
	case evGoDestroySyscall:
		// The number of the thread may be used again, so it has no P from now on.
		o.lost = NoProc
		if t.p != nil {
			if t.p.status != procSyscall {
				return false, fmt.Errorf("a goroutine of C ends on a P in state %d", t.p.status)
			}
			t.p.status = procAbandoned
			o.lost = t.p.id
			t.leave()
		}
		o.die(t)
		o.from, o.to = Syscall, NotExist
	case evGoSwitch, evGoSwitchDestroy:
		g := o.gs.get(GoID(a[1]))
		if g == nil || g == t.g || g.status != goWaiting || g.gen != o.gen || a[2] != g.seq+1 {
			return false, nil
		}
		if c.kind == evGoSwitch {
			t.g.status = goWaiting
			t.unbind()
		} else {
			o.die(t)
		}
		g.status, g.seq = goRunning, a[2]
		t.bind(g)
		o.from, o.to, o.slot = Waiting, Runnable, g.slot
	case evSTWBegin:
		if t.g.stops {
			return false, fmt.Errorf("g%d stops the world twice", t.g.id)
		}
		t.g.stops = true
		o.name = o.texts.names.stop(o.texts.text(a[1]))
		o.stopped[t.g.id] = o.name
	case evSTWEnd:
		if !t.g.stops {
			return false, fmt.Errorf("g%d starts a world that it has not stopped", t.g.id)
		}
		t.g.stops = false
		o.name = o.stopped[t.g.id]
		delete(o.stopped, t.g.id)
	case evGCActive, evGCBegin, evGCEnd:
		return o.collector(c)
	case evSweepActive:
		p := o.ps[ProcID(a[1])]
		if p == nil {
			return false, fmt.Errorf("an unknown P of number %d sweeps", a[1])
		}
		if p.sweeps == (o.gen == 0) {
			return false, fmt.Errorf("p%d sweeps: %t before, in generation %d", p.id, p.sweeps, o.gen)
		}
		p.sweeps = true
	case evSweepBegin:
		if t.p.sweeps {
			return false, fmt.Errorf("p%d begins to sweep twice", t.p.id)
		}
		t.p.sweeps = true
	case evSweepEnd:
		if !t.p.sweeps {
			return false, fmt.Errorf("p%d ends to sweep and has not begun", t.p.id)
		}
		t.p.sweeps = false
	case evAssistActive:
		g := o.gs.get(GoID(a[1]))
		if g == nil {
			return false, fmt.Errorf("an unknown goroutine of number %d assists", a[1])
		}
		if g.assist == (o.gen == 0) {
			return false, fmt.Errorf("g%d assists: %t before, in generation %d", g.id, g.assist, o.gen)
		}
		g.assist = true
	case evAssistBegin:
		if t.g.assist {
			return false, fmt.Errorf("g%d begins to assist twice", t.g.id)
		}
		t.g.assist = true
	case evAssistEnd:
		if !t.g.assist {
			return false, fmt.Errorf("g%d ends to assist and has not begun", t.g.id)
		}
		t.g.assist = false
	case evUserTaskBegin:
		if _, ok := o.tasks[TaskID(a[1])]; ok {
			return false, fmt.Errorf("task %d begins twice", a[1])
		}
		o.name = o.texts.text(a[3])
		o.tasks[TaskID(a[1])] = o.name
	case evUserTaskEnd:
		o.name = o.tasks[TaskID(a[1])] // none if it began before the trace
		delete(o.tasks, TaskID(a[1]))
	}
	return true, nil
}

// born makes a goroutine that a trace says is new.
func (o *order) born(id uint64) (*goroutine, error) {
	if id > math.MaxInt64 {
		return nil, fmt.Errorf("a goroutine of number %d", id)
	}
	if o.gs.get(GoID(id)) != nil {
		return nil, fmt.Errorf("g%d is made twice", id)
	}
	g := o.gs.add(GoID(id))
	g.gen = o.gen
	return g, nil
}

// die ends the goroutine of a thread.
func (o *order) die(t *thread) {
	g := t.g
	if g.stops {
		delete(o.stopped, g.id)
	}
	t.unbind()
	o.gs.remove(g)
}

func (o *order) steal(c *cursor) (bool, error) {
	t, a := c.thread, &c.args
	p := o.ps[ProcID(a[1])]
	if p == nil || p.status != procSyscall && p.status != procAbandoned || p.gen != o.gen || a[2] != p.seq+1 {
		return false, nil
	}
	if t.id == NoThread {
		return false, fmt.Errorf("the theft of a P needs a thread")
	}
	o.from, o.to = Running, Idle
	if p.status == procAbandoned {
		// Nobody knows whom it is taken from, and it seemed to be idle before.
		o.from = Idle
		p.status, p.seq = procIdle, a[2]
		return true, nil
	}
	from := t
	if id := ThreadID(a[3]); id != t.id {
		if from = o.ms[id]; from == nil {
			return false, fmt.Errorf("p%d is stolen from an unknown thread %d", p.id, id)
		}
	}
	if from.p != p {
		return false, fmt.Errorf("p%d is stolen from thread %d, which has it not", p.id, from.id)
	}
	from.leave()
	p.status, p.seq = procIdle, a[2]
	return true, nil
}

var procStates = [...]State{procRunning: Running, procIdle: Idle, procSyscall: Running, procAbandoned: Idle}

func (o *order) procStatus(c *cursor, at *place) (bool, error) {
	t, a := c.thread, &c.args
	if a[2] == 0 || a[2] > procAbandoned || a[1] > math.MaxInt64 {
		return false, fmt.Errorf("p%d is in state %d", int64(a[1]), a[2])
	}
	id, status := ProcID(a[1]), uint8(a[2])
	o.from, o.to = procStates[status], procStates[status]
	p := o.ps[id]
	switch {
	case p == nil:
		p = &proc{id: id, status: status}
		o.ps[id] = p
		o.from = NotExist
		if o.gen == 0 {
			o.from = Undetermined
		}
	case status == procAbandoned && p.status == procSyscall:
		// It is about to be stolen, and what is known of it is more than is said here.
		o.from, o.to = Running, Running
		if p.on == nil {
			return false, fmt.Errorf("p%d is in a system call of no thread", id)
		}
		*at = p.on.place()
	case p.status != status:
		return false, fmt.Errorf("p%d is in state %d, and said to be in %d", id, p.status, status)
	}
	p.gen, p.seq = o.gen, 0
	if status == procRunning || status == procSyscall {
		t.take(p)
	}
	return true, nil
}

var goStates = [...]State{goRunnable: Runnable, goRunning: Running, goSyscall: Syscall, goWaiting: Waiting}

func (o *order) goStatus(c *cursor, at *place) (bool, error) {
	t, a := c.thread, &c.args
	if a[3] == 0 || a[3] > goWaiting || a[1] > math.MaxInt64 {
		return false, fmt.Errorf("g%d is in state %d", int64(a[1]), a[3])
	}
	id, on, status := GoID(a[1]), ThreadID(a[2]), uint8(a[3])
	o.from, o.to = goStates[status], goStates[status]
	g := o.gs.get(id)
	switch {
	case g != nil && g.status != status:
		return false, fmt.Errorf("g%d is in state %d, and said to be in %d", id, g.status, status)
	case g == nil && o.gen != 0:
		return false, fmt.Errorf("g%d appears in generation %d", id, o.gen)
	case g == nil:
		o.from = Undetermined
	}
	known := g != nil
	if !known {
		g = o.gs.add(id)
		g.status = status
	}
	g.gen, g.seq, o.slot = o.gen, 0, g.slot
	switch {
	case status == goRunning:
		if t.id != NoThread {
			t.bind(g)
		}
	case status != goSyscall:
	case on == NoThread:
		return false, fmt.Errorf("g%d is in a system call of no thread", id)
	case on == t.id:
		if o.gen != 0 && t.g != g {
			return false, fmt.Errorf("g%d is in a system call of thread %d, which has it not", id, on)
		}
		t.bind(g)
	default:
		// It has been there for all of the generation, and so has no P.
		if other := o.ms[on]; other == nil || o.gen == 0 && other.g == nil && other.p == nil {
			o.thread(on).bind(g)
		} else if other.g != g {
			return false, fmt.Errorf("g%d is in a system call of thread %d, which has it not", id, on)
		} else {
			at.g, at.slot = id, g.slot
		}
		at.m = on
	}
	return true, nil
}

// collector handles the mark phase, whose begin and end may be on different threads.
func (o *order) collector(c *cursor) (bool, error) {
	seq, t := c.args[1], c.thread
	if o.gc == gcUnknown && c.kind == evGCEnd && seq != o.gcSeq+1 {
		return false, nil
	}
	first := o.gc == gcUnknown && (c.kind == evGCBegin || c.kind == evGCActive && o.gen == 0)
	switch {
	case first:
	case c.kind == evGCActive && o.gen == 0:
		return false, fmt.Errorf("the collector was active before, in the first generation")
	case seq != o.gcSeq+1:
		return false, nil
	case c.kind == evGCBegin && o.gc == gcOn, c.kind != evGCBegin && o.gc != gcOn:
		return false, fmt.Errorf("the collector begins, goes on or ends where it cannot: kind %d, state %d", c.kind, o.gc)
	default:
		if what := t.lacks(user); what != "" {
			return false, fmt.Errorf("an event of kind %d needs %s", c.kind, what)
		}
	}
	o.gcSeq, o.gc = seq, gcOn
	if c.kind == evGCEnd {
		o.gc = gcOff
	}
	return true, nil
}
