package cause_test

import (
	"math"
	"testing"

	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

const acceptor = gotrace.GoID(30)

var accept = []string{"internal/poll.(*FD).Accept", "net.(*netFD).accept", "net.(*TCPListener).Accept", "main.(*gates).Accept", "net/http.(*Server).Serve"}

// accepts has the acceptor, which was woken for them, take so many connections on P 1,
// and wait for the next one, unless it has something else to do then.
func accepts(p *play, n int, elsewhere ...string) {
	p.do(p.b.Busy(1))
	p.runs(acceptor, 1)
	for range n {
		calls(acceptor, ms/100, accept...)(p)
	}
	if len(elsewhere) > 0 {
		p.leaves(acceptor, 1, "network", elsewhere...)
		return
	}
	calls(acceptor, ms/100, accept...)(p)
	p.leaves(acceptor, 1, "network", append([]string{"internal/poll.runtime_pollWait"}, accept...)...)
}

// door is a service each of whose requests has a connection of its own. The acceptor is
// away through three of ten, at elsewhere, if that is somewhere.
func door(elsewhere ...string) scene {
	return scene{
		procs: 2,
		cast: func(p *play) {
			p.waits(acceptor, "", accept...)
		},
		in: func(p *play, i int) {
			if i == 0 { // it is he who hands over the requests
				p.leaves(serving, 0, "chan receive", "runtime.chanrecv1", "main.serve")
				p.wakes(0, acceptor)
				p.do(p.b.Busy(1))
				p.runs(acceptor, 1)
				p.wakes(acceptor, serving, "runtime.chansend1", "main.(*gates).Accept")
				p.runs(serving, 0)
				p.leaves(acceptor, 1, "network", append([]string{"internal/poll.runtime_pollWait"}, accept...)...)
				return
			}
			switch away := len(elsewhere) > 0; {
			case away && i%10 == 6:
				p.wakes(0, acceptor)
				accepts(p, 1, elsewhere...)
			case away && (i%10 == 7 || i%10 == 8):
			case away && i%10 == 9:
				p.wakes(0, acceptor)
				accepts(p, 3)
			default:
				p.wakes(0, acceptor)
				accepts(p, 1)
			}
		},
	}
}

// limited is a door at which six connections come together, now and then: the acceptor takes one each three milliseconds, as it
// gets permits for them at a place, and finds that there are no more behind the last. Each request waits for a peer meanwhile.
func limited(at ...string) scene {
	s := door()
	in := s.in
	s.in = func(p *play, i int) {
		many := i%10 == 9
		if !many {
			in(p, i)
		}
		p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.serve")
		for k := range 6 {
			if many {
				p.wakes(0, acceptor)
				p.do(p.b.Busy(1))
				p.runs(acceptor, 1)
				calls(acceptor, ms/100, accept...)(p)
				if k < 5 {
					p.leaves(acceptor, 1, "chan send", at...)
				} else {
					calls(acceptor, ms/100, accept...)(p)
					p.leaves(acceptor, 1, "network", append([]string{"internal/poll.runtime_pollWait"}, accept...)...)
				}
			}
			p.pass(3 * ms)
		}
		p.wakes(0, serving)
		p.runs(serving, 0)
	}
	return s
}

// level has each request wait for a peer, too, for 12 ms.
func level(s scene) scene {
	in := s.in
	s.in = func(p *play, i int) {
		in(p, i)
		p.leaves(serving, 0, "network", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.serve")
		p.pass(12 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}
	return s
}

// Whoever should accept connections waits for a permit, and never gets one: that comes before what makes requests slow on those that
// there are.
func TestConnectionsThatNobodyAcceptsComeFirst(t *testing.T) {
	lets := []string{"runtime.chansend1", "main.(*gates).ask", "main.(*gates).Accept", "net/http.(*Server).Serve"}
	read := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.ask", "main.serve"}
	for _, c := range []struct {
		name    string
		cast    func(p *play)
		waiting func(i int) int64
		first   string
		where   string
	}{
		{"they wait all along", func(p *play) { p.waits(acceptor, "chan send", lets...) }, func(i int) int64 { return 3 + int64(i%2) }, "accept-queue", "main.(*gates).ask"},
		{"and who should accept them is not there", func(*play) {}, func(int) int64 { return 3 }, "accept-queue", ""},
		{"more wait than a machine can have", func(*play) {}, func(int) int64 { return math.MaxInt64 }, "accept-queue", ""},
		{"there are times in which nobody waits", func(p *play) { p.waits(acceptor, "chan send", lets...) }, func(i int) int64 { return min(3, int64(i%50)) }, "slow-dependency", "main.ask"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, cast: c.cast, in: every(10, netwaits(40*ms, read...))})
			set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.2, idle: 0.7})}
			for i := range set.Host.Samples {
				set.Host.Samples[i].Listen = &host.Listen{Waiting: c.waiting(i), Room: 128}
			}
			v := cause.Judge(a, set)
			if len(v.Findings) == 0 || v.Findings[0].Cause != c.first || v.Verdict != "cause" {
				t.Fatalf("%s %s %+v", v.Verdict, v.Sentence, v.Findings)
			}
			if at := v.Findings[0].Where; c.where != "" && (at == nil || at.Function != c.where) || c.where == "" && at != nil {
				t.Errorf("at %v, want %q", at, c.where)
			}
			if c.first == "accept-queue" && (len(v.Findings) < 2 || v.Findings[1].Cause != "slow-dependency") {
				t.Errorf("beside it: %+v", v.Findings)
			}
		})
	}
}

