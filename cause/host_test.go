package cause_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/host"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
)

// machine is what the host's evidence says: parts of the time of slow requests.
type machine struct {
	quota   float64 // CPUs; 0 is none
	use     float64 // mean use of the quota
	stopped float64 // part of the time in which the quota stopped the process
	delayed float64 // of the time in which threads wanted a CPU
	own     float64 // use of the CPUs
	forked  float64 // use of the CPUs by descendants
	idle    float64 // of the machine's CPUs
	cpus    int
	allowed int     // of the machine's CPUs, 0 is all
	free    float64 // of the CPUs that are allowed
	hidden  bool    // ancestors cannot be seen
	always  bool    // not only during slow requests
	waits   int     // for a CPU in 5 ms; 0 means 1
	stolen  float64 // part of the time of all CPUs, while requests are slow
	more    float64 // CPUs that the process uses beside own, while requests are slow
	peers   float64 // of the CPUs, had by the processes that it calls; 0 if there is none on the machine
	starved float64 // how long the threads of these wait for a CPU while requests are slow, as a part of the time
	remote  bool    // it calls a process elsewhere, too
	ports   bool    // it calls the peer at another address, too
	others  bool    // it calls three other processes of the machine, too
	limited bool    // they wait because a quota of theirs is used up
	rush    float64 // part of the CPUs that was idle and that others use while requests are slow
}

// slowRequest is what the scenes' fast requests stay below.
const slowRequest = 5 * ms

// observe plays the host beside a scene.
func observe(a *blame.Attribution, m machine) *host.Recording {
	t := a.Timeline()
	var slow []host.Span
	for _, r := range a.Found().Requests {
		if int64(r.Duration()) > slowRequest {
			slow = append(slow, host.Span{From: int64(r.Start()), To: int64(r.End())})
		}
	}
	r := &host.Recording{Static: host.Static{CPUs: m.cpus, Allowed: m.allowed, Ancestors: !m.hidden, Groups: []host.Group{{Path: "/svc"}}}}
	if m.quota > 0 {
		r.Static.Groups[0].QuotaUS, r.Static.Groups[0].PeriodUS = int64(1e5*m.quota), 1e5
	}
	if m.peers > 0 {
		r.After = &host.After{Peers: []host.Peer{{PID: 7, Name: "store", Address: "127.0.0.1:7"}}, Sockets: []host.Socket{{Remote: "127.0.0.1:7"}}}
		if m.ports {
			r.After.Peers[0].Also = []string{"127.0.0.1:8"}
			r.After.Sockets = append(r.After.Sockets, host.Socket{Remote: "127.0.0.1:8"})
		}
		for pid := 8; m.others && pid < 11; pid++ {
			r.After.Peers = append(r.After.Peers, host.Peer{PID: pid, Name: "store", Address: fmt.Sprintf("127.0.0.1:%d", pid)})
		}
		if m.remote {
			r.After.Sockets = append(r.After.Sockets, host.Socket{Remote: "10.0.0.1:7"})
		}
	}
	s := host.Sample{MonoNS: int64(t.Start), Groups: []host.GroupCounters{{}}}
	if m.allowed > 0 {
		s.Confined = new(host.CPUTimes)
	}
	const step = 5 * ms
	for ; s.MonoNS < int64(t.End)+step; s.MonoNS += step {
		r.Samples = append(r.Samples, s)
		in := 0.0
		for _, x := range slow {
			in += float64(max(0, min(x.To, s.MonoNS+step)-max(x.From, s.MonoNS))) / float64(step)
		}
		if m.always {
			in = 1
		}
		g := s.Groups[0]
		g.Periods++
		if in > 0 && m.stopped > 0 {
			g.Throttled++
		}
		g.ThrottledNS += int64(m.stopped * in * float64(step))
		g.UsageNS += int64(m.use * m.quota * float64(step))
		s.Groups = []host.GroupCounters{g}
		all := float64(step) * float64(m.cpus)
		run := m.own*all + m.more*in*float64(step)
		s.RunNS += int64(run)
		last := s.Threads
		s.Threads = []host.Thread{{TID: 1, RunNS: s.RunNS}}
		if m.delayed > 0 {
			s.DelayNS += int64(in * run * m.delayed / (1 - m.delayed))
		}
		s.Threads[0].DelayNS, s.Threads[0].Slices = s.DelayNS, 1
		if last != nil {
			s.Threads[0].Slices = last[0].Slices + int64(max(1, m.waits))
		}
		s.Machine.BusyNS += int64((1 - m.idle - in*m.stolen + in*m.rush) * all)
		s.Machine.StealNS += int64(in * m.stolen * all)
		s.Machine.IdleNS += int64((m.idle - in*m.rush) * all)
		s.ChildrenNS += int64(m.forked * all)
		if m.limited {
			r.After.Peers[0].ThrottledNS += int64(in * m.starved * float64(step))
		}
		if m.peers > 0 {
			was := host.Peers{}
			if s.Peers != nil {
				was = *s.Peers
			}
			s.Peers = &host.Peers{RunNS: was.RunNS + int64(m.peers*all), DelayNS: was.DelayNS + int64(in*m.starved*float64(step))}
		}
		if c := s.Confined; c != nil {
			few := float64(step) * float64(m.allowed)
			s.Confined = &host.CPUTimes{BusyNS: c.BusyNS + int64((1-m.free)*few), IdleNS: c.IdleNS + int64(m.free*few)}
		}
	}
	return r
}

