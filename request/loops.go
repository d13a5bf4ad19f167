package request

import (
	"sort"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Some servers do not leave the network to the runtime: a goroutine asks the kernel itself which sockets
// are ready (epoll), reads from each, handles what it read, and writes the answer, then or in the next round.
// To a trace these are system calls.

// loopCall is what a system call of an event loop does.
type loopCall uint8

const (
	noLoopCall loopCall = iota
	loopPolls
	loopReads
	loopWrites
)

// leastPolls is how often a goroutine must ask which sockets are ready to be an event loop, loopAnswers the part
// of what it reads that it must answer, with one write each, and of what it writes that must be an answer.
const (
	leastPolls  = 50
	loopAnswers = 0.9
)

// loops finds the requests of event loops that handle what they read themselves: from when the kernel said that
// there was something to read until the answer was written. Answers are in the order of what was read.
func (d *finder) loops() {
	calls := map[gotrace.StackID]loopCall{}
	of := func(s timeline.Segment) loopCall {
		if s.Kind != timeline.Syscall {
			return noLoopCall
		}
		c, known := calls[s.Stack]
		if !known {
			c = loopCallOf(d.t.Stacks.Frames(s.Stack))
			calls[s.Stack] = c
		}
		return c
	}
	for i := range d.h.of { // messages are behind these
		g, gr := timeline.GID(i), &d.t.Gs[i]
		if gr.System || gr.Observer || d.h.of[i] == nil {
			continue
		}
		polls, reads, writes := 0, 0, 0
		name := ""
		for _, s := range gr.Blocked() {
			switch of(s) {
			case loopPolls:
				if polls++; name == "" {
					name = poller(d.t.Stacks.Frames(s.Stack))
				}
			case loopReads:
				reads++
			case loopWrites:
				writes++
			}
		}
		if polls >= leastPolls && float64(writes) >= loopAnswers*float64(reads) && float64(reads) >= loopAnswers*float64(writes) {
			d.loop(g, d.roleOf(name, Connection, d.h.of[i].name, keyNone), of)
		}
	}
}

// loop finds the requests of one event loop. What it reads after the first in a round waits until it is done with
// those before. Some it hands to another goroutine, after whose work it writes the answer.
func (d *finder) loop(g timeline.GID, role int, of func(timeline.Segment) loopCall) {
	type pending struct {
		ready, read timeline.Time
		seg         int
		stack       gotrace.StackID
	}
	d.carried[g] = true
	gr := &d.t.Gs[g]
	var open []pending
	var writes []timeline.Time // their ends
	type handed struct {
		pending
		to Part
	}
	var away []handed
	ready := timeline.Time(-1) // when the kernel said so last
	answered := func(x pending, e evidence, parts ...Part) {
		if x.read-x.ready >= timeline.LateMin {
			parts = append([]Part{{d.t.Await(g, g, x.stack, x.ready, x.read), x.ready, x.read}}, parts...)
		}
		d.add(role, Request{Parts: d.parts(parts...), ByNetwork: true}, e)
	}
	for i, s := range gr.Blocked() {
		switch of(s) {
		case loopPolls:
			ready = s.End
		case loopReads:
			if ready < 0 {
				continue
			}
			x := pending{ready, s.Start, i, s.Stack}
			if to, ok := d.handsAway(g, i, s.End); ok {
				away = append(away, handed{x, to})
			} else {
				open = append(open, x)
			}
		case loopWrites:
			if writes = append(writes, s.End); len(open) > 0 && len(away) == 0 {
				x := open[0]
				open = open[1:]
				answered(x, d.examine(g, x.seg, x.read, s.End), Part{g, x.read, s.End})
			}
		}
	}
	for _, x := range away {
		k := sort.Search(len(writes), func(k int) bool { return writes[k] > x.to.End })
		if k == len(writes) {
			continue
		}
		d.carried[x.to.G] = true
		answered(x.pending, d.examine(x.to.G, d.segmentFrom(x.to.G, x.to.Start), x.to.Start, x.to.End),
			Part{g, x.read, x.to.Start}, x.to, Part{g, x.to.End, writes[k]})
	}
}

// handsAway returns what another goroutine does with what g has read with segment i: it was started for that, or
// called from home, before g does anything else.
func (d *finder) handsAway(g timeline.GID, i int, from timeline.Time) (Part, bool) {
	gr := &d.t.Gs[g]
	until := gr.End()
	for k := i + 1; k < gr.Len(); k++ {
		if s := gr.Seg(k); s.Kind == timeline.Waiting || s.Kind == timeline.Syscall {
			until = s.Start
			break
		}
	}
	ws := gr.Wakes()
	for k := sort.Search(len(ws), func(k int) bool { return ws[k].Time >= from }); k < len(ws) && ws[k].Time <= until; k++ {
		w := &ws[k]
		if r := d.h.of[w.Whom()]; r == nil || serves(r.name) || !w.Birth() && !d.atHome(w) {
			continue
		}
		to := &d.t.Gs[w.Whom()]
		home := d.h.home[w.Whom()]
		for j, n := to.SegmentAt(w.Time+1), 0; j < to.Len() && n < maxLook; j, n = j+1, n+1 {
			if s := to.Seg(j); s.Kind == timeline.Waiting && home != keyNone && d.c.of(s.Stack).key == home && s.Start > w.Time {
				return Part{w.Whom(), w.Time, s.Start}, true
			}
		}
		if to.Died {
			return Part{w.Whom(), w.Time, to.End()}, true
		}
	}
	return Part{}, false
}

// loopCallOf tells what a system call does that is made past the runtime's own poller.
func loopCallOf(frames []gotrace.Frame) loopCall {
	call := noLoopCall
	for _, f := range frames {
		switch PackageOf(f.Func) {
		case "syscall", "golang.org/x/sys/unix":
		case "internal/poll", "os", "net":
			return noLoopCall
		default: // who makes it
			return call
		}
		switch strings.ToLower(f.Func[strings.LastIndexByte(f.Func, '.')+1:]) {
		case "epollwait", "epollpwait", "kevent":
			call = loopPolls
		case "read", "readv", "recvfrom", "recvmsg":
			call = loopReads
		case "write", "writev", "sendto", "sendmsg":
			call = loopWrites
		}
	}
	return noLoopCall
}

// poller is the function that asks which sockets are ready.
func poller(frames []gotrace.Frame) string {
	for _, f := range frames {
		switch PackageOf(f.Func) {
		case "syscall", "golang.org/x/sys/unix":
		default:
			return f.Func
		}
	}
	return ""
}
