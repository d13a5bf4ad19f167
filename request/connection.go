package request

import (
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

func stackID(i int) gotrace.StackID { return gotrace.StackID(i) }

// activation is one piece of work of a goroutine that the network drives.
type activation struct {
	start timeline.Time
	end   timeline.Time // of its last answer, or of its last segment
	until timeline.Time // when it is over, with what follows its answer
	seg   int           // index of its first segment
	wrote bool
	byNet bool // began with a wake-up by the network
	open  bool // at the end of the trace
	died  bool // ended with the goroutine
	// answering: its handler waited at the end of the trace, after an answer: that was
	// all, or it is a stream.
	answering bool
}

// walk splits the life of g into activations. An activation begins when the
// network wakes g at home; or, when the next request was there already, with a
// read at home that follows an answer. It ends where the next one begins, at
// the next wait at home, or with g. Times at home without an answer before them
// are reads of further pieces of one request: the activation begins anew. What
// follows the last of an answer without any read was read with the request before.
func (d *finder) walk(g timeline.GID, home int32, answer func(*stackInfo) bool, emit func(a activation)) {
	gr := &d.t.Gs[g]
	var a activation
	open, seen := false, false
	before, byNet := timeline.Time(0), false // the end of the segment before, and whether the network ended it
	finished := timeline.Time(-1)            // when the last of the answer was written
	begin := func(at timeline.Time, seg int, byNet bool) {
		a, open, seen, finished = activation{start: at, end: at, seg: seg, byNet: byNet}, true, true, -1
	}
	finish := func(at timeline.Time) {
		if open {
			a.until = at
			emit(a)
		}
		open = false
	}
	for i, s := range gr.Blocked() {
		in := d.c.of(s.Stack)
		if !open && !seen && gr.Born && home == keyHTTP && d.serves(in) {
			if before == 0 {
				begin(gr.Start(), 0, false) // who accepted the connection has read from it
			} else {
				begin(before, i, byNet) // it came with the end of a handshake
			}
		}
		before, byNet = s.End, byNetwork(s)
		if open && finished >= 0 && (in.flags&inHandler != 0 || s.Kind == timeline.Syscall && in.flags&atOnce != 0 && !d.isFull(gr, i)) {
			finish(finished)
			begin(finished, i, false)
		}
		switch {
		case home == keyFast && in.flags&serving == 0 && !d.cut(gr, s):
			finish(s.Start) // the connection is closed, the worker waits for another one
		case i == 0 && d.held(gr):
			begin(gr.Start(), 0, false)
		case i == 0 && d.waitedBefore(gr, home):
			begin(s.End, 1, true)
		case in.key == home && s.Kind == timeline.Waiting:
			finish(s.Start)
			seen = true
			if woken := s.Reason != timeline.ReasonNetwork && s.Waker != timeline.NoG; (woken || byNetwork(s)) && i+1 < gr.Len() {
				begin(s.End, i+1, !woken)
			}
		case in.key == home:
			if open && !a.wrote || d.wouldBlock(gr, i, home) {
				continue
			}
			finish(s.Start)
			if !seen && gr.Born {
				begin(gr.Start(), 0, false) // the request came with the connection
			} else {
				begin(s.Start, i, false)
			}
		case open && in.op == opWrite && answer(in):
			a.wrote = true
			if s.Kind == timeline.Syscall {
				a.end = s.End
			}
			if finished = -1; in.flags&finishing != 0 && s.Kind == timeline.Syscall {
				finished = s.End
			}
		}
	}
	if !open {
		return
	}
	a.died = gr.Died
	last := gr.Seg(gr.Len() - 1)
	if !gr.Died && (!a.wrote || last.Kind != timeline.Running && d.c.of(last.Stack).op == opWrite) {
		a.open, a.end = true, gr.End()
	}
	a.answering = !gr.Died && !a.open && last.Kind != timeline.Running && d.c.of(last.Stack).flags&inHandler != 0
	finish(gr.End())
}

// serves reports whether a stack of net/http's server is beyond the reading of a request: in its handler, or at its answer.
func (d *finder) serves(in *stackInfo) bool {
	return in.flags&serving != 0 && in.key != keyHTTP && in.flags&(inHandler|answers) != 0
}

// servesAtOnce reports whether the first thing that is seen of a goroutine of net/http's server is that it serves a request:
// who accepts the connection may have read it, to learn what protocol it is of.
func (d *finder) servesAtOnce(gr *timeline.Goroutine) bool {
	if !gr.Born {
		return false
	}
	for _, s := range gr.Blocked() {
		if d.serves(d.c.of(s.Stack)) {
			return true
		}
		break
	}
	return false
}

// byNetwork reports whether the network poller ended a wait. A deadline or a
// close is a goroutine's doing, and begins nothing.
func byNetwork(s timeline.Segment) bool {
	return s.Kind == timeline.Waiting && s.Reason == timeline.ReasonNetwork && s.Waker == timeline.NoG
}

// waitedBefore reports whether a goroutine began the trace waiting at home. The
// trace has no stack of that wait, but who waited to read reads again.
func (d *finder) waitedBefore(gr *timeline.Goroutine, home int32) bool {
	if s := gr.Seg(0); s.Kind != timeline.Waiting || s.Stack != 0 || s.Waker != timeline.NoG {
		return false
	}
	for i := 1; i < gr.Len(); i++ {
		switch s := gr.Seg(i); s.Kind {
		case timeline.Waiting:
			return false
		case timeline.Syscall:
			in := d.c.of(s.Stack)
			return in.op == opRead && in.key == home
		}
	}
	return false
}

// wouldBlock reports whether the read of segment i found nothing, so that the
// goroutine went on to wait for it.
func (d *finder) wouldBlock(gr *timeline.Goroutine, i int, home int32) bool {
	in := d.waitsAfter(gr, i)
	return in != nil && in.key == home
}

// isFull reports whether the write of segment i found no room, so that the
// goroutine went on to wait for it.
func (d *finder) isFull(gr *timeline.Goroutine, i int) bool {
	in := d.waitsAfter(gr, i)
	return in != nil && in.op == opWrite
}

// waitsAfter returns what is known of the wait that follows segment i before the
// next system call, or nil.
func (d *finder) waitsAfter(gr *timeline.Goroutine, i int) *stackInfo {
	for k := i + 1; k < gr.Len(); k++ {
		switch s := gr.Seg(k); s.Kind {
		case timeline.Waiting:
			return d.c.of(s.Stack)
		case timeline.Syscall:
			return nil
		}
	}
	return nil
}

// answersPeer: a write to a socket that belongs to no client library.
func answersPeer(in *stackInfo) bool { return in.client == 0 }

// connections finds the requests of a goroutine that reads, works and answers.
func (d *finder) connection(g timeline.GID, role int, home int32, answer func(*stackInfo) bool) {
	d.carried[g] = true
	d.walk(g, home, answer, func(a activation) {
		to := a.end
		if !a.wrote {
			to = a.until
		}
		e := d.examine(g, a.seg, a.start, to)
		if e.flags&hijacked != 0 || e.foreign && !a.wrote {
			d.exclude(classHijacked, a.start)
			return
		}
		if !a.wrote && !(a.open && d.atWork(g, &a, home, e)) {
			if e.flags&observer != 0 {
				d.exclude(classObserver, a.start)
			}
			return
		}
		e.cut = a.answering
		d.add(role, Request{Parts: d.parts(Part{g, a.start, a.end}), InFlight: a.open, ByNetwork: a.byNet}, e)
	})
}

// deep is from how many frames on a stack may have been too deep to be recorded: the
// runtime keeps 128 (traceStackSize), those of functions that it does not show among them.
const deep = 100

// cut reports whether the outermost functions are missing on a stack of a goroutine, as on
// those of long chains of middleware: nothing is known of what stands there.
func (d *finder) cut(gr *timeline.Goroutine, s timeline.Segment) bool {
	frames := d.t.Stacks.Frames(s.Stack)
	return len(frames) >= deep && frames[len(frames)-1].Func != gr.Root()
}

// minAtWork is how long a goroutine must be at it, without anything known about
// what it does, to count as a request in flight: shorter ones may as well read
// the end of their connection.
const minAtWork timeline.Time = 1e6

// atWork reports whether an activation that is open at the end of the trace is
// a request in flight.
func (d *finder) atWork(g timeline.GID, a *activation, home int32, e evidence) bool {
	last := d.t.Gs[g].Seg(d.t.Gs[g].Len() - 1)
	switch {
	case last.Kind == timeline.Runnable:
		return a.end-last.Start >= minAtWork
	case home < keyFirst:
		return e.flags&inHandler != 0
	case last.Kind == timeline.Running:
		return a.end-last.Start >= minAtWork
	}
	return true
}

// segmentFrom returns the index of the first segment of g that ends after at.
func (d *finder) segmentFrom(g timeline.GID, at timeline.Time) int {
	gr := &d.t.Gs[g]
	i := gr.SegmentAt(at)
	if i < gr.Len() && gr.Seg(i).End == at {
		i++
	}
	return i
}

// maxLook bounds how far a writer is followed from its wake-up to its write.
const maxLook = 64

// firstWrite returns the end of the first write to a socket that w begins at or
// after at.
func (d *finder) firstWrite(w timeline.GID, at timeline.Time) (timeline.Time, bool) {
	gr := &d.t.Gs[w]
	i := d.segmentFrom(w, at)
	for n := 0; i < gr.Len() && n < maxLook; i, n = i+1, n+1 {
		s := gr.Seg(i)
		if s.Kind != timeline.Syscall || s.Start < at {
			continue
		}
		if in := d.c.of(s.Stack); in.op == opWrite && in.client == 0 {
			// A write that found the socket full goes on after a wait.
			end := s.End
			for ; i+1 < gr.Len() && n < maxLook; i, n = i+1, n+1 {
				next := gr.Seg(i + 1)
				if next.Kind == timeline.Running || next.Kind == timeline.Runnable {
					continue
				}
				if d.c.of(next.Stack).op != opWrite {
					break
				}
				end = next.End
			}
			return end, true
		}
	}
	return 0, false
}

// lastWrite returns the end of g's last write to a socket in [from, to].
func (d *finder) lastWrite(g timeline.GID, from, to timeline.Time) (at timeline.Time, ok bool) {
	gr := &d.t.Gs[g]
	for _, s := range gr.SegsFrom(d.segmentFrom(g, from)) {
		if s.Start >= to {
			break
		}
		if s.Kind == timeline.Syscall {
			if in := d.c.of(s.Stack); in.op == opWrite && in.client == 0 {
				at, ok = s.End, true
			}
		}
	}
	return at, ok
}
