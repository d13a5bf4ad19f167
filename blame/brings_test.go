package blame

import (
	"fmt"
	"strings"
	"testing"
)

// Nobody who waits is left where all are told at once.
func TestWhoLeavesOthersWaitingGivesBack(t *testing.T) {
	var s strings.Builder
	s.WriteString("procs 1\nstack home = runtime.netpollblock < net.(*conn).Read < main.serve\nstack next = runtime.selectgo < main.next < main.serve\nstack put = runtime.closechan < main.put < main.serve\nhome g1 at home\nhome g2 at home\nhome g3 at home\n")
	const n = 80
	for i := range n {
		fmt.Fprintf(&s, "request /a g%d %dms-%dms\nrequest /b g2 %[3]dms-%[3]dms\n", 1+i%2*2, 10*i+1, 10*i+19)
	}
	s.WriteString("0ms g1 runs on p0\n0ms g1 waits network at home\n0ms g2 runs on p0\n0ms g2 waits network at home\n0ms g3 runs on p0\n0ms g3 waits network at home\n")
	for i := range n + 1 {
		waits, before := 1+i%2*2, 1+(i+1)%2*2
		if i < n {
			fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d waits select at next\n", 10*i+1, waits)
		}
		if i > 0 {
			fmt.Fprintf(&s, "%dms poller wakes g2\n%[1]dms g2 runs on p0\n%[1]dms g2 wakes g%d at put\n%[1]dms g2 waits network at home\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d waits network at home\n", 10*i+9, before)
		}
	}
	fmt.Fprintf(&s, "%dms end\n", 10*n+20)
	_, a := attribute(t, s.String(), "")
	for site := range a.releases {
		if a.Sites[site].Func == "main.next" && a.Brings(SiteID(site)) {
			t.Error("who is let in one after the other waits for news")
		}
	}
}

// Who ends waits at a place and never waits there himself brings something; who gives back what he had got from a pool waited for it, too.
func TestWhoNeverWaitsWhereHeEndsWaitsBringsSomething(t *testing.T) {
	for name, c := range map[string]struct {
		n     int
		by    string
		turns bool
		want  bool
	}{
		"news":            {60, "runtime.closechan", false, true},
		"one at a time":   {60, "runtime.chansend1", false, false},
		"a pool":          {60, "runtime.closechan", true, false},
		"too few to tell": {20, "runtime.closechan", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s strings.Builder
			s.WriteString("procs 1\nstack home = runtime.netpollblock < net.(*conn).Read < main.serve\nstack next = runtime.selectgo < main.next < main.serve\nstack put = " + c.by + " < main.put < main.serve\nhome g1 at home\nhome g2 at home\n")
			for i := range c.n {
				fmt.Fprintf(&s, "request /a g1 %dms-%dms\nrequest /b g2 %[2]dms-%[2]dms\n", 10*i+1, 10*i+9)
			}
			s.WriteString("0ms g1 runs on p0\n0ms g1 waits network at home\n0ms g2 runs on p0\n0ms g2 waits network at home\n")
			for i := range c.n {
				waits, ends := 1, 2
				if c.turns && i%2 == 1 {
					waits, ends = 2, 1
				}
				fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d waits select at next\n", 10*i+1, waits)
				fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d wakes g%[3]d at put\n%[1]dms g%[2]d waits network at home\n", 10*i+9, ends, waits)
				fmt.Fprintf(&s, "%dms g%d runs on p0\n%[1]dms g%[2]d waits network at home\n", 10*i+9, waits)
			}
			fmt.Fprintf(&s, "%dms end\n", 10*c.n+1)
			_, a := attribute(t, s.String(), "")
			for site := range a.releases {
				if a.Sites[site].Func == "main.next" {
					if got := a.Brings(SiteID(site)); got != c.want {
						t.Errorf("%t, want %t", got, c.want)
					}
					return
				}
			}
			t.Error("no site")
		})
	}
}
