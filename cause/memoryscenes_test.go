package cause_test

import (
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
)

const mb = 1 << 20

// thrashing is a service in whose every tenth request n cycles follow each other,
// each of which finds 100 MB alive and leaves room up to a goal.
func thrashing(n int, goal, before uint64) scene {
	return scene{procs: 1, cast: worker, in: every(10, func(p *play) {
		for range n {
			cycle(p, 40*ms/int64(n), heapSizes{before, 100 * mb, goal}, byHeap)
		}
	})}
}

// varying is the same with more and less alive by turns, and a goal that depends on it.
func varying(goal func(live uint64) uint64) scene {
	return scene{procs: 1, cast: worker, in: func(p *play, i int) {
		if i%10 == 9 {
			for n := range 4 {
				live := uint64(100+i/10%7+n) * mb
				cycle(p, 10*ms, heapSizes{live + 2*mb, live, goal(live)}, byHeap)
			}
		}
	}}
}

// env are settings that were recorded.
func env(pairs ...string) cause.Settings {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return cause.Settings{Target: evidence.Target{Env: m}}
}

var memoryScenes = []told{
	{name: "no room below the memory limit", scene: thrashing(4, 104*mb, 103*mb), set: env("GOMEMLIMIT", "120MiB"), finding: "memory-limit-thrash"},
	{name: "no room, and the settings are unknown", scene: thrashing(4, 104*mb, 103*mb), alike: []string{"memory-limit-thrash", "gc-workers"}},
	{name: "the goal follows what is alive", scene: varying(func(live uint64) uint64 { return live + live/5 }), finding: "gc-workers"},
	{name: "the goal stays where it is", scene: varying(func(uint64) uint64 { return 115 * mb }), finding: "memory-limit-thrash"},
	{name: "less room than any GOGC leaves", scene: thrashing(4, 100*mb+mb/2, 100*mb), finding: "memory-limit-thrash"},
	{name: "no room although GOGC would leave it", scene: thrashing(4, 104*mb, 103*mb), set: env("GOGC", "100"), finding: "memory-limit-thrash"},
	{name: "no room because GOGC leaves none", scene: thrashing(4, 104*mb, 103*mb), set: env("GOGC", "4"), finding: "gc-workers"},
	{name: "no room with GOGC off", scene: thrashing(4, 0, 103*mb), finding: "memory-limit-thrash"},
	{name: "a limit that does not bind", scene: thrashing(4, 200*mb, 180*mb), set: env("GOMEMLIMIT", "1GiB"), finding: "gc-workers"},
	{name: "room with GOGC off", scene: thrashing(4, 0, 180*mb), set: env("GOGC", "off", "GOMEMLIMIT", "1GiB"), finding: "gc-workers"},
	{name: "little room, but single cycles", scene: thrashing(1, 110*mb, 109*mb), set: env("GOMEMLIMIT", "120MiB"), finding: "gc-workers"},
	{name: "single cycles that would be rare without the limit", scene: thrashing(1, 104*mb, 103*mb), set: env("GOMEMLIMIT", "120MiB"), finding: "memory-limit-thrash"},
	{name: "single cycles, ten times as many as without the limit", scene: thrashing(1, 109*mb, 108*mb), set: env("GOMEMLIMIT", "120MiB"), finding: "memory-limit-thrash"},
	{name: "single cycles, and the settings are unknown", scene: thrashing(1, 104*mb, 103*mb), finding: "gc-workers"},
	{name: "a limit switched off", scene: thrashing(4, 104*mb, 103*mb), set: env("GOMEMLIMIT", "off"), alike: []string{"memory-limit-thrash", "gc-workers"}},
	{name: "sizes that the trace does not tell", scene: collected(byHeap), set: env("GOMEMLIMIT", "120MiB"), finding: "gc-workers"},
}

func TestAMemoryLimitsSpiralIsToldFromACollectorAtWork(t *testing.T) { tell(t, memoryScenes) }
