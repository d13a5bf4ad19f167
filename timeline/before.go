package timeline

import (
	"slices"
	"strings"
)

// waitsBegunBefore names the waits for the network that began before the trace
// did and ended before anything told where: the runtime writes down where a
// goroutine waits when it begins to, or at the end of the generation.
//
// Woken by the poller, a goroutine goes on in internal/poll, where it tries to read
// or write again; if the next of its waits that no goroutine ended is one for the
// network too, it is in a loop of such waits. Others stay unknown.
func (b *builder) waitsBegunBefore() {
	t, found := b.t, false
	for g := range t.Gs {
		segs := t.Gs[g].segs
		if len(segs) == 0 {
			continue
		}
		s := &segs[0]
		if s.Kind != Waiting || s.Reason != ReasonNone || s.Stack != 0 || s.Waker != NoG || s.End >= t.End {
			continue
		}
		if next := b.nextPoll(segs[1:]); next != nil {
			s.Stack, s.Reason, found = next.Stack, ReasonNetwork, true
			t.Polls = append(t.Polls, s.End)
		}
	}
	if found {
		slices.Sort(t.Polls)
	}
}

// nextPoll returns the next wait that no goroutine ended if it is for the network
// and the first that is known of segs happens in internal/poll, else nil.
func (b *builder) nextPoll(segs []Segment) *Segment {
	polling := false
	for i := range segs {
		s := &segs[i]
		if s.Stack == 0 {
			continue
		}
		if !polling {
			for _, f := range b.t.Stacks.Frames(s.Stack) {
				polling = polling || strings.HasPrefix(f.Func, "internal/poll.")
			}
			if !polling {
				return nil
			}
		}
		if s.Kind == Waiting && s.Waker == NoG && s.End < b.t.End || s.Reason == ReasonNetwork {
			if s.Reason == ReasonNetwork {
				return s
			}
			return nil
		}
	}
	return nil
}
