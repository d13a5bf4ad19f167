package events

// Behind returns for how long others had the CPUs that threads of the process wanted in spans, which are in order of time and apart, by
// the process that had a CPU until the thread got it, in ns. Those of a wait after which nobody had had it, or of which that is
// not known, are of process 0. It returns nil if the recording is of a version that did not ask.
func (r *Recording) Behind(spans []Pause) map[int]int64 {
	if !r.asksBehind() {
		return nil
	}
	out := map[int]int64{}
	for i := range r.Stretches {
		s := &r.Stretches[i]
		if s.QueueNS == 0 || s.Flags&Throttled != 0 {
			continue
		}
		in := s.In()
		for _, p := range overlapping(spans, in-s.QueueNS, in) {
			from, to := max(p.FromNS, in-s.QueueNS), min(p.ToNS, in)
			if others := to - from - (r.used(to)-r.used(from))/int64(r.Header.CPUs); others > 0 {
				out[s.Behind] += others
			}
		}
	}
	return out
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
