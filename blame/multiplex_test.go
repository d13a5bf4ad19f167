package blame

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/whylate/whylate/request"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// sharedConnection returns a script in which the process calls itself: calls are
// requests to /b; the first rounds begin at 1, 2, ... 22 ms.
func sharedConnection(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/rules/a-call-on-a-shared-connection-is-what-its-handler-did.txt")
	if err != nil {
		t.Fatal(err)
	}
	script, _, _ := strings.Cut(string(text), "-- want --")
	return script
}

// calling attributes a script in which requests to /a may call those to /b, and
// makes /b a role of its own: 1.
func calling(t *testing.T, script string, guards Guards) *Attribution {
	t.Helper()
	s, tl := timelinetest.Read(t, script, timeline.Options{})
	f := found(t, s, tl)
	f.Roles = make([]request.Role, 2)
	for i := range f.Requests {
		r := &f.Requests[i]
		if f.Endpoints[r.Endpoint] == "/b" {
			r.Role = 1
		}
		if !r.InFlight {
			f.Roles[r.Role].Count++
		}
	}
	return Attribute(tl, f, Options{Guards: guards})
}

// rounds are requests to /a that carry the first rounds of the shared connection.
func rounds(n int) string {
	var called strings.Builder
	for ms := 1; ms <= n; ms++ {
		fmt.Fprintf(&called, "request /a g1 %dms-%d.13ms\n", ms, ms)
	}
	return called.String()
}

func TestTheCallerOfARoleIsTheRoleWhoseRequestsWaitForIt(t *testing.T) {
	for _, c := range []struct {
		name, requests string
		guards         Guards
		want           int
	}{
		{"requests call", rounds(22), Guards{}, 0},
		{"whoever calls carries no request", "", Guards{}, -1},
		{"without proof nobody calls", rounds(22), Guards{NoStitch: true}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := calling(t, c.requests+sharedConnection(t), c.guards)
			if got := a.Caller(1); got != c.want {
				t.Errorf("the caller of /b is %d, want %d", got, c.want)
			}
			if got := a.Caller(0); got != -1 {
				t.Errorf("the caller of /a is %d", got)
			}
		})
	}
}

func TestACallCountsOnceInWhateverWaysItIsKnown(t *testing.T) {
	a := calling(t, rounds(9)+sharedConnection(t), Guards{}) // and one more of 24 at the end
	if len(a.stitched.replies) < 10 {
		t.Fatalf("%d replies", len(a.stitched.replies))
	}
	for w, r := range a.stitched.replies {
		a.stitched.served[w] = r.request
		a.stitched.server[w.g] = a.f.Requests[r.request].Parts[0].G
	}
	if got := a.Caller(1); got != -1 {
		t.Errorf("10 of 24 requests were called, but role %d is the caller of all", got)
	}
}

func TestCallersAreLookedForOnce(t *testing.T) {
	a := calling(t, rounds(22)+sharedConnection(t), Guards{})
	if n := testing.AllocsPerRun(5, func() { a.Caller(0); a.Caller(1) }); n != 0 {
		t.Errorf("%v allocations to ask again", n)
	}
}

