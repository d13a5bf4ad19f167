package blame

import (
	"fmt"
	"strings"
	"testing"
)

// poolStacks are where those stand who use a pool.
const poolStacks = `procs 1
stack take = runtime.selectgo < database/sql.(*DB).conn < main.take
stack back = database/sql.(*DB).putConnDBLocked < database/sql.(*DB).releaseConn < main.take
stack ask  = internal/poll.runtime_pollWait < net.(*conn).Read < main.ask
stack home = runtime.netpollblock < net.(*conn).Read < main.serve
`

// lends is the script of a pool that two more wait for than it has items at first. An item is used for a millisecond. Each of the steps
// says how many items there are for how many milliseconds: what is missing is not given back by whom has it, who is then at rest, or waits for
// a peer, and somebody brings what there is more of, which he got without a wait and has used for as long as early says.
// At the end whoever has an item gives it to all who wait, and nobody does for so many milliseconds as quiet says.
func lends(steps [][2]int, rests bool, early, quiet int) string {
	var s strings.Builder
	s.WriteString(poolStacks)
	items, all, length := steps[0][0], steps[0][0]+2, 0
	for _, x := range steps {
		length += x[1]
	}
	for g := range all + 1 {
		fmt.Fprintf(&s, "home g%d at home\n", g+1)
		fmt.Fprintf(&s, "request /a g%d 0ms-%dms%s\n", g+1, length, map[bool]string{false: " open"}[rests])
	}
	var using, waiting []int
	for g := range all {
		if fmt.Fprintf(&s, "0ms g%d runs on p0\n", g+1); g < items {
			using = append(using, g+1)
			fmt.Fprintf(&s, "0ms g%d waits network at ask\n", g+1)
		} else {
			waiting = append(waiting, g+1)
			fmt.Fprintf(&s, "0ms g%d waits select at take\n", g+1)
		}
	}
	fmt.Fprintf(&s, "0ms g%d waits at home\n", all+1) // who brings what there is more of
	at := 0
	for i, x := range steps {
		for left := x[1]; left > 0; left-- {
			at++
			if early > 0 && left == early && i+1 < len(steps) && steps[i+1][0] > x[0] {
				fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d waits network at ask\n", at, all+1)
			}
			now := using
			using = nil
			for _, g := range now {
				fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n", at, g)
				if len(using) >= x[0] {
					fmt.Fprintf(&s, "%dms g%d waits network at %s\n", at, g, map[bool]string{true: "home", false: "ask"}[rests])
					continue
				}
				next := waiting[0]
				waiting = append(waiting[1:], g)
				fmt.Fprintf(&s, "%dms g%d wakes g%d at back\n%[1]dms g%[2]d waits select at take\n%[1]dms g%[3]d runs on p0\n%[1]dms g%[3]d waits network at ask\n", at, g, next)
				using = append(using, next)
			}
			for len(using) < x[0] {
				next := waiting[0]
				waiting = waiting[1:]
				fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n%[1]dms g%[2]d wakes g%[3]d at back\n%[1]dms g%[2]d waits network at home\n%[1]dms g%[3]d runs on p0\n%[1]dms g%[3]d waits network at ask\n", at, all+1, next)
				using = append(using, next)
			}
		}
	}
	if quiet > 0 {
		fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n", at, using[0])
		for _, next := range waiting {
			fmt.Fprintf(&s, "%dms g%d wakes g%d at back\n", at, using[0], next)
		}
		for _, g := range append(using[:1], waiting...) {
			if g != using[0] {
				fmt.Fprintf(&s, "%dms g%d runs on p0\n", at, g)
			}
			fmt.Fprintf(&s, "%dms g%d waits network at home\n", at, g)
		}
		for i := range min(quiet, 20) { // it is asked for other things meanwhile
			fmt.Fprintf(&s, "request /b g%d %dms-%dms\n", all+1, at+1+i, at+1+i)
		}
		at += quiet
	}
	fmt.Fprintf(&s, "%dms end\n", at+1)
	return s.String()
}

