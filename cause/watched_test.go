package cause_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whylate/whylate/blame"
	"github.com/whylate/whylate/capture/kernel/events"
	"github.com/whylate/whylate/cause"
	"github.com/whylate/whylate/gotrace"
	"github.com/whylate/whylate/timeline"
)

// watch is a scene's attribution where the kernel told what thread 0, which runs the
// requests, did for a part of each slow one, in its middle. Beside it a thread of the
// process has as many of two CPUs as own says.
func watch(a *blame.Attribution, why events.State, part float64, own int) *blame.Attribution {
	return watchThread(a, 0, why, part, own)
}

// watchThread is watch, for another thread than 0, and with the processes behind which it waits, one after the other.
func watchThread(a *blame.Attribution, tid int, why events.State, part float64, own int, behind ...int) *blame.Attribution {
	t := a.Timeline()
	out := []events.Stretch{}
	last := int64(t.Start)
	on := func(until int64) events.Stretch {
		s := events.Stretch{TID: tid, Out: until, OnNS: until - last}
		last = until
		return s
	}
	for i := range own {
		out = append(out, events.Stretch{TID: 100 + i, Out: int64(t.End), OnNS: int64(t.Duration())})
	}
	s := events.Stretch{}
	add := func(until int64) {
		x := on(until)
		x.OffNS, x.QueueNS, x.Flags, x.NR, x.Behind = s.OffNS, s.QueueNS, s.Flags, s.NR, s.Behind
		out = append(out, x)
	}
	for _, r := range a.Found().Requests {
		d := int64(float64(r.Duration()) * part)
		me := &t.Gs[r.Parts[0].G]
		if int64(r.Duration()) <= slowRequest || d == 0 || me.Seg(me.SegmentAt(r.Start()+1)).P == 1 {
			continue
		}
		from := int64(r.Start()) + (int64(r.Duration())-d)/2
		add(from)
		s, last = events.Stretch{OffNS: d, NR: -1}, from+d
		switch why {
		case events.Queued, events.Crowded:
			s.QueueNS, s.Flags = d, events.Preempted
			if len(behind) > 0 {
				s.Behind = behind[len(out)%len(behind)]
			}
		case events.Stopped:
			s.QueueNS, s.Flags = d, events.Preempted|events.Throttled
		case events.Faulted:
			s.Flags = events.Uninterruptible
		case events.Blocked:
			s.Flags, s.NR = events.Uninterruptible, 74
		case events.Slept:
			s.NR = 35
		}
	}
	add(int64(t.End))
	h := events.Header{PID: 1, Recorder: recorder, CPUs: 2, Arch: "amd64"}
	if len(behind) > 0 {
		h.Fields = events.Fields
	}
	after := &events.After{Processes: []events.Process{{PID: 5, Name: "pack"}, {PID: 6, Name: "pack"}, {PID: 7, Name: "bur\nner"}, {PID: 11, Name: "cc"}, {PID: 12, Name: "cc"}, {PID: 13, Name: "cc"}}}
	return blame.Attribute(t, a.Found(), blame.Options{Watch: events.New(h, after, out)})
}

// recorder is the process that recorded.
const recorder = 9

// Who records has CPUs of the machine, too: what threads wait for behind him would not be without the recording.
func TestWhoRecordsIsNoNeighbour(t *testing.T) {
	a := attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) { p.computes(serving, 0, 20*ms, "main.scale", "main.serve") })})
	for _, c := range []struct {
		behind []int
		want   []string
	}{
		{[]int{recorder}, []string{"observer 0.8"}},
		{[]int{recorder, 7}, []string{"observer 0.4", "host-contention 0.4"}},
		{[]int{7}, []string{"host-contention 0.8"}},
	} {
		v := cause.Judge(watchThread(a, 0, events.Queued, 0.8, 0, c.behind...), cause.Settings{})
		var got []string
		for _, f := range v.Findings {
			got = append(got, fmt.Sprintf("%s %.1f", f.Cause, f.Share))
			if strings.Contains(strings.Join(f.Evidence, "\n"), "process 9") {
				t.Errorf("%v: %s says %q", c.behind, f.Cause, f.Evidence)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v: %s", c.behind, got, c.want, v.Sentence)
		}
	}
}

