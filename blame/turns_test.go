package blame

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/timeline"
)

func TestTheFirstReleasesOfManyAreInOrder(t *testing.T) {
	order := func(x, y release) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.g, y.g), cmp.Compare(x.seg, y.seg))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, sites := range []int{1, 2, 7} {
		for _, n := range []int{1, 200, 5000} {
			a := &Attribution{releases: map[SiteID][]release{}}
			places := map[SiteID]bool{99: true} // nothing was released there
			var want []release
			for i := range n {
				site := SiteID(r.IntN(sites))
				x := release{at: timeline.Time(r.Int64N(int64(n))), g: timeline.GID(r.IntN(5)), seg: int32(i)} // some at one instant
				a.releases[site], places[site] = append(a.releases[site], x), true
				want = append(want, x)
			}
			for _, rs := range a.releases {
				slices.SortFunc(rs, order)
			}
			slices.SortFunc(want, order)
			for _, most := range []int{n / 2, n, 2 * n} {
				got := a.releasesAt(places, most)
				if least := min(n, most-2*sites-most/10); len(got) > most || len(got) < least || most >= n && len(got) < n {
					t.Errorf("%d of %d from %d sites, not about %d", len(got), n, sites, most)
				}
				if !slices.Equal(got, want[:len(got)]) {
					t.Errorf("the first %d of %d from %d sites are others, or in another order", len(got), n, sites)
				}
			}
		}
	}
}

// Whoever waited for an item of a library's pool at another place of the program did not hold it
// meanwhile.
func TestAHoldBeginsWhereverItsHolderWaited(t *testing.T) {
	var s strings.Builder
	s.WriteString(`procs 2
stack get  = runtime.selectgo < database/sql.(*DB).conn < database/sql.(*DB).query < main.get
stack book = runtime.selectgo < database/sql.(*DB).conn < database/sql.(*DB).exec < main.book
stack back = database/sql.(*DB).putConnDBLocked < database/sql.(*DB).releaseConn < main.get
stack home = runtime.netpollblock < net.(*conn).Read < main.serve
home g1 at home
home g2 at home
`)
	s.WriteString("request /a g1 0ms-100ms\nrequest /b g2 0ms-100ms\n0ms g1 runs on p0\n0ms g2 waits at book\n")
	for range 20 {
		// g2 waits for 2 ms, has it for 1 ms, and so on.
		s.WriteString("+2ms g1 wakes g2 at back\n+0ms g1 waits select at get\n+0ms g2 runs on p0\n+1ms g2 wakes g1 at back\n+0ms g2 waits select at book\n+0ms g1 runs on p0\n")
	}
	s.WriteString("+1ms end\n")
	_, a := attribute(t, s.String(), "")
	for site := range a.releases {
		if a.Sites[site].Func == "main.get" {
			if h := a.Holds(site); h.Usual != 1e6 || h.Holders != 1 {
				t.Errorf("%+v", h)
			}
			return
		}
	}
	t.Error("nobody waits in main.get")
}

// A connection is in use from when it is given away until its reader gives it away again, not only since the answer has come. What
// begins with the answer is not counted among those of which it is known, unless there are none.
func TestAConnectionIsHeldUntilItIsGivenAwayAgain(t *testing.T) {
	var s strings.Builder
	s.WriteString(`procs 2
stack get   = runtime.selectgo < net/http.(*Transport).getConn < main.ask
stack back  = runtime.chansend1 < net/http.(*wantConn).tryDeliver < net/http.(*Transport).tryPutIdleConn < net/http.(*persistConn).readLoop
stack reads = internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < net/http.(*persistConn).readLoop
stack asks  = runtime.selectgo < net/http.(*persistConn).roundTrip < main.ask
stack home  = runtime.netpollblock < net.(*conn).Read < main.serve
home g1 at home
home g2 at home
home g3 at reads
`)
	s.WriteString("request /a g1 0ms-400ms\nrequest /b g2 0ms-400ms\n0ms g3 waits at reads\n0ms g1 waits at get\n0ms g2 waits at get\n")
	for i := range 40 {
		// The answer comes after 6 ms, and 0.1 ms later the connection is the next one's.
		fmt.Fprintf(&s, "+6ms poller wakes g3\n+0ms g3 runs on p0\n+0.1ms g3 wakes g%d at back\n+0ms g3 waits network at reads\n+0ms g%d runs on p1\n+0.01ms g%d waits select at get\n", 1+i%2, 1+i%2, 1+i%2)
	}
	s.WriteString("+1ms end\n")
	_, a := attribute(t, s.String(), "")
	for site := range a.releases {
		if a.Sites[site].Kind != SitePool {
			continue
		}
		all := a.jobs(site)
		for _, c := range []struct {
			all   []job
			usual int64
		}{
			{[]job{{5, 6, 6}, {6, 12, 12}, {17, 18, 18}, {18, 24, 24}, {29, 30, 30}}, 6},
			{[]job{{5, 6, 6}, {11, 12, 12}, {17, 18, 18}}, 1},
		} {
			delete(a.holdsAt, site)
			a.jobsAt[site] = &jobs{wakers: all.wakers, first: []int32{0, int32(len(c.all))}, all: c.all}
			if h := a.Holds(site); h.Usual != c.usual || h.Mean != c.usual {
				t.Errorf("%+v", h)
			}
		}
		return
	}
	t.Error("nobody waits for a connection")
}

