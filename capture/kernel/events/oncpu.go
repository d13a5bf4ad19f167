package events

import (
	"cmp"
	"slices"
	"sort"
)

// State is what a thread does in a time, as the kernel sees it.
type State uint8

const (
	// Unknown: before the first or after the last that was seen of the thread.
	Unknown State = iota
	// OnCPU: it had a CPU.
	OnCPU
	// Queued: it wanted a CPU, and other processes had those that it may use.
	Queued
	// Crowded: it wanted a CPU, and other threads of its process had them.
	Crowded
	// Stopped: a quota was used up.
	Stopped
	// Robbed: a hypervisor had the CPU that it seemed to have, see [Recording.Robbed].
	Robbed
	// Observed: it wanted a CPU, and who recorded had it.
	Observed
	// Faulted: it waited for a page that it touched.
	Faulted
	// Blocked: it waited in a system call, in the way in which threads wait for devices.
	Blocked
	// Slept: it waited for anything else, or was made to stop by a signal or a debugger.
	Slept
	// States is how many there are.
	States
)

var stateNames = [...]string{"unknown", "on a CPU", "queued", "crowded", "stopped", "robbed", "observed", "faulted", "blocked", "slept"}

func (s State) String() string { return stateNames[s] }

// load is how long threads of the process had had CPUs until an instant, and how many
// have one from then on.
type load struct {
	at, ns, on int64
}

// thread is what is known of a thread: stretches in order of time that do not overlap, and
// before each of them the sums of those before it by state.
type thread struct {
	stretches []Stretch
	before    [][States]int64
}

// index sorts the stretches by thread and sums up the process's use of the CPUs.
func (r *Recording) index() {
	r.sumLoad()
	r.findPolls()
	r.findPauses()
	byThread := slices.Clone(r.Stretches)
	slices.SortStableFunc(byThread, func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(a.TID, b.TID), cmp.Compare(a.Out, b.Out))
	})
	r.threads = map[int]thread{}
	for len(byThread) > 0 {
		n := sort.Search(len(byThread), func(i int) bool { return byThread[i].TID > byThread[0].TID })
		r.threads[byThread[0].TID] = r.thread(byThread[:n:n])
		byThread = byThread[n:]
	}
}

// thread takes over the stretches of a thread, in order of their ends. Of those that overlap, which
// no recorder writes, the later one is shortened.
func (r *Recording) thread(ss []Stretch) thread {
	clean, last := ss[:0], int64(0)
	for _, s := range ss {
		s.OnNS = min(s.OnNS, s.Out-last)
		s.OffNS = min(s.OffNS, s.In()-last)
		s.QueueNS = min(s.QueueNS, s.OffNS)
		if s.Out > last {
			clean, last = append(clean, s), s.Out
		}
	}
	return r.sumUp(clean)
}

// sumUp sums up stretches of a thread, which are in order of time and do not overlap.
func (r *Recording) sumUp(ss []Stretch) thread {
	t := thread{ss, make([][States]int64, len(ss)+1)}
	for i := range ss {
		t.before[i+1] = t.before[i]
		r.add(&t.before[i+1], &ss[i], ss[i].From(), ss[i].Out)
	}
	return t
}

