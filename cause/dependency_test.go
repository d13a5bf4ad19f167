package cause_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/capture/dependency"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

const redisAddr = "10.0.0.7:6379"

// a redis that says that it was fast, over ten seconds.
func quick(change ...func(*dependency.Server)) dependency.Server {
	above, busy := int64(10*ms), 0.02
	s := dependency.Server{
		Kind: dependency.Redis, Address: redisAddr, Peer: redisAddr, FromNS: 1, ToNS: 1 + 10_000*ms, Count: 1000, NS: 10 * ms, BoundNS: ms / 5,
		Calls: []dependency.Call{{Name: "get", Count: 1000, NS: 10 * ms, MaxNS: ms / 5}}, SlowAboveNS: &above, Busy: &busy, Looks: 10,
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// a redis with slow scripts.
func sluggish(s *dependency.Server) {
	s.Calls = append([]dependency.Call{{Name: "eval", Count: 40, NS: 800 * ms}}, s.Calls...)
	s.Count, s.NS, s.BoundNS = 1040, 810*ms, 21*ms
	for i := range int64(40) {
		s.Slow = append(s.Slow, dependency.Slow{Command: "EVAL", NS: 21*ms - i*ms/20})
	}
}

func postgres(s *dependency.Server) { s.Kind, s.Busy, s.SlowAboveNS = dependency.Postgres, nil, nil }

// waitsFor is a request that waits 20 ms for a peer, with client between it and the
// network.
func waitsFor(client ...string) func(*play, int) {
	stack := slices.Concat([]string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read"}, client, []string{"main.call", "main.serve"})
	return every(10, func(p *play) {
		p.leaves(serving, 0, "network", stack...)
		p.pass(p.vary(20 * ms))
		p.wakes(0, serving)
		p.runs(serving, 0)
	})
}

const (
	redigo    = "github.com/gomodule/redigo/redis.(*conn).readReply"
	pgx       = "github.com/jackc/pgx/v5/pgconn.(*PgConn).receiveMessage"
	pq        = "github.com/lib/pq.(*conn).recv"
	roundTrip = "net/http.(*persistConn).roundTrip"
)

func TestADependencysOwnWord(t *testing.T) {
	for _, c := range []struct {
		name    string
		client  string
		said    dependency.Server
		remotes []string // nil: not recorded
		// evidence is a part of its line, not one that must not be in it.
		evidence, not string
		fix           string
		confidence    string
	}{
		{name: "a slow redis", client: redigo, said: quick(sluggish),
			evidence: "redis 10.0.0.7:6379 itself (the waits are in a client of redis): 40 commands above 10.0 ms in SLOWLOG (EVAL up to 21.0 ms, half of them 20.1 ms or more), 1040 commands, mean 0.78 ms, each at most 21.0 ms, mean eval 20.0 ms over 40 calls; while it executes one command all others wait",
			fix:      "EVAL took up to 21.0 ms", confidence: "high"},
		{name: "a fast redis", client: redigo, said: quick(),
			evidence: "no command above 10.0 ms in SLOWLOG, 1000 commands, mean 0.010 ms, each at most 0.20 ms; the time is between", fix: "look between", confidence: "medium"},
		{name: "a fast redis that is the only peer", client: redigo, said: quick(), remotes: []string{redisAddr}, evidence: "itself (the only peer that the process has connections to, and the waits are in a client of redis)", fix: "look between", confidence: "medium"},
		{name: "the only one with a connection, beside a postgres in the file system", client: pq, said: quick(), remotes: []string{redisAddr}, evidence: "whoever the slow peer is, redis", not: "between", confidence: "high"},
		{name: "the only one with a connection, beside a peer of HTTP that is dialled each time", client: roundTrip, said: quick(), remotes: []string{redisAddr}, evidence: "whoever the slow peer is, redis", not: "between", confidence: "high"},
		{name: "the only one with a connection, and waits in no known client", said: quick(), remotes: []string{redisAddr}, evidence: "whoever the slow peer is, redis", not: "between", confidence: "high"},
		{name: "a fast postgres in the file system, beside a peer with a connection", client: pgx, said: quick(postgres, func(s *dependency.Server) { s.Peer = "" }), remotes: []string{redisAddr}, evidence: "itself (the waits are in a client of postgres)", fix: "look between", confidence: "medium"},
		{name: "a postgres in the file system that is perhaps not the peer", said: quick(postgres, func(s *dependency.Server) { s.Peer = "" }), remotes: []string{redisAddr}, evidence: "whoever the slow peer is, postgres", not: "between", confidence: "high"},
		{name: "a fast redis among several peers", said: quick(), remotes: []string{redisAddr, "10.0.0.8:5432"},
			evidence: "whoever the slow peer is, redis 10.0.0.7:6379 says of itself: no command above", not: "between", confidence: "high"},
		{name: "the waits are in its client, beside other peers", client: redigo, said: quick(), remotes: []string{redisAddr, "10.0.0.8:5432"}, evidence: "connected, and the waits are in a client", fix: "look between", confidence: "medium"},
		{name: "another redis than the one the process calls", client: redigo, said: quick(), remotes: []string{"10.0.0.9:6379"},
			evidence: "whoever the slow peer is (the process had no connection to this one when the recording ended)", not: "between", confidence: "high"},
		{name: "in the client of something else", client: pgx, said: quick(), evidence: "whoever the slow peer is", not: "between", confidence: "high"},
		{name: "a slow redis that is perhaps not the peer", said: quick(sluggish), evidence: "whoever the slow peer is", not: "all others", confidence: "high"},
		{name: "the loopback by another name", client: redigo, said: quick(func(s *dependency.Server) { s.Peer = "[::1]:6379" }), remotes: []string{"127.0.0.1:6379"}, evidence: "the only peer", fix: "look between", confidence: "medium"},
		{name: "very many short commands", client: redigo, said: quick(func(s *dependency.Server) { s.NS = 1e5 * ms }), evidence: "redis 10.0.0.7:6379 itself", not: "between", confidence: "high"},
		{name: "a redis at its limit", client: redigo, said: quick(func(s *dependency.Server) { b := 0.9; s.Busy = &b }), evidence: "its main thread used 90 % of a CPU: commands queue", not: "between", confidence: "high"},
		{name: "a redis that forked", client: redigo, said: quick(func(s *dependency.Server) {
			s.Events = []dependency.Event{{Name: "fork", Count: 20, MaxNS: 18 * ms}}
		}), evidence: "latency event fork 18.0 ms", not: "between", fix: "fork took up to 18.0 ms", confidence: "high"},
		{name: "one slow command, and slow requests all the time", client: redigo, said: quick(sluggish, func(s *dependency.Server) {
			above := 5 * ms
			s.Slow, s.SlowAboveNS = s.Slow[:1], &above
		}),
			evidence: "; slow requests come in 20 separate stretches, and at most 1 of its calls took long enough to explain one; what queues", not: "all others", confidence: "high"},
		{name: "slow commands that the log has dropped", client: redigo, said: quick(sluggish, func(s *dependency.Server) { s.Slow, s.SlowLost = s.Slow[:1], 39 }), evidence: "40 commands above", fix: "EVAL took", confidence: "high"},
		{name: "slow commands without a log", client: redigo, said: quick(sluggish, func(s *dependency.Server) { s.Slow, s.SlowAboveNS = nil, nil }), evidence: "mean eval 20.0 ms", fix: "eval took", confidence: "high"},
		{name: "one that restarted", client: redigo, said: quick(func(s *dependency.Server) { s.Restarted = true }), evidence: "it restarted meanwhile", not: "between", confidence: "high"},
		{name: "one whose counters were reset", client: redigo, said: quick(func(s *dependency.Server) { s.Reset = true }), evidence: "reset meanwhile", not: "between", confidence: "high"},
		{name: "one without a bound", client: redigo, said: quick(func(s *dependency.Server) { s.BoundNS = 0 }), evidence: "mean 0.010 ms; what queues", not: "between", confidence: "high"},
		{name: "one that executed nothing", client: redigo, said: quick(func(s *dependency.Server) { s.Count, s.NS, s.Calls = 0, 0, nil }), evidence: "whoever the slow peer is, redis 10.0.0.7:6379 says of itself: no command above 10.0 ms in SLOWLOG, no commands counted", not: "itself (", confidence: "high"},
		{name: "a fast postgres", client: pgx, said: quick(postgres), evidence: "no session waited for anything in 10 looks; the time is between: network, proxy, client, pool, or planning and committing", fix: "look between", confidence: "medium"},
		{name: "a postgres whose sessions wait", client: pgx, said: quick(postgres, func(s *dependency.Server) {
			s.Waits = []dependency.Wait{{Type: "Lock", Event: "tuple", Looks: 4, Most: 3}}
		}), evidence: "sessions waited for Lock:tuple in 4 of 10 looks, up to 3 at once", not: "between", confidence: "high"},
		{name: "a slow postgres", client: pgx, said: quick(postgres, func(s *dependency.Server) {
			s.Calls = []dependency.Call{{Name: "SELECT $1", Count: 30, NS: 600 * ms, MaxNS: 25 * ms, Exact: true}}
		}), evidence: "longest 25.0 ms (SELECT $1)", fix: "SELECT $1 took up to 25.0 ms; look at its plan", confidence: "high"},
		{name: "one that did not answer again", client: redigo, said: quick(func(s *dependency.Server) { s.ToNS = 0 }), not: "redis", confidence: "high"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var client []string
			if c.client != "" {
				client = []string{c.client}
			}
			a := attributed(t, scene{procs: 2, in: waitsFor(client...)})
			set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.3, idle: 0.6})}
			if c.remotes != nil {
				set.Host.After = &host.After{Sockets: []host.Socket{{Local: ":80", State: "LISTEN"}, {Remote: "10.9.9.9:1", Inbound: true}, {Remote: "127.0.0.1:2", Inside: true}}}
				for _, r := range c.remotes {
					set.Host.After.Sockets = append(set.Host.After.Sockets, host.Socket{Remote: r, State: "ESTABLISHED"})
				}
			}
			alone := cause.Judge(a, set)
			set.Dependencies = []dependency.Server{c.said}
			v := cause.Judge(a, set)
			if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-dependency" || len(alone.Findings) != 1 {
				t.Fatalf("%+v %s", v.Findings, v.Sentence)
			}
			f, without := v.Findings[0], alone.Findings[0]
			if v.Verdict != alone.Verdict || math.Abs(f.Share-without.Share) > 1e-9 || without.Confidence != "high" {
				t.Errorf("%s, share %.3f; without its word %s, %.3f, %s", v.Verdict, f.Share, alone.Verdict, without.Share, without.Confidence)
			}
			said := strings.Join(f.Evidence[len(without.Evidence):], "\n")
			if !strings.Contains(said, c.evidence) || c.not != "" && strings.Contains(said, c.not) {
				t.Errorf("evidence %q, want %q and not %q", said, c.evidence, c.not)
			}
			if fix := strings.Join(f.Fix[:len(f.Fix)-len(without.Fix)], "\n"); !strings.Contains(fix, c.fix) || (fix == "") != (c.fix == "") {
				t.Errorf("fix %q, want %q", fix, c.fix)
			}
			if f.Confidence != c.confidence {
				t.Errorf("confidence %s, want %s", f.Confidence, c.confidence)
			}
		})
	}
}

