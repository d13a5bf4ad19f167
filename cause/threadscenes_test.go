package cause_test

import (
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// Stacks of a goroutine that does things for others, and of those who have them done.
var (
	drawing = []string{"runtime.selectgo", "main.(*engine).run"}
	drawn   = []string{"runtime.chanrecv1", "main.draw", "main.serve"}
	drew    = []string{"runtime.chansend1", "main.draw.func1", "main.(*engine).run"}
)

// ownThread is a thread that only the helper runs on; 0 is the one that has P 0 else.
const ownThread = gotrace.ThreadID(7)

// engine waits to be asked. The thread of P 0 runs others than the request, too.
func engine(p *play) {
	const other = gotrace.GoID(3)
	p.waits(helper, "", drawing...)
	p.waits(other, "", idle...)
	p.wakes(0, other)
	p.runs(other, 0)
	p.pass(us)
	p.waits(other, "select", idle...)
}

// draws has the helper do something for the request n times, for a time each. If it
// is locked to its thread, the P changes threads for it and back, in so long each
// time.
func draws(n int, locked bool, each, change int64) func(p *play) {
	switches := func(p *play, to gotrace.ThreadID) {
		if locked {
			p.do(p.b.Idle(0, gotrace.NoProc))
			p.b.On(0, to)
			p.pass(change)
		}
	}
	return func(p *play) {
		for range n {
			p.wakes(serving, helper, "runtime.chansend1", "main.draw", "main.serve")
			p.waits(serving, "chan receive", drawn...)
			switches(p, ownThread)
			p.runs(helper, 0)
			p.computes(helper, 0, each, "main.render", "main.(*engine).run")
			p.wakes(helper, serving, drew...)
			p.waits(helper, "select", drawing...)
			switches(p, 0)
			p.runs(serving, 0)
		}
	}
}

// locks is draws, in which not the helper is locked but the request, meanwhile.
func locks(n int, change int64) func(p *play) {
	return func(p *play) {
		p.wakes(serving, helper, "runtime.chansend1", "main.draw", "main.serve")
		p.waits(serving, "chan receive", drawn...)
		p.runs(helper, 0)
		p.wakes(helper, serving, drew...)
		p.waits(helper, "select", drawing...)
		p.runs(serving, 0)
		draws(n, true, us, change)(p)
	}
}

const us = ms / 1000

// A goroutine that is locked to its thread, and what looks like it.
var threadScenes = []told{
	{
		name:    "a locked goroutine is asked very often",
		scene:   scene{procs: 2, cast: engine, in: every(10, draws(400, true, us, 20*us))},
		finding: "locked-thread", where: "main.(*engine).run", share: 0.97,
	},
	{
		name:  "a goroutine that is not locked is asked as often",
		scene: scene{procs: 2, cast: engine, in: every(10, draws(400, false, us, 0))},
	},
	{
		name:    "a locked goroutine is asked now and then and works long",
		scene:   scene{procs: 2, cast: engine, in: every(10, draws(2, true, 10*ms, 20*us))},
		finding: "single-worker",
	},
	{
		name:    "requests lock their threads for a while and talk to one that does not",
		scene:   scene{procs: 2, cast: engine, in: every(10, locks(400, 20*us))},
		finding: "locked-thread", where: "main.draw",
	},
	{
		name:  "a locked goroutine is asked now and then, and threads are late",
		scene: scene{procs: 2, cast: engine, in: every(10, draws(4, true, us, 3*ms))},
		alike: []string{"locked-thread", "host-contention", "quota-too-low"},
	},
	{
		name:  "a thread is late now and then, in a service that hardly ever switches",
		scene: scene{procs: 2, requests: 100, cast: engine, in: every(10, draws(2, true, us, 5*ms))},
		alike: []string{"host-contention", "quota-too-low"},
	},
}

func TestLockedThreadsAreToldFromWhatLooksLikeThem(t *testing.T) { tell(t, threadScenes) }

// Whose threads wait for a CPU is late for that reason, locked or not.
func TestTheHostDecidesWhetherSwitchesAreLate(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  int64
		n       int
		host    machine
		finding string
	}{
		{"a neighbour has the CPUs", 3 * ms, 4, machine{cpus: 2, own: 0.2, delayed: 0.8, idle: 0.01}, "host-contention"},
		{"the CPUs are free, and waking a thread takes long", 3 * ms, 4, machine{cpus: 2, own: 0.2, idle: 0.7}, "locked-thread"},
		{"there are very many, beside a neighbour", 20 * us, 400, machine{cpus: 2, own: 0.2, delayed: 0.8, idle: 0.01}, "locked-thread"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, cast: engine, in: every(10, draws(c.n, true, us, c.change))})
			v := cause.Judge(a, cause.Settings{Host: observe(a, c.host)})
			if len(v.Findings) != 1 || v.Findings[0].Cause != c.finding || len(v.Consistent) > 0 {
				t.Errorf("found %+v, undecided between %+v", v.Findings, v.Consistent)
			}
		})
	}
}
