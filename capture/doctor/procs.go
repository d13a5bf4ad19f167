package doctor

import (
	"fmt"
	"go/version"
	"math"
	"strconv"
	"strings"
	"time"
)

// Procs compares the number of Ps of a Go program with the CPU time it may use.
type Procs struct {
	// CPUs that the program may use (its affinity), 0 if unknown.
	CPUs int `json:"cpus,omitempty"`
	// Quota is the lowest one of its cgroups that can be seen, in CPUs; 0 is none.
	Quota float64 `json:"quota,omitempty"`
	// Groups go from the program's cgroup upwards; Ancestors tells whether all of
	// those that may limit it could be seen.
	Groups    []Group `json:"groups,omitempty"`
	Ancestors bool    `json:"ancestors"`
	// GOMAXPROCS of the process: read from its memory if Read, else what follows
	// from its build, its environment and its cgroup. Wanted is what Go 1.25 and
	// newer would choose if they saw the lowest quota. 0 is unknown.
	GOMAXPROCS int   `json:"gomaxprocs,omitempty"`
	Read       bool  `json:"read"`
	Wanted     int   `json:"wanted,omitempty"`
	Rows       []Row `json:"rows"`
}

// choice is what decides how the runtime chooses GOMAXPROCS (runtime.schedinit,
// runtime.defaultGOMAXPROCS).
type choice struct {
	// old tells that the runtime does not look at quotas: it is older than 1.25.
	old bool
	// explicit is GOMAXPROCS in the environment, 0 if unset or no positive number.
	explicit int
	// container and update are containermaxprocs and updatemaxprocs: of the build,
	// unless godebug, the one of the environment, says otherwise.
	container, update bool
	godebug           string
}

func (p *process) choice() choice {
	c := choice{godebug: p.env["GODEBUG"]}
	c.old = p.known && release(p.Go) != "" && version.Compare(release(p.Go), "go1.25") < 0
	if n, err := strconv.ParseInt(p.env["GOMAXPROCS"], 10, 32); err == nil && n > 0 {
		c.explicit = int(n)
	}
	built := debugSetting(p.godebug, "containermaxprocs", 1)
	c.container = debugSetting(c.godebug, "containermaxprocs", built) > 0
	c.update = debugSetting(c.godebug, "updatemaxprocs", debugSetting(p.godebug, "updatemaxprocs", 1)) != 0
	return c
}

// procs judges the Ps of a process.
func procs(f files, p *process) Procs {
	if p.Problem != "" && !p.examined() {
		return Procs{Rows: []Row{}} // Problem says why
	}
	g := cgroups(f, p.name)
	r := Procs{CPUs: p.cpus, Groups: g.list, Ancestors: g.complete}
	low := g.tightest()
	if low != nil {
		r.Quota = low.CPUs
	}
	r.Rows = append(r.Rows, quotaRow(&g, p.cpus))
	switch {
	case p.Problem != "":
		return r // no Go program has no GOMAXPROCS
	case p.cpus == 0:
		r.Rows = append(r.Rows, Row{ID: "gomaxprocs", State: Unknown, Why: "which CPUs the process may use cannot be read"})
		return r
	}
	c := p.choice()
	r.Wanted = ps(p.cpus, r.Quota)
	expected := p.cpus
	switch {
	case c.explicit > 0:
		expected = c.explicit
	case !c.old && c.container && !p.noCgroupMount:
		expected = ps(p.cpus, g.leaf())
	}
	r.GOMAXPROCS = expected
	if p.procs > 0 {
		r.GOMAXPROCS, r.Read = p.procs, true
	} else if p.name != "self" && (!p.known || p.envErr != nil) {
		r.GOMAXPROCS = 0 // what would decide it is not known
	}
	r.Rows = append(r.Rows, r.compare(p, low))
	r.Rows = append(r.Rows, r.traps(p, c, &g, expected)...)
	return r
}

// examined tells that the process exists, whatever else is wrong with it.
func (p *process) examined() bool { return p.cpus > 0 }

