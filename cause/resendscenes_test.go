package cause_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// counted adds TCP's counters to a host's evidence: two readings a second, with so
// many segments sent again for each slow request that ended in between, and so many
// in any case. own is how many were on a connection that the process has; negative if
// the kernel did not tell.
func counted(a *blame.Attribution, each, always float64, own int64) *host.Recording {
	r := observe(a, machine{cpus: 2, own: 0.2, idle: 0.7})
	const readings = 100 // a sample is 5 ms
	var sum float64
	for i := 0; i < len(r.Samples); i += readings {
		if i > 0 {
			sum += always
			for _, x := range a.Found().Requests {
				if end := int64(x.End()); int64(x.Duration()) > slowRequest && end > r.Samples[i-readings].MonoNS && end <= r.Samples[i].MonoNS {
					sum += each
				}
			}
		}
		r.Samples[i].Net = &host.Net{RetransSegs: int64(sum)}
	}
	r.After = &host.After{Sockets: []host.Socket{
		{Local: "10.0.0.1:40000", Remote: "10.0.0.2:80", State: "ESTABLISHED"}, {Local: "[::]:8080", State: "LISTEN"},
	}}
	if own >= 0 {
		r.After.Sockets[0].Retrans = &own
	}
	return r
}

// sent is what the kernel tells of segments sent again: on a connection of this port, in each
// slow request or all the time, and how many on others' connections.
type sent struct {
	port   string
	each   bool
	every  int64
	others int64
}

func (s *sent) told(a *blame.Attribution) *events.Connections {
	t := a.Timeline()
	x := events.Connection{Local: "10.0.0.1:" + s.port, Remote: "10.0.0.2:80"}
	if s.each {
		for _, r := range a.Found().Requests {
			if int64(r.Duration()) > slowRequest {
				x.AtNS = append(x.AtNS, int64(r.End())-5*ms)
			}
		}
	}
	for at := int64(t.Start); s.every > 0 && at < int64(t.End); at += s.every {
		x.AtNS = append(x.AtNS, at)
	}
	x.Again = int64(len(x.AtNS))
	return &events.Connections{FromNS: int64(t.Start), ToNS: int64(t.End), Others: s.others, Connections: []events.Connection{x}}
}

// oneConnection is one for the calls of all, which the helper reads.
func oneConnection(p *play) {
	waitingOthers(p)
	p.waits(helper, "", "internal/poll.runtime_pollWait", "net.(*netFD).connect", "net.(*Dialer).DialContext", "main.(*desk).read")
	p.wakes(0, helper)
	p.runs(helper, 1)
	p.waits(helper, "network", answersRead...)
}