// Who has the CPUs is named, as far as that is known: the process itself is not, nor who has them seldom.
func TestTheNeighbourIsNamed(t *testing.T) {
	a := attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) { p.computes(serving, 0, 20*ms, "main.scale", "main.serve") })})
	const first, second, several = `"bur\nner" (process 7)`, "process 8", `"pack" (2 processes, such as 5)`
	for _, c := range []struct {
		behind       []int
		named, fixed string
	}{
		{[]int{7}, first + " 100 % of that time", first},
		{[]int{7, 7, 8}, "", first},
		{[]int{8, 8, 8, 7}, second, second},
		{[]int{5, 8, 6}, several, several}, // who has the name of another one is the same program
		{[]int{0, 8, 0}, "and with nobody 6", ""},
		{[]int{0, 8, 1}, "and with nobody 6", ""},
		{[]int{1}, "", ""},
		{nil, "", ""},
	} {
		v := cause.Judge(watchThread(a, 0, events.Queued, 0.8, 0, c.behind...), cause.Settings{})
		if len(v.Findings) != 1 || v.Findings[0].Cause != "host-contention" {
			t.Fatalf("%v: %s: %+v", c.behind, v.Sentence, v.Findings)
		}
		f := v.Findings[0]
		told := slices.ContainsFunc(f.Evidence, func(e string) bool {
			return strings.HasPrefix(e, "of others, ") && strings.Contains(e, c.named)
		})
		if told != (c.named != "" || c.fixed != "") || strings.Contains(f.Fix[0], "have "+c.fixed+" use less") != (c.fixed != "") || strings.Contains(f.Summary, "mostly behind "+c.fixed) != (c.fixed != "") {
			t.Errorf("%v: %s %q %+v", c.behind, f.Summary, f.Fix, f.Evidence)
		}
	}
}

// Beside another cause the host's CPUs are one, too, where one neighbour has them; where many have, or nobody, they come with it.
func TestWhoHasTheCPUsBesideAnotherCause(t *testing.T) {
	a := attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
		p.computes(serving, 0, 20*ms, "main.scale", "main.serve")
		p.leaves(serving, 0, "sleep", "time.Sleep", "main.serve")
		p.pass(10 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	})})
	for _, c := range []struct {
		behind      []int
		found, also bool
	}{
		{[]int{7}, true, false},
		{[]int{0}, false, true},
		{[]int{0, 7, 0, 8, 0}, false, true},
		{[]int{7, 7, 8}, true, false},
		{[]int{11, 12, 13}, true, false},
		{[]int{1, 1, 7}, false, true}, // the process itself: who had it before is not known
	} {
		v := cause.Judge(watchThread(a, 0, events.Queued, 0.4, 0, c.behind...), cause.Settings{})
		found := slices.ContainsFunc(v.Findings, func(f cause.Finding) bool { return f.Cause == "host-contention" })
		also := slices.ContainsFunc(v.Consistent, func(x cause.Consistent) bool { return slices.Equal(x.Causes, []string{"host-contention"}) })
		if v.Verdict != "cause" || v.Findings[0].Cause == "host-contention" || found != c.found || also != c.also {
			t.Errorf("%v: %s: %s; found %v, may be %v", c.behind, v.Verdict, v.Sentence, found, also)
		}
	}
}

// That the CPUs are a look-alike beside the cause is no doubt of it, though they take more.
func TestContentionBesideTheCauseIsNoDoubtOfIt(t *testing.T) {
	a := attributed(t, scene{procs: 2, cast: waitingHelper, in: func(p *play, i int) {
		if i%10 != 9 {
			p.computes(serving, 0, 6*ms, "main.scale", "main.serve")
			return
		}
		p.computes(serving, 0, 14*ms, "main.scale", "main.serve")
		p.leaves(serving, 0, "sleep", "time.Sleep", "main.serve")
		p.pass(5 * ms)
		p.wakes(0, serving)
		p.runs(serving, 0)
	}})
	for _, behind := range [][]int{{0}, {7}} {
		v := cause.Judge(watchThread(a, 0, events.Queued, 0.5, 0, behind...), cause.Settings{})
		if v.Verdict != "cause" || v.Findings[0].Cause != "timer-wait" || v.Findings[0].Share >= cause.ExplainedShare {
			t.Errorf("%v: %s: %s; %+v; %+v", behind, v.Verdict, v.Sentence, v.Findings, v.Consistent)
		}
	}
}

// A hypervisor's time looks like that on a CPU to the kernel.
func TestTheKernelDoesNotKnowWhatTheHypervisorTakes(t *testing.T) {
	computes := every(10, func(p *play) { p.computes(serving, 0, 40*ms, "main.scale", "main.serve") })
	a := watch(attributed(t, scene{procs: 2, cast: waitingHelper, in: computes}), events.OnCPU, 0, 0)
	v := cause.Judge(a, cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.5, idle: 0.01, stolen: 0.4})})
	if len(v.Findings) != 0 || len(v.Consistent) != 1 || !slices.Equal(v.Consistent[0].Causes[:2], []string{"expensive-request", "host-contention"}) {
		t.Errorf("%s: %+v", v.Sentence, v.Consistent)
	}
}

