package cause_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// known are the ids of the whole catalogue, those still to come included: an
// entry may name any of them as a look-alike.
var known = strings.Fields(`
expensive-request cpu-hog goroutine-flood overload gomaxprocs-over-quota quota-too-low gomaxprocs-too-low host-contention
gc-assist gc-workers memory-limit-thrash forced-gc gc-pause stop-the-world slow-to-stop
lock-held-across-wait lock-held-across-work lock-convoy rwmutex-writer runtime-lock
pool-exhausted pool-leak single-worker back-pressure cache-stampede timer-wait late-timer fan-in-straggler
slow-dependency netpoll-starvation tcp-loss accept-queue slow-dns cold-start dial-per-request
slow-disk page-faults slow-cgo syscall-handoff locked-thread slow-clock sync-logging finalizer-backlog growth
goroutine-leak retry-storm slow-client observer`)

// The classes of ownership, lowest ranks first: what an earlier one claims is
// gone for those behind it. In a class the order is that of the ranks.
var ownership = [][]string{
	{"observer", "gomaxprocs-over-quota", "quota-too-low", "host-contention", "page-faults"},
	{"stop-the-world", "slow-to-stop", "gc-pause", "memory-limit-thrash", "forced-gc", "gc-assist", "gc-workers"},
	{"sync-logging", "slow-dns", "dial-per-request", "cold-start", "tcp-loss", "slow-clock", "slow-disk", "slow-cgo", "locked-thread"},
	{"finalizer-backlog", "pool-leak", "pool-exhausted", "rwmutex-writer", "lock-held-across-wait", "lock-held-across-work", "lock-convoy", "cache-stampede", "single-worker", "back-pressure", "fan-in-straggler"},
	{"goroutine-leak", "netpoll-starvation", "late-timer", "goroutine-flood", "cpu-hog", "gomaxprocs-too-low", "overload", "syscall-handoff"},
	{"retry-storm", "accept-queue", "slow-client", "slow-dependency", "timer-wait", "runtime-lock", "growth", "expensive-request"},
}

func TestEveryEntryIsComplete(t *testing.T) {
	if len(cause.Entries()) == 0 {
		t.Fatal("nothing is registered")
	}
	for _, e := range cause.Entries() {
		t.Run(e.ID, func(t *testing.T) {
			for field, text := range map[string]string{"Title": e.Title, "What": e.What, "MustHold": e.MustHold, "MustNot": e.MustNot, "Verify": e.Verify} {
				if strings.TrimSpace(text) != text || text == "" {
					t.Errorf("%s is %q", field, text)
				}
			}
			if !strings.HasSuffix(e.What, ".") {
				t.Errorf("what it is, is no sentence: %q", e.What)
			}
			if e.Judge == nil || e.Rank <= 0 || e.Layer < cause.Network || e.Layer > cause.Code {
				t.Errorf("rank %d, layer %d, judged: %v", e.Rank, e.Layer, e.Judge != nil)
			}
			if len(e.Fix) == 0 || slices.Contains(e.Fix, "") {
				t.Errorf("fixes %q", e.Fix)
			}
			if !strings.Contains(e.Verify, "A/B") || !strings.Contains(e.Verify, "fall together") && !strings.Contains(e.Verify, "falls") {
				t.Errorf("verify does not say what an interleaved A/B shows: %q", e.Verify)
			}
			if !slices.Contains(known, e.ID) {
				t.Error("the catalogue has no such id")
			}
			if len(e.LookAlikes) == 0 {
				t.Error("nothing looks like it?")
			}
			for i, id := range e.LookAlikes {
				if !slices.Contains(known, id) || id == e.ID || slices.Contains(e.LookAlikes[:i], id) {
					t.Errorf("look-alike %q", id)
				}
			}
		})
	}
	for _, id := range cause.OffCPUCauses {
		if !slices.Contains(known, id) {
			t.Errorf("off-CPU cause %q", id)
		}
	}
}

// Ranks say who claims first; two causes of equal rank would depend on their names.
func TestEntriesClaimInTheOrderOfOwnership(t *testing.T) {
	last := -1
	var before *cause.Entry
	for _, e := range cause.Entries() {
		class := slices.IndexFunc(ownership, func(ids []string) bool { return slices.Contains(ids, e.ID) })
		if class < 0 {
			class = len(ownership) - 1
		}
		if class < last {
			t.Errorf("%s claims after %s", e.ID, before.ID)
		}
		if before != nil && before.Rank == e.Rank {
			t.Errorf("%s and %s have the same rank", before.ID, e.ID)
		}
		last, before = class, e
	}
}

// The files of a cause lie in a directory that is named like it.
func TestEveryCauseHasItsDirectory(t *testing.T) {
	for _, e := range cause.Entries() {
		if _, err := os.Stat(filepath.Join(e.ID, strings.ReplaceAll(e.ID, "-", "")+".go")); err != nil {
			t.Error(err)
		}
		if cause.Lookup(e.ID) != e {
			t.Errorf("%s is not looked up", e.ID)
		}
	}
	if e := cause.Lookup("no-such-cause"); e != nil {
		t.Errorf("found %s", e.ID)
	}
	// The classes above are of the catalogue, and no cause is in two.
	var all []string
	for _, ids := range ownership {
		for _, id := range ids {
			if !slices.Contains(known, id) || slices.Contains(all, id) {
				t.Errorf("%s", id)
			}
			all = append(all, id)
		}
	}
}
