package events

import "sort"

// Suspension is a time in which somebody outside made the whole process stop: by a signal
// (SIGSTOP), by freezing its cgroup, or with a debugger.
type Suspension struct{ FromNS, ToNS int64 }

// When a process goes on after that, all its threads are woken at once, also those that have
// nothing to do. By itself it does not do so: the network, a timer or a device wakes one
// thread; that wakes a second one to help it, and the runtime's monitor; that takes a while,
// and those without work sleep on.
const (
	// wokenWithin is how far from the first thread that got a CPU the others are woken, in ns,
	// and wokenEach what each of them adds to that.
	wokenWithin, wokenEach = 50e3, 2e3
	// helpers is how many threads a process wakes by itself for one thing.
	helpers = 3
	// suspendedPart is by how much longer than those wake-ups the stop is: the more often
	// all threads run the more often they do so together by accident.
	suspendedPart = 16
)

// Suspensions returns them in order of time, apart.
func (r *Recording) Suspensions() (out []Suspension) {
	within := int64(wokenWithin + wokenEach*len(r.threads))
	for i := 0; i+1 < len(r.load); i++ {
		from, to := r.load[i].at, r.load[i+1].at
		if r.load[i].on == 0 && to-from >= suspendedPart*within && r.allWoken(from, to, within) {
			out = append(out, Suspension{from, to})
		}
	}
	return out
}

// allWoken reports whether all threads that had had a CPU before from were woken within so many
// ns of to, and had none meanwhile.
func (r *Recording) allWoken(from, to, within int64) bool {
	n := 0
	for _, t := range r.threads {
		ss := t.stretches
		k := sort.Search(len(ss), func(k int) bool { return ss[k].Out > from })
		if k == 0 { // it may not have been there
			continue
		}
		if k == len(ss) {
			return false
		}
		if ready := ss[k].In() - ss[k].QueueNS; ready < to-within || ready > to+within {
			return false
		}
		n++
	}
	return n > helpers
}