// Where samples of counters leave several causes, the kernel's scheduling events leave one.
func TestTheKernelDecides(t *testing.T) {
	calm := machine{cpus: 2, own: 0.4, idle: 0.5}
	with := func(f func(m *machine)) machine {
		m := calm
		f(&m)
		return m
	}
	crowd := with(func(m *machine) { m.delayed, m.own, m.idle = 0.6, 0.5, 0.01 })
	quota := with(func(m *machine) { m.quota, m.use, m.stopped = 0.5, 0.95, 0.4 })
	computes := every(10, func(p *play) { p.computes(serving, 0, 40*ms) })
	inC := every(10, calls(serving, 20*ms, "main._Cfunc_pack", "main.encode", "main.serve"))
	asks := every(10, func(p *play) {
		p.leaves(serving, 0, "network", reply...)
		p.pass(p.vary(20 * ms))
		p.wakes(0, serving)
		p.runs(serving, 0)
	})
	naps := every(10, func(p *play) {
		p.leaves(serving, 0, "sleep", "time.Sleep", "main.pause", "main.serve")
		p.pass(p.vary(20 * ms))
		p.wakes(0, serving)
		p.runs(serving, 0)
	})
	stops := every(10, func(p *play) {
		p.do(p.b.Range(gotrace.KindRangeBegin, serving, "stop-the-world (read mem stats)", p.stack("runtime.ReadMemStats", "main.watch", "main.serve")))
		p.pass(15 * ms)
		p.do(p.b.Range(gotrace.KindRangeEnd, serving, "stop-the-world (read mem stats)", 0))
	})
	syncs := every(10, calls(serving, 20*ms, "syscall.Fsync", "os.(*File).Sync", "main.commit", "main.serve"))
	writes := every(10, calls(serving, 20*ms, append(filewrite[:3:3], "main.note", "main.serve")...))
	reads := every(10, calls(serving, 20*ms, "syscall.read", "main.load", "main.serve"))
	for _, c := range []struct {
		name    string
		procs   int
		in      func(*play, int)
		host    machine
		why     events.State
		part    float64
		own     int
		finding string
	}{
		{"it computes, while other threads wait for a CPU", 2, computes, crowd, events.OnCPU, 0, 0, "expensive-request"},
		{"it seems to compute, and others have the CPU", 2, computes, calm, events.Queued, 0.8, 0, "host-contention"},
		{"it seems to compute, and its own threads have the CPUs", 2, computes, calm, events.Queued, 0.8, 2, ""},
		{"it seems to compute, and the threads of too many Ps have the CPUs", 8, computes, calm, events.Crowded, 0.8, 2, "gomaxprocs-over-quota"},
		{"the threads of too many Ps have the CPUs for longer than a quota stops it", 8, computes, with(func(m *machine) { m.quota, m.use, m.stopped = 1, 0.4, 0.15 }), events.Crowded, 0.8, 2, "gomaxprocs-over-quota"},
		{"it seems to compute, and a quota has stopped it", 2, computes, with(func(m *machine) { m.quota, m.use, m.stopped = 0.5, 0.97, 0.8 }), events.Stopped, 0.8, 0, "quota-too-low"},
		{"it computes longer than a quota stops it", 2, computes, quota, events.Stopped, 0.15, 0, "expensive-request"},
		{"others have the CPU for longer than a quota stops it", 2, computes, with(func(m *machine) { m.quota, m.use, m.stopped = 0.5, 0.95, 0.25 }), events.Queued, 0.8, 0, "host-contention"},
		{"its own children have the CPUs", 2, computes, with(func(m *machine) { m.delayed, m.own, m.forked, m.idle = 0.8, 0.2, 0.7, 0.01 }), events.Queued, 0.8, 0, ""},
		{"others have the CPU, and no host evidence was recorded", 2, computes, machine{}, events.Queued, 0.8, 0, "host-contention"},
		{"it waits for pages, and no host evidence was recorded", 2, computes, machine{}, events.Faulted, 0.8, 0, "page-faults"},
		{"it stops the world for long, and no host evidence was recorded", 2, stops, machine{}, events.OnCPU, 0, 0, "stop-the-world"},
		{"it sleeps in a raw system call", 2, computes, calm, events.Slept, 0.8, 0, ""},
		{"it seems to compute, and waits for pages", 2, computes, calm, events.Faulted, 0.8, 0, "page-faults"},
		{"the kernel computes in a sync", 2, syncs, calm, events.OnCPU, 0, 0, "slow-disk"},
		{"a write sleeps as for a reader", 2, writes, calm, events.Slept, 0.8, 0, "sync-logging"},
		{"a write waits for a device", 2, writes, calm, events.Blocked, 0.8, 0, "slow-disk"},
		{"the kernel computes in another call", 2, reads, calm, events.OnCPU, 0, 0, "expensive-request"},
		{"C computes, while other threads wait for a CPU", 2, inC, crowd, events.OnCPU, 0, 0, "slow-cgo"},
		{"C waits, while other threads wait for a CPU", 2, inC, crowd, events.Slept, 0.8, 0, "slow-cgo"},
		{"C wants a CPU that others have", 2, inC, calm, events.Queued, 0.8, 0, "host-contention"},
		{"C touches pages that are not there", 2, inC, calm, events.Faulted, 0.8, 0, "page-faults"},
		{"a slow peer, while other threads wait for a CPU", 2, asks, crowd, events.Slept, 0.8, 0, "slow-dependency"},
		{"some sleep for longer, while other threads wait for a CPU", 2, naps, with(func(m *machine) { m.delayed, m.own = 0.99, 0.6 }), events.Slept, 0.8, 0, "timer-wait"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := watch(attributed(t, scene{procs: c.procs, cast: waitingHelper, in: c.in}), c.why, c.part, c.own)
			if x := a.Check(); x.WorstNS != 0 {
				t.Errorf("leaves do not add up: %+v", x)
			}
			set := cause.Settings{}
			if c.host.cpus > 0 {
				set.Host = observe(a, c.host)
			}
			v := cause.Judge(a, set)
			got := ""
			if len(v.Findings) > 0 {
				got = v.Findings[0].Cause
			}
			if got != c.finding || c.finding != "" && len(v.Consistent) > 0 {
				t.Errorf("found %q, want %q: %s %+v", got, c.finding, v.Sentence, v.Consistent)
			}
			if c.finding == "" && slices.ContainsFunc(v.Consistent, func(x cause.Consistent) bool { return x.Causes[0] == "expensive-request" }) {
				t.Errorf("consistent with computing: %+v", v.Consistent)
			}
		})
	}
}

