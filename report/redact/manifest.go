package redact

import (
	"regexp"
	"slices"
	"strings"

	"github.com/whylate/whylate/evidence"
)

// Forms of what stays in a manifest.
var (
	toolVersion = regexp.MustCompile(`^(\(devel\)|v[0-9][0-9A-Za-z.+-]{0,60})$`)
	settings    = map[string]*regexp.Regexp{
		"GOMAXPROCS": regexp.MustCompile(`^[0-9]{1,9}$`),
		"GOGC":       regexp.MustCompile(`^(off|-?[0-9]{1,9})$`),
		"GOMEMLIMIT": regexp.MustCompile(`^(off|[0-9]{1,19}([KMGT]i)?B?)$`),
	}
	debugValue = regexp.MustCompile(`^([0-9]{0,9}|on|off|only|debug|go|cgo)$`)
)

// debugSettings are those of GODEBUG. Source: internal/godebugs and runtime of Go 1.22 to 1.26.
var debugSettings = set(`adaptivestackstart asyncpreemptoff asynctimerchan cgocheck clobberfree containermaxprocs dataindependenttiming
	decoratemappings disablethp dontfreezetheworld checkfinalizers efence gccheckmark gcpacertrace gcshrinkstackoff gcstoptheworld
	gcrescanstacks gctrace harddecommit inittrace invalidptr madvdontneed panicnil profstackdepth runtimecontentionstacks sbrk scavtrace
	scheddetail schedtrace traceadvanceperiod traceallocfree tracecheckstackownership tracebackancestors tracebacklabels tracefpunwindoff
	updatemaxprocs allowmultiplevcs cryptocustomrand embedfollowsymlinks execerrdot fips140 gocachehash gocachetest gocacheverify
	gotestjsonbuildtext gotypesalias htmlmetacontenturlescape http2client http2debug http2server httpcookiemaxnum httplaxcontentlength
	httpmuxgo121 httpservecontentkeepheaders installgoroot jstmpllitinterp multipartfiles multipartmaxheaders multipartmaxparts
	multipathtcp netdns netedns0 randautoseed randseednop rsa1024min tarinsecurepath tls10server tls3des tlskyber tlsmaxrsasize tlsmlkem
	tlsrsakex tlssecpmlkem tlssha1 tlsunsafeekm urlmaxqueryparams urlstrictcolons winreadlinkvolume winsymlink x509keypairleaf
	x509negativeserial x509rsacrt x509sha1 x509sha256skid x509usefallbackroots x509usepolicies zipinsecurepath`)

// buildSettings are those whose values say nothing of whose program it is, buildValue is what
// these look like.
var (
	buildSettings = set(`-buildmode -compiler -race -msan -asan CGO_ENABLED GOARCH GOOS GOAMD64 GOARM64 vcs.modified`)
	buildValue    = regexp.MustCompile(`^(true|false|[01]|v[0-9.]{1,6}(,[a-z0-9]{1,10})*|gc|gccgo|exe|pie|default|c-shared|plugin|linux|darwin|windows|freebsd|amd64|arm64|386|arm|riscv64|ppc64le|s390x)$`)
)

// Note is what a copy's manifest says of itself.
const Note = "Names in this incident are hashes: whylate redact wrote it."

