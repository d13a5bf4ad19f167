package request

import "github.com/whylate/whylate/timeline"

// countOutgoing counts the calls that the process makes through known client
// libraries: writes to a socket after which the goroutine did something else.
// A connection of net/http's Transport has a goroutine that writes.
func (d *finder) countOutgoing() {
	for i := range d.t.Gs {
		if d.h.of[i] == nil {
			continue
		}
		last := uint8(0) // the library whose write was the last event
		gr := &d.t.Gs[i]
		for _, s := range gr.Segs() {
			if s.Kind != timeline.Waiting && s.Kind != timeline.Syscall {
				continue
			}
			in := d.c.of(s.Stack)
			if in.client == 0 || in.op != opWrite {
				last = 0
				continue
			}
			if last != in.client {
				d.outgoing[clients[in.client-1].name]++
			}
			last = in.client
		}
	}
}