// asksPeer lets every tenth request wait for a peer.
var asksPeer = every(10, func(p *play) {
	p.leaves(serving, 0, "network", reply...)
	p.pass(p.vary(20 * ms))
	p.wakes(0, serving)
	p.runs(serving, 0)
})

// silent lets every tenth request fall silent, the whole process with it.
var silent = every(10, func(p *play) { p.pass(60 * ms) })

func TestTheHostDecides(t *testing.T) {
	busy := machine{cpus: 2, own: 0.9, idle: 0.01}
	with := func(f func(m *machine)) machine {
		m := busy
		f(&m)
		return m
	}
	computes := every(10, func(p *play) { p.computes(serving, 0, 40*ms) })
	// on a CPU for a part of 64 ms, as the samples tell
	partly := func(on int64) func(*play, int) {
		return every(10, func(p *play) {
			p.computes(serving, 0, on, "main.scale", "main.serve")
			p.computes(serving, 0, 64*ms-on)
		})
	}
	holds := every(10, behindHelper("sync", mutex, unlock, func(p *play) { p.computes(helper, 1, 15*ms, "main.refresh", "main.loop") }))
	inC := every(10, calls(serving, 20*ms, "main._Cfunc_pack", "main.encode", "main.serve"))
	same := every(10, func(p *play) {
		p.leaves(serving, 0, "network", reply...)
		p.pass(20 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	})
	naps := every(10, func(p *play) {
		p.leaves(serving, 0, "sleep", "time.Sleep", "main.pause", "main.serve")
		p.pass(p.vary(20 * ms))
		p.wakes(0, serving)
		p.runs(serving, 0)
	})
	for _, c := range []struct {
		name    string
		procs   int
		in      func(*play, int)
		host    machine
		finding string
		alike   []string
	}{
		{"a quota that is used up", 2, silent, with(func(m *machine) { m.quota, m.use, m.stopped = 0.5, 0.97, 0.8 }), "quota-too-low", nil},
		{"a quota that bursts on as many Ps as it needs use up", 2, silent, with(func(m *machine) { m.quota, m.use, m.stopped = 0.5, 0.3, 0.8 }), "quota-too-low", nil},
		{"a quota that bursts on many Ps use up", 8, silent, with(func(m *machine) { m.quota, m.use, m.stopped = 1, 0.4, 0.8 }), "gomaxprocs-over-quota", nil},
		{"a quota that is used up on many Ps", 8, silent, with(func(m *machine) { m.quota, m.use, m.stopped = 1, 0.95, 0.8 }), "quota-too-low", nil},
		{"a quota nearly used up on many Ps", 8, silent, with(func(m *machine) { m.quota, m.use, m.stopped = 1, 0.85, 0.8 }), "", []string{"gomaxprocs-over-quota", "quota-too-low"}},
		{"a quota that others in the group use up, on many Ps", 8, silent, with(func(m *machine) { m.quota, m.stopped, m.own = 1, 0.8, 0.05 }), "quota-too-low", nil},
		{"a quota that bursts on many Ps use up, where groups are not accounted for", 8, silent, with(func(m *machine) { m.quota, m.stopped, m.own = 1, 0.8, 0.3 }), "gomaxprocs-over-quota", nil},
		{"stopped by a quota while it computes", 2, computes, with(func(m *machine) { m.quota, m.use, m.stopped = 0.5, 0.95, 0.8 }), "quota-too-low", nil},
		{"a neighbour has the CPUs", 2, silent, with(func(m *machine) { m.delayed, m.own = 0.8, 0.2 }), "host-contention", nil},
		{"a neighbour has the CPUs, beside a quota that is never reached", 2, silent, with(func(m *machine) { m.delayed, m.own, m.quota, m.use = 0.8, 0.2, 2, 0.1 }), "host-contention", nil},
		{"a neighbour has the CPUs, seen from inside a container", 2, silent, with(func(m *machine) { m.delayed, m.own, m.hidden = 0.8, 0.2, true }), "host-contention", nil},
		{"silent inside a container, and nobody waited for a CPU", 2, silent, with(func(m *machine) { m.hidden = true }), "", []string{"host-contention", "page-faults", "quota-too-low", "gomaxprocs-over-quota"}},
		{"a neighbour has more of the CPUs than its children", 2, silent, with(func(m *machine) { m.delayed, m.own, m.forked = 0.8, 0.2, 0.2 }), "host-contention", nil},
		{"its own children have the CPUs", 2, silent, with(func(m *machine) { m.delayed, m.own, m.forked = 0.8, 0.2, 0.7 }), "", nil},
		{"its own children have more of the CPUs than neighbours", 2, silent, with(func(m *machine) { m.delayed, m.own, m.forked = 0.8, 0.2, 0.5 }), "", nil},
		{"a neighbour has the CPUs to which it is confined", 2, silent, with(func(m *machine) { m.delayed, m.own, m.cpus, m.allowed, m.idle, m.free = 0.8, 0.1, 4, 2, 0.5, 0.01 }), "host-contention", nil},
		{"the CPUs to which it is confined are idle", 2, silent, with(func(m *machine) { m.delayed, m.own, m.cpus, m.allowed, m.idle, m.free = 0.8, 0.1, 4, 2, 0.1, 0.6 }), "", nil},
		{"more Ps than CPUs, in each other's way", 8, silent, with(func(m *machine) { m.delayed = 0.8 }), "gomaxprocs-over-quota", nil},
		{"more Ps than CPUs, in each other's way, beside a quota that is never reached", 8, silent, with(func(m *machine) { m.delayed, m.quota, m.use = 0.8, 1.6, 0.4 }), "gomaxprocs-over-quota", nil},
		{"silent, and threads that hardly ran waited for a CPU, hardly ever", 2, silent, with(func(m *machine) { m.own, m.delayed = 0.01, 0.6 }), "", []string{"host-contention", "page-faults"}},
		{"silent, and threads that hardly ran waited for a CPU beside idle ones", 2, silent, with(func(m *machine) { m.own, m.delayed, m.idle = 0.01, 0.6, 0.9 }), "", []string{"expensive-request", "host-contention"}},
		{"silent, and nobody waited for a CPU", 2, silent, with(func(m *machine) {}), "", []string{"host-contention", "page-faults"}},
		{"computes on a CPU", 2, computes, busy, "expensive-request", nil},
		{"computes, or waits for a CPU", 2, computes, with(func(m *machine) { m.delayed = 0.45 }), "", []string{"expensive-request"}},
		{"computes longer, and waits for a CPU for less time than that", 2, partly(40 * ms), with(func(m *machine) { m.delayed, m.own = 0.45, 0.5 }), "expensive-request", nil},
		{"waits for a CPU for longer than it computes longer", 2, partly(20 * ms), with(func(m *machine) { m.delayed, m.own = 0.45, 0.5 }), "", []string{"expensive-request", "host-contention"}},
		{"waits for a CPU for most of the time, and computes the rest", 2, partly(20 * ms), with(func(m *machine) { m.delayed, m.own = 0.7, 0.3 }), "host-contention", nil},
		{"computes longer, or a hypervisor has its CPU", 2, partly(40 * ms), with(func(m *machine) { m.delayed, m.own, m.stolen = 0.45, 0.5, 0.4 }), "", []string{"expensive-request", "host-contention"}},
		{"computes longer, and a quota stops it", 2, partly(40 * ms), with(func(m *machine) { m.quota, m.use, m.stopped = 0.5, 0.95, 0.4 }), "", []string{"expensive-request", "quota-too-low"}},
		{"the holder of a lock computes", 2, holds, busy, "lock-held-across-work", nil},
		{"the holder of a lock computes, or the hypervisor has its CPU", 2, holds, with(func(m *machine) { m.stolen = 0.4 }), "", []string{"lock-held-across-work", "host-contention"}},
		{"the holder of a lock computes, and the hypervisor has a part of the CPUs all the time", 2, holds, with(func(m *machine) { m.stolen, m.always = 0.4, true }), "lock-held-across-work", nil},
		{"C computes", 2, inC, with(func(m *machine) { m.own, m.more = 0.1, 1 }), "slow-cgo", nil},
		{"C waits", 2, inC, with(func(m *machine) { m.own = 0.1 }), "slow-cgo", nil},
		{"C computes, while other threads wait long for a CPU", 2, inC, with(func(m *machine) { m.own, m.more, m.delayed = 0.1, 1, 0.8 }), "slow-cgo", nil},
		{"C waits for something, or for a CPU", 2, inC, with(func(m *machine) { m.own, m.more, m.delayed = 0.1, 0.3, 0.8 }), "", []string{"slow-cgo", "host-contention"}},
		{"C computes, or the hypervisor has its CPU", 2, inC, with(func(m *machine) { m.own, m.more, m.delayed, m.stolen = 0.1, 1, 0.8, 0.3 }), "", []string{"slow-cgo", "host-contention"}},
		{"some sleep for longer", 2, naps, busy, "timer-wait", nil},
		{"some sleep for longer, while threads wait for a CPU for half of that", 2, naps, with(func(m *machine) { m.delayed, m.own = 0.5, 0.6 }), "timer-wait", nil},
		{"some sleep for longer, or threads wait for a CPU as long", 2, naps, with(func(m *machine) { m.delayed, m.own = 0.99, 0.6 }), "", []string{"timer-wait", "host-contention"}},
		{"a slow peer", 2, asksPeer, busy, "slow-dependency", nil},
		{"a peer that looks slow to threads that wait long for a CPU", 2, same, with(func(m *machine) { m.delayed, m.own = 0.8, 0.6 }), "host-contention", nil},
		{"a slow peer, while other threads wait shortly and often", 2, asksPeer, with(func(m *machine) { m.delayed, m.own, m.waits = 0.8, 0.3, 50 }), "", []string{"slow-dependency", "host-contention"}},
		{"a slow peer, or late threads", 2, asksPeer, with(func(m *machine) { m.delayed, m.own = 0.6, 0.5 }), "", []string{"slow-dependency", "host-contention"}},
		{"a peer that takes the same time each time, and threads late for less than half of it", 2, same, with(func(m *machine) { m.delayed, m.own = 0.6, 0.25 }), "slow-dependency", nil},
		{"always the same time, and threads late for most of it", 2, same, with(func(m *machine) { m.delayed, m.own = 0.7, 0.5 }), "", []string{"slow-dependency", "host-contention"}},
		{"a slow peer, or the hypervisor has the CPUs", 2, asksPeer, with(func(m *machine) { m.stolen = 0.2 }), "", []string{"slow-dependency", "host-contention"}},
		{"a slow peer, and the hypervisor has a part of the CPUs all the time", 2, asksPeer, with(func(m *machine) { m.stolen, m.always = 0.2, true }), "slow-dependency", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: c.procs, cast: waitingHelper, in: c.in})
			v := cause.Judge(a, cause.Settings{Host: observe(a, c.host)})
			got := ""
			if len(v.Findings) > 0 {
				got = v.Findings[0].Cause
			}
			if got != c.finding {
				t.Errorf("found %q, want %q: %s", got, c.finding, v.Sentence)
			}
			if c.alike != nil && (len(v.Consistent) == 0 || !slices.Equal(v.Consistent[0].Causes[:min(len(c.alike), len(v.Consistent[0].Causes))], c.alike)) {
				t.Errorf("consistent with %+v, want %v: %s", v.Consistent, c.alike, v.Sentence)
			}
		})
	}
}