// heldUpTogether has each request ask a peer on one connection. Each 80th comes first of four, while nothing comes in on it for so long.
func heldUpTogether(long int64) func(p *play, i int) {
	return func(p *play, i int) {
		p.leaves(serving, 0, "chan receive", desk...)
		asking, took := []gotrace.GoID{serving}, int64(2*ms)
		if i%80 == 79 {
			took = long
			for g := other; g < other+3; g++ {
				p.pass(30 * ms)
				took -= 30 * ms
				p.wakes(0, g)
				p.runs(g, 0)
				p.do(p.b.Task(g, "request"))
				p.leaves(g, 0, "chan receive", desk...)
				asking = append(asking, g)
			}
		}
		p.pass(took)
		p.wakes(0, helper)
		p.runs(helper, 1)
		calls(helper, ms/100, "syscall.read", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.(*desk).read")(p)
		for _, g := range asking {
			p.wakes(helper, g, "runtime.chansend1", "main.(*desk).read")
		}
		p.leaves(helper, 1, "network", answersRead...)
		for _, g := range asking[1:] {
			p.runs(g, 0)
			p.do(p.b.Done(g))
			p.leaves(g, 0, "network", home...)
		}
		p.runs(serving, 0)
	}
}

// TestWhatTCPSendsAgainIsToldFromSlowPeers plays peers whose answers come late by
// what TCP waits before it sends again, and others.
func TestWhatTCPSendsAgainIsToldFromSlowPeers(t *testing.T) {
	// waits of the slow requests, which are every tenth of a part of all.
	waits := func(from, to int, at []string, lengths ...int64) func(*play, int) {
		n := 0
		return func(p *play, i int) {
			d := 3 * ms
			if i >= from && i < to && i%10 == 9 {
				d += lengths[n%len(lengths)]
				n++
			}
			netwaits(d, at...)(p)
		}
	}
	var (
		steps   = []int64{203 * ms, 207 * ms, 200 * ms, 405 * ms, 201 * ms, 211 * ms}
		any     = []int64{110 * ms, 160 * ms, 250 * ms, 204 * ms, 310 * ms, 350 * ms, 480 * ms, 290 * ms}
		late    = []int64{226 * ms, 238 * ms, 216 * ms, 453 * ms, 230 * ms, 221 * ms} // with acknowledgements that the peer sends late
		seconds = []int64{1003 * ms, 1040 * ms, 1010 * ms, 2030 * ms}
		alike   = []string{"tcp-loss", "slow-dependency"}
	)
	steady := waits(0, 400, reply, steps...)
	partly := waits(100, 250, reply, steps...)
	type evidence struct {
		each, always float64
		own          int64
	}
	for _, c := range []struct {
		name    string
		cast    func(*play)
		in      func(*play, int)
		host    *evidence
		kernel  *sent
		early   func(slow, readings int) int // segments out of order until a reading, by how many slow requests began before
		finding string
		alike   []string
	}{
		{name: "steps, and what the peer had sent came out of order when they began", in: partly, host: &evidence{0, 0, 0}, early: func(slow, _ int) int { return slow }, finding: "tcp-loss"},
		{name: "steps, and segments come out of order at any time", in: partly, host: &evidence{0, 0, 0}, early: func(_, readings int) int { return 10 * readings }, finding: "slow-dependency"},
		{name: "steps, and nobody counted", in: steady, alike: alike},
		{name: "steps, and nothing was sent again", in: steady, host: &evidence{0, 0, 0}, finding: "slow-dependency"},
		{name: "steps, and others send again now and then", in: steady, host: &evidence{0, 0.3, 0}, finding: "slow-dependency"},
		{name: "steps, and what was sent again grew with them only", in: partly, host: &evidence{1, 0, -1}, finding: "tcp-loss"},
		{name: "steps, and as much was sent again without them", in: partly, host: &evidence{0, 4, -1}, alike: alike},
		{name: "steps all the time, and its own connections sent again", in: steady, host: &evidence{1, 0, 40}, finding: "tcp-loss"},
		{name: "steps all the time, and other connections sent again", in: steady, host: &evidence{1, 0, 0}, alike: alike},
		{name: "as much without them, and the kernel sent them in these waits", in: partly, host: &evidence{0, 4, -1}, kernel: &sent{port: "40000", each: true}, finding: "tcp-loss"},
		{name: "as much without them, all on a client's connection", in: partly, host: &evidence{0, 4, -1}, kernel: &sent{port: "8080", each: true}, finding: "slow-dependency"},
		{name: "as much without them, none of it the process's", in: partly, host: &evidence{0, 4, -1}, kernel: &sent{port: "40000"}, finding: "slow-dependency"},
		{name: "as much without them, whose is not known", in: partly, host: &evidence{0, 4, -1}, kernel: &sent{port: "40000", others: 200}, alike: alike},
		{name: "as much without them, on its connections at any time", in: partly, host: &evidence{0, 4, -1}, kernel: &sent{port: "40000", every: 10 * ms}, alike: alike},
		{name: "steps and late acknowledgements, and its own connections sent again", in: waits(0, 400, reply, late...), host: &evidence{1, 0, 40}, finding: "tcp-loss"},
		{name: "steps and late acknowledgements, and nothing was sent again", in: waits(0, 400, reply, late...), host: &evidence{0, 0, 0}, finding: "slow-dependency"},
		{name: "any length, and something was sent again", in: waits(0, 400, reply, any...), host: &evidence{1, 0, 40}, finding: "slow-dependency"},
		{name: "a few steps, and as much was sent again", in: waits(100, 140, reply, steps...), host: &evidence{1, 0, 40}, alike: alike},
		{name: "a few steps, and nothing was sent again", in: waits(100, 140, reply, steps...), host: &evidence{0, 0, 0}, finding: "slow-dependency"},
		{name: "a few steps, and nobody counted", in: waits(100, 140, reply, steps...), finding: "slow-dependency"},
		{name: "one connection for many calls is held up in steps", cast: oneConnection, in: heldUpTogether(205 * ms), host: &evidence{1, 0, 40}, finding: "tcp-loss"},
		{name: "one connection for many calls is held up in steps, and nothing was sent again", cast: oneConnection, in: heldUpTogether(205 * ms), host: &evidence{0, 0, 0}, finding: "slow-dependency"},
		{name: "one connection for many calls is held up for another time", cast: oneConnection, in: heldUpTogether(290 * ms), host: &evidence{1, 0, 40}, finding: "slow-dependency"},
		{name: "connecting took whole seconds", in: waits(0, 400, connect, seconds...), finding: "tcp-loss"},
		{name: "a peer's answer took whole seconds", in: waits(0, 400, reply, seconds...), finding: "slow-dependency"},
		{name: "connecting took any time", in: waits(0, 400, connect, any...), finding: "dial-per-request"},
		{name: "few connect, and some of them for whole seconds", in: func(p *play, i int) {
			if i%5 == 4 {
				waits(0, 400, connect, seconds...)(p, i)
			}
		}, finding: "tcp-loss"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, cast: c.cast, in: c.in})
			set := cause.Settings{}
			if c.host != nil {
				set.Host = counted(a, c.host.each, c.host.always, c.host.own)
			}
			if c.early != nil {
				readings := 0
				for _, s := range set.Host.Samples {
					if s.Net == nil {
						continue
					}
					slow := 0
					for _, x := range a.Found().Requests {
						if int64(x.Duration()) > slowRequest && int64(x.Start()) <= s.MonoNS {
							slow++
						}
					}
					s.Net.OutOfOrder = int64(c.early(slow, readings))
					readings++
				}
			}
			if c.kernel != nil {
				set.Kernel.TCP = c.kernel.told(a)
			}
			check(t, cause.Judge(a, set), c.finding, c.alike)
		})
	}
}