// TestConnectionsThatWaitToBeAcceptedAreSeen plays goroutines that accept at once or
// are away, and what the kernel sees of the queue.
func TestConnectionsThatWaitToBeAcceptedAreSeen(t *testing.T) {
	asks := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.(*gates).ask", "main.(*gates).Accept", "net/http.(*Server).Serve"}
	queue := func(waiting ...int64) func(i, n int) *host.Listen {
		return func(i, n int) *host.Listen { return &host.Listen{Waiting: waiting[i%len(waiting)], Room: 128} }
	}
	drops := func(i, n int) *host.Listen { return &host.Listen{Room: 128, Dropped: int64(40 * i / n)} }
	for _, c := range []struct {
		name      string
		scene     scene
		listen    func(i, n int) *host.Listen
		overflows int64
		finding   string
		alike     []string
		verdict   string
	}{
		{"he is away, and nobody asked the kernel", door(asks...), nil, 0, "", []string{"accept-queue"}, "inconclusive"},
		{"he is away, and the kernel sees them wait", door(asks...), queue(0, 1), 0, "accept-queue", nil, "cause"},
		{"he is away, and the kernel sees nobody wait", door(asks...), queue(0), 0, "", nil, "healthy"},
		{"he is away, and the kernel sees fewer wait", door(asks...), queue(0, 0, 1), 0, "accept-queue", nil, "cause"},
		{"he is away, and the kernel sees too few", door(asks...), queue(0, 0, 0, 0, 0, 1), 0, "", []string{"accept-queue"}, "inconclusive"},
		{"he is away, and each request waits for a peer", level(door(asks...)), queue(0, 1), 0, "accept-queue", nil, "cause"},
		{"he takes one at a time, and the kernel sees others wait", limited("runtime.chansend1", "main.(*gates).ask", "main.(*gates).Accept"), queue(5), 0, "accept-queue", nil, "cause"},
		{"he is there", door(), queue(0, 1), 0, "", nil, "healthy"},
		{"he is there, and many find no room", door(), drops, 40, "accept-queue", nil, "cause"},
		{"he is there, and some are dropped for another reason", door(), drops, 0, "", nil, "healthy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, c.scene)
			set := cause.Settings{}
			if c.listen != nil {
				set.Host = observe(a, machine{cpus: 2, own: 0.2, idle: 0.7})
				n := len(set.Host.Samples)
				for i := range set.Host.Samples {
					set.Host.Samples[i].Listen = c.listen(i, n-1)
				}
				set.Host.Samples[0].Net, set.Host.Samples[n-1].Net = &host.Net{}, &host.Net{ListenOverflows: c.overflows}
			}
			v := cause.Judge(a, set)
			check(t, v, c.finding, c.alike)
			if v.Verdict != c.verdict {
				t.Errorf("%s: %s", v.Verdict, v.Sentence)
			}
			for _, f := range v.Findings {
				if where := f.Where; f.Contrast != cause.BeforeContrast || c.overflows == 0 && (where == nil || where.Function != "main.(*gates).ask") {
					t.Errorf("%s, at %v: %s", f.Contrast, where, f.Summary)
				}
			}
		})
	}
}

// Whose connections have waited all want a CPU when they are accepted: that is not the cause, if they had waited longer, and if it is
// they who queue for one.
func TestWhoWasAcceptedLateQueuesForACPU(t *testing.T) {
	asks := []string{"internal/poll.runtime_pollWait", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.(*gates).ask", "main.(*gates).Accept", "net/http.(*Server).Serve"}
	for _, c := range []struct {
		name    string
		behind  bool  // those that are accepted late are slow, or others
		takes   int64 // for the CPU
		finding string
	}{
		{"those that were accepted late", true, 8 * ms, "accept-queue"},
		{"others", false, 8 * ms, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := door(asks...)
			in := s.in
			crowdAt := crowdAtHome("main.tick")
			cast := s.cast
			s.cast = func(p *play) { cast(p); crowdAt(p) }
			s.in = func(p *play, i int) {
				in(p, i)
				if i%10 == 9 && c.behind || i%10 == 4 && !c.behind {
					p.wakes(0, crowd0)
					p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
					p.runs(crowd0, 0)
					p.pass(c.takes)
					p.b.Sample(crowd0, p.stack("main.sum", "main.tick"))
					p.waits(crowd0, "select", "runtime.selectgo", "main.tick")
					p.runs(serving, 0)
				}
			}
			a := attributed(t, s)
			set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.2, idle: 0.7})}
			for i := range set.Host.Samples {
				set.Host.Samples[i].Listen = &host.Listen{Waiting: int64(i % 2), Room: 128}
			}
			v := cause.Judge(a, set)
			got := ""
			if len(v.Findings) > 0 {
				got = v.Findings[0].Cause
			}
			if got != c.finding {
				t.Errorf("named %q, want %q: %s: %s %+v", got, c.finding, v.Verdict, v.Sentence, v.Consistent)
			}
		})
	}
}