// beside has another goroutine compute as long as every nth request of a scene takes, for a request as well.
func beside(s scene, n int) scene {
	cast, in := s.cast, s.in
	s.cast = func(p *play) {
		cast(p)
		p.waits(other, "", home...)
	}
	s.in = func(p *play, i int) {
		if i%n == n-1 {
			p.wakes(0, other)
			p.runs(other, 1)
			p.do(p.b.Task(other, "request"))
			defer ends(p)
		}
		in(p, i)
	}
	return s
}

// What computes has the process's own threads wait for a CPU, too: that is not somebody else's part.
func TestThatOwnThreadsHaveTheCPUsBelongsToWhatComputes(t *testing.T) {
	computes := every(10, func(p *play) { // beside little of many things
		waitsOn("sleep", 3*ms, []string{"time.Sleep", "main.pause", "main.serve"})(p, serving, 0)
		p.pass(ms)
		p.computes(serving, 0, 12*ms, "main.scale", "main.serve")
		waitsOn("network", 3*ms, fetching)(p, serving, 0)
		calls(serving, 2*ms, "syscall.Fsync", "os.(*File).Sync", "main.commit", "main.serve")(p)
	})
	for why, verdict := range map[events.State]string{events.Crowded: "cause", events.Slept: "inconclusive"} {
		a := watch(attributed(t, beside(scene{procs: 2, cast: waitingHelper, in: computes}, 10)), why, 0.2, 2)
		v := cause.Judge(a, cause.Settings{})
		if v.Verdict != verdict || len(v.Findings) != 1 || v.Findings[0].Cause != "expensive-request" || v.Findings[0].Share >= cause.ExplainedShare {
			t.Errorf("%v: %s: %s %+v %+v", why, v.Verdict, v.Sentence, v.Findings, v.Unnamed)
		}
	}
}

// Of a small tail it is asked how much what computes takes with all that comes with it: others that compute the same have the CPUs
// meanwhile, not what it computes itself.
func TestHowMuchComputingTakesIsAskedOfAllOfIt(t *testing.T) {
	for others, verdict := range map[bool]string{true: "cause", false: "inconclusive"} {
		computes := every(10, func(p *play) {
			waitsOn("sleep", 700*us, []string{"time.Sleep", "main.pause", "main.serve"})(p, serving, 0)
			p.computes(serving, 0, 2250*us)
			p.b.Sample(serving, p.stack("main.scale", "main.serve"))
			waitsOn("network", 700*us, fetching)(p, serving, 0)
			calls(serving, 600*us, "syscall.Fsync", "os.(*File).Sync", "main.commit", "main.serve")(p)
		})
		s := scene{procs: 2, cast: waitingHelper, in: computes}
		if others {
			s = beside(s, 10)
		}
		v := cause.Judge(watch(attributed(t, s), events.Crowded, 0.25, 2), cause.Settings{})
		if v.Verdict != verdict || others && (v.Findings[0].Cause != "expensive-request" || v.Findings[0].ExcessNS >= 1e6) {
			t.Errorf("others %v: %s: %s %+v %+v", others, v.Verdict, v.Sentence, v.Findings, v.Unnamed)
		}
	}
}

