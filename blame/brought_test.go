package blame

import (
	"fmt"
	"strings"
	"testing"
)

// Of what other requests bring from outside nobody in the process has anything while it is waited for; of what others give back
// somebody has it at every instant, even if these come late and are short.
func TestWhatOtherRequestsBring(t *testing.T) {
	const rounds = 20
	for _, c := range []struct {
		name    string
		came    int    // when who ends the wait came, in ms of a wait from 1 to 21
		waits   bool   // it waited there itself
		another bool   // other requests of its kind are at work before it
		by      string // what ends the wait
		alike   bool   // who ends it is of the same kind
		open    bool   // one waits in the end
		brought bool
	}{
		{name: "they come when it is there", came: 20, brought: true},
		{name: "they were there all the time", came: 2},
		{name: "one after the other is there", came: 20, another: true},
		{name: "they waited there themselves", came: 20, waits: true},
		{name: "they tell somebody who ends the wait", came: 20, by: "hub", brought: true},
		{name: "they come when it is there, but for the last one", came: 20, open: true, brought: true},
		{name: "those who wait let each other go", came: 20, alike: true},
		{name: "nobody sent for it", came: 20, by: "timer"},
	} {
		var b strings.Builder
		b.WriteString(`procs 2
stack home = internal/poll.runtime_pollWait < net.(*conn).Read < main.serve
stack take = runtime.chanrecv1 < main.take < main.serve
stack give = runtime.chansend1 < main.give < main.serve
stack send = runtime.chansend1 < main.tick
stack rest = time.Sleep < main.rest < main.serve
stack tick = time.Sleep < main.tick
`)
		lines := []string{}
		at := func(ms float64, format string, args ...any) {
			lines = append(lines, fmt.Sprintf("%.1fms %s\n", ms, fmt.Sprintf(format, args...)))
		}
		for _, g := range []int{1, 2, 3, 5} {
			at(0, "g%d waits at home", g)
		}
		at(0, "g4 waits at tick")
		at(0, "p0 busy")
		at(0, "p1 busy")
		wakes := func(ms float64, g, p int) {
			at(ms, "p%d wakes g%d", p, g)
			at(ms, "g%d runs on p%d", g, p)
		}
		for i := range rounds {
			from := float64(30 * i)
			came := from + float64(c.came)
			gives := map[bool]string{true: "/take", false: "/give"}[c.alike]
			fmt.Fprintf(&b, "request /take g1 %.1fms-%.1fms\nrequest %s g2 %.1fms-%.1fms\n", from+1, from+22, gives, came, from+21.4)
			wakes(from+1, 1, 0)
			at(from+1.1, "g1 waits chan receive at take")
			if c.another {
				fmt.Fprintf(&b, "request /give g3 %.1fms-%.1fms\n", from+1.2, from+20.6)
				wakes(from+1.2, 3, 1)
				at(from+1.3, "g3 waits sleep at rest")
				fmt.Fprintf(&b, "request /take g5 %.1fms-%.1fms\n", from+1.4, from+20.7)
				wakes(from+1.4, 5, 1)
				at(from+1.5, "g5 waits chan receive at take")
			}
			wakes(came, 2, 1)
			at(came+0.1, "g2 waits %s at %s", map[bool]string{true: "chan receive", false: "sleep"}[c.waits], map[bool]string{true: "take", false: "rest"}[c.waits])
			if c.another {
				wakes(from+20.4, 3, 0)
				at(from+20.5, "g3 wakes g5 at give")
				at(from+20.6, "g3 waits network at home")
				at(from+20.6, "g5 runs on p0")
				at(from+20.7, "g5 waits network at home")
			}
			if c.waits {
				fmt.Fprintf(&b, "request /give g3 %.1fms-%.1fms\n", from+20.5, from+20.7)
				wakes(from+20.5, 3, 0)
				at(from+20.6, "g3 wakes g2 at give")
				at(from+20.7, "g3 waits network at home")
				at(from+20.8, "g2 runs on p1")
			} else {
				wakes(from+20.8, 2, 1)
			}
			if c.by != "" {
				if c.by == "hub" {
					at(from+21, "g2 wakes g4 at give")
					at(from+21, "g4 runs on p0")
				} else {
					wakes(from+21, 4, 0)
				}
				at(from+21, "g4 wakes g1 at send")
				at(from+21, "g4 waits sleep at tick")
			} else {
				at(from+21, "g2 wakes g1 at give")
			}
			at(from+21.1, "g1 runs on p0")
			at(from+21.4, "g2 waits network at home")
			at(from+22, "g1 waits network at home")
		}
		if c.open {
			fmt.Fprintf(&b, "request /take g1 %.1fms-%.1fms open\n", 30.0*rounds, 30.0*rounds+20)
			wakes(30*rounds, 1, 0)
			at(30*rounds+0.1, "g1 waits chan receive at take")
		}
		at(30*rounds+20, "end")
		_, a := attribute(t, b.String()+strings.Join(lines, ""), "")
		seen := false
		for site := range a.releases {
			if a.Sites[site].Func == "main.take" {
				seen = true
				by, brought := a.Brought(site)
				if brought != c.brought || brought && by != "/give" {
					t.Errorf("%s: brought by %q: %v, want %v", c.name, by, brought, c.brought)
				}
			}
		}
		if c.open {
			last := a.Requests[len(a.Requests)-1]
			if !hasUnended(a, &last) {
				t.Errorf("%s: the last one: %+v", c.name, last)
			}
		}
		if !seen {
			t.Errorf("%s: nobody waits", c.name)
		}
	}
}

