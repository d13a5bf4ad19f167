package cause_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/evidence"
	"github.com/whylate/whylate/gotrace"
)

// Stacks on which a server of net/http reads a body and writes an answer, and a
// service of its own protocol does.
var (
	body     = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "net/http.(*body).Read", "io.ReadAll", "main.receive", "main.serve"}
	answer   = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Write", "net.(*conn).Write", "net/http.checkConnErrorWriter.Write", "net/http.(*response).Write", "main.show", "main.serve"}
	sendfile = []string{"internal/poll.runtime_pollWait", "internal/poll.SendFile", "net.sendFile", "net.(*TCPConn).ReadFrom", "net/http.(*response).ReadFrom", "main.show", "main.serve"}
	plain    = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Write", "net.(*conn).Write", "main.put", "main.serve"}
	query    = []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Write", "net.(*conn).Write", "github.com/jackc/pgx/v5/pgconn.(*PgConn).Exec", "main.put", "main.serve"}
)

// TestAClientThatTakesItsTimeIsToldFromPeers plays waits on the request's own
// connection and on others.
func TestAClientThatTakesItsTimeIsToldFromPeers(t *testing.T) {
	const reader, sender = gotrace.GoID(20), gotrace.GoID(21)
	// proxied is a request whose answer comes from a peer that first needs the whole
	// body, of which the client sends the end late or at once.
	proxied := func(late int64) func(p *play) {
		return func(p *play) {
			p.wakes(serving, sender, "runtime.chansend1", "net/http.(*persistConn).roundTrip", "main.pass", "main.serve")
			p.leaves(serving, 0, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.pass", "main.serve")
			p.do(p.b.Busy(0))
			p.runs(sender, 0)
			if late > 0 {
				p.leaves(sender, 0, "network", append(body[:5:5], "net/http.(*persistConn).writeLoop")...)
				p.pass(late)
				p.wakes(0, sender)
				p.do(p.b.Busy(0))
				p.runs(sender, 0)
			}
			p.leaves(sender, 0, "select", "runtime.selectgo", "net/http.(*persistConn).writeLoop")
			p.pass(20*ms - late)
			p.wakes(0, reader)
			p.runs(reader, 0)
			p.wakes(reader, serving, "runtime.chansend1", "net/http.(*persistConn).readLoop")
			p.leaves(reader, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop")
			p.runs(serving, 0)
		}
	}
	// behind is a request that lets another one in, which ends while the first one waits for
	// its peer; then a client has nothing to ask of the other one for a while.
	behind := func(p *play) {
		next := append(body[:4:4], "net/http.(*conn).serve")
		p.wakes(0, other)
		p.runs(other, 1)
		p.do(p.b.Task(other, "request"))
		p.leaves(other, 1, "sync", "sync.(*Mutex).Lock", "main.count", "main.serve")
		p.wakes(serving, other, "sync.(*Mutex).Unlock", "main.count", "main.serve")
		p.leaves(serving, 0, "select", "runtime.selectgo", "net/http.(*persistConn).roundTrip", "main.pass", "main.serve")
		p.runs(other, 1)
		p.do(p.b.Done(other))
		p.leaves(other, 1, "network", next...)
		p.pass(20 * ms)
		p.wakes(0, reader)
		p.do(p.b.Busy(0))
		p.runs(reader, 0)
		p.wakes(reader, serving, "runtime.chansend1", "net/http.(*persistConn).readLoop")
		p.leaves(reader, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*persistConn).readLoop")
		p.runs(serving, 0)
	}
	cast := func(p *play) {
		p.waits(reader, "", "net/http.(*persistConn).readLoop")
		p.waits(sender, "", "net/http.(*persistConn).writeLoop")
		p.waits(other, "", append(body[:4:4], "net/http.(*conn).serve")...)
	}
	for _, c := range []struct {
		name    string
		do      func(p *play)
		finding string
		alike   []string
	}{
		{"the rest of a body", netwaits(30*ms, body...), "slow-client", nil},
		{"room for an answer", netwaits(30*ms, answer...), "slow-client", nil},
		{"room for a file", netwaits(30*ms, sendfile...), "slow-client", nil},
		{"a peer's answer", netwaits(30*ms, reply...), "slow-dependency", nil},
		{"room for a question in a client's library", netwaits(30*ms, query...), "slow-dependency", nil},
		{"room on a connection that nobody knows", netwaits(30*ms, plain...), "", []string{"slow-client", "slow-dependency"}},
		{"a proxy's body comes late", proxied(19 * ms), "slow-client", nil},
		{"a proxy's peer answers late", proxied(0), "slow-dependency", nil},
		{"a peer answers late whoever is woken before the call", behind, "slow-dependency", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, cast: cast, in: every(10, c.do)})
			check(t, cause.Judge(a, cause.Settings{}), c.finding, c.alike)
		})
	}
	a := attributed(t, scene{procs: 2, in: every(10, netwaits(30*ms, plain...))})
	rec := observe(a, machine{cpus: 2, own: 0.1, idle: 0.8})
	rec.After = &host.After{Sockets: []host.Socket{{Local: "127.0.0.1:80", Remote: "10.0.0.5:5", State: "ESTABLISHED", Inbound: true}}}
	if v := cause.Judge(a, cause.Settings{Host: rec}); len(v.Findings) != 1 || v.Findings[0].Cause != "slow-client" {
		t.Errorf("the process has no peers: %s", v.Sentence)
	}
}

