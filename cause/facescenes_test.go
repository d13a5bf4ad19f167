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

// Beside a server that is known, what looks like requests as well, and more of them, may be a broker's in the same process: that
// nobody knows what these wait for says nothing.
func TestWhatAKnownServerAnswersIsJudgedBeforeABroker(t *testing.T) {
	const rounds = 200
	for _, c := range []struct {
		name, role, verdict string
		slow                bool // the server's are late by a timer
	}{
		{"a known server", "net/http", "healthy", false},
		{"one that only looks like one", "main.serve", "inconclusive", false},
		{"a known server, which is late itself", "net/http", "cause", true},
	} {
		p := &play{tb: t, b: timelinetest.NewBuilder(), seen: map[gotrace.GoID]bool{}}
		p.b.Procs(2)
		p.waits(serving, "", home...)
		p.waits(other, "", home...)
		for n := range gotrace.GoID(rounds / 20) {
			p.waits(unknown+n, "")
		}
		for id := range gotrace.ProcID(2) {
			p.do(p.b.Idle(id, gotrace.NoProc))
		}
		var rs []request.Request
		serve := func(g gotrace.GoID, role int, does func()) {
			p.pass(ms)
			p.wakes(0, g)
			p.runs(g, 0)
			from := p.now
			p.pass(ms / 2)
			does()
			rs = append(rs, request.Request{Role: role, Endpoint: role, ByNetwork: true, Parts: []request.Part{{
				G: timeline.GID(g), Start: timeline.Time(timelinetest.Epoch) + timeline.Time(from), End: timeline.Time(timelinetest.Epoch) + timeline.Time(p.now)}}})
			p.leaves(g, 0, "network", home...)
		}
		for i := range rounds {
			serve(serving, 0, func() {
				if c.slow && i%20 == 9 {
					p.leaves(serving, 0, "sleep", "time.Sleep", "main.pause", "main.serve")
					p.pass(30 * ms)
					p.wakes(0, serving)
					p.runs(serving, 0)
				}
			})
			for range 2 {
				serve(other, 1, func() {})
			}
			serve(other, 1, func() {
				if i%20 == 19 {
					n := unknown + gotrace.GoID(i/20)
					p.leaves(other, 0, "sync", "sync.runtime_SemacquireWaitGroup", "sync.(*WaitGroup).Wait", "main.gather", "main.route")
					p.pass(60 * ms)
					p.wakes(0, n)
					p.runs(n, 1)
					p.wakes(n, other)
					p.do(p.b.Ends(n))
					p.do(p.b.Idle(1, gotrace.NoProc))
					p.runs(other, 0)
				}
			})
		}
		p.pass(20 * ms)
		p.b.Sample(gotrace.NoGoroutine, 0)
		tl, err := timeline.Read(p.b.Source(), timeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rs {
			rs[i].Parts[0].G, _ = tl.G(gotrace.GoID(rs[i].Parts[0].G))
		}
		f := request.Fixed(tl, rs, []string{"serve", "route"}, func(timeline.GID) gotrace.StackID { return p.stack(home...) })
		f.Roles[0].Name, f.Roles[0].Shape = c.role, request.Connection
		f.Roles[1].Name, f.Roles[1].Shape = "main.route", request.Connection
		if v := cause.Judge(blame.Attribute(tl, f, blame.Options{}), cause.Settings{}); v.Verdict != c.verdict {
			t.Errorf("%s: %s, want %s: %s", c.name, v.Verdict, c.verdict, v.Sentence)
		}
	}
}
