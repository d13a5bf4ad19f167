package cause_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/cause"
)

// peerWaits makes the request wait for its peer.
func peerWaits(p *play, d int64, at ...string) {
	p.leaves(serving, 0, "network", at...)
	p.pass(d)
	p.wakes(0, serving)
	p.runs(serving, 0)
}

// Requests that hang do not show what is usual for their endpoint.
func TestAnEndpointOfWhichAllHangIsNoMixture(t *testing.T) {
	for _, c := range []struct {
		reason string
		at     []string
		alike  []string
	}{
		{"select", takes, []string{"pool-leak", "pool-exhausted"}},
		{"sync", mutex, []string{"lock-held-across-wait", "lock-held-across-work"}},
	} {
		for _, name := range []string{"request", "export"} {
			v := cause.Judge(attributed(t, withJob(hangsAs(name, c.reason, c.at))), cause.Settings{})
			if len(v.Consistent) == 0 || !slices.Equal(v.Consistent[0].Causes, c.alike) {
				t.Errorf("%s hangs in %s: %s: %+v", name, c.at[len(c.at)-2], v.Sentence, v.Consistent)
			}
		}
	}
}

// Who waits for a lock behind slower endpoints is late for a reason of its own, however many of these
// there are, and although all requests wait for something.
func TestSlowerEndpointsHideNobodyElse(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  map[int]int64 // of twenty requests, by what they take
		every int64
	}{
		{"one slower endpoint", map[int]int64{3: 60 * ms}, 0},
		{"two slower endpoints", map[int]int64{3: 60 * ms, 7: 50 * ms}, 0},
		{"all ask a database", map[int]int64{3: 100 * ms, 7: 100 * ms, 11: 100 * ms}, 12 * ms},
	} {
		locked := behindHelper("sync", mutex, unlock, naps(20*ms, "main.refresh", "main.loop"))
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 1000, cast: waitingHelper, in: func(p *play, i int) {
			if c.every > 0 {
				peerWaits(p, c.every, "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.db", "main.serve")
			}
			if d := c.slow[i%20]; d > 0 {
				peerWaits(p, d, reply...)
			}
			if i%20 == 4 {
				locked(p)
			}
		}, task: func(i int) string {
			switch {
			case c.slow[i%20] > 0 && c.every > 0:
				return "report"
			case c.slow[i%20] > 0:
				return [20]string{3: "report", 7: "export"}[i%20]
			case i%5 == 4:
				return "price"
			}
			return "item"
		}}), cause.Settings{})
		if v.Verdict != "cause" || len(v.Findings) == 0 || v.Findings[0].Cause != "lock-held-across-wait" {
			t.Errorf("%s: %s: %s", c.name, v.Verdict, v.Sentence)
			continue
		}
		if f := &v.Findings[0]; f.P99NS >= 50*ms || f.P99WithoutNS >= f.P99NS {
			t.Errorf("%s: p99 of %d ns, %d ns without: these leave out what is slow on purpose", c.name, f.P99NS, f.P99WithoutNS)
		}
	}
}

// What makes others late than the slowest endpoint is told if somebody minds: p99 is that of the slowest.
func TestWhatOthersAreLateByIsTooLittleBesideP99(t *testing.T) {
	for _, c := range []struct {
		name       string
		slow, late int64
		slo        int64
		verdict    string
	}{
		{"a tenth of p99", 60 * ms, 4 * ms, 0, "healthy"},
		{"a tenth of p99, but a lock", 60 * ms, 6 * ms, 0, "cause"},
		{"most of p99", 11 * ms, 8 * ms, 0, "cause"},
		{"a third of p99, but much", 60 * ms, 20 * ms, 0, "cause"},
		{"a tenth of p99, and both beyond an objective", 60 * ms, 6 * ms, 5 * ms, "cause"},
	} {
		locked := behindHelper("sync", mutex, unlock, naps(c.late, "main.refresh", "main.loop"))
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 1000, cast: waitingHelper, in: func(p *play, i int) {
			switch i % 20 {
			case 3:
				peerWaits(p, c.slow, reply...)
			case 4:
				locked(p)
			}
		}, task: func(i int) string {
			switch {
			case i%20 == 3:
				return "report"
			case i%5 == 4:
				return "price"
			}
			return "item"
		}}), cause.Settings{SLO: c.slo})
		if v.Verdict != c.verdict {
			t.Errorf("%s: %s: %s", c.name, v.Verdict, v.Sentence)
		}
	}
}

