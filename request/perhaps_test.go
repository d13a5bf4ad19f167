package request

import (
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
