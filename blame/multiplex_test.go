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
