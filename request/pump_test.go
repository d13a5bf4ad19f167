package request

import (
	"testing"

	"github.com/whylate/whylate/gotrace"
)

// TestAnAnswerThatIsWrittenBeforeTheReaderIsHomeIsThatOfItsMessage plays connections with a goroutine
// that reads and one that writes, and a hub between them, which is busy for 40 ms now and then: then
// the reader waits until it takes the message, and the answer is written before the reader runs again.
// Other times the reader waits for a lock and computes for 30 ms before it leaves the message to the
// hub, and meanwhile the hub has something else written.
func TestAnAnswerThatIsWrittenBeforeTheReaderIsHomeIsThatOfItsMessage(t *testing.T) {
	const connections, rounds, hub = 4, 40, gotrace.GoID(100)
	const ms = int64(1e6)
	b := newScript(t)
	do, pass := b.do, b.pass
	read := b.Stack("internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "main.(*peer).reads")
	write := b.Stack("syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "main.(*peer).writes")
	next := b.Stack("runtime.chanrecv1", "main.(*peer).writes")
	room := b.Stack("runtime.chansend1", "main.(*peer).reads")
	news := b.Stack("runtime.selectgo", "main.(*hub).run")
	call := b.Stack("internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).roundTrip", "main.(*hub).persist", "main.(*hub).run")
	do(b.Busy(0))
	stays := func(g gotrace.GoID, reason string, at gotrace.StackID) {
		do(b.Runs(g, 0, at))
		do(b.Waits(g, reason, at))
	}
	for c := range gotrace.GoID(connections) {
		stays(1+2*c, "network", read)
		stays(2+2*c, "chan receive", next)
	}
	stays(hub, "select", news)
	pass(ms)
	answers := func(writer gotrace.GoID) {
		do(b.Wakes(hub, 0, writer, b.Stack("runtime.chansend1", "main.(*hub).run")))
		do(b.Waits(hub, "select", news))
		pass(ms / 100)
		do(b.Runs(writer, 0, 0))
		do(b.Calls(writer, write))
		pass(ms / 100)
		do(b.Returns(writer))
		do(b.Waits(writer, "chan receive", next))
	}
	begun := map[int64]bool{} // messages that the reader computes for
	for i := range rounds {
		reader := gotrace.GoID(1 + 2*(i%connections))
		busy, computes := i%10 == 9, i%10 == 4
		if computes {
			begun[b.now] = true
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
			do(b.Runs(reader, 0, 0))
			do(b.Waits(reader, "sync", b.Stack("sync.(*Mutex).Lock", "main.(*peer).reads")))
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, hub, 0))
			do(b.Runs(hub, 0, 0))
			pass(ms)
			do(b.Wakes(hub, 0, reader, b.Stack("sync.(*Mutex).Unlock", "main.(*hub).run")))
			answers(reader + 1)
			do(b.Runs(reader, 0, 0))
			pass(30 * ms)
			do(b.Waits(reader, "network", read))
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, hub, 0))
			do(b.Runs(hub, 0, 0))
			answers(reader + 1)
			pass(20 * ms)
			continue
		}
		if busy {
			do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, hub, 0))
			do(b.Runs(hub, 0, 0))
			do(b.Waits(hub, "network", call))
			pass(ms)
		}
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, reader, 0))
		do(b.Runs(reader, 0, 0))
		pass(ms / 100)
		if !busy {
			do(b.Wakes(reader, 0, hub, b.Stack("runtime.chansend1", "main.(*peer).reads")))
			do(b.Waits(reader, "network", read))
			do(b.Runs(hub, 0, 0))
			answers(reader + 1)
			pass(20 * ms)
			continue
		}
		do(b.Waits(reader, "chan send", room))
		pass(40 * ms)
		do(b.Wakes(gotrace.NoGoroutine, gotrace.NoProc, hub, 0))
		do(b.Runs(hub, 0, 0))
		do(b.Wakes(hub, 0, reader, b.Stack("runtime.selectgo", "main.(*hub).run")))
		answers(reader + 1)
		do(b.Runs(reader, 0, 0))
		do(b.Waits(reader, "network", read))
		pass(20 * ms)
	}
	b.Sample(gotrace.NoGoroutine, 0)
	tl := b.read()
	f := Find(tl, Options{})
	if len(f.Requests) < rounds-connections {
		t.Fatalf("%d requests of %d messages: %+v", len(f.Requests), rounds, f.Roles)
	}
	for _, r := range f.Requests {
		if !r.InFlight && r.Duration() > 45e6 {
			t.Errorf("a request takes %.1f ms: it has the answer to the next message", float64(r.Duration())/1e6)
		}
		if begun[int64(r.Start()-tl.Start)] && r.Duration() < 30e6 {
			t.Errorf("a request takes %.1f ms, of 30: it has what was written before", float64(r.Duration())/1e6)
		}
		delete(begun, int64(r.Start()-tl.Start))
	}
	if len(begun) > 0 {
		t.Errorf("not found: the messages at %v", begun)
	}
}
