package blame

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whylate/whylate/timeline"
)

// Many goroutines each of which tells, by the clock, whoever happens to wait announce what they have news of; those who serve waits
// one after the other do not, nor do those whom requests give work.
func TestManyAnnounce(t *testing.T) {
	const tellers, rounds = 10, 4
	for _, c := range []struct {
		name          string
		queued, given bool
		announced     bool
	}{
		{"whoever is there", false, false, true},
		{"those who wait one after the other", true, false, false},
		{"who gave them work", false, true, false},
	} {
		head := `procs 2
stack home = internal/poll.runtime_pollWait < net.(*conn).Read < main.serve
stack watch = runtime.chanrecv1 < main.watch < main.serve
stack tell = runtime.closechan < main.live
stack tick = time.Sleep < main.live
stack work = runtime.chanrecv1 < main.live
stack ask = runtime.chansend1 < main.ask < main.serve
`
		var b strings.Builder
		at := func(ms float64, format string, args ...any) {
			fmt.Fprintf(&b, "%.1fms %s\n", ms, fmt.Sprintf(format, args...))
		}
		// Goroutine i is a request's, and one more behind it in the queue if there is one; 100+i tells.
		for i := 1; i <= tellers; i++ {
			at(0, "g%d waits at home", i)
			at(0, "g%d waits at home", 50+i)
			at(0, "g%d waits at %s", 100+i, map[bool]string{true: "work", false: "tick"}[c.given])
		}
		at(0, "p0 busy")
		at(0, "p1 busy")
		for i := 1; i <= tellers; i++ {
			base, by := float64(10*(rounds+1)*i), 100+i
			waits := func(k int) {
				g, from := i, base+10*float64(k)+1
				if c.queued { // before who is ahead of it is told
					g, from = i+50*(k%2), max(base, from-2)
				}
				head += fmt.Sprintf("request /watch g%d %.1fms-%.1fms\n", g, from, base+10*float64(k+1)+0.1)
				at(from, "p0 wakes g%d", g)
				at(from, "g%d runs on p0", g)
				if c.given {
					at(from+0.1, "g%d wakes g%d at ask", g, by)
					at(from+0.1, "g%d runs on p1", by)
					at(from+0.1, "g%d waits sleep at tick", by)
				}
				at(from+0.2, "g%d waits chan receive at watch", g)
			}
			if c.queued {
				waits(0)
			}
			for k := range rounds {
				switch {
				case !c.queued:
					waits(k)
				case k+1 < rounds:
					waits(k + 1)
				}
				g, end := i, base+10*float64(k+1)
				if c.queued {
					g += 50 * (k % 2)
				}
				at(end, "p1 wakes g%d", by)
				at(end, "g%d runs on p1", by)
				at(end, "g%d wakes g%d at tell", by, g)
				at(end, "g%d waits %s", by, map[bool]string{true: "chan receive at work", false: "sleep at tick"}[c.given])
				at(end, "g%d runs on p0", g)
				at(end+0.1, "g%d waits network at home", g)
			}
		}
		at(10*(rounds+1)*(tellers+1), "end")
		_, a := attribute(t, head+b.String(), "")
		found := false
		for site := range a.releases {
			if a.Sites[site].Func == "main.watch" {
				found = true
				if got := a.Announced(site); got != c.announced {
					t.Errorf("%s: announced %v, want %v", c.name, got, c.announced)
				}
			}
		}
		if !found {
			t.Errorf("%s: nobody waits", c.name)
		}
	}
}

// Who reads a connection that many share waits for the network, though most of what is seen of it is other waits.
func TestWhoReadsASharedConnectionReturnsToIt(t *testing.T) {
	for root, want := range map[string]bool{"google.golang.org/grpc/internal/transport.(*http2Client).reader": true, "main.loop": false} {
		head := fmt.Sprintf(`procs 1
stack home = internal/poll.runtime_pollWait < net.(*conn).Read < main.serve
stack read = internal/poll.runtime_pollWait < net.(*conn).Read < %[1]s
stack put = runtime.chanrecv1 < main.put < %[1]s
request /call g1 10.0ms-20.0ms
`, root)
		var b strings.Builder
		at := func(ms float64, format string, args ...any) {
			fmt.Fprintf(&b, "%.1fms %s\n", ms, fmt.Sprintf(format, args...))
		}
		at(0, "g1 waits at home")
		at(0, "g2 waits at put")
		at(0, "p0 busy")
		at(10, "p0 wakes g1")
		at(10, "g1 runs on p0")
		at(20, "g1 waits network at home")
		for i := range 5 {
			from := float64(30 + 20*i)
			at(from, "p0 wakes g2")
			at(from, "g2 runs on p0")
			at(from+0.1, "g2 waits network at read")
			at(from+1, "p0 wakes g2")
			at(from+1, "g2 runs on p0")
			at(from+1.5, "g2 waits chan receive at put")
		}
		at(140, "end")
		_, a := attribute(t, head+b.String(), "")
		found := false
		for g := range a.t.Gs {
			if a.t.Gs[g].Root() != root {
				continue
			}
			found = true
			if got := a.ReturnsToNetwork(timeline.GID(g)); got != want {
				t.Errorf("%s: returns to the network %v, want %v", root, got, want)
			}
		}
		if !found {
			t.Errorf("no goroutine of %s", root)
		}
	}
}