// sumLoad sums up for how long threads of the process had CPUs.
func (r *Recording) sumLoad() {
	type change struct{ at, by int64 }
	changes := make([]change, 0, 2*len(r.Stretches))
	for i := range r.Stretches {
		changes = append(changes, change{r.Stretches[i].In(), 1}, change{r.Stretches[i].Out, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	r.load = make([]load, 0, len(changes))
	var l load
	threads := int64(0)
	for _, c := range changes {
		threads += c.by
		l = load{c.at, l.ns + l.on*(c.at-l.at), min(threads, int64(r.Header.CPUs))}
		r.load = append(r.load, l)
	}
}

// used is how long threads of the process had had CPUs until an instant.
func (r *Recording) used(at int64) int64 {
	i := sort.Search(len(r.load), func(i int) bool { return r.load[i].at > at }) - 1
	if i < 0 {
		return 0
	}
	return r.load[i].ns + r.load[i].on*(at-r.load[i].at)
}

// Knows reports whether anything is known of a thread.
func (r *Recording) Knows(tid int) bool { return len(r.threads[tid].stretches) > 0 }

// Split returns what a thread did in [from, to], in ns by state. The parts add up to
// to - from, which must not be negative. It takes about as long for any time.
func (r *Recording) Split(tid int, from, to int64) (parts [States]int64) {
	t := r.threads[tid]
	rest := to - from
	a, b := r.until(&t, from), r.until(&t, to)
	for state := range parts {
		parts[state] = b[state] - a[state]
		rest -= parts[state]
	}
	parts[Unknown] = rest
	return parts
}

// until returns what a thread did before an instant.
func (r *Recording) until(t *thread, at int64) (parts [States]int64) {
	i := sort.Search(len(t.stretches), func(i int) bool { return t.stretches[i].Out > at })
	if len(t.stretches) == 0 {
		return parts
	}
	parts = t.before[i]
	if i < len(t.stretches) && t.stretches[i].From() < at {
		r.add(&parts, &t.stretches[i], t.stretches[i].From(), at)
	}
	return parts
}

// add adds what a thread did in [from, to], which lies in s.
func (r *Recording) add(parts *[States]int64, s *Stretch, from, to int64) {
	if in := s.In(); from < in {
		r.off(parts, s, from, min(to, in))
	}
	if from = max(from, s.In()); to > from {
		taken := r.taken(s, from, to)
		parts[OnCPU] += to - from - taken
		parts[Robbed] += taken
	}
}

// off adds [from, to] of the time for which a thread had no CPU before s. From is the
// beginning of that time.
func (r *Recording) off(parts *[States]int64, s *Stretch, from, to int64) {
	ready := s.In() - s.QueueNS
	if d := min(to, ready) - from; d > 0 {
		parts[s.asleep()] += d
		from += d
	}
	switch d := to - from; {
	case d <= 0:
	case s.Flags&Throttled != 0:
		parts[Stopped] += d
	default:
		others := r.others(from, to)
		parts[Crowded] += d - others
		if s.Behind != 0 && s.Behind == r.Header.Recorder {
			parts[Observed] += others
		} else {
			parts[Queued] += others
		}
	}
}

// asleep is how a thread slept before s.
func (s *Stretch) asleep() State {
	switch device := s.Flags&(Uninterruptible|BlockIO) != 0; {
	case device && s.NR < 0:
		return Faulted
	case device:
		return Blocked
	}
	return Slept
}

// Got returns when a thread that is on a CPU at an instant got it, and since when it had
// wanted it then: in if it had it at once. ok is false if it is on none, or if that is
// not known.
func (r *Recording) Got(tid int, at int64) (ready, in int64, ok bool) {
	ss := r.threads[tid].stretches
	i := sort.Search(len(ss), func(i int) bool { return ss[i].Out > at })
	if i == len(ss) || ss[i].In() > at {
		return 0, 0, false
	}
	s := &ss[i]
	return s.In() - s.QueueNS, s.In(), true
}

// waits are the numbers of the system calls in which threads wait for the network, and
// for the next timer of theirs: epoll_wait, epoll_pwait and epoll_pwait2, where they exist.
var waits = map[string][]int{"amd64": {232, 281, 441}, "arm64": {22, 441}}

// poll is a time in which a thread that had waited for the network wanted a CPU, and
// until when it had one then, but for when it was made to leave it.
type poll struct {
	ready, in, out int64
	tid            int
}

// findPolls lists them in order of their beginning.
func (r *Recording) findPolls() {
	calls := waits[r.Header.Arch]
	runs := map[int]int{} // the poll since which a thread has not slept
	for i := range r.Stretches {
		s := &r.Stretches[i]
		switch p, ok := runs[s.TID]; {
		case s.Flags&Preempted != 0:
			if ok {
				r.polls[p].out = s.Out
			}
		case s.QueueNS > 0 && s.Flags&Throttled == 0 && slices.Contains(calls, s.NR):
			runs[s.TID] = len(r.polls)
			r.polls = append(r.polls, poll{s.In() - s.QueueNS, s.In(), s.Out, s.TID})
		default:
			delete(runs, s.TID)
		}
	}
	slices.SortFunc(r.polls, func(a, b poll) int { return cmp.Compare(a.ready, b.ready) })
}

// Unpolled is a time in which the thread that waited for the network wanted a CPU: nobody else polls
// meanwhile. Others is the part of it, in ns, in which other processes had the CPUs.
type Unpolled struct{ FromNS, ToNS, Others int64 }

// Unpolled returns them in order of their beginning.
func (r *Recording) Unpolled() []Unpolled {
	var out []Unpolled
	for _, p := range r.polls {
		if n := len(out); n > 0 && p.ready < out[n-1].ToNS { // the next thread that waits, at most
			continue
		}
		parts := r.Split(p.tid, p.ready, p.in)
		out = append(out, Unpolled{p.ready, p.in, parts[Queued]})
	}
	return out
}

// maxPolls bounds how many threads may wait for the network at the same time: Go has one.
const maxPolls = 8

// Polling returns which thread was the first to be told by the kernel that the network
// has something, or that time is up, if at an instant it still waited for a CPU since then,
// or had got it no longer ago than within, in ns, or than a part of that wait, and has
// not gone to sleep again for longer than within; ok is false if there is none. (With what
// it was told it wakes others, one after the other.)
func (r *Recording) Polling(at, within, part int64) (tid int, ready int64, ok bool) {
	last := sort.Search(len(r.polls), func(i int) bool { return r.polls[i].ready >= at })
	for i := last - 1; i >= max(0, last-maxPolls); i-- {
		if p := &r.polls[i]; p.in >= at-max(within, (p.in-p.ready)/part) && p.out >= at-within {
			tid, ready, ok = p.tid, p.ready, true
		}
	}
	return tid, ready, ok
}