// A process that is in its own way looks as if others were: they have their turns, as always.
func TestABurstIsToldFromANeighbour(t *testing.T) {
	computes := every(10, func(p *play) { p.computes(serving, 0, 20*ms, "main.scale", "main.serve") })
	for _, c := range []struct {
		name string
		host machine
		own  int // threads that have a CPU beside
		want []string
	}{
		{"others use what they always do", machine{cpus: 2, own: 0.2, more: 0.4, idle: 0.4}, 1, []string{"expensive-request"}},
		{"the process uses no more than ever", machine{cpus: 2, own: 0.2, idle: 0.4}, 1, []string{"expensive-request", "host-contention"}},
		{"others use more", machine{cpus: 2, own: 0.2, more: 0.4, idle: 0.6, rush: 0.55}, 1, []string{"expensive-request", "host-contention"}},
		{"few CPUs are idle, and others have fewer than ever", machine{cpus: 2, own: 0.2, more: 0.4, idle: 0.15}, 1, []string{"expensive-request"}},
		{"few CPUs are idle, and the hypervisor takes more", machine{cpus: 2, own: 0.2, more: 0.4, idle: 0.24, rush: 0.22, stolen: 0.22}, 1, []string{"expensive-request", "host-contention"}},
		{"others compute all the time", machine{cpus: 2, own: 0.2, more: 0.4, idle: 0.01}, 1, []string{"expensive-request", "host-contention"}},
		{"none of its threads has a CPU", machine{cpus: 2, own: 0.2, more: 0.4, idle: 0.4}, 0, []string{"expensive-request", "host-contention"}},
	} {
		a := watch(attributed(t, scene{procs: 2, cast: waitingHelper, in: computes}), events.Queued, map[int]float64{0: 0.3, 1: 0.5}[c.own], c.own)
		v := cause.Judge(a, cause.Settings{Host: observe(a, c.host)})
		var got []string
		for _, f := range v.Findings {
			got = append(got, f.Cause)
		}
		if v.Verdict != "cause" || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v: %s %+v", c.name, got, c.want, v.Sentence, v.Unnamed)
		}
	}
}

// Who has the CPUs while connections are made is the peer that makes them, if it is work, and
// if nobody else computes all the time.
func TestWhatKeepsHandshakesFromACPUIsHandshakes(t *testing.T) {
	connects := []string{"crypto/tls.(*Conn).clientHandshake", "crypto/tls.(*Conn).HandshakeContext", "net/http.(*Transport).dialConn"}
	for _, c := range []struct {
		name    string
		does    []string
		host    machine
		finding string
	}{
		{"they are", connects, machine{cpus: 2, own: 0.3, idle: 0.4, always: true}, "dial-per-request"},
		{"the process computes something else", []string{"main.compress", "main.loop"}, machine{cpus: 2, own: 0.3, idle: 0.4, always: true}, "host-contention"},
		{"others compute all the time", connects, machine{cpus: 2, own: 0.3, idle: 0.01, always: true}, "host-contention"},
		{"who has the CPUs is unknown", connects, machine{}, "host-contention"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dials := func(p *play, i int) {
				d := int64(ms)
				if i%10 == 9 {
					d = 20 * ms
				}
				behindHelper("chan receive", []string{"runtime.chanrecv1", "net/http.(*Transport).getConn", "main.serve"}, connects[2:], func(p *play) {
					p.computes(helper, 1, d, c.does...)
				})(p)
			}
			a := watchThread(attributed(t, scene{procs: 2, cast: waitingHelper, in: dials}), 1, events.Queued, 0.8, 0)
			set := cause.Settings{}
			if c.host.cpus > 0 {
				set.Host = observe(a, c.host)
			}
			v := cause.Judge(a, set)
			if len(v.Findings) == 0 || v.Findings[0].Cause != c.finding {
				t.Errorf("found %+v, want %q: %s %+v", v.Findings, c.finding, v.Sentence, v.Consistent)
			}
		})
	}
}

// A trace takes each system call for a wait; the kernel's events know better.
func TestAHolderThatComputesInTheKernelIsNoWaitingOne(t *testing.T) {
	holds := every(10, behindHelper("sync", mutex, unlock, func(p *play) {
		p.pass(ms / 10)
		calls(helper, 20*ms, "syscall.Getdents", "main.refresh", "main.loop")(p)
	}))
	for _, c := range []struct {
		why     events.State
		part    float64
		finding string
	}{
		{events.OnCPU, 0, "lock-held-across-work"},
		{events.Slept, 0.9, "lock-held-across-wait"},
	} {
		a := watchThread(attributed(t, scene{procs: 2, cast: waitingHelper, in: holds}), 1, c.why, c.part, 0)
		v := cause.Judge(a, cause.Settings{})
		if len(v.Findings) == 0 || v.Findings[0].Cause != c.finding {
			t.Errorf("%v: found %+v, want %q: %s %+v", c.why, v.Findings, c.finding, v.Sentence, v.Consistent)
		}
	}
}

