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

func TestTheCallerOfARoleIsTheRoleWhoseRequestsWaitForIt(t *testing.T) {
	var called strings.Builder
	for ms := 1; ms <= 22; ms++ {
		fmt.Fprintf(&called, "request /a g1 %dms-%d.13ms\n", ms, ms)
	}
	for _, c := range []struct {
		name, requests string
		guards         Guards
		want           int
	}{
		{"requests call", called.String(), Guards{}, 0},
		{"whoever calls carries no request", "", Guards{}, -1},
		{"without proof nobody calls", called.String(), Guards{NoStitch: true}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, tl := timelinetest.Read(t, c.requests+sharedConnection(t), timeline.Options{})
			f := found(t, s, tl)
			f.Roles = make([]request.Role, 2)
			for i := range f.Requests {
				r := &f.Requests[i]
				if f.Endpoints[r.Endpoint] == "/b" {
					r.Role = 1
				}
				f.Roles[r.Role].Count++
			}
			a := Attribute(tl, f, Options{Guards: c.guards})
			if got := a.Caller(1); got != c.want {
				t.Errorf("the caller of /b is %d, want %d", got, c.want)
			}
			if got := a.Caller(0); got != -1 {
				t.Errorf("the caller of /a is %d", got)
			}
		})
	}
}
