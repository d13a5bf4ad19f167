package blame

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// What a wait for several children says of the others, by script.
func TestFanInSlack(t *testing.T) {
	const stacks = `procs 4
stack limit = runtime.chansend1 < main.gather < main.handle
stack fork = main.gather < main.handle
stack wait = sync.runtime_SemacquireWaitGroup < sync.(*WaitGroup).Wait < main.gather < main.handle
stack recv = runtime.chanrecv1 < main.gather < main.handle
stack part = main.part
stack send = runtime.chansend1 < main.part
stack done = sync.(*WaitGroup).Done < main.part
stack nap  = time.Sleep < main.part
stack read = internal/poll.runtime_pollWait < net.(*conn).Read < main.part
request /a g1 0ms-20ms
0ms p2 idle
0ms p3 idle
0ms g1 runs on p0
0ms p1 idle
0ms g1 starts g2 as part at fork
0ms g1 starts g3 as part at fork
0ms g1 starts g4 as part at fork
`
	for _, c := range []struct {
		name, script string
		want         []string
	}{
		{
			"of a WaitGroup's children the second-last bounds", `
0ms g1 waits sync at wait
0ms g2 runs on p1
0ms g2 waits sleep at nap
0ms g3 runs on p2
0ms g3 waits network at read
0ms g4 runs on p3
0ms g4 waits sleep at nap
5ms p3 wakes g4
5ms g4 runs on p3
6ms g4 ends
12ms p1 wakes g2
12ms g2 runs on p1
13ms g2 ends
19ms poller wakes g3
19ms g3 runs on p2
19ms g3 wakes g1 at done
19ms g3 ends
19ms g1 runs on p0
20ms end`,
			[]string{"slack 6ms: 19ms network; the other 12ms timer, 1ms cpu; last 1 of 3"},
		},
		{
			"of n receives the last one bounds those before", `
0ms g1 waits chan receive at recv
0ms g2 runs on p1
0ms g2 waits sleep at nap
0ms g3 runs on p2
0ms g3 waits network at read
0ms g4 runs on p3
0ms g4 ends
8ms p1 wakes g2
8ms g2 runs on p1
8ms g2 wakes g1 at send
8ms g2 ends
8ms g1 runs on p0
9ms g1 waits chan receive at recv
19ms poller wakes g3
19ms g3 runs on p2
19ms g3 wakes g1 at send
19ms g3 ends
19ms g1 runs on p0
20ms end`,
			[]string{"slack 0ms: 8ms timer; the other 8ms network; last 0 of 0", "slack 10ms: 10ms network; the other ; last 1 of 3"},
		},
		{
			"children that were done before bound nothing", `
0ms g3 runs on p2
0ms g3 ends
0ms g4 runs on p3
0ms g4 ends
1ms g1 waits sync at wait
1ms g2 runs on p1
1ms g2 waits sleep at nap
19ms p1 wakes g2
19ms g2 runs on p1
19ms g2 wakes g1 at done
19ms g2 ends
19ms g1 runs on p0
20ms end`,
			[]string{"slack 18ms: 18ms timer; the other ; last 0 of 3"},
		},
		{
			"who takes the first of two answers waits for no last one", `
0ms g1 waits chan receive at recv
0ms g2 runs on p1
0ms g2 waits sleep at nap
0ms g3 runs on p2
0ms g3 waits network at read
0ms g4 runs on p3
0ms g4 ends
19ms p1 wakes g2
19ms g2 runs on p1
19ms g2 wakes g1 at send
19ms g2 ends
19ms g1 runs on p0
20ms end`,
			nil,
		},
		{
			"children that run one after the other are not together", `
0ms g1 waits sync at wait
0ms g4 runs on p3
0ms g4 ends
0ms g3 runs on p2
0ms g3 ends
0ms g2 runs on p1
5ms g2 wakes g1 at done
5ms g2 ends
5ms g1 runs on p0
5ms g1 starts g5 as part at fork
5ms g1 waits sync at wait
5ms g5 runs on p1
12ms g5 wakes g1 at done
12ms g5 ends
12ms g1 runs on p0
12ms g1 starts g6 as part at fork
12ms g1 starts g7 as part at fork
12ms g1 waits sync at wait
12ms g6 runs on p1
12ms g7 runs on p2
14ms g6 ends
18ms g7 wakes g1 at done
18ms g7 ends
18ms g1 runs on p0
20ms end`,
			[]string{"slack 5ms: 5ms cpu; the other ; last 0 of 3", "slack 4ms: 6ms cpu; the other 2ms cpu; last 1 of 2"},
		},
		{
			"with a limit they start when others are done", `
0ms g1 waits chan send at limit
0ms g2 runs on p1
0ms g3 runs on p2
0ms g4 runs on p3
3ms g3 wakes g1 at done
3ms g3 ends
3ms g1 runs on p0
3ms g1 starts g5 as part at fork
3ms g1 waits chan send at limit
3ms g5 runs on p2
6ms g4 wakes g1 at done
6ms g4 ends
6ms g1 runs on p0
6ms g1 starts g6 as part at fork
6ms g1 waits sync at wait
6ms g6 runs on p3
7ms g5 ends
8ms g6 ends
18ms g2 wakes g1 at done
18ms g2 ends
18ms g1 runs on p0
20ms end`,
			[]string{"slack 0ms: 3ms cpu; the other 3ms cpu; last 0 of 0", "slack 10ms: 12ms cpu; the other 2ms cpu; last 0 of 5"},
		},
		{
			"a child that gathers at the same place is a fan-in within, and stands behind nobody", `
0ms g1 waits sync at wait
0ms g3 runs on p2
0ms g3 ends
0ms g4 runs on p3
0ms g2 runs on p1
0ms g2 starts g5 as part at fork
0ms g2 starts g6 as part at fork
1ms g2 waits sync at wait
1ms g5 runs on p1
1ms g5 waits sleep at nap
1ms g6 runs on p2
1ms g6 waits network at read
5ms g4 ends
10ms p1 wakes g5
10ms g5 runs on p1
10ms g5 ends
18ms poller wakes g6
18ms g6 runs on p2
18ms g6 wakes g2 at done
18ms g6 ends
18ms g2 runs on p1
19ms g2 wakes g1 at done
19ms g2 ends
19ms g1 runs on p0
20ms end`,
			[]string{"within: slack 8ms: 17ms network; the other ; last 1 of 2", "slack 14ms: 17ms network, 2ms cpu; the other 5ms cpu; last 0 of 3"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, a := attribute(t, stacks+c.script, "")
			sum := func(ps []Piece) string {
				kinds := map[LeafKind]int64{}
				for _, p := range ps {
					kinds[a.Keys[p.Key].Kind] += p.NS
				}
				var out []string
				for k, ns := range kinds {
					out = append(out, fmt.Sprintf("%gms %v", float64(ns)/1e6, k))
				}
				slices.Sort(out)
				return strings.Join(out, ", ")
			}
			var got []string
			for _, f := range a.Requests[0].FanIns {
				within := ""
				if f.Nested {
					within = "within: "
				}
				for _, p := range f.Pieces {
					if a.Keys[p.Key].Flags&Ahead != 0 {
						t.Errorf("%v is spent for somebody else", a.Keys[p.Key])
					}
				}
				got = append(got, fmt.Sprintf("%sslack %gms: %s; the other %s; last %d of %d", within, float64(f.Slack)/1e6, sum(f.Pieces), sum(f.Other), f.Last.Number, f.Last.Of))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Who works for many requests is one of several when the request woke it, and is
// done when it is at home again; a child in between changes nothing.
func TestFanInOfWorkers(t *testing.T) {
	_, a := attribute(t, `procs 4
stack fork = main.middle < main.handle
stack child = main.middle.func1
stack hand = runtime.chansend1 < main.gather < main.middle.func1
stack recv = runtime.chanrecv1 < main.gather < main.middle.func1
stack wait = runtime.selectgo < main.middle < main.handle
stack idle = runtime.chanrecv2 < main.work
stack give = runtime.chansend1 < main.work
stack done = runtime.closechan < main.middle.func1
request /a g1 0ms-20ms
home g3 at idle
home g4 at idle
home g5 at idle
0ms p2 idle
0ms p3 idle
0ms p1 idle
0ms g3 waits at idle
0ms g4 waits at idle
0ms g5 waits at idle
0ms g1 runs on p0
0ms g1 starts g2 as child at fork
0ms g1 waits select at wait
0ms g2 runs on p0
1ms g2 wakes g3 at hand
1ms g2 wakes g4 at hand
1ms g2 wakes g5 at hand
1ms g3 runs on p1
1ms g4 runs on p2
1ms g5 runs on p3
1ms g2 waits chan receive at recv
3ms g3 wakes g2 at give
3ms g3 waits chan receive at idle
3ms g2 runs on p0
3ms g2 waits chan receive at recv
4ms g5 waits chan receive at idle
18ms g4 wakes g2 at give
18ms g4 waits chan receive at idle
18ms g2 runs on p0
19ms g2 wakes g1 at done
19ms g2 ends
19ms g1 runs on p0
20ms end`, "")
	var got []string
	for _, f := range a.Requests[0].FanIns {
		id := gotrace.GoID(-1)
		if f.Last.Worker != timeline.NoG {
			id = a.t.Gs[f.Last.Worker].ID
		}
		got = append(got, fmt.Sprintf("slack %gms, last %d of %d, g%d", float64(f.Slack)/1e6, f.Last.Number, f.Last.Of, id))
	}
	if want := []string{"slack 14ms, last 1 of 3, g4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Without the last child's leaf a request still waits for the one before it, but
// not for what that one spends in the same leaf.
func TestTheP99WithoutALeafIsBoundedByTheOtherChildren(t *testing.T) {
	const peer, timer = 1, 2 // columns
	slow := func(other []Piece, slack int64) []FanIn {
		return []FanIn{{Pieces: []Piece{{peer, 20e6}}, Other: other, Slack: slack}}
	}
	for _, c := range []struct {
		name   string
		fanIns []FanIn
		want   int64
	}{
		{"nobody else", nil, 1e6},
		{"another child that was long done", slow([]Piece{{timer, 2e6}}, 18e6), 1e6 + 2e6},
		{"another child that was nearly as late", slow([]Piece{{timer, 15e6}}, 5e6), 1e6 + 15e6},
		{"another child that was late for the same reason", slow([]Piece{{peer, 15e6}}, 5e6), 1e6},
		{"a fan-in within, that another one bounds", append(slow([]Piece{{timer, 2e6}}, 18e6), FanIn{Pieces: []Piece{{peer, 20e6}}, Nested: true}), 1e6 + 2e6},
		{"another child that was late for the same reason in part", slow([]Piece{{peer, 9e6}, {timer, 6e6}}, 5e6), 1e6 + 6e6},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, cols := population(10e9, even(1000, 10e9, func(i int) given {
				g := given{cols: []int64{1e6, 0, 0}}
				if i%50 == 0 {
					g.cols[peer] = 20e6
				}
				return g
			}))
			for i := range p.a.Requests {
				if i%50 == 0 {
					p.a.Requests[i].FanIns = c.fanIns
				}
			}
			if got := p.TailContrast(cols, 3).Columns[peer].P99Without; got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
			if got := p.LevelContrast(cols, 3, nil).Columns[peer].P99Without; got != c.want {
				t.Errorf("level: %d, want %d", got, c.want)
			}
		})
	}
}

// Every fan-in is a part of its request, and its other child did no more than the
// wait lasted. One that is nested is a part of one that is not.
func fanInsAreParts(t *testing.T, r *Attributed) {
	t.Helper()
	left, outer := map[KeyID]int64{}, map[KeyID]int64{}
	for _, p := range r.Pieces {
		left[p.Key] += p.NS
	}
	for _, f := range r.FanIns {
		for _, p := range f.Pieces {
			if !f.Nested {
				outer[p.Key] += p.NS
			}
		}
	}
	for _, f := range r.FanIns {
		if f.Nested {
			for _, p := range f.Pieces {
				if p.NS > outer[p.Key] {
					t.Errorf("a nested fan-in has %d ns of key %d, those around it %d", p.NS, p.Key, outer[p.Key])
				}
			}
			if len(f.Other) > 0 || f.Slack < 0 {
				t.Errorf("a nested fan-in has a slack of %d ns and another child: %v", f.Slack, f.Other)
			}
			continue
		}
		var wait, other timeline.Time
		for _, p := range f.Pieces {
			wait += timeline.Time(p.NS)
			if left[p.Key] -= p.NS; left[p.Key] < 0 {
				t.Errorf("fan-ins have more of key %d than the request", p.Key)
			}
		}
		for _, p := range f.Other {
			other += timeline.Time(p.NS)
		}
		if f.Slack < 0 || other+timeline.Time(f.Slack) != wait {
			t.Errorf("the other child did %d ns, slack %d ns, of a wait of %d ns", other, f.Slack, wait)
		}
	}
}
