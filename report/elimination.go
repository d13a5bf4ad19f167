package report

import (
	"sort"

	"github.com/whylate/whylate/cause"
)

// elimination is the order in which people suspect, and in which the report
// therefore rules out: network, load, client library, GC, scheduler, host, code.
var elimination = []struct {
	group  string
	causes []string
}{
	{"network", []string{"slow-dependency", "tcp-loss", "slow-dns", "accept-queue"}},
	{"load", []string{"overload", "retry-storm", "slow-client"}},
	{"client library", []string{"dial-per-request", "pool-exhausted", "pool-leak", "cold-start"}},
	{"GC", []string{"gc-assist", "gc-workers", "gc-pause", "forced-gc", "memory-limit-thrash", "finalizer-backlog"}},
	{"scheduler", []string{"cpu-hog", "goroutine-flood", "gomaxprocs-too-low", "netpoll-starvation", "stop-the-world", "slow-to-stop", "late-timer", "syscall-handoff", "locked-thread", "runtime-lock"}},
	{"host", []string{"gomaxprocs-over-quota", "quota-too-low", "host-contention", "page-faults", "slow-disk", "slow-clock", "observer"}},
	{"code", []string{"lock-held-across-wait", "lock-held-across-work", "lock-convoy", "rwmutex-writer", "single-worker", "back-pressure", "cache-stampede", "fan-in-straggler", "sync-logging", "slow-cgo", "expensive-request", "timer-wait", "growth", "goroutine-leak"}},
}

// unsuspected is the group of causes that the table above does not know.
const unsuspected = "other"

type suspect struct {
	group string
	rank  int
}

var suspects = func() map[string]suspect {
	m := map[string]suspect{}
	for _, e := range elimination {
		for _, id := range e.causes {
			m[id] = suspect{e.group, len(m)}
		}
	}
	return m
}()

// Suspects reports whether id is a cause that the elimination table has a place
// for: those that can be named, and those that are planned.
func Suspects(id string) bool {
	_, ok := suspects[id]
	return ok
}

func suspectOf(id string) suspect {
	if s, ok := suspects[id]; ok {
		return s
	}
	return suspect{unsuspected, len(suspects)}
}

// eliminated returns what was ruled out in the order of elimination.
func eliminated(ruledOut []cause.RuledOut) []cause.RuledOut {
	out := append([]cause.RuledOut{}, ruledOut...)
	sort.SliceStable(out, func(i, j int) bool {
		return suspectOf(out[i].Cause).rank < suspectOf(out[j].Cause).rank
	})
	return out
}
