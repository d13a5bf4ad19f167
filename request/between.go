package request

import (
	"strconv"
	"strings"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// Who passes on what it reads, and the answer back, reads from two connections in turn. Do it
// in one function, and both reads stand at one place as far as functions tell: half of what is
// then taken for requests would be answers, and none of them would wait for the peer. The lines
// tell the two reads apart. (A line more says nothing else: a message is read in several steps,
// and a command here or there, but not with an answer before each.)

const (
	// mostTurns is the part of the reads after a write that must stand at the other line, and
	// leastTurns how many.
	mostTurns, leastTurns = 0.9, 20
	// homeRatio is how much longer one waits for a client's next request than for the peer's
	// answer, at the least: otherwise it is not sure which of the two is which.
	homeRatio = 2
)

// between is what goroutines do that read at one place, but on two lines of it.
type between struct {
	lines       [2]string
	more        bool // on other lines, too
	turns, same int
	waited      [2]timeline.Time
}

// line returns which of the two lines it is.
func (b *between) line(l string) int {
	for i := range b.lines {
		if b.lines[i] == "" {
			b.lines[i] = l
		}
		if b.lines[i] == l {
			return i
		}
	}
	b.more = true
	return 0
}

// holds reports whether the lines are reads from two connections, one after the other.
func (b *between) holds() bool {
	return b.turns >= leastTurns && float64(b.turns) >= mostTurns*float64(b.turns+b.same) &&
		max(b.waited[0], b.waited[1]) >= homeRatio*min(b.waited[0], b.waited[1])
}

// tellApart gives reads from two connections in turn keys of their own.
func (c *classifier) tellApart(t *timeline.Timeline) {
	by := map[int32]*between{}
	of, at := make([]*between, len(c.info)), make([]int, len(c.info)) // by stack
	for i := range c.info {
		in := &c.info[i]
		if in.op != opRead || in.client != 0 || in.key < keyFirst {
			continue
		}
		b := by[in.key]
		if b == nil {
			b = &between{}
			by[in.key] = b
		}
		of[i], at[i] = b, b.line(c.lines(t.Stacks.Frames(gotrace.StackID(i))))
	}
	for k, b := range by {
		if b.more || b.lines[1] == "" {
			delete(by, k)
		}
	}
	if len(by) == 0 {
		return
	}
	for i := range t.Gs {
		c.inTurn(&t.Gs[i], by, of, at)
	}
	for i, b := range of {
		if at[i] == 0 || b.more || !b.holds() {
			continue
		}
		name := "line of " + strconv.Itoa(int(c.info[i].key))
		k, ok := c.keys[name]
		if !ok {
			k = keyFirst + int32(len(c.keys))
			c.keys[name] = k
		}
		c.info[i].key = k
	}
}

// inTurn adds what g does where it reads on one of two lines.
func (c *classifier) inTurn(g *timeline.Goroutine, by map[int32]*between, of []*between, at []int) {
	if g.System || g.Observer {
		return
	}
	var last *between
	line, wrote := 0, false
	for _, s := range g.Blocked() {
		in := c.of(s.Stack)
		if in.op == opWrite {
			wrote = true
			continue
		}
		if in.op != opRead || by[in.key] == nil {
			continue
		}
		b, now := of[s.Stack], at[s.Stack]
		switch {
		case b != last || !wrote && now == line:
		case wrote && now != line:
			b.turns++
		default:
			b.same++
		}
		if s.Kind == timeline.Waiting {
			b.waited[now] += s.End - s.Start
		}
		last, line, wrote = b, now, false
	}
}

// lines are the lines of the application's functions on a stack.
func (c *classifier) lines(frames []gotrace.Frame) string {
	var out strings.Builder
	for _, f := range frames {
		if c.function(f.Func).app {
			out.WriteString(strconv.Itoa(f.Line))
			out.WriteByte(' ')
		}
	}
	return out.String()
}