func quotaRow(g *groups, cpus int) Row {
	row := Row{ID: "quota", State: OK, Value: "none"}
	low := g.tightest()
	switch {
	case low != nil:
		row.Value = fmt.Sprintf("%s in every %s, cgroup %s", amount(low.CPUs), period(low), low.Path)
		if low.Throttled > 0 {
			row.State = Look
			row.Why = fmt.Sprintf("throttled in %d of %d periods since the cgroup was made", low.Throttled, low.Periods)
			row.Advice = "record while it is slow: whylate diagnose tells whether the quota is too low or the bursts too high"
		}
		if !g.complete {
			row.Why = join(row.Why, "there may be a lower one: "+g.hidden)
		}
	case !g.complete:
		row.State, row.Value = Unknown, "none that can be seen"
		row.Why = g.hidden
		row.Advice = "run whylate doctor on the host, with the process's id there"
	case g.version == 0:
		row.Why = g.hidden
	default:
		row.Why = fmt.Sprintf("cgroup v%d, all ancestors seen; %s", g.version, count(cpus, "CPU"))
	}
	return row
}

// compare judges the number of Ps, wherever it comes from.
func (r *Procs) compare(p *process, low *Group) Row {
	row := Row{ID: "gomaxprocs", State: OK, Value: strconv.Itoa(r.GOMAXPROCS)}
	how := "by its build, environment and cgroup"
	switch {
	case r.GOMAXPROCS == 0:
		row.State, row.Value = Unknown, ""
		row.Why = "neither its memory nor what decides it can be read"
		row.Advice = fmt.Sprintf("sudo whylate doctor %d", p.PID)
		return row
	case r.Read:
		how = "read from its memory"
	case p.name == "self":
		how = "of a program built with Go 1.25 or newer and started here"
		if old := p.cpus; old > r.GOMAXPROCS && p.choice().explicit == 0 {
			how += fmt.Sprintf("; with an older Go or an older go line in go.mod it is %d", old)
		}
	case p.procsErr != nil:
		how += "; its memory could not be read: " + because(p.procsErr)
	}
	row.Why = how
	switch {
	case r.GOMAXPROCS > r.Wanted && r.Quota > 0:
		row.State = Bad
		row.Why += fmt.Sprintf("; a burst on all of them uses up a period's quota in %s, and then everything stops until the next period", burst(low, min(r.GOMAXPROCS, r.CPUs)))
		row.Advice = fmt.Sprintf("GOMAXPROCS should be %d here", r.Wanted)
	case r.GOMAXPROCS > r.Wanted:
		row.State = Look
		row.Why += fmt.Sprintf("; but it may use only %s, so threads with a P wait for each other in the kernel", count(r.CPUs, "CPU"))
		row.Advice = fmt.Sprintf("GOMAXPROCS should be %d here", r.Wanted)
	case r.GOMAXPROCS < r.Wanted:
		row.State = Look
		row.Why += fmt.Sprintf("; %d are possible: goroutines may queue while CPUs are idle", r.Wanted)
		row.Advice = "raise GOMAXPROCS unless it is low on purpose"
	}
	return row
}

