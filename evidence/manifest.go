package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema names the manifest's format. Within major version 1 changes are only
// additive: a reader ignores the fields that it does not know.
const Schema = "whylate.incident/1"

const (
	schemaName  = "whylate.incident"
	schemaMajor = 1
	// maxManifest bounds manifest.json in bytes. A service with 2,000 modules
	// needs about 100 kB.
	maxManifest = 1 << 20
)

// Manifest says what an incident is: when and of what it was recorded, what is
// in it and what is not. All durations and offsets are nanoseconds; offsets
// count from Started. What is not known has its zero value. A manifest that was
// read from a file is a claim of whoever wrote the file: sizes and names in it
// are for display, never for allocation or for opening files.
type Manifest struct {
	Schema string `json:"schema"`
	// Tool is the version of whylate that recorded.
	Tool string `json:"tool,omitempty"`
	// Started is the wall time at which the recording began, DurationNS how long
	// its main evidence (the trace, if there is one) ran.
	Started    time.Time `json:"started,omitzero"`
	DurationNS int64     `json:"duration_ns,omitempty"`
	// Anchors are pairs of the two clocks read at the same instant on the machine
	// of the target. Go traces since 1.25 carry their own.
	Anchors     []Anchor      `json:"anchors,omitempty"`
	Target      Target        `json:"target"`
	Host        Host          `json:"host,omitzero"`
	Recorded    []Recorded    `json:"recorded"`
	NotRecorded []NotRecorded `json:"not_recorded"`
	// Notes are sentences about how the recording went.
	Notes []string `json:"notes,omitempty"`
	Cost  Cost     `json:"cost"`
	// Pauses are the collector's stops before the recording, nil if not known.
	Pauses *Pauses `json:"pauses,omitempty"`
}

// Pauses sums up the stops of the garbage collector that a target remembers: at
// most the last 256. Wall times are ns since 1970.
type Pauses struct {
	// Cycles and Forced count since the process started; forced ones were asked
	// for by the program.
	Cycles int64 `json:"cycles"`
	Forced int64 `json:"forced"`
	// Stops is how many are remembered, the first of them ended at FirstWallNS.
	Stops         int   `json:"stops"`
	FirstWallNS   int64 `json:"first_wall_ns,omitempty"`
	LongestNS     int64 `json:"longest_ns"`
	LongestWallNS int64 `json:"longest_wall_ns,omitempty"`
	// CostNS is how long asking took; the target was stopped for a part of it.
	CostNS int64 `json:"cost_ns"`
}

// Anchor ties the monotonic clock of a machine to its wall clock.
type Anchor struct {
	// MonoNS is CLOCK_MONOTONIC in ns, the clock of Go traces on Linux.
	MonoNS int64 `json:"mono_ns"`
	// WallNS is ns since 1970-01-01 UTC at the same instant.
	WallNS int64 `json:"wall_ns"`
}

