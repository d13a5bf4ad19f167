package blame

import (
	"fmt"
	"testing"
)

// Who reads a connection gives back its streams as answers come in. A goroutine that a request starts, and that waits for its peer
// before it gives back a permit, reads nothing for others.
func TestStreamsAreGivenBackByWhoReadsTheConnection(t *testing.T) {
	for started, want := range map[string]bool{
		"0.6ms p0 starts g11 as root": true,
		"0.6ms g2 starts g11 as root": false,
	} {
		_, a := attribute(t, fmt.Sprintf(`procs 2
stack home = internal/poll.runtime_pollWait < net.(*conn).Read < main.serve
stack acquire = runtime.selectgo < golang.org/x/sync/semaphore.(*Weighted).Acquire < main.serve
stack release = runtime.closechan < golang.org/x/sync/semaphore.(*Weighted).Release < main.use
stack read = internal/poll.runtime_pollWait < net.(*conn).Read < main.use
stack wait = runtime.chanrecv1 < main.serve
stack root = main.use
request /a g1 1ms-9.5ms
request /b g2 0.5ms-9.6ms
0ms g1 waits at home
0ms g2 waits at home
0ms p0 busy
0ms p1 busy
0.5ms p1 wakes g2
0.5ms g2 runs on p1
%s
0.7ms g2 waits chan receive at wait
0.8ms g11 runs on p1
0.9ms g11 waits network at read
1ms p0 wakes g1
1ms g1 runs on p0
1.1ms g1 waits select at acquire
9ms p1 wakes g11
9ms g11 runs on p1
9.1ms g11 wakes g1 at release
9.2ms g11 wakes g2 at release
9.2ms g11 ends
9.3ms g1 runs on p0
9.4ms g2 runs on p1
9.5ms g1 waits network at home
9.6ms g2 waits network at home
9.9ms end
`, started), "")
		found := false
		for site := range a.releases {
			if a.Sites[site].Kind == SitePermit {
				found = true
				if got := a.Streams(site); got != want {
					t.Errorf("%s: streams %v, want %v", started, got, want)
				}
			}
		}
		if !found {
			t.Errorf("%s: nobody waits for a permit", started)
		}
	}
}
