package cause_test

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// stalled is a lock that a loader holds while a goroutine that it starts computes, for which it waits for a reason on a stack: of
// ten requests one comes meanwhile.
func stalled(reason string, waits ...string) scene {
	child := gotrace.GoID(1000)
	return scene{procs: 2, cast: func(p *play) { p.waits(other, "", idle...) }, in: every(10, func(p *play) {
		child++
		p.seen[child] = true
		p.wakes(serving, other, "main.start", "main.serve")
		p.runs(other, 1)
		p.do(p.b.Starts(other, 1, child, p.stack("main.(*store).schedule", "main.(*store).load"), p.stack("main.(*store).flush")))
		p.leaves(serving, 0, "sync", mutex...)
		p.leaves(other, 1, reason, append(waits, "main.(*store).room", "main.(*store).load")...)
		p.runs(child, 1)
		p.pass(15 * ms)
		p.wakes(child, other, "main.(*store).done", "main.(*store).flush")
		p.do(p.b.Ends(child))
		p.runs(other, 1)
		p.wakes(other, serving, unlock...)
		p.leaves(other, 1, "select", idle...)
		p.runs(serving, 0)
	})}
}

// Who holds a lock and waits for a condition waits, whoever started the one that brings it about; who waits for those to whom he has
// given parts of his work does that work.
func TestAHolderThatWaitsForWhatItStarted(t *testing.T) {
	tell(t, []told{
		{name: "for a condition", scene: stalled("sync.(*Cond).Wait", "sync.(*Cond).Wait"), finding: "lock-held-across-wait", share: 1},
		{name: "for its group", scene: stalled("sync", "sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait"), alike: []string{"lock-held-across-work", "quota-too-low", "gomaxprocs-over-quota", "host-contention"}},
	})
}

// A program that is started and waited for under a lock has no cause of its own: it is the lock that keeps all others, also where they do
// the same themselves.
func TestALockWhileAProgramRuns(t *testing.T) {
	runs := []string{"syscall.wait4", "os.(*Process).Wait", "os/exec.(*Cmd).Wait", "main.layout"}
	own := calls(serving, ms, append(runs[:len(runs):len(runs)], "main.serve")...)
	tell(t, []told{{name: "everybody starts one", finding: "lock-held-across-wait", where: "main.layout", scene: scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
		if i%10 == 9 {
			behindHelper("sync", mutex, unlock, func(p *play) { calls(helper, 20*ms, append(runs[:len(runs):len(runs)], "main.loop")...)(p) })(p)
		}
		own(p)
	}}}})
}