// A few requests that wait for their own clients for very long say nothing of why others are late, unless these are not.
func TestOthersAreLateBesideSlowClients(t *testing.T) {
	body := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "net/http.(*body).Read", "io.ReadAll", "main.serve"}
	for _, c := range []struct {
		name           string
		every          int // a client is slow
		client, others int64
		finding        string
		left           int
		report         bool // the others are of an endpoint that always takes so long
		upload         bool // the clients are of an endpoint of their own
	}{
		{"others wait for time", 200, 600 * ms, 20 * ms, "timer-wait", 2, false, false},
		{"others wait for time, and the clients are of one endpoint", 100, 600 * ms, 40 * ms, "timer-wait", 4, false, true},
		{"others wait for nothing, and the clients are of one endpoint", 40, 600 * ms, 0, "slow-client", 0, false, true},
		{"others are slow by nature", 200, 600 * ms, 20 * ms, "", 2, true, false},
		{"others wait for nothing, and p99 is not theirs", 200, 600 * ms, 0, "", 2, false, false},
		{"others wait for nothing", 40, 600 * ms, 0, "slow-client", 0, false, false},
		{"so many clients are slow that p99 is theirs", 20, 600 * ms, 20 * ms, "slow-client", 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, task: func(i int) string {
				switch {
				case c.report && i%20 == 9:
					return "report"
				case c.upload && i%c.every == c.every-1:
					return "upload"
				}
				return "item"
			}, in: func(p *play, i int) {
				switch {
				case i%c.every == c.every-1:
					netwaits(c.client, body...)(p)
				case i%20 == 9 && c.others > 0:
					waitsOn("sleep", c.others, []string{"time.Sleep", "main.retry", "main.serve"})(p, serving, 0)
				}
			}})
			v := cause.Judge(a, cause.Settings{})
			got := ""
			if len(v.Findings) > 0 {
				got = v.Findings[0].Cause
			}
			if got != c.finding || (got == "") != (v.Verdict == "healthy") || v.Clients != c.left {
				t.Errorf("%d clients left out, %s: %s", v.Clients, v.Verdict, v.Sentence)
			}
		})
	}
}

// What is usual by a baseline is so without the slow clients, too.
func TestABaselineHoldsBesideSlowClients(t *testing.T) {
	body := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "net/http.(*connReader).Read", "net/http.(*body).Read", "io.ReadAll", "main.serve"}
	service := func(clients bool) scene {
		return scene{procs: 2, in: func(p *play, i int) {
			waitsOn("sleep", 12*ms, []string{"time.Sleep", "main.pace", "main.serve"})(p, serving, 0)
			switch {
			case !clients:
			case i%200 == 199:
				netwaits(600*ms, body...)(p)
			case i%20 == 9:
				waitsOn("sleep", 60*ms, []string{"time.Sleep", "main.retry", "main.serve"})(p, serving, 0)
			}
		}}
	}
	v := cause.Judge(attributed(t, service(true)), cause.Settings{Baseline: cause.Typical(attributed(t, service(false))), BaselineName: "monday"})
	if len(v.Findings) != 1 || v.Findings[0].Cause != "timer-wait" || v.Findings[0].Contrast != cause.TailContrast || v.Clients != 2 {
		t.Errorf("%d clients left out, %s: %s %+v", v.Clients, v.Verdict, v.Sentence, v.Findings)
	}
}

// Clients on the same machine are late, too, if they get no CPU: what they take is theirs where the CPUs have room, or the process's
// own threads do not wait for them.
func TestClientsThatMayGetNoCPU(t *testing.T) {
	a := attributed(t, scene{procs: 2, in: every(10, netwaits(30*ms, body...))})
	for _, c := range []struct {
		name   string
		host   machine
		remote string
		here   bool
		may    bool
	}{
		{"the CPUs are busy, and threads wait for them", machine{cpus: 2, own: 0.7, delayed: 0.7}, "127.0.0.1:5", true, true},
		{"there is room", machine{cpus: 2, own: 0.4, idle: 0.5, delayed: 0.7}, "127.0.0.1:5", true, false},
		{"no thread waits", machine{cpus: 2, own: 0.9}, "127.0.0.1:5", true, false},
		{"they are elsewhere", machine{cpus: 2, own: 0.7, delayed: 0.7}, "10.0.0.5:5", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := observe(a, c.host)
			rec.After = &host.After{Sockets: []host.Socket{
				{Local: "127.0.0.1:80", Remote: c.remote, State: "ESTABLISHED", Inbound: true},
				{Local: "127.0.0.1:6060", Remote: "127.0.0.1:9", State: "ESTABLISHED", Inbound: true}, // who records
			}}
			v := cause.Judge(a, cause.Settings{Host: rec, Target: evidence.Target{URL: "http://127.0.0.1:6060/debug/pprof"}})
			var said []string
			if len(v.Findings) > 0 && v.Findings[0].Cause == "slow-client" {
				said = v.Findings[0].Evidence
			} else if len(v.Consistent) > 0 && slices.Equal(v.Consistent[0].Causes, []string{"slow-client", "host-contention"}) {
				said = v.Consistent[0].Evidence
			}
			all := strings.Join(said, "; ")
			if said == nil || strings.Contains(all, "clients are on this machine") != c.here || strings.Contains(all, "may have waited for one") != c.may || c.may && len(v.Findings) > 0 {
				t.Errorf("%s: %q", v.Sentence, said)
			}
		})
	}
}