// Where the kernel does not account for groups, what the process used says nothing of the group.
func TestWhoUsedTheQuotaIsSaid(t *testing.T) {
	for _, c := range []struct {
		name      string
		use, own  float64
		says, fix string
	}{
		{"the group is accounted for, and is the process", 0.97, 0.9, "the group used 97 % of its quota on average; 2 Ps", "raise the CPU limit"},
		{"the group is accounted for, and is others", 0.97, 0.05, "the process itself used 20 % of the quota of /svc in the periods in which it was stopped: others in that group used the rest", "see who else is in cgroup /svc"},
		{"no group is accounted for, and it is the process", 0, 0.22, "the process used 88 % of the quota on average; 2 Ps", "raise the CPU limit"},
		{"no group is accounted for, and it is others", 0, 0.05, "the process itself used 20 % of the quota of /svc in the periods in which it was stopped: others in that group used the rest", "see who else is in cgroup /svc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, in: silent})
			v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, idle: 0.01, quota: 0.5, use: c.use, own: c.own, stopped: 0.8})})
			if len(v.Findings) == 0 || v.Findings[0].Cause != "quota-too-low" {
				t.Fatalf("found %+v: %s", v.Findings, v.Sentence)
			}
			f := v.Findings[0]
			if !slices.ContainsFunc(f.Evidence, func(s string) bool { return strings.HasPrefix(s, c.says) }) || !strings.HasPrefix(f.Fix[0], c.fix) {
				t.Errorf("it says %q and advises %q; want %q and %q", f.Evidence, f.Fix, c.says, c.fix)
			}
			if others := strings.Contains(v.Sentence, "mostly by others"); others != strings.Contains(c.name, "others") {
				t.Errorf("the sentence: %s", v.Sentence)
			}
		})
	}
}

