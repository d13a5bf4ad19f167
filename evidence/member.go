package evidence

import (
	"slices"
	"strings"
)

// The members of an incident. Each is in a standard format, so that any tool
// that reads the format can open it once it is unzipped. An incident holds
// whichever of them could be recorded; only the manifest is always there.
const (
	MemberManifest     = "manifest.json"
	MemberTrace        = "trace"
	MemberCPU          = "cpu.pb.gz"
	MemberAllocsBefore = "allocs-before.pb.gz"
	MemberAllocsAfter  = "allocs-after.pb.gz"
	MemberGoroutine    = "goroutine.pb.gz"
	MemberMutex        = "mutex.pb.gz"
	MemberBlock        = "block.pb.gz"
	MemberMetrics      = "metrics.jsonl"
	MemberHost         = "host.jsonl"
	MemberDependency   = "dependency.jsonl"
	MemberKernel       = "kernel.events"
	MemberWire         = "wire.events"
	MemberAppLog       = "app.log"
	MemberDiagnosis    = "diagnosis.json"
)

// members is every known name in the order in which they are listed, with what
// the manifest says about it.
var members = []struct{ name, what string }{
	{MemberManifest, "manifest"},
	{MemberTrace, "Go execution trace"},
	{MemberCPU, "CPU profile (pprof), taken while the trace ran"},
	{MemberAllocsBefore, "allocation profile (pprof) before the trace"},
	{MemberAllocsAfter, "allocation profile (pprof) after the trace"},
	{MemberGoroutine, "goroutine profile (pprof) after the trace"},
	{MemberMutex, "mutex profile (pprof), since the process started"},
	{MemberBlock, "block profile (pprof), since the process started"},
	{MemberMetrics, "metrics samples"},
	{MemberHost, "host samples: threads, cgroup, pressure"},
	{MemberDependency, "what dependencies said of themselves: slow log, counters, waits"},
	{MemberKernel, "kernel events"},
	{MemberWire, "packets of the target's connections"},
	{MemberAppLog, "log lines of the target"},
	{MemberDiagnosis, "diagnosis"},
}

// MemberNames returns the name of every member that an incident may hold, the
// manifest first. The slice is the caller's.
func MemberNames() []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	return names
}

// known reports whether name is the exact name of a member.
func known(name string) bool { return slices.Contains(MemberNames(), name) }

// what returns the manifest's description of a member.
func what(name string) string {
	for _, m := range members {
		if m.name == name {
			return m.what
		}
	}
	return ""
}

// compressed reports whether the member's own format is compressed already.
func compressed(name string) bool { return strings.HasSuffix(name, ".gz") }
