package cause_test

import (
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// ticked lets every tenth request compute for 10 ms, and be sampled in so many of five of
// these: 40 samples are to be expected.
func ticked(n int) scene {
	return scene{procs: 2, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		p.pass(10 * ms)
		if i/10%5 < n {
			p.b.Sample(serving, p.stack("main.sum", "main.serve"))
		}
	}}
}

// The samples of a thread that computes come at regular times: fewer than are enough to measure
// the part of the time in which it was on a CPU tell that it was there for most of it.
func TestFewSamplesTellThatRequestsWereOnACPU(t *testing.T) {
	tell(t, []told{
		{name: "nearly all that are to be expected", scene: ticked(5), finding: "expensive-request", where: "main.sum"},
		{name: "four of five", scene: ticked(4), alike: []string{"expensive-request", "host-contention"}},
		{name: "three of five", scene: ticked(3), alike: []string{"expensive-request", "host-contention"}},
	})
}

// A trace without CPU samples has not too few of them.
func TestATraceWithoutSamplesIsSaidToHaveNone(t *testing.T) {
	found := false
	for _, c := range cause.Judge(attributed(t, ticked(0)), cause.Settings{}).Consistent {
		for _, e := range c.Evidence {
			found = found || strings.Contains(e, "the trace holds no CPU samples")
			if strings.Contains(e, "are needed") {
				t.Errorf("%q", e)
			}
		}
	}
	if !found {
		t.Error("nothing says that there are no samples")
	}
}

// Who computes may be a helper of many: the functions around it are told, if most samples agree on them.
func TestWhereRequestsComputeIsToldWithItsCallers(t *testing.T) {
	hot := scene{procs: 2, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		outer := "main.list"
		if i%20 == 9 {
			outer = "main.show"
		}
		p.computes(serving, 0, 40*ms, "main.sum", "main.total", outer, "main.serve")
	}}
	findings := cause.Judge(attributed(t, hot), cause.Settings{}).Findings
	if len(findings) == 0 || findings[0].Cause != "expensive-request" {
		t.Fatalf("%+v", findings)
	}
	if all := strings.Join(findings[0].Evidence, "\n") + "\n"; !strings.Contains(all, "CPU samples are in main.sum, called by main.total\n") {
		t.Error(all)
	}
}

// Where no CPU sample is in the program's code it may be anything that computes.
func TestWhatTheKernelComputesIsNoExpensiveRequest(t *testing.T) {
	in := func(functions ...string) scene {
		return scene{procs: 2, in: every(10, func(p *play) { p.computes(serving, 0, 40*ms, functions...) })}
	}
	tell(t, []told{
		{name: "the program", scene: in("main.price", "main.serve"), finding: "expensive-request", where: "main.price"},
		{name: "the kernel, or the runtime", scene: in("runtime.futex", "runtime.startm", "runtime.wakep"), alike: []string{"expensive-request", "host-contention"}},
	})
}