// A quota stops everybody: also who holds what requests wait for, and the recording's own
// goroutines.
func TestAQuotaStopsWhoeverIsInTheWay(t *testing.T) {
	unknown := scene{procs: 2, cast: func(p *play) {
		p.waits(helper, "", idle...)
		p.waits(other, "", idle...)
	}, in: func(p *play, i int) {
		if i%10 != 9 {
			return
		}
		by := []gotrace.GoID{helper, other}[i/10%2] // so that neither held it all the time
		p.leaves(serving, 0, "sync", mutex...)
		p.pass(58 * ms)
		p.wakes(0, by)
		p.runs(by, 0)
		p.pass(2 * ms)
		p.wakes(by, serving, unlock...)
		p.waits(by, "select", idle...)
		p.runs(serving, 0)
	}}
	recorded := func(computes ...string) scene {
		return scene{procs: 1, cast: func(p *play) { p.waits(helper, "", advances...) }, in: every(10, func(p *play) {
			p.computes(serving, 0, 10*ms, "main.scale", "main.serve")
			p.wakes(0, helper)
			p.do(p.b.Yields(serving, "preempted", p.stack("main.serve")))
			p.runs(helper, 0)
			p.computes(helper, 0, 40*ms, computes...)
			p.waits(helper, "system goroutine wait", advances...)
			p.runs(serving, 0)
		})}
	}
	lists := []string{"runtime.traceAdvance", advances[1]}
	for _, c := range []struct {
		name    string
		scene   scene
		stopped float64
		finding string
	}{
		{"who held it is unknown, and stopped nearly all of the time", unknown, 0.9, "quota-too-low"},
		{"who held it is unknown, and stopped for most of the time", unknown, 0.6, ""},
		{"the recording has the Ps, and is stopped", recorded(), 0.8, "quota-too-low"},
		{"the recording has the Ps, and uses the quota up", recorded(lists...), 0.8, "observer"},
		{"the recording has the Ps", recorded(lists...), 0, "observer"},
	} {
		a := attributed(t, c.scene)
		v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.4, idle: 0.4, quota: 0.5, use: 0.97, stopped: c.stopped})})
		got := ""
		if len(v.Findings) > 0 {
			got = v.Findings[0].Cause
		}
		if got != c.finding {
			t.Errorf("%s: found %q, want %q: %s", c.name, got, c.finding, v.Sentence)
		}
	}
}

