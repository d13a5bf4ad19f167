package cause_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// A future may be made of a context: who has the result cancels it, and nobody gave up.
var (
	awaitsEnd = []string{"runtime.chanrecv1", "example.com/pond.(*future).Wait", "main.pack", "main.serve"}
	endsIt    = []string{"runtime.closechan", "context.(*cancelCtx).cancel", "context.WithCancelCause.func1", "example.com/pond.(*future).resolve", "example.com/pond.(*pool).worker"}
)

var futureScenes = []told{
	{
		name: "one worker computes for each", finding: "single-worker",
		scene: scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
			behindHelper("chan receive", awaitsEnd, endsIt, func(p *play) { p.computes(helper, 1, 20*ms, "main.seal", "example.com/pond.(*pool).worker") })(p)
		})},
	},
	{
		name: "a deadline ends it", alike: []string{},
		scene: scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
			p.leaves(serving, 0, "chan receive", awaitsEnd...)
			p.pass(20 * ms)
			p.expires(serving)
			p.runs(serving, 0)
		})},
	},
	{
		name: "somebody ends what is overdue", alike: []string{},
		scene: scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
			behindHelper("chan receive", awaitsEnd, endsIt, naps(20*ms, "main.watch", "main.loop"))(p)
		})},
	},
	{
		// Whom a request starts for its task stays for those of others.
		name: "as many workers as may be have tasks of others", finding: "pool-exhausted",
		scene: scene{procs: 2, cast: func(p *play) {
			waitingHelper(p)
			p.waits(helper+1, "", idle...)
		}, in: workersStay(10, "")},
	},
}

func TestWhoEndsAContextThatIsAFutureIsFollowed(t *testing.T) { tell(t, futureScenes) }

// That one endpoint is slower does not make all others healthy of which it is known that they are late, and not by which of a few causes.
func TestSlowerEndpointsHideNobodyOfWhomCausesAreSuspected(t *testing.T) {
	stays := workersStay(20, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.seal")
	v := cause.Judge(attributed(t, scene{procs: 2, requests: 1000, cast: func(p *play) {
		waitingHelper(p)
		p.waits(helper+1, "", idle...)
	}, in: func(p *play, i int) {
		if i%20 == 3 {
			peerWaits(p, 60*ms, reply...)
			return
		}
		stays(p, i)
	}, task: func(i int) string { return [20]string{3: "report"}[i%20] + "s" }}), cause.Settings{})
	if v.Verdict != "inconclusive" || len(v.Consistent) != 1 || !slices.Equal(v.Consistent[0].Causes, []string{"pool-exhausted", "slow-dependency"}) || !strings.Contains(v.Sentence, "late too") {
		t.Errorf("%s: %s", v.Verdict, v.Sentence)
	}
}

// workersStay has each request start a worker for its own task, which is done at once. When every tenth one comes two others have started
// a worker each, which are as many as may be: one of these takes up its task when it is done with the other one, in which it waits, or computes if there is no reason to wait.
func workersStay(nth int, reason string, at ...string) func(p *play, i int) {
	return func(p *play, i int) { workerStays(p, i, i%nth != nth-1, reason, at...) }
}

func workerStays(p *play, i int, own bool, reason string, at ...string) {
	submit, root := p.stack("example.com/pond.(*pool).submit", "main.pack", "main.serve"), p.stack("example.com/pond.(*pool).worker")
	worker := gotrace.GoID(10_000 + 10*i)
	if own {
		p.do(p.b.Starts(serving, gotrace.NoProc, worker, submit, root))
		p.leaves(serving, 0, "chan receive", awaitsEnd...)
		p.runs(worker, 1)
		p.computes(worker, 1, ms/10)
		p.wakes(worker, serving, endsIt...)
		p.do(p.b.Ends(worker))
		p.do(p.b.Idle(1, gotrace.NoProc))
		p.runs(serving, 0)
		return
	}
	for k := range gotrace.GoID(2) {
		p.wakes(serving, helper+k, "main.start", "main.serve")
		p.runs(helper+k, 1)
		p.do(p.b.Starts(helper+k, gotrace.NoProc, worker+k, submit, root))
		p.waits(helper+k, "chan receive", awaitsEnd...)
		if reason != "" {
			p.runs(worker+k, 1)
			p.leaves(worker+k, 1, reason, append(at[:len(at):len(at)], "example.com/pond.(*pool).worker")...)
		}
	}
	p.leaves(serving, 0, "chan receive", awaitsEnd...)
	if reason == "" {
		p.runs(worker, 1)
		p.runs(worker+1, 0)
		for range 4 {
			p.pass(4 * ms)
			for k := range gotrace.GoID(2) {
				at := p.stack("main.seal", "example.com/pond.(*pool).worker")
				p.b.Sample(worker+k, at)
				p.do(p.b.Yields(worker+k, "preempted", at))
				p.runs(worker+k, gotrace.ProcID(1-k))
			}
		}
	}
	p.pass(4 * ms)
	if reason != "" {
		p.pass(16 * ms)
	}
	for k := range gotrace.GoID(2) {
		on := gotrace.ProcID(1 - k)
		if reason != "" {
			on = 1
			p.wakes(0, worker+k)
			p.runs(worker+k, on)
		}
		p.wakes(worker+k, helper+k, endsIt...)
		if k == 0 {
			p.computes(worker, on, ms/5)
			p.wakes(worker, serving, endsIt...)
		}
		p.do(p.b.Ends(worker + k))
		p.runs(helper+k, on)
		p.waits(helper+k, "select", idle...)
	}
	p.do(p.b.Idle(1, gotrace.NoProc))
	p.runs(serving, 0)
}
