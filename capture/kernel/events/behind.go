package events

import "sort"

// Behind returns for how long others had the CPUs that threads of the process wanted in spans, which are in order of time and apart, by
// the process that had a CPU until the thread got it, but for who recorded, in ns. Those of a wait after which nobody had had it, or of which that is
// not known, are of process 0. It returns nil if the recording is of a version that did not ask.
func (r *Recording) Behind(spans []Pause) map[int]int64 {
	if !r.asksBehind() {
		return nil
	}
	out := map[int]int64{}
	others := make([]int64, len(spans)+1) // until each of them
	for i, p := range spans {
		others[i+1] = others[i] + r.others(p.FromNS, p.ToNS)
	}
	for _, t := range r.threads {
		for i := range t.stretches {
			s := &t.stretches[i]
			if s.QueueNS == 0 || s.Flags&Throttled != 0 || s.Behind != 0 && s.Behind == r.Header.Recorder {
				continue
			}
			from, to := s.In()-s.QueueNS, s.In()
			a := sort.Search(len(spans), func(i int) bool { return spans[i].ToNS > from })
			b := sort.Search(len(spans), func(i int) bool { return spans[i].FromNS >= to })
			if a >= b {
				continue
			}
			ns := others[b] - others[a]
			if p := spans[a]; p.FromNS < from {
				ns -= r.others(p.FromNS, from)
			}
			if p := spans[b-1]; p.ToNS > to {
				ns -= r.others(to, p.ToNS)
			}
			if ns > 0 {
				out[s.Behind] += ns
			}
		}
	}
	return out
}

// others is the part of [from, to] in which others had the CPUs.
func (r *Recording) others(from, to int64) int64 {
	return to - from - (r.used(to)-r.used(from))/int64(r.Header.CPUs)
}

func (r *Recording) asksBehind() bool {
	return len(r.Header.Fields) >= len(Fields) && r.Header.Fields[len(Known)] == Fields[len(Known)]
}

// Process returns what is known of a process.
func (r *Recording) Process(pid int) Process {
	if r.After != nil {
		for _, p := range r.After.Processes {
			if p.PID == pid {
				return p
			}
		}
	}
	return Process{PID: pid}
}
