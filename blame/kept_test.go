package blame

import (
	"fmt"
	"testing"
)

// Of who was there when the recording began it is not known what started it: it may be a request that is
// still at work, unless none takes so long.
func TestWhoWaitsForTheEndOfAContextSinceBeforeTheRecording(t *testing.T) {
	for _, c := range []struct {
		other string // another request's end
		left  int
	}{
		{"8ms", 1},
		{"9.7ms", 0},
	} {
		_, a := attribute(t, fmt.Sprintf(`procs 2
stack conn = runtime.selectgo < database/sql.(*DB).conn < main.handle
stack await = runtime.selectgo < database/sql.(*Rows).awaitDone
stack put = runtime.chansend1 < database/sql.(*DB).putConnDBLocked < database/sql.(*Rows).awaitDone
stack fire = time.goFunc
stack cancel = runtime.closechan < context.(*cancelCtx).cancel < time.goFunc
stack read = internal/poll.runtime_pollWait < net.(*conn).Read < main.other
stack root = main.handle
request /a g1 1ms-9.5ms
request /b g2 0.5ms-%s
0ms g3 waits at await
0ms p0 busy
0ms p1 busy
0.1ms p1 starts g2 as root
0.1ms g2 runs on p1
0.6ms g2 waits network at read
0.9ms p0 starts g1 as root
0.9ms g1 runs on p0
1ms g1 waits select at conn
1ms p0 idle
9ms p1 starts g4 as fire at fire
9ms g4 runs on p1
9ms g4 wakes g3 at cancel
9ms g4 ends
9.1ms p0 busy
9.1ms g3 runs on p0
9.2ms g3 wakes g1 at put
9.2ms g3 ends
9.2ms p0 idle
9.3ms p0 busy
9.3ms g1 runs on p0
9.9ms end
`, c.other), "")
		pool := SiteID(0)
		for s := range a.releases {
			if a.Sites[s].Kind == SitePool {
				pool = s
			}
		}
		if pool == 0 {
			t.Fatal("nobody waits for a connection")
		}
		if l := a.Left(pool); l.N != c.left || len(l.At) != c.left {
			t.Errorf("the other request ends at %s: %+v, want %d left", c.other, l, c.left)
		}
	}
}