// A thread that wants a CPU when an answer is in makes the end of each wait for it another leaf,
// and one that is no part of what they wait for. Who waits for somebody else's call does not make
// one of his own by that.
func TestTheEndOfACallForAllIsNoCallOfWhoWaits(t *testing.T) {
	keeps := func(ns int64) doing { // what it fetched
		return func(p *play, g gotrace.GoID) {
			fetches(ns)(p, g)
			p.pass(ms / 10)
		}
	}
	for _, c := range []struct {
		name    string
		in      func(p *play, i int)
		finding string
	}{
		{"it takes as long as ever", every(20, byChannel.forAll(3, keeps(20*ms))), "cache-stampede"},
		{"each request needs it", either(20, byChannel.forAll(3, keeps(20*ms)), byChannel.forAll(3, keeps(ms/10))), "slow-dependency"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attributed(t, scene{procs: 2, cast: asking, in: c.in})
			v := cause.Judge(late(a, 1, ms/20, "main.fetch"), cause.Settings{})
			if len(v.Findings) == 0 || v.Findings[0].Cause != c.finding || v.Findings[0].Where.Function != "main.fetch" {
				t.Errorf("found %+v, want %q: %s %+v", v.Findings, c.finding, v.Sentence, v.RuledOut)
			}
		})
	}
}

// late is a scene's attribution where the kernel told that a thread wanted a CPU for so long
// before it saw the ends of waits in a function.
func late(a *blame.Attribution, tid int, ns int64, function string) *blame.Attribution {
	t := a.Timeline()
	var ends []int64
	for g := range t.Gs {
		for _, s := range t.Gs[g].Waits() {
			if slices.ContainsFunc(t.Stacks.Frames(s.Stack), func(f gotrace.Frame) bool { return f.Func == function }) {
				ends = append(ends, int64(s.End))
			}
		}
	}
	slices.Sort(ends)
	var out []events.Stretch
	last := int64(t.Start)
	s := events.Stretch{TID: tid}
	for _, end := range append(ends, int64(t.End)) {
		s.Out = end
		if len(out) < len(ends) {
			s.Out -= ns
		}
		s.OnNS = s.Out - last
		out = append(out, s)
		s, last = events.Stretch{TID: tid, OffNS: ns, QueueNS: ns, Flags: events.Preempted, NR: -1}, end
	}
	return blame.Attribute(t, a.Found(), blame.Options{Watch: events.New(events.Header{CPUs: 2, Arch: "amd64"}, nil, out)})
}

// A holder that loses its CPU does not hold for long what it holds.
func TestAHoldIsAsLongAsWhatIsDoneInIt(t *testing.T) {
	a := attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) {
		for i := range 20 {
			d := ms
			if i == 10 {
				d = 20 * ms
			}
			behindHelper("sync", mutex, unlock, func(p *play) { p.computes(helper, 1, d, "main.refresh", "main.loop") })(p)
		}
	})})
	locks := func(a *blame.Attribution) (found []string) {
		for _, f := range cause.Judge(a, cause.Settings{}).Findings {
			if !cause.Lookup(f.Cause).Contends {
				found = append(found, f.Cause)
			}
		}
		return found
	}
	if got := locks(a); !slices.Equal(got, []string{"lock-held-across-work"}) {
		t.Fatalf("one hold takes as long as all others: %v", got)
	}
	tl := a.Timeline()
	var lost []events.Stretch
	tid, last, before := -1, int64(tl.Start), events.Stretch{}
	for g := range tl.Gs {
		for i := range tl.Gs[g].Len() {
			s := tl.Gs[g].Seg(i)
			if s.Kind != timeline.Running || s.P != 1 || s.End-s.Start < timeline.Time(10*ms) {
				continue
			}
			tid = int(tl.ThreadOn(s.P, s.Start))
			out, in := int64(s.Start)+ms/2, int64(s.End)-ms/2
			before.TID, before.Out, before.OnNS = tid, out, out-last
			lost = append(lost, before)
			last, before = in, events.Stretch{OffNS: in - out, QueueNS: in - out, NR: -1, Flags: events.Preempted}
		}
	}
	before.TID, before.Out, before.OnNS = tid, int64(tl.End), int64(tl.End)-last
	lost = append(lost, before)
	w := blame.Attribute(tl, a.Found(), blame.Options{Watch: events.New(events.Header{CPUs: 2, Arch: "amd64"}, nil, lost)})
	if got := locks(w); !slices.Equal(got, []string{"lock-convoy"}) {
		t.Errorf("that one waited for a CPU meanwhile: %v", got)
	}
}