// TestWhatTCPHoldsBackIsToldFromSlowPeers plays messages that are written in parts.
func TestWhatTCPHoldsBackIsToldFromSlowPeers(t *testing.T) {
	write := calls(serving, ms/50, "syscall.write", "internal/poll.(*FD).Write", "net.(*netFD).Write", "net.(*conn).Write", "main.call", "main.serve")
	try := calls(serving, ms/100, "syscall.read", "internal/poll.(*FD).Read", "net.(*netFD).Read", "net.(*conn).Read", "main.call", "main.serve")
	asks := func(parts int, lengths ...int64) func(*play, int) {
		n := 0
		return func(p *play, i int) {
			if i%10 != 9 {
				write(p)
				try(p)
				netwaits(ms, reply...)(p)
				try(p)
				return
			}
			for range parts {
				write(p)
			}
			try(p)
			netwaits(lengths[n%len(lengths)], reply...)(p)
			try(p)
			n++
		}
	}
	delayed := []int64{41 * ms, 44 * ms, 43 * ms, 46 * ms}
	on, off := true, false
	for _, c := range []struct {
		name    string
		in      func(*play, int)
		noDelay *bool
		host    bool
		finding string
		alike   []string
	}{
		{"two parts, and nobody looked", asks(2, delayed...), nil, false, "", []string{"tcp-loss", "slow-dependency"}},
		{"two parts, and the connections could not be looked at", asks(2, delayed...), nil, true, "", []string{"tcp-loss", "slow-dependency"}},
		{"two parts, and small segments are held back", asks(2, delayed...), &off, true, "tcp-loss", nil},
		{"three parts, and small segments are held back", asks(3, delayed...), &off, true, "tcp-loss", nil},
		{"two parts, and small segments are held back on one of many connections", asks(2, delayed...), &off, true, "tcp-loss", nil},
		{"two parts that are sent at once", asks(2, delayed...), &on, true, "slow-dependency", nil},
		{"one part", asks(1, delayed...), &off, true, "slow-dependency", nil},
		{"two parts, and answers after any time", asks(2, 25*ms, 30*ms, 44*ms, 60*ms, 70*ms, 90*ms), &off, true, "slow-dependency", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, in: c.in})
			set := cause.Settings{}
			if c.host {
				set.Host = counted(a, 0, 0, 0)
				first := &set.Host.After.Sockets[0]
				first.NoDelay = c.noDelay
				if strings.Contains(c.name, "one of many") {
					other := *first
					other.NoDelay = &on
					for range 9 {
						set.Host.After.Sockets = append(set.Host.After.Sockets, other)
					}
				}
			}
			v := cause.Judge(a, set)
			check(t, v, c.finding, c.alike)
			if few := strings.Contains(c.name, "one of many"); few && len(v.Findings) > 0 && v.Findings[0].Confidence != "medium" {
				t.Errorf("confidence %q, although the requests may wait on another connection", v.Findings[0].Confidence)
			}
		})
	}
}

// check compares what was named and what is undecided; a finding of "" is none.
func check(t *testing.T, v *cause.Verdict, finding string, alike []string) {
	t.Helper()
	var named, suspects []string
	for _, f := range v.Findings {
		named = append(named, f.Cause)
	}
	for _, x := range v.Consistent {
		suspects = append(suspects, x.Causes...)
	}
	want := slices.DeleteFunc([]string{finding}, func(id string) bool { return id == "" })
	if slices.Equal(named, want) && slices.Equal(suspects, alike) {
		return
	}
	t.Errorf("named %q, undecided between %q, want %q and %q: %s", named, suspects, want, alike, v.Sentence)
	for _, r := range v.RuledOut {
		t.Logf("not %s: %s", r.Cause, r.Because)
	}
	for _, f := range v.Findings {
		t.Logf("%s: %q", f.Cause, f.Evidence)
	}
}
