package cause_test

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

const stands4 = gotrace.GoID(4)

// A memory profile is up to two cycles late. Where there were few, what allocated most may have done
// so before the recording, as what built a service's tables when it began.
func TestWhoAllocates(t *testing.T) {
	built := cause.Allocation{Place: cause.Place{Function: "main.build", File: "build.go", Line: 3}, Share: 0.7}
	served := cause.Allocation{Place: cause.Place{Function: "main.serve", File: "serve.go", Line: 5}, Share: 0.2}
	marks := func(n int) scene {
		stands := func(p *play) { // it built something, and stands there
			worker(p)
			p.waits(stands4, "chan receive", "runtime.chanrecv1", "main.build", "main.main")
		}
		return scene{procs: 1, cast: stands, requests: 60 * n, in: every(60, func(p *play) { cycle(p, 200*ms, heapSizes{}, byHeap) })}
	}
	for _, c := range []struct {
		name      string
		cycles    int
		allocated []cause.Allocation
		where     string
		says      string
	}{
		{"few cycles, who allocated most is on no stack", 5, []cause.Allocation{built, served}, "main.serve", "main.serve allocated 20 % of the bytes in the memory profile, which is up to 2 cycles late and of 5 (serve.go:5)"},
		{"few cycles, nobody who allocated is on a stack", 5, []cause.Allocation{built}, "", "the allocating code is unknown: the memory profile is up to 2 cycles late, of 5, and the recording saw nothing of whom it names"},
		{"enough cycles", 6, []cause.Allocation{built, served}, "main.build", "main.build allocated 70 % of all bytes during the recording (build.go:3)"},
		{"no profiles", 6, nil, "", "the allocating code is unknown: no allocation profiles were recorded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := cause.Judge(attributed(t, marks(c.cycles)), cause.Settings{Allocated: c.allocated})
			if len(v.Findings) == 0 || v.Findings[0].Cause != "gc-workers" {
				t.Fatalf("not gc-workers: %s", v.Sentence)
			}
			f := v.Findings[0]
			where := ""
			if f.Where != nil {
				where = f.Where.Function
			}
			said := strings.Join(f.Evidence, "\n")
			if where != c.where || !strings.Contains(said, c.says) {
				t.Errorf("at %q, for\n%s", where, said)
			}
		})
	}
}
