package timeline

import "github.com/whylate/whylate/gotrace"

// Await adds a message to Gs that waits in a queue from start until waker takes it at end, and returns
// its place there: it is like a goroutine of the same root function as reader, which handed it over at
// stack, and has but this one wait, for a receive; or until a timer goes off, if waker is NoG, for which it
// sleeps. It must not be called while others read the Timeline.
func (t *Timeline) Await(reader, waker GID, stack gotrace.StackID, start, end Time) GID {
	x := what{stack: stack, kind: Waiting, reason: ReasonChanReceive}
	if waker == NoG {
		x.reason = ReasonSleep
	}
	if t.awaits == nil {
		t.awaits = map[what]int32{}
	}
	w, known := t.awaits[x]
	if !known {
		w = int32(len(t.whats))
		t.whats = append(t.whats, store(x))
		t.awaits[x] = w
	}
	t.Gs = append(t.Gs, Goroutine{
		ID: gotrace.NoGoroutine, Creator: NoG, Message: true, root: t.Gs[reader].root,
		segs: t.segs.add([]seg{{end, int32(waker), w}}), begun: start, t: t,
	})
	return GID(len(t.Gs) - 1)
}

// ForgetMessages removes what Await added.
func (t *Timeline) ForgetMessages() {
	n := len(t.Gs)
	for n > 0 && t.Gs[n-1].Message {
		n--
	}
	clear(t.Gs[n:])
	t.Gs = t.Gs[:n]
}
