package pace

import (
	"runtime"
	"slices"
	"sync"

	"github.com/whylate/whylate/sdk/quota"
)

// procs raises GOMAXPROCS by the permits of all pacers that are at work, and gives it back after the last.
type procs struct {
	mu     sync.Mutex
	pacers []*Pacer // those at work, in the order in which they came
	base   int      // what it is without us
	user   bool     // somebody chose that, not the runtime
	raised int      // what it was raised to, 0: it is not
}

// processors are the process's: to each of two pacers on its own, what the other sets would be the choice of somebody who
// means it.
var processors procs

// arrange makes GOMAXPROCS fit what is allowed now, and returns the layout for a pacer, which is at work from now on.
func (s *procs) arrange(p *Pacer) (quota.Report, layout) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := quota.Check() // under the lock: it looks who has set GOMAXPROCS
	s.look(r)
	if !slices.Contains(s.pacers, p) {
		s.pacers = append(s.pacers, p)
	}
	return r, s.share(p)
}

// leave is called by a pacer that is not at work any more.
func (s *procs) leave(p *Pacer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yield()
	s.pacers = slices.DeleteFunc(s.pacers, func(q *Pacer) bool { return q == p })
	s.share(nil)
}

// yield finds out whether somebody has set GOMAXPROCS since it was raised, who means it.
func (s *procs) yield() {
	if current := runtime.GOMAXPROCS(0); s.raised != 0 && current != s.raised {
		s.base, s.user, s.raised = current, true, 0
	}
}

// look finds out what GOMAXPROCS is without us. To set it stops the runtime from following the quota, so this does
// it meanwhile.
func (s *procs) look(r quota.Report) {
	if s.yield(); s.raised == 0 {
		chosen := r.SetBy == quota.ByProgram || r.SetBy == quota.ByEnvironment
		s.base, s.user = r.GOMAXPROCS, chosen || s.user && len(s.pacers) > 0
	} else if !s.user {
		s.base = r.Default()
	}
}

// share sets GOMAXPROCS for all who are at work, and returns the layout of one of them. Who came first comes first where it is not raised.
func (s *procs) share(p *Pacer) (mine layout) {
	add, taken := 0, 0
	for _, q := range s.pacers {
		l := plan(q.options, q.way, max(1, s.base-taken), s.user)
		switch {
		case l.raises:
			add += l.permits
		case !l.parks:
			taken += l.permits
		}
		if q == p {
			mine = l
		}
	}
	switch to := s.base + add; {
	case add == 0:
		s.restore()
	case to != s.raised:
		runtime.GOMAXPROCS(to)
		s.raised = to
	}
	if mine.raises {
		mine.raised = s.raised
	}
	return mine
}

// restore gives it back: to the runtime if that had chosen it.
func (s *procs) restore() {
	switch {
	case s.raised == 0:
	case s.user:
		runtime.GOMAXPROCS(s.base)
	default:
		setDefault(s.base)
	}
	s.raised = 0
}

// layout is how many permits there are at most, whether GOMAXPROCS is raised by them, and to what, and whether holders of permits
// have to park, as no P is left for others.
type layout struct {
	permits       int
	raises, parks bool
	raised        int
}

// plan makes the layout of options, of the way that works here, and of what GOMAXPROCS is without us.
func plan(o Options, way Way, base int, user bool) layout {
	permits := o.Permits
	if permits == 0 {
		permits = min(base, maxPermits)
	}
	switch {
	case way == Parks:
		return layout{permits: min(permits, base), parks: true}
	case o.Raise == RaiseAlways, o.Raise == RaiseDefault && !user:
		return layout{permits: permits, raises: true}
	}
	permits = max(1, min(permits, base-1))
	return layout{permits: permits, parks: permits >= base}
}