// An item that is not given back is missing from then on, as long as anybody waits; what is missing for a while is not.
func TestAPoolShrinksWhereItemsAreMissingForGood(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps [][2]int
		early int
		quiet int
		want  string
	}{
		{"nothing is missing", [][2]int{{3, 200}}, 0, 0, "3@200"},
		{"one after the other", [][2]int{{3, 50}, {2, 50}, {1, 50}}, 0, 0, "3@50 2@100 1@150"},
		{"two at a time", [][2]int{{4, 50}, {2, 50}, {1, 50}}, 0, 0, "4@50 2@100 1@150"},
		{"one", [][2]int{{3, 50}, {2, 100}}, 0, 0, "3@50 2@150"},
		{"one for a while", [][2]int{{3, 50}, {2, 50}, {3, 50}}, 0, 0, "3@150"},
		{"somebody has one for longer, or not: he never waited", [][2]int{{2, 50}, {3, 60}, {2, 20}, {1, 20}}, 40, 0, "3@110 2@130 1@150"},
		{"one after the other, and for a while nobody wants any", [][2]int{{3, 50}, {2, 50}, {1, 50}}, 0, 90, "3@50 2@150"},
		{"a queue drains", [][2]int{{3, 50}, {2, 50}, {1, 50}}, 0, 110, "3@50"},
		{"too short to tell", [][2]int{{3, 100}, {2, 5}, {1, 5}}, 0, 0, "3@100"},
	} {
		_, a := attribute(t, lends(c.steps, true, c.early, c.quiet), "")
		for site := range a.releases {
			if a.Sites[site].Func != "main.take" {
				continue
			}
			var got []string
			stages, _ := a.Shrinks(site)
			for _, s := range stages {
				got = append(got, fmt.Sprintf("%d@%d", s.Items, (s.Until-a.t.Start)/1e6))
			}
			if x := strings.Join(got, " "); x != c.want {
				t.Errorf("%s: %s, want %s", c.name, x, c.want)
			}
		}
	}
}

// uneven is the script of a pool of two items, which one uses for 15 ms at a time and three others for one. After the fifth time that he
// takes one, the others go home 12 ms later; he is still at work.
func uneven() string {
	const long, last = 15, 12
	var s strings.Builder
	s.WriteString(poolStacks)
	for g := 1; g <= 4; g++ {
		fmt.Fprintf(&s, "home g%d at home\nrequest /a g%[1]d 0ms-120ms open\n", g)
	}
	fmt.Fprintf(&s, "0ms g1 runs on p0\n0ms g1 waits network at ask\n0ms g2 runs on p0\n0ms g2 waits network at ask\n")
	fmt.Fprintf(&s, "0ms g3 runs on p0\n0ms g3 waits select at take\n0ms g4 runs on p0\n0ms g4 waits select at take\n")
	due, waiting, times, end := map[int]int{1: long, 2: 1}, []int{3, 4}, 1, 1000
	for at := 1; len(due) > 1 || at <= end; at++ {
		for g := 1; g <= 4; g++ {
			if due[g] != at || times == 5 && g == 1 {
				continue
			}
			delete(due, g)
			fmt.Fprintf(&s, "%dms poller wakes g%d\n%[1]dms g%[2]d runs on p0\n", at, g)
			next := 0
			if len(waiting) > 0 {
				next, waiting = waiting[0], waiting[1:]
				fmt.Fprintf(&s, "%dms g%d wakes g%d at back\n", at, g, next)
			}
			if at < end {
				waiting = append(waiting, g)
				fmt.Fprintf(&s, "%dms g%d waits select at take\n", at, g)
			} else {
				fmt.Fprintf(&s, "%dms g%d waits network at home\n", at, g)
			}
			if next == 0 {
				continue
			}
			fmt.Fprintf(&s, "%dms g%d runs on p0\n%[1]dms g%[2]d waits network at ask\n", at, next)
			if due[next] = at + 1; next == 1 {
				if due[1], times = at+long, times+1; times == 5 {
					end = at + last
				}
			}
		}
	}
	fmt.Fprintf(&s, "%dms end\n", end+5)
	return s.String()
}

// What one uses for longer than others is not missing: he gives it back when nobody waits any more, which nobody sees.
func TestAPoolDoesNotShrinkWhileOneUsesItForLonger(t *testing.T) {
	_, a := attribute(t, uneven(), "")
	pools := 0
	for site := range a.releases {
		if a.Sites[site].Func != "main.take" {
			continue
		}
		pools++
		if stages, _ := a.Shrinks(site); len(stages) != 1 || stages[0].Items != 2 {
			t.Errorf("%+v", stages)
		}
	}
	if pools != 1 {
		t.Errorf("%d pools", pools)
	}
}

// Who still does something else than to wait for an item may have what is missing.
func TestWhoIsAtWorkMayHaveWhatIsMissing(t *testing.T) {
	for rests, want := range map[bool]int{true: 0, false: 4} { // one has the last item, and one is to bring what there is more of
		_, a := attribute(t, lends([][2]int{{3, 50}, {2, 50}, {1, 50}}, rests, 0, 0), "")
		for site := range a.releases {
			if stages, users := a.Shrinks(site); a.Sites[site].Func == "main.take" && (len(stages) != 3 || users != want) {
				t.Errorf("at rest: %v: %d stages, %d users, want %d", rests, len(stages), users, want)
			}
		}
	}
}
