package pace

import (
	"runtime"

	"github.com/whylate/whylate/sdk/quota"
)

// procs raises GOMAXPROCS, and gives it back.
type procs struct {
	base   int  // what it is without us
	user   bool // somebody chose that, not the runtime
	raised int  // what it was raised to, 0: it is not
}

// look finds out what GOMAXPROCS is without us. To set it stops the runtime from following the quota, so this does
// it meanwhile.
func (p *procs) look(r quota.Report) {
	current := runtime.GOMAXPROCS(0)
	switch {
	case p.raised != 0 && current != p.raised:
		// Somebody set it since, and means it.
		p.base, p.user, p.raised = current, true, 0
	case p.raised != 0 && !p.user:
		p.base = r.Default()
	case p.raised == 0:
		p.base = current
		p.user = p.user || r.SetBy == quota.ByProgram || r.SetBy == quota.ByEnvironment
	}
}

// raise sets it to so many, if it is not.
func (p *procs) raise(to int) {
	if to == p.raised {
		return
	}
	runtime.GOMAXPROCS(to)
	p.raised = to
}

// restore gives it back: to the runtime if that had chosen it.
func (p *procs) restore() {
	if p.raised == 0 || runtime.GOMAXPROCS(0) != p.raised {
		p.raised = 0
		return
	}
	p.raised = 0
	if p.user {
		runtime.GOMAXPROCS(p.base)
		return
	}
	setDefault(p.base)
}

// layout is how many permits there are at most, what GOMAXPROCS has to be raised to (0: not), and whether holders of
// permits have to park, as no P is left for others.
type layout struct {
	permits, raised int
	parks           bool
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
		return layout{permits: permits, raised: base + permits}
	}
	permits = max(1, min(permits, base-1))
	return layout{permits: permits, parks: permits >= base}
}
