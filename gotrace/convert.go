package gotrace

// convert fills ev from the event that was accepted last, and reports whether it is of a kind
// that readers get. An event may stand for several: the others wait in r.more.
func (r *Reader) convert(ev *Event, c *cursor) (bool, error) {
	o, a := &r.order, &c.args
	if n := refers[c.kind]; n != 0 {
		if err := r.check(c, n); err != nil {
			return false, err
		}
	}
	ev.clear(o.at)
	switch c.kind {
	case evGoStart:
		ev.of(GoID(a[1]), o.slot, o.from, o.to)
	case evGoStop, evGoBlock:
		ev.of(o.at.g, o.at.slot, o.from, o.to)
		ev.Reason, ev.Stack = r.text(a[1]), r.stack(a[2])
		ev.GoStack = ev.Stack
	case evGoUnblock:
		ev.of(GoID(a[1]), o.slot, o.from, o.to)
		ev.Stack = r.stack(a[3])
	case evGoSyscallBegin:
		ev.of(o.at.g, o.at.slot, o.from, o.to)
		ev.Stack = r.stack(a[2])
		ev.GoStack = ev.Stack
	case evGoSyscallEnd, evGoSyscallEndBlocked, evGoDestroy:
		ev.of(o.at.g, o.at.slot, o.from, o.to)
	case evGoDestroySyscall:
		ev.of(o.at.g, o.at.slot, o.from, o.to)
		if o.lost != NoProc {
			r.more = append(r.more, *ev)
			ev.Kind, ev.Go, ev.Slot, ev.Proc, ev.From, ev.To = KindProc, NoGoroutine, 0, o.lost, Running, Idle
		}
	case evGoCreate, evGoCreateBlocked:
		ev.of(GoID(a[1]), o.slot, o.from, o.to)
		ev.Stack, ev.GoStack = r.stack(a[3]), r.stack(a[2])
	case evGoCreateSyscall, evGoStatus:
		ev.of(GoID(a[1]), o.slot, o.from, o.to)
	case evGoStatusStack:
		ev.of(GoID(a[1]), o.slot, o.from, o.to)
		ev.Stack = r.stack(a[4])
		ev.GoStack = ev.Stack
	case evGoSwitch, evGoSwitchDestroy:
		// The other goroutine is woken, this one stops, the other one starts.
		ev.of(GoID(a[1]), o.slot, Waiting, Runnable)
		stop, start := *ev, *ev
		stop.of(o.at.g, o.at.slot, Running, Waiting)
		if c.kind == evGoSwitchDestroy {
			stop.To = NotExist
		}
		start.G, start.GSlot, start.From, start.To = NoGoroutine, 0, Runnable, Running
		r.more = append(r.more, stop, start)
	case evProcStart, evProcSteal, evProcStatus:
		ev.Kind, ev.Proc, ev.From, ev.To = KindProc, ProcID(a[1]), o.from, o.to
	case evProcStop:
		ev.Kind, ev.Proc, ev.From, ev.To = KindProc, o.at.p, o.from, o.to
	case evSTWBegin:
		ev.Kind, ev.Name, ev.Scope, ev.Go = KindRangeBegin, o.name, ScopeGo, o.at.g
		ev.Stack = r.stack(a[2])
	case evSTWEnd:
		ev.Kind, ev.Name, ev.Scope, ev.Go = KindRangeEnd, o.name, ScopeGo, o.at.g
	case evGCActive:
		ev.Kind, ev.Name = KindRangeActive, rangeMark
	case evGCBegin:
		ev.Kind, ev.Name, ev.Stack = KindRangeBegin, rangeMark, r.stack(a[2])
	case evGCEnd:
		ev.Kind, ev.Name = KindRangeEnd, rangeMark
	case evSweepActive:
		ev.Kind, ev.Name, ev.Scope, ev.Proc = KindRangeActive, rangeSweep, ScopeProc, ProcID(a[1])
	case evSweepBegin:
		ev.Kind, ev.Name, ev.Scope, ev.Proc = KindRangeBegin, rangeSweep, ScopeProc, o.at.p
		ev.Stack = r.stack(a[1])
	case evSweepEnd:
		ev.Kind, ev.Name, ev.Scope, ev.Proc = KindRangeEnd, rangeSweep, ScopeProc, o.at.p
	case evAssistActive:
		ev.Kind, ev.Name, ev.Scope, ev.Go = KindRangeActive, rangeAssist, ScopeGo, GoID(a[1])
	case evAssistBegin:
		ev.Kind, ev.Name, ev.Scope, ev.Go = KindRangeBegin, rangeAssist, ScopeGo, o.at.g
		ev.Stack = r.stack(a[1])
	case evAssistEnd:
		ev.Kind, ev.Name, ev.Scope, ev.Go = KindRangeEnd, rangeAssist, ScopeGo, o.at.g
	case evProcsChange:
		ev.Kind, ev.Name, ev.Value = KindMetric, "/sched/gomaxprocs:threads", a[1]
	case evHeapAlloc:
		ev.Kind, ev.Name, ev.Value = KindMetric, "/memory/classes/heap/objects:bytes", a[1]
	case evHeapGoal:
		ev.Kind, ev.Name, ev.Value = KindMetric, "/gc/heap/goal:bytes", a[1]
	case evGoLabel:
		ev.Kind, ev.Name, ev.Go = KindLabel, r.text(a[1]), o.at.g
	case evUserTaskBegin:
		ev.Kind, ev.Name, ev.Task, ev.Parent, ev.Stack = KindTaskBegin, o.name, TaskID(a[1]), TaskID(a[2]), r.stack(a[4])
	case evUserTaskEnd:
		ev.Kind, ev.Name, ev.Task, ev.Stack = KindTaskEnd, o.name, TaskID(a[1]), r.stack(a[2])
	case evUserRegionBegin, evUserRegionEnd:
		ev.Kind, ev.Name, ev.Task = KindRegionBegin, r.text(a[2]), TaskID(a[1])
		if c.kind == evUserRegionEnd {
			ev.Kind = KindRegionEnd
		}
	default: // what a program wrote, and experiments
		return false, nil
	}
	return true, nil
}

