package cause_test

import "testing"

// flushed is a log that a flusher writes every two milliseconds, for which each request waits so
// many times: of every tenth request the first time takes long.
func flushed(n int) scene {
	commit := []string{"sync.(*Cond).Wait", "main.(*log).commit", "main.serve"}
	tick := []string{"time.Sleep", "main.(*log).flusher"}
	return scene{procs: 2, cast: func(p *play) { p.waits(helper, "", tick...) }, in: func(p *play, i int) {
		for k := range n {
			p.leaves(serving, 0, "sync.(*Cond).Wait", commit...)
			p.pass(2 * ms)
			p.wakes(0, helper)
			p.runs(helper, 1)
			d := int64(ms / 5)
			if i%10 == 9 && k == 0 {
				d = 40 * ms
			}
			calls(helper, d, "syscall.Fsync", "internal/poll.(*FD).Fsync", "os.(*File).Sync", "main.(*log).flush", "main.(*log).flusher")(p)
			p.wakes(helper, serving, "sync.(*Cond).Broadcast", "main.(*log).flush", "main.(*log).flusher")
			p.leaves(helper, 1, "sleep", tick...)
			p.runs(serving, 0)
		}
	}}
}

// lookedAt is a pool of one item, for which every tenth request waits while another one waits for
// its peer with it. A ticker has whoever waits look meanwhile, and computes on for so long; who is woken
// may have to wait for the condition's lock first.
func lookedAt(on int64, contended bool) scene {
	return scene{procs: 2, cast: func(p *play) {
		p.waits(other, "", home...)
		p.waits(helper, "", ticks...)
	}, in: every(10, func(p *play) {
		p.wakes(0, other)
		p.runs(other, 1)
		p.do(p.b.Task(other, "request"))
		p.leaves(other, 1, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.use", "main.serve")
		p.leaves(serving, 0, "sync.(*Cond).Wait", condTakes...)
		for range 3 {
			p.pass(5 * ms)
			p.wakes(0, helper)
			p.runs(helper, 1)
			p.wakes(helper, serving, "sync.(*Cond).Broadcast", "main.tick")
			if contended {
				p.runs(serving, 0)
				p.leaves(serving, 0, "sync", append([]string{"sync.(*Mutex).Lock"}, condTakes...)...)
				p.pass(ms / 100)
				p.wakes(helper, serving, "sync.(*Mutex).Unlock", "main.tick")
			}
			p.runs(serving, 0)
			p.leaves(serving, 0, "sync.(*Cond).Wait", condTakes...)
			p.pass(on)
			p.leaves(helper, 1, "sleep", ticks...)
		}
		p.pass(2 * ms)
		p.wakes(0, other)
		p.runs(other, 1)
		p.wakes(other, serving, condGives...)
		ends(p)
		p.runs(serving, 0)
	})}
}

// Who works when his timer ends is no alarm, and who gives back after alarms was waited for all the time.
func TestWhoIsWaitedForBesideAlarms(t *testing.T) {
	tell(t, []told{
		{name: "a flusher", scene: flushed(1), finding: "slow-disk", where: "main.(*log).flush"},
		{name: "a flusher, two times", scene: flushed(2), finding: "slow-disk", where: "main.(*log).flush"},
		{name: "a pool whose waiters look now and then", scene: lookedAt(0, false), finding: "slow-dependency", where: "main.use"},
		{name: "the same, and who has them look goes on for long", scene: lookedAt(2*ms, false), finding: "slow-dependency", where: "main.use"},
		{name: "the same, and they wait for the lock first", scene: lookedAt(0, true), finding: "slow-dependency", where: "main.use"},
	})
}
