package request

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
	"github.com/whylate/whylate/timeline/timelinetest"
)

// working plays a program without a server: a consumer takes messages from a channel, asks a
// peer for each, and something else is done at times, by another goroutine. Who brings the
// messages is a goroutine, the network, or nobody: then its wait for them ends by itself.
func working(tb testing.TB, rounds int, by string) *Found {
	const consumer, flusher, feeder = gotrace.GoID(1), gotrace.GoID(2), gotrace.GoID(3)
	b := timelinetest.NewBuilder()
	do := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	var (
		idle   = b.Stack("runtime.chanrecv2", "main.(*consumer).next", "main.(*consumer).run")
		asks   = b.Stack("internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.(*consumer).handle", "main.(*consumer).run")
		sleeps = b.Stack("time.Sleep", "main.tick")
		writes = b.Stack("time.Sleep", "main.flush", "main.tick")
	)
	b.Procs(1)
	do(b.Busy(0))
	reason := "chan receive"
	if by == "network" {
		reason, idle = by, b.Stack("internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "bufio.(*Reader).ReadString", "main.(*consumer).run")
	}
	do(b.Waits(consumer, "", idle))
	do(b.Waits(flusher, "", sleeps))
	at := int64(0)
	do(b.Waits(feeder, "", b.Stack("time.Sleep", "main.feed")))
	step := func(g gotrace.GoID, ns int64, reason string, stack gotrace.StackID) {
		at += ns
		do(b.At(at))
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, g, 0))
		do(b.Runs(g, 0, 0))
		do(b.Waits(g, reason, stack))
	}
	for range rounds {
		if by == "goroutine" {
			at += 5e6
			do(b.At(at))
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, feeder, 0))
			do(b.Runs(feeder, 0, 0))
			do(b.Wakes(feeder, gotrace.NoProc, consumer, b.Stack("runtime.chansend1", "main.feed")))
			do(b.Waits(feeder, "sleep", b.Stack("time.Sleep", "main.feed")))
			do(b.Runs(consumer, 0, 0))
			do(b.Waits(consumer, "network", asks))
		} else {
			step(consumer, 5e6, "network", asks)
		}
		step(consumer, 3e6, "GC mark assist wait for work", b.Stack("runtime.gcAssistAlloc")) // says nothing of where it is
		step(consumer, 0, reason, idle)
		step(flusher, 5e6, "sleep", writes)
		step(flusher, 1e6, "sleep", sleeps)
	}
	do(b.At(at + 1e6))
	t, err := timeline.Read(b.Source(), timeline.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return Find(t, Options{})
}

func TestWorkThatIsDoneAgainAndAgainMayBeARequest(t *testing.T) {
	for _, c := range []struct {
		name     string
		rounds   int
		by       string
		want     string
		requests int
	}{
		{"what takes the most time, as a whole, and not the wait for it", 100, "nobody", "main.(*consumer).handle", 0},
		{"what is done a few times only", leastRounds - 1, "nobody", "", 0},
		{"what another goroutine brings", 100, "goroutine", "main.(*consumer).handle", 100},
		{"what the network brings", 100, "network", "main.(*consumer).handle", 100},
		{"what others bring, but seldom", leastTaken - 1, "goroutine", "main.(*consumer).handle", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := working(t, c.rounds, c.by)
			consumer := ""
			if c.requests > 0 {
				consumer = c.want
			}
			if got, _ := f.Perhaps(); got != c.want || len(f.Requests) != c.requests || f.Consumer != consumer {
				t.Errorf("%d requests of %q, perhaps %q; want %d, %q", len(f.Requests), f.Consumer, got, c.requests, c.want)
			}
		})
	}
}

