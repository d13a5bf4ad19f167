package gotrace

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// cursor goes through the events of a thread.
type cursor struct {
	time Time // of the event
	kind byte
	// args are the event's numbers from 1 on; that of 0 is the ticks since the event before.
	args   [8]uint64
	thread *thread

	data  []byte // of the batch
	off   int    // behind the event
	start int    // of the event
	at    int64  // where data begins in the trace
	left  []span // batches to come
	rest  int64  // bytes in them
}

// next reads the next event and reports whether there is one.
func (c *cursor) next(f frequency) (bool, error) {
	for c.off >= len(c.data) {
		if len(c.left) == 0 {
			return false, nil
		}
		b := &c.left[0]
		c.data, c.at, c.off, c.time = b.data, b.at, 0, f.nanos(b.time)
		b.data = nil // that of a generation that is half read is not kept
		c.left = c.left[1:]
		c.rest -= int64(len(c.data))
	}
	d, i := c.data, c.off
	c.start = i
	c.kind = d[i]
	i++
	n := int(arguments[c.kind])
	if n == 0 {
		return false, c.corrupt("an event of kind %d where there is none", c.kind)
	}
	for j := range n {
		if i >= len(d) {
			return false, c.corrupt("an event of kind %d is cut", c.kind)
		}
		v := uint64(d[i])
		i++
		if v >= 0x80 {
			if i < len(d) && d[i] < 0x80 { // most others have two bytes
				v = v&0x7f | uint64(d[i])<<7
				i++
			} else {
				var size int
				if v, size = binary.Uvarint(d[i-1:]); size <= 0 {
					return false, c.corrupt("a number without an end")
				}
				i += size - 1
			}
		}
		c.args[j&7] = v
	}
	c.off = i
	c.time += f.nanos(c.args[0])
	return true, nil
}

// corrupt is an error about the event.
func (c *cursor) corrupt(format string, args ...any) error {
	return &CorruptError{Offset: c.at + int64(c.start), Err: fmt.Errorf(format, args...)}
}

// frontier is a heap of cursors, the one of the earliest event first.
type frontier []*cursor

func (h *frontier) push(c *cursor) {
	*h = append(*h, c)
	h.up(len(*h) - 1)
}

// second is the time of the earliest event but for the first, and the latest one if there is none.
func (h frontier) second() Time {
	t := Time(math.MaxInt64)
	for i := 1; i < len(h) && i <= 2; i++ {
		t = min(t, h[i].time)
	}
	return t
}

// moved puts the cursor at i where its new event belongs.
func (h frontier) moved(i int) {
	if h.up(i) == i {
		h.down(i)
	}
}

func (h *frontier) remove(i int) {
	s := *h
	for ; i > 0; i = (i - 1) / 2 {
		s[(i-1)/2], s[i] = s[i], s[(i-1)/2]
	}
	last := len(s) - 1
	s[0] = s[last]
	s[last] = nil
	*h = s[:last]
	h.down(0)
}

func (h frontier) up(i int) int {
	for i > 0 && h[(i-1)/2].time > h[i].time {
		h[(i-1)/2], h[i] = h[i], h[(i-1)/2]
		i = (i - 1) / 2
	}
	return i
}

func (h frontier) down(i int) {
	for {
		least := i
		for j := 2*i + 1; j < len(h) && j <= 2*i+2; j++ {
			if h[j].time < h[least].time {
				least = j
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// sort makes the order that of time; it is a heap still.
func (h frontier) sort() {
	slices.SortFunc(h, func(a, b *cursor) int {
		switch {
		case a.time < b.time:
			return -1
		case a.time > b.time:
			return 1
		}
		return 0
	})
}