// The sentence names a dependency only where it is known to be the peer: by the
// connections, or by calls that were as slow.
func TestADependencyIsNamedWhereItIsKnownToBeThePeer(t *testing.T) {
	a := attributed(t, scene{procs: 2, in: waitsFor(redigo)})
	for _, c := range []struct {
		name    string
		said    dependency.Server
		remotes []string
		want    bool
	}{
		{"connected", quick(), []string{redisAddr}, true},
		{"connections are unknown", quick(), nil, false},
		{"connections are unknown, and it was slow", quick(sluggish), nil, true},
		{"connections are unknown, and it executed nothing", quick(func(s *dependency.Server) { s.Count, s.NS, s.Calls = 0, 0, nil }), nil, false},
		{"connected to another one", quick(sluggish), []string{"10.0.0.9:6379"}, false},
	} {
		set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.3, idle: 0.6}), Dependencies: []dependency.Server{c.said}}
		if c.remotes != nil {
			set.Host.After = &host.After{}
			for _, r := range c.remotes {
				set.Host.After.Sockets = append(set.Host.After.Sockets, host.Socket{Remote: r, State: "ESTABLISHED"})
			}
		}
		if v := cause.Judge(a, set); strings.Contains(v.Sentence, "10.0.0.7") != c.want {
			t.Errorf("%s: %s", c.name, v.Sentence)
		}
	}
}

