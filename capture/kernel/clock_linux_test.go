//go:build amd64 || arm64

package kernel

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/whylate/whylate/internal/novdso"
)

func TestReadingsOfTheClockAreCountedIfTheyAreSystemCalls(t *testing.T) {
	needEBPF(t)
	const n = 20_000
	for _, c := range []struct {
		name        string
		start       func(*exec.Cmd) error
		how         string
		least, most int64 // the runtime of Go reads the clock, too
	}{
		{"in the process's own memory", (*exec.Cmd).Start, "now", 0, 0},
		{"by a call of its own", (*exec.Cmd).Start, "call", n, n},
		{"where there is no vDSO", novdso.Start, "now", 2 * n, 2*n + n/10}, // time.Now reads two clocks
	} {
		t.Run(c.name, func(t *testing.T) {
			child := spawnBy(t, c.start, -1, nil, "clock", c.how, strconv.Itoa(n))
			child.line()
			rec := record(t, child.pid(), Options{clockRuns: 1 << 40})
			child.next()
			child.line()
			r := rec.stop().After.Readings
			if r == nil || r.Calls < c.least || r.Calls > c.most || r.Short || r.ToNS <= r.FromNS {
				t.Fatalf("%+v, want %d to %d calls", r, c.least, c.most)
			}
			if (r.NS > 0) != (r.Calls > 0) || r.MaxNS*r.Calls < r.NS || r.NS > r.ToNS-r.FromNS {
				t.Errorf("%d calls took %d ns, at most %d each, in %d ns", r.Calls, r.NS, r.MaxNS, r.ToNS-r.FromNS)
			}
			t.Logf("%d calls for %d readings, %d ns each", r.Calls, n, r.NS/max(1, r.Calls))
		})
	}
}

// The kernel goes a longer way into each system call of each process as long as these
// programs are there.
func TestCountingReadingsOfTheClockEnds(t *testing.T) {
	needEBPF(t)
	for _, c := range []struct {
		name  string
		runs  uint64
		short bool
	}{
		{"when the programs have run often enough", 1000, true},
		{"after a second", 1 << 40, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := programs(t)
			child := spawn(t, -1, nil, "clock", "call", "5000")
			child.line()
			rec := record(t, child.pid(), Options{clockRuns: c.runs})
			all := more(t, before)
			child.next()
			child.line()
			eventually(t, "two programs are gone", func() bool { return more(t, before) == all-2 })
			if r := rec.stop().After.Readings; r == nil || r.Short != c.short || r.Calls == 0 {
				t.Errorf("%+v, want readings, cut short: %v", r, c.short)
			}
		})
	}
}

func TestReadingsOfTheClockCanBeLeftOut(t *testing.T) {
	needEBPF(t)
	got := record(t, spawn(t, -1, nil, "clock", "call", "10").pid(), Options{Sets: []string{}}).stop()
	if got.After.Readings != nil || len(got.Header.Probes) != 1 || len(got.After.Programs) > 4 {
		t.Errorf("%+v, %+v", got.Header.Probes, got.After)
	}
}