// dialsAndAsks is a request that connects anew, and then asks.
func dialsAndAsks(dials, asks int64) func(p *play) {
	return func(p *play) {
		peerWaits(p, dials, "internal/poll.runtime_pollWait", "internal/poll.(*FD).WaitWrite", "net.(*netFD).connect", "net.(*Dialer).DialContext", "main.call", "main.serve")
		peerWaits(p, asks, reply...)
	}
}

// An endpoint may be slow on purpose, but not for a connection each time, nor for a file that is synced or a client that sends slowly.
func TestWhatNoEndpointIsMadeForIsNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits func(p *play)
		found string
		goes  string // the cause that is not found, but said
	}{
		{"it asks a peer", func(p *play) { peerWaits(p, 40*ms, reply...) }, "", "slow-dependency"},
		{"its client sends slowly", func(p *play) {
			peerWaits(p, 40*ms, "internal/poll.runtime_pollWait", "net.(*conn).Read", "net/http.(*connReader).Read", "net/http.(*body).Read", "main.upload", "net/http.(*conn).serve")
		}, "slow-client", ""},
		{"its client sends slowly, for a moment", func(p *play) {
			peerWaits(p, 8*ms, "internal/poll.runtime_pollWait", "net.(*conn).Read", "net/http.(*connReader).Read", "net/http.(*body).Read", "main.upload", "net/http.(*conn).serve")
		}, "", "slow-client"},
		{"it connects anew to a peer that takes as long to answer", dialsAndAsks(9*ms, 11*ms), "dial-per-request", ""},
		{"it connects anew to one that takes much longer", dialsAndAsks(9*ms, 30*ms), "", "slow-dependency"},
		{"it connects anew, in a moment", dialsAndAsks(3*ms, 3*ms), "", ""},
	} {
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 1000, in: func(p *play, i int) {
			if i%20 == 3 {
				c.waits(p)
			}
		}, task: func(i int) string { return map[bool]string{true: "upload", false: "item"}[i%20 == 3] }}), cause.Settings{})
		got := ""
		if len(v.Findings) > 0 {
			got = v.Findings[0].Cause
		}
		if got != c.found || (got == "") != (v.Verdict == "healthy") {
			t.Errorf("%s: %s, found %q, want %q: %s", c.name, v.Verdict, got, c.found, v.Sentence)
		}
		if c.goes != "" && !strings.Contains(v.Sentence, "Its time goes to "+c.goes+": slow requests spend ") {
			t.Errorf("%s: not said where the endpoint's time goes: %s", c.name, v.Sentence)
		}
	}
}

// Of a slower endpoint the slow requests are compared with what is usual for it, where that is not all there is to them, too.
func TestWhatIsUsualForASlowerEndpointIsNotFelt(t *testing.T) {
	for more, found := range map[int64]string{2600 * us: "", 8 * ms: "slow-dependency"} {
		v := cause.Judge(attributed(t, scene{procs: 2, requests: 1000, in: func(p *play, i int) {
			if i%5 == 3 {
				d := 2 * ms
				if i%50 == 33 {
					d += more
				}
				peerWaits(p, d, reply...)
			}
		}, task: func(i int) string { return map[bool]string{true: "search", false: "item"}[i%5 == 3] }}), cause.Settings{})
		got := ""
		if len(v.Findings) > 0 {
			got = v.Findings[0].Cause
		}
		if got != found || (got == "") != (v.Verdict == "healthy") || v.Mix >= cause.MixShare {
			t.Errorf("%s longer: %s, found %q, want %q, mix %.2f: %s", cause.Ms(float64(more)), v.Verdict, got, found, v.Mix, v.Sentence)
		}
	}
}

// A cause is less sure where part of the time is not known.
func TestConfidenceFallsWithWhatIsUnresolved(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		v := cause.Judge(attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
			behindHelper("sync", mutex, unlock, naps(20*ms, "main.refresh", "main.loop"))(p)
			if unknown {
				p.waits(serving, "")
				p.pass(4 * ms)
				p.wakes(0, serving)
				p.runs(serving, 0)
			}
		})}), cause.Settings{})
		if len(v.Findings) != 1 || (v.Findings[0].Confidence == "high") == unknown {
			t.Errorf("unknown %t: %.2f unresolved: %+v", unknown, v.Unresolved, v.Findings)
		}
	}
}