// manifest returns the manifest of the copy, whose members have the sizes given.
func (r *redactor) manifest(from *evidence.Manifest, sizes map[string]int64) evidence.Manifest {
	m := *from
	if !toolVersion.MatchString(m.Tool) {
		m.Tool = r.name(m.Tool)
	}
	m.Target = r.target(&from.Target)
	m.Host.OS, m.Host.Arch, m.Host.Kernel = r.pieces(m.Host.OS), r.pieces(m.Host.Arch), r.version(m.Host.Kernel)
	m.Host.Clocksource = r.clocksource(m.Host.Clocksource)
	m.Host.Quotas = slices.Clone(from.Host.Quotas)
	for i := range m.Host.Quotas {
		m.Host.Quotas[i].Cgroup = r.path(m.Host.Quotas[i].Cgroup)
	}
	m.Recorded = nil
	for _, x := range from.Recorded {
		if size, ok := sizes[x.Member]; ok {
			x.Bytes, x.What, x.Incomplete = size, r.text(x.What), r.text(x.Incomplete)
			m.Recorded = append(m.Recorded, x)
			delete(sizes, x.Member) // a list may name one twice
		}
	}
	m.NotRecorded = slices.Clone(from.NotRecorded)
	for i := range m.NotRecorded {
		x := &m.NotRecorded[i]
		x.What, x.Why, x.Command = r.text(x.What), r.text(x.Why), r.text(x.Command)
	}
	m.Notes = slices.Clone(from.Notes)
	for i := range m.Notes {
		if m.Notes[i] != Note {
			m.Notes[i] = r.text(m.Notes[i])
		}
	}
	if !slices.Contains(m.Notes, Note) {
		m.Notes = append(m.Notes, Note)
	}
	m.Cost.Asked = slices.Clone(from.Cost.Asked)
	for i := range m.Cost.Asked {
		m.Cost.Asked[i].What = r.text(m.Cost.Asked[i].What)
	}
	return m
}

func (r *redactor) target(from *evidence.Target) evidence.Target {
	t := *from
	t.Kind = r.known(t.Kind, "pprof", "pid", "file")
	t.URL, t.File, t.Program = r.url(t.URL), r.fileName(t.File), r.name(t.Program)
	t.Go, t.TraceFormat, t.Main = r.goVersion(t.Go), r.goVersion(t.TraceFormat), r.module(t.Main)
	t.Modules = nil
	for _, m := range from.Modules {
		path := r.module(m.Path)
		if path != m.Path {
			m.Version = r.name(m.Version)
		}
		t.Modules = append(t.Modules, evidence.Module{Path: path, Version: m.Version})
	}
	// In the order of the names it would show how these begin.
	slices.SortFunc(t.Modules, func(a, b evidence.Module) int { return strings.Compare(a.Path, b.Path) })
	t.ModulesFrom = r.text(t.ModulesFrom)
	if t.MainVersion != "(devel)" {
		t.MainVersion = r.name(t.MainVersion)
	}
	t.Settings = nil
	for key, value := range from.Settings {
		if t.Settings == nil {
			t.Settings = map[string]string{}
		}
		if !buildSettings[key] || !buildValue.MatchString(value) {
			key, value = r.name(key), r.name(value)
		}
		t.Settings[key] = value
	}
	t.DefaultGODEBUG = r.debug(t.DefaultGODEBUG)
	t.Env = map[string]string{}
	for name, value := range from.Env {
		form := settings[name]
		switch {
		case name == "GODEBUG":
			t.Env[name] = r.debug(value)
		case form == nil: // the writer leaves others out
		case form.MatchString(value):
			t.Env[name] = r.keep(value)
		default:
			t.Env[name] = r.name(value)
		}
	}
	return t
}

// fileName hashes the name of a file and keeps what kind it is of.
func (r *redactor) fileName(s string) string {
	for _, ext := range []string{".whylate", ".trace", ".out", ".trace.gz", ".gz"} {
		if base, ok := strings.CutSuffix(s, ext); ok {
			return r.path(base) + ext
		}
	}
	return r.path(s)
}

// module keeps the path of a module that tables name.
func (r *redactor) module(s string) string {
	if s == "" {
		return s
	}
	if tabled(s + ".x") {
		return r.keep(s)
	}
	return r.path(s)
}

// goVersion keeps the version of a toolchain, without the name that a company gave it.
func (r *redactor) goVersion(s string) string {
	if rest, ok := strings.CutPrefix(s, "go"); ok {
		return "go" + r.version(rest)
	}
	return r.pieces(s)
}

// debug keeps settings of GODEBUG that Go knows: rules look at some of them.
func (r *redactor) debug(s string) string {
	if s == "" {
		return s
	}
	list := strings.Split(s, ",")
	for i, x := range list {
		key, value, ok := strings.Cut(x, "=")
		switch {
		case !ok:
			list[i] = r.name(x)
		case !debugSettings[key]:
			list[i] = r.name(key) + "=" + r.name(value)
		case !debugValue.MatchString(value):
			list[i] = key + "=" + r.name(value)
		default:
			r.keep(x)
		}
	}
	return strings.Join(list, ",")
}
