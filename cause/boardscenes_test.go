package cause_test

import (
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
)

// The stacks of a goroutine that sends on whatever anybody hands it to all clients.
var (
	move    = []string{"runtime.chanrecv1", "main.move", "main.serve"}
	moved   = []string{"runtime.closechan", "main.board"}
	boardIs = []string{"runtime.chanrecv2", "main.board"}
	toAll   = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Write", "net.(*conn).Write", "main.toAll", "main.board"}
	framed  = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Write", "net.(*conn).Write", "github.com/gorilla/websocket.(*Conn).WriteMessage", "main.toAll", "main.board"}
	frames  = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "github.com/gorilla/websocket.(*Conn).ReadMessage", "main.serve"}
)

// board sends on what every request hands it, which waits until it is taken. Every tenth time a client does not take what it is sent
// for 20 ms. For good says that this goes on in the end, while more and more wait; library that one reads and writes messages.
func board(forGood, library bool) scene {
	sends, next := toAll, home
	if library {
		sends, next = framed, frames
	}
	const first, crowd = crowd0 + 1, 20
	return scene{procs: 2, requests: 300, cast: func(p *play) {
		p.waits(helper, "", boardIs...)
		for g := range gotrace.GoID(crowd) {
			p.waits(first+g, "", next...)
		}
	}, in: func(p *play, i int) {
		p.wakes(serving, helper, "runtime.chansend1", "main.move", "main.serve")
		p.runs(helper, 1)
		if i == 299 && forGood {
			p.leaves(helper, 1, "network", sends...)
			p.leaves(serving, 0, "sleep", uses...)
			for g := range gotrace.GoID(crowd) {
				p.wakes(0, first+g)
				p.runs(first+g, 1)
				p.do(p.b.Task(first+g, "request"))
				p.leaves(first+g, 1, "chan receive", move...)
				p.pass(ms)
			}
			p.pass(300 * ms)
			p.wakes(0, serving)
			p.runs(serving, 0)
			return
		}
		p.leaves(serving, 0, "chan receive", move...)
		if i%10 == 9 && !forGood {
			p.leaves(helper, 1, "network", sends...)
			p.pass(20 * ms)
			p.wakes(0, helper)
			p.runs(helper, 1)
		}
		p.pass(10 * us)
		p.wakes(helper, serving, moved...)
		p.leaves(helper, 1, "chan receive", boardIs...)
		p.runs(serving, 0)
	}}
}

// Who serves everybody and waits for one client keeps all others, be it until the recording ends: that is no slow client of theirs,
// and nobody keeps anything.
func TestOneGoroutineThatWaitsForAClientOfMany(t *testing.T) {
	alike := []string{"single-worker", "slow-dependency", "slow-client"}
	tell(t, []told{
		{name: "now and then, or for a peer", scene: board(false, false), alike: alike},
		{name: "until the end, or for a peer", scene: board(true, false), alike: alike},
		{name: "until the end, by the library that reads what clients send", scene: board(true, true), finding: "single-worker", where: "main.toAll"},
	})
}

// Whoever has no connections but its clients' waits for one of these, whatever a trace tells of the connection.
func TestWhoOnlyServesWaitsForAClient(t *testing.T) {
	client := host.Socket{Local: "127.0.0.1:80", Remote: "127.0.0.1:5", State: "ESTABLISHED", Inbound: true}
	for _, c := range []struct {
		name    string
		sockets []host.Socket
		cut     bool
		known   bool
	}{
		{"it has clients", []host.Socket{client}, false, true},
		{"it has a peer, too", []host.Socket{client, {Local: "127.0.0.1:9", Remote: "127.0.0.1:7", State: "ESTABLISHED"}}, false, false},
		{"it is its own peer", []host.Socket{client, {Local: "127.0.0.1:9", Remote: "127.0.0.1:7", State: "ESTABLISHED", Inside: true}}, false, false},
		{"its only client records it", []host.Socket{{Local: "127.0.0.1:6060", Remote: "127.0.0.1:5", State: "ESTABLISHED", Inbound: true}}, false, false},
		{"there are more than are known", []host.Socket{client}, true, false},
		{"it only listens", []host.Socket{{Local: ":80", State: "LISTEN"}}, false, false},
	} {
		a := attributed(t, board(false, false))
		rec := observe(a, machine{cpus: 2, own: 0.1, idle: 0.8})
		rec.After = &host.After{Sockets: c.sockets, SocketsCut: c.cut}
		v := cause.Judge(a, cause.Settings{Host: rec, Target: evidence.Target{URL: "http://127.0.0.1:6060"}})
		if named := len(v.Findings) == 1 && v.Findings[0].Cause == "single-worker"; named != c.known {
			t.Errorf("%s: %s", c.name, v.Sentence)
		}
	}
}