func TestWhatADependencySaysStandsBesideWhatIsRuledOut(t *testing.T) {
	a := attributed(t, scene{procs: 2, in: every(10, func(p *play) { p.computes(serving, 0, 40*ms, "main.scale", "main.serve") })})
	v := cause.Judge(a, cause.Settings{Dependencies: []dependency.Server{quick(), quick(func(s *dependency.Server) { s.ToNS, s.Address = 0, "other" })}})
	for _, r := range v.RuledOut {
		if r.Cause == "slow-dependency" {
			if r.Absent {
				t.Error("there is more to tell of it than that it is absent")
			}
			if want := "nothing of its kind in the slow requests; redis 10.0.0.7:6379 itself: 1000 commands, mean 0.010 ms, each at most 0.20 ms"; r.Because != want {
				t.Errorf("%q, want %q", r.Because, want)
			}
			return
		}
	}
	t.Errorf("slow-dependency is not ruled out: %s", v.Sentence)
}

// Late threads and a slow peer look alike. Once the peer has spoken, only the kernel can
// separate them; it has not spoken if it is perhaps another one.
func TestNobodyIsAskedForAPeersTimesAgain(t *testing.T) {
	const kernel = "the kernel's scheduling events (needs root)"
	for _, c := range []struct {
		name, client string
		said         []dependency.Server
		want         string
	}{
		{"not asked", redigo, nil, "the other side's own times, or " + kernel},
		{"asked", redigo, []dependency.Server{quick()}, kernel},
		{"asked, with slow calls", redigo, []dependency.Server{quick(sluggish)}, kernel},
		{"asked, but perhaps not the peer", pq, []dependency.Server{quick()}, "the other side's own times, or " + kernel},
		{"no answer", redigo, []dependency.Server{quick(func(s *dependency.Server) { s.ToNS = 0 })}, "the other side's own times, or " + kernel},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, in: waitsFor(c.client)})
			v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, delayed: 0.6, own: 0.5}), Dependencies: c.said})
			if len(v.Findings) != 0 || len(v.Consistent) != 1 || !slices.Equal(v.Consistent[0].Causes, []string{"slow-dependency", "host-contention"}) {
				t.Fatalf("%+v, %+v", v.Findings, v.Consistent)
			}
			if got := v.Consistent[0].Record; got != c.want || !strings.Contains(v.Sentence, "to tell them apart, record "+c.want) {
				t.Errorf("record %q, want %q: %s", got, c.want, v.Sentence)
			}
		})
	}
}

