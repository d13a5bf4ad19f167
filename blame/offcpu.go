package blame

import (
	"sort"

	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// A trace does not know whether a thread was on a CPU; the kernel does, see package
// events. What it tells of the threads colours leaves (Key.Off): running time and calls
// into C and the kernel in which the thread was off the CPU; time in which a goroutine
// was ready, a P idle and the thread that ran it later wanted a CPU; time in which the
// holder of a P was kept from one; and the end of a wait for a peer or for time to pass
// if the thread that saw it first had to wait for a CPU.

// seenWithin is how long at most a thread that got a CPU takes to see the end of waits
// for which it was woken: a batch of the poller, see [timeline.PollBatch].
const seenWithin = timeline.PollBatch

// backlog is by which part of the time for which the thread had waited for a CPU that may
// take longer: what came in meanwhile is done first. Beside eight threads that compute, a
// service that needs an eighth of a CPU takes up to an eighth of it. What belongs to the
// wait for a CPU by accident is no longer than that wait.
const backlog = 4

// maxHandOvers bounds how many waits for a CPU are looked for before the end of a wait:
// of threads each of which woke the next one, or was made to leave the CPU.
const maxHandOvers = 16

// queues are the states in which a thread wants a CPU and has none.
var queues = [...]events.State{events.Queued, events.Crowded, events.Stopped, events.Robbed, events.Observed}

// Watched reports whether it is known, from the kernel's events, when the threads were
// on a CPU.
func (a *Attribution) Watched() bool { return a.watch != nil }

// Suspended is when the whole process was made to stop, in order of time, as far as it is known.
func (a *Attribution) Suspended() []events.Suspension { return a.suspended }

// Behind returns for how long others had the CPUs that threads wanted in spans, in order of time and apart, by the process that
// had a CPU until the thread got it, see [events.Recording.Behind], and for how long that was the process itself: who had it
// before that is not known. It is nil if nothing is known.
func (a *Attribution) Behind(spans []timeline.Span) (by map[events.Process]int64, own int64) {
	if a.watch == nil {
		return nil, 0
	}
	in := make([]events.Pause, len(spans))
	for i, s := range spans {
		in[i] = events.Pause{FromNS: int64(s.Start), ToNS: int64(s.End)}
	}
	pids := a.watch.Behind(in)
	if pids == nil {
		return nil, 0
	}
	by = map[events.Process]int64{}
	for pid, ns := range pids {
		if pid == a.watch.Header.PID {
			own += ns
			continue
		}
		by[a.watch.Process(pid)] += ns
	}
	return by, own
}

// Unpolled is when who waited for the network wanted a CPU, in order of time, as far as it is known.
func (a *Attribution) Unpolled() []events.Unpolled {
	if a.watch == nil {
		return nil
	}
	return a.watch.Unpolled()
}

// threadOf returns the thread of a goroutine's segment: of a running one that of its P,
// of a call that of the segment before it, of a ready goroutine that of the one after it.
// It is [gotrace.NoThread] if it is not known.
func (a *Attribution) threadOf(g timeline.GID, seg int) gotrace.ThreadID {
	me := &a.t.Gs[g]
	if kind := me.Seg(seg).Kind; kind == timeline.Syscall {
		seg--
	} else if kind == timeline.Runnable {
		seg++
	}
	if seg < 0 || seg >= me.Len() {
		return gotrace.NoThread
	}
	s := me.Seg(seg)
	if s.Kind != timeline.Running {
		return gotrace.NoThread
	}
	return a.t.ThreadOn(s.P, s.Start)
}

// parts is what the thread of a segment did in [from, to]; ok is false if nothing of it
// is known.
func (a *Attribution) parts(g timeline.GID, seg int, from, to timeline.Time) (p [events.States]int64, ok bool) {
	if a.watch == nil {
		return p, false
	}
	m := a.threadOf(g, seg)
	if m == gotrace.NoThread || !a.watch.Knows(int(m)) {
		return p, false
	}
	return a.watch.Split(int(m), int64(from), int64(to)), true
}

// States returns what the thread of a running goroutine did in [from, to], in ns by state;
// what is not known of it is [events.Unknown].
func (a *Attribution) States(g timeline.GID, from, to timeline.Time) (sum [events.States]int64) {
	me := &a.t.Gs[g]
	for i := max(0, me.SegmentAt(from)); i < me.Len() && me.Seg(i).Start < to; i++ {
		s := me.Seg(i)
		start, end := max(from, s.Start), min(to, s.End)
		if s.Kind != timeline.Running || end <= start {
			continue
		}
		parts, ok := a.parts(g, i, start, end)
		if !ok {
			sum[events.Unknown] += int64(end - start)
		}
		for state, ns := range parts {
			sum[state] += ns
		}
	}
	return sum
}

// off adds the parts of states as k, as far as there is room, and returns the room left.
func (w *walker) off(at *where, k Key, room timeline.Time, parts *[events.States]int64, states ...events.State) timeline.Time {
	for _, s := range states {
		d := min(room, timeline.Time(parts[s]))
		k.Off = s
		w.add(at, k, d)
		room -= d
	}
	return room
}

// unseen adds, as k, the part of a wait of g in [from, to] for which its end was not
// seen, because the thread that saw it, or one that the kernel had told of it and that
// woke it, waited for a CPU. It returns until when the wait remains to be attributed.
func (w *walker) unseen(at *where, g timeline.GID, s timeline.Segment, k Key, from, to timeline.Time) timeline.Time {
	a := w.a
	if a.watch == nil || to != s.End {
		return to
	}
	rest, by, last := timeline.Time(0), a.sawEnd(g, s), int64(to)
	for range maxHandOvers {
		m, ready, ok := a.watch.Polling(int64(to), int64(seenWithin), backlog)
		told := ok // that the wait is over, and before nobody was
		since, in, known := a.watch.Got(int(by), last)
		if known && int64(to)-in <= max(int64(seenWithin), (in-since)/backlog) && (!ok || since < ready) {
			m, ready, ok, told = int(by), since, true, false
		}
		begun := max(from, timeline.Time(ready))
		if !ok || begun >= to {
			break
		}
		parts := a.watch.Split(m, int64(begun), int64(to))
		rest += w.off(at, k, to-begun, &parts, queues[:]...)
		by, to, last = gotrace.ThreadID(m), begun, int64(begun)-1 // it may have had a CPU, and was made to leave
		if told {
			break
		}
	}
	return to + rest
}

// sawEnd returns the thread that saw the end of a wait that no goroutine ended.
func (a *Attribution) sawEnd(g timeline.GID, s timeline.Segment) gotrace.ThreadID {
	me := &a.t.Gs[g]
	next := me.SegmentAt(s.End + 1)
	if next >= me.Len() || me.Seg(next).P < 0 { // of a ready or a running goroutine
		return gotrace.NoThread
	}
	return a.t.ThreadOn(me.Seg(next).P, s.End)
}

// kept is what the threads of one P's holders did, summed up to the end of each stint in
// which they were kept from a CPU.
type kept struct {
	stints []keptStint
}

type keptStint struct {
	start, end timeline.Time
	m          gotrace.ThreadID
	sum        [len(keptStates)]int64
}

// keptStates are the states in which who has a P does nothing with it.
var keptStates = [...]events.State{events.Queued, events.Crowded, events.Stopped, events.Robbed, events.Observed, events.Faulted}

// findKept sums up, for each P, for how long its holders were kept from a CPU.
func (a *Attribution) findKept() {
	if a.watch == nil {
		return
	}
	a.keptOf = make([]kept, len(a.t.Procs))
	for i := range a.t.Procs {
		p := &a.t.Procs[i]
		k := &a.keptOf[i]
		var sum [len(keptStates)]int64
		for _, s := range p.Stints() {
			if s.What.Free() || s.What == timeline.Gone || s.What == timeline.Stopped || s.What == timeline.Suspending {
				continue
			}
			m := a.t.ThreadOn(int16(p.ID), s.Start)
			if m == gotrace.NoThread {
				continue
			}
			parts := a.watch.Split(int(m), int64(s.Start), int64(s.End))
			off := false
			for n, state := range keptStates {
				sum[n] += parts[state]
				off = off || parts[state] > 0
			}
			if off {
				k.stints = append(k.stints, keptStint{s.Start, s.End, m, sum})
			}
		}
	}
}

// until returns the sums up to an instant.
func (k *kept) until(watch *events.Recording, at timeline.Time) (sum [len(keptStates)]int64) {
	i := sort.Search(len(k.stints), func(i int) bool { return k.stints[i].end > at })
	if i > 0 {
		sum = k.stints[i-1].sum
	}
	if i < len(k.stints) && k.stints[i].start < at {
		parts := watch.Split(int(k.stints[i].m), int64(k.stints[i].start), int64(at))
		for n, state := range keptStates {
			sum[n] += parts[state]
		}
	}
	return sum
}

// keptIn returns for which parts of the time that the Ps were held for in [from, to],
// busy altogether, their holders were kept from a CPU: by keptStates.
func (a *Attribution) keptIn(from, to, busy timeline.Time) (parts [len(keptStates)]float64) {
	for i := range a.keptOf {
		before, after := a.keptOf[i].until(a.watch, from), a.keptOf[i].until(a.watch, to)
		for n := range parts {
			parts[n] += float64(after[n]-before[n]) / float64(busy)
		}
	}
	var sum float64
	for _, x := range parts {
		sum += x
	}
	if sum > 1 { // busy leaves out what Ps do for nobody
		for n := range parts {
			parts[n] /= sum
		}
	}
	return parts
}

// behindKept adds ns behind holders of Ps, k, split by whether these were kept from a CPU.
func (w *walker) behindKept(k Key, ns timeline.Time, parts *[len(keptStates)]float64, add func(k Key, ns timeline.Time)) {
	rest := ns
	for n, x := range parts {
		if d := min(rest, timeline.Time(x*float64(ns))); d > 0 {
			k.Off = keptStates[n]
			add(k, d)
			rest -= d
		}
	}
	k.Off = events.Unknown
	add(k, rest)
}