// Contention that is most of a tail is the verdict; where as much may be something else it is not.
func TestContentionIsTheVerdictIfNothingElseMayBeAsMuch(t *testing.T) {
	for _, c := range []struct {
		silent, asks int64
		verdict      string
	}{
		{45 * ms, 40 * ms, "cause"},
		{30 * ms, 35 * ms, "inconclusive"},
		{30 * ms, 58 * ms, "inconclusive"},
	} {
		a := attributed(t, scene{procs: 2, in: every(10, func(p *play) {
			p.pass(c.silent)
			p.leaves(serving, 0, "network", reply...)
			p.pass(p.vary(c.asks))
			p.wakes(0, serving)
			p.runs(serving, 0)
		})})
		v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.45, idle: 0.01, delayed: 0.8, waits: 50})})
		named := len(v.Findings) == 1 && v.Findings[0].Cause == "host-contention"
		like := slices.ContainsFunc(v.Consistent, func(x cause.Consistent) bool {
			return len(x.Causes) > 1 && slices.Contains(x.Causes, "host-contention")
		})
		if v.Verdict != c.verdict || named != (c.verdict == "cause") || like == named {
			t.Errorf("%d ms silent, %d ms asking: %s, findings %+v, look-alikes %+v", c.silent/ms, c.asks/ms, v.Verdict, v.Findings, v.Consistent)
		}
	}
}

// Contention for the host's CPUs comes with whatever gives somebody more to do.
func TestContentionIsTheCauseIfItIsMostOfATail(t *testing.T) {
	type part = struct {
		causes string
		share  float64
	}
	contention := func(share float64) part { return part{"host-contention", share} }
	for _, c := range []struct {
		name               string
		findings, suspects []part
		mix                float64
		whole, scattered   bool
		found, alike       string
		nothingElse        bool
	}{
		{"most of it", []part{contention(0.65), {"slow-disk", 0.2}}, nil, 0, false, false, "host-contention slow-disk", "", false},
		{"all that was found", []part{contention(0.65)}, nil, 0, false, false, "host-contention", "", false},
		{"most of what is not mix", []part{contention(0.4), {"slow-disk", 0.2}}, nil, 0.4, false, false, "host-contention slow-disk", "", false},
		{"with little that may be more of it", []part{contention(0.5), {"slow-disk", 0.3}}, []part{{"timer-wait host-contention", 0.15}}, 0, false, false, "host-contention slow-disk", "timer-wait host-contention", false},
		{"with much that may be more of it, beside another, and nobody in particular has the CPUs", []part{contention(0.4), {"slow-disk", 0.3}}, []part{{"timer-wait host-contention", 0.2}}, 0, false, true, "slow-disk", "timer-wait host-contention, host-contention", false},
		{"with much that may be more of it, beside another", []part{contention(0.4), {"slow-disk", 0.3}}, []part{{"timer-wait host-contention", 0.2}}, 0, false, false, "slow-disk host-contention", "timer-wait host-contention", false},
		{"with much that may be more of it", []part{contention(0.43)}, []part{{"timer-wait host-contention", 0.48}}, 0, false, false, "", "timer-wait host-contention, host-contention", false},
		{"of the whole time, in which requests compute, too", []part{contention(0.5), {"expensive-request", 0.45}}, nil, 0, true, false, "host-contention expensive-request", "", false},
		{"more than another, but not most, and nobody in particular has the CPUs", []part{contention(0.45), {"slow-disk", 0.2}, {"timer-wait", 0.1}}, nil, 0, false, true, "slow-disk timer-wait", "host-contention", false},
		{"more than another, but not most", []part{contention(0.45), {"slow-disk", 0.2}, {"timer-wait", 0.1}}, nil, 0, false, false, "slow-disk host-contention timer-wait", "", false},
		{"less than another, and nobody in particular has the CPUs", []part{{"slow-disk", 0.5}, {"timer-wait", 0.3}, contention(0.2)}, nil, 0, false, true, "slow-disk timer-wait", "host-contention", false},
		{"less than another", []part{{"slow-disk", 0.5}, {"timer-wait", 0.3}, contention(0.2)}, nil, 0, false, false, "slow-disk timer-wait host-contention", "", false},
		{"beside what has no name", []part{contention(0.45)}, nil, 0, false, false, "", "host-contention", true},
		{"beside little that has a name", []part{contention(0.55), {"late-timer", 0.21}}, nil, 0, false, false, "late-timer", "host-contention", false},
		{"beside more that has a name, and nobody in particular has the CPUs", []part{contention(0.55), {"late-timer", 0.23}}, nil, 0, false, true, "late-timer", "host-contention", false},
		{"beside more that has a name", []part{contention(0.55), {"late-timer", 0.23}}, nil, 0, false, false, "late-timer host-contention", "", false},
		{"beside what may be more of it", []part{contention(0.35)}, []part{{"timer-wait host-contention", 0.2}}, 0, false, false, "", "host-contention, timer-wait host-contention", true},
		{"beside what may have one", []part{contention(0.45)}, []part{{"pool-exhausted", 0.2}}, 0, false, false, "", "pool-exhausted, host-contention", false},
		{"beside little that may have one", []part{contention(0.55)}, []part{{"pool-exhausted", 0.1}}, 0, false, false, "", "host-contention, pool-exhausted", false},
		{"more than queueing for a P", []part{contention(0.49), {"overload", 0.3}}, nil, 0, false, false, "host-contention overload", "", false},
		{"more than a little queueing for a P", []part{contention(0.49), {"overload", 0.15}}, nil, 0, false, false, "host-contention overload", "", false},
		{"more than queueing for a P, and nobody in particular has the CPUs", []part{contention(0.49), {"overload", 0.3}}, nil, 0, false, true, "overload", "host-contention", false},
		{"hardly more than queueing for a P, and nobody in particular has the CPUs", []part{contention(0.4), {"overload", 0.35}}, nil, 0, false, true, "overload", "host-contention", false},
		{"hardly more than queueing for a P", []part{contention(0.4), {"overload", 0.35}}, nil, 0, false, false, "overload host-contention", "", false},
		{"none", []part{{"slow-disk", 0.5}}, nil, 0, false, false, "slow-disk", "", false},
	} {
		var findings []cause.Finding
		for _, f := range c.findings {
			findings = append(findings, cause.Finding{Cause: f.causes, Share: f.share})
		}
		var suspects []cause.Consistent
		for _, x := range c.suspects {
			suspects = append(suspects, cause.Consistent{Causes: strings.Fields(x.causes), Share: x.share})
		}
		findings, suspects, nothingElse := cause.Accompany(findings, suspects, c.mix, c.whole, c.scattered)
		var found, alike []string
		for _, f := range findings {
			found = append(found, f.Cause)
		}
		for _, x := range suspects {
			alike = append(alike, strings.Join(x.Causes, " "))
		}
		if got := strings.Join(found, " "); got != c.found || strings.Join(alike, ", ") != c.alike || nothingElse != c.nothingElse {
			t.Errorf("%s: found %q, want %q; may be %q, want %q; nothing else %v", c.name, got, c.found, alike, c.alike, nothingElse)
		}
	}
}