// A peer whose answers are late after slow handshakes may be late for these.
func TestTheFirstAnswersOfConnectionsAreDoubted(t *testing.T) {
	dials := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "crypto/tls.(*Conn).HandshakeContext", "main.ask", "main.serve"}
	for _, c := range []struct {
		name            string
		connect, answer int64
		said            []dependency.Server
		finding, alike  string
	}{
		{"connecting is slower", 20 * ms, 10 * ms, nil, "dial-per-request", "slow-dependency"},
		{"the peer says that it was slow itself", 20 * ms, 10 * ms, []dependency.Server{quick(sluggish)}, "dial-per-request", ""},
		{"connecting takes a good part of it", 20 * ms, 30 * ms, nil, "dial-per-request", "slow-dependency"},
		{"the answers are slower", 8 * ms, 30 * ms, nil, "slow-dependency", ""},
		{"connecting is as fast as ever", ms, 30 * ms, nil, "slow-dependency", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := cause.Settings{Dependencies: c.said}
			v := cause.Judge(attributed(t, scene{procs: 2, in: func(p *play, i int) {
				connect, answer := int64(ms), int64(ms)
				if i%10 == 9 {
					connect, answer = p.vary(c.connect), p.vary(c.answer)
				}
				for _, wait := range []struct {
					ns int64
					at []string
				}{{connect, dials}, {answer, slices.Insert(slices.Clone(reply), 2, redigo)}} {
					p.leaves(serving, 0, "network", wait.at...)
					p.pass(wait.ns)
					p.wakes(0, serving)
					p.runs(serving, 0)
				}
			}}), set)
			alike := ""
			if len(v.Consistent) > 0 {
				alike = v.Consistent[0].Causes[0]
			}
			if len(v.Findings) == 0 || v.Findings[0].Cause != c.finding || alike != c.alike {
				t.Errorf("found %+v, want %q and %q: %s %+v", v.Findings, c.finding, c.alike, v.Sentence, v.Consistent)
			}
		})
	}
}