// Target is the recorded process.
type Target struct {
	// Kind is "pprof" for a live endpoint, "pid" for host evidence alone, "file"
	// for a bare trace.
	Kind string `json:"kind"`
	// URL is the endpoint without user, password, query and fragment.
	URL  string `json:"url,omitempty"`
	File string `json:"file,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Program is the last element of argv[0].
	Program string `json:"program,omitempty"`
	// Go is the toolchain that built the target, such as "go1.26.8".
	Go string `json:"go,omitempty"`
	// TraceFormat is the version in the trace's header, such as "go1.26". It
	// changes less often than Go does: go1.24 writes "go1.23".
	TraceFormat string `json:"trace_format,omitempty"`
	// Main is the path of the main module.
	Main string `json:"main,omitempty"`
	// Modules are the target's dependencies. ModulesFrom says where the list comes
	// from: "build info" is complete, "profiles" holds only modules whose
	// functions occur in a profile.
	Modules     []Module `json:"modules,omitempty"`
	ModulesFrom string   `json:"modules_from,omitempty"`
	// MainVersion is the version of the main module, "(devel)" if it was not installed as one.
	MainVersion string `json:"main_version,omitempty"`
	// Settings are those of the build that change how a program runs, or say of what it was
	// made: -tags, CGO_ENABLED, vcs.revision and so on; no flags of the linker, which may hold
	// anything.
	Settings map[string]string `json:"settings,omitempty"`
	// DefaultGODEBUG is the setting that the target was built with.
	DefaultGODEBUG string `json:"default_godebug,omitempty"`
	// Env holds GOMAXPROCS, GOGC, GOMEMLIMIT and GODEBUG if they are set in the
	// target's environment; a Writer drops every other variable.
	Env        map[string]string `json:"env,omitempty"`
	GOMAXPROCS int               `json:"gomaxprocs,omitempty"`
	NumCPU     int               `json:"num_cpu,omitempty"`
	// Goroutines is their number right after the trace.
	Goroutines int `json:"goroutines,omitempty"`
}

// Module is a module that is linked into the target.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
}

// Host is the machine of the target.
type Host struct {
	OS          string `json:"os,omitempty"`
	Arch        string `json:"arch,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	Clocksource string `json:"clocksource,omitempty"`
	CPUs        int    `json:"cpus,omitempty"`
	// Quotas are the CPU limits of the target's cgroup and of its ancestors,
	// innermost first; groups without a limit are left out.
	Quotas []Quota `json:"quotas,omitempty"`
}

// Quota is the CPU limit of one cgroup: QuotaUS of CPU time in every PeriodUS,
// both in microseconds.
type Quota struct {
	Cgroup   string `json:"cgroup"`
	QuotaUS  int64  `json:"quota_us"`
	PeriodUS int64  `json:"period_us"`
}

// Recorded is one member of the incident.
type Recorded struct {
	Member string `json:"member"`
	What   string `json:"what"`
	// Bytes is the size before compression by the zip.
	Bytes     int64 `json:"bytes"`
	StartedNS int64 `json:"started_ns"`
	EndedNS   int64 `json:"ended_ns"`
	// Incomplete says why the member ends before it should; empty if it does not.
	Incomplete string `json:"incomplete,omitempty"`
}

// NotRecorded is evidence that is missing: what, why, and the command or the
// line of code that would make it available.
type NotRecorded struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

// Cost is what the recording itself took.
type Cost struct {
	// Requests counts the HTTP requests made to the target.
	Requests int `json:"requests"`
	// CPUSeconds is the CPU time of the recording process, not of the target.
	CPUSeconds float64 `json:"cpu_seconds"`
	// Asked are the dependencies that were asked what they did.
	Asked []Asked `json:"asked,omitempty"`
	// Host is what the host's evidence took of that, and the rate that was chosen for it.
	Host HostCost `json:"host,omitzero"`
	// Kernel is what the scheduling events took, of the recorder and of all CPUs.
	Kernel KernelCost `json:"kernel,omitzero"`
}

// KernelCost is what recording the kernel's scheduling events took.
type KernelCost struct {
	// CPUSeconds is the recorder's CPU time.
	CPUSeconds float64 `json:"cpu_seconds"`
	// ProbeSeconds is what the probes took, in ProbeRuns runs, on all CPUs, whoever ran there:
	// what the kernel counted in a part of the time, and for those in functions the way to the
	// kernel and back. 0 if the kernel did not count.
	ProbeSeconds float64 `json:"probe_seconds"`
	ProbeRuns    int64   `json:"probe_runs"`
	// Events were recorded, Lost were not.
	Events int64 `json:"events"`
	Lost   int64 `json:"lost"`
}

// Asked is what asking a dependency cost it.
type Asked struct {
	// What is the dependency, such as "redis 127.0.0.1:6379".
	What     string `json:"what"`
	Commands int    `json:"commands"`
	// NS is how long the answers took together, the way to and fro included: the
	// dependency worked no longer for them.
	NS int64 `json:"ns"`
}