// What a hypervisor takes of what slow requests compute is not theirs.
func TestTheHypervisorIsTakenOutOfWhatRan(t *testing.T) {
	for _, c := range []struct {
		name string
		left float64 // of a CPU while requests are slow
		want []string
		like []string // of which it is not known what they are
	}{
		{"nothing", 1, []string{"expensive-request"}, nil},
		{"a quarter of it", 0.75, []string{"expensive-request", "host-contention"}, nil},
		{"half of it, and what is left may be its, too", 0.5, nil, []string{"host-contention", "expensive-request", "host-contention"}},
		{"most of it", 0.1, []string{"host-contention"}, nil},
	} {
		a := attributed(t, scene{procs: 2, cast: waitingHelper, in: every(10, func(p *play) { p.computes(serving, 0, 40*ms, "main.scale", "main.serve") })})
		tl := a.Timeline()
		var x events.Ran
		var counts []events.Ran
		for at := int64(tl.Start); at < int64(tl.End); at += 5 * ms {
			x.AtNS = at
			counts = append(counts, x)
			ran := 5 * ms
			for _, r := range a.Found().Requests {
				if in := min(int64(r.End()), at+5*ms) - max(int64(r.Start()), at); int64(r.Duration()) > slowRequest && in > 0 {
					took := int64((1 - c.left) * float64(in))
					ran, x.StolenNS = ran-took, x.StolenNS+took
				}
			}
			x.NS += ran
		}
		rec := events.New(events.Header{CPUs: 2, Arch: "amd64"}, nil, []events.Stretch{{TID: 0, Out: int64(tl.End), OnNS: int64(tl.Duration())}})
		v := cause.Judge(blame.Attribute(tl, a.Found(), blame.Options{Watch: rec.Robbed(counts)}), cause.Settings{})
		var got []string
		for _, f := range v.Findings {
			got = append(got, f.Cause)
			if said := slices.ContainsFunc(f.Evidence, func(e string) bool { return strings.Contains(e, "the hypervisor for 100 %") }); said != (f.Cause == "host-contention") {
				t.Errorf("%s: %s says %q", c.name, f.Cause, f.Evidence)
			}
		}
		slices.Sort(got)
		var like []string
		for _, x := range v.Consistent {
			like = append(like, x.Causes...)
		}
		verdict := "cause"
		if len(c.want) == 0 {
			verdict = "inconclusive"
		}
		if v.Verdict != verdict || !slices.Equal(got, c.want) || !slices.Equal(like, c.like) {
			t.Errorf("%s: %v and perhaps %v, want %v and %v: %s %+v", c.name, got, like, c.want, c.like, v.Sentence, v.Unnamed)
		}
	}
}