// traps are the reasons for which the number of Ps does not follow the quota.
// Those without an effect now are listed as OK: they wait for a quota. What was set decides without one, too.
func (r *Procs) traps(p *process, c choice, g *groups, expected int) []Row {
	var rows []Row
	high := r.GOMAXPROCS > r.Wanted && r.Quota > 0
	trap := func(id, value, why, advice string) {
		row := Row{ID: id, State: Bad, Value: value, Why: why, Advice: advice}
		switch {
		case high:
		case c.explicit > 0 && r.GOMAXPROCS != r.Wanted:
			row.State, row.Why = Look, join(why, fmt.Sprintf("it is why there are not %d", r.Wanted))
		default:
			row.State, row.Why = OK, join(why, "no effect here and now")
		}
		rows = append(rows, row)
	}
	low := g.tightest()
	numbers := fmt.Sprintf("GOMAXPROCS=%d", r.Wanted)
	if r.Read && r.GOMAXPROCS != expected {
		row := Row{ID: "set-in-code", State: Look, Value: fmt.Sprintf("%d, where %d was to be expected", r.GOMAXPROCS, expected),
			Why:    "set by runtime.GOMAXPROCS, or CPUs or quota changed and the runtime did not follow",
			Advice: "remove the call and let Go 1.25 or newer choose"}
		if p.library != "" {
			row.Why = "set by " + p.library + ", which rounds the quota down, or by another call of runtime.GOMAXPROCS"
			row.Advice = "remove " + setter + "; Go 1.25 and newer read the quota themselves"
		}
		if high {
			row.State = Bad
		} else if r.GOMAXPROCS == r.Wanted {
			row.State = OK
		}
		rows = append(rows, row)
	} else if v, set := p.env["GOMAXPROCS"]; set && c.explicit == 0 && v != "" {
		rows = append(rows, Row{ID: "environment", State: Look, Value: "GOMAXPROCS=" + v, Why: "not a positive number: the runtime ignores it", Advice: "correct or remove it"})
	} else if c.explicit > 0 {
		trap("environment", "GOMAXPROCS="+v, "the runtime then does not look at the quota", "remove it from the environment, or "+numbers)
	}
	if c.explicit > 0 {
		return rows // nothing else decides
	}
	switch {
	case c.old:
		trap("old-go", p.Go, "Go older than 1.25 does not look at the quota", "build with Go 1.25 or newer and go 1.25 in go.mod; until then "+numbers)
	case !c.container && debugSetting(c.godebug, "containermaxprocs", 1) <= 0:
		trap("godebug", "containermaxprocs=0 in GODEBUG", "the runtime then does not look at the quota", "remove it from the environment")
	case !c.container:
		trap("go-line", "built with containermaxprocs=0", "its go.mod has a go line below 1.25, or a godebug line that says so", "go 1.25 in go.mod; until then "+numbers)
	case p.noCgroupMount:
		trap("no-cgroup-mount", "", "its file system shows no cgroup, so the runtime cannot see the quota", "mount /sys/fs/cgroup in it, or "+numbers)
	case low != nil && ps(r.CPUs, g.leaf()) > r.Wanted:
		trap("ancestor", fmt.Sprintf("%s in %s", amount(low.CPUs), low.Path), "the runtime looks only at the quota of its own cgroup, and that is "+limit(g.leaf()),
			"set the quota on the process's own cgroup, or "+numbers)
	}
	if !c.old && c.container && !c.update {
		row := Row{ID: "no-updates", State: OK, Value: "updatemaxprocs=0", Why: "GOMAXPROCS stays as it is when the quota or the CPUs change", Advice: "restart the process after such a change, or remove the setting"}
		if r.Quota > 0 {
			row.State = Look
		}
		rows = append(rows, row)
	}
	if low != nil && low.CPUs <= 1 && r.GOMAXPROCS == 2 && r.Wanted == 2 {
		rows = append(rows, Row{ID: "floor", State: Look, Value: amount(low.CPUs) + ", but 2 Ps", Why: "the runtime takes at least 2; both running use up a period's quota in " + burst(low, 2),
			Advice: "raise the quota; GOMAXPROCS=1 only after an A/B: the GC then shares the only P"})
	}
	return rows
}

// burst is how long n busy Ps take to use up the quota of a period.
func burst(g *Group, n int) string {
	d := time.Duration(g.CPUs * float64(g.PeriodUS) * 1e3 / float64(max(n, 1)))
	return d.Round(100 * time.Microsecond).String()
}

func period(g *Group) string { return (time.Duration(g.PeriodUS) * time.Microsecond).String() }

func limit(cpus float64) string {
	if cpus == 0 {
		return "none"
	}
	return amount(cpus)
}

// amount is a quota in words.
func amount(cpus float64) string {
	s := strconv.FormatFloat(math.Round(cpus*100)/100, 'f', -1, 64)
	if s == "1" {
		return "1 CPU"
	}
	return s + " CPUs"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// join puts clauses together.
func join(parts ...string) string {
	var some []string
	for _, s := range parts {
		if s != "" {
			some = append(some, s)
		}
	}
	return strings.Join(some, "; ")
}