// Any wake-up may wait for a slice of what runs on its CPU.
func TestShortContentionBesideIdleCPUsIsNoCause(t *testing.T) {
	for _, c := range []struct {
		name                string
		share, excess, idle float64 // excess in nanoseconds
		slo                 int64
		alone               float64
	}{
		{"short", 0.7, 3e6, 0.5, 0, 2.1e6},
		{"not short", 0.7, 6e6, 0.5, 0, 0},
		{"nearly all of it", 0.8, 3e6, 0.5, 0, 0},
		{"others compute all the time", 0.7, 3e6, 0.1, 0, 0},
		{"too long", 0.7, 3e6, 0.5, ms, 0},
	} {
		if got := cause.ShortContention(c.share, c.excess, c.idle, cause.Settings{SLO: c.slo}); math.Abs(got-c.alone) > 1 {
			t.Errorf("%s: %v alone, want %v", c.name, got, c.alone)
		}
	}
}

func TestQueueingWithIdleCPUsIsNoOverload(t *testing.T) {
	for _, c := range []struct {
		name string
		host machine
		want string
	}{
		{"idle CPUs", machine{cpus: 4, own: 0.9, idle: 0.7}, "gomaxprocs-too-low"},
		{"no idle CPUs", machine{cpus: 4, own: 0.3, idle: 0.05}, "overload"},
		{"a P for every CPU", machine{cpus: 1, own: 0.9, idle: 0.3}, "overload"},
		{"a P for every CPU to which it is confined", machine{cpus: 8, allowed: 1, own: 0.1, idle: 0.8, free: 0.3}, "overload"},
		{"confined to CPUs that are idle", machine{cpus: 8, allowed: 4, own: 0.4, idle: 0.1, free: 0.7}, "gomaxprocs-too-low"},
		{"confined to CPUs that are busy while others are idle", machine{cpus: 8, allowed: 4, own: 0.4, idle: 0.7, free: 0.05}, "overload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range scenes {
				if s.finding != "overload" {
					continue
				}
				a := attributed(t, s.scene)
				v := cause.Judge(a, cause.Settings{Host: observe(a, c.host)})
				if len(v.Findings) == 0 || v.Findings[0].Cause != c.want {
					t.Errorf("%s: found %+v, want %s: %s", s.name, v.Findings, c.want, v.Sentence)
				}
			}
		})
	}
}