// hasUnended reports whether most of a request is a wait of its own for the network that has not ended.
func hasUnended(a *Attribution, r *Attributed) bool {
	var unended, all int64
	for _, p := range r.Pieces {
		if k := a.Keys[p.Key]; k.Kind == Network && k.Flags&(Unended|Self) == Unended|Self {
			unended += p.NS
		}
		all += p.NS
	}
	return 2*unended > all
}

// A wait that does not end is for who has been at work since it began, not for who rested since.
func TestWaitsThatDoNotEnd(t *testing.T) {
	for _, c := range []struct {
		name, hub string
		kind      LeafKind
	}{
		{"at work since before", `10ms p0 wakes g2
10ms g2 runs on p0
10.1ms g2 waits network at ask
11ms p0 wakes g1
11ms g1 runs on p0
11.1ms g1 waits chan receive at take
40ms end
`, Network},
		{"it rested", `11ms p0 wakes g1
11ms g1 runs on p0
11.1ms g1 waits chan receive at take
39ms p0 wakes g2
39ms g2 runs on p0
39.1ms g2 waits network at ask
40ms end
`, Open},
	} {
		script := `procs 1
stack home = internal/poll.runtime_pollWait < net.(*conn).Read < main.serve
stack take = runtime.chanrecv1 < main.take < main.serve
stack give = runtime.chansend1 < main.hub
stack rest = runtime.selectgo < main.hub
stack ask = internal/poll.runtime_pollWait < net.(*conn).Read < main.ask < main.hub
home g2 at rest
request /a g1 1ms-3ms
request /a g1 4ms-6ms
request /a g1 7ms-9ms
request /a g1 11ms-40ms open
0ms g1 waits at home
0ms g2 waits at rest
0ms p0 busy
`
		for _, from := range []int{1, 4, 7} {
			script += fmt.Sprintf(`%[1]dms p0 wakes g1
%[1]dms g1 runs on p0
%[1]d.1ms g1 waits chan receive at take
%[1]d.5ms p0 wakes g2
%[1]d.5ms g2 runs on p0
%[1]d.6ms g2 wakes g1 at give
%[1]d.7ms g2 waits select at rest
%[1]d.8ms g1 runs on p0
%[1]d.9ms g1 waits network at home
`, from)
		}
		_, a := attribute(t, script+c.hub, "")
		last, found := a.Requests[len(a.Requests)-1], false
		for _, p := range last.Pieces {
			if k := a.Keys[p.Key]; p.NS > 20e6 {
				if found = true; k.Kind != c.kind {
					t.Errorf("%s: %v, want %v", c.name, k.Kind, c.kind)
				}
			}
		}
		if !found {
			t.Errorf("%s: %+v", c.name, last)
		}
	}
}