// clear makes ev one that happened at a place. Field by field: to copy a whole Event here was an
// eighth of what reading costs.
func (ev *Event) clear(at place) {
	ev.Kind, ev.From, ev.To, ev.Scope = KindNone, Undetermined, Undetermined, ScopeGlobal
	ev.Stack, ev.GoStack = 0, 0
	ev.G, ev.P, ev.M, ev.Go, ev.Proc = at.g, at.p, at.m, NoGoroutine, NoProc
	ev.Slot, ev.GSlot = 0, at.slot
	ev.Reason, ev.Name = "", ""
	ev.Task, ev.Parent, ev.Value, ev.Wall = 0, 0, 0, 0
}

// of makes ev a change of a goroutine's state.
func (ev *Event) of(g GoID, slot int32, from, to State) {
	ev.Kind, ev.Go, ev.Slot, ev.From, ev.To = KindGo, g, slot, from, to
}

// The names of ranges, those of the Go team's reader.
const (
	rangeMark   = "GC concurrent mark phase"
	rangeSweep  = "GC incremental sweep"
	rangeAssist = "GC mark assist"
)

func (r *Reader) text(id uint64) string   { return r.gen.texts.text(id) }
func (r *Reader) stack(id uint64) StackID { return r.gen.stacks.stack(id, &r.gen.texts) }

// refers is which of an event's numbers refer to tables: a bit for each, of strings in the lower
// half, of stacks in the upper.
var refers = func() (out [256]uint8) {
	for kind, list := range strung {
		for _, x := range list {
			out[kind] |= 1 << (x.at - 1)
		}
	}
	for kind, list := range map[byte][]int{
		evProcsChange: {2}, evGoCreate: {3, 2}, evGoCreateBlocked: {3, 2}, evGoStop: {2}, evGoBlock: {2}, evGoUnblock: {3},
		evGoSyscallBegin: {2}, evGoStatusStack: {4}, evSTWBegin: {2}, evGCBegin: {2}, evSweepBegin: {1}, evAssistBegin: {1},
		evUserTaskBegin: {4}, evUserTaskEnd: {2}, evUserRegionBegin: {3}, evUserRegionEnd: {3}, evUserLog: {4},
	} {
		for _, at := range list {
			out[kind] |= 1 << (at + 3)
		}
	}
	return out
}()

// check reports what an event refers to and is in no table.
func (r *Reader) check(c *cursor, n uint8) error {
	for i := 1; n != 0; i, n = i+1, n>>1&0x77 {
		if n&1 != 0 && !r.gen.texts.has(c.args[i]) {
			return c.corrupt("an event of kind %d has the string %d, which is missing", c.kind, c.args[i])
		}
		if n&0x10 != 0 && !r.gen.stacks.has(c.args[i]) {
			return c.corrupt("an event of kind %d has the stack %d, which is missing", c.kind, c.args[i])
		}
	}
	return nil
}
