package timeline

import "sort"

// toggle is an instant at which a condition begins or ends to hold.
type toggle struct {
	at Time
	on bool
}

// findFree computes when a P was idle and when somebody was runnable.
func (t *Timeline) findFree() {
	free := make([]bool, len(t.Procs))
	n := 0
	for p, s := range t.stints() {
		is := s.What.Free()
		if is == free[p] {
			continue
		}
		free[p] = is
		switch {
		case is:
			n++
			// A span that ended at this instant goes on.
			if k := len(t.idle); n == 1 && k > 0 && t.idle[k-1].End == s.Start {
				t.idle[k-1].End = t.End
			} else if n == 1 {
				t.idle = append(t.idle, Span{Start: s.Start, End: t.End, G: NoG})
			}
		default:
			if n--; n == 0 {
				t.idle[len(t.idle)-1].End = s.Start
			}
		}
	}
	for _, x := range t.runnable {
		if x.on {
			t.queued = append(t.queued, Span{Start: x.at, End: t.End, G: NoG})
		} else if len(t.queued) > 0 {
			t.queued[len(t.queued)-1].End = x.at
		}
	}
	t.runnable = nil
}

// IdleSpans returns the spans in which at least one P was idle (see
// [Activity.Free]), in order of time. The slice belongs to the Timeline.
func (t *Timeline) IdleSpans() []Span { return t.idle }

// LastIdle returns the last instant not after at, at which some P was idle, or
// the start of the trace when there is none.
func (t *Timeline) LastIdle(at Time) Time {
	i := sort.Search(len(t.idle), func(i int) bool { return t.idle[i].Start > at }) - 1
	if i < 0 {
		return t.Start
	}
	return min(at, t.idle[i].End)
}

// Backlog returns since when, at the instant at, no P was idle while somebody
// was always runnable. It is never after at.
func (t *Timeline) Backlog(at Time) Time {
	from := t.LastIdle(at)
	i := sort.Search(len(t.queued), func(i int) bool { return t.queued[i].Start > at }) - 1
	if i < 0 || t.queued[i].End < at {
		return at
	}
	return max(from, t.queued[i].Start)
}

// LastPoll returns the last instant not after at, at which the network is known
// to have been polled and due timers to have been run: a P was idle, or the
// poller delivered to somebody. What was ready then has been delivered then (the
// poller takes 128 at a time). What happened within PollBatch before at is the
// end of the wait itself: a P that ran out of work polls, and delivers.
func (t *Timeline) LastPoll(at Time) Time {
	last := t.Start
	i := sort.Search(len(t.idle), func(i int) bool { return t.idle[i].Start > at-PollBatch }) - 1
	if i >= 0 {
		last = min(at, t.idle[i].End)
	}
	i = sort.Search(len(t.Polls), func(i int) bool { return t.Polls[i] > at-PollBatch }) - 1
	if i >= 0 && t.Polls[i] > last {
		last = t.Polls[i]
	}
	return last
}

// PollBatch is the longest time from a P running out of work to the last delivery
// of its network poll: 128 goroutines at well under 1 us each.
const PollBatch Time = 50e3
