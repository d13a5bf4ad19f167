package experiment

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/report/redact"
)

// Difference is something that the incidents do not have in common.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// maxModules is how many modules are said to differ one by one, maxEndpoints how many
// endpoints.
const (
	maxModules   = 20
	maxEndpoints = 12
)

// redacted tells whether names are hashes.
func redacted(m *evidence.Manifest) bool { return slices.Contains(m.Notes, redact.Note) }

// sameNames tells whether the names of two incidents can be compared: both are as they are, or
// hashed with one key, which shows in the program's name or its main module's being the same.
func sameNames(a, b *evidence.Manifest) bool {
	if redacted(a) && redacted(b) {
		x, y := &a.Target, &b.Target
		return x.Program != "" && x.Program == y.Program || x.Main != "" && x.Main == y.Main
	}
	return redacted(a) == redacted(b)
}

// calledNames says what the names of an incident are.
func calledNames(m *evidence.Manifest) string {
	if redacted(m) {
		return "hashes, cannot be compared"
	}
	return "as they are"
}

// differences are those of two incidents, what most often changes lateness first: what the
// process may use, how it is set, what it was built of, what it had to do, where it runs, and
// what was recorded.
func differences(a, b *Incident) []Difference {
	list := differing{Difference: []Difference{}, hashed: !sameNames(a.Manifest, b.Manifest)}
	if list.hashed {
		list.Difference = append(list.Difference, Difference{"names", calledNames(a.Manifest), calledNames(b.Manifest)})
	}
	x, y := &a.Manifest.Target, &b.Manifest.Target
	h, k := &a.Manifest.Host, &b.Manifest.Host
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	if h.CPUs > 0 && k.CPUs > 0 {
		list.add("quota", quota(h.Quotas), quota(k.Quotas))
		list.add("CPUs", number(h.CPUs), number(k.CPUs))
	}
	list.add("GOMAXPROCS", number(a.Diagnosis.Target.GOMAXPROCS), number(b.Diagnosis.Target.GOMAXPROCS))
	if x.Program != "" && y.Program != "" { // what a local process was started with is known
		for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG"} {
			add := list.add
			if name == "GODEBUG" {
				add = list.named // whose settings need not be Go's
			}
			add(name+" in the environment", orNone(x.Env[name]), orNone(y.Env[name]))
		}
	}
	list.versioned("Go", x.Go, y.Go)
	if x.ModulesFrom == "build info" && y.ModulesFrom == "build info" {
		list.named("default GODEBUG", orNone(x.DefaultGODEBUG), orNone(y.DefaultGODEBUG))
	}
	list.named("program", x.Program, y.Program)
	list.named("main module", x.Main, y.Main)
	list.named("version", x.MainVersion, y.MainVersion)
	list.settings(x.Settings, y.Settings)
	list.modules(x, y)
	list.load(a, b)
	list.endpoints(a, b)
	list.add("clocksource", h.Clocksource, k.Clocksource)
	list.versioned("kernel", h.Kernel, k.Kernel)
	list.add("platform", strings.Trim(h.OS+"/"+h.Arch, "/"), strings.Trim(k.OS+"/"+k.Arch, "/"))
	list.recorded(a.Manifest, b.Manifest)
	list.add("whylate", a.Manifest.Tool, b.Manifest.Tool)
	return list.Difference
}

// differing collects differences; hashed: names cannot be compared.
type differing struct {
	Difference []Difference
	hashed     bool
}

// named adds what differs and may hold a name: nothing if names cannot be compared.
func (l *differing) named(what, a, b string) {
	if !l.hashed {
		l.add(what, a, b)
	}
}

// versioned adds versions that differ, of which only the numbers are no names.
func (l *differing) versioned(what, a, b string) {
	if l.hashed {
		a, b = numbers.FindString(a), numbers.FindString(b)
	}
	l.add(what, a, b)
}

var numbers = regexp.MustCompile(`^(go)?[0-9]+(\.[0-9]+)*`)