// A peer on the same machine that others keep from the CPUs answers late, and is not to blame.
func TestAPeerThatGotNoCPUIsNotBlamed(t *testing.T) {
	for _, c := range []struct {
		name string
		host machine
		want string
	}{
		{"others had the CPUs", machine{cpus: 2, own: 0.1, idle: 0.2, peers: 0.1, starved: 0.8}, "host-contention"},
		{"they had them, and the peer waited for little", machine{cpus: 2, own: 0.1, idle: 0.2, peers: 0.1, starved: 0.3}, "slow-dependency"},
		{"they had nearly all of them, and the peer waited for a part of it", machine{cpus: 2, own: 0.03, peers: 0.02, starved: 0.4}, "slow-dependency or host-contention"},
		{"they had nearly all of them, and the peer waited for little", machine{cpus: 2, own: 0.03, peers: 0.02, starved: 0.2}, "slow-dependency"},
		{"others had them, but for those that the peer may not use", machine{cpus: 2, own: 0.1, idle: 0.3, peers: 0.05, starved: 0.8}, "slow-dependency"},
		{"nobody had most of them", machine{cpus: 2, own: 0.3, idle: 0.1, peers: 0.25, starved: 0.8}, "slow-dependency or host-contention"},
		{"the peer's other threads had them", machine{cpus: 2, own: 0.1, idle: 0.1, peers: 0.7, starved: 0.8}, "slow-dependency"},
		{"the process had them, and many of the peer's threads wait", machine{cpus: 2, own: 0.7, idle: 0.1, peers: 0.1, starved: 4}, "slow-dependency or host-contention"},
		{"it may be another peer, elsewhere", machine{cpus: 2, own: 0.1, idle: 0.2, peers: 0.1, starved: 0.8, remote: true}, "slow-dependency"},
		{"the peer has another address", machine{cpus: 2, own: 0.1, idle: 0.2, peers: 0.1, starved: 0.8, ports: true}, "host-contention"},
		{"others had them, and one of four peers may have waited for little", machine{cpus: 2, own: 0.1, idle: 0.2, peers: 0.1, starved: 0.8, others: true}, "slow-dependency or host-contention"},
		{"others had them, and each of four peers waited for long", machine{cpus: 2, own: 0.1, idle: 0.2, peers: 0.1, starved: 2.4, others: true}, "host-contention"},
		{"the peer may use some that others have half of", machine{cpus: 2, own: 0.2, idle: 0.3, peers: 0.05, starved: 0.8}, "slow-dependency"},
		{"the process had them", machine{cpus: 2, own: 0.7, idle: 0.1, peers: 0.1, starved: 0.8}, "slow-dependency or host-contention"},
		{"the peer's quota was used up", machine{cpus: 2, own: 0.1, idle: 0.2, peers: 0.1, starved: 0.8, limited: true}, "slow-dependency"},
		{"not all that it may use are known", machine{cpus: 4, allowed: 2, own: 0.1, idle: 0.2, free: 0.1, peers: 0.1, starved: 0.8}, "slow-dependency"},
		{"the peer is elsewhere", machine{cpus: 2, own: 0.1, idle: 0.2}, "slow-dependency"},
	} {
		v := cause.Judge(attributed(t, scene{procs: 2, in: asksPeer}), cause.Settings{Host: observe(attributed(t, scene{procs: 2, in: asksPeer}), c.host)})
		got := ""
		for _, f := range v.Findings {
			got = f.Cause
		}
		for _, x := range v.Consistent {
			got += strings.Join(x.Causes, " or ")
		}
		if got != c.want {
			t.Errorf("%s: found %q, want %q: %s", c.name, got, c.want, v.Sentence)
		}
	}
}

// Who waits behind many calls of a peer waits for his turn, though the peer got no CPU.
func TestAQueueIsNoPeerWithoutACPU(t *testing.T) {
	for _, c := range []struct {
		s    scene
		want string
	}{
		{queue(1, 10, 2*ms, 2*ms), "single-worker"},
		{queue(3, 30, 2*ms, 2*ms), "pool-exhausted"},
		{queue(10, 1, 2*ms, 20*ms), "host-contention"},
	} {
		v := cause.Judge(attributed(t, c.s), cause.Settings{Host: observe(attributed(t, c.s), machine{cpus: 2, own: 0.1, idle: 0.1, peers: 0.1, starved: 0.9})})
		if len(v.Findings) == 0 || v.Findings[0].Cause != c.want {
			t.Errorf("want %s: %s %+v", c.want, v.Sentence, v.Consistent)
		}
	}
}

// Where every request is slow there is no usual time to compare with: that of the fastest calls is no wait for a CPU.
func TestAPeerThatAlwaysTakesAsLongIsNotStarved(t *testing.T) {
	for name, c := range map[string]struct {
		takes func(n int) int64
		want  string
	}{
		"each call takes as long":   {func(int) int64 { return 20 * ms }, "slow-dependency"},
		"some are answered at once": {func(n int) int64 { return []int64{2, 18, 22, 30, 26}[n%5] * ms }, "host-contention"},
	} {
		calls := 0
		a := attributed(t, scene{procs: 2, period: 80 * ms, in: func(p *play, i int) {
			for range 1 + i%40/39 { // slow requests make two
				p.leaves(serving, 0, "network", reply...)
				p.pass(p.vary(c.takes(calls)))
				calls++
				p.wakes(0, serving)
				p.runs(serving, 0)
			}
		}})
		v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.1, idle: 0.1, peers: 0.1, starved: 1.6})})
		if !v.Whole || len(v.Findings) == 0 || v.Findings[0].Cause != c.want {
			t.Errorf("%s: want %s: whole %v: %s %+v", name, c.want, v.Whole, v.Sentence, v.Findings)
		}
	}
}

// CPUs that others have are to be had with more Ps, unless its own threads have to wait for one.
func TestCPUsThatOthersHaveWithoutAContestAreLeft(t *testing.T) {
	for _, s := range scenes {
		if s.finding != "overload" {
			continue
		}
		for part, want := range map[float64]string{0.1: "gomaxprocs-too-low", 0.45: "overload"} {
			a := watch(attributed(t, s.scene), events.Queued, part, 0)
			v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 4, own: 0.3, idle: 0.05})})
			if !slices.ContainsFunc(v.Findings, func(f cause.Finding) bool { return f.Cause == want }) {
				t.Errorf("%s, threads wait for a CPU for %g of a slow request: found %+v, want %s", s.name, part, v.Findings, want)
			}
		}
	}
}