// What a hypervisor has of a wait in which there are many looks is known: less than half of it does not explain it. Of a short one it
// may have had all that it had between two looks.
func TestALongWaitIsNoHypervisors(t *testing.T) {
	for _, c := range []struct {
		takes  int64
		stolen float64
		want   []string
	}{
		{60 * ms, 0.2, []string{"slow-dependency"}},
		{60 * ms, 0.3, []string{"slow-dependency", "host-contention"}},
		{12 * ms, 0.2, []string{"slow-dependency", "host-contention"}},
		{12 * ms, 0.02, []string{"slow-dependency"}},
	} {
		a := attributed(t, scene{procs: 2, in: every(10, func(p *play) {
			p.leaves(serving, 0, "network", reply...)
			p.pass(p.vary(c.takes))
			p.wakes(0, serving)
			p.runs(serving, 0)
		})})
		v := cause.Judge(watch(a, events.OnCPU, 0, 0), cause.Settings{SLO: 10 * ms, Host: observe(a, machine{cpus: 2, own: 0.1, idle: 0.6, stolen: c.stolen})})
		var got []string
		for _, f := range v.Findings {
			got = append(got, f.Cause)
		}
		for _, x := range v.Consistent {
			got = append(got, x.Causes...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, %.2f stolen: %v, want %v: %s", c.takes, c.stolen, got, c.want, v.Sentence)
		}
	}
}

// What may be no more than that a busy machine makes waits longer that vary by themselves is healthy if it is little, unless there is an
// objective: then it is asked for. What happens for a reason of its own is in doubt.
func TestALittleThatABusyMachineMayDoIsHealthy(t *testing.T) {
	for _, c := range []struct {
		name    string
		reason  string
		at      []string
		takes   int64
		every   int
		slo     int64
		verdict string
	}{
		{"a peer", "network", reply, 12 * ms, 50, 0, "healthy"},
		{"a peer, of every tenth request", "network", reply, 12 * ms, 10, 0, "inconclusive"},
		{"a peer, beyond an objective", "network", reply, 12 * ms, 50, 10 * ms, "inconclusive"},
		{"a peer, for long", "network", reply, 40 * ms, 50, 0, "inconclusive"},
		{"a name", "network", []string{"internal/poll.(*FD).Read", "net.(*conn).Read", "net.(*Resolver).exchange", "net.(*Resolver).LookupHost", "main.look", "main.serve"}, 12 * ms, 50, 0, "inconclusive"},
	} {
		a := attributed(t, scene{procs: 2, requests: 1000, in: every(c.every, func(p *play) {
			p.leaves(serving, 0, c.reason, c.at...)
			p.pass(p.vary(c.takes))
			p.wakes(0, serving)
			p.runs(serving, 0)
		})})
		v := cause.Judge(watch(a, events.OnCPU, 0, 0), cause.Settings{SLO: c.slo, Host: observe(a, machine{cpus: 2, own: 0.1, idle: 0.6, stolen: 0.3})})
		if v.Verdict != c.verdict {
			t.Errorf("%s: %s, want %s: %s %+v", c.name, v.Verdict, c.verdict, v.Sentence, v.Consistent)
		}
		const says = "may be no more than that others wanted the machine's CPUs, too. Of it, slow-dependency or host-contention: "
		if (v.Verdict == "healthy") != strings.Contains(v.Sentence, says) {
			t.Errorf("%s: %s", c.name, v.Sentence)
		}
	}
}

// Where it is known who had the CPUs that a process which marks hardly got, only what has to do with them is in doubt with it.
func TestWhoHadTheCPUsOfACollectionIsKnown(t *testing.T) {
	a := attributed(t, scene{procs: 2, in: every(10, func(p *play) {
		for k := range 2 {
			p.do(p.b.Range(gotrace.KindRangeBegin, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			p.do(p.b.Range(gotrace.KindRangeBegin, serving, "GC mark assist", p.stack("runtime.mallocgc", "main.page", "main.serve")))
			p.computes(serving, 0, 10*ms, "runtime.gcDrainN", "runtime.mallocgc", "main.page", "main.serve")
			p.computes(serving, 0, 10*ms) // it is not sampled
			p.do(p.b.Range(gotrace.KindRangeEnd, serving, "GC mark assist", 0))
			p.do(p.b.Range(gotrace.KindRangeEnd, gotrace.NoGoroutine, "GC concurrent mark phase", 0))
			if k == 0 {
				p.computes(serving, 0, 10*ms)
			}
		}
	})})
	for _, c := range []struct {
		name  string
		a     *blame.Attribution
		alike []string
	}{
		{"nobody", a, []string{"gc-assist", "quota-too-low", "gomaxprocs-over-quota", "host-contention"}},
		{"others", watchThread(a, 0, events.Queued, 0.3, 0), []string{"gc-assist", "host-contention"}},
		{"its own threads", watchThread(a, 0, events.Crowded, 0.3, 2), nil},
	} {
		var alike []string
		for _, x := range cause.Judge(c.a, cause.Settings{}).Consistent {
			if x.Causes[0] == "gc-assist" {
				alike = x.Causes
			}
		}
		if !slices.Equal(alike, c.alike) {
			t.Errorf("%s had them: %v, want %v", c.name, alike, c.alike)
		}
	}
}

// Where slow requests are another endpoint, a busy machine does not hide what makes the others late.
func TestABusyMachineHidesNoOtherEndpoint(t *testing.T) {
	locked := behindHelper("sync", mutex, unlock, naps(9*ms, "main.refresh", "main.loop"))
	for lock, finding := range map[bool]string{true: "lock-held-across-wait", false: ""} {
		a := attributed(t, scene{procs: 2, requests: 1000, cast: waitingHelper, in: func(p *play, i int) {
			switch {
			case i%20 == 3:
				d := 9 * ms
				if i%40 == 3 {
					d += p.vary(8 * ms)
				}
				peerWaits(p, d, reply...)
			case i%10 == 4 && lock:
				locked(p)
			}
		}, task: func(i int) string { return map[bool]string{true: "report", false: "item"}[i%20 == 3] }})
		v := cause.Judge(watch(a, events.OnCPU, 0, 0), cause.Settings{Host: observe(a, machine{cpus: 2, own: 0.1, idle: 0.6, stolen: 0.3})})
		got := ""
		if len(v.Findings) > 0 {
			got = v.Findings[0].Cause
		}
		if got != finding || (finding == "") != (v.Verdict == "healthy") || strings.Contains(v.Sentence, "wanted the machine's CPUs") {
			t.Errorf("lock %v: %s %q, want %q: %s", lock, v.Verdict, got, finding, v.Sentence)
		}
	}
}