// HostCost is what recording the host took, and what it was enough for.
type HostCost struct {
	// CPUSeconds is CPU time, from opening files to closing them.
	CPUSeconds float64 `json:"cpu_seconds"`
	// Samples of the host were taken, MeanPeriodNS apart on average.
	Samples      int   `json:"samples"`
	MeanPeriodNS int64 `json:"mean_period_ns"`
	// Threads is how many threads the process had, ThreadsRead of how many of them
	// the counters were read at least once.
	Threads     int `json:"threads"`
	ThreadsRead int `json:"threads_read"`
}

// scrub enforces the privacy rules and puts the lists into their order. It runs
// on every manifest that is written, whoever filled it.
func (m *Manifest) scrub() {
	m.Schema = Schema
	m.Target.URL = CleanURL(m.Target.URL)
	if p := m.Target.Program; p != "" {
		m.Target.Program = path.Base(strings.ReplaceAll(p, `\`, "/"))
	}
	env := make(map[string]string)
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG"} {
		if v, ok := m.Target.Env[name]; ok {
			env[name] = v
		}
	}
	m.Target.Env = env
	slices.SortStableFunc(m.Recorded, func(a, b Recorded) int {
		if a.StartedNS != b.StartedNS {
			return int(min(max(a.StartedNS-b.StartedNS, -1), 1))
		}
		return strings.Compare(a.Member, b.Member)
	})
	if m.Recorded == nil {
		m.Recorded = []Recorded{}
	}
	if m.NotRecorded == nil {
		m.NotRecorded = []NotRecorded{}
	}
}

// clone returns a copy that shares no slice or map with m.
func (m *Manifest) clone() Manifest {
	c := *m
	c.Anchors = slices.Clone(m.Anchors)
	c.Target.Modules = slices.Clone(m.Target.Modules)
	c.Host.Quotas = slices.Clone(m.Host.Quotas)
	c.Recorded = slices.Clone(m.Recorded)
	c.NotRecorded = slices.Clone(m.NotRecorded)
	c.Notes = slices.Clone(m.Notes)
	c.Cost.Asked = slices.Clone(m.Cost.Asked)
	if m.Pauses != nil {
		p := *m.Pauses
		c.Pauses = &p
	}
	if m.Target.Env != nil {
		c.Target.Env = make(map[string]string, len(m.Target.Env))
		for k, v := range m.Target.Env {
			c.Target.Env[k] = v
		}
	}
	return c
}

// encode returns the scrubbed manifest as indented JSON.
func (m *Manifest) encode() ([]byte, error) {
	m.scrub()
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("encode the manifest: %d bytes, at most %d: %w", len(b), maxManifest, ErrTooLarge)
	}
	return b, nil
}

// decodeManifest parses manifest.json. It looks at the schema before anything
// else, so that a newer major version is named as such even if its fields have
// other types.
func decodeManifest(b []byte) (Manifest, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			return Manifest{}, fmt.Errorf("%s has no schema: %w", MemberManifest, ErrNotIncident)
		}
		return Manifest{}, fmt.Errorf("decode %s: %w: %v", MemberManifest, ErrMalformed, err)
	}
	if err := checkSchema(head.Schema); err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return Manifest{}, fmt.Errorf("decode %s: %w: %v", MemberManifest, ErrMalformed, err)
	}
	return m, nil
}

func checkSchema(schema string) error {
	name, version, _ := strings.Cut(schema, "/")
	if name != schemaName {
		return fmt.Errorf("%s has schema %s, want %q: %w", MemberManifest, quote(schema), Schema, ErrNotIncident)
	}
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 1 {
		return fmt.Errorf("%s has schema %s: %w", MemberManifest, quote(schema), ErrMalformed)
	}
	if n != schemaMajor {
		return fmt.Errorf("%w: the file has schema %s, this whylate reads %q: use a newer whylate", ErrVersion, quote(schema), Schema)
	}
	return nil
}

// CleanURL returns raw without user, password, query and fragment, or "" if it
// is not a URL with a host. It never returns a part that could be a credential.
func CleanURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// quote makes text from a file safe to print: quoted, and not longer than a line.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}
