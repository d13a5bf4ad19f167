package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// arrive wakes n of the crowd, from the first on, by the network.
func arrive(p *play, n gotrace.GoID) {
	for g := crowd0; g < crowd0+n; g++ {
		p.wakes(0, g)
	}
}

// served lets them answer their requests, each on a P of its own.
func served(p *play, n gotrace.GoID) {
	on := func(g gotrace.GoID) gotrace.ProcID { return gotrace.ProcID(1 + g - crowd0) }
	for g := crowd0; g < crowd0+n; g++ {
		p.runs(g, on(g))
		p.do(p.b.Task(g, "request"))
	}
	p.pass(ms / 10)
	for g := crowd0; g < crowd0+n; g++ {
		p.do(p.b.Done(g))
		p.leaves(g, on(g), "network", home...)
	}
}

// answeredWith is a rare request that waits 20 ms for a peer, while the crowd does something, and
// so many requests of it come with the answer.
func answeredWith(during func(p *play), n gotrace.GoID, later int64) scene {
	return scene{procs: 5, cast: crowdServes, in: every(10, func(p *play) {
		calls(serving, ms/100, asks...)(p)
		p.leaves(serving, 0, "network", awaits...)
		p.pass(10 * ms)
		during(p)
		p.pass(p.vary(10 * ms))
		p.wakes(0, serving)
		if later == 0 {
			arrive(p, n)
		}
		p.runs(serving, 0)
		if later > 0 {
			p.pass(later)
			arrive(p, n)
		}
		served(p, n)
		calls(serving, ms/100, with([]string{"syscall.read"}, awaits...)...)(p)
	})}
}

func TestWhatComesAtOnceWithTheAnswerMayHaveComeBefore(t *testing.T) {
	nothing := func(*play) {}
	others := func(p *play) {
		for range 5 {
			arrive(p, 1)
			served(p, 1)
			p.pass(ms)
		}
	}
	tell(t, []told{
		{name: "several requests come with the answer, none before", scene: answeredWith(nothing, 4, 0), alike: []string{"slow-dependency", "host-contention"}},
		{name: "one comes", scene: answeredWith(nothing, 1, 0), finding: "slow-dependency"},
		{name: "nothing comes", scene: answeredWith(nothing, 0, 0), finding: "slow-dependency"},
		{name: "others come meanwhile", scene: answeredWith(others, 4, 0), finding: "slow-dependency"},
		{name: "they come after the answer", scene: answeredWith(nothing, 4, ms/5), finding: "slow-dependency"},
	})
}
