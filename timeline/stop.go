package timeline

// apart cuts off stops of the world what is within one before: it is stopped by one at a time,
// but a trace that is damaged or made may say otherwise.
func apart(stops []Span) []Span {
	out := stops[:0]
	for _, s := range stops {
		if n := len(out); n > 0 && out[n-1].End > s.Start {
			if s.Start = out[n-1].End; s.Start > s.End {
				continue
			}
			s.Stopped = max(s.Stopped, s.Start)
		}
		out = append(out, s)
	}
	return out
}

// Unstopped returns the goroutine that ran on for longest while the world was being
// stopped, and in which part of that time it did; NoG if none ran. Who stopped the
// world does not count, nor does a goroutine in a system call: its P is taken.
func (t *Timeline) Unstopped(stop *Span) (g GID, from, to Time) {
	g = NoG
	for p := range t.Procs {
		ss := &t.Procs[p].stints
		for i := ss.ending(stop.Start); i < ss.n; i++ {
			s := ss.at(i)
			if s.Start >= stop.Stopped {
				break
			}
			if s.G == NoG || s.G == stop.G || s.What == InSyscall {
				continue
			}
			if end := min(s.End, stop.Stopped); end > to {
				g, from, to = s.G, max(s.Start, stop.Start), end
			}
		}
	}
	return g, from, to
}
