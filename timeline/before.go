package timeline

import (
	"slices"
	"strings"

	"github.com/whylate/whylate/gotrace"
)

// waitsBegunBefore names the waits for the network that began before the trace
// did and ended before anything told where: the runtime writes down where a
// goroutine waits when it begins to, or at the end of the generation.
//
// Woken by the poller, a goroutine goes on in the same function of internal/poll, where
// it tries to read or write again; if the next of its waits that no goroutine ended is in
// that function too, it is in a loop of such waits. Others stay unknown: who slept, and
// then writes an answer and waits for the next request, did not wait for the network.
func (b *builder) waitsBegunBefore() {
	t, found := b.t, false
	for g := range t.Gs {
		me := &t.Gs[g]
		if me.Born || me.Len() == 0 {
			continue
		}
		s := me.Seg(0)
		if s.Kind != Waiting || s.Reason != ReasonNone || s.Stack != 0 || s.Waker != NoG || s.End >= t.End {
			continue
		}
		if stack, ok := b.nextPoll(me); ok {
			x := &t.segs.of(me.segs)[0]
			w := t.whats[x.what].what
			w.stack, w.reason = stack, ReasonNetwork
			x.what, found = b.what(w), true
			t.Polls = append(t.Polls, s.End)
		}
	}
	if found {
		slices.Sort(t.Polls)
	}
}

// nextPoll returns where the next wait behind the first stands that no goroutine ended, if it is for
// the network and in the function of internal/poll in which the first that is known of what follows happens.
func (b *builder) nextPoll(me *Goroutine) (at gotrace.StackID, ok bool) {
	polling := ""
	for i := 1; i < me.Len(); i++ {
		s := me.Seg(i)
		if s.Stack == 0 {
			continue
		}
		if polling == "" {
			if polling = b.pollsIn(s.Stack); polling == "" {
				return 0, false
			}
		}
		if s.Reason == ReasonNetwork {
			return s.Stack, b.pollsIn(s.Stack) == polling
		}
		if s.Kind == Waiting && s.Waker == NoG && s.End < b.t.End {
			return 0, false
		}
	}
	return 0, false
}

// pollsIn returns the outermost function of internal/poll on a stack, or "".
func (b *builder) pollsIn(s gotrace.StackID) (name string) {
	for _, f := range b.t.Stacks.Frames(s) {
		switch {
		case strings.HasPrefix(f.Func, "internal/poll."):
			name = f.Func
		case name != "":
			return name
		}
	}
	return name
}