func TestChildrenThatHadTheCPUsAreNamed(t *testing.T) {
	a := attributed(t, scene{procs: 2, in: silent})
	v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, delayed: 0.8, own: 0.2, forked: 0.7, idle: 0.01})})
	for _, r := range v.RuledOut {
		if r.Cause == "host-contention" {
			if !strings.Contains(r.Because, "its own child processes used 70 %") {
				t.Errorf("ruled out: %s", r.Because)
			}
			return
		}
	}
	t.Errorf("host contention is not ruled out: %s", v.Sentence)
}

func TestWithoutTheHostItsCausesAreNotRuledOut(t *testing.T) {
	a := attributed(t, scene{procs: 2, in: silent})
	for _, r := range cause.Judge(a, cause.Settings{}).RuledOut {
		switch r.Cause {
		case "quota-too-low", "gomaxprocs-over-quota", "gomaxprocs-too-low", "host-contention":
			t.Errorf("%s is ruled out: %s", r.Cause, r.Because)
		}
	}
}

func TestAStarvedServiceThatLooksFastIsNotHealthy(t *testing.T) {
	starved := machine{cpus: 2, own: 0.2, idle: 0.01, delayed: 0.8, always: true}
	for _, c := range []struct {
		name    string
		change  func(m *machine)
		finding string
	}{
		{"starved", func(*machine) {}, "host-contention"},
		{"on a CPU", func(m *machine) { m.delayed = 0.1 }, ""},
		{"starved by itself", func(m *machine) { m.own = 0.95 }, ""},
		{"CPUs are idle", func(m *machine) { m.idle = 0.6 }, ""},
		{"throttled for too short", func(m *machine) { m.quota, m.use, m.stopped = 0.5, 1, 0.5 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := starved
			c.change(&m)
			a := attributed(t, scene{procs: 2})
			v := cause.Judge(a, cause.Settings{Host: observe(a, m)})
			got := ""
			if len(v.Findings) > 0 {
				got = v.Findings[0].Cause
			}
			if got != c.finding || (got == "") != (v.Verdict == "healthy") {
				t.Errorf("%s, found %q, want %q: %s", v.Verdict, got, c.finding, v.Sentence)
			}
		})
	}
}

// What probes counted of a function of C is told of a call into it.
func TestCallsIntoCAreCounted(t *testing.T) {
	a := attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, calls(serving, 20*ms, "main._Cfunc_pack", "main.encode", "main.serve"))})
	set := cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.1, more: 1, idle: 0.5})}
	set.Kernel.Cgo = &events.CgoCalls{Burst: events.Burst{ToNS: 2000 * ms}, Functions: []events.CFunction{
		{Name: "pack", Go: "main._Cfunc_pack", Calls: 300, NS: 2500 * ms, MaxNS: 20 * ms},
		{Name: "other", Go: "main._Cfunc_other", Calls: 7, NS: 900 * ms, MaxNS: 900 * ms},
		{Name: "pack", Go: "lib._Cfunc_pack", Calls: 100, NS: 500 * ms, MaxNS: 30 * ms},
	}}
	v := cause.Judge(a, set)
	if len(v.Findings) != 1 || v.Findings[0].Cause != "slow-cgo" || !slices.ContainsFunc(v.Findings[0].Evidence, func(e string) bool {
		return strings.Contains(e, "400 calls of pack") && strings.Contains(e, "7.50 ms on average, the longest 30.0 ms")
	}) {
		t.Errorf("%s: %+v", v.Sentence, v.Findings)
	}
}

// Whatever arrives while a quota stops the process waits before the runtime sees it.
func TestAQuotaThatStopsAFastServiceIsSeen(t *testing.T) {
	const stop = 60 * ms
	for _, c := range []struct {
		name    string
		procs   int
		quota   float64
		every   int // samples
		finding string
	}{
		{"five times a second", 2, 0.5, 40, "quota-too-low"},
		{"five times a second, on more Ps than it needs", 8, 0.5, 40, "gomaxprocs-over-quota"},
		{"once", 2, 0.5, 1 << 30, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: c.procs, in: func(p *play, _ int) { p.pass(3 * ms) }})
			r := observe(a, machine{quota: c.quota, use: 0.3, own: 0.3, cpus: 2})
			for i := range r.Samples {
				n := int64(1 + i/c.every)
				if i == 0 {
					n = 0
				}
				r.Samples[i].Groups[0].Throttled, r.Samples[i].Groups[0].ThrottledNS = n, n*stop
			}
			v := cause.Judge(a, cause.Settings{Host: r})
			got := ""
			if len(v.Findings) > 0 {
				got = v.Findings[0].Cause
			}
			if got != c.finding || got != "" && (v.Findings[0].Contrast != cause.BeforeContrast || v.Findings[0].ExcessNS < int64(stop)/4) {
				t.Errorf("found %+v, want %q: %s", v.Findings, c.finding, v.Sentence)
			}
		})
	}
}
