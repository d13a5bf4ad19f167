package timeline

import "github.com/whylate/whylate/gotrace"

// A goroutine that is locked to its thread (runtime.LockOSThread, or a call from C)
// runs on no other, and nobody else runs there. A trace does not say so, but its Ps
// show it: the thread that comes upon the goroutine in the queue of its P lets the P
// go to the one that it is locked to, and when the goroutine blocks that one lets the
// P go to another for those who are in its queue (source: runtime.startlockedm,
// runtime.stoplockedm). Who is locked to no thread is run by the one that has the P:
// this lets it go only if its queue is empty, the world stops, or in a system call.

// thread is what is known of one of the operating system's threads.
type thread struct {
	id     gotrace.ThreadID
	g      GID  // who began to run on it last, NoG if nobody did
	shared bool // others did, too, or it ran on others
}

// ranOn notes on which thread g begins to run, or goes on after a call. Of one that
// ran when the trace began the thread is not known.
func (b *builder) ranOn(g GID, c *goState, ev *gotrace.Event) {
	if ev.M == gotrace.NoThread {
		return
	}
	on := c.on
	if on == nil || on.id != ev.M {
		if on = b.threads[ev.M]; on == nil {
			on = &thread{id: ev.M, g: NoG}
			b.threads[ev.M] = on
		}
	}
	if ev.From == gotrace.Undetermined {
		return
	}
	on.shared = on.shared || on.g != NoG && on.g != g
	if c.on != nil && c.on != on {
		on.shared, c.on.shared = true, true
	}
	on.g, c.on = g, on
}

// switched reports whether the goroutine of ev, which has the state c and begins to
// run, was in the queue of its P when another thread let the P go for it.
func (b *builder) switched(c *goState, ev *gotrace.Event) bool {
	if ev.From != gotrace.Runnable || ev.To != gotrace.Running || gotrace.ProcID(c.p) != ev.P {
		return false
	}
	p := b.known(ev.P)
	return p != nil && p.unused && p.leftBy != gotrace.NoThread && p.leftBy != ev.M && c.since <= p.left
}

// finishThreads marks the goroutines that had a thread of their own.
func (b *builder) finishThreads() {
	for _, on := range b.threads {
		if on.g != NoG && !on.shared {
			b.t.Gs[on.g].Bound = true
		}
	}
}
