package blame

import (
	"fmt"
	"strings"
	"testing"
)

// Whom a request starts and waits for may start others and wait for them: what these do is for the request, too. Of whom it does not wait
// for they are nobody's.
func TestWhomChildrenStartAndWaitForServesRequests(t *testing.T) {
	for name, c := range map[string]struct {
		waits, locks bool
		ticks, rows  int
		want         bool
	}{
		"it waits":         {waits: true, want: true},
		"it does not wait": {},
		"it does not wait, and its child lets another one in": {locks: true},
		"others start more, and each gives several things":    {waits: true, ticks: 10, rows: 5},
		"others start as many":                                {waits: true, ticks: 10},
	} {
		t.Run(name, func(t *testing.T) {
			var s strings.Builder
			s.WriteString("procs 1\nstack home = runtime.netpollblock < net.(*conn).Read < main.serve\nstack all = sync.(*WaitGroup).Wait < main.query < main.serve\nstack parts = sync.(*WaitGroup).Wait < main.join\nstack start = main.start\nstack join = main.join\nstack part = main.part\nstack done = sync.(*WaitGroup).Done\nstack lock = sync.(*Mutex).Lock < main.look < main.serve\nstack unlock = sync.(*Mutex).Unlock < main.join\nstack sleep = time.Sleep < main.tick\nhome g1 at home\nhome g2 at home\n")
			for i := range 10 {
				fmt.Fprintf(&s, "request /a g1 %dms-%dms\n", 10*i+1, 10*i+9)
				if c.locks {
					fmt.Fprintf(&s, "request /b g2 %dms-%dms\n", 10*i+1, 10*i+2)
				}
			}
			s.WriteString("0ms g1 runs on p0\n0ms g1 waits network at home\n0ms g2 runs on p0\n0ms g2 waits network at home\n0ms g3 runs on p0\n0ms g3 waits sleep at sleep\n")
			for i := range 10 {
				at, child, part := 10*i, 100+i, 200+i
				fmt.Fprintf(&s, "%dms poller wakes g1\n%[1]dms g1 runs on p0\n", at+1)
				fmt.Fprintf(&s, "%dms g1 starts g%d as join at start\n", at+1, child)
				if c.waits {
					fmt.Fprintf(&s, "%dms g1 waits sync at all\n", at+1)
				} else {
					fmt.Fprintf(&s, "%dms g1 waits network at home\n", at+1)
				}
				if c.locks {
					fmt.Fprintf(&s, "%dms poller wakes g2\n%[1]dms g2 runs on p0\n%[1]dms g2 waits sync at lock\n", at+1)
					fmt.Fprintf(&s, "%dms g%d runs on p0\n%[1]dms g%[2]d wakes g2 at unlock\n%[1]dms g%[2]d yields\n%[1]dms g2 runs on p0\n%[1]dms g2 waits network at home\n", at+2, child)
				}
				if i < c.ticks {
					fmt.Fprintf(&s, "%dms poller wakes g3\n%[1]dms g3 runs on p0\n%[1]dms g3 starts g%d as part at start\n%[1]dms g3 waits sleep at sleep\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d ends\n", at+2, 300+i)
				}
				from := at + 2
				fmt.Fprintf(&s, "%dms g%d runs on p0\n%[1]dms g%[2]d starts g%[3]d as part at start\n%[1]dms g%[2]d waits sync at parts\n%[1]dms g%[3]d runs on p0\n", from, child, part)
				for range c.rows {
					fmt.Fprintf(&s, "%dms g%d wakes g%d at done\n%[1]dms g%[2]d yields\n%[1]dms g%[3]d runs on p0\n%[1]dms g%[3]d waits sync at parts\n%[1]dms g%[2]d runs on p0\n", at+7, part, child)
				}
				fmt.Fprintf(&s, "%dms g%d wakes g%d at done\n%[1]dms g%[2]d ends\n%[1]dms g%[3]d runs on p0\n", at+8, part, child)
				if c.waits {
					fmt.Fprintf(&s, "%dms g%d wakes g1 at done\n%[1]dms g%[2]d ends\n%[1]dms g1 runs on p0\n%[1]dms g1 waits network at home\n", at+9, child)
				} else {
					fmt.Fprintf(&s, "%dms g%d ends\n", at+9, child)
				}
			}
			s.WriteString("110ms end\n")
			_, a := attribute(t, s.String(), "")
			for i := range a.Classes {
				if a.Classes[i].Root == "main.part" {
					if got := a.Serves(ClassID(i)); got != c.want {
						t.Errorf("%t, want %t", got, c.want)
					}
					return
				}
			}
			t.Error("no class")
		})
	}
}