// Who is started for a part of a request, and gives back what others wait for, had not taken it before it was there.
func TestAPartOfARequestHoldsNothingBeforeItIsBorn(t *testing.T) {
	for _, starts := range []string{"g2", "g4"} { // g4 carries no request
		_, a := attribute(t, fmt.Sprintf(`procs 2
stack get  = runtime.selectgo < database/sql.(*DB).conn < main.get
stack back = database/sql.(*DB).putConnDBLocked < database/sql.(*DB).releaseConn < main.part
stack part = main.part
stack read = internal/poll.runtime_pollWait < net.(*conn).Read < main.other
stack home = runtime.netpollblock < net.(*conn).Read < main.serve
home g1 at home
home g2 at home
request /a g1 1ms-22ms
request /b g2 0.5ms-24ms
0ms g4 waits at read
0ms g1 runs on p0
0.6ms g2 waits at read
1ms g1 waits select at get
15ms poller wakes %[1]s
15ms %[1]s runs on p1
16ms %[1]s starts g3 as part
16ms %[1]s waits network at read
16ms g3 runs on p1
21ms g3 wakes g1 at back
21ms g3 ends
21ms g1 runs on p0
22ms g1 waits network at home
24ms poller wakes g2
25ms end
`, starts), "")
		var unknown int64
		for _, p := range a.Requests[0].Pieces {
			if a.Keys[p.Key].Kind == UnknownHolder {
				unknown += p.NS
			}
		}
		want := int64(15e6) // since before g3 was born
		if starts == "g4" {
			want = 0
		}
		if unknown != want {
			t.Errorf("started by %s: of %d ns it is not known who held it, want %d", starts, unknown, want)
		}
	}
}

// Who is started where others wait has what they wait for from then on, whoever starts it; of who is started elsewhere it is not known.
func TestWhoIsStartedWhereOthersWaitHoldsWhatTheyWaitFor(t *testing.T) {
	for at, want := range map[string]Holds{"go": {Holders: 1, Usual: 4e6, Mean: 4e6}, "else": {}} {
		_, a := attribute(t, fmt.Sprintf(`procs 2
stack full = runtime.chansend1 < golang.org/x/sync/errgroup.(*Group).Go < main.inspect
stack go   = golang.org/x/sync/errgroup.(*Group).Go < main.inspect
stack else = golang.org/x/sync/errgroup.(*Group).Go < main.prefetch
stack done = runtime.chanrecv1 < golang.org/x/sync/errgroup.(*Group).done < golang.org/x/sync/errgroup.(*Group).Go.func1
stack part = golang.org/x/sync/errgroup.(*Group).Go.func1
stack get  = runtime.chanrecv1 < main.inspect
stack lock = sync.(*Mutex).Lock < main.inspect.func1 < golang.org/x/sync/errgroup.(*Group).Go.func1
stack home = runtime.netpollblock < net.(*conn).Read < main.serve
home g1 at home
home g2 at home
request /a g1 1ms-22ms
request /b g2 1ms-20ms
1ms g2 runs on p0
1ms g2 starts g3 as part at %s
1ms g2 waits chan receive at get
1ms g1 runs on p0
2ms g1 waits chan send at full
2ms g3 runs on p0
3ms g3 waits sync at lock
4ms poller wakes g3
4ms g3 runs on p0
5ms g3 wakes g1 at done
5ms g3 wakes g2
5ms g3 ends
5ms g1 runs on p0
22ms g1 waits network at home
25ms end
`, at), "")
		var got Holds
		for site := range a.releases {
			if a.Sites[site].Kind == SiteOther && a.Sites[site].Func == "main.inspect" && a.channelOp(a.Sites[site].Stack) == timeline.ReasonChanSend {
				got = a.Holds(site)
			}
		}
		if got != want {
			t.Errorf("started at %s: %+v, want %+v", at, got, want)
		}
	}
}

// Who had an item of a pool is known by those who got it from them, wherever in the program they waited for it.
func TestWhoHeldIsKnownWhereverOthersWaited(t *testing.T) {
	_, a := attribute(t, `procs 2
stack get  = runtime.selectgo < database/sql.(*DB).conn < main.get
stack book = runtime.selectgo < database/sql.(*DB).conn < main.book
stack back = database/sql.(*DB).putConnDBLocked < database/sql.(*DB).releaseConn < main.get
stack home = runtime.netpollblock < net.(*conn).Read < main.serve
home g1 at home
home g2 at home
home g3 at home
home g4 at home
request /a g1 1ms-22ms
request /b g2 15ms-21ms
request /c g3 0.5ms-24ms
request /d g4 1.5ms-18ms
0ms g2 runs on p1
0.1ms g2 waits network at home
0.2ms g1 runs on p0
1ms g1 waits select at get
1ms g3 runs on p0
1.5ms g4 runs on p1
2ms g4 waits select at book
12ms g3 wakes g4 at back
12ms g4 runs on p1
13ms g4 waits network at home
15ms poller wakes g2
15ms g2 runs on p1
15.5ms g2 waits select at book
16ms poller wakes g4
16ms g4 runs on p1
16ms g4 wakes g2 at back
16ms g4 waits network at home
16ms g2 runs on p1
20ms g2 wakes g1 at back
20ms g2 waits network at home
20ms g1 runs on p1
23ms g1 waits network at home
23.5ms g3 waits network at home
25ms end
`, "")
	i := slices.IndexFunc(a.Requests, func(r Attributed) bool { return r.D == 21e6 })
	var unknown int64
	for _, p := range a.Requests[i].Pieces {
		if a.Keys[p.Key].Kind == UnknownHolder {
			unknown += p.NS
		}
	}
	if unknown > 3e6 { // from when one got it to when the next one's request begins
		t.Errorf("of %d ns it is not known who held it", unknown)
	}
}