// add adds what differs; "" is what is not known.
func (l *differing) add(what, a, b string) {
	if a != b && a != "" && b != "" {
		l.Difference = append(l.Difference, Difference{what, a, b})
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// quota is the lowest limit of a process, in CPUs.
func quota(list []evidence.Quota) string {
	least := 0.
	for _, q := range list {
		if q.QuotaUS > 0 && q.PeriodUS > 0 {
			if cpus := float64(q.QuotaUS) / float64(q.PeriodUS); least == 0 || cpus < least {
				least = cpus
			}
		}
	}
	if least == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g CPUs", least)
}

// settings are those of the build; one that is not there has its default.
func (l *differing) settings(a, b map[string]string) {
	if a == nil || b == nil {
		return
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if l.hashed && !inBoth(a, b, key) {
			continue
		}
		l.add("build setting "+key, orNone(a[key]), orNone(b[key]))
	}
}

// modules are compared as far as both lists are whole.
func (l *differing) modules(a, b *evidence.Target) {
	if a.ModulesFrom != "build info" || b.ModulesFrom != "build info" {
		return
	}
	versions := func(t *evidence.Target) map[string]string {
		m := make(map[string]string, len(t.Modules))
		for _, x := range t.Modules {
			v := x.Version
			if v == "" {
				v = "without a version"
			}
			m[x.Path] = v
		}
		return m
	}
	x, y := versions(a), versions(b)
	both := maps.Clone(x)
	maps.Copy(both, y)
	n := 0
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if x[path] == y[path] || l.hashed && !inBoth(x, y, path) {
			continue
		}
		if n++; n <= maxModules {
			l.add("module "+path, orNone(x[path]), orNone(y[path]))
		}
	}
	if n > maxModules {
		l.Difference = append(l.Difference, Difference{"more modules", "", fmt.Sprintf("%d more differ", n-maxModules)})
	}
}

func inBoth(a, b map[string]string, key string) bool {
	_, in := a[key]
	_, too := b[key]
	return in && too
}

// load is what the service had to do.
func (l *differing) load(a, b *Incident) {
	n, m := a.Diagnosis.Requests.Count, b.Diagnosis.Requests.Count
	if rateDiffers(float64(n), float64(m), float64(a.Diagnosis.CountedNS()), float64(b.Diagnosis.CountedNS())) {
		rate := func(in *Incident) string { return fmt.Sprintf("%.3g requests/s", side(in).RequestsPerS) }
		l.add("load", rate(a), rate(b))
	}
}

// endpoints are compared by their part of the requests: a mix of others explains lateness by
// itself.
func (l *differing) endpoints(a, b *Incident) {
	x, n := endpoints(a)
	y, m := endpoints(b)
	if l.hashed || n.all == 0 || m.all == 0 {
		return
	}
	both := maps.Clone(x)
	maps.Copy(both, y)
	type row struct {
		name string
		a, b float64
	}
	var rows []row
	for name := range both {
		p, q := x[name], y[name]
		if max(n.least(p)-m.most(q), m.least(q)-n.most(p)) > least && rateDiffers(p.count, q.count, n.all, m.all) {
			rows = append(rows, row{name, p.count / n.all, q.count / m.all})
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		d := func(r row) float64 { return max(r.a-r.b, r.b-r.a) }
		return d(rows[i]) > d(rows[j]) || d(rows[i]) == d(rows[j]) && rows[i].name < rows[j].name
	})
	for _, r := range rows[:min(len(rows), maxEndpoints)] {
		said := func(v float64) string { return fmt.Sprintf("%.3g %% of the requests", 100*v) }
		l.add("endpoint "+r.name, said(r.a), said(r.b))
	}
}

// least is the part of all requests by which an endpoint's has to differ: half of the tail.
const least = 0.0075

// shared is how many requests an endpoint has: count are those that are said to be its own, seen
// those of them that were seen in its handler.
type shared struct{ count, seen float64 }

// whole are all requests, and those that were not seen in a handler.
type whole struct{ all, unseen float64 }

// least and most bound the part of the requests that an endpoint has: any of those that were
// not seen may be its own.
func (w whole) least(p shared) float64 { return p.seen / w.all }
func (w whole) most(p shared) float64  { return (p.seen + w.unseen) / w.all }

// endpoints counts the requests of each.
func endpoints(in *Incident) (map[string]shared, whole) {
	by, all := map[string]shared{}, whole{}
	if d := in.Diagnosis.Detail; d != nil {
		for i := range d.Requests {
			r := &d.Requests[i]
			x := by[r.Endpoint]
			x.count += r.Weight
			all.all += r.Weight
			if r.Unseen {
				all.unseen += r.Weight
			} else {
				x.seen += r.Weight
			}
			by[r.Endpoint] = x
		}
	}
	return by, all
}

// instruments are the members on which it depends what can be decided.
var instruments = []struct{ member, name string }{
	{evidence.MemberTrace, "execution trace"}, {evidence.MemberCPU, "CPU profile"}, {evidence.MemberHost, "host evidence"},
	{evidence.MemberKernel, "kernel's scheduling events"}, {evidence.MemberDependency, "dependencies' own figures"},
}

func (l *differing) recorded(a, b *evidence.Manifest) {
	has := func(m *evidence.Manifest, member string) string {
		if slices.ContainsFunc(m.Recorded, func(r evidence.Recorded) bool { return r.Member == member }) {
			return "recorded"
		}
		return "not recorded"
	}
	for _, i := range instruments {
		l.add(i.name, has(a, i.member), has(b, i.member))
	}
}