// batched is a service whose requests wait for what a goroutine asks a peer for that a timer of the service starts a millisecond
// later, as libraries that load for several at a time do; each tenth time the peer takes long.
func batched(p *play, i int) {
	loader := gotrace.GoID(1000 + i)
	d := ms
	if i%10 == 9 {
		d = 40 * ms
	}
	p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.load", "main.serve")
	p.pass(ms)
	p.wakes(0, helper)
	p.runs(helper, 1)
	p.do(p.b.Starts(helper, 1, loader, p.stack("main.tick"), p.stack("main.flush")))
	p.waits(helper, "sleep", "time.Sleep", "main.tick")
	p.runs(loader, 1)
	gets(p, loader, 1, d, "main.flush")
	p.wakes(loader, serving, "runtime.chansend1", "main.flush")
	p.do(p.b.Ends(loader))
	p.do(p.b.Idle(1, gotrace.NoProc))
	p.runs(serving, 0)
}

// Who was not there when a wait began had nothing that it could give back: it is no pool.
func TestWhatABatchAsksForIsNoPool(t *testing.T) {
	tell(t, []told{{name: "a batch for each", scene: readBy(scene{procs: 2, cast: func(p *play) {
		p.waits(helper, "", "time.Sleep", "main.tick")
	}, in: batched}), finding: "slow-dependency", where: "main.ask"}})
}

// Whoever has several peers learns which addresses are those of others; its clients and itself are none, and of a list that was cut nothing is known.
func TestPeersAreToldByTheirAddresses(t *testing.T) {
	for _, c := range []struct {
		name    string
		remotes []string
		cut     bool
		want    string
	}{
		{"none", nil, false, ""},
		{"one", []string{"10.0.0.7:6379", "10.0.0.7:6379"}, false, "connections to others in the end, by address: 10.0.0.7:6379 (2)"},
		{"four", []string{"10.0.0.4:80", "10.0.0.3:80", "10.0.0.9:80", "10.0.0.9:80", "10.0.0.5:80"}, false, "connections to others in the end, by address: 10.0.0.9:80 (2), 10.0.0.3:80 (1), 10.0.0.4:80 (1), and to 1 more"},
		{"too many", []string{"10.0.0.7:6379"}, true, ""},
	} {
		a := attributed(t, scene{procs: 2, in: waitsFor()})
		set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.3, idle: 0.6})}
		set.Host.After = &host.After{SocketsCut: c.cut, Sockets: []host.Socket{{Local: ":80", State: "LISTEN"}, {Remote: "10.9.9.9:1", Inbound: true}, {Remote: "127.0.0.1:2", Inside: true}}}
		for _, r := range c.remotes {
			set.Host.After.Sockets = append(set.Host.After.Sockets, host.Socket{Remote: r, State: "ESTABLISHED"})
		}
		v := cause.Judge(a, set)
		if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-dependency" {
			t.Fatalf("%s: %s", c.name, v.Sentence)
		}
		said := ""
		for _, e := range v.Findings[0].Evidence {
			if strings.HasPrefix(e, "connections to others") {
				said = e
			}
		}
		if said != c.want {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}