// The baseline is that of all endpoints: it says nothing of those beside the slower ones.
func TestABaselineIsThatOfAllEndpoints(t *testing.T) {
	service := func(more int64) scene {
		return scene{procs: 2, requests: 1000, in: func(p *play, i int) {
			if more > 0 {
				peerWaits(p, more, "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.db", "main.serve")
			}
			switch {
			case i%20 == 3:
				peerWaits(p, 100*ms, reply...)
			case i%5 < 2:
				peerWaits(p, 20*ms, "internal/poll.runtime_pollWait", "net.(*conn).Read", "main.search", "main.serve")
			}
		}, task: func(i int) string {
			switch {
			case i%20 == 3:
				return "report"
			case i%5 < 2:
				return "search"
			}
			return [2]string{"price", "item"}[i%2]
		}}
	}
	base := cause.Typical(attributed(t, service(0)))
	for more, verdict := range map[int64]string{0: "healthy", 4 * ms: "cause"} {
		v := cause.Judge(attributed(t, service(more)), cause.Settings{Baseline: base, BaselineName: "base"})
		if v.Verdict != verdict || len(v.Slower) > 0 {
			t.Errorf("%d ms more: %s: %s", more/ms, v.Verdict, v.Sentence)
		}
	}
}

// Whoever computes for long is seen. Fast requests of the same endpoint may be among those of which nothing was
// seen in their handlers, if there are enough of these.
func TestAnEndpointOfWhichOnlyThoseThatComputeAreSeenMayBeFast(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		a := attributed(t, scene{procs: 2, requests: 1000, in: func(p *play, i int) {
			if i%20 == 3 {
				p.computes(serving, 0, 30*ms, "main.search", "main.serve")
			}
		}, task: func(i int) string { return map[bool]string{true: "search", false: "item"}[i%20 == 3] }})
		for i := range a.Found().Requests {
			r := &a.Found().Requests[i]
			r.Unseen = unseen && int64(r.Duration()) < 10*ms
		}
		v := cause.Judge(a, cause.Settings{})
		switch {
		case !unseen && (v.Verdict != "healthy" || v.Mix < cause.MixShare):
			t.Errorf("all are seen: %s: %s", v.Verdict, v.Sentence)
		case unseen && (v.Verdict != "inconclusive" || len(v.Consistent) == 0 || !slices.Equal(v.Consistent[0].Causes, []string{"expensive-request"})):
			t.Errorf("others are not: %s: %s", v.Verdict, v.Sentence)
		}
		if x := sum(v); x < 1-1e-6 || x > 1+1e-6 {
			t.Errorf("shares add up to %v", x)
		}
	}
}

// What the slow ones spend of their time that is not known is not forgotten where every request waits.
func TestWhatIsUnresolvedOfTheTailStaysSo(t *testing.T) {
	v := cause.Judge(attributed(t, scene{procs: 2, in: func(p *play, i int) {
		peerWaits(p, 15*ms, reply...)
		if i%10 == 9 {
			p.waits(serving, "")
			p.pass(4 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
		}
	}}), cause.Settings{})
	if v.Level == nil || v.Unresolved < 0.5 || math.Abs(sum(v)-1) > 1e-6 {
		t.Errorf("%.2f unresolved, %.2f in all, level %+v", v.Unresolved, sum(v), v.Level)
	}
}

// What every request of a slower endpoint does is what these take, unless no request has to do so.
func TestWhatNoRequestNeedsIsNamedOfAnEndpointToo(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(p *play)
		want string
	}{
		{"a collection that each forces", func(p *play) { cycle(p, 30*ms, heapSizes{}, byCall) }, "forced-gc"},
		{"work", func(p *play) { p.computes(serving, 0, 30*ms, "main.report", "main.serve") }, ""},
		{"a peer's answer", func(p *play) { peerWaits(p, 30*ms, reply...) }, ""},
	} {
		v := cause.Judge(attributed(t, scene{procs: 1, requests: 1000, cast: worker, in: func(p *play, i int) {
			if i%20 == 19 {
				c.does(p)
			}
		}, task: func(i int) string {
			if i%20 == 19 {
				return "report"
			}
			return "search"
		}}), cause.Settings{})
		got := ""
		for _, f := range v.Findings {
			got = f.Cause
		}
		if got != c.want || (v.Verdict == "healthy") != (c.want == "") {
			t.Errorf("%s: %s, %q, want %q: %s", c.name, v.Verdict, got, c.want, v.Sentence)
		}
	}
}