// A goroutine that is started for each message is what is done with it; one that is started for
// each of many connections, and stays, is not, nor are few of either.
func TestWhatGoroutinesAreStartedForMayBeARequest(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages int
		ends     bool
		ticker   bool
		counts   bool   // with a lock, before each
		library  string // that starts them
		asked    int    // by clients of net/http
		want     string
		requests int
	}{
		{"many", 60, true, false, false, "", 0, "main.(*consumer).on.func1", 60},
		{"they stay", 60, false, false, false, "", 0, "", 0},
		{"few", 40, true, false, false, "", 0, "", 0},
		{"a ticker has them started", 60, true, true, false, "", 0, "", 0},
		{"many, and they are counted", 60, true, false, true, "", 0, "main.(*consumer).on.func1", 60},
		{"a ticker has them started and counted", 60, true, true, true, "", 0, "", 0},
		{"a library starts them", 60, true, false, false, " < github.com/panjf2000/ants.(*goWorker).run.func1", 0, "main.(*consumer).on.func1", 60},
		{"a library starts them, and they stay", 60, false, false, false, " < github.com/panjf2000/ants.(*goWorker).run.func1", 0, "", 0},
		{"many, beside a few requests for metrics", 60, true, false, false, "", 6, "main.(*consumer).on.func1", 60},
		{"not so many beside requests", 60, true, false, false, "", 12, "", 11},
	} {
		var s strings.Builder
		s.WriteString(`procs 2
stack takes = runtime.chanrecv1 < main.(*consumer).loop
stack feeds = runtime.chansend1 < main.feed
stack naps  = time.Sleep < main.feed
stack on    = main.(*consumer).loop
stack lock  = sync.(*Mutex).Lock < main.(*consumer).count < main.(*consumer).loop
stack unlock = sync.(*Mutex).Unlock < main.feed
stack idle  = internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < net/http.(*connReader).Read < bufio.(*Reader).Peek < net/http.(*conn).serve
stack says  = syscall.write < internal/poll.(*FD).Write < net.(*netFD).Write < net.(*conn).Write < net/http.checkConnErrorWriter.Write < bufio.(*Writer).Flush < net/http.(*conn).serve
`)
		life := "main.(*consumer).on.func1" + c.library
		fmt.Fprintf(&s, "stack life  = %s\n", life[strings.LastIndex(life, " ")+1:])
		fmt.Fprintf(&s, "stack asks  = internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < main.ask < %s\n", life)
		s.WriteString(`0ms g1 waits at takes
0ms g2 waits at naps
0ms g3 waits at idle
0ms p0 busy
0ms p1 idle
`)
		for g := range c.messages {
			rests := "chan receive"
			if c.ticker {
				rests = "sleep"
				s.WriteString("+1ms p0 wakes g1\n+0us g1 runs on p0\n")
			} else {
				s.WriteString("+1ms p0 wakes g2\n+0us g2 runs on p0\n+1us g2 wakes g1 at feeds\n+1us g2 waits sleep at naps\n+0us g1 runs on p0\n")
			}
			if c.counts {
				s.WriteString("+1us g1 waits sync at lock\n+1us p0 wakes g2\n+0us g2 runs on p0\n+1us g2 wakes g1 at unlock\n+1us g2 waits sleep at naps\n+0us g1 runs on p0\n")
			}
			fmt.Fprintf(&s, "+1us g1 starts g%d as life at on\n+1us g1 waits %s at takes\n", g+10, rests)
			fmt.Fprintf(&s, "+1us g%d runs on p0\n+1us g%d waits network at asks\n+2ms poller wakes g%d\n+1us g%d runs on p0\n", g+10, g+10, g+10, g+10)
			if c.ends {
				fmt.Fprintf(&s, "+1us g%d ends\n", g+10)
			} else {
				fmt.Fprintf(&s, "+1us g%d waits chan receive at asks\n", g+10)
			}
		}
		for range c.asked {
			s.WriteString("+1ms poller wakes g3\n+0us g3 runs on p0\n+1us g3 calls at says\n+1us g3 returns\n+1us g3 waits network at idle\n")
		}
		s.WriteString("+1ms end\n")
		_, tl := timelinetest.Read(t, s.String(), timeline.Options{})
		f := Find(tl, Options{})
		if f.Consumer != c.want || len(f.Requests) != c.requests {
			t.Errorf("%s: %d requests of %q", c.name, len(f.Requests), f.Consumer)
		}
	}
}

