package cause_test

import (
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// gateway is a service that calls a server in its own process, role 1, which takes
// serves for each call.
type gateway struct {
	requests int
	serves   int64
	// calls says which requests call, locked for how long which calls wait for a
	// lock, and rest is what else a request does.
	calls  func(i int) bool
	locked func(i int) int64
	rest   func(p *play, i int)
}

func (s gateway) attribute(tb testing.TB) *blame.Attribution {
	tb.Helper()
	const server, holder = helper, helper + 1
	type span struct {
		g          gotrace.GoID
		role       int
		endpoint   int
		start, end int64
	}
	var spans []span
	inner := []string{"internal/poll.runtime_pollWait", "net.(*conn).Read", "main.receive", "main.answer"}
	write := []string{"syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "main.send"}
	p := &play{tb: tb, b: timelinetest.NewBuilder(), seen: map[gotrace.GoID]bool{}}
	writes := func(g gotrace.GoID) {
		p.do(p.b.Calls(g, p.stack(write...)))
		p.pass(ms / 100)
		p.do(p.b.Returns(g))
	}
	p.b.Procs(2)
	p.waits(serving, "", home...)
	p.waits(server, "", inner...)
	p.waits(holder, "", idle...)
	for n := range gotrace.GoID(s.requests / 20) {
		p.waits(unknown+n, "")
	}
	for id := range gotrace.ProcID(2) {
		p.do(p.b.Idle(id, gotrace.NoProc))
	}
	for i := range s.requests {
		p.pass(max(ms, int64(i+1)*20*ms-p.now))
		p.wakes(0, serving)
		p.runs(serving, 0)
		own := span{g: serving, start: p.now}
		p.pass(ms / 2)
		if s.rest != nil {
			s.rest(p, i)
		}
		if s.calls(i) {
			own.endpoint = 1
			writes(serving)
			p.leaves(serving, 0, "network", reply...)
			p.pass(ms / 100)
			p.wakes(0, server)
			p.runs(server, 1)
			call := span{g: server, role: 1, endpoint: 2, start: p.now}
			p.leaves(server, 1, "sleep", "time.Sleep", "main.look", "main.answer")
			p.pass(s.serves)
			p.wakes(0, server)
			p.runs(server, 1)
			if d := s.locked(i); d > 0 {
				p.wakes(server, holder, "main.start", "main.answer")
				p.leaves(server, 1, "sync", mutex...)
				p.runs(holder, 1)
				p.leaves(holder, 1, "sleep", "time.Sleep", "main.refresh", "main.loop")
				p.pass(d)
				p.wakes(0, holder)
				p.runs(holder, 1)
				p.wakes(holder, server, unlock...)
				p.leaves(holder, 1, "select", idle...)
				p.runs(server, 1)
			}
			writes(server)
			call.end = p.now
			p.leaves(server, 1, "network", inner...)
			p.pass(ms / 100)
			p.wakes(0, serving)
			p.runs(serving, 0)
			spans = append(spans, call)
		}
		p.pass(ms / 2)
		writes(serving)
		own.end = p.now
		p.leaves(serving, 0, "network", home...)
		spans = append(spans, own)
	}
	p.pass(20 * ms)
	p.b.Sample(gotrace.NoGoroutine, 0)
	t, err := timeline.Read(p.b.Source(), timeline.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	var rs []request.Request
	for _, x := range spans {
		g, _ := t.G(x.g)
		rs = append(rs, request.Request{Role: x.role, Endpoint: x.endpoint, ByNetwork: true, Parts: []request.Part{{
			G: g, Start: timeline.Time(timelinetest.Epoch) + timeline.Time(x.start), End: timeline.Time(timelinetest.Epoch) + timeline.Time(x.end)}}})
	}
	homes := map[gotrace.GoID]gotrace.StackID{serving: p.stack(home...), server: p.stack(inner...)}
	f := request.Fixed(t, rs, []string{"list", "look", "call"}, func(g timeline.GID) gotrace.StackID { return homes[t.Gs[g].ID] })
	return blame.Attribute(t, f, blame.Options{})
}

// unknown is below the ids of goroutines that wait for nobody knows what from the
// beginning; the n-th slow request waits for the n-th of them.
const unknown = gotrace.GoID(500)

// What the calls from a role are late by is the role's; but where the role has no
// answer of its own, they may have one.
func TestTheCallsOfARoleAreJudgedIfItHasNoAnswer(t *testing.T) {
	slow := func(do func(p *play, i int)) func(p *play, i int) {
		return func(p *play, i int) {
			if i%20 == 19 {
				do(p, i/20)
			}
		}
	}
	locked := func(d int64) func(int) int64 {
		return func(i int) int64 {
			if i%20 == 19 {
				return d
			}
			return 0
		}
	}
	awaits := func(d int64) func(p *play, i int) {
		return slow(func(p *play, n int) {
			p.leaves(serving, 0, "sync", "sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "main.gather", "main.serve")
			p.pass(d)
			p.wakes(0, unknown+gotrace.GoID(n))
			p.runs(unknown+gotrace.GoID(n), 1)
			p.wakes(unknown+gotrace.GoID(n), serving)
			p.do(p.b.Ends(unknown + gotrace.GoID(n)))
			p.do(p.b.Idle(1, gotrace.NoProc))
			p.runs(serving, 0)
		})
	}
	asks := func(d int64) func(p *play, _ int) {
		return func(p *play, _ int) {
			p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.other", "main.serve")
			p.pass(d)
			p.wakes(0, serving)
			p.runs(serving, 0)
		}
	}
	all := func(int) bool { return true }
	for _, c := range []struct {
		name            string
		s               gateway
		role            int
		verdict, reason string
	}{
		{"the tail is another endpoint, and few of its calls wait for a lock", gateway{
			requests: 2000, serves: 20 * ms,
			calls: func(i int) bool { return i%7 == 6 },
			locked: func(i int) int64 {
				if i%280 == 6 {
					return 40 * ms
				}
				return 0
			},
		}, 0, "cause", ""},
		{"most cannot be resolved, and much is a lock of the calls",
			gateway{requests: 400, serves: ms, calls: all, locked: locked(10 * ms), rest: awaits(25 * ms)}, 1, "cause", ""},
		{"nearly all cannot be resolved, and little is a lock of the calls",
			gateway{requests: 400, serves: ms, calls: all, locked: locked(3 * ms), rest: awaits(60 * ms)}, 0, "inconclusive", "unresolved"},
		{"look-alikes have more than a lock of the calls",
			gateway{requests: 400, serves: ms, calls: all, locked: locked(10 * ms), rest: slow(func(p *play, _ int) {
				p.leaves(serving, 0, "select", "runtime.selectgo", "database/sql.(*DB).conn", "database/sql.(*DB).QueryContext", "main.list", "main.serve")
				p.pass(25 * ms)
				p.expires(serving)
				p.runs(serving, 0)
			})}, 0, "inconclusive", "look-alikes"},
		{"nothing is to be explained",
			gateway{requests: 400, serves: ms, calls: all, locked: locked(5 * ms / 2), rest: asks(15 * ms / 2)}, 0, "healthy", ""},
		{"all are slow, and few wait for a lock of the calls",
			gateway{requests: 400, serves: ms, calls: all, locked: locked(3 * ms), rest: asks(15 * ms)}, 0, "inconclusive", "level"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.s.attribute(t)
			if a.Caller(1) != 0 {
				t.Fatal("nobody calls")
			}
			v := cause.Judge(a, cause.Settings{})
			if v.Role.Role != c.role || v.Verdict != c.verdict || v.Reason != c.reason {
				t.Errorf("role %d is %s (%s), want role %d %s (%s): %s", v.Role.Role, v.Verdict, v.Reason, c.role, c.verdict, c.reason, v.Sentence)
			}
			if c.verdict == "cause" && (len(v.Findings) == 0 || v.Findings[0].Cause != "lock-held-across-wait") {
				t.Errorf("%+v", v.Findings)
			}
		})
	}
}