// connections returns a script in which n connections of the process with itself
// carry rounds calls each, in turn: of connection k, goroutine 10k+1 calls, +3 and
// +2 write and read at its end, +4 and +5 read and write at the other, +6 handles.
func connections(n, rounds int) string {
	var head, body strings.Builder
	head.WriteString(`procs 2
stack ask    = runtime.chansend1 < main.(*conn).call < main.handle
stack reply  = runtime.selectgo < main.(*conn).call < main.handle
stack queue  = runtime.selectgo < main.(*conn).writes
stack write  = syscall.write < internal/poll.(*FD).Write < net.(*netFD).Write < main.(*conn).writes
stack reads  = internal/poll.runtime_pollWait < net.(*conn).Read < main.(*conn).reads
stack work   = runtime.chanrecv1 < main.work
`)
	body.WriteString("0ms p0 idle\n0ms p1 idle\n")
	for k := range n {
		g := 10 * (k + 1)
		fmt.Fprintf(&head, "home g%d at queue\nhome g%d at reads\nhome g%d at queue\nhome g%d at work\n", g+3, g+4, g+5, g+6)
		fmt.Fprintf(&body, "0ms g%d waits\n0ms g%d waits at reads\n0ms g%d waits at queue\n0ms g%d waits at reads\n0ms g%d waits at queue\n0ms g%d waits at work\n", g+1, g+2, g+3, g+4, g+5, g+6)
	}
	for i := range n * rounds {
		g, at := 10*(i%n+1), 100*(i+1) // us
		fmt.Fprintf(&head, "request /b g%d %dus-%dus g%d %dus-%dus g%d %dus-%dus\n", g+4, at+20, at+30, g+6, at+30, at+40, g+5, at+40, at+55)
		fmt.Fprintf(&body, `%dus p0 busy
+0us p0 wakes g%[2]d1
+0us g%[2]d1 runs on p0
+5us g%[2]d1 wakes g%[2]d3 at ask
+0us g%[2]d1 waits select at reply
+0us g%[2]d3 runs on p0
+5us g%[2]d3 calls at write
+5us g%[2]d3 returns
+0us g%[2]d3 waits select at queue
+5us poller wakes g%[2]d4
+0us g%[2]d4 runs on p0
+10us g%[2]d4 wakes g%[2]d6 at ask
+0us g%[2]d4 waits network at reads
+0us g%[2]d6 runs on p0
+10us g%[2]d6 wakes g%[2]d5 at ask
+0us g%[2]d6 waits chan receive at work
+5us g%[2]d5 runs on p0
+5us g%[2]d5 calls at write
+5us g%[2]d5 returns
+0us g%[2]d5 waits select at queue
+5us poller wakes g%[2]d2
+0us g%[2]d2 runs on p0
+10us g%[2]d2 wakes g%[2]d1 at ask
+0us g%[2]d2 waits network at reads
+0us g%[2]d1 runs on p0
+5us g%[2]d1 waits chan receive
+0us p0 idle
`, at, g/10)
	}
	return head.String() + body.String() + "+100us end\n"
}

func TestOfManyConnectionsFewAreTriedWithEachOther(t *testing.T) {
	const n, calls = 60, 24
	_, a := attribute(t, connections(n, calls), "")
	if got := len(a.stitched.replies); got != n*calls {
		t.Errorf("%d of %d calls were found", got, n*calls)
	}
	// Each proof looks at all wake-ups of two readers; what is tried in vain ends at
	// the third miss.
	if got, most := a.stitched.looks, n*(2*calls+3*muxTried); got > most {
		t.Errorf("%d wake-ups were looked at, want %d at most", got, most)
	}
}

func TestWakeUpsOnASaturatedMachineAreNotTried(t *testing.T) {
	a := &Attribution{t: &timeline.Timeline{End: 1e9}}
	var wakes []timeline.Time
	for ms := timeline.Time(10); ms < 900; ms++ {
		wakes = append(wakes, ms*1e6)
	}
	if got := a.polled(wakes); got != nil {
		t.Errorf("%d wake-ups count, though nobody polled", len(got))
	}
}

func TestProofsOfConnectionsHaveABound(t *testing.T) {
	a := &Attribution{t: &timeline.Timeline{End: 1e9}}
	s := &stitching{writes: times{first: []int32{0, 0}}} // of goroutines 0 and 1, and none of 2
	var wakes []polledWake
	for ms := timeline.Time(1); ms <= 2*muxWakes; ms++ {
		s.writes.at = append(s.writes.at, ms*1e6)
		wakes = append(wakes, polledWake{at: ms*1e6 + 20e3})
	}
	s.writes.end()
	s.writes.end()
	if !a.driven(s, wakes, 1, 2) {
		t.Error("wake-ups just after each write are not driven by them")
	}
	s.looks = maxLooks
	if a.driven(s, wakes, 1, 2) {
		t.Error("the search goes on beyond its bound")
	}
}
