package request

import "github.com/whylate/whylate/timeline"

// call counts the calls that the process makes through known client libraries: writes to a
// socket after which the goroutine did something else. A connection of net/http's
// Transport has a goroutine that writes. last is the library whose write was the last
// event of the goroutine, 0 if none was; call returns that after the event in at an instant.
func (h *homes) call(last uint8, in *stackInfo, at timeline.Time) uint8 {
	if in.client == 0 || in.op != opWrite {
		return 0
	}
	if last != in.client && !beyond(h.t, at) {
		h.calls[in.client-1]++
	}
	return in.client
}

// outgoing returns the counts of calls by library.
func (h *homes) outgoing() []Class {
	n := map[string]int{}
	for i, c := range clients {
		n[c.name] = h.calls[i]
	}
	return classes(n)
}