// What requests start goroutines for, and what those do that carry them, is a part of them, however often.
func TestPartsOfFewRequestsAreNoRequests(t *testing.T) {
	var s strings.Builder
	s.WriteString(`procs 2
stack idle = internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < net/http.(*connReader).Read < bufio.(*Reader).Peek < net/http.(*conn).serve
stack says = syscall.write < internal/poll.(*FD).Write < net.(*netFD).Write < net.(*conn).Write < net/http.checkConnErrorWriter.Write < bufio.(*Writer).Flush < net/http.(*conn).serve
stack on   = main.handle < net/http.HandlerFunc.ServeHTTP < net/http.serverHandler.ServeHTTP < net/http.(*conn).serve
stack asks = internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < main.ask < main.handle < net/http.HandlerFunc.ServeHTTP < net/http.serverHandler.ServeHTTP < net/http.(*conn).serve
stack life = main.handle.func1
stack does = internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < main.load < main.handle.func1
0ms g1 waits at idle
0ms p0 busy
0ms p1 idle
`)
	const requests, children = 40, 12
	g := 10
	for range requests {
		s.WriteString("+1ms poller wakes g1\n+0us g1 runs on p0\n")
		for range children {
			fmt.Fprintf(&s, "+1us g1 waits network at asks\n+1us poller wakes g1\n+0us g1 runs on p0\n+1us g1 starts g%d as life at on\n", g)
			fmt.Fprintf(&s, "+1us g1 waits network at asks\n+0us g%d runs on p0\n+1us g%d waits network at does\n+1ms poller wakes g%d\n+0us g%d runs on p0\n+1us g%d ends\n", g, g, g, g, g)
			s.WriteString("+1us poller wakes g1\n+0us g1 runs on p0\n")
			g++
		}
		s.WriteString("+1us g1 calls at says\n+1us g1 returns\n+1us g1 waits network at idle\n")
	}
	s.WriteString("+1ms end\n")
	_, tl := timelinetest.Read(t, s.String(), timeline.Options{})
	f := Find(tl, Options{})
	if f.Consumer != "" || len(f.Requests) < requests-1 || len(f.Requests) > requests {
		t.Errorf("%d requests of %q", len(f.Requests), f.Consumer)
	}
}

// Who is born for one request has no home: what it waits for from the network is the answer to what
// it asks, and no request.
func TestWhoIsBornForARequestServesNobodyElse(t *testing.T) {
	var s strings.Builder
	s.WriteString(`procs 2
stack reads = internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < bufio.(*Reader).Read < main.(*server).loop
stack on    = main.(*server).loop
stack life  = main.(*server).call
stack asks  = internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < main.ask < main.(*server).call
stack sends = syscall.write < internal/poll.(*FD).Write < net.(*conn).Write < main.ask < main.(*server).call
stack tells = syscall.write < internal/poll.(*FD).Write < net.(*conn).Write < main.answer < main.(*server).call
0ms g1 waits at reads
0ms p0 busy
0ms p1 idle
`)
	const requests = 80
	for i := range requests {
		g := i + 10
		fmt.Fprintf(&s, "+1ms poller wakes g1\n+0us g1 runs on p0\n+1us g1 starts g%d as life at on\n+1us g1 waits network at reads\n+1us g%d runs on p0\n", g, g)
		for range 3 {
			fmt.Fprintf(&s, "+1us g%d calls at sends\n+1us g%d returns\n+1us g%d waits network at asks\n+1ms poller wakes g%d\n+1us g%d runs on p0\n", g, g, g, g, g)
		}
		fmt.Fprintf(&s, "+1us g%d calls at tells\n+1us g%d returns\n+1us g%d ends\n", g, g, g)
	}
	s.WriteString("+1ms end\n")
	_, tl := timelinetest.Read(t, s.String(), timeline.Options{})
	f := Find(tl, Options{})
	if len(f.Roles) != 1 || f.Roles[0].Shape != PerRequest || f.Roles[0].Count != requests {
		t.Errorf("roles %+v", f.Roles)
	}
	for g := range tl.Gs {
		for _, x := range tl.Gs[g].Waits() {
			if home := tl.Gs[g].ID == 1; f.Home(timeline.GID(g), x) != home {
				t.Fatalf("g%d is at home: %t", tl.Gs[g].ID, !home)
			}
		}
	}
}
